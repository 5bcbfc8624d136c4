"""What a learner needs in memory and time, computed from sizes alone.

Nothing of the problem's size is allocated for it. All numbers are measured
(benchmarks/results/memory.md), and only decide whether a run is refused in advance.
"""

from dataclasses import dataclass

from confide.arguments import BYTES_PER_NUMBER
from confide.mechanisms.counters import Discounted, Factorisation
from confide.privacy.request import Request
from confide.privatizers import AtMost, Schedule, best_counter

# The bytes of an agent's compiled loops, once they are loaded.
COMPILED = 65 * 10**6
# Users whose trajectories are in memory at the same time (`runs/loop.py`).
SAMPLED_USERS = 65_536
# Numbers of eight bytes for one step of a trajectory: as it is sampled, and as indices and rewards
# that are checked.
NUMBERS_PER_STEP = 6


@dataclass(frozen=True, slots=True)
class Footprint:
    """What one agent needs on problems of some sizes.

    - `released` is how many numbers a release has. The privatizer keeps a multiple of them, which
      depends on its counter.
    - `numbers` is how many other numbers of eight bytes exist at the peak.
    - `planning_seconds` is the time of planning after one release.
    """

    released: int
    numbers: float
    planning_seconds: float
    schedule: Schedule | AtMost
    counter: Factorisation | None = None

    def memory(self, privacy: Request, *, discrete: bool) -> int:
        """Return the bytes at the peak. `discrete` says that noise is secure."""
        return COMPILED + int(
            BYTES_PER_NUMBER * (self.numbers + self._numbers_of_counter(privacy, discrete))
        )

    def _numbers_of_counter(self, privacy: Request, discrete: bool) -> int:
        """Return how many numbers the privatizer keeps between releases."""
        if privacy.trust.devices or isinstance(self.schedule, AtMost):
            return 0
        counter = self.counter
        if counter is None:
            counter = best_counter(
                self.schedule.leaves, privacy, discrete=discrete, users=self.schedule.users
            )
        if isinstance(counter, Discounted) and discrete:
            # In whole numbers it must remember every leaf.
            return self.released * counter.leaves
        private = counter.private_memory(1, float).values()
        public = counter.public_memory(1).values()
        return self.released * sum(array.size for array in (*private, *public))


def numbers_of_users(schedule: Schedule | AtMost, horizon: int, policies: int = 1) -> int:
    """Return how many numbers the trajectories have that are simulated together at most."""
    if isinstance(schedule, AtMost):
        largest = schedule.users
    else:
        largest = max(
            schedule.size(generation)
            for generation in {0, schedule.leaves - 2, schedule.leaves - 1}
            if generation >= 0
        )
    return min(largest // policies + 1, SAMPLED_USERS) * (horizon + 1) * NUMBERS_PER_STEP
