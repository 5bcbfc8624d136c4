"""A private agent small enough for tests: it learns nothing useful, but its policies depend on
noisy releases.
"""

import numpy as np

from confide.learning.agent import Abilities, Batch
from confide.policy import TabularPolicy
from confide.privacy import billboard
from confide.privacy.bounded import Bounded, L2Ball
from confide.privatizers import CentralPrivatizer, geometric


class Visits:
    """Counts the states where episodes end, privately, and plays action (released count) mod A."""

    abilities = Abilities(noise=True, mechanisms=True, saves=True, levels=True)
    signal = None

    def __init__(self, public, *, episodes, privacy, noise=None):
        self.public = public
        self.episodes = episodes
        self.privacy = privacy
        self.noise = noise
        self.schedule = geometric(episodes, first=10, ratio=1.2)
        self._bound = L2Ball(1.0, public.states)
        self._made = None

    @property
    def _privatizer(self):
        if self._made is None:
            self._made = CentralPrivatizer(
                self._bound, self.schedule, privacy=self.privacy, noise=self.noise
            )
        return self._made

    @property
    def guarantee(self):
        return billboard(self._privatizer.guarantee)

    @property
    def users(self):
        return self._made.users if self._made else 0

    @property
    def noise_level(self):
        return self._privatizer.release().noise

    def next_batch(self):
        released = self._privatizer.release()
        actions = np.floor(released.values).astype(int) % self.public.actions
        edge = self.schedule.times[released.generation]
        return Batch(
            TabularPolicy(np.tile(actions, (self.public.horizon, 1)), self.public.actions),
            edge - self.users,
        )

    def observe(self, users):
        ends = np.eye(self.public.states)[users.states[:, -1]]
        self._privatizer.absorb(Bounded(ends.sum(axis=0), self._bound, users.users))

    def mechanisms(self):
        return [self._privatizer.mechanism()]

    def save(self):
        return self._privatizer.save()

    def restore(self, data):
        # The runner's own state says what was shown.
        self._privatizer.restore(data, released=0)
