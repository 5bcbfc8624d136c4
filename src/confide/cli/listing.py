"""confide list: agents, problems, and which fit each other."""

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.groups import with_groups
from confide.cli.options import PROBLEM_PANEL, AsJson, print_json
from confide.cli.problem_options import ProblemOptions

if TYPE_CHECKING:
    from confide.catalogue import Catalogue
    from confide.learning.agent import Profile
    from confide.problems.problem import Problem
    from confide.problems.zoo import ProblemProfile

_NOTE = (
    "A problem may also be gym:ID, an environment of Gymnasium (gym:FrozenLake-v1), "
    "gym:package.module:Class, or the file of a saved problem. "
    "An agent may also be a class of yours, package.module:Class. "
    "confide list --for PROBLEM says which agents fit it. "
    "These agents learn while users come. From a log of the past: confide logs import makes a log "
    "from a raw table, confide evaluate estimates what the policy in it is worth, and confide "
    "learn finds a better one."
)
# What an agent must know in advance, by the family of its problems.
_KNOWLEDGE = {
    "mixture": "kernels",
    "linear MDP": "features of states and actions",
    "linear bandit": "the number of features; contexts come with the users",
    "linear control": "costs, bounds of the system and of the noise",
    "features": "the function of an observation, the bound on its rows",
    "table": "numbers of states and actions, start, terminal states",
}


@with_groups
def list_all(
    *,
    problem: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="PROBLEM",
            help="Say which agents fit this problem, and why the others do not.",
            rich_help_panel=PROBLEM_PANEL,
            show_default=False,
        ),
    ] = None,
    problem_options: ProblemOptions,
    as_json: AsJson = False,
) -> None:
    """List agents and problems, or the agents that fit a problem.

    Agents and problems are listed by kind. An agent fits the problems of its kind.

    Examples:
        confide list
        confide list --for gym:FrozenLake-v1
    """
    if problem is not None:
        _show_fitting(problem_options.make(problem), as_json)
        return
    if problem_options != ProblemOptions():
        raise typer.BadParameter(
            "options of a problem, such as --horizon or --features, need --for PROBLEM"
        )
    if as_json:
        print_json(_catalogue_record())
    else:
        _print_catalogue()


def _print_catalogue() -> None:
    from rich.console import Console
    from rich.text import Text

    from confide.agents.catalogue import CALIBRATION_DIFFERENCE, NEEDS

    console = Console()
    for kind, meaning in NEEDS.items():
        console.print(Text.assemble((kind or "all kinds", "bold"), f": {meaning}"))
        console.print(_table_of_kind(kind))
        console.print()
    console.print(
        f"The {CALIBRATION_DIFFERENCE} {_NOTE}", style="dim", highlight=False, markup=False
    )


def _table_of_kind(kind: str) -> Any:
    """A table with the agents and the problems of a kind, each with its description."""
    from rich.table import Table
    from rich.text import Text

    agents = _agents_of_kind(kind) or [("none", "no private learner yet; see all kinds")]
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column()
    for title, rows in (("agents", agents), ("problems", _problems_of_kind(kind))):
        for place, (name, about) in enumerate(rows):
            heading = Text("" if place else f"  {title}", style="dim")
            table.add_row(heading, Text(name), Text(about))
    return table


def _fitting_agents(problem: "Problem") -> dict[str, Any]:
    """What a user needs to know before choosing an agent for a problem."""
    from confide.agents.catalogue import AGENTS, private_agents, users_needed, why_not

    public = problem.public
    reasons = {name: why_not(name, public) for name in private_agents()}
    agents: dict[str, Any] = {}
    for name in [name for name, reason in reasons.items() if not reason]:
        profile = AGENTS[name].profile
        trust = ["joint"]
        if profile.local:
            trust.append("local")
        if AGENTS[name].abilities.distributed:
            trust.append("distributed")
        rewards = ", rewards" if profile.known_rewards else ""
        agents[name] = {
            "about": profile.about,
            "paper": profile.paper,
            "must_know": _KNOWLEDGE[public.family] + rewards,
            "trust": trust,
            "users_needed": users_needed(name, problem),
        }
    has_values = problem.optimal_value is not None
    return {
        "problem": problem.name,
        "kind": public.family,
        "horizon": problem.horizon,
        "rewards": "learned" if _has_learned_rewards(public) else "public",
        "values": "exact: runs report regret" if has_values else "unknown: runs report returns",
        "agents": agents,
        "others": {name: reason for name, reason in reasons.items() if reason},
    }


