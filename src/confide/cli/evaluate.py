"""confide evaluate: estimate the values of states, or of a policy, from a log."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.evaluate_explained import explained, read_behaviour, show_explained
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
from confide.cli.returns import RangeOfReturns, ReturnOptions

if TYPE_CHECKING:
    from confide.evaluation import ValueEstimate
    from confide.release.targets import Target
    from confide.report.values import Shown

_ROWS = 15  # of the table on a terminal


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueOptions:
    """What is estimated, and how sure the intervals are."""

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
            help="Say which estimator to use and what each would release, from public numbers. Reads no rows.",
        ),
    ] = False

    def targets(
        self, states: int, files: Sequence[str], options: dict[str, Any]
    ) -> dict[str, "Target"]:
        """The policies of --target and --against, which must exist before anything is charged."""
        from confide.logs.labels import labels_of
        from confide.release.targets import Space, read_target

        given = [name for name in ("target", "against") if options[name] is not None]
        if not given:
            return {}
        space = Space(states, self.actions, labels_of(files))
        return {name: read_target(options[name], space, option=f"--{name}") for name in given}

    def chosen_estimator(self, options: dict[str, Any]) -> str:
        """The estimator by name: with a target, one that values other policies than the logged one."""
        if self.estimator is not None:
            return self.estimator
        return "counts-and-sums" if options["target"] is None else "weighted-importance-sampling"

    def question(self, states: int, returns: RangeOfReturns, options: dict[str, Any]) -> Any:
        """The estimator, with the `options` that estimators declare."""
        from confide.evaluation.catalogue import make_estimator

        return make_estimator(
            self.chosen_estimator(options),
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
    returned: ReturnOptions,
    privacy: ReleasePrivacyOptions,
    log: LogOptions,
    charge: ChargeOptions,
    noise: NoiseOptions,
    reading: ReadingOptions,
    output: OutputOptions,
) -> None:
    """Estimate the values of states from a log, with differential privacy for its users."""
    from confide.release.files import FileRelease
    from confide.release.value import definition
    from confide.report.values import Shown

    options: dict[str, Any] = context.obj
    known_behaviour = options["behaviour"] is not None
    options["behaviour"] = read_behaviour(options["behaviour"])
    states = declared_size("state", value.states, files)
    request = privacy.request()
    targets = value.targets(states, files, options)
    options |= {name: each.probabilities for name, each in targets.items()}
    target = targets.get("target")
    estimator = value.chosen_estimator(options)
    if value.explain:
        logged = (log.action, log.probability)
        show_explained(
            explained(files, log.layout(), logged, states, options, request), output.as_json
        )
        return
    returns = returned.range(
        options["centre"],
        steps=log.max_steps,
        discount=value.discount,
        has_centre=_has_centre(estimator),
    )
    question = value.question(states, returns, options)
    chosen_noise = noise.choose(lattice=question.lattice, no_privacy=privacy.no_privacy)
    reading.check()
    _check_level(value.level)
    layout = _columns(log, target is not None, known_behaviour)
    with only_ours(privacy.no_privacy):
        asked = FileRelease(
            question,
            request,
            chosen_noise,
            files,
            layout,
            ledger=charge.open_ledger(request),
            name=charge.name,
        )
        with careful(asked, estimator, output.out, yes=charge.yes):
            before = released_before(asked)
            logs, _ = asked.open()
            logs = reading.prepare(logs)
            estimate, warned = make_release(asked, logs, output.out, output.as_json)
            shown = Shown(
                estimate,
                _title(estimator, estimate, target),
                value.level,
                told(asked, before, returns.reason),
                target is not None,
                question.about,
                logs.labels.state,
                definition=definition(log.max_steps, value.discount),
                **{name: each.words for name, each in targets.items()},
            )
            _show(shown, warned, output.out, output.as_json)


def _has_centre(estimator: str) -> bool:
    from confide.evaluation.catalogue import estimator_class
    from confide.evaluation.options import options_of

    return "centre" in options_of(estimator_class(estimator))


def _columns(log: LogOptions, has_target: bool, known_behaviour: bool) -> dict[str, Any]:
    """The layout of the log. A target needs actions and their probabilities, under their usual names."""
    needs_probability = has_target and not known_behaviour
    return log.layout(
        action=log.action or ("action" if has_target else None),
        probability=log.probability or ("probability" if needs_probability else None),
    )


def _title(estimator: str, estimate: "ValueEstimate", target: "Target | None") -> str:
    what = (
        f"The values of {len(estimate.values):,} states"
        if target is None
        else "The value of a policy"
    )
    return f"{what} by {estimator}"


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise typer.BadParameter(f"level must be in (0, 1), got level={level}")


def _show(shown: "Shown", warned: list[str], out: Path | None, as_json: bool) -> None:
    from confide.report.values import record, write_values

    files = {}
    if out is not None:
        files = {"report": str(write_values(shown, out, command=command()))}
        if shown.estimate.certificate is not None:
            files["certificate"] = certified(out)
    show_release(record(shown), lambda: _print(shown), warned, files, out, as_json)


def _print(shown: "Shown") -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from confide.report.values import cells, rows, titles, words

    console = print_summary(shown.title, words(shown))
    values = Table(box=box.SIMPLE, pad_edge=False)
    for title in titles(shown):
        values.add_column(title, justify="left" if title == "state" and shown.labels else "right")
    for row in rows(shown, _ROWS):
        values.add_row(*map(Text, cells(shown, row)))
    console.print(values)
    more = len(shown.estimate.values) - _ROWS
    if more > 0:
        which = (
            "the most visited states, by noisy counts"
            if shown.counts is not None
            else "the first states"
        )
        where = "--out and --json contain all"
        console.print(
            Text(f"These are {which}; {more:,} more are not shown ({where}).", style="dim")
        )
