"""confide learn: a policy from a log, through one private release of a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

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
    TABLE_ROWS,
    certificate_file,
    command_without_seed,
    explain_release,
    guarded_release,
    make_release,
    print_summary,
    private_files,
    show_release,
    time_of_release,
)
from confide.cli.options import OUTPUT_PANEL

if TYPE_CHECKING:
    from confide.logs import Logs
    from confide.offline import ModelRelease, PrivateModel
    from confide.release.files import FileRelease
    from confide.report.learned import PolicyReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOptions:
    """The model that is released."""

    PANEL: ClassVar = "Model"

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
            help="Number of rows counted per user, at most --max-steps of each trajectory. The "
            "noise grows with its square root.",
            min=1,
            show_default="20; all without privacy",
        ),
    ] = None
    rewards: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Public rewards: .npy or .csv, one row per state; one column, or one column per "
            "action.",
            show_default="learned",
        ),
    ] = None
    reward_range: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH",
            help="Public range that learned rewards are clipped to. Needed without --rewards.",
            show_default=False,
        ),
    ] = None
    terminal: Annotated[
        list[str] | None,
        typer.Option(
            metavar="STATE",
            help="Public terminal state, by number or label: it pays its reward once, and nothing "
            "follows. Can be given several times.",
            show_default=False,
        ),
    ] = None
    ends: Annotated[
        bool | None,
        typer.Option(
            "--ends/--no-ends",
            help="What it means that a trajectory has fewer than --max-steps rows. --ends: its "
            "last row was the end. --no-ends: the record stops there, so its last reward counts, "
            "and what followed is not known. Must be stated, unless --max-steps is 1.",
            show_default=False,
        ),
    ] = None
    support: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Public transitions that are possible: rows s,a,s' in .npy or .csv.",
            show_default="all",
        ),
    ] = None
    return_bound: Annotated[
        tuple[float, float] | None,
        typer.Option(
            metavar="LOW HIGH",
            help="Public range of returns, if it is smaller than the one that follows from "
            "rewards and steps.",
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
            rewards=_public_rewards(self.rewards, states),
            reward_range=self.reward_range,
            return_bound=self.return_bound,
            terminal=_terminal(self.terminal, states, files),
            ends=self.ends,
            support=_support(self.support),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyOptions:
    """The policy that is planned in the model, and the users on whom it is tested."""

    PANEL: ClassVar = "Policy and its test"

    pessimism: Annotated[
        float,
        typer.Option(
            help="Number of standard deviations by which uncertain values are lowered; 0 uses the "
            "estimates unchanged.",
            min=0,
        ),
    ] = 1.0
    holdout: Annotated[
        float | None,
        typer.Option(
            metavar="SHARE",
            help="Share of users to hold out. The policy is learned from the others and tested on "
            "these, at no further privacy cost.",
            show_default="none",
        ),
    ] = None
    split_key: Annotated[
        str,
        typer.Option(
            metavar="KEY",
            help="Key of the hash of user ids that chooses the held-out users.",
            show_default=False,
        ),
    ] = ""

    def held_out_share(
        self, question: "ModelRelease", max_steps: int, *, no_privacy: bool
    ) -> tuple[float, str] | None:
        """The share of held-out users and the key that chooses them.

        A test that cannot be made is refused here, before anything is charged.
        """
        from confide.arguments import real
        from confide.errors import InvalidParameter
        from confide.offline.improvement_question import check_returns

        if self.holdout is None:
            return None
        check_returns(question.table(), max_steps)
        if no_privacy:
            raise InvalidParameter(
                "--holdout needs privacy: without noise the stated level of the bound does not hold"
            )
        return real("--holdout", self.holdout, above=0, below=1), self.split_key


@dataclass(frozen=True, slots=True, kw_only=True)
class LogWithActions(LogOptions):
    """The columns of a log, of which actions are one."""

    action: Annotated[str, typer.Option(metavar="COLUMN", help="Column of actions.")] = "action"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelOutput(OutputOptions):
    """Where a model and its policy go."""

    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Save model, policy, certificate and report to this folder.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = None


@with_groups
def learn(
    files: Files,
    model: ModelOptions,
    policy: PolicyOptions,
    privacy: ReleasePrivacyOptions,
    charge: ChargeOptions,
    noise: NoiseOptions,
    log: LogWithActions,
    reading: ReadingOptions,
    output: ModelOutput,
) -> None:
    """Learn a policy from a log.

    A model of the log is released once, with differential privacy for its users. The policy is
    planned in this model.

    Examples:
        confide learn log.parquet --epsilon 1 --delta 1e-6 --reward-range 0 1 \\
            --max-steps 20 --ends --ledger budget.json --out policy
        confide learn log.parquet --epsilon 1 --delta 1e-6 --reward-range 0 1 \\
            --max-steps 20 --ends --holdout 0.3
    """
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
    release = FileRelease(
        question,
        request,
        chosen_noise,
        files,
        log.layout(**columns),
        ledger=charge.open_ledger(request),
        name=charge.name,
        holdout=policy.held_out_share(question, log.max_steps, no_privacy=privacy.no_privacy),
    )
    with (
        private_files(privacy.no_privacy),
        guarded_release(release, "model", output.out, yes=charge.yes),
    ):
        before = time_of_release(release)
        logs, held_out_logs = release.open()
        released_model, warnings = make_release(
            release, reading.prepare(logs), output.out, output.as_json
        )
        explanation = explain_release(release, before)
        learned = learned_from(released_model, policy.pessimism, explanation)
        if held_out_logs is not None:
            learned = _test(release, learned, reading.prepare(held_out_logs))
        _show(learned, warnings, output.out, output.as_json)


def _test(
    release: "FileRelease[PrivateModel]", learned: "PolicyReport", logs: "Logs"
) -> "PolicyReport":
    """Test the policy on the users held out. The ledger charges the larger loss of the two parts.

    A policy that equals the logged one cannot be better, so it is not tested. A guess that passes
    the test becomes the policy that is announced.
    """
    from dataclasses import replace

    candidate = learned.best
    if not candidate.changed.any():
        reason = (
            "not tested, and no bound: the policy is the logged one in every state, "
            "so there is nothing to test."
        )
        return replace(learned, remarks=(*learned.remarks, ("tested", reason)))
    improvement = learned.model.improvement(
        candidate,
        logs,
        with_value=True,
        ledger=release.ledger,
        noise=release.noise.source(),
        id=f"{release.id} held out" if release.ledger else None,
    )
    if improvement.learned.estimated:
        # Other users chose this policy, so its value has an interval and not only a lower bound.
        candidate = replace(candidate, learned=improvement.learned)
        learned = learned.with_best(candidate)
    if improvement.shown and improvement.share == 1:
        return replace(learned, policy=candidate, guess=None, improvement=improvement)
    return replace(learned, improvement=improvement)


def _public_rewards(path: Path | None, states: int) -> Any:
    """Public rewards [s, a], or [s] if there is one column."""
    from confide.release.inputs import read_table

    if path is None:
        return None
    table = read_table(path, "rewards")
    return table.ravel() if table.size == states else table


def _terminal(listed: list[str] | None, states: int, files: list[str]) -> Any:
    """Which states are terminal [s]. A label takes precedence over a number."""
    import numpy as np

    from confide.errors import InvalidParameter
    from confide.logs.labels import labels_of

    if not listed:
        return None
    labels = labels_of(files).state
    numbers = {str(state): state for state in range(states)}
    state_of = numbers | {label: state for state, label in enumerate(labels or numbers)}
    for name in listed:
        if name not in state_of:
            raise InvalidParameter(
                f"--terminal must be a state in 0..{states - 1} or a declared label, got {name!r}"
            )
    return np.isin(np.arange(states), [state_of[name] for name in listed])


def _support(path: Path | None) -> Any:
    from confide.arguments import integers
    from confide.release.inputs import read_table

    return None if path is None else integers("support", read_table(path, "support"))


def _show(learned: "PolicyReport", warnings: list[str], out: Path | None, as_json: bool) -> None:
    from confide.report.learned import record, write_learned

    files = {}
    if out is not None:
        files = {"report": str(write_learned(learned, out, command=command_without_seed()))}
        model = f"{out / 'model.npz'} (confide.offline.PrivateModel.load)"
        files["policy"] = f"{out / 'policy.json'}; model: {model}"
        if learned.model.certificate is not None:
            files["certificate"] = certificate_file(out)
    show_release(record(learned), lambda: _print(learned), warnings, files, out, as_json)


def _print(learned: "PolicyReport") -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from confide.report.learned import HEADS, rows, words

    console = print_summary(learned.title, words(learned))
    table = Table(box=box.SIMPLE, pad_edge=False)
    all_rows = rows(learned)
    shown_rows = all_rows[:TABLE_ROWS]
    for column, head in enumerate(HEADS):
        cells = [head, *(row[column] for row in shown_rows)]
        # On a narrow terminal a cell is wrapped between its words, and no word is broken.
        longest_word = max(len(word) for cell in cells for word in cell.split() or [""])
        justify: Literal["left", "right"] = "left" if column < 2 else "right"
        table.add_column(head, justify=justify, min_width=longest_word)
    for row in shown_rows:
        table.add_row(*map(Text, row))
    console.print(table)
    more = len(all_rows) - TABLE_ROWS
    if more > 0:
        note = f"{more:,} more states are not shown (--out and --json contain all)."
        console.print(Text(note, style="dim"))
