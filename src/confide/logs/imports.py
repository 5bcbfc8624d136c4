"""A raw table becomes a log: encoded, sorted, without duplicates, one row per step.

Memory does not grow with the table. The log holds pseudonyms, and no ids or times. What was done
and lost is reported to the data holder only: these reports are not private.
"""

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
from confide.logs.cells import ISO, LARGEST, MISSING, Interval
from confide.logs.columns import Columns
from confide.logs.identity import KEY, PseudonymTable, read_or_make_key
from confide.logs.labels import KINDS, Labels, Vocabulary, check_labels, label_or_number, vocabulary
from confide.logs.raw_table import RawTable
from confide.logs.sorting import Spill
from confide.logs.steps import PERSON, Counts, Rules, steps_of
from confide.logs.summary import Imported, summary, warn_of_steps
from confide.logs.writing import write_batches

# Called with what is done, how much of it, and how much there is in all.
Progress = Callable[[str, int, int], None]
Declared = int | Sequence[str] | Mapping[str, str] | None


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
    """A raw table as a log that `open` reads under its usual names.

    It returns what was done and lost, for the data holder only.

    Parameters
    ----------
    source: a CSV, Parquet or Arrow file, a data frame (pandas, Polars, Arrow, ...), a Minari data
        set or "minari:NAME"; or a list of these, with the same columns. Rows may be in any order.
    out: the Parquet file to write. It appears when it is complete, readable by its owner only.
    user, stay, time, state, reward, action, probability: the names of the columns. Without `stay`
        all rows of a user are one trajectory.
    in_order: says that the rows of each user are in the order of time, if no column has times.
    states, actions: public: the labels in the order of their numbers, or how many numbers there
        are. Other values are missing. With {label: cluster} the log has the clusters only.
    rows, rewards: of several rows of one time "last" or "first" is taken; rewards may be added up
        ("sum") or averaged ("mean").
    every: the public length of a step, as "4h" for timestamps or "4" for numbers (us, ms, s, min,
        h, d, w): rows of a trajectory within it are one step. Days and weeks are those of the
        calendar (UTC); others are counted from the first row. A length without a row leaves a gap.
    drop: a step with a missing cell is left out ("row"), or its whole "person".
    fill_reward: the reward where it is missing.
    fill_state, fill_action: public: the declared label or number that a missing state or action
        gets. It is a state or an action of its own then, and the step leaves no gap.
    terminal: public: labels or numbers of the states in which trajectories end. No action is taken
        there: a step of such a state is kept if its action is missing, which is 0 in the log.
    time_format: of times that are text; of several, the first that fits a cell is used ("iso" for
        ISO 8601). Without it a text is a number or an ISO 8601 date, whichever it has the form of.
    delimiter, decimal: the character between the cells of a CSV file; the decimal mark of rewards
        and probabilities that are text.
    key: the file with the key under which users' ids are hashed, made if it is not there; by
        default `confide.key` beside `out`.
    """
    need("logs", "a log")
    columns = Columns(user, stay, time, state, reward, action, probability)
    declared = {
        "state": _vocabulary_or_number("states", states),
        "action": _vocabulary_or_number("actions", actions),
    }
    _check_order(time, arguments.flag("in_order", in_order))
    interval = None if every is None else Interval(every)
    rules = Rules(rows, rewards, drop, fill_reward, every=interval)
    rules = _with_fillings(rules, fill_state, fill_action, declared)
    _check_reading(every, time, delimiter, decimal, progress)
    rules = replace(rules, terminal=_check_terminal(terminal, columns, declared["state"]))
    target = _target(source, out)
    key_file = target.with_name(KEY) if key is None else Path(arguments.path("key", key))
    table = RawTable(columns, declared, _formats(time_format), decimal, interval)
    csv_format = raw.CsvFormat(delimiter, table.labelled)
    return _import(source, target, table, csv_format, rules, key_file, progress)


def _import(
    source: Any,
    target: Path,
    table: RawTable,
    csv_format: raw.CsvFormat,
    rules: Rules,
    key: Path,
    progress: Progress | None,
) -> Imported:
    """Read the whole table, then write the log."""

    def report_reading(done: int, total: int) -> None:
        if progress is not None:
            progress("reading", done, total)

    with building(target) as place:
        report = None if progress is None else report_reading
        batches = raw.batches(source, table.names, csv_format, report)
        pseudonyms = PseudonymTable(read_or_make_key(key))
        spill = _spill_rows(batches, table, pseudonyms, place.parent)
        labels = table.labels()
        counts = _write_steps(place, spill, table, labels, rules, progress)
    counts.wrong_rows = csv_format.wrong_rows
    warnings = [
        *warn_of_steps(counts, table.tallies, rules),
        *table.warnings(labels, rules.terminal),
    ]
    steps = _what_was_done(table.columns, rules, labels, key)
    return summary(str(target), str(key), counts, table.tallies, labels, (steps, warnings))


def _check_order(time: str | None, in_order: bool) -> None:
    """Refuse a table that would be taken in a wrong order.

    Rows that are not sorted look like any other log.
    """
    if time is None and not in_order:
        raise InvalidParameter(
            "the order of a user's rows is not known: give the column of times (--time), or, if "
            "the rows of each user are in the order of time, say so (--in-order)"
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
            "progress must be a function of three arguments (task, done, total), "
            f"got {type(progress).__name__}"
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
                "must be a format of dates, such as %d/%m/%Y %H:%M, or iso, "
                f"got {arguments.shown(form)}",
            )
    return forms


