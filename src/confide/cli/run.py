"""confide run: let an agent learn from users."""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from confide.cli.options import AsJson
from confide.cli.progress import bars
from confide.cli.results import print_runs

if TYPE_CHECKING:
    from confide.experiments.run import Run
    from confide.experiments.spec import RunSpec
    from confide.privacy.request import Request


def run(
    agent: Annotated[str, typer.Argument(help="An agent of `confide list`, or package.module:Class.")],
    problem: Annotated[str, typer.Argument(help="A problem of `confide list`, or the file of a saved one.")],
    epsilon: Annotated[
        float | None, typer.Option(help="The privacy budget; without it there is no privacy.", show_default=False)
    ] = None,
    delta: Annotated[float, typer.Option(help="The probability that the promise may fail by; 0 for pure privacy.")] = 1e-5,
    trust: Annotated[str, typer.Option(help="joint: a curator is trusted; local: nobody is.")] = "joint",
    episodes: Annotated[int, typer.Option(help="How many users take part, one episode each.")] = 100_000,
    seed: Annotated[int, typer.Option(help="The first seed of the runs.", min=0)] = 0,
    seeds: Annotated[int, typer.Option(help="How many runs, with seeds from --seed on.")] = 1,
    problem_seed: Annotated[int, typer.Option(help="Which instance of the problem.")] = 0,
    beside: Annotated[
        list[str] | None, typer.Option(help="Another agent to run beside it; `no-privacy` is the same one without.")
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="Steps per episode, where the problem leaves it open.", show_default=False)
    ] = None,
    source: Annotated[str, typer.Option(help="fast noise for simulation, secure noise for real data.")] = "fast",
    out: Annotated[Path | None, typer.Option(help="A folder for results and the report; takes up what was interrupted.")] = None,
    as_json: AsJson = False,
) -> None:
    """Let an agent learn from users, and see what privacy cost."""
    from confide.errors import InvalidParameter
    from confide.experiments.spec import RunSpec, run_seeds
    from confide.problems.catalogue import make
    from confide.report import save_figures, write_report

    if seeds < 1:
        raise InvalidParameter(f"seeds must be at least 1, got seeds={seeds}")
    world = make(problem, seed=problem_seed, horizon=horizon)
    promise = _privacy(epsilon, delta, trust)
    first = RunSpec(agent=agent, problem=world.name, episodes=episodes, privacy=promise, source=source)
    specs = list(dict.fromkeys([first, *(_beside(name, first) for name in beside or ())]))
    command = shlex.join(["confide", *sys.argv[1:]])
    runs: list[Run] = []
    with bars(as_json) as bar:
        for spec in specs:
            shown = bar(_short(spec), episodes)
            runs += run_seeds(spec, world, range(seed, seed + seeds), out=out, progress=shown, command=command)
            if not runs[-1].complete:
                break
    if out is not None and runs[0].episodes:
        report = write_report(runs, out / "report.html", title=f"{agent} on {world.name}", command=command)
        save_figures(runs, out / "figures")
    print_runs(runs, as_json)
    if out is not None and runs[0].episodes and not as_json:
        typer.echo(f"report: {report}")
    if not all(one.complete for one in runs):
        typer.echo("interrupted: the same command goes on from here", err=True)
        raise typer.Exit(130)


def _short(spec: "RunSpec") -> str:
    """What a progress bar has room for."""
    epsilon = spec.privacy.epsilon
    return f"{spec.title[-16:]}{f' eps {epsilon:g}' if epsilon < float('inf') else ''}"


def _privacy(epsilon: float | None, delta: float, trust: str) -> "Request":
    from confide.errors import InvalidParameter
    from confide.privacy.request import JointDP, LocalDP, NoPrivacy

    if trust not in ("joint", "local"):
        raise InvalidParameter(f"trust must be joint or local, got {trust!r}")
    if epsilon is None:
        return NoPrivacy()
    return JointDP(epsilon, delta) if trust == "joint" else LocalDP(epsilon, delta)


def _beside(name: str, first: "RunSpec") -> "RunSpec":
    """The same agent without privacy, or another one under the same promise where it makes one."""
    import dataclasses

    from confide.agents.catalogue import takes_privacy
    from confide.privacy.request import NoPrivacy

    if name == "no-privacy":
        return dataclasses.replace(first, privacy=NoPrivacy())
    promise = first.privacy if takes_privacy(name) else NoPrivacy()
    return dataclasses.replace(first, agent=name, privacy=promise)
