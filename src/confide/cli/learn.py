"""confide learn: a policy from a log, through one private release of a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.groups import with_groups
from confide.cli.log_options import (
    ChargeOptions,
    Discount,
    Files,
    LogOptions,
    NoiseOptions,
    OutputOptions,
    ReadingOptions,
    ReleasePrivacyOptions,
    States,
    declared_size,
)
from confide.cli.log_release import (
    careful,
    certified,
    command,
    make_release,
    only_ours,
    print_summary,
    released_before,
    show_release,
    told,
)

if TYPE_CHECKING:
    from confide.logs import Logs
    from confide.offline import ModelRelease, PrivateModel
    from confide.release.files import FileRelease
    from confide.report.learned import Learned

_ROWS = 15  # of the table on a terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The model that is released."""

    states: States = None
    actions: Annotated[
        int | None,
        typer.Option(
            help="Number of actions; actions are numbered from 0.",
            min=1,
            show_default="as the log declares",
        ),
    ] = None
    discount: Discount = 0.95
    transitions: Annotated[
        int | None,
        typer.Option(
            help="Number of rows counted per user, never more than --max-steps lets in; the noise grows with its square root.",
            min=1,
            show_default="20; all without privacy",
        ),
    ] = None
    rewards: Annotated[
        Path | None,
        typer.Option(
            help="Public rewards: .npy or .csv, one row per state; one column, or one column per action.",
            show_default="learned",
        ),
    ] = None
    reward_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH",
            help="Public range that learned rewards are clipped to; needed without --rewards.",
            show_default=False,
        ),
    ] = None
    terminal: Annotated[
        list[str] | None,
        typer.Option(
            help="Public terminal state, by number or label: it pays its reward once, and nothing follows. "
            "Can be given several times.",
            show_default=False,
        ),
    ] = None
    ends: Annotated[
        bool | None,
        typer.Option(
            "--ends/--no-ends",
            help="What it means that a trajectory has fewer than --max-steps rows: its last row was the end (--ends), or the record stops "
            "there (--no-ends): its last reward counts, and what followed is not known. Must be stated, unless --max-steps is 1.",
            show_default=False,
        ),
    ] = None
    support: Annotated[
        Path | None,
        typer.Option(
            help="Public transitions that are possible: rows s,a,s' in .npy or .csv.",
            show_default="all",
        ),
    ] = None
    return_bound: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH",
            help="Public range of returns, if it is smaller than what follows from rewards and steps.",
            show_default=False,
        ),
    ] = None

    def question(self, files: list[str]) -> "ModelRelease":
        from confide.offline import ModelRelease

        states = declared_size("state", self.states, files)
        actions = declared_size("action", self.actions, files)
        return ModelRelease(
            states=states,
            actions=actions,
            discount=self.discount,
            transitions=self.transitions,
            rewards=_table(self.rewards, "rewards", states),
            reward_range=self.reward_range,
            return_bound=self.return_bound,
            terminal=_terminal(self.terminal, states, files),
            ends=self.ends,
            support=_support(self.support),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """The policy that is planned in the model, and the users on whom it is tested."""

    pessimism: Annotated[
        float,
        typer.Option(
            help="Number of standard deviations by which uncertain values are lowered; 0 uses the estimates unchanged.",
            min=0,
        ),
    ] = 1.0
    holdout: Annotated[
        float | None,
        typer.Option(
            help="Share of users to hold out: the policy is learned from the others and tested on these, at no further privacy cost.",
            show_default="none",
        ),
    ] = None
    split_key: Annotated[
        str,
        typer.Option(
            help="Key of the hash of user ids that chooses the held-out users.", show_default=False
        ),
    ] = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWithActions(LogOptions):
    """The columns of a log, of which actions are one."""

    action: Annotated[str, typer.Option(help="Column of actions.")] = "action"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutput(OutputOptions):
    """Where a model and its policy go."""

    out: Annotated[
        Path | None, typer.Option(help="Save model, policy, certificate and report to this folder.")
    ] = None


@with_groups
def learn(
    files: Files,
    model: ModelOptions,
    policy: PolicyOptions,
    privacy: ReleasePrivacyOptions,
    log: LogWithActions,
    charge: ChargeOptions,
    noise: NoiseOptions,
    reading: ReadingOptions,
    output: ModelOutput,
) -> None:
    """Learn a policy from a log, with differential privacy for its users: release a model once, then plan in it."""
    from confide.arguments import real
    from confide.offline.model_release import check_ends
    from confide.release.files import FileRelease
    from confide.report.learned import learned_from

    question = model.question(files)
    check_ends(question.ends, log.max_steps)
    real("pessimism", policy.pessimism, at_least=0, at_most=1e6)
    request = privacy.request()
    chosen_noise = noise.choose(lattice=question.lattice, no_privacy=privacy.no_privacy)
    reading.check()
    columns = {"action": log.action}
    if log.probability:
        columns["probability"] = log.probability
    part = None
    if policy.holdout is not None:
        _check_test(question, log.max_steps, no_privacy=privacy.no_privacy)
        part = real("--holdout", policy.holdout, above=0, below=1), policy.split_key
    with only_ours(privacy.no_privacy):
        asked = FileRelease(
            question,
            request,
            chosen_noise,
            files,
            log.layout(**columns),
            ledger=charge.open_ledger(request),
            name=charge.name,
            holdout=part,
        )
        with careful(asked, "model", output.out, yes=charge.yes):
            before = released_before(asked)
            logs, test = asked.open()
            released, warned = make_release(
                asked, reading.prepare(logs), output.out, output.as_json
            )
            learned = learned_from(released, policy.pessimism, tuple(told(asked, before)))
            if test is not None:
                learned = _tested(asked, learned, reading.prepare(test))
            _show(learned, warned, output.out, output.as_json)


def _check_test(question: "ModelRelease", max_steps: int, *, no_privacy: bool) -> None:
    """Refuse a test that cannot be made, before anything is charged."""
    from confide.errors import InvalidParameter
    from confide.offline.improvement import check_returns

    check_returns(question.table(), max_steps)
    if no_privacy:
        raise InvalidParameter(
            "--holdout needs privacy: without noise the stated level of the bound does not hold"
        )


def _tested(asked: "FileRelease[PrivateModel]", learned: "Learned", test: "Logs") -> "Learned":
    """On the people held out: the ledger charges the larger loss of the two parts.

    What goes on as logged cannot be better: it is not tested. A guess that passes this test is announced.
    """
    from dataclasses import replace

    candidate = learned.best
    if not candidate.changed.any():
        reason = "not tested, and no bound: the policy is the logged one in every state, so there is nothing to test"
        return replace(learned, said=(*learned.said, ("tested", f"{reason}.")))
    improvement = learned.model.improvement(
        candidate,
        test,
        ledger=asked.ledger,
        noise=asked.noise.source(),
        id=f"{asked.id} held out" if asked.ledger else None,
    )
    if improvement.shown and improvement.share == 1:
        return replace(learned, policy=candidate, guess=None, improvement=improvement)
    return replace(learned, improvement=improvement)


def _table(path: Path | None, what: str, states: int) -> Any:
    """Public numbers [s, a], or [s] if there is one column."""
    from confide.release.inputs import read_table

    if path is None:
        return None
    table = read_table(path, what)
    return table.ravel() if table.size == states else table


def _terminal(listed: list[str] | None, states: int, files: list[str]) -> Any:
    import numpy as np

    from confide.errors import InvalidParameter
    from confide.logs.labels import labels_of

    if not listed:
        return None
    labels = labels_of(files).state
    places = {label: place for place, label in enumerate(labels or map(str, range(states)))}
    places |= {str(place): place for place in range(states) if str(place) not in places}
    for each in listed:
        if each not in places:
            raise InvalidParameter(
                f"--terminal must be a state in 0..{states - 1} or a declared label, got {each!r}"
            )
    return np.isin(np.arange(states), [places[each] for each in listed])


def _support(path: Path | None) -> Any:
    from confide.arguments import integers
    from confide.release.inputs import read_table

    return None if path is None else integers("support", read_table(path, "support"))


def _show(learned: "Learned", warned: list[str], out: Path | None, as_json: bool) -> None:
    from confide.report.learned import record, write_learned

    files = {}
    if out is not None:
        files = {"report": str(write_learned(learned, out, command=command()))}
        files["policy"] = (
            f"{out / 'policy.json'}; model: {out / 'model.npz'} (confide.offline.PrivateModel.load)"
        )
        if learned.model.certificate is not None:
            files["certificate"] = certified(out)
    show_release(record(learned), lambda: _print(learned), warned, files, out, as_json)


def _print(learned: "Learned") -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from confide.report.learned import HEADS, rows, words

    console = print_summary(learned.title, words(learned))
    table = Table(box=box.SIMPLE, pad_edge=False)
    for place, head in enumerate(HEADS):
        table.add_column(head, justify="left" if place < 2 else "right")
    shown = rows(learned)
    for row in shown[:_ROWS]:
        table.add_row(*map(Text, row))
    console.print(table)
    if len(shown) > _ROWS:
        console.print(
            Text(
                f"{len(shown) - _ROWS:,} more states are not shown (--out and --json contain all).",
                style="dim",
            )
        )
