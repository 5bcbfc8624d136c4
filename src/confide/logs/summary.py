"""What an import did, and what was lost, in numbers. NOT PRIVATE: for the data holder only."""

from dataclasses import asdict, dataclass
from typing import Any

from confide.logs.cells import Tally
from confide.logs.check import LABEL
from confide.logs.labels import Labels
from confide.logs.steps import Counts

_SHOWN = 10  # labels in a warning
_WORDS = {
    "rows": "rows read",
    "nobody": "rows without a user id, lost",
    "unplaced": "rows without a time or a stay, lost",
    "duplicates": "rows that were there twice, removed",
    "merged": "rows merged into another row of the same time",
    "filled": "steps whose missing reward was filled in",
    "ended": "steps in a terminal state without an action, kept",
    "incomplete": "steps with a missing cell, lost",
    "steps": "steps written",
    "stays": "trajectories written",
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
        labels = {"from_data": list(self.labels.from_data), **self.labels.to_dict()}
        return {"label": LABEL, **{name: value for name, value in asdict(self).items() if name != "labels"}, "labels": labels}

    def __str__(self) -> str:
        lines = [LABEL, *(f"  {words:<58}{self.counts[name]:>15,}" for name, words in _WORDS.items() if _told(name, self.counts))]
        lines += ["", f"  {'column':<20}{'as':<13}{'type':<10}{'missing':>11}{'unreadable':>12}{'undeclared':>12}"]
        for column in self.columns:
            missing, *others = (f"{column[name]:,}" for name in ("missing", "unreadable", "outside"))
            lines.append(
                f"  {column['name']:<20}{column['role']:<13}{column['kind']:<10}{missing:>11}{''.join(f'{each:>12}' for each in others)}"
            )
        lines += ["", *(f"  {text}" for text in self.did)]
        return "\n".join(lines + [f"  warning: {text}" for text in self.warnings])


def _told(name: str, counts: dict[str, int]) -> bool:
    return bool(counts[name]) or name in ("rows", "steps", "stays", "users", "zero")


def summary(
    path: str, key: str, counts: Counts, tallies: list[Tally], labels: Labels, said: tuple[list[str], list[str]]
) -> Imported:
    nobody = next(tally for tally in tallies if tally.role == "user").missing
    found = {**asdict(counts), "rows": counts.rows + nobody, "nobody": nobody}
    columns = tuple({name: value for name, value in asdict(tally).items() if name != "fix"} for tally in tallies)
    did, warned = said
    return Imported(path, key, {name: found[name] for name in _WORDS}, columns, labels, tuple(did), tuple(warned))


def unused(role: str, labels: list[str]) -> str:
    """A warning about declared labels that nobody has."""
    more = f" and {len(labels) - _SHOWN:,} more" if len(labels) > _SHOWN else ""
    number = f"{len(labels):,} declared {role}{'s are' if len(labels) > 1 else ' is'} never found"
    return f"{number}: {', '.join(labels[:_SHOWN])}{more}; check the spelling"


def unread(tally: Tally) -> str:
    """A warning about cells of a column that were lost."""
    return f"{tally.unreadable:,} of {tally.cells:,} cells of column {tally.name!r} cannot be read: {tally.fix}"


def without_action(state: str, rows: int, lost: int) -> str:
    """A warning about a state whose rows are lost, so that a model would not know that it exists."""
    return (
        f"{lost:,} of {rows:,} rows of state {state!r} have no action, and were lost: a learned policy would not know what leads there. If "
        f"trajectories end there, import again with --terminal {state!r}"
    )
