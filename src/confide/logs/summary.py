"""What an import did, and what was lost, in numbers.

NOT PRIVATE: for the data holder only. The names of counts are keys of the JSON that `confide logs
import` prints.
"""

from dataclasses import asdict, dataclass
from typing import Any

from confide.logs.cells import Tally
from confide.logs.check import LABEL
from confide.logs.labels import Labels
from confide.logs.steps import PERSON, Counts, Rules

# How many labels a warning lists. A matter of taste.
_MOST_LABELS_SHOWN = 10
# What each count means, in the order in which it is printed.
_WORDS = {
    "rows": "rows read",
    "nobody": "rows without a user id, lost",
    "unplaced": "rows without a time or a stay, lost",
    "duplicates": "rows that were there twice, removed",
    "wrong_rows": "rows of CSV with another number of cells, lost",
    "merged": "rows merged into another row of the same time",
    "decisions": "steps whose rows have different actions",
    "filled": "missing cells that were filled in",
    "ended": "steps in a terminal state without an action, kept",
    "incomplete": "steps with a missing cell, lost",
    "steps": "steps written",
    "stays": "trajectories written",
    "single": "trajectories of one step",
    "users": "users",
    "zero": "users without a complete step, who contribute zero",
}
# Counts that are printed even if they are 0.
_ALWAYS_SHOWN = ("rows", "steps", "stays", "users", "zero")


@dataclass(frozen=True, slots=True)
class Imported:
    """What became of a raw table. The counts are exact: NOT PRIVATE, for the data holder only."""

    path: str
    key: str
    counts: dict[str, int]
    columns: tuple[dict[str, Any], ...]
    labels: Labels
    did: tuple[str, ...]
    warnings: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        others = {name: value for name, value in asdict(self).items() if name != "labels"}
        return {"label": LABEL, **others, "labels": self.labels.to_dict()}

    def __str__(self) -> str:
        lines = [LABEL]
        lines += [
            f"  {words:<58}{self.counts[name]:>15,}"
            for name, words in _WORDS.items()
            if self.counts[name] or name in _ALWAYS_SHOWN
        ]
        lines += ["", self._header()]
        lines += [self._column_line(column) for column in self.columns]
        lines += ["", *(f"  {text}" for text in self.did)]
        lines += [f"  warning: {text}" for text in self.warnings]
        return "\n".join(lines)

    def _header(self) -> str:
        names = f"  {'column':<20}{'as':<13}{'type':<10}"
        return f"{names}{'missing':>11}{'unreadable':>12}{'undeclared':>12}"

    def _column_line(self, column: dict[str, Any]) -> str:
        names = f"  {column['name']:<20}{column['role']:<13}{column['kind']:<10}"
        missing = f"{column['missing']:,}"
        unreadable = f"{column['unreadable']:,}"
        undeclared = f"{column['outside']:,}"
        return f"{names}{missing:>11}{unreadable:>12}{undeclared:>12}"


def summary(
    path: str,
    key: str,
    counts: Counts,
    tallies: list[Tally],
    labels: Labels,
    done_and_warnings: tuple[list[str], list[str]],
) -> Imported:
    without_user = next(tally for tally in tallies if tally.role == "user").missing
    numbers = asdict(counts)
    numbers["rows"] = counts.rows + without_user
    numbers["nobody"] = without_user
    columns = tuple(
        {name: value for name, value in asdict(tally).items() if name != "fix"} for tally in tallies
    )
    done, warnings = done_and_warnings
    return Imported(
        path,
        key,
        {name: numbers[name] for name in _WORDS},
        columns,
        labels,
        tuple(done),
        tuple(warnings),
    )


def warn_of_unused(role: str, labels: list[str]) -> str:
    """A warning about declared labels that nobody has."""
    count = len(labels)
    more = ""
    if count > _MOST_LABELS_SHOWN:
        more = f" and {count - _MOST_LABELS_SHOWN:,} more"
    shown = ", ".join(labels[:_MOST_LABELS_SHOWN])
    verb = "s are" if count > 1 else " is"
    return f"{count:,} declared {role}{verb} never found: {shown}{more}; check the spelling"


def warn_of_columns(tallies: list[Tally], miswritten: dict[str, bool]) -> list[str]:
    """What was lost in which column.

    `miswritten` says by role whether cells differ from a label in upper and lower case only.
    """
    return [
        warning
        for tally in tallies
        for warning in _column_warnings(tally, miswritten.get(tally.role, False))
    ]


def _column_warnings(tally: Tally, is_miswritten: bool) -> list[str]:
    column = f"column {tally.name!r}"
    warnings = []
    if tally.cells == tally.missing:
        may_be_left_out = tally.role in ("stay", "time", "action", "probability")
        optional = ", or leave it out" if may_be_left_out else ""
        warnings.append(
            f"{column} is empty: every cell is missing; "
            f"give another column for --{tally.role}{optional}"
        )
    elif tally.role == "user" and tally.missing:
        warnings.append(
            f"{tally.missing:,} of {tally.cells:,} rows have no id in {column}, and were lost"
        )
    if tally.unreadable > tally.cells / 100:
        warnings.append(
            f"{tally.unreadable:,} of {tally.cells:,} cells of {column} cannot be read: {tally.fix}"
        )
    if tally.outside:
        case = ""
        if is_miswritten:
            case = (
                ". Some differ from a declared label in upper and lower case only: "
                "write them alike in the table"
            )
        warnings.append(
            f"{tally.outside:,} of {tally.cells:,} cells of {column} are not among the declared "
            f"{tally.role}s and count as missing: add them to the declared {tally.role}s{case}"
        )
    return warnings


def warn_of_steps(counts: Counts, tallies: list[Tally], rules: Rules) -> list[str]:
    """What makes a log useless, or another one than was meant."""
    warnings = []
    if 2 * counts.zero > counts.users:
        worst = max(tallies, key=lambda tally: tally.lost)
        if rules.drop == PERSON:
            fix = "use --drop row"
        elif worst.role == "reward":
            fix = "fill missing rewards with --fill-reward 0"
        else:
            fix = "repair it"
        warnings.append(
            f"MOST USERS CONTRIBUTE ZERO: {counts.zero:,} of {counts.users:,} have no complete "
            f"step. {worst.lost:,} cells of column {worst.name!r} are missing, unreadable or not "
            f"declared; {fix}"
        )
    if counts.wrong_rows:
        warnings.append(
            f"{counts.wrong_rows:,} rows have another number of cells than the header, "
            "and were lost"
        )
    if counts.decisions:
        warnings.append(
            f"{counts.decisions:,} steps hold rows with different actions, of which the "
            f"{rules.rows} one was taken: if they are separate decisions, use times that tell them "
            "apart, or a shorter --every"
        )
    if counts.stays and 2 * counts.single > counts.stays:
        warnings.append(
            f"{counts.single:,} of {counts.stays:,} trajectories have one step: if stays are "
            "longer, check the columns of stays and times"
        )
    return warnings


def without_action(state: str, rows: int, lost: int) -> str:
    """A warning about a state whose rows are lost: a model would not know that it exists."""
    return (
        f"{lost:,} of {rows:,} rows of state {state!r} have no action, and were lost: a learned "
        "policy would not know what leads there. If trajectories end there, import again with "
        f"--terminal {state!r}"
    )
