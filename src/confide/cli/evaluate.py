"""confide evaluate: estimate the values of states, or of a policy, from a log."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from confide.cli.evaluate_explained import explain_estimators, print_explanation, read_behaviour
from confide.cli.groups import with_groups
from confide.cli.log_options import (
    ChargeOptions,
    ChosenEstimator,
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
from confide.cli.returns import RangeOfReturns, ReturnOptions

if TYPE_CHECKING:
    from confide.evaluation import ValueEstimate
    from confide.privacy.request import Request
    from confide.release.targets import Target
    from confide.report.values import ValueReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOptions:
    """What is estimated, and how sure the intervals are."""

    PANEL: ClassVar = "Estimate"

    states: States = None
    actions: Annotated[
        int | None,
        typer.Option(
            help="Number of actions, which a target policy by number needs.",
            min=1,
            show_default="as the log declares",
        ),
    ] = None
    estimator: ChosenEstimator = None
    discount: Discount = 0.95
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.9
    explain: Annotated[
        bool,
        typer.Option(
            "--explain",
            help="Say which estimator to use and what each would release, from public numbers. "
            "Reads no rows, and charges nothing.",
        ),
    ] = False

    def targets(
        self, states: int, files: Sequence[str], options: dict[str, Any]
    ) -> dict[str, "Target"]:
        """The policies of --target and --against, which must exist before anything is charged."""
        from confide.logs.labels import labels_of
        from confide.release.targets import Space, read_target

        stated = [name for name in ("target", "against") if options[name] is not None]
        if not stated:
            return {}
        space = Space(states, self.actions, labels_of(files))
        return {name: read_target(options[name], space, option=f"--{name}") for name in stated}

    def estimator_name(self, options: dict[str, Any]) -> str:
        """The estimator by name. With a target it must value policies other than the logged one."""
        if self.estimator is not None:
            return self.estimator
        return "counts-and-sums" if options["target"] is None else "weighted-importance-sampling"

    def question(self, states: int, returns: RangeOfReturns, options: dict[str, Any]) -> Any:
        """The estimator, with the `options` that estimators declare."""
        from confide.evaluation.catalogue import make_estimator

        return make_estimator(
            self.estimator_name(options),
            states=states,
            discount=self.discount,
            return_bound=returns.return_bound,
            **options | {"centre": returns.centre},
        )


@with_groups
def evaluate(
    context: typer.Context,
    files: Files,
    value: ValueOptions,
    return_options: ReturnOptions,
    privacy: ReleasePrivacyOptions,
    charge: ChargeOptions,
    noise: NoiseOptions,
    log: LogOptions,
    reading: ReadingOptions,
    output: OutputOptions,
) -> None:
    """Estimate the values of states, or of a policy, from a log.

    The result is differentially private for the users in the log.

    Examples:
        confide evaluate log.parquet --explain --epsilon 1 --delta 1e-6
        confide evaluate log.parquet --epsilon 1 --delta 1e-6 \\
            --reward-range 0 1 --max-steps 20 --ledger budget.json --out values
        confide evaluate log.parquet --target "always treat" --epsilon 1 \\
            --delta 1e-6 --reward-range 0 1 --max-steps 20
    """
    from confide.release.files import FileRelease
    from confide.release.value import definition
    from confide.report.values import ValueReport

    options: dict[str, Any] = context.obj
    options["behaviour"] = read_behaviour(options["behaviour"])
    states = declared_size("state", value.states, files)
    request = privacy.request()
    targets = value.targets(states, files, options)
    options |= {name: target.probabilities for name, target in targets.items()}
    target = targets.get("target")
    estimator = value.estimator_name(options)
    if value.explain:
        explanation = _explain(files, log, states, options, request)
        print_explanation(explanation, output.as_json)
        return
    returns = _range_of_returns(return_options, estimator, log, value, options)
    question = value.question(states, returns, options)
    chosen_noise = noise.choose(lattice=question.lattice, no_privacy=privacy.no_privacy)
    reading.check()
    _check_level(value.level)
    layout = _layout(log, target is not None, options["behaviour"] is not None)
    ledger = charge.open_ledger(request)
    release = FileRelease(
        question, request, chosen_noise, files, layout, ledger=ledger, name=charge.name
    )
    with (
        private_files(privacy.no_privacy),
        guarded_release(release, estimator, output.out, yes=charge.yes),
    ):
        before = time_of_release(release)
        logs, _ = release.open()
        logs = reading.prepare(logs)
        estimate, warnings = make_release(release, logs, output.out, output.as_json)
        shown = ValueReport(
            estimate,
            _title(estimator, estimate, target),
            value.level,
            explain_release(release, before, returns.reason),
            target is not None,
            question.about,
            logs.labels.state,
            definition=definition(log.max_steps, value.discount),
            **{name: policy.words for name, policy in targets.items()},
        )
        _show(shown, warnings, output.out, output.as_json)


def _explain(
    files: list[str], log: LogOptions, states: int, options: dict[str, Any], request: "Request"
) -> dict[str, Any]:
    columns = (log.action or "action", log.probability or "probability")
    return explain_estimators(files, log.layout(), columns, states, options, request)


def _range_of_returns(
    return_options: ReturnOptions,
    estimator: str,
    log: LogOptions,
    value: ValueOptions,
    options: dict[str, Any],
) -> RangeOfReturns:
    from confide.evaluation.catalogue import estimator_class
    from confide.evaluation.options import options_of

    return return_options.range(
        options["centre"],
        steps=log.max_steps,
        discount=value.discount,
        has_centre="centre" in options_of(estimator_class(estimator)),
    )


def _layout(log: LogOptions, has_target: bool, has_public_behaviour: bool) -> dict[str, Any]:
    """The layout of the log.

    A target needs actions and their probabilities, under their usual names unless others are given.
    """
    needs_probability = has_target and not has_public_behaviour
    return log.layout(
        action=log.action or ("action" if has_target else None),
        probability=log.probability or ("probability" if needs_probability else None),
    )


def _title(estimator: str, estimate: "ValueEstimate", target: "Target | None") -> str:
    if target is not None:
        return f"The value of a policy by {estimator}"
    return f"The values of {len(estimate.values):,} states by {estimator}"


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise typer.BadParameter(f"level must be in (0, 1), got level={level}")


def _show(shown: "ValueReport", warnings: list[str], out: Path | None, as_json: bool) -> None:
    from confide.report.values import record, write_values

    files = {}
    if out is not None:
        files = {"report": str(write_values(shown, out, command=command_without_seed()))}
        if shown.estimate.certificate is not None:
            files["certificate"] = certificate_file(out)
    show_release(record(shown), lambda: _print(shown), warnings, files, out, as_json)


def _print(shown: "ValueReport") -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from confide.report.values import cells, rows, titles, words

    console = print_summary(shown.title, words(shown))
    values = Table(box=box.SIMPLE, pad_edge=False)
    for title in titles(shown):
        values.add_column(title, justify="left" if title == "state" and shown.labels else "right")
    for row in rows(shown, TABLE_ROWS):
        values.add_row(*map(Text, cells(shown, row)))
    console.print(values)
    more = len(shown.estimate.values) - TABLE_ROWS
    if more > 0:
        has_counts = shown.counts is not None
        which = "the most visited states, by noisy counts" if has_counts else "the first states"
        note = f"These are {which}; {more:,} more are not shown (--out and --json contain all)."
        console.print(Text(note, style="dim"))
