"""confide calibrate: the noise of one guarantee, with the paper's constants and with exact calibration."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.options import AsJson, Delta, Epsilon, print_json
from confide.errors import InvalidParameter

if TYPE_CHECKING:
    from confide.mixtures.printed import LambdaNoise

_TOGETHER = "a geometric schedule, all releases together"


def calibrate(
    epsilon: Epsilon = 1.0,
    delta: Delta = 1e-5,
    episodes: Annotated[int, typer.Option(help="Number of users; each plays one episode.", max=10**8)] = 100_000,
    horizon: Annotated[int, typer.Option(help="Steps per episode.")] = 5,
    dimension: Annotated[int, typer.Option(help="Number of features.")] = 5,
    failure: Annotated[float, typer.Option(help="Failure probability in the paper's constants.")] = 0.1,
    as_json: AsJson = False,
) -> None:
    """Show how much noise a guarantee needs: each counter, printed constants and exact calibration."""
    if delta == 0:
        raise InvalidParameter(
            "--delta must be above 0: this table is about Gaussian noise; confide explain AGENT --delta 0 shows the noise of an agent"
        )
    rows = calibrations(epsilon, delta, episodes, horizon, dimension, failure)
    if dimension > 1:  # with one kernel there is nothing to learn, and no agent
        rows.append(_agent(rows[0], epsilon, delta, episodes, horizon, dimension))
    if as_json:
        print_json(rows)
    else:
        _print_table(rows, epsilon, delta, episodes, horizon, dimension)


def calibrations(
    epsilon: float, delta: float, episodes: int, horizon: int, dimension: int, failure: float
) -> list[dict[str, Any]]:
    import numpy as np

    from confide.mechanisms.counters import (
        Buffered,
        Discounted,
        Factorisation,
        HonakerTree,
        Leaves,
        Toeplitz,
        Tree,
        best_ratio,
        noise_on_rate,
    )
    from confide.mixtures.printed import Setting, paper_noise, tight_noise
    from confide.privacy import JointDP
    from confide.privatizers import geometric, worst_std

    setting, privacy = Setting(episodes, horizon, dimension, failure), JointDP(epsilon, delta)
    times = geometric(episodes).times
    few, sizes = len(times), np.diff([0, *times])
    counters: list[tuple[str, Factorisation]] = [
        ("a release per episode", Tree(episodes)),
        ("a release per episode", HonakerTree(episodes)),
        ("a release per episode", Toeplitz(episodes)),
        ("a release per episode", Buffered(episodes)),
        ("a geometric schedule", Tree(few)),
        (_TOGETHER, Leaves(few)),
        (_TOGETHER, Discounted(few, best_ratio(sizes))),
        ("a geometric schedule", Toeplitz(few)),
    ]
    paper = paper_noise(privacy, setting)
    rows = [_row("a release per episode", paper, worst_std(paper.counter), paper, delta)]
    for when, counter in counters:
        worst = noise_on_rate(counter, sizes) if when == _TOGETHER else worst_std(counter)
        rows.append(_row(when, tight_noise(privacy, counter, setting, worst), worst, paper, delta))
    return rows


def _row(when: str, one: "LambdaNoise", worst: float, paper: "LambdaNoise", delta: float) -> dict[str, Any]:
    """`noise` is that of `confide explain`: one query of a user's numbers has it whatever the numbers are."""
    from confide.privatizers import worst_std

    noise, printed = worst / one.loss.mu, worst_std(paper.counter) / paper.loss.mu
    return {
        "calibration": one.name,
        "counter": one.counter.name,
        "schedule": when,
        "releases": one.counter.leaves,
        "noise": noise,
        "less_noise_than_paper": printed / noise,
        "noise_on_lambda": one.noise,
        "times_less_than_paper": paper.noise / one.noise,
        "true_epsilon": one.loss.epsilon_at(delta),
        "users_until_signal": one.users(),
    }


