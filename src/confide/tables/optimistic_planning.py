"""From noisy counts to an optimistic plan: one backward induction for all papers, each with its own bonus. All post-processing."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.tables import _optimistic_kernels as _kernels

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Errors:
    """How far noisy counts may be from the exact ones, and the logarithm that goes with sampling errors."""

    pair: float  # of the number of visits of a pair
    cell: float  # of the count of a transition
    reward: float  # of a sum of rewards
    log: float


@dataclass(frozen=True, slots=True, eq=False)
class Bonus:
    """fixed + (steps left) slope + spread sqrt(Var V), each [pair]. An infinite bonus says that nothing is known of a pair."""

    fixed: Array
    slope: Array
    spread: Array

    def at_most(self, left: float) -> Array:
        """[pair], for values that spread over all of [0, left]."""
        return np.asarray(self.fixed + left * self.slope + self.spread * left / 2)

    def by_steps_left(self, horizon: int, scale: float) -> "Bonus":
        """`scale` times as large, the fixed part in proportion to the steps left."""
        return Bonus(
            np.zeros_like(self.fixed),
            scale * (self.slope + self.fixed / horizon),
            scale * self.spread,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Optimist:
    """What a plan needs besides an estimate: rewards' bonus is part of `bonus`. `ceiling` and `left` are by step [h]."""

    ceiling: Array
    left: Array
    ends: Bools = field(repr=False)

    def q_values(
        self, probabilities: Array, rewards: Array, bonus: Bonus, policy: Array | None = None
    ) -> Array:
        """[h, s, a], of the greedy policy or of the given one [h, s, a], for probabilities [pair, s'] and rewards [h, s, a]."""
        weights = np.zeros((0, 0, 0)) if policy is None else policy
        P, r = (np.ascontiguousarray(each, dtype=float) for each in (probabilities, rewards))
        return _kernels.backward(
            P,
            r,
            bonus.fixed,
            bonus.slope,
            bonus.spread,
            self.left,
            self.ceiling,
            self.ends,
            weights,
        )


def greedy(Q: Array, ties: float, rng: np.random.Generator) -> Ints:
    """The best actions [h, s]; of those that differ by less than `ties`, one at random."""
    return np.asarray((Q + ties * rng.random(Q.shape)).argmax(axis=2))
