"""confide logs: make a log of a raw table, and check a log before it is used."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from confide.cli.groups import with_groups
from confide.cli.log_options import Action, Files, LogOptions, Probability, Reward, State
from confide.cli.options import AsJson, print_json
from confide.cli.progress import counting

app = typer.Typer(
    name="logs",
    help="Import and check logged trajectories. For the data holder: the output is not private.",
    no_args_is_help=True,
)


@app.command()
@with_groups
def check(
    files: Files,
    log: LogOptions,
    states: Annotated[
        int | None,
        typer.Option(
            help="Number of states; states are numbered from 0.", min=1, show_default=False
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Count the faults of a log. NOT PRIVATE: the counts are exact, for the data holder only."""
    from confide.logs import open as open_logs

    layout = log.layout(action=log.action or None, probability=log.probability or None)
    found = open_logs(files, **layout).check(states=states)
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))


@dataclass(frozen=True, slots=True, kw_only=True)
class TableOptions:
    """How the files of a raw table are written, and which of its columns mean what."""

    user: Annotated[
        str,
        typer.Option(
            help="Column of user ids. They are hashed with your key, and are not in the log."
        ),
    ] = "user"
    stay: Annotated[
        str,
        typer.Option(
            help="Column of stay ids (a stay is a trajectory); empty if each user has one trajectory."
        ),
    ] = ""
    time: Annotated[
        str,
        typer.Option(
            help="Column of timestamps or numbers that order a stay; without one, --in-order is needed."
        ),
    ] = ""
    state: State = "state"
    reward: Reward = "reward"
    action: Action = ""
    probability: Probability = ""
    time_format: Annotated[
        list[str] | None,
        typer.Option(
            help="Format of times that are text, such as '%d/%m/%Y %H:%M'. Can be given several times; iso stands for ISO 8601, and the "
            "first format that fits a cell is used.",
            show_default="numbers, and dates of ISO 8601",
        ),
    ] = None
    delimiter: Annotated[str, typer.Option(help="Character between the cells of a CSV file.")] = ","
    decimal: Annotated[
        str, typer.Option(help="Decimal mark of rewards and probabilities: a point or a comma.")
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

    states_file: Annotated[
        Path | None,
        typer.Option(
            help="Public labels of states, one per line, shown with results. Other values count as missing."
        ),
    ] = None
    state_clusters: Annotated[
        Path | None,
        typer.Option(
            help="Public CSV file with rows label,cluster and no header: states are the clusters, which gives a smaller table.",
            show_default=False,
        ),
    ] = None
    actions_file: Annotated[
        Path | None,
        typer.Option(help="Public labels of actions, one per line, shown with results."),
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
            "actions": _declared("actions", self.actions, self.actions_file),
        }

    def _states(self) -> Any:
        from confide.logs.labels import read_clusters

        if self.state_clusters is None:
            return _declared("states", self.states, self.states_file)
        if self.states is not None or self.states_file is not None:
            raise typer.BadParameter(
                "give --state-clusters, or --states or --states-file, not both"
            )
        return read_clusters(self.state_clusters)


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleOptions:
    """What becomes of rows at the same time, of missing cells, and of the ends of stays."""

    in_order: Annotated[
        bool,
        typer.Option(
            "--in-order",
            help="State that the rows of each user are in the order of time. Only for tables without --time.",
        ),
    ] = False
    rows: Annotated[
        str,
        typer.Option(help="Which value to use if several rows have the same time: last or first."),
    ] = "last"
    rewards: Annotated[
        str,
        typer.Option(help="Reward if several rows have the same time: sum, mean, last or first."),
    ] = "sum"
    drop: Annotated[
        str,
        typer.Option(
            help="What to drop if a cell is missing: row, or person (all rows of the user, who contributes zero)."
        ),
    ] = "row"
    fill_reward: Annotated[
        float | None,
        typer.Option(help="Reward of steps whose reward is missing.", show_default=False),
    ] = None
    fill_state: Annotated[
        str | None,
        typer.Option(
            help="Declared state, by label or number, that a missing state becomes: a state of its own.",
            show_default="a gap",
        ),
    ] = None
    fill_action: Annotated[
        str | None,
        typer.Option(
            help="Declared action, by label or number, that a missing action becomes.",
            show_default="a gap",
        ),
    ] = None
    terminal: Annotated[
        list[str] | None,
        typer.Option(
            help="Public state, by label or number, in which trajectories end, so that its rows need no action. "
            "Can be given several times.",
            show_default=False,
        ),
    ] = None
    every: Annotated[
        str | None,
        typer.Option(
            help="Public length of a step, such as 4h or 30min (us, ms, s, min, h, d, w), or a number where times are numbers. Days and "
            "weeks are those of the calendar; other lengths are counted from the first row.",
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


@app.command("import")
@with_groups
def import_(
    source: Annotated[
        list[str],
        typer.Argument(
            help="CSV, Parquet or Arrow files with the same columns, in any order, or minari:NAME.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Parquet file to write.", show_default=False)],
    table: TableOptions,
    labels: LabelOptions,
    rules: RuleOptions,
    key: Annotated[
        Path | None,
        typer.Option(
            help="File with the key for user ids. It is created, readable by you only, if it does not exist.",
            show_default="confide.key beside --out",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Convert a raw table into a log: encode, sort, remove duplicates, number the steps. Charges nothing.

    User ids group the rows and are hashed with your key; the log does not contain them. The printed counts are exact, so they are
    NOT PRIVATE: for the data holder only.
    """
    from confide.logs import import_log

    arguments = table.arguments() | labels.arguments() | rules.arguments()
    with _importing(as_json) as progress:
        found = import_log(source, out, **arguments, key=key, progress=progress)
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))
        typer.echo(
            f"log: {found.path} (next: confide logs check, then confide evaluate or confide learn)"
        )


def _declared(name: str, number: int | None, file: Path | None) -> Any:
    from confide.logs.labels import read_labels

    if number is not None and file is not None:
        raise typer.BadParameter(f"give --{name} or --{name}-file, not both")
    return number if file is None else read_labels(file)


@contextmanager
def _importing(quiet: bool) -> Iterator[Callable[[str, int, int], None]]:
    """A bar in percent: reading is about two thirds of the work."""
    with counting(quiet, "importing", 100, "%") as advance:
        shown = 0

        def progress(what: str, done: int, total: int) -> None:
            nonlocal shown
            now = (
                66 * done // max(total, 1) if what == "reading" else 66 + 34 * done // max(total, 1)
            )
            advance(now - shown)
            shown = now

        yield progress
