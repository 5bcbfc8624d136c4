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
from confide.cli.estimator_options import EstimatorCommand
from confide.cli.terminal import one_line, terminals
from confide.errors import CHARGED, ConfideError, ConfideWarning, InvalidParameter

# Help is never wrapped at fewer columns, unless the terminal has fewer.
HELP_COLUMNS = 52
# Exit codes: of an error that nobody foresaw, and of what a shell reports for SIGINT, SIGPIPE and SIGTERM.
INTERNAL, INTERRUPTED, CLOSED_PIPE, TERMINATED = 70, 130, 141, 143

app = typer.Typer(
    name="confide",
    help="Differentially private reinforcement learning in Python.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.command("run")(run.run)
app.command("compare")(compare.compare)
app.command("explain")(explain.explain)
app.command("show")(results.show)
app.command("list")(listing.list_all)
app.command("evaluate", cls=EstimatorCommand)(evaluate.evaluate)
app.command("learn")(learn.learn)
app.command("audit")(audit.audit)
app.command("verify")(verify.verify)
app.command("doctor")(doctor.doctor)
app.command("serve")(serve.serve)
app.add_typer(ledger.app, name="ledger")
app.add_typer(logs.app, name="logs")
plan.app.command("learn")(plan_learn.learn)
app.add_typer(plan.app, name="plan")
app.add_typer(service.app, name="service")


def _print_version(asked: bool) -> None:
    if asked:
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
    """Errors and warnings are one line on standard error, without a traceback. An error exits with 2; one that nobody foresaw with 70."""
    with terminals(), _terminated_like_interrupted() as signals:
        try:
            with warnings.catch_warnings():
                warnings.showwarning = _warn
                code = app(arguments, standalone_mode=False, **_narrow())
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
            _fail(_unforeseen(error), INTERNAL)
        if code == INTERRUPTED and signals:
            print("stopped by SIGTERM", file=sys.stderr)
            code = TERMINATED
        sys.exit(code if isinstance(code, int) else 0)


def _narrow() -> dict[str, int]:
    """Settings for terminals with fewer columns than help is usually wrapped at."""
    columns = shutil.get_terminal_size().columns
    return {"terminal_width": columns} if columns < HELP_COLUMNS else {}


@contextmanager
def _terminated_like_interrupted() -> Iterator[list[int]]:
    """SIGTERM has the effect of Ctrl-C: what is done is saved, and temporary files are removed. Yields the signals so far."""
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
    """An error of the library is about a parameter of Python: name the option instead, if it was given."""
    if not isinstance(error, InvalidParameter):
        return str(error)
    option = f"--{error.parameter.replace('_', '-')}"
    given = {argument.partition("=")[0] for argument in arguments}
    return error.about(option) if option in given else str(error)


def _fail(message: str, code: int = 2) -> None:
    print(f"error: {one_line(message)}", file=sys.stderr)
    sys.exit(code)


def _unforeseen(error: Exception) -> str:
    """Where it happened and its type, nothing else: its text, and the values around it, may be somebody's data."""
    place, trace = "confide", error.__traceback__
    while trace is not None:
        module = trace.tb_frame.f_globals.get("__name__", "")
        place = f"{module}:{trace.tb_lineno}" if module.split(".")[0] == "confide" else place
        trace = trace.tb_next
    said = "its text is not shown, since it may contain data"
    charged = f" {CHARGED}" if CHARGED in getattr(error, "__notes__", ()) else ""
    report = "Please report this line and what confide doctor prints"
    return f"internal error in {place}, {type(error).__name__} ({said}). {report}.{charged}"
