"""Improvement bounds: that a policy is better than the logged one by at least so much, tested on
users who were held out.

`improvement_question.py` computes a bound; this file holds it, and says what it rests on.

- What leaves this file: `improvement.json` (format `_FORMAT`) and `improvement_certificate.json`.
  A ledger stores the same bytes. The texts of the assumptions stand in certificates, and the keys
  of `to_json` in what other programs read.
- What may not be changed freely: the format, and the words "proved" and "measured" in `_BASIS`,
  unless a proof or a measurement changed.
"""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confide._durable import output, replace_files
from confide.arguments import choice
from confide.errors import StateError
from confide.evaluation.estimate import DAMAGED
from confide.offline.gain_planning import LEVEL
from confide.privacy.assumption import Assumption
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee
from confide.release.value import NO_VALUE, Value

_FORMAT = "confide-improvement/4"
METHODS = ("auto", "weights", "model")
# The level of the interval of the policy's value. A matter of taste; reports state it.
VALUE_LEVEL = 0.9
# What is proved and what is measured of a bound by each method.
_BASIS = {
    "weights": (
        "proved: clipping weights only lowers the mean gain, if the logged probabilities are those "
        "with which actions were taken and "
        "rewards are as stated; the level was computed for the worst two-point laws of gains "
        "(benchmarks/results/improvement_level.md), and measured: "
        "benchmarks/results/improvement.md"
    ),
    "model": "measured, not proved: 478 of 480 bounds were true in the simulations of "
    "benchmarks/results/improvement.md",
}


_WHAT_LOWERS_A_BOUND = (
    "What makes a bound low: noise, few users, and whatever is not known of a trajectory. It "
    "counts up to the first step that is missing, "
    "and as the worst case after it. If many cells are missing, import the log with --fill-state, "
    "--fill-action or --fill-reward"
)
_NOTHING_UNRECORDED = Assumption(
    "nothing-unrecorded",
    "Nothing that the log does not record influenced both the choice of the action and what "
    "followed. "
    "If those who decided saw more than the log contains, a bound may be false whatever its "
    "confidence is, "
    "and no test on the same log can show it.",
)
_SAME_FUTURE = Assumption(
    "same-future",
    "People who are treated in future are like those in the log, and actions do to them what they "
    "did in the log.",
)
# What a bound, or a value, assumes about how the log came about, by method. It is written for those
# who know where the log comes from.
ASSUMPTIONS = {
    "weights": (
        _NOTHING_UNRECORDED,
        Assumption(
            "logged-probabilities",
            "The probabilities in the log are those with which the actions were chosen.",
        ),
        _SAME_FUTURE,
    ),
    "model": (
        _NOTHING_UNRECORDED,
        Assumption(
            "state-is-enough",
            "The recorded state is enough to predict what follows: of two people in the same state "
            "who get the same action, "
            "neither has better prospects because of what happened before.",
        ),
        _SAME_FUTURE,
    ),
}


