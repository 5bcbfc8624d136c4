"""The memory and planning time of the agents for linear systems, from sizes alone.

They are estimates that `confide.explain` prints. Nothing depends on them.
"""

from typing import Any

from confide.learning.arguments import choose_schedule
from confide.learning.resources import Footprint, numbers_of_users
from confide.privacy.request import Request
from confide.privatizers import Schedule, geometric
from confide.problems.sizes import ProblemSizes

# About so many systems are in memory at a time, each with gains for every step. Measured by
# benchmarks/memory.py, as the time for one of their numbers is.
SAMPLED_SYSTEMS = 64
SECONDS_PER_NUMBER = 1e-6


def control_footprint(
    sizes: ProblemSizes,
    *,
    episodes: int,
    privacy: Request,  # noqa: ARG001 - it changes nothing
    schedule: Schedule | None = None,
    **options: Any,  # noqa: ARG001 - they change nothing
) -> Footprint:
    chosen = choose_schedule(schedule, geometric(episodes))
    width = sizes.states + sizes.actions
    released = width * (width + sizes.states)
    samples = SAMPLED_SYSTEMS * sizes.horizon * width**2
    numbers = samples + numbers_of_users(chosen, sizes.horizon) * width
    return Footprint(released, numbers, 0.01 + SECONDS_PER_NUMBER * samples, chosen)
