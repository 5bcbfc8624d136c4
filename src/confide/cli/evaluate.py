"""confide evaluate: the value of a policy from a log, on a privacy budget."""

import math
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.logs import Action, Files, MaxSteps, MaxTrajectories, Probability, Reward, State, Step, Trajectory, User
from confide.cli.options import AsJson, print_json
from confide.cli.plan import (
    Centre,
    Delta,
    Discount,
    Epsilon,
    EstimatorName,
    Features,
    PriorStd,
    Relation,
    SecondMoments,
    Shrink,
    States,
    Visits,
    delta_warnings,
    promise_of,
)
from confide.cli.progress import counting

if TYPE_CHECKING:
    from confide.evaluation import ValueEstimate
    from confide.evaluation.catalogue import Noise
    from confide.logs import Logs
    from confide.privacy.ledger import Account, Ledger
    from confide.privacy.request import Request
    from confide.report.values import Shown

_ROWS = 15  # of the table on a terminal

ReturnBound = Annotated[float, typer.Option(help="Returns are in 0 to this; others are clipped.")]
Calibration = Annotated[
    str | None, typer.Option(help="dp-lsw, dp-lsl: tight noise, or constants as in the paper.", show_default="tight")
]
Ridge = Annotated[float | None, typer.Option(help="dp-lsl: the weight of its penalty.", show_default=False)]
Target = Annotated[
    Path | None, typer.Option(help="The policy to evaluate, where it is not the logged one: .npz.", show_default=False)
]
Clip = Annotated[float | None, typer.Option(help="With --target: larger weights count as this.", show_default="10")]
Id = Annotated[
    str | None,
    typer.Option(
        "--id", help="A word for the ledger: with a new one the same question is asked anew, and paid.", show_default=False
    ),
]
Source = Annotated[
    str | None,
    typer.Option(help="secure noise for real data, fast noise for simulation.", show_default="secure, if possible"),
]


