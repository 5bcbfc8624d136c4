"""One release of a log, from the command line: ask before a charge, show progress, and say what was done."""

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
from confide.cli.progress import counting

if TYPE_CHECKING:
    from rich.console import Console

    from confide.logs import Logs
    from confide.privacy.request import Request
    from confide.release.charge import Published
    from confide.release.files import FileRelease

Answer = TypeVar("Answer", bound="Published")


@contextmanager
def careful(
    asked: "FileRelease[Any]", subject: str, out: Path | None, *, yes: bool
) -> Iterator[None]:
    """Check the budget, ask before a charge, and check the output folder.

    An error removes empty folders and reports a charge.
    """
    again = asked.spend() is not None
    if asked.ledger is not None and not again:
        asked.check_budget(subject)
        _confirm(asked.privacy, asked.ledger.path.name, yes=yes)
    if out is not None:
        need("report", "the report that --out writes")
    with asked.folder(out, again=again), _telling_of_the_charge(asked):
        yield


def _confirm(privacy: "Request", charged: str, *, yes: bool) -> None:
    """Ask before a charge. Neither the question nor that it is asked depends on the data.

    A command that looked at the data and stopped would tell something about them that no guarantee covers.
    """
    from confide.errors import ConfideError, InvalidParameter

    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidParameter(
            f"a charge to {charged} cannot be undone: look at the counts of confide logs check, then add --yes"
        )
    question = (
        f"This charges {privacy} to {charged}, and cannot be undone. Look at the counts of confide logs check first: "
        "if they show that most users contribute zero, the result is noise. confide does not look for you."
    )
    typer.echo(f"{question}\nCharge the ledger? [y/N]: ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfideError("nothing was charged, because the question was not answered with yes")


def make_release(
    asked: "FileRelease[Answer]", logs: "Logs", out: Path | None, quiet: bool
) -> tuple[Answer, list[str]]:
    """The result, and warnings about it, also if it was stored in the ledger."""
    reads = max(len(asked.question.queries(logs, asked.privacy)), 1)
    with _progress(logs, reads, quiet) as progress:
        answer: Any = asked.answer(logs, progress)
    asked.check_folder(out, answer)
    warned = delta_warnings(answer.guarantee.users, asked.privacy.delta)
    return answer, warned + [str(each) for each in asked.question.warnings(answer)]


@contextmanager
def _telling_of_the_charge(asked: "FileRelease[Any]") -> Iterator[None]:
    """After an error that follows the charge, say that the same command can be repeated at no cost."""
    from confide.errors import ConfideError, LedgerError

    try:
        yield
    except LedgerError:  # it speaks for itself
        raise
    except (ConfideError, OSError, MemoryError, KeyboardInterrupt) as error:
        charged = None
        with suppress(LedgerError):
            charged = asked.spend()
        if charged is None:
            raise
        said = "the ledger was already charged for this release: fix the cause and run the same command again, at no further cost"
        if isinstance(error, KeyboardInterrupt):
            typer.echo(f"interrupted; {said}", err=True)
            raise
        text = (
            f"{error.filename or 'output'}: {error.strerror or error}"
            if isinstance(error, OSError)
            else str(error)
        )
        raise ConfideError(
            f"{text or 'not enough memory for a problem of this size'}; {said}"
        ) from None


@contextmanager
def _progress(logs: "Logs", reads: int, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar of rows, from parts: they are of about the same size."""
    sources = (
        {part.source.name: part.source for part in logs.parts}
        if sys.stderr.isatty() and not quiet
        else {}
    )
    rows = sum(sum(source.groups()) for source in sources.values())
    with counting(quiet, "reading", rows * reads, "rows") as advance:
        seen = 0

        def progress(done: int, parts: int) -> None:
            nonlocal seen
            # a second reading starts anew
            before, seen = seen if done > 1 else 0, rows * done // parts
            advance(seen - before)

        yield progress


def told(
    asked: "FileRelease[Any]", before: str | None, returns: str = ""
) -> tuple[tuple[str, str], ...]:
    """What was clipped, which noise was added, and what was charged. `before` is when it was released already."""
    layout = asked.layout
    counted = asked.question.counted(layout["max_trajectories"], layout["max_steps"])
    lines = [("counted", f"{counted}.")]
    if returns:
        lines.append(("returns", f"{returns}."))
    if asked.noise.name != "none":
        lines.append(("noise", asked.noise.why))
    return (*lines, ("ledger", _paid(asked, before)))


def released_before(asked: "FileRelease[Any]") -> str | None:
    """When the same release was made, if the ledger has its answer."""
    known = asked.spend()
    return known.when if known is not None and known.released else None


def _paid(asked: "FileRelease[Any]", before: str | None) -> str:
    from confide.release.files import largest_request

    if asked.noise.name == "none":
        return "nothing was charged. The result is not private: do not publish it."
    if asked.ledger is None:
        return "NOTHING WAS CHARGED: without --ledger the total privacy loss of several releases of one log is not tracked."
    account = asked.ledger.account
    left = f"Left: {account.left}"
    if account.remaining.mu > 0 and asked.privacy.delta > 0:
        # At the delta of the ledger, so that the number can be compared with its budget, and at that of this release.
        deltas = dict.fromkeys((account.total.delta or asked.privacy.delta, asked.privacy.delta))
        most = " or ".join(largest_request(account, delta) for delta in deltas)
        left = f"Left: {most} for one more release with Gaussian noise (see confide ledger show)"
    if before is not None:
        return f"already released at {before}: this is the same result, at no further cost; use --id for a new release. {left}."
    return f"charged to {asked.ledger.path.name}. {left}."


@contextmanager
def only_ours(no_privacy: bool) -> Iterator[None]:
    """Make files that are not private readable by their owner only."""
    before = os.umask(0o077) if no_privacy else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)


def command() -> str:
    """The command without its seed: the seed would allow the noise to be removed."""
    arguments = sys.argv[1:]
    hidden = [
        index
        for index, part in enumerate(arguments)
        if part == "--seed" or part.startswith("--seed=")
    ]
    for index in reversed(hidden):
        del arguments[index : index + 1 + (arguments[index] == "--seed")]
    return shlex.join(["confide", *arguments])


def show_release(
    record: dict[str, Any],
    shown: Callable[[], None],
    warned: list[str],
    files: dict[str, str],
    out: Path | None,
    as_json: bool,
) -> None:
    """Print a release, as JSON or by `shown`, and the files of the folder `out` that were written."""
    for warning in warned:
        typer.echo(f"warning: {warning}", err=True)
    if as_json:
        print_json(record | {"warnings": warned, "out": None if out is None else str(out)})
        return
    shown()
    for name, where in files.items():
        typer.echo(f"{name}: {where}")


def print_summary(title: str, words: list[tuple[str, str]]) -> "Console":
    """A title, and below it what there is to say, each line with what it is about."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    console.print(Text(title, style="bold"))
    summary = Table.grid(padding=(0, 2))
    summary.add_column(style="dim", no_wrap=True)
    summary.add_column()
    before = ""
    for name, text in words:
        summary.add_row(Text(name if name != before else ""), Text(text))
        before = name
    console.print(summary)
    return console


def certified(out: Path) -> str:
    return f"{out / 'certificate.json'} (confide verify recomputes its guarantee)"
