"""What a model of a finite problem says about policies. All of it is post-processing of releases.

It says how much policies are worth, and how their values change with the model.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.planners.backward_induction import optimal, policy_values
from confide.policy import FinitePolicy, StochasticPolicy

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PlayedRound:
    """The policies of a round, the share of its users that each serves, and its number of users.

    The number of users is 0 while the round is open.
    """

    policies: tuple[FinitePolicy, ...]
    shares: tuple[float, ...]
    users: int

    def weighted_policies(self) -> list[tuple[FinitePolicy, float]]:
        """Return each policy with its share. The shares add up to one."""
        shares = np.divide(self.shares, np.sum(self.shares)).tolist()
        return list(zip(self.policies, shares, strict=True))


@dataclass(frozen=True, slots=True)
class RoundValues:
    """The expected return of a user of each round, the newest last, as the newest model sees it.

    `sampling` and `privacy` are standard deviations of the newest value. The first one would be
    left if the same users had been added up exactly. The second one is what noise adds. Their
    squares add up to the variance that the model states.

    `best` and `uniform` are the values of the best policy and of equally likely actions in this
    model.
    """

    values: tuple[float, ...]
    sampling: float
    privacy: float
    best: float
    uniform: float


@dataclass(frozen=True, slots=True, eq=False)
class FiniteModel:
    """A model of a finite problem.

    Shapes: transitions [h, s, a, s'] for all steps but the last, whose successor earns nothing;
    rewards [h, s, a]; start [s].
    """

    transitions: Array
    rewards: Array
    start: Array

    def expect(self, h: int, values: Array) -> Array:
        """Return E[V(s') | s, a] [s, a] at step h, for values V [s']."""
        if h == len(self.transitions):
            return np.zeros(self.rewards.shape[1:])
        return np.asarray(self.transitions[h] @ values)

    def value(self, policy: FinitePolicy) -> tuple[float, Array]:
        """Return the value of a user whom the policy serves, and the values [h, s] behind it."""
        values = policy_values(self.expect, self.rewards, policy)
        return float(self.start @ values[0]), values

    def mean_value(self, played: PlayedRound) -> float:
        """Return the mean value of the users of a round."""
        return float(
            sum(share * self.value(policy)[0] for policy, share in played.weighted_policies())
        )

    def visits(self, policy: FinitePolicy) -> Array:
        """Return the probability [h, s, a] of each state and action."""
        weights = policy.probabilities()
        probabilities = np.empty(weights.shape)  # [h, s, a]
        at_step = self.start
        for h in range(len(probabilities)):
            probabilities[h] = at_step[:, None] * weights[h]
            if h < len(self.transitions):
                at_step = np.tensordot(probabilities[h], self.transitions[h], axes=2)
        return probabilities

    def mean_visits(self, played: PlayedRound) -> Array:
        """Return the mean of `visits` over the users of a round."""
        return np.asarray(
            sum(share * self.visits(policy) for policy, share in played.weighted_policies())
        )

    def slopes(self, played: PlayedRound) -> Array:
        """Return the derivative of the round's value by the transitions [h, s, a, s'].

        It is the product of visits and the value of what comes next.
        """
        derivative = np.zeros_like(self.transitions)  # [h, s, a, s']
        for policy, share in played.weighted_policies():
            visits = self.visits(policy)
            _, values = self.value(policy)
            for h in range(len(derivative)):
                derivative[h] += share * visits[h][:, :, None] * values[h + 1]
        return derivative

    def bounds(self) -> tuple[float, float]:
        """Return the values of the best policy and of equally likely actions."""
        best_values, _ = optimal(self.expect, self.rewards)
        actions = self.rewards.shape[2]
        uniform = StochasticPolicy(np.full(self.rewards.shape, 1 / actions))
        uniform_value, _ = self.value(uniform)
        return float(self.start @ best_values[0]), uniform_value
