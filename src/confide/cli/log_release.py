"""One release of a log, from the command line: check the request, charge the ledger, then read the log."""

import math
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from confide._extras import need
from confide.cli.options import print_json
from confide.cli.plan import delta_warnings
from confide.cli.progress import counting

if TYPE_CHECKING:
    from rich.console import Console

    from confide.evaluation.catalogue import Noise
    from confide.logs import Labels, Logs
    from confide.privacy.ledger import Account, Ledger, Spend
    from confide.privacy.request import Request


@dataclass(frozen=True, slots=True)
class LogRelease:
    """What is released from which files. All fields are public."""

    estimator: str
    made: Any
    privacy: "Request"
    noise: "Noise"
    files: list[str]
    layout: dict[str, Any]  # of `confide.logs.open`: columns and caps
    name: str | None
    result: Any  # the class of what is released: it has `load`, and what it makes has `to_bytes`
    reads: int = 1  # how often the log is read
    # the share of people that are not used, and the key that chooses them
    holdout: tuple[float, str] | None = None
    returns: str = ""  # the range of returns, and where it comes from

    @property
    def kind(self) -> str:
        """What is released, in a word."""
        return "model" if self.result.__name__ == "PrivateModel" else "estimate"

    def told(self, paid: str) -> tuple[tuple[str, str], ...]:
        """What was clipped, which noise was added, and what was charged."""
        counted = self.made.counted(self.layout["max_trajectories"], self.layout["max_steps"])
        lines = [
            ("counted", f"{counted}."),
            ("returns", f"{self.returns}."),
            ("noise", self.noise.why),
            ("ledger", paid),
        ]
        left_out = [("returns", ".")] + (
            [("noise", self.noise.why)] if self.noise.source == "none" else []
        )
        return tuple(line for line in lines if line not in left_out)

    @property
    def id(self) -> str:
        """Its id in a ledger. Other files, columns or caps make another release; changes of the files' contents are not detected."""
        from confide.release.charge import release_id

        paths = [os.path.realpath(path) for path in self.files]  # however they are spelt
        where = [
            *paths,
            repr(sorted(self.layout.items())),
            self.noise.source,
            *map(str, self.holdout or ()),
        ]
        asked = release_id(self.made, self.privacy, where)
        # a name never stands for two releases
        return f"{self.name} {asked}" if self.name else asked


@contextmanager
def careful(
    asked: LogRelease, path: Path | None, out: Path | None, *, yes: bool
) -> "Iterator[Ledger | None]":
    """Check the budget and the output folder, ask before a charge, then yield the ledger.

    An error removes empty folders and reports a charge.
    """
    from confide.privacy.ledger import Ledger
    from confide.privacy.request import NoPrivacy

    ledger = Ledger(path) if path is not None and not isinstance(asked.privacy, NoPrivacy) else None
    again = _charged(ledger, asked) is not None
    if ledger is not None and not again:
        _afford(ledger, asked)
        _confirm(asked, ledger, yes=yes)
    with _room(asked, out, again=again), _telling_of_the_charge(ledger, asked):
        yield ledger


def _confirm(asked: LogRelease, ledger: "Ledger", *, yes: bool) -> None:
    """Ask before a charge. Neither the question nor that it is asked depends on the data.

    A command that looked at the data and stopped would tell something about them that no guarantee covers.
    """
    from confide.errors import ConfideError, InvalidParameter

    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidParameter(
            f"a charge to {ledger.path.name} cannot be undone: look at the counts of confide logs check, then add --yes"
        )
    question = (
        f"This charges {asked.privacy} to {ledger.path.name}, and cannot be undone. Look at the counts of confide logs check first: "
        "if they show that most users contribute zero, the result is noise. confide does not look for you."
    )
    typer.echo(f"{question}\nCharge the ledger? [y/N]: ", err=True, nl=False)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise ConfideError("nothing was charged, because the question was not answered with yes")


def _charged(ledger: "Ledger | None", asked: LogRelease) -> "Spend | None":
    return (
        next((spend for spend in ledger.spends if spend.id == asked.id), None) if ledger else None
    )


def released(
    asked: LogRelease,
    ledger: "Ledger | None",
    out: Path | None,
    backend: str,
    workers: int | None,
    quiet: bool,
) -> "tuple[Any, str, list[str], Labels]":
    """The result, its cost in words, warnings, and the labels that may be shown with it."""
    import numpy as np

    from confide.errors import InvalidParameter

    known = _charged(ledger, asked)
    rng = np.random.default_rng(asked.noise.seed) if asked.noise.source == "fast" else None
    logs, _ = opened(asked)
    with _progress(logs, asked.reads, quiet) as progress, _without_warnings():
        estimate = asked.made.release(
            logs.on(backend, workers=workers),
            privacy=asked.privacy,
            ledger=ledger,
            rng=rng,
            progress=progress,
            id=asked.id if ledger else None,
        )
    if out is not None and (held := _held(asked, out)) is not None and held != estimate.to_bytes():
        raise InvalidParameter(f"{out} contains another {asked.kind}: choose another folder")
    before = known.when if known is not None and known.released else None
    warned = delta_warnings(estimate.guarantee.users, asked.privacy.delta) + [
        str(one) for one in asked.made.warnings(estimate)
    ]
    return estimate, _paid(asked, ledger, before), warned, logs.labels


