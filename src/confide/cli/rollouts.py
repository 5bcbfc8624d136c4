"""Rollouts of the final policies of `confide run` in an environment that can be played."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

if TYPE_CHECKING:
    from confide.problems.rollouts import RolloutValue
    from confide.runs.run import Run
    from confide.runs.spec import RunSpec

# The name of a problem that is an environment of Gymnasium begins with this.
_GYM = "gym:"


@dataclass(frozen=True, slots=True, kw_only=True)
class RolloutOptions:
    """How often a final policy is played, and whether one without privacy stands beside it."""

    PANEL: ClassVar = "Simulation"

    rollouts: Annotated[
        int,
        typer.Option(
            help="For gym:ID: play the final policy and uniform play in so many episodes, and "
            "print their values in the environment's own units; 0 for none.",
            min=0,
        ),
    ] = 1000
    baseline: Annotated[
        bool,
        typer.Option(
            "--baseline/--no-baseline",
            help="For gym:ID: train the same agent without privacy as well, with one seed, and "
            "print the value of its final policy. This can double the time of the command.",
        ),
    ] = True


@dataclass(frozen=True, slots=True)
class PlayedValues:
    """The values of a run's final policy and of uniform play, by rollouts."""

    final: "RolloutValue"
    uniform: "RolloutValue"

    def to_json(self) -> dict[str, Any]:
        return {"final": self.final.to_json(), "uniform": self.uniform.to_json()}


def baseline_of(
    spec: "RunSpec", world: Any, problem: str, options: RolloutOptions
) -> "RunSpec | None":
    """The same agent without privacy, whose value is printed beside the private one.

    None without rollouts, which print that value, and where privacy was not requested.
    """
    from confide.privacy.request import NoPrivacy

    is_rolled_out = options.rollouts >= 2 and _environment(world, problem) is not None
    if not options.baseline or not is_rolled_out or isinstance(spec.privacy, NoPrivacy):
        return None
    return spec.for_comparison("no-privacy")


def play_final_policies(
    runs: "Sequence[Run]", world: Any, problem: str, rollouts: int
) -> "list[PlayedValues | None]":
    """For each run the values of its rollouts.

    A value is None if the problem is no environment, or if the run has no policy.
    """
    from confide.policy import RandomPolicy
    from confide.problems.rollouts import evaluate_policy

    env = _environment(world, problem)
    if rollouts < 2 or env is None:
        return [None for _ in runs]
    uniform = evaluate_policy(_uniform_play(world, env), env, rollouts, horizon=world.horizon)
    played: list[PlayedValues | None] = []
    for run in runs:
        if run.policy is None or isinstance(run.policy, RandomPolicy):
            played.append(None)
            continue
        # The seed differs from run to run, and from that of uniform play.
        seed = run.seed + 1
        final = evaluate_policy(run.policy, env, rollouts, horizon=world.horizon, seed=seed)
        played.append(PlayedValues(final, uniform))
    return played


def _environment(world: Any, problem: str) -> Any:
    """What is played: a problem that knows its environment, or else the environment by name."""
    if hasattr(world, "own_returns"):
        return world
    return problem.removeprefix(_GYM) if problem.startswith(_GYM) else None


def _uniform_play(world: Any, env: Any) -> Any:
    from confide.policy import RandomPolicy, uniform_policy

    if env is world and hasattr(world, "states"):
        return uniform_policy(world.horizon, world.states, world.actions)
    return RandomPolicy(world.actions)


def print_played(played_by_run: "Sequence[tuple[str, PlayedValues | None]]") -> None:
    """Print a line for each run, by its name, and one for uniform play."""
    shown = [(name, values) for name, values in played_by_run if values is not None]
    for name, values in shown:
        typer.echo(f"{name}: the final policy earns {values.final} per episode")
    if not shown:
        return
    _, first = shown[0]
    typer.echo(f"uniform play earns {first.uniform} per episode")
    typer.echo(
        f"by {first.final.episodes:,} rollouts of each policy, as sums of the environment's own "
        "rewards, without a discount"
    )