def _check_terminal(
    terminal: Any, columns: Columns, states: Vocabulary | int | None
) -> tuple[int, ...]:
    """The numbers of terminal states.

    Those that are not declared are refused before the table is read.
    """
    ends: list[str | int] = list(arguments.listed("terminal", terminal, str, int))
    if ends and columns.probability is not None:
        raise InvalidParameter(
            "terminal (--terminal) cannot be used with a column of probabilities: the weights of "
            "importance sampling need the action and its probability in every step. Leave the "
            "column of probabilities out, or fill in both in terminal states"
        )
    if isinstance(states, Vocabulary):
        return _places(ends, states.names)
    return _places(ends, (), states)


def _with_fillings(
    rules: Rules,
    fill_state: str | int | None,
    fill_action: str | int | None,
    declared: dict[str, Vocabulary | int | None],
) -> Rules:
    return replace(
        rules,
        fill_state=_filling("fill_state", fill_state, declared["state"]),
        fill_action=_filling("fill_action", fill_action, declared["action"]),
    )


def _filling(name: str, given: str | int | None, declared: Vocabulary | int | None) -> int | None:
    """The number of the state or action that stands for missing ones."""
    if given is None:
        return None
    if declared is None:
        raise InvalidParameter(f"{name} needs declared labels or a declared number of them")
    if isinstance(declared, Vocabulary):
        (place,) = _places([given], declared.names, None, name)
    else:
        (place,) = _places([given], (), declared, name)
    return place


def _places(
    ends: list[str | int], names: tuple[str, ...], most: int | None = None, name: str = "terminal"
) -> tuple[int, ...]:
    """The numbers of states or actions that are given by label or number."""
    limit = len(names) or most or LARGEST + 1
    places = []
    for end in ends:
        if end in names:
            number = names.index(end)
        elif re.fullmatch("[0-9]{1,10}", str(end)):
            number = int(end)
        else:
            number = limit
        if number >= limit:
            role = "actions" if name == "fill_action" else "states"
            raise InvalidParameter.of(
                name, f"must be one of the declared {role}, got {arguments.shown(end)}"
            )
        places.append(number)
    return tuple(places)


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
    """A Minari data set (or its name) as a log.

    Each episode is a user of its own, unless `user(episode)` says whose it is. Only observations
    that are one of finitely many are states. Actions are kept where they are of that kind.
    """
    steps = raw.minari_steps(dataset, user)
    action = "action" if "action" in steps.schema.names else None
    return import_log(steps, out, stay="trajectory", time="step", action=action, key=key)


def _vocabulary_or_number(name: str, given: Declared) -> Vocabulary | int | None:
    if given is None:
        return None
    if isinstance(given, int | np.integer):
        return arguments.whole(name, given, at_least=1, at_most=2**31 - 2)
    return vocabulary(name, given if name == "states" else check_labels(name, given))


def _spill_rows(
    batches: raw.Batches, table: RawTable, pseudonyms: PseudonymTable, folder: Path
) -> Spill:
    """All rows, in groups of whole users on the disk.

    An error ends the thread that reads ahead here. The garbage collector might do so in a thread
    that it waits for.
    """
    spill = Spill(folder)
    with closing(batches):
        for batch in batches:
            spill.add(table.rows(batch, pseudonyms))
    return spill


def _write_steps(
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
            steps, step_counts = steps_of(rows, rules)
            counts.add(step_counts)
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
    """The steps as an Arrow record batch. The order of its columns is the layout of a log."""
    import pyarrow as pa

    order = ("user", "trajectory", "step", "state", "reward", "action", "probability")
    arrays = {}
    for name in order:
        if name not in steps:
            continue
        values = steps[name].view(np.int64) if name == "user" else steps[name]
        mask = values == MISSING if name in ("state", "action") else None
        arrays[name] = pa.array(values, mask=mask)
    return pa.record_batch(arrays, metadata=labels.metadata() or None)


def _what_was_done(columns: Columns, rules: Rules, labels: Labels, key: Path) -> list[str]:
    """What was done to the table, in sentences for the data holder."""
    sentences = [
        f"user ids became numbers under the key in {key}: keep it, and keep it secret; "
        "ids, times and ids of stays are not in the log"
    ]
    if columns.trajectory:
        stays = f"one per {columns.trajectory}, in the order of their first time"
    else:
        stays = "one per user"
    sentences.append(f"trajectories: {stays}")
    order = _order_of_steps(columns, rules)
    sentences.append(f"steps: {order}; a step that was lost leaves a gap in the numbers")
    if columns.step:
        together = "time" if rules.every is None else "step"
        sentences.append(
            f"several rows of one {together}: the {rules.rows} value of each column, "
            f"the {rules.rewards} of rewards"
        )
    lost = "left out" if rules.drop != PERSON else "its user contributes zero"
    sentences.append(f"a step with a missing cell: {lost}")
    if rules.terminal:
        ends = ", ".join(label_or_number(labels.state, place) for place in rules.terminal)
        sentences.append(
            f"trajectories end in {ends}: a missing action is not needed there, and is 0 in the log"
        )
    sentences += [
        f"{role}s: {len(getattr(labels, role)):,} labels, declared"
        for role in KINDS
        if getattr(labels, role)
    ]
    if labels.members:
        members = sum(map(len, labels.members))
        sentences.append(
            f"the states are clusters of {members:,} declared labels; the log has the clusters only"
        )
    return sentences


def _order_of_steps(columns: Columns, rules: Rules) -> str:
    if rules.every is not None:
        if rules.every.of_calendar:
            start = "as in the calendar (UTC)"
        else:
            start = "counted from the first row"
        return (
            f"of {rules.every.text} each by {columns.step}, {start}; "
            "a length without a row leaves a gap"
        )
    if columns.step:
        return f"in the order of {columns.step}"
    return "in the order of the table, as --in-order says"
