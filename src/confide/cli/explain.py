"""confide explain: the guarantee, noise and release schedule of agents, before a run."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from confide.cli.groups import with_groups
from confide.cli.options import (
    DELTA,
    PROBLEM_PANEL,
    AgentOptions,
    AgentPrivacyOptions,
    AsJson,
    CompareWith,
    Delta,
    Epsilon,
    Trust,
    print_json,
)
from confide.cli.problem_options import ProblemOptions

if TYPE_CHECKING:
    from confide.runs.spec import RunSpec

# With --compare-with these stand for variants of the same agent.
_VARIANTS = ("paper", "no-privacy")


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
            metavar="AGENTS...",
            help="Agents from `confide list`, or classes of yours as package.module:Class.",
            show_default=False,
        ),
    ],
    privacy: ExplainedPrivacyOptions,
    learning: AgentOptions,
    problem_options: ProblemOptions,
    on: Annotated[
        str,
        typer.Option(
            metavar="PROBLEM",
            help="A problem from `confide list`, gym:ID, or the file of a saved problem.",
            rich_help_panel=PROBLEM_PANEL,
        ),
    ] = "lock",
    compare_with: CompareWith = None,
    as_json: AsJson = False,
) -> None:
    """Show guarantee, noise, schedule and memory before a run.

    Example:
        confide explain ucrl-vtr likelihood-vi --on lock --epsilon 1 --users 20000
    """
    from confide.agents.catalogue import takes_privacy
    from confide.agents.explain import explain as explain_agents
    from confide.errors import InvalidParameter
    from confide.problems.catalogue import is_environment
    from confide.problems.sizes import sizes_by_name, sizes_of
    from confide.runs.spec import RunSpec

    for name in agents:
        if not takes_privacy(name):
            raise InvalidParameter(
                f"{name} is a reference agent: "
                "it does not learn from users and has no guarantee to explain"
            )
    world = problem_options.make(on)
    # An environment exists already. Other sizes include the memory that making the problem takes.
    is_made = is_environment(on)
    sizes = sizes_of(world) if is_made else sizes_by_name(on, problem_options.horizon)
    specs = [
        RunSpec(
            agent=name,
            problem=world.name,
            episodes=learning.episodes,
            privacy=privacy.request(),
            options=learning.for_spec(),
        )
        for name in agents
    ]
    all_specs = _with_comparisons(specs, compare_with or [])
    explanation = explain_agents(*(spec.make(world) for spec in all_specs), problem=sizes)
    if as_json:
        print_json(explanation.to_json())
    else:
        typer.echo(str(explanation))


def _with_comparisons(specs: "list[RunSpec]", names: list[str]) -> "list[RunSpec]":
    """The specs, and those that --compare-with adds.

    Variants with the paper's constants and without privacy follow each agent. Other agents come
    once, at the end.
    """
    from confide.agents.catalogue import has_paper

    if "paper" in names and not any(has_paper(spec.agent) for spec in specs):
        # The agent refuses its paper's constants with a message of its own.
        return [spec.with_paper_constants() for spec in specs]
    all_specs: list[RunSpec] = []
    for spec in specs:
        all_specs.append(spec)
        variants = [name for name in names if name in _VARIANTS]
        if not has_paper(spec.agent):
            variants = [name for name in variants if name != "paper"]
        all_specs += [spec.for_comparison(name) for name in variants]
    all_specs += [specs[0].for_comparison(name) for name in names if name not in _VARIANTS]
    return list(dict.fromkeys(all_specs))
