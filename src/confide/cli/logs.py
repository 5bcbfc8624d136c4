"""confide logs: check a log before it is used."""

from typing import TYPE_CHECKING, Annotated

import typer

from confide.cli.options import AsJson, print_json

if TYPE_CHECKING:
    from confide.logs import Logs

app = typer.Typer(
    name="logs", help="Check logged trajectories. For the data holder: the output is not private.", no_args_is_help=True
)

Files = Annotated[list[str], typer.Argument(help="Parquet or Arrow files, glob patterns or folders.", show_default=False)]
User = Annotated[str, typer.Option(help="Column of user ids. A user is the unit of privacy.")]
Trajectory = Annotated[str, typer.Option(help="Column of trajectory ids; empty if each user has one trajectory.")]
Step = Annotated[str, typer.Option(help="Column of step numbers; empty if rows are in order.")]
State = Annotated[str, typer.Option(help="Column of states.")]
Reward = Annotated[str, typer.Option(help="Column of rewards.")]
Action = Annotated[str, typer.Option(help="Column of actions, if needed.")]
Probability = Annotated[str, typer.Option(help="Column of the probabilities with which actions were chosen, if needed.")]
MaxTrajectories = Annotated[int, typer.Option(help="Use at most this many trajectories per user.", min=1)]
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
        int | None, typer.Option(help="Number of states; states are numbered from 0.", min=1, show_default=False)
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
