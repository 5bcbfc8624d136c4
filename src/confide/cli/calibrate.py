"""confide calibrate: what the same promise costs, paper against tight."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.options import AsJson, Delta, Epsilon, print_json

if TYPE_CHECKING:
    from confide.agents.luyo21 import LambdaNoise


def calibrate(
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    episodes: Annotated[int, typer.Option(help="How many users take part, one episode each.", max=10**8)] = 100_000,
    horizon: Annotated[int, typer.Option(help="Steps per episode.")] = 5,
    dimension: Annotated[int, typer.Option(help="Number of features.")] = 5,
    failure: Annotated[float, typer.Option(help="The confidence level of the paper's constants.")] = 0.1,
    as_json: AsJson = False,
) -> None:
    """How much noise a promise needs: every counter, the paper's constants against exact calibration."""
    rows = calibrations(epsilon, delta, episodes, horizon, dimension, failure)
    if as_json:
        print_json(rows)
    else:
        _print_table(rows, epsilon, delta, episodes, horizon, dimension)


def calibrations(
    epsilon: float, delta: float, episodes: int, horizon: int, dimension: int, failure: float
) -> list[dict[str, Any]]:
    from confide.agents.luyo21 import Setting, paper_noise, tight_noise
    from confide.mechanisms.counters import Buffered, Factorisation, HonakerTree, Toeplitz, Tree
    from confide.privacy import JointDP
    from confide.privatizers import geometric

    setting, privacy = Setting(episodes, horizon, dimension, failure), JointDP(epsilon, delta)
    few = geometric(episodes).leaves
    counters: list[tuple[str, Factorisation]] = [
        ("a release per episode", Tree(episodes)),
        ("a release per episode", HonakerTree(episodes)),
        ("a release per episode", Toeplitz(episodes)),
        ("a release per episode", Buffered(episodes)),
        ("a geometric schedule", Tree(few)),
        ("a geometric schedule", Toeplitz(few)),
    ]
    paper = paper_noise(privacy, setting)
    tight = [(when, tight_noise(privacy, counter, setting)) for when, counter in counters]
    return [_row(when, one, paper, delta) for when, one in [("a release per episode", paper), *tight]]


def _row(when: str, one: "LambdaNoise", paper: "LambdaNoise", delta: float) -> dict[str, Any]:
    return {
        "calibration": one.name,
        "counter": one.counter.name,
        "schedule": when,
        "releases": one.counter.leaves,
        "noise_on_lambda": one.noise,
        "times_less_than_paper": paper.noise / one.noise,
        "true_epsilon": one.loss.epsilon_at(delta),
        "users_until_signal": one.users(),
    }


def _print_table(rows: list[dict[str, Any]], epsilon: float, delta: float, episodes: int, horizon: int, dimension: int) -> None:
    from rich.console import Console
    from rich.table import Table

    promise = f"JointDP(epsilon={epsilon:g}, delta={delta:g})"
    table = Table(title=f"UCRL-VTR, {promise}, {episodes:,} users, H={horizon}, d={dimension}")
    table.add_column("constants")
    table.add_column("counter")
    for heading in ("releases", "noise", "less by", "epsilon", "users"):
        table.add_column(heading, justify="right", overflow="fold")
    for row in rows:
        table.add_row(
            row["calibration"],
            row["counter"],
            f"{row['releases']:,}",
            f"{row['noise_on_lambda']:,.1f}",
            f"{row['times_less_than_paper']:,.0f} x",
            f"{row['true_epsilon']:.3g}",
            f"{row['users_until_signal']:,}",
        )
    console = Console()
    console.print(table)
    console.print("noise    standard deviation of a diagonal entry of Lambda at the worst release,", style="dim")
    console.print("         in units of the squared bound on the rows", style="dim")
    console.print("epsilon  what that noise really gives; paper: [Luyo21, Cor. 5]", style="dim")
    console.print("users    until the signal k/d exceeds the norm of the noise, noise x sqrt(2d)", style="dim")
