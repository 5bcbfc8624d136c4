"""confide logs: make a log of a raw table, and check a log before it is used."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from confide.cli.groups import with_groups
from confide.cli.log_options import (
    COLUMNS_PANEL,
    Action,
    Files,
    LogOptions,
    Probability,
    Reward,
    State,
)
from confide.cli.options import OUTPUT_PANEL, AsJson, print_json
from confide.cli.progress import counting_bar

# Of the time that an import takes, reading takes about this share. Measured once, for the bar only.
_READING_PERCENT = 66


@with_groups
def check(
    files: Files,
    log: LogOptions,
    states: Annotated[
        int | None,
        typer.Option(
            help="Number of states; states are numbered from 0.",
            min=1,
            show_default=False,
            rich_help_panel=COLUMNS_PANEL,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count the faults of a log.

    NOT PRIVATE: the counts are exact, so they are only for those who hold the data.

    Example:
        confide logs check log.parquet --states 10 --max-steps 20
    """
    from confide.logs import open as open_logs

    layout = log.layout(action=log.action or None, probability=log.probability or None)
    faults = open_logs(files, **layout).check(states=states)
    if as_json:
        print_json(faults.to_dict())
    else:
        typer.echo(str(faults))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """How the files of a raw table are written, and which of its columns mean what."""

    PANEL: ClassVar = "Columns of the raw table"

    user: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="Column of user ids. They are hashed with your key, and are not in the log.",
        ),
    ] = "user"
    stay: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="Column of stay ids (a stay is a trajectory); empty if each user has one "
            "trajectory.",
        ),
    ] = ""
    time: Annotated[
        str,
        typer.Option(
            metavar="COLUMN",
            help="Column of timestamps or numbers that order a stay. Without one, --in-order is "
            "needed.",
        ),
    ] = ""
    state: State = "state"
    reward: Reward = "reward"
    action: Action = ""
    probability: Probability = ""
    time_format: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT",
            help="Format of times that are text, such as '%d/%m/%Y %H:%M'; iso stands for ISO "
            "8601. Can be given several times: the first format that fits a cell is used.",
            show_default="numbers, and dates of ISO 8601",
        ),
    ] = None
    delimiter: Annotated[
        str,
        typer.Option(metavar="CHARACTER", help="Character between the cells of a CSV file."),
    ] = ","
    decimal: Annotated[
        str,
        typer.Option(metavar=".|,", help="Decimal mark of rewards and probabilities."),
    ] = "."

    def arguments(self) -> dict[str, Any]:
        """The arguments of `import_log`."""
        return {
            "user": self.user,
            "stay": self.stay or None,
            "time": self.time or None,
            "state": self.state,
            "reward": self.reward,
            "action": self.action or None,
            "probability": self.probability or None,
            "time_format": self.time_format or None,
            "delimiter": "\t" if self.delimiter == "\\t" else self.delimiter,
            "decimal": self.decimal,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelOptions:
    """The public states and actions, by number or by label."""

    PANEL: ClassVar = "States and actions"

    states_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Public labels of states, one per line, shown with results. Other values count "
            "as missing.",
        ),
    ] = None
    state_clusters: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Public CSV file with rows label,cluster and no header. The states are the "
            "clusters, so there are fewer of them.",
            show_default=False,
        ),
    ] = None
    actions_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Public labels of actions, one per line, shown with results."
        ),
    ] = None
    states: Annotated[
        int | None, typer.Option(help="Number of states, if they are whole numbers from 0.", min=1)
    ] = None
    actions: Annotated[
        int | None, typer.Option(help="Number of actions, if they are whole numbers from 0.", min=1)
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of `import_log`."""
        return {
            "states": self._states(),
            "actions": _count_or_labels("actions", self.actions, self.actions_file),
        }

    def _states(self) -> Any:
        from confide.logs.labels import read_clusters

        if self.state_clusters is None:
            return _count_or_labels("states", self.states, self.states_file)
        if self.states is not None or self.states_file is not None:
            raise typer.BadParameter(
                "give --state-clusters, or --states or --states-file, not both"
            )
        return read_clusters(self.state_clusters)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """What becomes of rows at the same time, of missing cells, and of the ends of stays."""

    PANEL: ClassVar = "Rules"

    in_order: Annotated[
        bool,
        typer.Option(
            "--in-order",
            help="State that the rows of each user are in the order of time. Only for tables "
            "without --time.",
        ),
    ] = False
    rows: Annotated[
        str,
        typer.Option(
            metavar="last|first", help="Which value to use if several rows have the same time."
        ),
    ] = "last"
    rewards: Annotated[
        str,
        typer.Option(
            metavar="sum|mean|last|first", help="Reward if several rows have the same time."
        ),
    ] = "sum"
    drop: Annotated[
        str,
        typer.Option(
            metavar="row|person",
            help="What to drop if a cell is missing. person: all rows of the user, who then "
            "contributes zero.",
        ),
    ] = "row"
    fill_reward: Annotated[
        float | None,
        typer.Option(help="Reward of steps whose reward is missing.", show_default=False),
    ] = None
    fill_state: Annotated[
        str | None,
        typer.Option(
            metavar="STATE",
            help="Declared state, by label or number, that a missing state becomes.",
            show_default="a gap",
        ),
    ] = None
    fill_action: Annotated[
        str | None,
        typer.Option(
            metavar="ACTION",
            help="Declared action, by label or number, that a missing action becomes.",
            show_default="a gap",
        ),
    ] = None
    terminal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE",
            help="Public state, by label or number, in which trajectories end, so that its rows "
            "need no action. Can be given several times.",
            show_default=False,
        ),
    ] = None
    every: Annotated[
        str | None,
        typer.Option(
            metavar="LENGTH",
            help="Public length of a step, such as 4h or 30min (us, ms, s, min, h, d, w), or a "
            "number where times are numbers. Days and weeks are those of the calendar; other "
            "lengths are counted from the first row.",
            show_default="each time is a step",
        ),
    ] = None

    def arguments(self) -> dict[str, Any]:
        """The arguments of `import_log`."""
        return {
            "in_order": self.in_order,
            "rows": self.rows,
            "rewards": self.rewards,
            "drop": self.drop,
            "fill_reward": self.fill_reward,
            "fill_state": self.fill_state,
            "fill_action": self.fill_action,
            "terminal": self.terminal or (),
            "every": self.every,
        }


@with_groups
def import_(
    source: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...",
            help="CSV, Parquet or Arrow files with the same columns, in any order, or minari:NAME.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            help="Parquet file to write.",
            show_default=False,
            rich_help_panel=OUTPUT_PANEL,
        ),
    ],
    table: TableOptions,
    labels: LabelOptions,
    rules: RuleOptions,
    key: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="File with the key for user ids. If it does not exist, it is created, and only "
            "you can read it.",
            show_default="confide.key beside --out",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert a raw table into a log.

    Rows are encoded and sorted, duplicates are removed, and steps are numbered. Nothing is
    charged. User ids group the rows and are hashed with your key; the log does not contain them.
    NOT PRIVATE: the printed counts are exact, so they are only for those who hold the data.

    Example:
        confide logs import visits.csv --user patient --time admitted \\
            --states-file states.txt --actions-file actions.txt \\
            --action treatment --out log.parquet
    """
    from confide.logs import import_log

    arguments = table.arguments() | labels.arguments() | rules.arguments()
    with _importing(as_json) as progress:
        imported = import_log(source, out, **arguments, key=key, progress=progress)
    if as_json:
        print_json(imported.to_dict())
        return
    typer.echo(str(imported))
    next_steps = "confide logs check, then confide evaluate or confide learn"
    typer.echo(f"log: {imported.path} (next: {next_steps})")


def _count_or_labels(name: str, number: int | None, file: Path | None) -> Any:
    from confide.logs.labels import read_labels

    if number is not None and file is not None:
        raise typer.BadParameter(f"give --{name} or --{name}-file, not both")
    return number if file is None else read_labels(file)


@contextmanager
def _importing(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar in percent of the whole import."""
    with counting_bar(quiet, "importing", 100, "%") as advance:
        percent_before = 0

        def progress(stage: str, done: int, total: int) -> None:
            nonlocal percent_before
            total = max(total, 1)
            if stage == "reading":
                percent = _READING_PERCENT * done // total
            else:
                percent = _READING_PERCENT + (100 - _READING_PERCENT) * done // total
            advance(percent - percent_before)
            percent_before = percent

        yield progress