def declared(kind: str, given: int | None, files: list[str]) -> int:
    """The number of states or actions: as given, or that of the labels which the log's files declare."""
    from confide.errors import InvalidParameter
    from confide.logs.labels import labels_of

    if given is not None:
        return given
    labels = getattr(labels_of(files), kind)
    if not labels:
        raise InvalidParameter(
            f"--{kind}s is missing: the log declares no labels of {kind}s (confide logs import --{kind}s-file does)"
        )
    return len(labels)


def _check_labels(logs: "Logs", states: int | None) -> None:
    """Refuse fewer states than the log declares. Its labels are public."""
    from confide.errors import InvalidParameter

    labelled = len(logs.labels.state)
    if states is not None and labelled > states:
        raise InvalidParameter(
            f"the log declares {labelled:,} states, and --states {states:,} leaves some out: say --states {labelled}"
        )


def opened(asked: LogRelease) -> "tuple[Logs, Logs | None]":
    """The log, or the parts of it that are released first and held out."""
    from confide.errors import LogError
    from confide.logs import open as open_logs

    logs = open_logs(asked.files, **asked.layout)
    if not logs.parts:
        raise LogError("the log is empty: it has no rows")
    _check_labels(logs, getattr(asked.made, "states", None))
    if asked.holdout is None:
        return logs, None
    share, key = asked.holdout
    return logs.split(share, key=key)


def _afford(ledger: "Ledger", asked: LogRelease) -> None:
    """Refuse what the ledger does not cover, and state what it would cover."""
    from confide.errors import BudgetExceeded
    from confide.privacy.loss import GaussianDP

    account, loss = ledger.account, asked.made.loss(asked.privacy)
    try:
        account.admit(loss)
    except BudgetExceeded:
        left = account.left
        if isinstance(loss, GaussianDP):
            left += f"; {_most(account, asked.privacy.delta)} is the largest request that fits"
        raise BudgetExceeded(f"{asked.privacy} for {asked.estimator}", left) from None


def _most(account: "Account", delta: float) -> str:
    """What one more release with Gaussian noise may ask for, rounded down."""
    from confide.privacy.accounting import gaussian_epsilon

    return f"epsilon={math.floor(1000 * gaussian_epsilon(account.remaining.mu, delta)) / 1000:g} at delta={delta:g}"


@contextmanager
def _room(asked: LogRelease, out: Path | None, *, again: bool) -> Iterator[None]:
    """A folder that can be written to and contains no other result."""
    from confide._durable import output
    from confide.errors import InvalidParameter

    if out is None:
        yield
        return
    need("report", "the report that --out writes")
    with output(out):
        if not again and _held(asked, out) is not None:
            article = "an" if asked.kind == "estimate" else "a"
            raise InvalidParameter(
                f"{out} already contains {article} {asked.kind}: choose another folder"
            )
        yield


def _held(asked: LogRelease, out: Path) -> bytes | None:
    """The result in a folder; what was cut off when it was written is none."""
    from confide.errors import StateError

    try:
        return bytes(asked.result.load(out).to_bytes())
    except StateError:
        return None


@contextmanager
def _telling_of_the_charge(ledger: "Ledger | None", asked: LogRelease) -> Iterator[None]:
    """After an error that follows the charge, say that the same command can be repeated at no cost."""
    from confide.errors import ConfideError, LedgerError

    try:
        yield
    except LedgerError:  # it speaks for itself
        raise
    except (ConfideError, OSError, MemoryError, KeyboardInterrupt) as error:
        charged = None
        with suppress(LedgerError):
            charged = _charged(ledger, asked)
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


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Warnings are printed later, also for an estimate that was stored in the ledger."""
    import warnings

    from confide.errors import ConfideWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConfideWarning)
        yield


def _paid(asked: LogRelease, ledger: "Ledger | None", before: str | None) -> str:
    if asked.noise.source == "none":
        return "nothing was charged. The result is not private: do not publish it."
    if ledger is None:
        return "NOTHING WAS CHARGED: without --ledger the total privacy loss of several releases of one log is not tracked."
    account = ledger.account
    left = f"Left: {account.left}"
    if account.remaining.mu > 0 and asked.privacy.delta > 0:
        # At the delta of the ledger, so that the number can be compared with its budget, and at that of this release.
        deltas = dict.fromkeys((account.total.delta or asked.privacy.delta, asked.privacy.delta))
        most = " or ".join(_most(account, delta) for delta in deltas)
        left = f"Left: {most} for one more release with Gaussian noise (see confide ledger show)"
    if before is not None:
        return f"already released at {before}: this is the same result, at no further cost; use --id for a new release. {left}."
    return f"charged to {ledger.path.name}. {left}."


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
