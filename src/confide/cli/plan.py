"""confide plan: predict the error of a release from public numbers."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.estimator_options import PlannedEstimatorCommand
from confide.cli.groups import with_groups
from confide.cli.log_options import Discount, EstimatorName, MaxTrajectories, PrivacyOptions
from confide.cli.options import AsJson, print_json
from confide.cli.returns import ReturnOptions

if TYPE_CHECKING:
    from confide.evaluation.plan import ExpectedError

app = typer.Typer(
    name="plan",
    help="Predict errors from public numbers, without reading data.",
    no_args_is_help=True,
)

_EPSILONS = (0.25, 0.5, 1.0, 2.0, 4.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedValueOptions:
    """What would be estimated, from how many users."""

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

    max_trajectories: MaxTrajectories = 1
    max_steps: Annotated[
        int | None,
        typer.Option(help="Use at most this many steps per trajectory.", min=1, show_default=False),
    ] = None
    visit_shares: Annotated[
        Path | None,
        typer.Option(
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

        shares = self.visit_shares
        return {
            "visit_shares": None if shares is None else read_table(shares, "visit shares").ravel(),
            "return_std": self.return_std,
            "spread": self.spread,
            "trajectories": self.max_trajectories,
        }


@app.command(cls=PlannedEstimatorCommand)
@with_groups
def evaluate(
    context: typer.Context,
    value: PlannedValueOptions,
    returned: ReturnOptions,
    privacy: PrivacyOptions,
    population: PopulationOptions,
    as_json: AsJson = False,
) -> None:
    """Predict the error of `confide evaluate`, for several epsilons. No data are read."""
    from confide.errors import InvalidParameter
    from confide.evaluation.catalogue import estimator_class, make_estimator

    if not hasattr(estimator_class(value.estimator), "plan"):
        raise InvalidParameter(
            f"the error of {value.estimator} cannot be predicted; only counts-and-sums can be planned"
        )
    options: dict[str, Any] = context.obj
    asked_epsilon = privacy.request().epsilon
    if returned.reward_range is not None and population.max_steps is None:
        raise InvalidParameter(
            "--reward-range needs --max-steps: returns add up over the steps of a trajectory"
        )
    returns = returned.range(
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
    epsilons = sorted({asked_epsilon, *_EPSILONS})
    requests = [replace(privacy, epsilon=each).request() for each in epsilons]
    plans = [estimator.plan(value.users, request, **facts) for request in requests]
    _show(estimator, plans, epsilons.index(asked_epsilon), as_json)


def _show(made: Any, plans: "list[ExpectedError]", asked: int, as_json: bool) -> None:
    warned = delta_warnings(plans[asked].users, plans[asked].privacy.delta)
    if as_json:
        print_json(_record(made, plans, asked, warned))
        return
    for warning in warned:
        typer.echo(f"warning: {warning}", err=True)
    _print(made, plans, asked)


def _print(made: Any, plans: "list[ExpectedError]", asked: int) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console, chosen = Console(), plans[asked]
    said = f"Values of {made.states:,} states from {chosen.users:,} users at epsilon = {chosen.privacy.epsilon:g}, "
    console.print(Text(f"{said}delta = {chosen.privacy.delta:g}:", style="bold"))
    parts = f"{chosen.noise:.3g} from privacy, {chosen.sampling:.3g} from sampling"
    expected = f"expect a root mean square error of {chosen.rmse:.3g} ({parts}), where returns span {made.return_bound:g}."
    console.print(_item("", expected))
    values = Table(box=box.SIMPLE, pad_edge=False)
    for title in ("epsilon", "expected error", "from privacy", "from sampling", "% of range"):
        values.add_column(title, justify="right")
    for place, plan in enumerate(plans):
        share = f"{100 * plan.rmse / made.return_bound:.2g} %"
        row = (
            f"{plan.privacy.epsilon:g}",
            f"{plan.rmse:.3g}",
            f"{plan.noise:.3g}",
            f"{plan.sampling:.3g}",
            share,
        )
        values.add_row(*row, style="bold" if place == asked else None)
    console.print(values)
    for text in (*chosen.assumptions, "No data were read, and no budget was spent."):
        console.print(_item("assumed:" if text in chosen.assumptions else "", text))


def _item(mark: str, text: str) -> Any:
    """A line that is indented where it wraps."""
    from rich.table import Table
    from rich.text import Text

    line = Table.grid(padding=(0, 1, 0, 0))
    line.add_row(Text(f"  {mark}" if mark else " ", style="dim"), Text(text))
    return line


def _record(
    made: Any, plans: "list[ExpectedError]", asked: int, warned: list[str]
) -> dict[str, Any]:
    rows = [
        {
            "epsilon": p.privacy.epsilon,
            "rmse": p.rmse,
            "from_privacy": p.noise,
            "from_sampling": p.sampling,
            "noise_std": p.noise_scale,
        }
        for p in plans
    ]
    settings = {
        name: getattr(made, name)
        for name in ("states", "discount", "return_bound", "visits", "shrink")
    }
    return {
        "users": plans[asked].users,
        "delta": plans[asked].privacy.delta,
        "relation": str(plans[asked].privacy.relation),
        "settings": settings,
        "expected": rows[asked],
        "epsilons": rows,
        "assumptions": list(plans[asked].assumptions),
        "warnings": warned,
    }


def delta_warnings(users: int, delta: float) -> list[str]:
    """The library's warnings about delta, as lines."""
    import warnings

    from confide.release.sums import delta_warning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        delta_warning(users, delta)
    return [str(warning.message) for warning in caught]
