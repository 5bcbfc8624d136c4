"""What a learner asked its users, in words.

All of it is public, because questions are chosen from releases and answers are seen with noise.
Saved runs contain questions as JSON, so the names of the fields are a format.
"""

import math
from dataclasses import dataclass
from typing import Any

from confide.arguments import kind, real, text, whole


@dataclass(frozen=True, slots=True)
class Question:
    """One yes/no question to the users of one round. A yes counts 1/2, a no -1/2, no answer 0.

    - `round` and `first` are the numbers of the round and of its first user. Both begin at 1.
    - `users` is how many users were asked, and `served` says which policies they followed.
    - `asked` is the question. `yes` and `no` say what these answers mean.
    - `removes` is the share of the uncertainty about values that the answers should remove.
    - `expected` is what the answers add up to by the estimate before.
    - `answer` is the released sum, with noise of the standard deviation `noise`. Both are None
      while the round is open.
    """

    round: int
    first: int
    users: int
    served: str
    asked: str
    yes: str
    no: str
    removes: float
    expected: float
    answer: float | None = None
    noise: float | None = None

    @property
    def said(self) -> str:
        """The answers in words.

        Noise is given as two standard deviations. An answer that is farther from what was expected
        than two standard deviations of noise and sampling is called a surprise.
        """
        if self.answer is None or self.noise is None:
            return "not answered yet"
        # Twice a sum of halves is how many more said yes than no.
        surplus = round(2 * self.answer)
        expected = round(2 * self.expected)
        if surplus == 0:
            words = "as many yes as no"
        else:
            words = f"{abs(surplus):,} more {'yes than no' if surplus > 0 else 'no than yes'}"
        if self.noise:
            words += f" (noise: ± {4 * self.noise:,.0f})"
        words += f"; {abs(expected):,} more {'yes' if expected >= 0 else 'no'} expected"
        # One answer of ±1/2 has a variance of at most 1/4.
        usual_error = 2 * math.sqrt(self.noise**2 + self.users / 4)
        if abs(self.answer - self.expected) > usual_error:
            words += ": a surprise"
        return words

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
        """Read a question from a file that somebody may have edited."""
        kind("question", facts, dict)
        question = cls(**{text("question", name): value for name, value in facts.items()})
        whole("round", question.round, at_least=1)
        whole("first", question.first, at_least=1)
        whole("users", question.users, at_least=0)
        for name in ("served", "asked", "yes", "no"):
            text(name, getattr(question, name))
        real("removes", question.removes)
        real("expected", question.expected)
        for name in ("answer", "noise"):
            value = getattr(question, name)
            if value is not None:
                real(name, value)
        return question
