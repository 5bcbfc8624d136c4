"""What a learner asked its users, in words. All of it is public: questions are chosen from releases, and answers are seen with noise."""

import math
from dataclasses import dataclass
from typing import Any

from confide.arguments import kind, real, text, whole


@dataclass(frozen=True, slots=True)
class Question:
    """One yes/no question to the users of one round. A yes counts 1/2, a no -1/2, and no answer 0.

    `answer` is the released sum, with noise of the standard deviation `noise`; both are None while the round is open.
    """

    round: int  # the first one is 1
    first: int  # the number of its first user, from 1
    users: int  # who were asked
    served: str  # which policies they followed
    asked: str
    yes: str  # what is answered with yes
    no: str
    # the share of what is uncertain about values that its answers are expected to remove
    removes: float
    expected: float  # what the answers add up to by the estimate before
    answer: float | None = None
    noise: float | None = None

    @property
    def said(self) -> str:
        """The answers in words: noise is given as two standard deviations, and so is what counts as expected."""
        if self.answer is None or self.noise is None:
            return "not answered yet"
        yes, expected = round(2 * self.answer), round(2 * self.expected)
        noise = f" (noise: ± {4 * self.noise:,.0f})" if self.noise else ""
        than = (
            f"{abs(yes):,} more {'yes than no' if yes > 0 else 'no than yes'}{noise}"
            if yes
            else f"as many yes as no{noise}"
        )
        surprise = abs(self.answer - self.expected) > 2 * math.sqrt(self.noise**2 + self.users / 4)
        return f"{than}; {abs(expected):,} more {'yes' if expected >= 0 else 'no'} expected" + (
            ": a surprise" if surprise else ""
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "round": self.round,
            "first": self.first,
            "users": self.users,
            "served": self.served,
            "asked": self.asked,
            "yes": self.yes,
            "no": self.no,
            "removes": self.removes,
            "expected": self.expected,
            "answer": self.answer,
            "noise": self.noise,
        }

    @classmethod
    def from_json(cls, facts: Any) -> "Question":
        """From a file that somebody may have edited."""
        made = cls(
            **{
                text("question", name): value
                for name, value in kind("question", facts, dict).items()
            }
        )
        for name, least in (("round", 1), ("first", 1), ("users", 0)):
            whole(name, getattr(made, name), at_least=least)
        for name in ("served", "asked", "yes", "no"):
            text(name, getattr(made, name))
        for name in ("removes", "expected", "answer", "noise"):
            value = getattr(made, name)
            if value is not None or name in ("removes", "expected"):
                real(name, value)
        return made
