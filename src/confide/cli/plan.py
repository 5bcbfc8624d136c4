"""confide plan: predict the error of a release from public numbers."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from confide.cli.groups import with_groups
from confide.cli.log_options import (
    LIMITS_PANEL,
    Discount,
    EstimatorName,
    MaxTrajectories,
    PrivacyOptions,
)
from confide.cli.options import AsJson, print_json
from confide.cli.returns import ReturnOptions

if TYPE_CHECKING:
    from confide.evaluation.plan import ExpectedError

# Errors are predicted for these budgets beside the requested one. A matter of taste.
_EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedValueOptions:
    """What would be estimated, from how many users."""

    PANEL: ClassVar = "Estimate"

    states: Annotated[
        int,
        typer.Option(
            help="Number of states; states are numbered from 0.", min=1, show_default=False
        ),
    ]
    users: Annotated[
        int, typer.Option(help="Number of users in the log.", min=1, show_default=False)
    ]
    estimator: EstimatorName = "counts-and-sums"
    discount: Discount = 0.95


@dataclass(frozen=True, slots=True, kw_only=True)
class PopulationOptions:
    """What is known about the users of a log, from public sources."""

    PANEL: ClassVar = "What is known about the users"

    max_trajectories: MaxTrajectories = 1
    max_steps: Annotated[
        int | None,
        typer.Option(
            help="Use at most this many steps per trajectory.",
            min=1,
            show_default=False,
            rich_help_panel=LIMITS_PANEL,
        ),
    ] = None
    visit_shares: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="Public estimate of visits per user to each state: .npy or .csv.",
            show_default="the same for all",
        ),
    ] = None
    return_std: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of returns from one state.",
            show_default="the largest possible",
        ),
    ] = None
    spread: Annotated[
        float | None,
        typer.Option(
            help="Standard deviation of values between states.",
            show_default="prior std times return bound",
        ),
    ] = None

    def facts(self) -> dict[str, Any]:
        """The arguments of an estimator's `plan`."""
        from confide.release.inputs import read_table

        path = self.visit_shares
        return {
            "visit_shares": None if path is None else read_table(path, "visit shares").ravel(),
            "return_std": self.return_std,
            "spread": self.spread,
            "trajectories": self.max_trajectories,
        }


@with_groups
def evaluate(
    context: typer.Context,
    value: PlannedValueOptions,
    return_options: ReturnOptions,
    privacy: PrivacyOptions,
    population: PopulationOptions,
    as_json: AsJson = False,
) -> None:
    """Predict the error of `confide evaluate` for several epsilons.

    No data are read.

    Example:
        confide plan evaluate --states 10 --users 5000 --epsilon 1 \\
            --delta 1e-6 --reward-range 0 1 --max-steps 20
    """
    from confide.errors import InvalidParameter
    from confide.evaluation.catalogue import estimator_class, make_estimator

    if not hasattr(estimator_class(value.estimator), "plan"):
        raise InvalidParameter(
            f"the error of {value.estimator} cannot be predicted; "
            "only counts-and-sums can be planned"
        )
    options: dict[str, Any] = context.obj
    requested_epsilon = privacy.request().epsilon
    if return_options.reward_range is not None and population.max_steps is None:
        raise InvalidParameter(
            "--reward-range needs --max-steps: returns add up over the steps of a trajectory"
        )
    returns = return_options.range(
        options["centre"],
        steps=population.max_steps or 1,
        discount=value.discount,
        has_centre=True,
    )
    estimator = make_estimator(
        value.estimator,
        states=value.states,
        discount=value.discount,
        return_bound=returns.return_bound,
        **options | {"centre": returns.centre},
    )
    facts = population.facts()
    epsilons = sorted({requested_epsilon, *_EPSILONS})
    requests = [replace(privacy, epsilon=epsilon).request() for epsilon in epsilons]
    plans = [estimator.plan(value.users, request, **facts) for request in requests]
    _show(estimator, plans, plans[epsilons.index(requested_epsilon)], as_json)


def _show(
    estimator: Any, plans: "Sequence[ExpectedError]", requested: "ExpectedError", as_json: bool
) -> None:
    """Print the plans, of which `requested` is the one that was asked for."""
    warnings = delta_warnings(requested.users, requested.privacy.delta)
    if as_json:
        print_json(_record(estimator, plans, requested, warnings))
        return
    for warning in warnings:
        typer.echo(f"warning: {warning}", err=True)
    _print(estimator, plans, requested)


def _print(estimator: Any, plans: "Sequence[ExpectedError]", requested: "ExpectedError") -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    privacy = requested.privacy
    title = (
        f"Values of {estimator.states:,} states from {requested.users:,} users "
        f"at epsilon = {privacy.epsilon:g}, delta = {privacy.delta:g}:"
    )
    console.print(Text(title, style="bold"))
    parts = f"{requested.noise:.3g} from privacy, {requested.sampling:.3g} from sampling"
    expected = (
        f"expect a root mean square error of {requested.rmse:.3g} ({parts}), "
        f"where returns span {estimator.return_bound:g}."
    )
    console.print(_item("", expected))
    table = Table(box=box.SIMPLE, pad_edge=False)
    for title in ("epsilon", "expected error", "from privacy", "from sampling", "% of range"):
        table.add_column(title, justify="right")
    for plan in plans:
        row = (
            f"{plan.privacy.epsilon:g}",
            f"{plan.rmse:.3g}",
            f"{plan.noise:.3g}",
            f"{plan.sampling:.3g}",
            f"{100 * plan.rmse / estimator.return_bound:.2g} %",
        )
        table.add_row(*row, style="bold" if plan is requested else None)
    console.print(table)
    for assumption in requested.assumptions:
        console.print(_item("assumed:", assumption))
    console.print(_item("", "No data were read, and no budget was spent."))


def _item(heading: str, text: str) -> Any:
    """A line that is indented where it wraps."""
    from rich.table import Table
    from rich.text import Text

    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_row(Text(f"  {heading}" if heading else " ", style="dim"), Text(text))
    return line


def _record(
    estimator: Any,
    plans: "Sequence[ExpectedError]",
    requested: "ExpectedError",
    warnings: list[str],
) -> dict[str, Any]:
    settings = ("states", "discount", "return_bound", "visits", "shrink")
    return {
        "users": requested.users,
        "delta": requested.privacy.delta,
        "relation": str(requested.privacy.relation),
        "settings": {name: getattr(estimator, name) for name in settings},
        "expected": _record_of_plan(requested),
        "epsilons": [_record_of_plan(plan) for plan in plans],
        "assumptions": list(requested.assumptions),
        "warnings": warnings,
    }


def _record_of_plan(plan: "ExpectedError") -> dict[str, float]:
    return {
        "epsilon": plan.privacy.epsilon,
        "rmse": plan.rmse,
        "from_privacy": plan.noise,
        "from_sampling": plan.sampling,
        "noise_std": plan.noise_scale,
    }


def delta_warnings(users: int, delta: float) -> list[str]:
    """The library's warnings about delta, as lines."""
    import warnings

    from confide.release.sums import delta_warning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        delta_warning(users, delta)
    return [str(warning.message) for warning in caught]
