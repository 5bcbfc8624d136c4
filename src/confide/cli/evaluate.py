"""confide evaluate: estimate the values of states, or of a policy, from a log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.evaluate_explained import explained, read_behaviour, show_explained
from confide.cli.log_release import (
    careful,
    certified,
    command,
    declared,
    make_release,
    only_ours,
    open_ledger,
    print_summary,
    released_before,
    show_release,
    told,
)
from confide.cli.logs import (
    Action,
    Files,
    MaxSteps,
    MaxTrajectories,
    Probability,
    Reward,
    State,
    Step,
    Trajectory,
    User,
)
from confide.cli.options import AsJson, Yes
from confide.cli.plan import Delta, Discount, Epsilon, EstimatorName, Relation, promise_of
from confide.cli.returns import ReturnBound, RewardRange, range_of_options

if TYPE_CHECKING:
    from confide.evaluation import ValueEstimate
    from confide.report.values import Shown

_ROWS = 15  # of the table on a terminal

States = Annotated[
    int | None,
    typer.Option(
        help="Number of states; states are numbered from 0.",
        min=1,
        show_default="as the log declares",
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Say which estimator to use and what each would release, from public numbers. Reads no rows.",
    ),
]
Id = Annotated[
    str | None,
    typer.Option(
        "--id",
        help="Identifier of this release in the ledger. A new identifier makes, and charges, a new release.",
        show_default=False,
    ),
]
Source = Annotated[
    str | None,
    typer.Option(
        help="Noise source: secure (for real data) or fast (seeded, for simulation).",
        show_default="secure",
    ),
]

WithoutPrivacy = Annotated[
    bool, typer.Option("--no-privacy", help="Add no noise. NOT PRIVATE: for the data holder only.")
]


def evaluate(
    context: typer.Context,
    files: Files,
    states: States = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    reward_range: RewardRange = None,
    return_bound: ReturnBound = None,
    discount: Discount = 1.0,
    estimator: EstimatorName = "counts-and-sums",
    relation: Relation = "replace",
    no_privacy: WithoutPrivacy = False,
    max_trajectories: MaxTrajectories = 1,
    max_steps: MaxSteps = 10_000,
    user: User = "user",
    trajectory: Trajectory = "trajectory",
    step: Step = "step",
    state: State = "state",
    reward: Reward = "reward",
    action: Action = "",
    probability: Probability = "",
    ledger: Annotated[
        Path | None, typer.Option(help="Ledger file to charge.", show_default=False)
    ] = None,
    yes: Yes = False,
    name: Id = None,
    source: Source = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of fast noise.", min=0, show_default=False)
    ] = None,
    backend: Annotated[
        str, typer.Option(help="Where the log is read: local (processes), ray or dask.")
    ] = "local",
    workers: Annotated[
        int | None,
        typer.Option(help="Number of processes that read the log.", min=1, show_default=False),
    ] = None,
    level: Annotated[float, typer.Option(help="Confidence level of the intervals.")] = 0.9,
    out: Annotated[
        Path | None,
        typer.Option(help="Save the estimate, its certificate and a report to this folder."),
    ] = None,
    explain: Explain = False,
    as_json: AsJson = False,
) -> None:
    """Estimate the values of states from a log, with differential privacy for its users."""
    from confide.evaluation.catalogue import estimator_class, make_estimator
    from confide.evaluation.options import options_of
    from confide.release.files import FileRelease
    from confide.release.noise import choose_noise
    from confide.report.values import Shown

    options: dict[str, Any] = context.obj
    target = options["target"]
    known_behaviour = options["behaviour"] is not None
    options["behaviour"] = read_behaviour(options["behaviour"])
    states = declared("state", states, files)
    privacy = promise_of(epsilon, delta, relation, no_privacy)
    layout: dict[str, Any] = {
        "user": user,
        "trajectory": trajectory or None,
        "step": step or None,
        "state": state,
        "reward": reward,
        "max_trajectories": max_trajectories,
        "max_steps": max_steps,
    }
    if explain:
        found = explained(files, layout, (action, probability), states, options, privacy)
        show_explained(found, as_json)
        return
    returns = range_of_options(
        reward_range,
        return_bound,
        options["centre"],
        steps=max_steps,
        discount=discount,
        has_centre="centre" in options_of(estimator_class(estimator)),
    )
    question = make_estimator(
        estimator,
        states=states,
        discount=discount,
        return_bound=returns.return_bound,
        **options | {"centre": returns.centre},
    )
    noise = choose_noise(source, seed, lattice=question.lattice, no_privacy=no_privacy)
    _check_settings(backend, workers, level)
    # a target needs both columns, under their usual names
    layout["action"] = action or ("action" if target else None)
    needs_probability = target and not known_behaviour
    layout["probability"] = probability or ("probability" if needs_probability else None)
    with only_ours(no_privacy):
        asked = FileRelease(
            question, privacy, noise, files, layout, open_ledger(ledger, privacy), name
        )
        with careful(asked, estimator, out, yes=yes):
            before = released_before(asked)
            logs, _ = asked.open()
            logs = logs.on(backend, workers=workers)
            estimate, warned = make_release(asked, logs, out, as_json)
            shown = Shown(
                estimate,
                _title(estimator, estimate, target),
                level,
                told(asked, before, returns.reason),
                target is not None,
                question.about,
                logs.labels.state,
            )
            _show(shown, warned, out, as_json)


def _title(estimator: str, estimate: "ValueEstimate", target: Path | None) -> str:
    what = (
        f"The values of {len(estimate.values):,} states"
        if target is None
        else "The value of a policy"
    )
    return f"{what} by {estimator}"


def _check_settings(backend: str, workers: int | None, level: float) -> None:
    from confide.execution import check_backend

    check_backend(backend, workers)
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
