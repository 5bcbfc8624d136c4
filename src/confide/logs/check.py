"""What is wrong with a log, in numbers, for the data holder. NOT PRIVATE."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from confide.logs import _kernels
from confide.logs.arrays import Decoder
from confide.logs.labels import KINDS, NO_LABELS, Labels
from confide.logs.reader import FilePart
from confide.privacy.assumption import Assumption

LABEL = "NOT PRIVATE: for the data holder only"
LARGEST = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Check:
    """Exact counts of what is there and what is wrong, without a value or an id.

    NOT PRIVATE: for the data holder only. `_WORDS` says what each count means. The names are keys
    of the JSON that `confide logs check` prints.
    """

    users: int = 0
    trajectories: int = 0
    rows: int = 0
    gaps: int = 0
    duplicates: int = 0
    disorder: int = 0
    nulls: int = 0
    non_finite: int = 0
    out_of_range: int = 0
    over_trajectories: int = 0
    over_steps: int = 0
    zero: int = 0
    single: int = 0
    assumptions: tuple[Assumption, ...] = ()
    labels: Labels = NO_LABELS

    def __add__(self, other: "Check") -> "Check":
        sums = {name: getattr(self, name) + getattr(other, name) for name in _COUNTS}
        return Check(**sums, assumptions=self.assumptions, labels=self.labels)

    @property
    def warnings(self) -> list[str]:
        """What makes a release of this log useless.

        `confide evaluate` and `confide learn` do not look for it, because it is not private.
        """
        warnings = []
        if 2 * self.zero > self.users:
            warnings.append(
                "MOST USERS CONTRIBUTE ZERO: a release of this log would be noise. "
                "Correct the columns that have missing values"
            )
        if 2 * self.single > self.trajectories:
            warnings.append(
                "most trajectories have one step: if they should be longer, "
                "check how the log was made"
            )
        return warnings

    def to_dict(self) -> dict[str, Any]:
        facts: dict[str, Any] = {"label": LABEL}
        facts |= {name: getattr(self, name) for name in _COUNTS}
        facts["assumptions"] = [assumption.text for assumption in self.assumptions]
        labels = self.labels.to_dict()
        if labels:
            facts["labels"] = labels
        facts["warnings"] = self.warnings
        return facts

    def __str__(self) -> str:
        lines = [
            LABEL,
            *(f"  {words:<58}{getattr(self, name):>15,}" for name, words in _WORDS.items()),
        ]
        lines += [f"  warning: {warning}" for warning in self.warnings]
        lines += [f"  assumed: {assumption}" for assumption in self.assumptions]
        for kind in KINDS:
            names = getattr(self.labels, kind)
            if names:
                lines.append(f"  {kind}s (public):")
                lines += [f"    {number:>6}  {name}" for number, name in enumerate(names)]
        return "\n".join(lines)


# What each count means. Of gaps: a step skips numbers. Of duplicates: a step number comes again. Of
# disorder: a step number is below the one before. Out of range are states and actions that are no
# whole numbers from 0 (to `states`), and probabilities outside (0, 1]. A user contributes zero
# because of a bad row within the caps.
_WORDS = {
    "users": "users",
    "trajectories": "trajectories",
    "rows": "rows",
    "gaps": "gaps between steps (allowed)",
    "duplicates": "repeated steps",
    "disorder": "steps out of order",
    "nulls": "missing values",
    "non_finite": "rewards or probabilities that are not finite",
    "out_of_range": "states, actions or probabilities out of range",
    "over_trajectories": "users with more trajectories than are counted",
    "over_steps": "users with a longer trajectory than is counted",
    "zero": "users who would contribute zero",
    "single": "trajectories of one step",
}
_COUNTS = tuple(_WORDS)


def inspect_part(part: FilePart, states: int | None) -> Check:
    """The counts of one part. All rows are looked at, also those after the caps."""
    decoder = Decoder(part.layout, part.before())
    counters = np.zeros(_kernels.INSPECTED, np.int64)
    if decoder.users.last is not None:
        counters[_kernels.I_HAS_USER] = 1
        counters[_kernels.I_USER] = decoder.users.number
    largest_state = LARGEST if states is None else states - 1
    nulls = 0
    for group, rows in part.rows(decoder):
        arguments: list[Any] = [
            *rows.arrays(),
            part.caps.trajectories,
            part.caps.steps,
            largest_state,
            counters,
        ]
        if _kernels.inspect(*arguments) >= 0:
            raise part.disorder(group)
        nulls += rows.nulls
        # A null is counted as a null only.
        counters[_kernels.NOT_FINITE] -= rows.null_numbers
    names = (name for name in _COUNTS if name != "nulls")
    counts = dict(zip(names, counters[: _kernels.COUNTS].tolist(), strict=True))
    return Check(**counts, nulls=nulls)
