"""confide evaluate: estimate the values of states, or of a policy, from a log."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.evaluate_explained import explained, read_behaviour, show_explained
from confide.cli.log_release import (
    LogRelease,
    careful,
    certified,
    command,
    declared,
    only_ours,
    print_summary,
    released,
    show_release,
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
    Visits,
    promise_of,
)
from confide.cli.returns import RangeOfReturns, ReturnBound, RewardRange, range_of_options

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
Calibration = Annotated[
    str | None,
    typer.Option(
        help="dp-lsw, dp-lsl: tight (least noise) or paper (printed constants).",
        show_default="tight",
    ),
]
Ridge = Annotated[float | None, typer.Option(help="dp-lsl: ridge penalty.", show_default=False)]
Target = Annotated[
    Path | None,
    typer.Option(
        help="Policy to evaluate, if it is not the one that made the log: .npz.", show_default=False
    ),
]
Behaviour = Annotated[
    Path | None,
    typer.Option(
        help="With --target: public probabilities of the logged actions, where the log has none: .npz of a policy, .npy or .csv with a "
        "row per state, or the folder of a model that `confide learn --out` released.",
        show_default="the log's",
    ),
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        help="Say which estimator to use and what each would release, from public numbers. Reads no rows.",
    ),
]
Weights = Annotated[
    Path | None,
    typer.Option(
        help="With --features: public weights of states in the regression, .npy or .csv.",
        show_default="the same for all",
    ),
]
IntervalShare = Annotated[
    float | None,
    typer.Option(
        help="With --target, sufficient-statistics or lstd: share of the budget for confidence intervals.",
        show_default="0.1",
    ),
]
Clip = Annotated[
    float | None,
    typer.Option(help="With --target: clip importance weights at this value.", show_default="10"),
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

PerDecision = Annotated[
    bool,
    typer.Option(
        "--per-decision",
        help="importance-sampling: weight each reward by the actions up to its step.",
    ),
]
WithoutPrivacy = Annotated[
    bool, typer.Option("--no-privacy", help="Add no noise. NOT PRIVATE: for the data holder only.")
]


def evaluate(
    files: Files,
    states: States = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    reward_range: RewardRange = None,
    return_bound: ReturnBound = None,
    discount: Discount = 1.0,
    estimator: EstimatorName = "counts-and-sums",
    visits: Visits = None,
    shrink: Shrink = None,
    features: Features = None,
    weights: Weights = None,
    prior_std: PriorStd = None,
    centre: Centre = None,
    second_moments: SecondMoments = False,
    ridge: Ridge = None,
    calibration: Calibration = None,
    target: Target = None,
    behaviour: Behaviour = None,
    clip: Clip = None,
    interval_share: IntervalShare = None,
    per_decision: PerDecision = False,
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
    from confide.evaluation import ValueEstimate
    from confide.evaluation.catalogue import entry_of, noise_for

    options: dict[str, Any] = {
        "visits": visits,
        "shrink": shrink,
        "features": features,
        "prior_std": prior_std,
        "centre": centre,
    }
    options |= {
        "ridge": ridge,
        "calibration": calibration,
        "target": target,
        "clip": clip,
        "per_decision": per_decision or None,
    }
    options |= {
        "second_moments": second_moments or None,
        "weights": weights,
        "interval_share": interval_share,
    }
    options |= {"behaviour": read_behaviour(behaviour)}
    states, privacy = (
        declared("state", states, files),
        promise_of(epsilon, delta, relation, no_privacy),
    )
    layout: dict[str, Any] = {
        "user": user,
        "trajectory": trajectory or None,
        "step": step or None,
        "state": state,
    }
    layout |= {"reward": reward, "max_trajectories": max_trajectories, "max_steps": max_steps}
    if explain:
        show_explained(
            explained(files, layout, (action, probability), states, options, privacy), as_json
        )
        return
    returns, made = _estimator(
        estimator, (reward_range, return_bound, centre), max_steps, states, discount, options
    )
    noise = noise_for(entry_of(estimator).noise, source, seed, no_privacy)
    _check_settings(backend, workers, level)
    # a target needs both columns, under their usual names
    layout |= {"action": action or ("action" if target else None)}
    layout |= {"probability": probability or ("probability" if target and not behaviour else None)}
    more: dict[str, Any] = {"reads": entry_of(estimator).reads, "returns": returns.reason}
    asked = LogRelease(estimator, made, privacy, noise, files, layout, name, ValueEstimate, **more)
    with only_ours(no_privacy), careful(asked, ledger, out, yes=yes) as budget:
        estimate, paid, warned, labels = released(asked, budget, out, backend, workers, as_json)
        _show(_shown(asked, estimate, paid, level, labels.state), warned, out, as_json)


def _estimator(
    name: str,
    given: tuple[Any, Any, Any],
    steps: int,
    states: int,
    discount: float,
    options: dict[str, Any],
) -> tuple[RangeOfReturns, Any]:
    """The range of returns, from that of rewards, or the bound on returns and their centre; and the estimator."""
    from confide.evaluation.catalogue import entry_of, make_estimator

    returns = range_of_options(
        *given, steps=steps, discount=discount, has_centre="centre" in entry_of(name).takes
    )
    chosen = options | {"centre": returns.centre}
    return returns, make_estimator(
        name, states=states, discount=discount, return_bound=returns.return_bound, **chosen
    )


def _check_settings(backend: str, workers: int | None, level: float) -> None:
    from confide.execution import check_backend

    check_backend(backend, workers)
    if not 0 < level < 1:
        raise typer.BadParameter(f"level must be in (0, 1), got level={level}")


def _shown(
    asked: LogRelease, estimate: "ValueEstimate", paid: str, level: float, labels: tuple[str, ...]
) -> "Shown":
    """The estimate with what was clipped, which noise was added, and what was charged."""
    from confide.evaluation.catalogue import entry_of
    from confide.report.values import Shown

    one = "target" in entry_of(asked.estimator).takes
    what = "The value of a policy" if one else f"The values of {len(estimate.values):,} states"
    title = f"{what} by {asked.estimator}"
    return Shown(estimate, title, level, asked.told(paid), one, asked.made.about, labels)


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
