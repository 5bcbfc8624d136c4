"""confide show, confide list, and the table of results."""

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.options import AsJson, print_json
from confide.cli.progress import short
from confide.cli.rollouts import print_played

if TYPE_CHECKING:
    from confide.cli.rollouts import Played
    from confide.comparison.comparison import Comparison
    from confide.comparison.intervals import Interval
    from confide.comparison.row import Row
    from confide.runs.run import Run


_LISTED = 8  # guarantees below a table


def show(
    folder: Annotated[
        Path,
        typer.Argument(
            help="A folder written by `confide run --out` or `confide compare`, or one run in it."
        ),
    ],
    questions: Annotated[
        bool,
        typer.Option(
            "--questions", help="Print the questions that users were asked (questions-vi only)."
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the results in a folder."""
    from confide.errors import InvalidParameter
    from confide.runs.run import Run

    found = sorted({path.parent for path in folder.rglob("run.json")})
    if not found and (folder / "results.parquet").exists():
        from confide.comparison.comparison import Comparison

        print_comparison(Comparison.load(folder), folder, as_json)
        return
    if not found:
        raise InvalidParameter(
            f"no saved run in {folder}; give a folder written by confide run --out or confide compare"
        )
    runs = [Run.load(path) for path in found]
    if questions:
        print_questions(runs, as_json)
        return
    print_runs(runs, as_json)
    if (folder / "report.html").exists() and not as_json:
        typer.echo(f"report: {folder / 'report.html'}")


def print_runs(
    runs: "list[Run]", as_json: bool, played: "Sequence[Played | None] | None" = None
) -> None:
    """A line per agent and guarantee, over its seeds; as JSON an entry per run. `played`: rollouts of their final policies."""
    rollouts = [None for _ in runs] if played is None else played
    if as_json:
        found = [None if value is None else value.to_json() for value in rollouts]
        print_json(
            [_row(one) | {"rollouts": value} for one, value in zip(runs, found, strict=True)]
        )
        return
    if not any(one.episodes for one in runs):
        return  # interrupted before the first user
    from confide.comparison.comparison import Comparison

    print_rows(Comparison.of_runs(runs))
    names = [f"{one.agent}{_asked(one)}, seed {one.seed}" for one in runs]
    print_played(list(zip(names, rollouts, strict=True)))
    for one, value in zip(runs, rollouts, strict=True):
        if one.last_return is not None and value is None:
            earned, low, high = map(_compact, one.last_return)
            over = f"averaged over the last {one.segments[-1].users:,} of {one.episodes:,} users, whom this policy served"
            typer.echo(
                f"{one.agent}{_asked(one)}, seed {one.seed}: the last policy earned {earned} ({low} to {high}) per user, {over}"
            )
    for units in dict.fromkeys(_units(one.problem) for one in runs):
        if units:
            typer.echo(units)
    if any(one.last_return for one in runs):
        typer.echo(
            "regret is unknown, since the problem has no table; no privacy guarantee covers these returns"
        )


def _units(problem: str) -> str:
    """In which units values of one's own environment are; nothing for problems of the library, whose rewards are as documented."""
    if not problem.startswith("gym:"):
        return ""
    mapped = problem.rpartition(", rewards ")[2] if ", rewards " in problem else ""
    rewards = (
        f"rewards that were mapped to [0, 1]: {mapped}, where r is the environment's reward"
        if mapped
        else "the environment's rewards"
    )
    return f"units of the table: sums over an episode of {rewards}"


def _asked(one: "Run") -> str:
    """Which of several runs of an agent this is."""
    from confide.privacy import words
    from confide.privacy.request import Trust

    private = one.guarantee.trust is not Trust.NONE
    return f", epsilon {one.guarantee.epsilon:g}" if private else f", {words.NO_PRIVACY_LABEL}"


def print_questions(runs: "list[Run]", as_json: bool) -> None:
    """What was asked, round by round. All of it is public."""
    if as_json:
        named = [{"agent": one.agent, "problem": one.problem, "seed": one.seed} for one in runs]
        asked = [[question.to_json() for question in one.questions] for one in runs]
        print_json(
            [facts | {"questions": own} for facts, own in zip(named, asked, strict=True) if own]
        )
        return
    for one in (one for one in runs if one.questions):
        typer.echo(f"{one.agent} on {one.problem}, seed {one.seed}")
        for number, round_ in groupby(one.questions, key=lambda question: question.round):
            those = list(round_)
            typer.echo(
                f"\nround {number}: {those[0].users:,} users from number {those[0].first:,} on. {those[0].served}"
            )
            for question in those:
                typer.echo(f"- {question.asked}")
                typer.echo(
                    f"  {question.said}; expected to remove {question.removes:.2%} of what is uncertain about values"
                )
    if not any(one.questions for one in runs):
        typer.echo("no user was asked a question: only questions-vi asks questions")


def print_comparison(made: "Comparison", folder: Path | None, as_json: bool) -> None:
    if as_json:
        print_json({"name": made.name, "results": made.summary(), "failures": made.failures})
        return
    from rich.console import Console

    console = Console()
    if made.rows:
        print_rows(made)
    for failure in made.failures:
        promise = "no privacy" if failure["epsilon"] is None else f"epsilon {failure['epsilon']:g}"
        said = f"failed: {failure['agent']} on {failure['problem']}, {promise}, seed {failure['seed']}: {failure['error']}"
        console.print(said, style="red", highlight=False, markup=False, soft_wrap=True)
        console.print(f"  {failure['command']}", highlight=False, markup=False, soft_wrap=True)
    if folder is not None:
        typer.echo(f"table: {folder / 'results.parquet'}")
        if made.rows:
            typer.echo(f"report: {folder / 'report.html'}")


def print_rows(comparison: "Comparison") -> None:
    """A table per problem that fits 80 columns, with the same intervals as a report."""
    from rich.console import Console

    from confide.agents.catalogue import CALIBRATION_DIFFERENCE, of_a_paper
    from confide.comparison.words import nobody_learned

    console = Console()
    for problem in comparison.problems:
        console.print(_table(comparison, problem))
    for warning in nobody_learned(comparison):
        console.print(warning, style="bold", highlight=False, markup=False, soft_wrap=True)
    if any(row.share is not None for row in comparison.rows):
        note = "% of optimal: value of the last policy; 0 is uniform play, 100 optimal play"
        console.print(note, style="dim", highlight=False, soft_wrap=True)
    # Where the table says the epsilon of each row, only the rows that differ in more are explained.
    has_many_guarantees = len({_guarantee(row) for row in comparison.rows}) > _LISTED
    explained_rows = comparison.rows
    if has_many_guarantees:
        explained_rows = tuple(row for row in comparison.rows if row.stricter or row.reference)
    for guarantee in dict.fromkeys(map(_guarantee, explained_rows)):
        console.print(guarantee, style="dim", highlight=False, soft_wrap=True, markup=False)
    tight_agents = [
        row.variant.partition(" ")[0] for row in comparison.rows if row.calibration == "tight"
    ]
    tight_papers = [name for name in dict.fromkeys(tight_agents) if of_a_paper(name)]
    if tight_papers:
        note = f"{', '.join(tight_papers)} ran in the tight form. The {CALIBRATION_DIFFERENCE}"
        console.print(note, style="dim", highlight=False, soft_wrap=True, markup=False)


def _table(comparison: "Comparison", problem: str) -> Any:
    from rich import box
    from rich.markup import escape
    from rich.table import Table

    rows = comparison.on(problem)
    seeds, users = max(len(row.seeds) for row in rows), max(row.users for row in rows)
    title = f"on {escape(problem)}, {seeds} seed{'s' if seeds > 1 else ''}, {users:,} users"
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        padding=(0, 1),
    )
    columns = {heading: [_cells(row)[heading] for row in rows] for heading in _cells(rows[0])}
    shown = {heading: cells for heading, cells in columns.items() if any(cells)}
    names = [word for cell in shown["agent"] for word in cell.split()]
    # names break between words
    table.add_column("agent", overflow="fold", min_width=min(max(map(len, names)), 24))
    for heading in list(shown)[1:]:
        table.add_column(
            heading,
            justify="right",
            overflow="fold",
            no_wrap=heading.startswith(("regret", "return")),
        )
    for cells in zip(*shown.values(), strict=True):
        table.add_row(*map(escape, cells))
    return table


def _cells(row: "Row") -> dict[str, str]:
    """By heading; a column of empty cells is not shown."""
    reached = row.reached
    ran = "" if not row.stopped else f" ({len(row.stopped)} interrupted)"
    epsilon = "-" if row.reference else "none" if row.epsilon is None else f"{row.epsilon:.4g}"
    return {
        "agent": row.agent + ran,
        "epsilon": epsilon,
        "regret (95 %)": _interval(row.regret),
        "return (95 %)": _interval(row.mean_return),
        "% of\noptimal": "" if row.share is None else _percent(row.share.estimate),
        "x non-\nprivate": "" if row.of_no_privacy is None else f"{row.of_no_privacy.estimate:.3g}",
        "users\nto 90 %": ""
        if reached is None
        else "never"
        if reached.median == float("inf")
        else _compact(reached.median),
    }


def _interval(figure: "Interval | None") -> str:
    """The same interval as in a report; with one seed there is none."""
    if figure is None:
        return ""
    low, high = figure.low, figure.high
    said = _compact(figure.estimate)
    return (
        said
        if low is None or high is None or _compact(low) == _compact(high)
        else f"{said} ({_compact(low)} to {_compact(high)})"
    )


def _compact(number: float) -> str:
    return f"{number:,.0f}" if 100 <= abs(number) < 1e5 else short(number)


def _percent(share: float) -> str:
    """Never 100 for less than all of it."""
    return (
        ">99.9" if 0.9995 <= share < 1 - 1e-9 else f"{100 * share + 0.0:.1f}".replace("-0.0", "0.0")
    )


def _guarantee(row: "Row") -> str:
    """The guarantee; if the noise gives a smaller epsilon than requested, as printed constants do, with the requested one."""
    if row.reference:
        return f"{row.agent}: reference policy, does not learn"
    asked = f" (requested epsilon={row.epsilon:g})" if row.stricter else ""
    return f"{row.agent}: {row.guarantee}{asked}"


def _finite(number: float | None) -> float | None:
    """What JSON can say: a file that somebody has edited may lack a value."""
    return None if number is None or not math.isfinite(number) else float(number)


def _row(one: "Run") -> dict[str, Any]:
    """The last figures of a run; `share` is how far its last policy got from uniform (0) to optimal (1)."""
    optimal, uniform = one.optimal_value, one.uniform_value
    known, last = optimal is not None and uniform is not None and one.episodes > 0, one.last_return
    value = float(one.value[-1]) if known else None
    share = (
        (value - uniform) / (optimal - uniform)  # type: ignore[operator]
        if known and value is not None and optimal != uniform
        else None
    )
    return {
        "agent": one.agent,
        "problem": one.problem,
        "seed": one.seed,
        "users": one.episodes,
        "complete": one.complete,
        "regret": _finite(one.regret[-1]) if known else None,
        "value": _finite(value),
        "mean_return": _finite(one.mean_return[-1]) if one.episodes and not known else None,
        "last_return": None if last is None else list(last),
        "users_averaged": None if last is None else one.segments[-1].users,
        "units": _units(one.problem) or None,
        "share": _finite(share),
        "guarantee": one.guarantee.to_json(),
        "guarantee_in_words": str(one.guarantee),
        "epsilon": _finite(one.guarantee.epsilon),
        "seconds": one.seconds,
    }
