"""The memory and planning time of the learners of linear systems, which have few numbers, from
sizes alone.
"""

from typing import Any

from confide.learning.arguments import choose_schedule
from confide.learning.resources import Footprint, numbers_of_users
from confide.privacy.request import Request
from confide.privatizers import Schedule, geometric
from confide.problems.sizes import ProblemSizes

# Of the estimate, by `benchmarks/memory.py`: samples of the system, each with gains for every step,
# and the time for one number of them.
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
