"""`python -m papers luyo21 --quick` checks the claims of a paper, and runs its algorithms."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import papers
from confide.cli.options import AsJson
from confide.errors import ConfideError
from papers import page
from papers.findings import Claim, Erratum, Reproduction

app = typer.Typer(name="papers", pretty_exceptions_enable=False, rich_markup_mode=None)


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="balle16, luyo21, zhou22 or chowdhury21.")],
    quick: Annotated[
        bool,
        typer.Option(
            "--quick", help="Use fewer seeds and users; takes seconds instead of minutes."
        ),
    ] = False,
    users: Annotated[
        int | None,
        typer.Option(
            min=100,
            help="The largest number of users of runs with the paper's constants, and of the "
            "trajectories in Fig. 1 of balle16. Lower it on a slow machine.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the page, its figures and the numbers as JSON to this folder."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the claims of a paper and run its algorithms.

    The report shows claims that do not hold. The exit code is 1 only if the computation does not
    confirm one of our errata.
    """
    with _progress(as_json) as say:
        reproduction = papers.reproduce(paper, quick=quick, users=users, out=out, progress=say)
    if as_json:
        typer.echo(page.as_json(reproduction), nl=False)
    else:
        _print(reproduction)
        if out is not None:
            typer.echo(f"page: {out / f'{paper}.md'}")
    if reproduction.broken:
        numbers = ", ".join(str(erratum.number) for erratum in reproduction.broken)
        typer.echo(f"errata that the computation does not confirm: {numbers}", err=True)
        raise typer.Exit(1)


@contextmanager
def _progress(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show progress, on a terminal only."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _text: None
        return
    with console.status("") as status:
        yield lambda text: status.update(escape(text))


def _print(reproduction: Reproduction) -> None:
    console = Console()
    console.print(reproduction.title, style="bold", markup=False, highlight=False)
    _claims(console, "constants and theorems", reproduction.calibrations)
    runs = [
        (algorithm.name, *page.cells(run))
        for algorithm in reproduction.algorithms
        for run in algorithm.measured
    ]
    headings = ("algorithm", "run", "epsilon", "measured", "for comparison")
    _table(console, "algorithms", headings, runs)
    _claims(console, "results", reproduction.empirical)
    for table in reproduction.tables:
        _table(console, table.title, table.headings, table.rows)
    _errata(console, "errata", reproduction.wrong)
    _errata(console, "looser than needed", reproduction.slack)
    claims_checked = len(reproduction.calibrations) + len(reproduction.empirical)
    console.print(
        f"claims checked: {claims_checked}, do not hold: {len(reproduction.refuted)}; "
        f"errata: {len(reproduction.wrong)}, not confirmed: {len(reproduction.broken)}",
        highlight=False,
    )


def _claims(console: Console, title: str, claims: Sequence[Claim]) -> None:
    rows = [(claim.locator, claim.says, claim.computed, claim.verdict) for claim in claims]
    _table(console, title, ("where", "the paper says", "computed", "verdict"), rows)


def _errata(console: Console, title: str, errata: Sequence[Erratum]) -> None:
    rows = [
        (str(erratum.number), erratum.locator, erratum.true, erratum.computed, erratum.verdict)
        for erratum in errata
    ]
    _table(console, title, ("no.", "where", "correction", "computed", "verdict"), rows)


def _table(console: Any, title: str, headings: tuple[str, ...], rows: Any) -> None:
    table = Table(title=title, title_justify="left", show_lines=True)
    for heading in headings:
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(
            *(escape(cell) for cell in row),
            style="bold" if row[-1] in ("does not hold", "NOT SHOWN") else None,
        )
    console.print(table)


def main() -> None:
    try:
        app()
    except ConfideError as error:
        typer.echo(f"error: {error}", err=True)
        raise SystemExit(2) from None


if __name__ == "__main__":
    main()
