"""confide compare: compare agents over problems, guarantees and seeds, as described in one file."""

import shlex
import signal
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from confide.cli.options import AsJson, print_json
from confide.cli.progress import sweeping
from confide.cli.results import print_comparison


def compare(
    spec: Annotated[
        Path,
        typer.Argument(
            help="A TOML file with agents, problems, epsilons and seeds; or the folder of a finished comparison, to show it again."
        ),
    ],
    backend: Annotated[
        str, typer.Option(help="Where runs are executed: local (processes), ray or dask.")
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of runs at a time.", show_default="one per core, or the whole cluster"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Save the table, the report and figures to this folder.",
            show_default="the file's name",
        ),
    ] = None,
    store: Annotated[
        Path | None,
        typer.Option(help="Folder in which results are cached.", show_default=".confide-store"),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Compute everything again, including results in the store."),
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check the file and print the command of each run, without running it.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Compare agents over problems, guarantees and seeds, with confidence intervals."""
    from confide._durable import output, replace_files
    from confide.comparison.comparison import Comparison
    from confide.comparison.comparison import compare as run_all
    from confide.runs.sweep_file import read_sweep

    if spec.is_dir():
        print_comparison(Comparison.load(spec), None, as_json)
        return
    sweep = read_sweep(spec)
    cells = list(sweep.cells())
    if dry_run:
        print_json([cell.command for cell in cells]) if as_json else typer.echo(
            "\n".join(cell.command for cell in cells)
        )
        return
    folder = spec.with_suffix("") if out is None else out
    with output(folder):
        # as Ctrl-C: finished runs are kept, and all processes end
        before = signal.signal(signal.SIGTERM, _stop)
        try:
            with sweeping(as_json, len(cells)) as watch:
                made = run_all(
                    sweep,
                    backend=backend,
                    workers=workers,
                    store=store,
                    again=again,
                    progress=watch,
                )
        except KeyboardInterrupt:
            typer.echo("interrupted: run the same command again to resume", err=True)
            raise typer.Exit(130) from None
        finally:
            signal.signal(signal.SIGTERM, before)
        with replace_files(folder, last="results.parquet") as stage:
            if made.rows:
                made.report(stage / "report.html", command=shlex.join(["confide", *sys.argv[1:]]))
                made.save_figures(stage / "figures")
            made.save(stage / "results.parquet")
    print_comparison(made, folder, as_json)
    if made.failures:
        raise typer.Exit(1)


def _stop(_number: int, _frame: Any) -> None:
    raise KeyboardInterrupt