def evaluate(
    files: Files,
    states: States,
    epsilon: Epsilon = None,
    delta: Delta = None,
    return_bound: ReturnBound = 1.0,
    discount: Discount = 1.0,
    estimator: EstimatorName = "counts-and-sums",
    visits: Visits = None,
    shrink: Shrink = None,
    features: Features = None,
    prior_std: PriorStd = None,
    centre: Centre = None,
    second_moments: SecondMoments = False,
    ridge: Ridge = None,
    calibration: Calibration = None,
    target: Target = None,
    clip: Clip = None,
    per_decision: Annotated[bool, typer.Option("--per-decision", help="importance-sampling: weigh each reward.")] = False,
    relation: Relation = "replace",
    no_privacy: Annotated[bool, typer.Option("--no-privacy", help="Add no noise: FOR THE DATA HOLDER ONLY.")] = False,
    max_trajectories: MaxTrajectories = 1,
    max_steps: MaxSteps = 10_000,
    user: User = "user",
    trajectory: Trajectory = "trajectory",
    step: Step = "step",
    state: State = "state",
    reward: Reward = "reward",
    action: Action = "",
    probability: Probability = "",
    ledger: Annotated[Path | None, typer.Option(help="The budget that pays.", show_default=False)] = None,
    name: Id = None,
    source: Source = None,
    seed: Annotated[int | None, typer.Option(help="Of fast noise.", min=0, show_default=False)] = None,
    backend: Annotated[str, typer.Option(help="Where the log is read: local, ray or dask.")] = "local",
    workers: Annotated[int | None, typer.Option(help="How many processes read it.", min=1, show_default=False)] = None,
    level: Annotated[float, typer.Option(help="The probability of the intervals.")] = 0.9,
    out: Annotated[Path | None, typer.Option(help="A folder for the estimate, its certificate and a report.")] = None,
    as_json: AsJson = False,
) -> None:
    """Estimate what states are worth from a log, so that no user in it can be told from the estimate."""
    from confide.evaluation.catalogue import make_estimator, noise_for
    from confide.logs.backends import check_backend

    options = {"visits": visits, "shrink": shrink, "features": features, "prior_std": prior_std, "centre": centre, "ridge": ridge}
    options |= {"calibration": calibration, "target": target, "clip": clip, "per_decision": per_decision or None}
    options |= {"second_moments": second_moments or None}
    made = make_estimator(estimator, states=states, discount=discount, return_bound=return_bound, **options)
    privacy = promise_of(epsilon, delta, relation, no_privacy)
    noise = noise_for(estimator, source, seed, no_privacy)
    check_backend(backend, workers)
    if not 0 < level < 1:
        raise typer.BadParameter(f"level must be in (0, 1), got level={level}")
    layout: dict[str, Any] = {
        "user": user,
        "trajectory": trajectory or None,
        "step": step or None,
        "state": state,
        "reward": reward,
    }
    off_policy = target is not None  # needs both columns, under their usual names where nothing was said
    layout |= {"action": action or ("action" if off_policy else None)}
    layout |= {"probability": probability or ("probability" if off_policy else None)}
    layout |= {"max_trajectories": max_trajectories, "max_steps": max_steps}
    asked = Question(estimator, made, privacy, noise, files, layout, name)
    with _only_ours(no_privacy):
        estimate, paid, warned = _released(asked, ledger, out, backend, workers, as_json)
        _show(_shown(asked, estimate, paid, level), warned, out, as_json)


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked of which files: all of it public."""

    estimator: str
    made: Any
    privacy: "Request"
    noise: "Noise"
    files: list[str]
    layout: dict[str, Any]  # of `confide.logs.open`: columns and caps
    name: str | None

    @property
    def id(self) -> str:
        """Its name in a ledger. Other files, columns or caps are another question; whether the files have changed is not looked at."""
        from confide.evaluation.estimator import question

        paths = [str(Path(path).absolute()) for path in self.files]
        where = [*paths, repr(sorted(self.layout.items())), self.noise.source]
        asked = question(self.made, self.privacy, where)
        return f"{self.name} {asked}" if self.name else asked  # a name never stands for two questions


def _released(
    asked: Question, path: Path | None, out: Path | None, backend: str, workers: int | None, quiet: bool
) -> "tuple[ValueEstimate, str, list[str]]":
    """The estimate, what it cost in words, and warnings. What can be refused is refused before the log is opened."""
    from confide.errors import InvalidParameter, LogError
    from confide.evaluation.catalogue import entry_of
    from confide.logs import open as open_logs
    from confide.mechanisms.sources import noise_source
    from confide.privacy.ledger import Ledger
    from confide.privacy.request import NoPrivacy

    private = not isinstance(asked.privacy, NoPrivacy)
    ledger = Ledger(path) if path is not None and private else None
    known = next((spend for spend in ledger.spends if spend.id == asked.id), None) if ledger else None
    if ledger is not None and known is None:
        _afford(ledger, asked)
    secure = noise_source("secure") if asked.noise.source == "secure" else None
    _room(out, again=known is not None)
    logs = open_logs(asked.files, **asked.layout)
    if not logs.parts:
        raise LogError("the log is empty: there is no row in it")
    with _progress(logs, entry_of(asked.estimator).reads, quiet) as progress, _without_delta_warning():
        estimate = asked.made.release(
            logs.on(backend, workers=workers),
            privacy=asked.privacy,
            ledger=ledger,
            noise=secure,
            rng=None if secure else asked.noise.generator(asked.id),
            progress=progress,
            id=asked.id if ledger else None,
        )
    if out is not None and (held := out / "estimate.npz").exists() and held.read_bytes() != estimate.to_bytes():
        raise InvalidParameter(f"{out} holds another estimate, which was paid for: choose another folder")
    before = known.when if known is not None and known.released else None
    return estimate, _paid(asked, ledger, before), delta_warnings(estimate.guarantee.users, asked.privacy.delta)


def _afford(ledger: "Ledger", asked: Question) -> None:
    """Refuse what the ledger does not cover, and say what it would."""
    from confide.errors import BudgetExceeded
    from confide.privacy.loss import GaussianDP

    account, loss = ledger.account, asked.made.loss(asked.privacy)
    try:
        account.admit(loss)
    except BudgetExceeded:
        left = account.left
        if isinstance(loss, GaussianDP):
            left += f"; {_most(account, asked.privacy.delta)} is the most that fits"
        raise BudgetExceeded(f"{asked.privacy} for {asked.estimator}", left) from None


def _most(account: "Account", delta: float) -> str:
    """What one more release with Gaussian noise may ask for, rounded down."""
    from confide.privacy.accounting import gaussian_epsilon

    return f"epsilon={math.floor(1000 * gaussian_epsilon(account.remaining.mu, delta)) / 1000:g} at delta={delta:g}"


def _room(out: Path | None, *, again: bool) -> None:
    """A folder that can be written to and holds no other estimate: that one was paid for."""
    from confide.errors import InvalidParameter

    if out is None:
        return
    out.mkdir(parents=True, exist_ok=True)
    if not os.access(out, os.W_OK):
        raise InvalidParameter(f"cannot write into {out}")
    if (out / "estimate.npz").exists() and not again:
        raise InvalidParameter(f"{out} holds an estimate already, which was paid for: choose another folder")


@contextmanager
def _only_ours(no_privacy: bool) -> Iterator[None]:
    """What is not private is readable for its owner only."""
    before = os.umask(0o077) if no_privacy else None
    try:
        yield
    finally:
        if before is not None:
            os.umask(before)


@contextmanager
def _progress(logs: "Logs", reads: int, quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar of rows, from parts: they are of about the same size."""
    sources = {part.source.name: part.source for part in logs.parts} if sys.stderr.isatty() and not quiet else {}
    rows = sum(sum(source.groups()) for source in sources.values())
    with counting(quiet, "reading", rows * reads, "rows") as advance:
        seen = 0

        def progress(done: int, parts: int) -> None:
            nonlocal seen
            before, seen = seen if done > 1 else 0, rows * done // parts  # a second reading starts anew
            advance(seen - before)

        yield progress


