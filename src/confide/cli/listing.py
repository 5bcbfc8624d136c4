"""confide list: agents, problems, and which fit each other."""

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.groups import with_groups
from confide.cli.options import AsJson, print_json
from confide.cli.world_options import WorldOptions

if TYPE_CHECKING:
    from confide.catalogue import Catalogue
    from confide.learning.agent import Profile
    from confide.problems.problem import Problem
    from confide.problems.zoo import ProblemProfile

_NOTE = (
    "A problem may also be gym:ID, an environment of Gymnasium (gym:FrozenLake-v1), gym:package.module:Class, or the file of a saved "
    "problem. An agent may also be a class of yours, package.module:Class. confide list --for PROBLEM says which agents fit it. "
    "These agents learn while users come. From a log of the past: confide logs import makes one of a raw table, confide evaluate estimates "
    "what the policy in it is worth, confide learn finds a better one."
)


@with_groups
def list_all(
    *,
    problem: Annotated[
        str | None,
        typer.Option(
            "--for",
            help="Say which agents fit this problem, and why the others do not.",
            show_default=False,
        ),
    ] = None,
    worlds: WorldOptions,
    as_json: AsJson = False,
) -> None:
    """List the agents and problems by kind. An agent fits the problems of its kind."""
    if problem is not None:
        _print_for(worlds.make(problem), as_json)
        return
    if worlds != WorldOptions():
        raise typer.BadParameter(
            "options of a problem, such as --horizon or --features, need --for PROBLEM"
        )
    if as_json:
        print_json(_plain())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from confide.agents.catalogue import CALIBRATION_DIFFERENCE, NEEDS

    console = Console()
    for kind, meaning in NEEDS.items():
        agents, problems = _of_kind(kind)
        console.print(Text.assemble((kind or "all kinds", "bold"), f": {meaning}"))
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column()
        for title, rows in (("agents", agents), ("problems", problems)):
            for place, (name, about) in enumerate(rows):
                table.add_row(
                    Text("" if place else f"  {title}", style="dim"), Text(name), Text(about)
                )
            if title == "agents" and not rows:
                table.add_row(
                    Text("  agents", style="dim"),
                    Text("none"),
                    Text("no private learner yet; see all kinds"),
                )
        console.print(table)
        console.print()
    console.print(
        f"The {CALIBRATION_DIFFERENCE} {_NOTE}", style="dim", highlight=False, markup=False
    )


def _for(problem: "Problem") -> dict[str, Any]:
    """What there is to know before a learner is chosen."""
    from confide.agents.catalogue import AGENTS, private_agents, users_needed, why_not

    public = problem.public
    fitting: dict[str, Any] = {}
    for name in private_agents():
        if why_not(name, public):
            continue
        profile, shared = AGENTS[name].profile, AGENTS[name].abilities.distributed
        fitting[name] = {
            "about": profile.about,
            "paper": profile.paper,
            "must_know": _must_know(public) + (", rewards" if profile.known_rewards else ""),
            "trust": [
                "joint",
                *(["local"] if profile.local else []),
                *(["distributed"] if shared else []),
            ],
            "users_needed": users_needed(name, problem),
        }
    others = {name: why_not(name, public) for name in private_agents() if why_not(name, public)}
    return {
        "problem": problem.name,
        "kind": public.family,
        "horizon": problem.horizon,
        "rewards": "learned" if _learned(public) else "public",
        "values": "unknown: runs report returns"
        if problem.optimal_value is None
        else "exact: runs report regret",
        "agents": fitting,
        "others": others,
    }


def _learned(public: Any) -> bool:
    """Whether rewards are: the costs of a linear system are known."""
    return public.family != "linear control" and getattr(public, "rewards", None) is None