@dataclass(frozen=True, slots=True, eq=False)
class Improvement:
    """PUBLIC: with confidence `level`, the value of the policy is at least `bound` above that of
    the logged policy.

    Values are expected returns over the first `horizon` steps of a trajectory. A bound that is not
    positive shows nothing.
    """

    bound: float
    # "weights" or "model".
    method: str
    # The statement is about following the policy with this probability at each step, and going on
    # as logged otherwise. 1: it is about the policy itself.
    share: float
    # The clip of the weights, with the method "weights".
    clip: float | None
    horizon: int
    # How many users the policy was tested on.
    users: int
    guarantee: Guarantee
    certificate: Certificate | None = field(repr=False)
    # The value of the policy itself with a 90 % interval, where counts of the same users were
    # released.
    learned: Value = NO_VALUE
    level: float = LEVEL

    @property
    def shown(self) -> bool:
        return self.bound > 0

    @property
    def basis(self) -> str:
        """What is proved, what is measured, and what makes a bound low whatever the data are."""
        return f"{_BASIS[self.method]}. {_WHAT_LOWERS_A_BOUND}"

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What must be true of the log, besides what was computed.

        Nobody can test it with the log alone.
        """
        return assumptions_of(self.method, with_value=self.learned.value is not None)

    def __str__(self) -> str:
        who = (
            "the policy"
            if self.share == 1
            else f"the policy, followed at {100 * self.share:.3g} % of the steps,"
        )
        how = f"{self.users:,} people it was not learned from, method {self.method}"
        if not self.shown:
            return (
                "not shown to be better than the logged policy: the lower bound of the gain is "
                f"{self.bound:.3g} in the return of "
                f"{self.horizon:,} steps, which is not above zero (tested on {how})"
            )
        return (
            f"{who} is better than the logged policy by at least {self.bound:.3g} in the return of "
            f"{self.horizon:,} steps, "
            f"with {100 * self.level:g} % confidence (tested on {how})"
        )

    def to_json(self) -> dict[str, Any]:
        names = ("bound", "method", "share", "clip", "horizon", "users", "level")
        return {name: getattr(self, name) for name in names} | {
            "learned": self.learned.to_json(),
            "shown": self.shown,
            "text": str(self),
            "basis": self.basis,
            "assumptions": [assumption.text for assumption in self.assumptions],
        }

    def to_bytes(self) -> bytes:
        """JSON: what a ledger stores, and hands out again."""
        facts = self.to_json() | {"format": _FORMAT, "guarantee": self.guarantee.to_json()}
        facts["certificate"] = self.certificate.document if self.certificate else None
        return json.dumps(facts, indent=1, allow_nan=False).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Improvement":
        try:
            facts = json.loads(data)
            if facts["format"] != _FORMAT:
                raise StateError(
                    f"the bound has format {facts['format']}, this version of confide reads "
                    f"{_FORMAT}"
                )
            names = ("bound", "method", "share", "clip", "horizon", "users")
            certificate = Certificate(facts["certificate"]) if facts["certificate"] else None
            # "auto" is a way to choose a method. It is never the method of a bound.
            choice("method", facts["method"], METHODS[1:])
            bound = cls(
                **{name: facts[name] for name in names},
                guarantee=Guarantee.from_json(facts["guarantee"]),
                certificate=certificate,
                learned=_read_value(facts["learned"]),
            )
            # Fields that are no numbers cannot be printed, so this refuses them.
            str(bound)
            return bound
        except DAMAGED as error:
            raise StateError(
                "this is not an improvement bound, or it is damaged or cut off: "
                f"{type(error).__name__}"
            ) from None

    def save(self, folder: str | Path) -> None:
        """`improvement.json` and `improvement_certificate.json`, of its privacy, into a folder:
        both are public.
        """
        with output(Path(folder)), replace_files(Path(folder), last="improvement.json") as target:
            if self.certificate:
                self.certificate.save(target / "improvement_certificate.json")
            (target / "improvement.json").write_bytes(self.to_bytes())


def _read_value(stored: dict[str, float | None]) -> Value:
    """A saved value, whose interval must have both ends and hold the value, or no end at all."""
    value = Value(stored["value"], stored["low"], stored["high"])
    if value.value is None or value.low is None or value.high is None:
        if value.low is not None or value.high is not None:
            raise ValueError
    elif not value.low <= value.value <= value.high:
        raise ValueError
    return value


def assumptions_of(method: str, *, with_value: bool) -> tuple[Assumption, ...]:
    """What a bound by this method assumes.

    A value from counts assumes in any case what the method "model" assumes.
    """
    of_bound = ASSUMPTIONS[method]
    if method == "model" or not with_value:
        return of_bound
    of_value = ASSUMPTIONS["model"]
    return of_bound + tuple(assumption for assumption in of_value if assumption not in of_bound)
