"""The row that a user's action adds to the regression of rewards on contexts. PRIVATE until a privatizer has added noise."""

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
    """(x x^T, kappa x y), x the context of the action that was played, y = reward - 1/2.

    `RegressionRows` with one step clips x to norm at most one and y to [-1/2, 1/2], and proves the sensitivity:
    sqrt(2) (1 + kappa^2 / 8), 2.12 at kappa = 2. An action that does not exist and numbers that are not finite contribute zero. The
    contexts of the other actions are not looked at.
    """

    bound: RegressionRows
    actions: int

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        if isinstance(users, TransitionCounts):
            raise InvalidParameter("contexts are real numbers: expected trajectories, got counts")
        expected = (self.actions, self.bound.dimension)
        if users.states.shape[2:] != expected or users.actions.ndim != 2:
            raise InvalidParameter(
                f"the states of a bandit must be contexts of shape (users, steps, {expected[0]}, {expected[1]})"
            )
        if users.horizon == 0:
            return Bounded(np.zeros(self.bound.size), self.bound, users.users)
        played = indices(users.actions[:, :1], self.actions)[:, 0]
        exists = (played >= 0) & (played < self.actions)
        rows = real_numbers(users.states[np.arange(users.users), 0, np.where(exists, played, 0)])
        rows = np.where(exists[:, None], rows, np.nan)
        targets = real_numbers(users.rewards[:, :1]) - CENTRE
        return self.bound.contribution(rows[:, None], targets)
