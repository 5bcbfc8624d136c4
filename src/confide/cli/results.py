"""confide show, confide list, and the table of results."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.options import AsJson, print_json
from confide.cli.progress import short

if TYPE_CHECKING:
    from confide.experiments.run import Run


def show(
    folder: Annotated[Path, typer.Argument(help="A folder that `confide run --out` wrote, or one run in it.")],
    as_json: AsJson = False,
) -> None:
    """What a folder of results says."""
    from confide.errors import InvalidParameter
    from confide.experiments.run import Run

    found = sorted({path.parent for path in folder.rglob("run.json")})
    if not found:
        raise InvalidParameter(f"there is no saved run in {folder}")
    print_runs([Run.load(path) for path in found], as_json)
    if (folder / "report.html").exists() and not as_json:
        typer.echo(f"report: {folder / 'report.html'}")


def list_all(as_json: AsJson = False) -> None:
    """The agents and problems that there are."""
    from confide.agents.catalogue import AGENTS
    from confide.problems.catalogue import PROBLEMS

    listed: dict[str, dict[str, Any]] = {"agents": dict(AGENTS), "problems": dict(PROBLEMS)}
    if as_json:
        print_json(
            {
                kind: {name: {"about": e.about, "paper": e.paper} for name, e in entries.items()}
                for kind, entries in listed.items()
            }
        )
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    for kind, entries in listed.items():
        table = Table(title=kind, title_justify="left", show_edge=False)
        for heading in ("name", "what it is", "paper"):
            table.add_column(heading)
        for name, entry in entries.items():
            table.add_row(name, escape(entry.about), entry.paper)
        Console().print(table)


def print_runs(runs: "list[Run]", as_json: bool) -> None:
    """A line per agent and promise, over its seeds; as JSON an entry per run."""
    rows = [_row(one) for one in runs]
    if as_json:
        print_json(rows)
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    groups: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["agent"], row["problem"], row["guarantee"]), []).append(row)
    where = sorted({row["problem"] for row in rows})
    table = Table(title=f"on {escape(where[0])}" if len(where) == 1 else None, title_justify="left")
    named = ["agent"] if len(where) == 1 else ["agent", "problem"]
    for heading in named:
        words = [word for row in rows for word in row[heading].split()]
        table.add_column(heading, overflow="fold", min_width=min(max(map(len, words)), 24))  # names break between words
    for heading in ("epsilon", "seeds", "users", "regret", "value", "way"):
        table.add_column(heading, justify="right", overflow="fold")
    for group in groups.values():
        table.add_row(*(escape(group[0][heading]) for heading in named), *_summary(group))
    console = Console()
    console.print(table)
    if any(row["share"] is not None for row in rows):
        console.print("way: how far the last policy is from uniform (0 %) to optimal play (100 %)", style="dim", highlight=False)
    for guarantee in dict.fromkeys(f"{one.agent}: {one.guarantee}{_asked(one)}" for one in runs):
        console.print(guarantee, style="dim", highlight=False, soft_wrap=True, markup=False)


def _asked(one: "Run") -> str:
    """Where the noise gives another epsilon than was asked for: printed constants do."""
    if one.certificate is None:
        return ""
    asked, given = (one.certificate.document[part]["epsilon"] for part in ("request", "promise"))
    return f" (asked for epsilon={asked:g})" if asked is not None and given < 0.95 * asked else ""


def _summary(group: list[dict[str, Any]]) -> list[str]:
    """Epsilon, seeds, users, mean regret with its standard error, and the last policies' mean value."""
    from statistics import fmean, stdev

    epsilon, users = group[0]["epsilon"], {row["users"] for row in group}
    said = [f"{epsilon:.4g}" if epsilon is not None else "none", str(len(group)), "/".join(_compact(n) for n in sorted(users))]
    if any(row["regret"] is None for row in group):
        return [*said, "unknown", f"return {fmean(row['mean_return'] or 0.0 for row in group):.4g}", ""]
    regrets = [row["regret"] for row in group]
    spread = stdev(regrets) if len(group) > 1 else 0.0
    error = f" ± {_compact(spread / len(group) ** 0.5)}" if spread > 1e-9 * abs(regrets[0]) else ""
    share = [row["share"] for row in group if row["share"] is not None]
    way = f"{100 * fmean(share):.0f} %" if share else ""
    return [*said, f"{_compact(fmean(regrets))}{error}", f"{fmean(row['value'] for row in group):.4f}", way]


def _compact(number: float) -> str:
    return f"{number:,.0f}" if abs(number) < 1e7 else short(number)


def _row(one: "Run") -> dict[str, Any]:
    """The last figures of a run; `share` is how far its last policy got from uniform (0) to optimal (1)."""
    optimal, uniform = one.optimal_value, one.uniform_value
    known = optimal is not None and uniform is not None and one.episodes > 0
    value = float(one.value[-1]) if known else None
    share = (value - uniform) / (optimal - uniform) if known and value is not None and optimal != uniform else None  # type: ignore[operator]
    return {
        "agent": one.agent,
        "problem": one.problem,
        "seed": one.seed,
        "users": one.episodes,
        "complete": one.complete,
        "regret": float(one.regret[-1]) if known else None,
        "value": value,
        "mean_return": float(one.mean_return[-1]) if one.episodes and not known else None,
        "share": share,
        "guarantee": one.guarantee,
        "epsilon": one.certificate.document["promise"]["epsilon"] if one.certificate else None,
        "seconds": one.seconds,
    }
