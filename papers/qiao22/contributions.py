"""Counts of transitions per step, for a tabular MDP with a horizon.

They are PRIVATE until a privatizer has added noise.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.offline.transition_contributions import RootCounts, RootTransitions
from confide.privacy.bounded import Bounded
from confide.trajectory import LoggedUsers

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class StepTransitions:
    """Counts (h, s, a, s') of each user's first trajectory, up to step H.

    State s at step h is number h S + s of `counted`. A user is in each row at most once, so root
    weights are one. A log does not have the state after step H, so that row leads to the number
    H S. An earlier row that ends the trajectory does not count. Nothing counts after a gap, because
    the step is not known. A user with a state that does not exist contributes zero.
    """

    counted: RootTransitions
    states: int
    horizon: int

    @property
    def bound(self) -> RootCounts:
        return self.counted.bound

    def contribution(self, users: LoggedUsers) -> Bounded:
        if users.actions is None:
            raise InvalidParameter('the log has no actions: open it with action="action"')
        taken, first = _first_rows(users, self.horizon)
        step = np.arange(len(taken)) - np.repeat(first[:-1], np.diff(first))
        states = users.states[taken]
        inside = (states >= 0) & (states < self.states)
        return self.counted.contribution(
            LoggedUsers(
                np.where(inside, step * self.states + np.where(inside, states, 0), -1),
                users.rewards[taken],
                first,
                np.arange(users.count + 1),
                users.valid,
                users.actions[taken],
            )
        )


def _first_rows(users: LoggedUsers, horizon: int) -> tuple[Ints, Ints]:
    """The rows of each user's first trajectory, and where those of each user begin [user + 1].

    The rows end at the horizon or before the first gap.
    """
    some = np.diff(users.users) > 0
    one = np.where(some, users.users[:-1], 0)
    begin = (
        users.trajectories[one] if len(users.trajectories) > 1 else np.zeros(users.count, np.int64)
    )
    end = users.trajectories[np.minimum(one + 1, len(users.trajectories) - 1)]
    lengths = np.where(some, np.minimum(end - begin, horizon), 0)
    first = np.concatenate([[0], np.cumsum(lengths)])
    taken = np.arange(first[-1]) + np.repeat(begin - first[:-1], lengths)
    if users.gaps is None:
        return taken, first
    so_far = np.concatenate([[0], np.cumsum(users.gaps[taken])])
    whole = so_far[1:] == np.repeat(so_far[first[:-1]], lengths)
    kept = np.concatenate([[0], np.cumsum(whole)])
    return taken[whole], kept[first]
