"""The rows of whole users as steps: in time order, stay after stay, without duplicates."""

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arguments import choice, real
from confide.logs import _import_kernels as kernels
from confide.logs.cells import LARGEST, MISSING, Interval
from confide.logs.sorting import Columns

LAST, FIRST = "last", "first"
_TOGETHER = 100  # rows of one step that are compared with each other
REWARDS = ("sum", "mean", LAST, FIRST)
ROW, PERSON = "row", "person"


@dataclass(frozen=True, slots=True)
class Rules:
    """How several rows of one time become a step, and what happens if a cell is missing.

    `rows`: which of the values that are there is taken, the last or the first in the order of the
    table. `rewards`: of these, or their sum or mean. With `every`, rows of a trajectory within that
    length are of one time. `drop`: the step (`row`), or the whole person, who then contributes
    zero. `fill`: the reward of a step that has none. `terminal`: states in which no action is
    taken, so that a missing one is not needed.
    """

    rows: str = LAST
    rewards: str = "sum"
    drop: str = ROW
    fill: float | None = None
    fill_state: int | None = None  # the state of steps that have none
    fill_action: int | None = None
    every: Interval | None = None  # the length of a step; None: each time is a step of its own
    terminal: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        choice("rows", self.rows, (LAST, FIRST))
        choice("rewards", self.rewards, REWARDS)
        choice("drop", self.drop, (ROW, PERSON))
        if self.fill is not None:
            real("fill", self.fill)


@dataclass(slots=True)
class Counts:
    """What became of rows and people. NOT PRIVATE."""

    rows: int = 0  # of people; those without an id are lost before
    unplaced: int = 0  # without a time, or without a stay
    duplicates: int = 0
    merged: int = 0  # rows that became part of another row's step
    decisions: int = 0  # steps whose rows have different actions, of which one was taken
    filled: int = 0  # cells of steps that were missing, and were filled in
    ended: int = 0  # steps in a terminal state whose action was missing, and is not needed
    incomplete: int = 0  # steps with a missing cell
    steps: int = 0  # written
    stays: int = 0
    single: int = 0  # trajectories of one step
    users: int = 0
    zero: int = 0  # users who have no step, and contribute zero
    wrong_rows: int = 0  # rows of CSV files with another number of cells

    def add(self, other: "Counts") -> None:
        for each in fields(Counts):
            setattr(self, each.name, getattr(self, each.name) + getattr(other, each.name))


def steps_of(rows: Columns, rules: Rules) -> tuple[Columns, Counts]:
    """Steps in the order of users, stays and times.

    A user without any has one row without a state, so that the number of users is the
    number of ids, whatever is in anybody's cells."""
    counts = Counts(rows=len(rows["user"]))
    placed = rows.pop("placed")
    bad = np.zeros(0, np.uint64)  # people with a row that cannot be placed
    if not placed.all():
        counts.unplaced = int((~placed).sum())
        bad = rows["user"][~placed]
        rows = {name: values[placed] for name, values in rows.items()}
    rows = _ordered(rows)
    people = np.union1d(rows["user"][_changes(rows["user"])], bad)
    counts.users = len(people)
    rows, starts = _distinct(rows, counts)
    if rules.every is not None:
        rows["time"] = rules.every.numbers(rows["time"], _first_of_stay(rows))
        near = (rows["time"] >= 0) & (rows["time"] <= LARGEST)  # others have no number of a step
        counts.unplaced += int((~near).sum())
        bad = np.union1d(bad, rows["user"][~near])
        rows = {name: values[near] for name, values in rows.items()}
        starts = np.flatnonzero(_changes(rows["user"], rows["trajectory"], rows["time"]))
    steps = _merged(rows, starts, rules, counts)
    steps["step"] = _numbered(steps) if rules.every is None else steps["time"].astype(np.int32)
    kept = _complete(steps, rules, counts)
    if rules.drop == PERSON:
        kept &= ~np.isin(steps["user"], np.concatenate([bad, steps["user"][~kept]]))
    steps = {name: values[kept] for name, values in steps.items() if name != "time"}
    counts.steps = len(steps["user"])
    begins = np.append(np.flatnonzero(_changes(steps["user"], steps["trajectory"])), counts.steps)
    counts.stays = len(begins) - 1
    counts.single = int((np.diff(begins) == 1).sum())
    return _with_everybody(steps, people, counts), counts


def _ordered(rows: Columns) -> Columns:
    user: Any = rows["user"]
    order = kernels.radix_order(user)
    kernels.order_times(user, rows["time"], order)
    number = np.zeros(len(order), np.int64)
    if "stay" in rows:
        kernels.order_stays(user, rows["stay"], order, number)
    found: Columns = {name: values[order] for name, values in rows.items() if name != "stay"}
    found["trajectory"] = number.astype(np.int32)
    return found


