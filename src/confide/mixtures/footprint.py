"""The memory and planning time of the learners of mixtures, from sizes alone. The factors are from `benchmarks/memory.py`."""

from typing import Any

from confide.learning.arguments import choose_schedule
from confide.learning.resources import Footprint, numbers_of_users
from confide.mechanisms.counters import Tree
from confide.mixtures.value_features import value_steps
from confide.privacy.request import LocalDP, NoPrivacy, Request
from confide.privatizers import AtMost, Schedule, counter_of_rates, every_episode, geometric
from confide.problems.sizes import ProblemSizes

# Seconds for one number of the kernels in one backward induction.
SECONDS_PER_NUMBER = 2e-9
# Numbers for each step and pair: rewards, Q, values, weights of the rows, and copies of them.
TABLES = 12


def _kernels(sizes: ProblemSizes) -> int:
    return sizes.dimension * (sizes.transitions or sizes.states**2 * sizes.actions)


def _tables(sizes: ProblemSizes) -> int:
    """Numbers of values, weights and rows for each step and pair, which count where there are few successors."""
    if not sizes.transitions:
        return 0
    return sizes.horizon * sizes.states * sizes.actions * (TABLES + sizes.dimension)


def _sweep(sizes: ProblemSizes) -> float:
    """Seconds of one backward induction."""
    return SECONDS_PER_NUMBER * sizes.horizon * _kernels(sizes)


def regression_footprint(
    sizes: ProblemSizes,
    *,
    episodes: int,
    privacy: Request,
    calibration: str = "tight",
    schedule: Schedule | None = None,
    regressions: int = 1,
    **options: Any,  # noqa: ARG001 - they change nothing
) -> Footprint:
    """Of UCRL-VTR, LinOpt-VI and their variants: sums of outer products, for each step and regression."""
    tight = calibration == "tight"
    chosen = choose_schedule(schedule, geometric(episodes) if tight else every_episode(episodes))
    private_tree = not tight and not isinstance(privacy, LocalDP | NoPrivacy)
    tree = Tree(chosen.leaves) if private_tree else None
    matrices = value_steps(sizes.horizon) * sizes.dimension**2 * regressions
    matrices += sizes.horizon * sizes.reward_dimension**2
    # Matrices are symmetric, so about half of their numbers are released, and whole ones are planned with.
    numbers = 1.5 * _kernels(sizes) + 10 * matrices + numbers_of_users(chosen, sizes.horizon)
    numbers += _tables(sizes)
    return Footprint(matrices, numbers, 0.01 + 2 * regressions * _sweep(sizes), chosen, tree)


def likelihood_footprint(
    sizes: ProblemSizes,
    *,
    episodes: int,
    privacy: Request,
    schedule: Schedule | None = None,
    **options: Any,  # noqa: ARG001 - they change nothing
) -> Footprint:
    """Of LikelihoodVI: codes of all transitions, and what follows for each kernel."""
    chosen = choose_schedule(schedule, geometric(episodes))
    counter, _ = counter_of_rates(chosen, privacy)
    released = value_steps(sizes.horizon) * sizes.dimension
    numbers = 5 * _kernels(sizes) + numbers_of_users(chosen, sizes.horizon)
    return Footprint(released, numbers, 0.01 + 10 * _sweep(sizes), chosen, counter)


def questions_footprint(sizes: ProblemSizes, *, schedule: AtMost) -> Footprint:
    """Of QuestionsVI, which asks few questions and keeps the kernels twice."""
    numbers = 1.5 * _kernels(sizes) + numbers_of_users(schedule, sizes.horizon)
    return Footprint(value_steps(sizes.horizon), numbers, 0.1 + 40 * _sweep(sizes), schedule)
