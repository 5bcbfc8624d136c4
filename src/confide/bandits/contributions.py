"""The row that a user's action adds to the regression of rewards on contexts.

PRIVATE: the sums are exact until a privatizer has added noise.
"""

from dataclasses import dataclass

import numpy as np

from confide.errors import InvalidParameter
from confide.privacy.bounded import Bounded, real_numbers
from confide.problems.bandit import CENTRE
from confide.statistics.bounds import RegressionRows
from confide.statistics.transitions import indices
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class PlayedContexts:
    """Turns users into (x x^T, kappa x y).

    Here x is the context of the action that the user played, and y = reward - 1/2. `RegressionRows`
    with one step clips x to norm at most one and y to [-1/2, 1/2]. It proves the sensitivity, which
    is sqrt(2) (1 + kappa^2 / 8), or 2.12 at kappa = 2. An action that does not exist, or a number
    that is not finite, contributes zero. The contexts of the other actions are not read.
    """

    bound: RegressionRows
    actions: int

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        if isinstance(users, TransitionCounts):
            raise InvalidParameter(
                "users must come as trajectories, got TransitionCounts: contexts are real numbers"
            )
        context_shape = (self.actions, self.bound.dimension)
        if users.states.shape[2:] != context_shape or users.actions.ndim != 2:
            raise InvalidParameter(
                "the states of a bandit must be contexts of shape "
                f"(users, steps, {self.actions}, {self.bound.dimension})"
            )
        if users.horizon == 0:
            return Bounded(np.zeros(self.bound.size), self.bound, users.users)
        actions = indices(users.actions[:, :1], self.actions)[:, 0]
        exists = (actions >= 0) & (actions < self.actions)
        existing_actions = np.where(exists, actions, 0)
        rows = real_numbers(users.states[np.arange(users.users), 0, existing_actions])
        # A row of NaN contributes zero.
        rows = np.where(exists[:, None], rows, np.nan)
        targets = real_numbers(users.rewards[:, :1]) - CENTRE
        return self.bound.contribution(rows[:, None], targets)
