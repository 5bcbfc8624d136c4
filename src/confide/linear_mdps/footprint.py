"""Estimates memory and planning time of agents for linear MDPs, from the sizes alone.

`benchmarks/memory.py` compares the estimates with measurements. Only `explain`, and the refusal of
problems that are too large, depend on them.
"""

from typing import Any

from confide.learning.arguments import choose_schedule
from confide.learning.resources import NUMBERS_PER_STEP, Footprint, numbers_of_users
from confide.linear_mdps.batches import BatchPlan
from confide.mechanisms.counters import Tree
from confide.privacy.request import NoPrivacy, Request
from confide.privatizers import Schedule, geometric
from confide.problems.observations import FeaturesPublic
from confide.problems.sizes import ProblemSizes

# Seconds of one multiplication in a product of matrices. Measured by `benchmarks/memory.py`.
SECONDS_PER_PRODUCT = 1e-9
# Seconds of one transition probability of one model. Measured by `benchmarks/memory.py`.
SECONDS_PER_NUMBER = 2e-8
# So many features of users are shown together (`GymProblem.chunk`), and so many copies of them
# exist while they are clipped.
SHOWN_TOGETHER = 2**23
COPIES_OF_FEATURES = 6


def regression_footprint(
    sizes: ProblemSizes,
    *,
    episodes: int,
    privacy: Request,
    calibration: str = "tight",
    schedule: Schedule | BatchPlan | None = None,
    **options: Any,  # noqa: ARG001 - other options change nothing here
) -> Footprint:
    """The footprint of LSVI-UCB: prefix sums, and what is stored of users."""
    times = schedule.schedule if isinstance(schedule, BatchPlan) else schedule
    chosen = choose_schedule(times, geometric(episodes))
    has_tree = calibration == "paper" and not isinstance(privacy, NoPrivacy)
    tree = Tree(chosen.leaves) if has_tree else None
    matrices = sizes.horizon * sizes.dimension**2
    numbers = 20 * matrices + numbers_of_users(chosen, sizes.horizon)
    if sizes.family == FeaturesPublic.family:
        features_per_step = sizes.actions * sizes.dimension
        # For each user and step there are features in four bytes each, an action and a reward.
        numbers += episodes * sizes.horizon * (features_per_step // 2 + 2)
        largest_batch = numbers_of_users(chosen, sizes.horizon) // NUMBERS_PER_STEP
        numbers += COPIES_OF_FEATURES * min(largest_batch * features_per_step, SHOWN_TOGETHER)
        products = episodes * sizes.horizon * features_per_step * (sizes.dimension + 1)
    else:
        features = sizes.states * sizes.actions * sizes.dimension
        stored = min(episodes, sizes.states**2 * sizes.actions) * sizes.horizon
        numbers += 10 * stored + 4 * features
        products = sizes.dimension * (matrices + sizes.horizon * features)
    seconds = 0.01 + SECONDS_PER_PRODUCT * products
    return Footprint(matrices // 2, numbers, seconds, chosen, tree)


def model_footprint(
    sizes: ProblemSizes, *, episodes: int, models: int, schedule: Schedule | None = None
) -> Footprint:
    """The footprint of NextStateVI, which plans with so many models of all transitions."""
    chosen = choose_schedule(schedule, geometric(episodes))
    released = sizes.horizon * sizes.dimension * (sizes.states + 1)
    probabilities = models * sizes.horizon * sizes.states**2 * sizes.actions
    numbers = probabilities + 10 * released + numbers_of_users(chosen, sizes.horizon)
    return Footprint(released, numbers, 0.02 + SECONDS_PER_NUMBER * probabilities, chosen)
