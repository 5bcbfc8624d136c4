"""What an import did, and what was lost, in numbers. NOT PRIVATE: for the data holder only."""

from dataclasses import asdict, dataclass
from typing import Any

from confide.logs.cells import Tally
from confide.logs.check import LABEL
from confide.logs.labels import Labels
from confide.logs.steps import PERSON, Counts, Rules

_SHOWN = 10  # labels in a warning
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
        lines = [
            LABEL,
            *(
                f"  {words:<58}{self.counts[name]:>15,}"
                for name, words in _WORDS.items()
                if _told(name, self.counts)
            ),
        ]
        lines += [
            "",
            f"  {'column':<20}{'as':<13}{'type':<10}{'missing':>11}{'unreadable':>12}{'undeclared':>12}",
        ]
        for column in self.columns:
            missing, *others = (
                f"{column[name]:,}" for name in ("missing", "unreadable", "outside")
            )
            lines.append(
                f"  {column['name']:<20}{column['role']:<13}{column['kind']:<10}{missing:>11}{''.join(f'{each:>12}' for each in others)}"
            )
        lines += ["", *(f"  {text}" for text in self.did)]
        return "\n".join(lines + [f"  warning: {text}" for text in self.warnings])


def _told(name: str, counts: dict[str, int]) -> bool:
    return bool(counts[name]) or name in ("rows", "steps", "stays", "users", "zero")


def summary(
    path: str,
    key: str,
    counts: Counts,
    tallies: list[Tally],
    labels: Labels,
    said: tuple[list[str], list[str]],
) -> Imported:
    nobody = next(tally for tally in tallies if tally.role == "user").missing
    found = {**asdict(counts), "rows": counts.rows + nobody, "nobody": nobody}
    columns = tuple(
        {name: value for name, value in asdict(tally).items() if name != "fix"} for tally in tallies
    )
    did, warned = said
    return Imported(
        path,
        key,
        {name: found[name] for name in _WORDS},
        columns,
        labels,
        tuple(did),
        tuple(warned),
    )


def unused(role: str, labels: list[str]) -> str:
    """A warning about declared labels that nobody has."""
    more = f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""
    number = f"{len(labels):,} declared {role}{'s are' if len(labels) > 1 else ' is'} never found"
    return f"{number}: {', '.join(labels[:_SHOWN])}{more}; check the spelling"


def warn_of_columns(tallies: list[Tally], miswritten: dict[str, bool]) -> list[str]:
    """What was lost in which column. `miswritten`: whether cells differ from a label in upper and lower case only, by role."""
    found = []
    for tally in tallies:
        if tally.cells == tally.missing:
            optional = (
                ", or leave it out"
                if tally.role in ("stay", "time", "action", "probability")
                else ""
            )
            found.append(
                f"column {tally.name!r} is empty: every cell is missing; give another column for --{tally.role}{optional}"
            )
        elif tally.role == "user" and tally.missing:
            found.append(
                f"{tally.missing:,} of {tally.cells:,} rows have no id in column {tally.name!r}, and were lost"
            )
        if tally.unreadable > tally.cells / 100:
            found.append(
                f"{tally.unreadable:,} of {tally.cells:,} cells of column {tally.name!r} cannot be read: {tally.fix}"
            )
        if tally.outside:
            case = ". Some differ from a declared label in upper and lower case only: write them alike in the table"
            found.append(
                f"{tally.outside:,} of {tally.cells:,} cells of column {tally.name!r} are not among the declared {tally.role}s and "
                f"count as missing: add them to the declared {tally.role}s{case if miswritten.get(tally.role) else ''}"
            )
    return found


def warn_of_steps(counts: Counts, tallies: list[Tally], rules: Rules) -> list[str]:
    """What makes a log useless, or another one than was meant."""
    found = []
    if 2 * counts.zero > counts.users:
        worst = max(tallies, key=lambda tally: tally.lost)
        fix = "fill missing rewards with --fill-reward 0" if worst.role == "reward" else "repair it"
        fix = "use --drop row" if rules.drop == PERSON else fix
        found.append(
            f"MOST USERS CONTRIBUTE ZERO: {counts.zero:,} of {counts.users:,} have no complete step. {worst.lost:,} cells of column "
            f"{worst.name!r} are missing, unreadable or not declared; {fix}"
        )
    if counts.wrong_rows:
        found.append(
            f"{counts.wrong_rows:,} rows have another number of cells than the header, and were lost"
        )
    if counts.decisions:
        found.append(
            f"{counts.decisions:,} steps hold rows with different actions, of which the {rules.rows} one was taken: if they are separate "
            "decisions, use times that tell them apart, or a shorter --every"
        )
    if counts.stays and 2 * counts.single > counts.stays:
        found.append(
            f"{counts.single:,} of {counts.stays:,} trajectories have one step: if stays are longer, check the columns of stays and times"
        )
    return found


def without_action(state: str, rows: int, lost: int) -> str:
    """A warning about a state whose rows are lost, so that a model would not know that it exists."""
    return (
        f"{lost:,} of {rows:,} rows of state {state!r} have no action, and were lost: a learned policy would not know what leads there. If "
        f"trajectories end there, import again with --terminal {state!r}"
    )
