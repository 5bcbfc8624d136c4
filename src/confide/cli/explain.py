"""confide explain: the guarantee, noise and release schedule of agents, before a run."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from confide.cli.groups import with_groups
from confide.cli.options import (
    DELTA,
    AgentOptions,
    AgentPrivacyOptions,
    AsJson,
    CompareWith,
    Delta,
    Epsilon,
    Trust,
    print_json,
)
from confide.cli.world_options import WorldOptions

if TYPE_CHECKING:
    from confide.runs.spec import RunSpec


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedPrivacyOptions(AgentPrivacyOptions):
    """The guarantee of the agents that are explained."""

    epsilon: Epsilon = 1.0
    delta: Delta = DELTA
    trust: Trust = "joint"


@with_groups
def explain(
    agents: Annotated[
        list[str],
        typer.Argument(
            help="Agents from `confide list`, or your own classes as package.module:Class.",
            show_default=False,
        ),
    ],
    privacy: ExplainedPrivacyOptions,
    learning: AgentOptions,
    worlds: WorldOptions,
    on: Annotated[
        str,
        typer.Option(help="A problem from `confide list`, gym:ID, or the file of a saved problem."),
    ] = "lock",
    compare_with: CompareWith = None,
    as_json: AsJson = False,
) -> None:
    """Show guarantee, noise, release schedule, planning, memory and planning time of agents, without a run."""
    from confide.agents.catalogue import takes_privacy
    from confide.agents.explain import explain as make
    from confide.errors import InvalidParameter
    from confide.problems.catalogue import is_environment
    from confide.problems.sizes import sizes_by_name, sizes_of
    from confide.runs.spec import RunSpec

    for name in agents:
        if not takes_privacy(name):
            raise InvalidParameter(
                f"{name} is a reference agent: it does not learn from users and has no guarantee to explain"
            )
    world = worlds.make(on)
    # An environment exists already. Other sizes include the memory that making the problem takes.
    sizes = sizes_of(world) if is_environment(on) else sizes_by_name(on, worlds.horizon)
    specs = [
        RunSpec(
            agent=name,
            problem=world.name,
            episodes=learning.episodes,
            privacy=privacy.request(),
            options=learning.chosen(),
        )
        for name in agents
    ]
    found = make(*(spec.make(world) for spec in _with(specs, compare_with or [])), problem=sizes)
    if as_json:
        print_json(found.to_json())
    else:
        typer.echo(str(found))


def _with(specs: "list[RunSpec]", names: list[str]) -> "list[RunSpec]":
    """After each agent its variants with the paper's constants and without privacy; other agents once, at the end."""
    from confide.agents.catalogue import has_paper

    if "paper" in names and not any(has_paper(spec.agent) for spec in specs):
        return [spec.printed() for spec in specs]  # the agent refuses it with its own message
    own = ("paper", "no-privacy")
    same, others = (
        [name for name in names if name in own],
        [name for name in names if name not in own],
    )
    found: list[RunSpec] = []
    for spec in specs:
        found += [
            spec,
            *(spec.beside(name) for name in same if name != "paper" or has_paper(spec.agent)),
        ]
    return list(dict.fromkeys([*found, *map(specs[0].beside, others)]))
