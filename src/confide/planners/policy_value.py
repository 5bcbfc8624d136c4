"""What a model of a finite problem says about policies: their values, and how a value changes with the model. All post-processing."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.planners.backward_induction import optimal, policy_values
from confide.policy import FinitePolicy, StochasticPolicy

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class PlayedRound:
    """A round: its policies, the share of its users that each serves, and how many users there were (0: it is open)."""

    policies: tuple[FinitePolicy, ...]
    shares: tuple[float, ...]
    users: int


@dataclass(frozen=True, slots=True)
class RoundValues:
    """The expected return of a user of each round, the newest last, as the newest model sees it.

    `sampling` and `privacy` are standard deviations of the last of the values. The first is what would be left if the same users had been
    added up exactly; the second is what noise adds: their squares add up to the variance that the model states.
    """

    values: tuple[float, ...]
    sampling: float
    privacy: float
    best: float  # of all policies, in this model
    uniform: float  # of equally likely actions, in this model


@dataclass(frozen=True, slots=True, eq=False)
class FiniteModel:
    """Transitions [h, s, a, s'] for all steps but the last, which decides nothing; rewards [h, s, a]; start [s]."""

    transitions: Array
    rewards: Array
    start: Array

    def expect(self, h: int, values: Array) -> Array:
        if h == len(self.transitions):
            return np.zeros(self.rewards.shape[1:])
        return np.asarray(self.transitions[h] @ values)

    def value(self, policy: FinitePolicy) -> tuple[float, Array]:
        """Of a user who is served by the policy, and the values [h, s] behind it."""
        values = policy_values(self.expect, self.rewards, policy)
        return float(self.start @ values[0]), values

    def mean_value(self, played: PlayedRound) -> float:
        return float(sum(share * self.value(policy)[0] for policy, share in _shared(played)))

    def visits(self, policy: FinitePolicy) -> Array:
        """The probability [h, s, a] of each state and action."""
        weights, at = policy.probabilities(), self.start
        found = np.empty(weights.shape)
        for h in range(len(found)):
            found[h] = at[:, None] * weights[h]
            if h < len(self.transitions):
                at = np.tensordot(found[h], self.transitions[h], axes=2)
        return found

    def mean_visits(self, played: PlayedRound) -> Array:
        return np.asarray(sum(share * self.visits(policy) for policy, share in _shared(played)))

    def slopes(self, played: PlayedRound) -> Array:
        """How the value of the round changes with the transitions [h, s, a, s']: visits times the value of what comes next."""
        found = np.zeros_like(self.transitions)
        for policy, share in _shared(played):
            visits, (_, values) = self.visits(policy), self.value(policy)
            for h in range(len(found)):
                found[h] += share * visits[h][:, :, None] * values[h + 1]
        return found

    def bounds(self) -> tuple[float, float]:
        """The values of the best policy and of equally likely actions."""
        best, _ = optimal(self.expect, self.rewards)
        even = StochasticPolicy(np.full(self.rewards.shape, 1 / self.rewards.shape[2]))
        return float(self.start @ best[0]), self.value(even)[0]


def _shared(played: PlayedRound) -> Sequence[tuple[FinitePolicy, float]]:
    return list(
        zip(played.policies, np.divide(played.shares, np.sum(played.shares)).tolist(), strict=True)
    )
