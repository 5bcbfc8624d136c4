"""confide compare: compare agents over problems, guarantees and seeds, as one file describes."""

import shlex
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from confide.cli.groups import with_groups
from confide.cli.options import OUTPUT_PANEL, AsJson, print_json
from confide.cli.progress import sweep_bar
from confide.cli.results import print_comparison
from confide.cli.run import INTERRUPTED

if TYPE_CHECKING:
    from confide.comparison.comparison import Comparison


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutionOptions:
    """Where runs are executed, and where their results are kept."""

    PANEL: ClassVar = "Execution"

    backend: Annotated[
        str,
        typer.Option(
            metavar="local|ray|dask",
            help="Where runs are executed. local: in processes of this machine.",
        ),
    ] = "local"
    workers: Annotated[
        int | None,
        typer.Option(
            help="Number of runs at a time.", show_default="one per core, or the whole cluster"
        ),
    ] = None
    store: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Folder in which results are cached.",
            show_default=".confide-store",
        ),
    ] = None
    again: Annotated[
        bool,
        typer.Option("--again", help="Compute everything again, including results in the store."),
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Check the file and print the command of each run, without running it.",
        ),
    ] = False


@with_groups
def compare(
    spec: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="A TOML file with agents, problems, epsilons and seeds. Or the folder of a "
            "finished comparison, to show it again.",
        ),
    ],
    execution: ExecutionOptions,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Save the table, the report and figures to this folder.",
            show_default="the file's name",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Compare agents over problems, guarantees and seeds.

    The table has confidence intervals. The exit code is 1 if a run failed.

    Examples:
        confide compare comparison.toml --dry-run
        confide compare comparison.toml --workers 4 --out results
    """
    from confide._durable import output
    from confide.comparison.comparison import Comparison
    from confide.runs.sweep_file import read_sweep

    if spec.is_dir():
        print_comparison(Comparison.load(spec), None, as_json)
        return
    sweep = read_sweep(spec)
    cells = list(sweep.cells())
    if execution.dry_run:
        commands = [cell.command for cell in cells]
        if as_json:
            print_json(commands)
        else:
            typer.echo("\n".join(commands))
        return
    folder = spec.with_suffix("") if out is None else out
    with output(folder):
        comparison = _run(sweep, len(cells), execution, quiet=as_json)
        _save(comparison, folder)
    print_comparison(comparison, folder, as_json)
    if comparison.failures:
        raise typer.Exit(1)


def _run(sweep: Any, cells: int, execution: ExecutionOptions, *, quiet: bool) -> "Comparison":
    from confide.comparison.comparison import compare as run_all

    with _sigterm_interrupts():
        try:
            with sweep_bar(quiet, cells) as watch:
                return run_all(
                    sweep,
                    backend=execution.backend,
                    workers=execution.workers,
                    store=execution.store,
                    again=execution.again,
                    progress=watch,
                )
        except KeyboardInterrupt:
            typer.echo("interrupted: run the same command again to resume", err=True)
            raise typer.Exit(INTERRUPTED) from None


def _save(comparison: "Comparison", folder: Path) -> None:
    from confide._durable import replace_files

    with replace_files(folder, last="results.parquet") as stage:
        if comparison.rows:
            command = shlex.join(["confide", *sys.argv[1:]])
            comparison.report(stage / "report.html", command=command)
            comparison.save_figures(stage / "figures")
        comparison.save(stage / "results.parquet")


@contextmanager
def _sigterm_interrupts() -> Iterator[None]:
    """SIGTERM has the effect of Ctrl-C: finished runs are kept, and all processes end."""

    def interrupt(_number: int, _frame: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
