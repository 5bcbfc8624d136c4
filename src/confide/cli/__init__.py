"""The command line: parse arguments, call the library, print a table or JSON.

Everything heavy is imported inside the commands, so that `confide --help` is instant.
"""

import os
import shutil
import signal
import sys
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Annotated, Any

import typer

from confide import __version__
from confide.cli import (
    audit,
    compare,
    doctor,
    evaluate,
    explain,
    learn,
    ledger,
    listing,
    logs,
    plan,
    plan_learn,
    results,
    run,
    serve,
    service,
    verify,
)
from confide.cli.estimator_options import EstimatorCommand, PlannedEstimatorCommand
from confide.cli.help_pages import CommandLine
from confide.cli.terminal import one_line, terminals
from confide.errors import CHARGED, ConfideError, ConfideWarning, InvalidParameter

# Help is never wrapped at fewer columns, unless the terminal has fewer.
HELP_COLUMNS = 52
# Exit code of an error that nobody foresaw.
INTERNAL = 70
# Exit codes that shells report for SIGINT, SIGPIPE and SIGTERM.
INTERRUPTED = 130
CLOSED_PIPE = 141
TERMINATED = 143
# Parameters of Python that the command line has by other names as well.
_OTHER_OPTION_NAMES = {"episodes": ("--users",)}

SIMULATED = "Agents and simulated users"
LOGGED = "Logged data"
LIVE = "Live users"
CHECKS = "Checks"

app = CommandLine(
    "confide",
    """Differentially private reinforcement learning.

    Examples:
        confide run tabular-psrl riverswim --epsilon 1
        confide list
        confide COMMAND --help
    """,
)
app.add("run", run.run, SIMULATED)
app.add("compare", compare.compare, SIMULATED)
app.add("explain", explain.explain, SIMULATED)
app.add("show", results.show, SIMULATED)
app.add("list", listing.list_all, SIMULATED)

logs_app = CommandLine(
    "logs",
    """Import and check logged trajectories. The output is NOT PRIVATE.

    Examples:
        confide logs import visits.csv --in-order --states 10 --out log.parquet
        confide logs check log.parquet
    """,
)
logs_app.add("import", logs.import_)
logs_app.add("check", logs.check)
app.add_typer(logs_app, rich_help_panel=LOGGED)
app.add("evaluate", evaluate.evaluate, LOGGED, EstimatorCommand)
app.add("learn", learn.learn, LOGGED)
plan_app = CommandLine(
    "plan",
    """Predict errors from public numbers, without reading data.

    Example:
        confide plan learn --on riverswim --epsilon 1 --delta 1e-6
    """,
)
plan_app.add("evaluate", plan.evaluate, kind=PlannedEstimatorCommand)
plan_app.add("learn", plan_learn.learn)
app.add_typer(plan_app, rich_help_panel=LOGGED)
ledger_app = CommandLine(
    "ledger",
    """Keep a privacy budget in a file.

    Examples:
        confide ledger init budget.json --epsilon 4 --delta 1e-5
        confide ledger show budget.json
    """,
)
ledger_app.add("init", ledger.init)
ledger_app.add("show", ledger.show)
app.add_typer(ledger_app, rich_help_panel=LOGGED)

app.add("serve", serve.serve, LIVE)
service_app = CommandLine(
    "service",
    """Set up and maintain a service.

    Examples:
        confide service init study
        confide service status study
    """,
)
service_app.add("init", service.init)
service_app.add("keys", service.api_keys)
service_app.add("rotate", service.rotate)
service_app.add("backup", service.backup)
service_app.add("verify", service.verify)
service_app.add("finish", service.finish)
service_app.add("mark", service.mark)
service_app.add("check", service.check)
service_app.add("status", service.status)
app.add_typer(service_app, rich_help_panel=LIVE)

app.add("audit", audit.audit, CHECKS)
app.add("verify", verify.verify, CHECKS)
app.add("doctor", doctor.doctor, CHECKS)


def _print_version(requested: bool) -> None:
    if requested:
        typer.echo(f"confide {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    pass


def main(arguments: list[str] | None = None) -> None:
    """Run a command.

    Errors and warnings are one line on standard error, without a traceback. An error exits with 2,
    and one that nobody foresaw with 70.
    """
    with terminals(), _sigterm_interrupts() as signals:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                code = app(
                    arguments, prog_name="confide", standalone_mode=False, **_width_of_help()
                )
                sys.stdout.flush()
        except ConfideError as error:
            _fail(_with_options(error, sys.argv[1:] if arguments is None else arguments))
        except typer.TyperException as error:
            message = error.format_message() if hasattr(error, "format_message") else str(error)
            if type(error).__name__ == "NoArgsIsHelpError":
                print(message)
                sys.exit(0)
            _fail(message)
        except MemoryError:
            _fail("not enough memory for a problem of this size")
        except BrokenPipeError:
            # Whoever read the output has ended, as in `confide list | head`.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            sys.exit(CLOSED_PIPE)
        except OSError as error:
            _fail(f"{error.filename or 'output'}: {error.strerror or error}")
        except (KeyboardInterrupt, typer.Abort):
            code = INTERRUPTED
        except Exception as error:
            _fail(_describe_unforeseen(error), INTERNAL)
        if code == INTERRUPTED and signals:
            print("stopped by SIGTERM", file=sys.stderr)
            code = TERMINATED
        sys.exit(code if isinstance(code, int) else 0)


def _width_of_help() -> dict[str, int]:
    """Settings for terminals with fewer columns than help is usually wrapped at."""
    columns = shutil.get_terminal_size().columns
    return {"terminal_width": columns} if columns < HELP_COLUMNS else {}


@contextmanager
def _sigterm_interrupts() -> Iterator[list[int]]:
    """SIGTERM has the effect of Ctrl-C: results so far are saved, and temporary files are removed.

    Yields a list of the signals that have come so far.
    """
    received: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield received
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        usual = signal.getsignal(signal.SIGINT)
        if callable(usual):
            usual(signal.SIGINT, frame)
        else:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield received
    finally:
        signal.signal(signal.SIGTERM, before)


def _warn(message: Warning | str, category: type[Warning], *_: Any, **__: Any) -> None:
    """Print our own warnings as one line; ignore those of other libraries."""
    if issubclass(category, ConfideWarning):
        print(f"warning: {one_line(str(message))}", file=sys.stderr)


def _with_options(error: ConfideError, arguments: list[str]) -> str:
    """The text of an error, with the name of an option instead of a parameter of Python.

    The parameter stays if no option of its name was given.
    """
    if not isinstance(error, InvalidParameter):
        return str(error)
    given = {argument.partition("=")[0] for argument in arguments}
    own_name = f"--{error.parameter.replace('_', '-')}"
    for option in (own_name, *_OTHER_OPTION_NAMES.get(error.parameter, ())):
        if option in given:
            return error.about(option)
    return str(error)


def _fail(message: str, code: int = 2) -> None:
    print(f"error: {one_line(message)}", file=sys.stderr)
    sys.exit(code)


def _describe_unforeseen(error: Exception) -> str:
    """The type of an error and the line of our code in which it happened, and nothing else.

    Its text, and the values around it, may be somebody's data.
    """
    place = "confide"
    trace = error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        if module.split(".")[0] == "confide":
            place = f"{module}:{trace.tb_lineno}"
        trace = trace.tb_next
    hidden = "its text is not shown, since it may contain data"
    charged = f" {CHARGED}" if CHARGED in getattr(error, "__notes__", ()) else ""
    report = "Please report this line and what confide doctor prints"
    return f"internal error in {place}, {type(error).__name__} ({hidden}). {report}.{charged}"