def _agent(paper: dict[str, Any], epsilon: float, delta: float, episodes: int, horizon: int, dimension: int) -> dict[str, Any]:
    """`ucrl-vtr` as it is by default, by its own facts: rows in one dimension less, under public weights, need fewer users."""
    from confide.agents import UCRLVTR
    from confide.agents.facts import facts
    from confide.privacy import JointDP
    from confide.problems import rand

    world = rand(0, states=2, actions=1, horizon=horizon, dimension=dimension)  # which one does not matter to the noise
    found = facts(UCRLVTR(world.public, episodes=episodes, privacy=JointDP(epsilon, delta)))
    return {
        "calibration": "ucrl-vtr",
        "counter": found.noise.mechanism,
        "schedule": "a geometric schedule",
        "releases": found.schedule.leaves,
        "noise": found.relative_noise,
        "less_noise_than_paper": paper["noise"] / found.relative_noise,
        "noise_on_lambda": found.noise.worst,
        "times_less_than_paper": paper["noise_on_lambda"] / found.noise.worst,
        "true_epsilon": found.epsilon,
        "users_until_signal": found.users_until_signal,
    }


def _print_table(rows: list[dict[str, Any]], epsilon: float, delta: float, episodes: int, horizon: int, dimension: int) -> None:
    from rich.console import Console
    from rich.table import Table

    promise = f"JointDP(epsilon={epsilon:g}, delta={delta:g})"
    table = Table(pad_edge=False, title=f"UCRL-VTR, {promise}, {episodes:,} users, H={horizon}, d={dimension}")
    table.add_column("constants")
    table.add_column("counter")
    for heading in ("releases", "noise", "reduction", "epsilon", "users"):
        table.add_column(heading, justify="right", overflow="fold")
    for row in rows:
        table.add_row(
            row["calibration"],
            row["counter"],
            f"{row['releases']:,}",
            f"{row['noise']:,.2f}" if row["noise"] < 1000 else f"{row['noise']:,.0f}",
            f"{row['less_noise_than_paper']:,.0f} x",
            f"{row['true_epsilon']:.3g}",
            f"{row['users_until_signal']:,}",
        )
    console = Console()
    console.print(table)
    for line in (
        "noise     largest standard deviation of a release, relative to the sensitivity,",
        "          as in `confide explain ucrl-vtr --compare-with paper`; of leaves and",
        "          discounted sums that of the total, by least squares over all releases",
        "epsilon   exact privacy loss of that noise; paper: [Luyo21, Cor. 5]",
        "users     until the signal in Lambda, k/d, exceeds the norm of the noise on it",
        "ucrl-vtr  the agent's default: the same noise on rows in d - 1 dimensions",
        _one_release(epsilon, delta),
    ):
        console.print(line, style="dim", markup=False, highlight=False)


def _one_release(epsilon: float, delta: float) -> str:
    """Up to how many values K-norm noise is the least, for a user who is in one release."""
    from itertools import count, takewhile

    from confide.mechanisms.additive import least_noise
    from confide.mechanisms.counters import Exact
    from confide.mixtures.question_contributions import Answers
    from confide.privacy import CentralDP
    from confide.privacy.bounded import L2Ball

    def pure(values: int, bounded: str) -> bool:
        bound = L2Ball(0.5, values) if bounded == "ball" else Answers(values)
        made = least_noise(bound, CentralDP(epsilon, delta), Exact(1), discrete=False, users=1)
        return values <= 1000 and made.distribution != "gaussian"

    if delta == 0:
        return "A user in one release: the least of Laplace noise and K-norm noise (L2 ball, cube)"
    ball, cube = (sum(1 for _ in takewhile(lambda D, b=body: pure(D, b), count(1))) for body in ("ball", "cube"))  # type: ignore[misc]
    return f"A user in one release: K-norm noise is the least for up to {ball} values (L2 ball) or {cube} (cube)"