def _must_know(public: Any) -> str:
    known = {
        "mixture": "kernels",
        "linear MDP": "features of states and actions",
        "features": "the function of an observation, the bound on its rows",
        "linear bandit": "the number of features; contexts come with the users",
        "linear control": "costs, bounds of the system and of the noise",
        "table": "numbers of states and actions",
    }
    return known[public.family] + (", start, terminal states" if public.family == "table" else "")


def _print_for(problem: "Problem", as_json: bool) -> None:
    found = _for(problem)
    if as_json:
        print_json(found)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.padding import Padding
    from rich.table import Table
    from rich.text import Text

    console = Console()
    steps = "1 step" if found["horizon"] == 1 else f"{found['horizon']} steps"
    kind = f"a {found['kind']} problem"
    if found["kind"] == "features":
        kind = "a problem with features of observations"
    about = f"{found['problem']}: {kind}, {steps}, rewards {found['rewards']}"
    console.print(f"{about}; values are {found['values']}", highlight=False, markup=False)
    table = Table(box=None, pad_edge=False, title_justify="left")
    for heading in ("agent", "must know", "trust", "users at epsilon = 1"):
        table.add_column(heading, overflow="fold")
    for name, one in found["agents"].items():
        table.add_row(
            *map(
                escape,
                (name, one["must_know"], ", ".join(one["trust"]), _needed(one["users_needed"])),
            )
        )
    if found["agents"]:
        console.print(table)
    else:
        console.print("no private learner fits it; uniform and oracle do")
    console.print("\nDo not fit:")
    for reason, names in groupby(found["others"], key=found["others"].get):
        console.print(Padding(Text(f"{', '.join(names)}: {reason}"), (0, 0, 0, 2)))
    console.print(
        "\nUsers: measured, the median over seeds until policies stay 90 % of the way from uniform to optimal play, delta = 1e-5.",
        style="dim",
        highlight=False,
    )


def _needed(measured: dict[str, Any] | None) -> str:
    if measured is None:
        return "not known"
    users = measured["users"]
    return f"more than {measured['episodes']:,}" if users is None else f"{users:,}"


def _profiles(catalogue: "Catalogue") -> dict[str, Any]:
    return {name: one.profile for name, one in catalogue.items()}


def _of_kind(kind: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(agents, problems), each with its description."""
    from confide.agents.catalogue import AGENTS, has_paper
    from confide.problems.catalogue import PROBLEMS

    def said(about: str, paper: str, more: str, calibrations: str = "") -> str:
        return about + (f" [{paper}{calibrations}]" if paper not in ("", "confide") else "") + more

    agents = [
        (
            name,
            said(
                e.about,
                e.paper,
                "; rewards must be known" if e.known_rewards else "",
                "; tight or paper" if has_paper(name) else "; tight",
            ),
        )
        for name, e in _profiles(AGENTS).items()
        if e.family == kind
    ]
    problems = [
        (name, said(p.about, p.paper, ""))
        for name, p in _profiles(PROBLEMS).items()
        if p.family == kind
    ]
    return agents, problems


def _plain() -> dict[str, Any]:
    from confide.agents.catalogue import AGENTS, has_paper
    from confide.problems.catalogue import PROBLEMS

    def fit(agent: "Profile", problem: "ProblemProfile") -> bool:
        rewards_known = problem.public_rewards or not agent.known_rewards
        return agent.family in ("", problem.family) and rewards_known

    learners = _profiles(AGENTS)
    agents = {
        name: {
            "about": e.about,
            "paper": e.paper,
            "calibrations": ["tight", "paper"] if has_paper(name) else ["tight"],
            "fits": e.family,
            "known_rewards": e.known_rewards,
            "local": e.local,
        }
        for name, e in learners.items()
    }
    problems = {
        name: {
            "about": p.about,
            "paper": p.paper,
            "kind": p.family,
            "agents": [a for a, e in learners.items() if fit(e, p)],
        }
        for name, p in _profiles(PROBLEMS).items()
    }
    return {"agents": agents, "problems": problems}
