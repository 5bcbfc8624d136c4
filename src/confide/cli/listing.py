"""confide list: agents, problems, and which fit each other."""

from typing import TYPE_CHECKING, Any

from confide.cli.options import AsJson, print_json

if TYPE_CHECKING:
    from confide.agents.catalogue import Entry

_KINDS = {
    "mixture": "kernels are known, their weights are not",
    "linear MDP": "transitions and rewards are linear in known features",
    "linear bandit": "one step; a reward is linear in the context of the action, by unknown weights",
    "linear control": "a linear system with quadratic costs, dynamics unknown",
    "table": "finitely many states and actions, transitions unknown",
    "": "any problem",
}
_NOTE = (
    "A problem may also be gym:ID, a table of Gymnasium (gym:FrozenLake-v1), or the file of a saved problem. An agent may also be a "
    "class of yours, package.module:Class."
)


def list_all(as_json: AsJson = False) -> None:
    """List the agents and problems by kind. An agent fits the problems of its kind."""
    if as_json:
        print_json(_plain())
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    for kind, meaning in _KINDS.items():
        agents, problems = _of_kind(kind)
        console.print(Text.assemble((kind or "all kinds", "bold"), f": {meaning}"))
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True)
        table.add_column(no_wrap=True)
        table.add_column()
        for title, rows in (("agents", agents), ("problems", problems)):
            for place, (name, about) in enumerate(rows):
                table.add_row(Text("" if place else f"  {title}", style="dim"), Text(name), Text(about))
            if title == "agents" and not rows:
                table.add_row(Text("  agents", style="dim"), Text("none"), Text("no private learner yet; see all kinds"))
        console.print(table)
        console.print()
    console.print(_NOTE, style="dim", highlight=False, markup=False)


def _of_kind(kind: str) -> tuple[list[tuple[str, str]], list[tuple[str, str]]]:
    """(agents, problems), each with its description."""
    from confide.agents.catalogue import AGENTS
    from confide.problems.catalogue import PROBLEMS

    def said(about: str, paper: str, more: str) -> str:
        return about + (f" [{paper}]" if paper not in ("", "confide") else "") + more

    agents = [
        (name, said(e.about, e.paper, "; rewards must be known" if e.known_rewards else ""))
        for name, e in AGENTS.items()
        if e.family == kind
    ]
    problems = [(name, said(p.about, p.paper, "")) for name, p in PROBLEMS.items() if p.family == kind]
    return agents, problems


def _plain() -> dict[str, Any]:
    from confide.agents.catalogue import AGENTS
    from confide.problems.catalogue import PROBLEMS

    def fit(entry: "Entry", problem: Any) -> bool:
        return entry.family in ("", problem.family) and (problem.rewards or not entry.known_rewards)

    agents = {
        name: {"about": e.about, "paper": e.paper, "fits": e.family, "known_rewards": e.known_rewards, "local": e.local}
        for name, e in AGENTS.items()
    }
    problems = {
        name: {"about": p.about, "paper": p.paper, "kind": p.family, "agents": [a for a, e in AGENTS.items() if fit(e, p)]}
        for name, p in PROBLEMS.items()
    }
    return {"agents": agents, "problems": problems}
