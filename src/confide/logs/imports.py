"""A raw table, as a log: encoded, sorted, without duplicates, one row per step, in memory that does not grow with it."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from confide import arguments
from confide._durable import building
from confide._extras import need
from confide.errors import InvalidParameter, LogError
from confide.logs import raw
from confide.logs.cells import (
    ISO,
    LARGEST,
    MISSING,
    Categories,
    Interval,
    Tally,
    Times,
    id_column,
    numbers,
    texts,
)
from confide.logs.columns import Columns
from confide.logs.identity import KEY, PseudonymTable, hashed, key_in
from confide.logs.labels import KINDS, Labels, Vocabulary, checked, named, vocabulary
from confide.logs.sorting import Spill
from confide.logs.steps import PERSON, Counts, Rules, steps_of
from confide.logs.summary import (
    Imported,
    summary,
    unused,
    warn_of_columns,
    warn_of_steps,
    without_action,
)
from confide.logs.writing import write_batches

Progress = Callable[[str, int, int], None]  # what is done, how much of it, and in all
Declared = int | Sequence[str] | Mapping[str, str] | None
_STAY_SEED = 0x5DEECE66D
_FIXES = {
    "user": "give the column of ids",
    "stay": "give the column of ids of stays",
    "time": "give each of its formats with --time-format, such as '%d/%m/%Y %H:%M', or iso",
    "state": "if they are labels, list them in a file, one per line, and give it as --states-file",
    "action": "if they are labels, list them in a file, one per line, and give it as --actions-file",
    "reward": "write numbers with a decimal point, or use --decimal , if they have a decimal comma",
    "probability": "write numbers with a decimal point, or use --decimal , if they have a decimal comma",
}


def import_log(
    source: Any,
    out: str | Path,
    *,
    user: str = "user",
    stay: str | None = None,
    time: str | None = None,
    state: str = "state",
    reward: str = "reward",
    action: str | None = None,
    probability: str | None = None,
    states: Declared = None,
    actions: int | Sequence[str] | None = None,
    in_order: bool = False,
    rows: str = "last",
    rewards: str = "sum",
    drop: str = "row",
    fill_reward: float | None = None,
    fill_state: str | int | None = None,
    fill_action: str | int | None = None,
    terminal: Sequence[str | int] = (),
    time_format: str | Sequence[str] | None = None,
    every: str | None = None,
    delimiter: str = ",",
    decimal: str = ".",
    key: str | Path | None = None,
    progress: Progress | None = None,
) -> Imported:
    """A raw table as a log that `open` reads under its usual names; what was done and lost, for the data holder only.

    Parameters
    ----------
    source: a CSV, Parquet or Arrow file, a data frame (pandas, Polars, Arrow, ...), a Minari data set or "minari:NAME"; or a list of
        these, with the same columns. Rows may be in any order, also those of one user in several files.
    out: the Parquet file to write; it is there when all of it is, and readable by its owner only.
    user, stay, time, state, reward, action, probability: the names of the columns. Without `stay` all rows of a user are one trajectory.
    in_order: states that the rows of each user are in the order of time, where the table has no column of times.
    states, actions: public: the labels in the order of their numbers, or how many numbers there are. A value that is none of them is
        missing. States may be {label: cluster}: then the log has the clusters only.
    rows, rewards: of several rows of one time "last" or "first" is taken; rewards may be added up ("sum") or averaged ("mean").
    every: the public length of a step, as "4h" for timestamps or "4" for numbers: rows of a trajectory within it are one step. Days and
        weeks are those of the calendar (UTC); other lengths are counted from the first row. A length without a row leaves a gap. Units:
        us, ms, s, min, h, d, w.
    drop: a step with a missing cell is left out ("row"), or its whole "person". `fill_reward`: the reward where it is missing.
    fill_state, fill_action: public: the declared label or number that a missing state or action gets. It is a state or an action of its
        own then, and the step leaves no gap.
    terminal: public: labels or numbers of the states in which trajectories end. No action is taken there, so a step of such a state is
        kept if its action is missing; it is 0 in the log.
    time_format: of times that are text; of several, the first that fits a cell is used ("iso" for ISO 8601). Without it a text is a
        number or an ISO 8601 date, whichever it has the form of.
    delimiter, decimal: the character between the cells of a CSV file; the decimal mark of rewards and probabilities that are text.
    key: the file with the key under which users' ids are hashed, made if it is not there; by default `confide.key` beside `out`.
    """
    need("logs", "a log")
    columns = Columns(user, stay, time, state, reward, action, probability)
    declared = {"state": _declared("states", states), "action": _declared("actions", actions)}
    _check_order(time, arguments.flag("in_order", in_order))
    rules = Rules(
        rows, rewards, drop, fill_reward, every=None if every is None else Interval(every)
    )
    state_filling = _filling("fill_state", fill_state, declared["state"])
    rules = replace(
        rules,
        fill_state=state_filling,
        fill_action=_filling("fill_action", fill_action, declared["action"]),
    )
    _check_reading(every, time, delimiter, decimal, progress)
    ends = _check_terminal(terminal, columns, declared["state"])
    target = _target(source, out)
    key_path = Path(arguments.path("key", key)) if key is not None else target.with_name(KEY)
    table = RawTable(columns, declared, _formats(time_format), decimal, rules.every)
    csv_format = raw.CsvFormat(delimiter, table.labelled)
    return _import(
        source, target, table, csv_format, replace(rules, terminal=ends), key_path, progress
    )


def _import(
    source: Any,
    target: Path,
    table: "RawTable",
    csv_format: raw.CsvFormat,
    rules: Rules,
    key: Path,
    progress: Progress | None,
) -> Imported:
    """Read the whole table, then write the log."""
    with building(target) as place:
        report = (
            (lambda done, total: progress("reading", done, total)) if progress is not None else None
        )
        batches = raw.batches(source, table.names, csv_format, report)
        spill = _spilled(batches, table, PseudonymTable(key_in(key)), place.parent)
        labels = table.labels()
        counts = _written(place, spill, table, labels, rules, progress)
    counts.wrong_rows = csv_format.wrong_rows
    warnings = [
        *warn_of_steps(counts, table.tallies, rules),
        *table.warnings(labels, rules.terminal),
    ]
    steps = _did(table.columns, rules, labels, key)
    return summary(str(target), str(key), counts, table.tallies, labels, (steps, warnings))


def _check_order(time: str | None, in_order: bool) -> None:
    """Refuse a table that would be taken in a wrong order: rows that are not sorted look like any other log."""
    if time is None and not in_order:
        raise InvalidParameter(
            "the order of a user's rows is not known: give the column of times (--time), or, if the rows of each user are in the order "
            "of time, say so (--in-order)"
        )
    if time is not None and in_order:
        raise InvalidParameter(
            "in_order (--in-order) is for tables without a column of times: omit it"
        )


def _check_reading(
    every: str | None, time: str | None, delimiter: str, decimal: str, progress: Any
) -> None:
    if every is not None and time is None:
        raise InvalidParameter("every needs times: give their column as time (--time)")
    if (
        not isinstance(delimiter, str)
        or len(delimiter) != 1
        or not delimiter.isascii()
        or delimiter in '"\r\n\0'
    ):
        raise InvalidParameter.of(
            "delimiter", f"must be one character, got {arguments.shown(delimiter)}"
        )
    arguments.choice("decimal", decimal, (".", ","))
    if progress is not None and not callable(progress):
        raise InvalidParameter(
            f"progress must be a function of three arguments (task, done, total), got {type(progress).__name__}"
        )


def _formats(given: str | Sequence[str] | None) -> tuple[str, ...]:
    if given is None:
        return ()
    forms = (
        (given,) if isinstance(given, str) else tuple(arguments.listed("time_format", given, str))
    )
    for form in forms:
        arguments.text("time_format", form, empty=False)
        if "%" not in form and form != ISO:
            raise InvalidParameter.of(
                "time_format",
                f"must be a format of dates, such as %d/%m/%Y %H:%M, or iso, got {arguments.shown(form)}",
            )
    return forms


def _check_terminal(
    terminal: Any, columns: Columns, states: Vocabulary | int | None
) -> tuple[int, ...]:
    """The numbers of terminal states. Those that are not declared are refused before the table is read."""
    ends: list[str | int] = list(arguments.listed("terminal", terminal, str, int))
    if ends and columns.probability is not None:
        raise InvalidParameter(
            "terminal (--terminal) cannot be used with a column of probabilities: the weights of importance sampling need the action and "
            "its probability in every step. Leave the column of probabilities out, or fill in both in terminal states"
        )
    return (
        _places(ends, states.names) if isinstance(states, Vocabulary) else _places(ends, (), states)
    )


def _filling(name: str, given: str | int | None, declared: Vocabulary | int | None) -> int | None:
    """The number of the state or action that stands for missing ones."""
    if given is None:
        return None
    names = declared.names if isinstance(declared, Vocabulary) else ()
    if declared is None:
        raise InvalidParameter(f"{name} needs declared labels or a declared number of them")
    (place,) = _places([given], names, None if isinstance(declared, Vocabulary) else declared, name)
    return place


def _places(
    ends: list[str | int], names: tuple[str, ...], most: int | None = None, name: str = "terminal"
) -> tuple[int, ...]:
    """The numbers of states or actions that are given by label or number."""
    limit, found = len(names) or most or LARGEST + 1, []
    for end in ends:
        number = (
            names.index(end)
            if end in names
            else int(end)
            if re.fullmatch("[0-9]{1,10}", str(end))
            else limit
        )
        if number >= limit:
            role = "actions" if name == "fill_action" else "states"
            raise InvalidParameter.of(
                name, f"must be one of the declared {role}, got {arguments.shown(end)}"
            )
        found.append(number)
    return tuple(found)


def _target(source: Any, out: str | Path) -> Path:
    target = Path(arguments.path("out", out))
    sources = source if isinstance(source, list) else [source]
    if not sources:
        raise InvalidParameter("source must be a table, or a list of tables, and the list is empty")
    for each in sources:
        if (
            isinstance(each, str | Path)
            and target.exists()
            and Path(each).exists()
            and target.samefile(each)
        ):
            raise InvalidParameter.of(
                "out", f"must be another file than the source, got {arguments.shown(str(target))}"
            )
    return target


def from_minari(
    dataset: Any,
    out: str | Path,
    *,
    user: Callable[[Any], int | str] | None = None,
    key: str | Path | None = None,
) -> Imported:
    """A Minari data set (or its name) as a log. Each episode is a user of its own, unless `user(episode)` says.

    Only observations that are one of finitely many are states. Actions are kept where they are of that kind.
    """
    steps = raw.minari_steps(dataset, user)
    action = "action" if "action" in steps.schema.names else None
    return import_log(steps, out, stay="trajectory", time="step", action=action, key=key)


def _declared(name: str, given: Declared) -> Vocabulary | int | None:
    if given is None or isinstance(given, int | np.integer):
        return (
            None if given is None else arguments.whole(name, given, at_least=1, at_most=2**31 - 2)
        )
    return vocabulary(name, given if name == "states" else checked(name, given))


class RawTable:
    """The columns of a raw table, batch by batch, as arrays of numbers."""

    def __init__(
        self,
        columns: Columns,
        declared: dict[str, Any],
        forms: tuple[str, ...],
        decimal: str,
        every: Interval | None,
    ) -> None:
        self.columns, self._decimal, self._row = columns, decimal, 0
        roles = dict(
            zip(
                ("user", "stay", "time", "state", "reward", "action", "probability"),
                columns.all,
                strict=True,
            )
        )
        self._tally = {
            role: Tally(role, name, _FIXES[role])
            for role, name in roles.items()
            if name is not None
        }
        self._times = Times(self._tally["time"], forms, every) if "time" in self._tally else None
        self._coded = {
            role: Categories(self._tally[role], given)
            for role, given in declared.items()
            if role in self._tally
        }
        self._declared = declared
        # Rows of each declared state, and those of them without an action: [kind, state].
        self._of_state = np.zeros((2, len(self._coded["state"].seen)), np.int64)
        if declared["action"] is not None and columns.action is None:
            raise InvalidParameter(
                "actions are declared, and there is no column of actions: give its name"
            )

    @property
    def names(self) -> list[str]:
        return [name for name in self.columns.all if name is not None]

    @property
    def labelled(self) -> frozenset[str]:
        given = (each for each in self._declared.values() if isinstance(each, Vocabulary))
        return frozenset(label for each in given for label in each.numbers)

    @property
    def tallies(self) -> list[Tally]:
        return list(self._tally.values())

    def rows(self, batch: Any, pseudonyms: PseudonymTable) -> dict[str, Any]:
        """The rows of a batch that have a user. `placed`: those that have a time and a stay."""
        tally, cells = (
            self._tally,
            {role: batch.column(each.name) for role, each in self._tally.items()},
        )
        ids = id_column(cells["user"], tally["user"].name)
        users, known = pseudonyms.numbers(ids, f"column {tally['user'].name!r}")
        tally["user"].add(ids, int((~known).sum()), 0)
        found: dict[str, Any] = {"user": users}
        found["time"], placed = (
            np.arange(self._row, self._row + len(users)),
            np.ones(len(users), np.bool_),
        )
        self._row += len(users)
        if self._times is not None:
            found["time"], placed = self._times.read(cells["time"])
        if "stay" in cells:
            ids = texts(cells["stay"], tally["stay"].name)
            found["stay"] = hashed(ids, _STAY_SEED, f"column {tally['stay'].name!r}")
            there = found["stay"] != 0
            tally["stay"].add(ids, int((~there).sum()), 0)
            placed = placed & there
        found["placed"] = placed
        for role, coded in self._coded.items():
            found[role] = coded.read(cells[role])
        if "action" in found and self._of_state.size:
            there = found["state"] != MISSING
            for kind, rows in enumerate((there, there & (found["action"] == MISSING))):
                self._of_state[kind] += np.bincount(
                    found["state"][rows], minlength=self._of_state.shape[1]
                )
        found["reward"] = numbers(cells["reward"], tally["reward"], self._decimal)
        if "probability" in cells:
            found["probability"] = _probabilities(
                cells["probability"], tally["probability"], self._decimal
            )
        return found if known.all() else {name: values[known] for name, values in found.items()}

    def labels(self) -> Labels:
        """The declared labels. A table without rows is refused."""
        if not self._tally["user"].cells:
            raise LogError("the table has no rows: there is nothing to import")
        declared = {
            role: given.names
            for role, given in self._declared.items()
            if isinstance(given, Vocabulary)
        }
        members = given.members if isinstance(given := self._declared["state"], Vocabulary) else ()
        return Labels(**declared, members=members)

    def warnings(self, labels: Labels, terminal: tuple[int, ...]) -> list[str]:
        found = warn_of_columns(
            self.tallies, {role: coded.miswritten for role, coded in self._coded.items()}
        )
        if self._times is not None and self._times.dates and self._times.numbers:
            found.append(
                f"column {self._times.tally.name!r} holds {self._times.dates:,} dates and {self._times.numbers:,} numbers: in the stay "
                "of a user who has both, their order means nothing; give the formats of dates with --time-format"
            )
        bare = set(np.flatnonzero(2 * self._of_state[1] > self._of_state[0]).tolist()) - set(
            terminal
        )
        found += [
            without_action(named(labels.state, i), *self._of_state[:, i].tolist())
            for i in sorted(bare)
        ]
        for role, coded in self._coded.items():
            absent = np.flatnonzero(~coded.seen)
            if len(absent):
                names = getattr(labels, role)
                found.append(unused(role, [names[i] if names else str(i) for i in absent.tolist()]))
        return found


def _probabilities(column: Any, tally: Tally, decimal: str) -> Any:
    """In (0, 1]; others are unreadable."""
    found = numbers(column, tally, decimal)
    bad = (found <= 0) | (found > 1)
    tally.unreadable += int(bad.sum())
    return np.where(bad, np.nan, found)


def _spilled(
    batches: raw.Batches, table: RawTable, pseudonyms: PseudonymTable, folder: Path
) -> Spill:
    """All rows. An error ends the thread that reads ahead here: the garbage collector might do so in a thread that it waits for."""
    spill = Spill(folder)
    with closing(batches):
        for batch in batches:
            spill.add(table.rows(batch, pseudonyms))
    return spill


def _written(
    place: Path,
    spill: Spill,
    table: RawTable,
    labels: Labels,
    rules: Rules,
    progress: Progress | None,
) -> Counts:
    """All groups of the spill as steps, in one file."""
    counts = Counts()
    total = table.tallies[0].cells - table.tallies[0].missing

    def batches() -> Iterator[Any]:
        for done, rows in spill.groups():
            steps, some = steps_of(rows, rules)
            counts.add(some)
            if progress is not None:
                progress("sorting", done, total)
            yield _batch(steps, labels)

    if not total:
        raise LogError(
            f"column {table.tallies[0].name!r} has no id: give the column of user ids with --user"
        )
    write_batches(place, batches(), None)
    return counts


def _batch(steps: dict[str, Any], labels: Labels) -> Any:
    import pyarrow as pa

    order = ("user", "trajectory", "step", "state", "reward", "action", "probability")
    columns = {name: steps[name] for name in order if name in steps}
    columns["user"] = columns["user"].view(np.int64)
    arrays = {
        name: pa.array(values, mask=values == MISSING)
        if name in ("state", "action")
        else pa.array(values)
        for name, values in columns.items()
    }
    return pa.record_batch(arrays, metadata=labels.metadata() or None)


def _did(columns: Columns, rules: Rules, labels: Labels, key: Path) -> list[str]:
    """In words."""
    ids = f"user ids became numbers under the key in {key}: keep it, and keep it secret; ids, times and ids of stays are not in the log"
    stays = "trajectories: " + (
        f"one per {columns.trajectory}, in the order of their first time"
        if columns.trajectory
        else "one per user"
    )
    order = (
        f"in the order of {columns.step}"
        if columns.step
        else "in the order of the table, as --in-order says"
    )
    if rules.every is not None:
        start = (
            "as in the calendar (UTC)" if rules.every.of_calendar else "counted from the first row"
        )
        order = f"of {rules.every.text} each by {columns.step}, {start}; a length without a row leaves a gap"
    steps = f"steps: {order}; a step that was lost leaves a gap in the numbers"
    together = "time" if rules.every is None else "step"
    several = f"several rows of one {together}: the {rules.rows} value of each column, the {rules.rewards} of rewards"
    missing = "a step with a missing cell: " + (
        "left out" if rules.drop != PERSON else "its user contributes zero"
    )
    found = [ids, stays, steps] + ([several] if columns.step else []) + [missing]
    if rules.terminal:
        ends = ", ".join(named(labels.state, place) for place in rules.terminal)
        found += [
            f"trajectories end in {ends}: a missing action is not needed there, and is 0 in the log"
        ]
    for role in KINDS:
        if names := getattr(labels, role):
            found += [f"{role}s: {len(names):,} labels, declared"]
    if labels.members:
        found += [
            f"the states are clusters of {sum(map(len, labels.members)):,} declared labels; the log has the clusters only"
        ]
    return found