def _changes(*columns: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Where one of the columns differs from the row before; the first row does."""
    found = np.ones(len(columns[0]), np.bool_)
    if len(found):
        found[1:] = np.logical_or.reduce([values[1:] != values[:-1] for values in columns])
    return found


def _distinct(rows: Columns, counts: Counts) -> tuple[Columns, npt.NDArray[np.int64]]:
    """Rows without those that are there twice, and where steps start.

    A row that differs from another one of the same time only by cells
    that are missing is a duplicate, too."""
    new = _changes(rows["user"], rows["trajectory"], rows["time"])
    several = np.flatnonzero(~(new & np.append(new[1:], True)))
    if not len(several):
        return rows, np.flatnonzero(new)
    step = np.cumsum(new)
    cells = [
        rows[name][several] for name in ("probability", "reward", "action", "state") if name in rows
    ]
    missing = np.stack(
        [np.isnan(values) if values.dtype == np.float64 else values == MISSING for values in cells]
    )
    bits = np.stack(
        [
            values.view(np.int64) if values.dtype == np.float64 else values.astype(np.int64)
            for values in cells
        ]
    )
    order = np.lexsort((*bits, step[several]))
    again = np.zeros(len(several), np.bool_)
    again[order] = ~_changes(step[several][order], *bits[:, order])
    left = np.flatnonzero(~again)
    part = np.zeros(len(left), np.bool_)
    starts = np.append(np.flatnonzero(_changes(step[several][left])), len(left))
    kernels.mark_subsumed_rows(
        starts,
        np.ascontiguousarray(bits[:, left]),
        np.ascontiguousarray(missing[:, left]),
        _TOGETHER,
        part,
    )
    again[left[part]] = True
    counts.duplicates = int(again.sum())
    kept = np.ones(len(step), np.bool_)
    kept[several[again]] = False
    return {name: values[kept] for name, values in rows.items()}, np.flatnonzero(
        _changes(step[kept])
    )


def _merged(rows: Columns, starts: npt.NDArray[np.int64], rules: Rules, counts: Counts) -> Columns:
    """One row per step: of each column a value that is there, if any is."""
    n = len(rows["user"])
    counts.merged = n - len(starts)
    if not counts.merged:
        return rows
    found: Columns = {name: rows[name][starts] for name in ("user", "trajectory", "time")}
    for name in ("state", "action", "probability", "reward"):
        if name in rows:
            values: Any = rows[name]
            there = ~np.isnan(values) if values.dtype == np.float64 else values != MISSING
            rule = rules.rewards if name == "reward" else rules.rows
            found[name] = _taken(values, there, starts, rule)
            if name == "action":
                highest = np.maximum.reduceat(values, starts)
                lowest = np.minimum.reduceat(np.where(there, values, LARGEST), starts)
                counts.decisions = int((highest > lowest).sum())
    return found


def _taken(
    values: Any, there: npt.NDArray[np.bool_], starts: npt.NDArray[np.int64], rule: str
) -> npt.NDArray[Any]:
    n = len(values)
    if rule in (LAST, FIRST):
        places = np.where(there, np.arange(n), -1 if rule == LAST else n)
        chosen = (
            np.maximum.reduceat(places, starts)
            if rule == LAST
            else np.minimum.reduceat(places, starts)
        )
        none_chosen = (chosen < 0) | (chosen == n)
        return values[np.where(none_chosen, starts, chosen)]  # type: ignore[no-any-return]
    number = np.add.reduceat(there.astype(np.int64), starts)
    total = np.add.reduceat(np.where(there, values, 0.0), starts)
    return np.where(number == 0, np.nan, total / np.maximum(number, 1) if rule == "mean" else total)


def _first_of_stay(rows: Columns) -> npt.NDArray[np.int64]:
    """The first row of each row's stay [row]."""
    new = np.flatnonzero(_changes(rows["user"], rows["trajectory"]))
    return np.repeat(new, np.diff(np.append(new, len(rows["user"]))))


def _numbered(steps: Columns) -> npt.NDArray[np.int32]:
    """From 0 in each stay. Steps that are dropped later are counted, too: they leave a gap."""
    return (np.arange(len(steps["user"])) - _first_of_stay(steps)).astype(np.int32)


def _complete(steps: Columns, rules: Rules, counts: Counts) -> npt.NDArray[np.bool_]:
    reward = steps["reward"]
    if rules.fill is not None:
        empty = np.isnan(reward)
        counts.filled += int(empty.sum())
        steps["reward"] = reward = np.where(empty, rules.fill, reward)
    kept: npt.NDArray[np.bool_]
    for name, value in (("state", rules.fill_state), ("action", rules.fill_action)):
        if value is not None and name in steps:
            empty = steps[name] == MISSING
            counts.filled += int(empty.sum())
            steps[name] = np.where(empty, np.int32(value), steps[name])
    kept = np.isfinite(reward) & (steps["state"] != MISSING)
    if "action" in steps:
        ended = np.isin(steps["state"], rules.terminal) & (steps["action"] == MISSING)
        counts.ended = int(ended.sum())
        steps["action"] = np.where(ended, np.int32(0), steps["action"])
        kept &= steps["action"] != MISSING
    if "probability" in steps:
        kept &= ~np.isnan(steps["probability"])
    counts.incomplete = int((~kept).sum())
    return kept


def _with_everybody(steps: Columns, people: npt.NDArray[Any], counts: Counts) -> Columns:
    lost = np.setdiff1d(people, steps["user"][_changes(steps["user"])], assume_unique=True)
    counts.zero = len(lost)
    if not len(lost):
        return steps
    nothing = {
        name: np.full(len(lost), _NOTHING.get(name, 0), values.dtype)
        for name, values in steps.items()
    }
    together = {name: np.concatenate([values, nothing[name]]) for name, values in steps.items()}
    together["user"] = np.concatenate([steps["user"], lost])
    order = np.argsort(together["user"], kind="stable")
    return {name: values[order] for name, values in together.items()}


_NOTHING = {"state": MISSING, "action": MISSING, "reward": 0, "probability": 1}
