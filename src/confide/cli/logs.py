"""confide logs: make a log of a raw table, and check a log before it is used."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.options import AsJson, print_json
from confide.cli.progress import counting

if TYPE_CHECKING:
    from confide.logs import Logs

app = typer.Typer(
    name="logs",
    help="Import and check logged trajectories. For the data holder: the output is not private.",
    no_args_is_help=True,
)

Files = Annotated[
    list[str],
    typer.Argument(help="Parquet or Arrow files, glob patterns or folders.", show_default=False),
]
User = Annotated[str, typer.Option(help="Column of user ids. A user is the unit of privacy.")]
Trajectory = Annotated[
    str, typer.Option(help="Column of trajectory ids; empty if each user has one trajectory.")
]
Step = Annotated[str, typer.Option(help="Column of step numbers; empty if rows are in order.")]
State = Annotated[str, typer.Option(help="Column of states.")]
Reward = Annotated[str, typer.Option(help="Column of rewards.")]
Action = Annotated[str, typer.Option(help="Column of actions, if needed.")]
Probability = Annotated[
    str, typer.Option(help="Column of the probabilities with which actions were chosen, if needed.")
]
MaxTrajectories = Annotated[
    int, typer.Option(help="Use at most this many trajectories per user.", min=1)
]
MaxSteps = Annotated[int, typer.Option(help="Use at most this many steps per trajectory.", min=1)]


@app.command()
def check(
    files: Files,
    user: User = "user",
    trajectory: Trajectory = "trajectory",
    step: Step = "step",
    state: State = "state",
    reward: Reward = "reward",
    action: Action = "",
    probability: Probability = "",
    max_trajectories: MaxTrajectories = 1,
    max_steps: MaxSteps = 10_000,
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

    logs: Logs = open_logs(
        files,
        user=user,
        trajectory=trajectory or None,
        step=step or None,
        state=state,
        reward=reward,
        action=action or None,
        probability=probability or None,
        max_trajectories=max_trajectories,
        max_steps=max_steps,
    )
    found = logs.check(states=states)
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))


ImportUser = Annotated[
    str,
    typer.Option(help="Column of user ids. They are hashed with your key, and are not in the log."),
]
Stay = Annotated[
    str,
    typer.Option(
        help="Column of stay ids (a stay is a trajectory); empty if each user has one trajectory."
    ),
]
Time = Annotated[
    str,
    typer.Option(
        help="Column of timestamps or numbers that order a stay; without one, --in-order is needed."
    ),
]
TimeFormat = Annotated[
    list[str] | None,
    typer.Option(
        help="Format of times that are text, such as '%d/%m/%Y %H:%M'. Can be given several times; iso stands for ISO 8601, and the "
        "first format that fits a cell is used.",
        show_default="numbers, and dates of ISO 8601",
    ),
]
Every = Annotated[
    str | None,
    typer.Option(
        help="Public length of a step, such as 4h or 30min (us, ms, s, min, h, d, w), or a number where times are numbers. Days and "
        "weeks are those of the calendar; other lengths are counted from the first row.",
        show_default="each time is a step",
    ),
]
StatesFile = Annotated[
    Path | None,
    typer.Option(
        help="Public labels of states, one per line, shown with results. Other values count as missing."
    ),
]
StateClusters = Annotated[
    Path | None,
    typer.Option(
        help="Public CSV file with rows label,cluster and no header: states are the clusters, which gives a smaller table.",
        show_default=False,
    ),
]
ActionsFile = Annotated[
    Path | None, typer.Option(help="Public labels of actions, one per line, shown with results.")
]
States = Annotated[
    int | None, typer.Option(help="Number of states, if they are whole numbers from 0.", min=1)
]
Actions = Annotated[
    int | None, typer.Option(help="Number of actions, if they are whole numbers from 0.", min=1)
]
InOrder = Annotated[
    bool,
    typer.Option(
        "--in-order",
        help="State that the rows of each user are in the order of time. Only for tables without --time.",
    ),
]
Rows = Annotated[
    str, typer.Option(help="Which value to use if several rows have the same time: last or first.")
]
Rewards = Annotated[
    str, typer.Option(help="Reward if several rows have the same time: sum, mean, last or first.")
]
Drop = Annotated[
    str,
    typer.Option(
        help="What to drop if a cell is missing: row, or person (all rows of the user, who contributes zero)."
    ),
]
FillReward = Annotated[
    float | None, typer.Option(help="Reward of steps whose reward is missing.", show_default=False)
]
FillState = Annotated[
    str | None,
    typer.Option(
        help="Declared state, by label or number, that a missing state becomes: a state of its own.",
        show_default="a gap",
    ),
]
FillAction = Annotated[
    str | None,
    typer.Option(
        help="Declared action, by label or number, that a missing action becomes.",
        show_default="a gap",
    ),
]
Terminal = Annotated[
    list[str] | None,
    typer.Option(
        help="Public state, by label or number, in which trajectories end, so that its rows need no action. Can be given several times.",
        show_default=False,
    ),
]
Decimal = Annotated[
    str, typer.Option(help="Decimal mark of rewards and probabilities: a point or a comma.")
]
Delimiter = Annotated[str, typer.Option(help="Character between the cells of a CSV file.")]
KeyFile = Annotated[
    Path | None,
    typer.Option(
        help="File with the key for user ids. It is created, readable by you only, if it does not exist.",
        show_default="confide.key beside --out",
    ),
]


@app.command("import")
def import_(
    source: Annotated[
        list[str],
        typer.Argument(
            help="CSV, Parquet or Arrow files with the same columns, in any order, or minari:NAME.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option(help="Parquet file to write.", show_default=False)],
    user: ImportUser = "user",
    stay: Stay = "",
    time: Time = "",
    state: State = "state",
    reward: Reward = "reward",
    action: Action = "",
    probability: Probability = "",
    states_file: StatesFile = None,
    state_clusters: StateClusters = None,
    actions_file: ActionsFile = None,
    states: States = None,
    actions: Actions = None,
    in_order: InOrder = False,
    rows: Rows = "last",
    rewards: Rewards = "sum",
    drop: Drop = "row",
    fill_reward: FillReward = None,
    fill_state: FillState = None,
    fill_action: FillAction = None,
    terminal: Terminal = None,
    time_format: TimeFormat = None,
    every: Every = None,
    delimiter: Delimiter = ",",
    decimal: Decimal = ".",
    key: KeyFile = None,
    as_json: AsJson = False,
) -> None:
    """Convert a raw table into a log: encode, sort, remove duplicates, number the steps. Charges nothing.

    User ids group the rows and are hashed with your key; the log does not contain them. The printed counts are exact, so they are
    NOT PRIVATE: for the data holder only.
    """
    from confide.logs import import_log

    columns: dict[str, Any] = {
        "user": user,
        "stay": stay or None,
        "time": time or None,
        "state": state,
        "reward": reward,
    }
    columns |= {"action": action or None, "probability": probability or None}
    declared = {
        "states": _states(states, states_file, state_clusters),
        "actions": _declared("actions", actions, actions_file),
    }
    rules: dict[str, Any] = {
        "rows": rows,
        "rewards": rewards,
        "drop": drop,
        "terminal": terminal or (),
        "every": every,
        "in_order": in_order,
    }
    rules |= {"fill_reward": fill_reward, "fill_state": fill_state, "fill_action": fill_action}
    reading: dict[str, Any] = {
        "time_format": time_format or None,
        "delimiter": "\t" if delimiter == "\\t" else delimiter,
        "decimal": decimal,
    }
    with _importing(as_json) as progress:
        found = import_log(
            source, out, **columns, **declared, **rules, **reading, key=key, progress=progress
        )
    if as_json:
        print_json(found.to_dict())
    else:
        typer.echo(str(found))
        typer.echo(
            f"log: {found.path} (next: confide logs check, then confide evaluate or confide learn)"
        )


def _states(number: int | None, file: Path | None, clusters: Path | None) -> Any:
    from confide.logs.labels import read_clusters

    if clusters is None:
        return _declared("states", number, file)
    if number is not None or file is not None:
        raise typer.BadParameter("give --state-clusters, or --states or --states-file, not both")
    return read_clusters(clusters)


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
