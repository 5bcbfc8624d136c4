"""One release of a log, from the command line.

A command asks before a charge, shows its progress, and says what was done. Neither the question
nor anything printed before the release depends on the data.
"""

import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from confide._extras import need
from confide.cli.options import print_json
from confide.cli.plan import delta_warnings
from confide.cli.progress import counting_bar

if TYPE_CHECKING:
    from rich.console import Console

    from confide.logs import Logs
    from confide.privacy.request import Request
    from confide.release.charge import Published
    from confide.release.files import FileRelease

Answer = TypeVar("Answer", bound="Published")

# A table on a terminal has at most this many rows. A matter of taste.
TABLE_ROWS = 15


@contextmanager
def guarded_release(
    release: "FileRelease[Any]", subject: str, out: Path | None, *, yes: bool
) -> Iterator[None]:
    """Check the budget, ask before a charge, and check the output folder.

    If an error follows, empty folders are removed, and a charge is reported.
    """
    again = release.spend() is not None
    if release.ledger is not None and not again:
        release.check_budget(subject)
        _confirm(release.privacy, release.ledger.path.name, yes=yes)
    if out is not None:
        need("report", "the report that --out writes")
    with release.folder(out, again=again), _report_charge_with_errors(release):
        yield


def _confirm(privacy: "Request", ledger_name: str, *, yes: bool) -> None:
    """Ask before a charge. Neither the question nor that it is asked depends on the data.

    A command that looked at the data and stopped would reveal something about them that no
    guarantee covers.
    """
    from confide.errors import ConfideError, InvalidParameter

    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidParameter(
            f"a charge to {ledger_name} cannot be undone: "
            "look at the counts of confide logs check, then add --yes"
        )
    question = (
        f"This charges {privacy} to {ledger_name}, and cannot be undone. "
        "Look at the counts of confide logs check first: "
        "if they show that most users contribute zero, the result is noise. "
        "confide does not look for you."
    )
    typer.echo(f"{question}\nCharge the ledger? [y/N]: ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfideError("nothing was charged, because the question was not answered with yes")


def make_release(
    release: "FileRelease[Answer]", logs: "Logs", out: Path | None, quiet: bool
) -> tuple[Answer, list[str]]:
    """The answer, and the warnings about it. An answer in the ledger has the same warnings."""
    readings = max(len(release.question.queries(logs, release.privacy)), 1)
    with _reading_bar(logs, readings, quiet) as progress:
        answer: Any = release.answer(logs, progress)
    release.check_folder(out, answer)
    warnings = delta_warnings(answer.guarantee.users, release.privacy.delta)
    return answer, warnings + [str(warning) for warning in release.question.warnings(answer)]


@contextmanager
def _report_charge_with_errors(release: "FileRelease[Any]") -> Iterator[None]:
    """After an error that follows the charge, say that repeating the command costs nothing."""
    from confide.errors import ConfideError, LedgerError

    try:
        yield
    except LedgerError:
        # Its text says already what was charged.
        raise
    except (ConfideError, OSError, MemoryError, KeyboardInterrupt) as error:
        spend = None
        with suppress(LedgerError):
            spend = release.spend()
        if spend is None:
            raise
        advice = (
            "the ledger was already charged for this release: "
            "fix the cause and run the same command again, at no further cost"
        )
        if isinstance(error, KeyboardInterrupt):
            typer.echo(f"interrupted; {advice}", err=True)
            raise
        text = str(error)
        if isinstance(error, OSError):
            text = f"{error.filename or 'output'}: {error.strerror or error}"
        cause = text or "not enough memory for a problem of this size"
        raise ConfideError(f"{cause}; {advice}") from None


@contextmanager
def _reading_bar(logs: "Logs", readings: int, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar that counts rows. It hears of parts, which are of about the same size."""
    rows = 0
    # Counting the rows opens the files, so it is done only for a bar that somebody sees.
    if sys.stderr.isatty() and not quiet:
        sources = {part.source.name: part.source for part in logs.parts}
        rows = sum(sum(source.groups()) for source in sources.values())
    with counting_bar(quiet, "reading", rows * readings, "rows") as advance:
        rows_read = 0

        def progress(done: int, parts: int) -> None:
            nonlocal rows_read
            # After the first part of another reading, counting starts anew.
            rows_before = rows_read if done > 1 else 0
            rows_read = rows * done // parts
            advance(rows_read - rows_before)

        yield progress


def explain_release(
    release: "FileRelease[Any]", before: str | None, returns: str = ""
) -> tuple[tuple[str, str], ...]:
    """What was clipped, which noise was added, and what was charged: a heading and a text each.

    `before` is the time at which the same release was made already, or None. `returns` says where
    the range of returns comes from.
    """
    layout = release.layout
    counted = release.question.counted(layout["max_trajectories"], layout["max_steps"])
    lines = [("counted", f"{counted}.")]
    if returns:
        lines.append(("returns", f"{returns}."))
    if release.noise.name != "none":
        lines.append(("noise", release.noise.why))
    return (*lines, ("ledger", _explain_charge(release, before)))


def time_of_release(release: "FileRelease[Any]") -> str | None:
    """When the same release was made, if the ledger has its answer."""
    spend = release.spend()
    return spend.when if spend is not None and spend.released else None


def _explain_charge(release: "FileRelease[Any]", before: str | None) -> str:
    from confide.release.files import largest_request

    if release.noise.name == "none":
        return "nothing was charged. The result is not private: do not publish it."
    if release.ledger is None:
        return (
            "NOTHING WAS CHARGED: without --ledger the total privacy loss of several releases of "
            "one log is not tracked."
        )
    account = release.ledger.account
    left = f"Left: {account.left}"
    if account.remaining.mu > 0 and release.privacy.delta > 0:
        # At the delta of the ledger, so that the number can be compared with its budget, and at
        # the delta of this release.
        ledger_delta = account.total.delta or release.privacy.delta
        deltas = dict.fromkeys((ledger_delta, release.privacy.delta))
        largest = " or ".join(largest_request(account, delta) for delta in deltas)
        left = f"Left: {largest} for one more release with Gaussian noise (see confide ledger show)"
    if before is not None:
        return (
            f"already released at {before}: this is the same result, at no further cost; "
            f"use --id for a new release. {left}."
        )
    return f"charged to {release.ledger.path.name}. {left}."


@contextmanager
def private_files(no_privacy: bool) -> Iterator[None]:
    """Make the files of a result that is not private readable by their owner only."""
    before = os.umask(0o077) if no_privacy else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)


def command_without_seed() -> str:
    """The command as a report states it. With its seed, anybody could remove the noise."""
    kept = []
    arguments = iter(sys.argv[1:])
    for argument in arguments:
        if argument == "--seed":
            next(arguments, None)
        elif not argument.startswith("--seed="):
            kept.append(argument)
    return shlex.join(["confide", *kept])


def show_release(
    record: dict[str, Any],
    print_text: Callable[[], None],
    warnings: list[str],
    files: dict[str, str],
    out: Path | None,
    as_json: bool,
) -> None:
    """Print a release, as JSON or with `print_text`, and the files that were written.

    `files` says for each kind of file where it is.
    """
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    if as_json:
        print_json(record | {"warnings": warnings, "out": None if out is None else str(out)})
        return
    print_text()
    for name, where in files.items():
        typer.echo(f"{name}: {where}")


def print_summary(title: str, words: list[tuple[str, str]]) -> "Console":
    """Print a title, and below it a table of headings and texts. Repeated headings are omitted."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(Text(title, style="bold"))
    summary = Table.grid(padding=(0, 2))
    summary.add_column(style="dim", no_wrap=True)
    summary.add_column()
    previous = ""
    for heading, text in words:
        summary.add_row(Text(heading if heading != previous else ""), Text(text))
        previous = heading
    console.print(summary)
    return console


def certificate_file(out: Path) -> str:
    return f"{out / 'certificate.json'} (confide verify recomputes its guarantee)"