def _has_learned_rewards(public: Any) -> bool:
    """Whether agents learn the rewards. The costs of a linear system are known."""
    return public.family != "linear control" and getattr(public, "rewards", None) is None


def _show_fitting(problem: "Problem", as_json: bool) -> None:
    facts = _fitting_agents(problem)
    if as_json:
        print_json(facts)
        return
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console()
    steps = "1 step" if facts["horizon"] == 1 else f"{facts['horizon']} steps"
    kind = f"a {facts['kind']} problem"
    if facts["kind"] == "features":
        kind = "a problem with features of observations"
    about = f"{facts['problem']}: {kind}, {steps}, rewards {facts['rewards']}"
    console.print(f"{about}; values are {facts['values']}", highlight=False, markup=False)
    if facts["agents"]:
        console.print(_table_of_fitting(facts["agents"]))
    else:
        console.print("no private learner fits it; uniform and oracle do")
    console.print("\nDo not fit:")
    for reason, names in groupby(facts["others"], key=facts["others"].get):
        console.print(Padding(Text(f"{', '.join(names)}: {reason}"), (0, 0, 0, 2)))
    console.print(
        "\nUsers: measured, the median over seeds until policies stay 90 % of the way from "
        "uniform to optimal play, delta = 1e-5.",
        style="dim",
        highlight=False,
    )


def _table_of_fitting(agents: dict[str, Any]) -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, title_justify="left")
    table.add_column("agent", no_wrap=True)
    for heading in ("must know", "trust", "users at epsilon = 1"):
        table.add_column(heading, overflow="fold")
    for name, facts in agents.items():
        trust = ", ".join(facts["trust"])
        row = (name, facts["must_know"], trust, _users_needed(facts["users_needed"]))
        table.add_row(*map(Text, row))
    return table


def _users_needed(measured: dict[str, Any] | None) -> str:
    if measured is None:
        return "not known"
    users = measured["users"]
    return f"more than {measured['episodes']:,}" if users is None else f"{users:,}"


def _profiles(catalogue: "Catalogue") -> dict[str, Any]:
    return {name: entry.profile for name, entry in catalogue.items()}


def _agents_of_kind(kind: str) -> list[tuple[str, str]]:
    """Names and descriptions. The brackets have the paper and the calibrations."""
    from confide.agents.catalogue import AGENTS, has_paper

    rows = []
    for name, profile in _profiles(AGENTS).items():
        if profile.family == kind:
            calibrations = "; tight or paper" if has_paper(name) else "; tight"
            rewards = "; rewards must be known" if profile.known_rewards else ""
            rows.append((name, _with_paper(profile, calibrations) + rewards))
    return rows


def _problems_of_kind(kind: str) -> list[tuple[str, str]]:
    from confide.problems.catalogue import PROBLEMS

    profiles = _profiles(PROBLEMS)
    return [(name, _with_paper(p)) for name, p in profiles.items() if p.family == kind]


def _with_paper(profile: "Profile | ProblemProfile", calibrations: str = "") -> str:
    if profile.paper in ("", "confide"):
        return profile.about
    return f"{profile.about} [{profile.paper}{calibrations}]"


def _catalogue_record() -> dict[str, Any]:
    """All agents and problems for --json. Its fields are part of the interface."""
    from confide.agents.catalogue import AGENTS, has_paper
    from confide.problems.catalogue import PROBLEMS

    agent_profiles = _profiles(AGENTS)
    agents = {
        name: {
            "about": profile.about,
            "paper": profile.paper,
            "calibrations": ["tight", "paper"] if has_paper(name) else ["tight"],
            "fits": profile.family,
            "known_rewards": profile.known_rewards,
            "local": profile.local,
        }
        for name, profile in agent_profiles.items()
    }
    problems = {
        name: {
            "about": profile.about,
            "paper": profile.paper,
            "kind": profile.family,
            "agents": [a for a, agent in agent_profiles.items() if _fits(agent, profile)],
        }
        for name, profile in _profiles(PROBLEMS).items()
    }
    return {"agents": agents, "problems": problems}


def _fits(agent: "Profile", problem: "ProblemProfile") -> bool:
    rewards_known = problem.public_rewards or not agent.known_rewards
    return agent.family in ("", problem.family) and rewards_known
