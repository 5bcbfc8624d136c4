"""confide compare: many agents, problems, promises and seeds from one file."""

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.options import AsJson, print_json
from confide.cli.progress import short, sweeping

if TYPE_CHECKING:
    from confide.experiments.comparison import Comparison


def compare(
    spec: Annotated[
        Path,
        typer.Argument(help="A TOML file: agents, problems, promises, seeds; or the folder of a comparison, to look at again."),
    ],
    backend: Annotated[str, typer.Option(help="Where runs are made: local (processes), ray or dask.")] = "local",
    workers: Annotated[
        int | None, typer.Option(help="How many at a time.", show_default="one per core, or the whole cluster")
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="A folder for the table, the report and the figures.", show_default="the file's name")
    ] = None,
    store: Annotated[
        Path | None, typer.Option(help="Where results are kept, by what decided them.", show_default=".confide-store")
    ] = None,
    again: Annotated[bool, typer.Option("--again", help="Compute everything anew, also what the store holds.")] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check the file and print the command of every run; run nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare agents over problems, promises and seeds, with honest error bars."""
    from confide.errors import InvalidParameter
    from confide.experiments.compare import compare as run_all
    from confide.experiments.comparison import Comparison
    from confide.experiments.sweep_file import read_sweep
    from confide.report.comparison_plots import save_comparison_figures

    if spec.is_dir():
        _print(Comparison.load(spec), None, as_json)
        return
    sweep = read_sweep(spec)
    cells = list(sweep.cells())
    if dry_run:
        print_json([cell.command for cell in cells]) if as_json else typer.echo("\n".join(cell.command for cell in cells))
        return
    folder = spec.with_suffix("") if out is None else out
    if folder.exists() and not folder.is_dir():
        raise InvalidParameter(f"results would go into the folder {folder}, which is a file: give --out")
    before = signal.signal(signal.SIGTERM, _stop)  # as Ctrl-C: what is done is kept, and no process is left behind
    try:
        with sweeping(as_json, len(cells)) as watch:
            made = run_all(sweep, backend=backend, workers=workers, store=store, again=again, progress=watch)
    except KeyboardInterrupt:
        typer.echo("interrupted: the same command goes on from here", err=True)
        raise typer.Exit(130) from None
    finally:
        signal.signal(signal.SIGTERM, before)
    made.save(folder / "results.parquet")
    if made.groups:
        made.report(folder / "report.html", command=shlex.join(["confide", *sys.argv[1:]]))
        save_comparison_figures(made, folder / "figures")
    _print(made, folder, as_json)
    if made.failures:
        raise typer.Exit(1)


def _stop(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt


def _print(made: "Comparison", folder: Path | None, as_json: bool) -> None:
    rows, failures = made.summary(), made.failures
    if as_json:
        print_json({"name": made.name, "results": rows, "failures": failures})
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    for problem in dict.fromkeys(row["problem"] for row in rows):
        here = [row for row in rows if row["problem"] == problem]
        seeds = max(row["seeds"] for row in here)
        table = Table(title=f"on {escape(problem)}, {seeds} seed{'s' if seeds > 1 else ''}", title_justify="left")
        table.add_column("agent", overflow="fold", min_width=min(max(len(row["agent"]) for row in here), 24))
        for heading in ("epsilon", "regret (95 %)", "x free", "90 % after"):
            table.add_column(heading, justify="right")
        for row in here:
            table.add_row(escape(row["agent"]), *_cells(row))
        console.print(table)
    if rows:
        console.print("x free: times the regret of the same agent without privacy; 90 % after: users until it lasts", style="dim")
    for failure in failures:
        promise = "no privacy" if failure["epsilon"] is None else f"epsilon {failure['epsilon']:g}"
        said = f"failed: {failure['agent']} on {failure['problem']}, {promise}, seed {failure['seed']}: {failure['error']}"
        console.print(said, style="red", highlight=False, markup=False, soft_wrap=True)
        console.print(f"  {failure['command']}", highlight=False, markup=False, soft_wrap=True)
    if folder is not None:
        typer.echo(f"table: {folder / 'results.parquet'}")
        if rows:
            typer.echo(f"report: {folder / 'report.html'}")


def _cells(row: dict[str, Any]) -> list[str]:
    def number(value: float | None) -> str:
        return "" if value is None else f"{value:,.0f}" if 100 <= abs(value) < 1e7 else short(value)

    low, high, reached = row["regret_low"], row["regret_high"], row["episodes_to_90"]
    between = "" if low is None or high is None or low == high else f" ({number(low)} to {number(high)})"
    free = row["of_no_privacy"]
    return [
        "none" if row["epsilon"] is None else f"{row['epsilon']:g}",
        number(row["regret"]) + between,
        "" if free is None else f"{free:.3g}",
        "never" if reached is None and row["regret"] is not None else number(reached),
    ]
