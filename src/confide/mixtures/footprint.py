"""Estimates memory and planning time of agents for mixtures, from the sizes alone.

`benchmarks/memory.py` compares the estimates with measurements, and the numbers below were measured
by it. Only `explain`, and the refusal of problems that are too large, depend on them.
"""

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


def _kernel_numbers(sizes: ProblemSizes) -> int:
    return sizes.dimension * (sizes.transitions or sizes.states**2 * sizes.actions)


def _table_numbers(sizes: ProblemSizes) -> int:
    """Numbers of values, weights and rows for each step and pair.

    They count where there are few successors.
    """
    if not sizes.transitions:
        return 0
    return sizes.horizon * sizes.states * sizes.actions * (TABLES + sizes.dimension)


def _sweep_seconds(sizes: ProblemSizes) -> float:
    """Seconds of one backward induction."""
    return SECONDS_PER_NUMBER * sizes.horizon * _kernel_numbers(sizes)


def regression_footprint(
    sizes: ProblemSizes,
    *,
    episodes: int,
    privacy: Request,
    calibration: str = "tight",
    schedule: Schedule | None = None,
    regressions: int = 1,
    **options: Any,  # noqa: ARG001 - other options change nothing here
) -> Footprint:
    """The footprint of UCRL-VTR, LinOpt-VI and their variants.

    They release sums of outer products, for each step and regression.
    """
    is_tight = calibration == "tight"
    default = geometric(episodes) if is_tight else every_episode(episodes)
    chosen = choose_schedule(schedule, default)
    has_tree = not is_tight and not isinstance(privacy, LocalDP | NoPrivacy)
    tree = Tree(chosen.leaves) if has_tree else None
    matrices = value_steps(sizes.horizon) * sizes.dimension**2 * regressions
    matrices += sizes.horizon * sizes.reward_dimension**2
    # Matrices are symmetric, so about half of their numbers are released. Planning has whole ones.
    numbers = 1.5 * _kernel_numbers(sizes) + 10 * matrices
    numbers += numbers_of_users(chosen, sizes.horizon)
    numbers += _table_numbers(sizes)
    seconds = 0.01 + 2 * regressions * _sweep_seconds(sizes)
    return Footprint(matrices, numbers, seconds, chosen, tree)


def likelihood_footprint(
    sizes: ProblemSizes,
    *,
    episodes: int,
    privacy: Request,
    schedule: Schedule | None = None,
    **options: Any,  # noqa: ARG001 - other options change nothing here
) -> Footprint:
    """The footprint of LikelihoodVI: codes of all transitions, and what follows for each kernel."""
    chosen = choose_schedule(schedule, geometric(episodes))
    counter, _ = counter_of_rates(chosen, privacy)
    released = value_steps(sizes.horizon) * sizes.dimension
    numbers = 5 * _kernel_numbers(sizes) + numbers_of_users(chosen, sizes.horizon)
    return Footprint(released, numbers, 0.01 + 10 * _sweep_seconds(sizes), chosen, counter)


def questions_footprint(sizes: ProblemSizes, *, schedule: AtMost) -> Footprint:
    """The footprint of QuestionsVI, which asks few questions and keeps the kernels twice."""
    numbers = 1.5 * _kernel_numbers(sizes) + numbers_of_users(schedule, sizes.horizon)
    seconds = 0.1 + 40 * _sweep_seconds(sizes)
    return Footprint(value_steps(sizes.horizon), numbers, seconds, schedule)
