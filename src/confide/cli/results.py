"""confide show, and the table of results that `run` and `compare` print, too."""

import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.options import OUTPUT_PANEL, AsJson, print_json
from confide.cli.progress import compact
from confide.cli.rollouts import print_played

if TYPE_CHECKING:
    from confide.cli.rollouts import PlayedValues
    from confide.comparison.comparison import Comparison
    from confide.comparison.intervals import Interval
    from confide.comparison.row import Row
    from confide.runs.run import Run


# Below a table at most this many guarantees are listed. A matter of taste.
_LISTED_GUARANTEES = 8
# In 80 columns there is room for words of so many characters in the names of agents. Longer words
# are broken.
_NAME_COLUMN = 24
# Beside longer words than this, an interval stands below its estimate.
_SHORT_NAME = 16


def show(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="A folder written by `confide run --out` or `confide compare`, or one run in it.",
        ),
    ],
    questions: Annotated[
        bool,
        typer.Option(
            "--questions",
            help="Print the questions that users were asked (questions-vi only).",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the results in a folder.

    Example:
        confide show results
    """
    from confide.errors import InvalidParameter
    from confide.runs.run import Run

    run_folders = sorted({path.parent for path in folder.rglob("run.json")})
    if not run_folders and (folder / "results.parquet").exists():
        from confide.comparison.comparison import Comparison

        print_comparison(Comparison.load(folder), folder, as_json)
        return
    if not run_folders:
        raise InvalidParameter(
            f"no saved run in {folder}; "
            "give a folder written by confide run --out or confide compare"
        )
    runs = [Run.load(path) for path in run_folders]
    if questions:
        print_questions(runs, as_json)
        return
    print_runs(runs, as_json)
    if (folder / "report.html").exists() and not as_json:
        typer.echo(f"report: {folder / 'report.html'}")


def print_runs(
    runs: "list[Run]", as_json: bool, played: "Sequence[PlayedValues | None] | None" = None
) -> None:
    """Print a line per agent and guarantee, over its seeds; as JSON an entry per run.

    `played` has the rollouts of the runs' final policies, if there are any.
    """
    rollouts = [None for _ in runs] if played is None else played
    if as_json:
        print_json(
            [
                _record(run) | {"rollouts": None if values is None else values.to_json()}
                for run, values in zip(runs, rollouts, strict=True)
            ]
        )
        return
    if not any(run.episodes for run in runs):
        # The command was interrupted before the first user.
        return
    from confide.comparison.comparison import Comparison

    print_rows(Comparison.of_runs(runs))
    names = [_name(run) for run in runs]
    print_played(list(zip(names, rollouts, strict=True)))
    for run, values in zip(runs, rollouts, strict=True):
        if run.last_return is not None and values is None:
            _print_last_return(run)
    for units in dict.fromkeys(_units(run.problem) for run in runs):
        if units:
            typer.echo(units)
    if any(run.last_return for run in runs):
        typer.echo(
            "regret is unknown, since the problem has no table; "
            "no privacy guarantee covers these returns"
        )


def _print_last_return(run: "Run") -> None:
    assert run.last_return is not None
    mean, low, high = map(_number, run.last_return)
    users = run.segments[-1].users
    typer.echo(
        f"{_name(run)}: the last policy earned {mean} ({low} to {high}) per user, averaged over "
        f"the last {users:,} of {run.episodes:,} users, whom this policy served"
    )


def _units(problem: str) -> str:
    """The units of the values of one's own environment.

    Nothing for the problems of the library, whose rewards are as documented.
    """
    if not problem.startswith("gym:"):
        return ""
    mapping = problem.rpartition(", rewards ")[2] if ", rewards " in problem else ""
    rewards = "the environment's rewards"
    if mapping:
        rewards = (
            f"rewards that were mapped to [0, 1]: {mapping}, where r is the environment's reward"
        )
    return f"units of the table: sums over an episode of {rewards}"


def _name(run: "Run") -> str:
    """Which of several runs this is."""
    from confide.privacy import words
    from confide.privacy.request import Trust

    private = run.guarantee.trust is not Trust.NONE
    privacy = f"epsilon {run.guarantee.epsilon:g}" if private else words.NO_PRIVACY_LABEL
    return f"{run.agent}, {privacy}, seed {run.seed}"


def print_questions(runs: "list[Run]", as_json: bool) -> None:
    """Print what users were asked, round by round. All of it is public."""
    if as_json:
        print_json(
            [
                {
                    "agent": run.agent,
                    "problem": run.problem,
                    "seed": run.seed,
                    "questions": [question.to_json() for question in run.questions],
                }
                for run in runs
                if run.questions
            ]
        )
        return
    for run in runs:
        if run.questions:
            typer.echo(f"{run.agent} on {run.problem}, seed {run.seed}")
        for number, group in groupby(run.questions, key=lambda question: question.round):
            questions = list(group)
            first = questions[0]
            typer.echo(
                f"\nround {number}: {first.users:,} users from number {first.first:,} on. "
                f"{first.served}"
            )
            for question in questions:
                typer.echo(f"- {question.asked}")
                typer.echo(
                    f"  {question.said}; expected to remove {question.removes:.2%} "
                    "of what is uncertain about values"
                )
    if not any(run.questions for run in runs):
        typer.echo("no user was asked a question: only questions-vi asks questions")


def print_comparison(comparison: "Comparison", folder: Path | None, as_json: bool) -> None:
    if as_json:
        print_json(
            {
                "name": comparison.name,
                "results": comparison.summary(),
                "failures": comparison.failures,
            }
        )
        return
    from rich.console import Console

    console = Console()
    if comparison.rows:
        print_rows(comparison)
    for failure in comparison.failures:
        epsilon = failure["epsilon"]
        privacy = "no privacy" if epsilon is None else f"epsilon {epsilon:g}"
        message = (
            f"failed: {failure['agent']} on {failure['problem']}, {privacy}, "
            f"seed {failure['seed']}: {failure['error']}"
        )
        console.print(message, style="red", highlight=False, markup=False, soft_wrap=True)
        console.print(f"  {failure['command']}", highlight=False, markup=False, soft_wrap=True)
    if folder is not None:
        typer.echo(f"table: {folder / 'results.parquet'}")
        if comparison.rows:
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
    has_many_guarantees = len({_guarantee(row) for row in comparison.rows}) > _LISTED_GUARANTEES
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
    seeds = max(len(row.seeds) for row in rows)
    users = max(row.users for row in rows)
    title = f"on {escape(problem)}, {seeds} seed{'s' if seeds > 1 else ''}, {users:,} users"
    table = Table(
        title=title,
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        # Two columns between cells: one of them is the box's.
        padding=(0, 1, 0, 0),
    )
    cells = [_cells(row) for row in rows]
    headings = [heading for heading in cells[0] if any(row[heading] for row in cells)]
    longest_word = max(len(word) for row in cells for word in row["agent"].split())
    if longest_word > _SHORT_NAME:
        cells = [{head: text.replace(" (", "\n(") for head, text in row.items()} for row in cells]
    for heading in headings:
        texts = [heading, *(row[heading] for row in cells)]
        # Cells break between words only, apart from very long names of agents.
        width = max(len(word) for text in texts for word in text.split())
        if heading == "agent":
            table.add_column(heading, overflow="fold", min_width=min(width, _NAME_COLUMN))
        else:
            table.add_column(heading, justify="right", overflow="fold", min_width=width)
    for row in cells:
        table.add_row(*(escape(row[heading]) for heading in headings))
    return table


def _cells(row: "Row") -> dict[str, str]:
    """The cells of a row by heading. A column of empty cells is not shown."""
    interrupted = f" ({len(row.stopped)} interrupted)" if row.stopped else ""
    return {
        "agent": row.agent + interrupted,
        "epsilon": _epsilon(row),
        "regret (95 %)": _interval(row.regret),
        "return (95 %)": _interval(row.mean_return),
        "% of\noptimal": "" if row.share is None else _percent(row.share.estimate),
        "x non-\nprivate": "" if row.of_no_privacy is None else f"{row.of_no_privacy.estimate:.3g}",
        "users\nto 90 %": _users_to_reach(row),
    }


def _epsilon(row: "Row") -> str:
    if row.reference:
        return "-"
    return "none" if row.epsilon is None else f"{row.epsilon:.4g}"


def _users_to_reach(row: "Row") -> str:
    if row.reached is None:
        return ""
    return "never" if row.reached.median == float("inf") else _number(row.reached.median)


def _interval(figure: "Interval | None") -> str:
    """The same interval as in a report; with one seed there is none."""
    if figure is None:
        return ""
    estimate = _number(figure.estimate)
    if figure.low is None or figure.high is None:
        return estimate
    low = _number(figure.low)
    high = _number(figure.high)
    return estimate if low == high else f"{estimate} ({low} to {high})"


def _number(number: float) -> str:
    return f"{number:,.0f}" if 100 <= abs(number) < 1e5 else compact(number)


def _percent(share: float) -> str:
    """A share in percent. Less than all of it is never shown as 100."""
    if 0.9995 <= share < 1 - 1e-9:
        return ">99.9"
    # Adding 0.0 makes -0.0 positive. Rounding may make it negative again.
    return f"{100 * share + 0.0:.1f}".replace("-0.0", "0.0")


def _guarantee(row: "Row") -> str:
    """The guarantee of a row.

    The constants of a paper may add more noise than the requested epsilon needs. Then the
    requested one stands beside the guarantee.
    """
    if row.reference:
        return f"{row.agent}: reference policy, does not learn"
    request = f" (requested epsilon={row.epsilon:g})" if row.stricter else ""
    return f"{row.agent}: {row.guarantee}{request}"


def _finite(number: float | None) -> float | None:
    """A number that JSON can express. A file that somebody has edited may lack a value."""
    return None if number is None or not math.isfinite(number) else float(number)


def _record(run: "Run") -> dict[str, Any]:
    """The last figures of a run for --json.

    `share` says how far its last policy got from uniform (0) to optimal play (1).
    """
    has_values = False
    value = None
    share = None
    if run.optimal_value is not None and run.uniform_value is not None and run.episodes > 0:
        has_values = True
        value = float(run.value[-1])
        gap = run.optimal_value - run.uniform_value
        share = (value - run.uniform_value) / gap if gap != 0 else None
    last_return = run.last_return
    return {
        "agent": run.agent,
        "problem": run.problem,
        "seed": run.seed,
        "users": run.episodes,
        "complete": run.complete,
        "regret": _finite(run.regret[-1]) if has_values else None,
        "value": _finite(value),
        "mean_return": _finite(run.mean_return[-1]) if run.episodes and not has_values else None,
        "last_return": None if last_return is None else list(last_return),
        "users_averaged": None if last_return is None else run.segments[-1].users,
        "units": _units(run.problem) or None,
        "share": _finite(share),
        "guarantee": run.guarantee.to_json(),
        "guarantee_in_words": str(run.guarantee),
        "epsilon": _finite(run.guarantee.epsilon),
        "seconds": run.seconds,
    }
