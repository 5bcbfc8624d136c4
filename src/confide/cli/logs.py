"""confide logs: look at a log before it is used."""

from typing import TYPE_CHECKING, Annotated

import typer

from confide.cli.options import AsJson, print_json

if TYPE_CHECKING:
    from confide.logs import Logs

app = typer.Typer(name="logs", help="Look at logged trajectories, as their holder.", no_args_is_help=True)

Files = Annotated[list[str], typer.Argument(help="Parquet or Arrow files, patterns or folders.", show_default=False)]
User = Annotated[str, typer.Option(help="The column of user ids: the unit of privacy.")]
Trajectory = Annotated[str, typer.Option(help="The column of trajectory ids; empty: a user has one.")]
Step = Annotated[str, typer.Option(help="The column of step numbers; empty: rows are in order.")]
State = Annotated[str, typer.Option(help="The column of states.")]
Reward = Annotated[str, typer.Option(help="The column of rewards.")]
Action = Annotated[str, typer.Option(help="The column of actions, if it is used.")]
Probability = Annotated[str, typer.Option(help="The column of the actions' probabilities, if it is used.")]
MaxTrajectories = Annotated[int, typer.Option(help="So many trajectories of a user are counted.", min=1)]
MaxSteps = Annotated[int, typer.Option(help="So many steps of a trajectory are counted.", min=1)]


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
    states: Annotated[int | None, typer.Option(help="How many states there are.", min=1, show_default=False)] = None,
    as_json: AsJson = False,
) -> None:
    """Count what is wrong with a log. NOT PRIVATE: the counts are exact, for the data holder only."""
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