@contextmanager
def _without_delta_warning() -> Iterator[None]:
    """It is said by `delta_warnings`, of every estimate: also of one that a ledger had."""
    import warnings

    from confide.evaluation import DeltaWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeltaWarning)
        yield


def _paid(asked: Question, ledger: "Ledger | None", before: str | None) -> str:
    if asked.noise.source == "none":
        return "nothing was charged, for nothing of this may be published."
    if ledger is None:
        return "NOTHING WAS CHARGED: without --ledger nobody adds up what several evaluations of one log reveal together."
    account = ledger.account
    left = f"Left: {account.left}"
    if account.remaining.mu > 0 and asked.privacy.delta > 0:
        left = f"Left: {_most(account, asked.privacy.delta)} for one more with Gaussian noise (confide ledger show)"
    if before is not None:
        return f"asked before, at {before}: this is the answer that was given then, at no cost; --id asks anew. {left}."
    return f"charged to {ledger.path.name}. {left}."


def _shown(asked: Question, estimate: "ValueEstimate", paid: str, level: float) -> "Shown":
    """With what was clipped, which noise was added, and who paid."""
    from confide.evaluation.catalogue import entry_of
    from confide.report.values import Shown

    made, caps = asked.made, asked.layout
    one = "target" in entry_of(asked.estimator).takes
    visits, states = getattr(made, "visits", None), len(estimate.values)
    first = "" if visits is None else f"; of each the first {min(visits, states)} different states count"
    if visits is not None and visits < states:
        first += ", and values and error bars are about those visits"
    counted = f"{caps['max_trajectories']} of a user's trajectories, {caps['max_steps']:,} steps of each{first}"
    if asked.layout["action"] is not None and hasattr(made, "clip"):
        counted += f"; weights above {made.clip:g} count as {made.clip:g}, and the error bars do not cover that"
    clipped = f"returns are clipped to [{estimate.lowest:g}, {estimate.highest:g}]; {counted}."
    what = "The value of a policy" if one else f"The values of {len(estimate.values):,} states"
    title = f"{what} by {asked.estimator}"
    said = (("counted", clipped), ("noise", asked.noise.why), ("ledger", paid))
    return Shown(estimate, title, level, said if asked.noise.source != "none" else (said[0], said[2]), one)


def _show(shown: "Shown", warned: list[str], out: Path | None, as_json: bool) -> None:
    from confide.report.values import record, write_values

    if out is not None:
        report = write_values(shown, out, command=_command())
    for warning in warned:
        typer.echo(f"warning: {warning}", err=True)
    if as_json:
        print_json(record(shown) | {"warnings": warned, "out": None if out is None else str(out)})
        return
    _print(shown)
    if out is not None:
        typer.echo(f"report: {report}")
        if shown.estimate.certificate is not None:
            typer.echo(f"certificate: {out / 'certificate.json'} (confide verify computes its promise again)")


def _command() -> str:
    """The command, but for a seed: whoever has it can take the noise off."""
    arguments = sys.argv[1:]
    hidden = [index for index, part in enumerate(arguments) if part == "--seed" or part.startswith("--seed=")]
    for index in reversed(hidden):
        del arguments[index : index + 1 + (arguments[index] == "--seed")]
    return shlex.join(["confide", *arguments])


def _print(shown: "Shown") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from confide.report.values import cells, rows, titles, words

    console = Console()
    console.print(Text(shown.title, style="bold"))
    summary = Table.grid(padding=(0, 2))
    summary.add_column(style="dim", no_wrap=True)
    summary.add_column()
    before = ""
    for name, text in words(shown):
        summary.add_row(Text(name if name != before else ""), Text(text))
        before = name
    console.print(summary)
    values = Table(box=box.SIMPLE, pad_edge=False)
    for title in titles(shown):
        values.add_column(title, justify="right")
    for row in rows(shown, _ROWS):
        values.add_row(*cells(shown, row))
    console.print(values)
    more = len(shown.estimate.values) - _ROWS
    if more > 0:
        which = "the most visited states, by noisy counts" if shown.counts is not None else "the first states"
        where = "--out and --json have them all"
        console.print(Text(f"These are {which}; {more:,} more are not shown ({where}).", style="dim"))
