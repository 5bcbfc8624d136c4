"""python -m papers luyo21 --quick: check the claims and errata of a paper, and run its algorithms."""

from collections.abc import Callable, Iterator
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
from papers.findings import Reproduction

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
            help="The largest number of users of runs with the paper's constants, for a slow machine.",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the page, its figures and the numbers as JSON to this folder."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the claims of a paper and run its algorithms.

    A claim of the paper that does not hold is reported. The exit code is 1 only if the computation does not confirm one of our errata.
    """
    with _telling(as_json) as say:
        found = papers.reproduce(paper, quick=quick, users=users, out=out, progress=say)
    if as_json:
        typer.echo(page.as_json(found), nl=False)
    else:
        _print(found)
        if out is not None:
            typer.echo(f"page: {out / f'{paper}.md'}")
    if found.broken:
        numbers = ", ".join(str(erratum.number) for erratum in found.broken)
        typer.echo(f"errata that the computation does not confirm: {numbers}", err=True)
        raise typer.Exit(1)


@contextmanager
def _telling(quiet: bool) -> Iterator[Callable[[str], None]]:
    """Show progress, on a terminal only."""
    console = Console(stderr=True)
    if quiet or not console.is_terminal:
        yield lambda _text: None
        return
    with console.status("") as status:
        yield lambda text: status.update(escape(text))


def _print(found: Reproduction) -> None:
    console = Console()
    console.print(found.title, style="bold", markup=False, highlight=False)
    claims = [
        (claim.locator, claim.says, claim.computed, claim.verdict) for claim in found.calibrations
    ]
    _table(
        console,
        "constants and theorems",
        ("where", "the paper says", "computed", "verdict"),
        claims,
    )
    runs = [(one.name, *page.cells(run)) for one in found.algorithms for run in one.measured]
    _table(
        console, "algorithms", ("algorithm", "run", "epsilon", "measured", "for comparison"), runs
    )
    claims = [
        (claim.locator, claim.says, claim.computed, claim.verdict) for claim in found.empirical
    ]
    _table(console, "results", ("where", "the paper says", "computed", "verdict"), claims)
    for table in found.tables:
        _table(console, table.title, table.headings, table.rows)
    for title, entries in (("errata", found.wrong), ("looser than needed", found.slack)):
        rows = [(str(e.number), e.locator, e.true, e.computed, e.verdict) for e in entries]
        _table(console, title, ("no.", "where", "correction", "computed", "verdict"), rows)
    looked = len(found.calibrations) + len(found.empirical)
    console.print(
        f"claims checked: {looked}, do not hold: {len(found.refuted)}; errata: {len(found.wrong)}, not confirmed: {len(found.broken)}",
        highlight=False,
    )


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
