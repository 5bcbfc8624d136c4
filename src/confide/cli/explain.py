"""confide explain: what agents promise and how they keep it, before a run."""

from typing import Annotated

import typer

from confide.cli.options import (
    AsJson,
    BonusScale,
    Calibration,
    Delta,
    Episodes,
    Epsilon,
    Horizon,
    ProblemSeed,
    Trust,
    When,
    print_json,
    privacy_of,
)
from confide.cli.run import agent_options


def explain(
    agents: Annotated[list[str], typer.Argument(help="Agents of `confide list`, or package.module:Class.", show_default=False)],
    on: Annotated[str, typer.Option(help="A problem of `confide list`, or the file of a saved one.")] = "lock",
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    trust: Trust = "joint",
    episodes: Episodes = 100_000,
    calibration: Calibration = None,
    bonus_scale: BonusScale = None,
    schedule: When = None,
    beside_paper: Annotated[
        bool, typer.Option("--beside-paper", help="Beside each agent, the same one with the constants printed in its paper.")
    ] = False,
    problem_seed: ProblemSeed = 0,
    horizon: Horizon = None,
    as_json: AsJson = False,
) -> None:
    """What agents promise, how much noise keeps it, when they release and how they plan: side by side, before a run."""
    from confide.agents.explain import explain as make
    from confide.experiments.spec import RunSpec
    from confide.problems.catalogue import make as make_problem

    world = make_problem(on, seed=problem_seed, horizon=horizon)
    promise, options = privacy_of(epsilon, delta, trust), agent_options(calibration, bonus_scale, schedule, episodes)
    specs = [RunSpec(agent=name, problem=world.name, episodes=episodes, privacy=promise, options=options) for name in agents]
    if beside_paper:
        specs = [one for spec in specs for one in (spec, spec.printed() if _published(spec.agent) else spec)]
    found = make(*(spec.make(world) for spec in dict.fromkeys(specs)))
    if as_json:
        print_json(found.to_json())
    else:
        typer.echo(str(found))


def _published(agent: str) -> bool:
    """Whether there are printed constants; an agent that the catalogue does not know is asked for them."""
    from confide.agents.catalogue import AGENTS

    entry = AGENTS.get(agent)
    return entry is None or entry.paper not in ("", "confide")
