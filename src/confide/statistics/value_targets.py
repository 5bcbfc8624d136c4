"""Value-targeted regression: what a transition tells about the mixture, seen through a public value function [Luyo21, Alg. 1]."""

import numpy as np
import numpy.typing as npt

from confide.planners.value_features import FeatureMap, SparseKernels, sparse, visited
from confide.privacy.bounded import Bounded
from confide.statistics.bounds import Rows
from confide.statistics.transitions import valid_transitions
from confide.trajectory import Indices, Trajectories, TransitionCounts

Array = npt.NDArray[np.float64]


class ValueTargets:
    """Turns the users of one batch into a bounded contribution, for the values that this batch was planned with.

    Row and target of (h, s, a, s') are multiplied by `weights` [h, s, a] (or one number), which must be public; by default by the
    fitting ones, under which no possible row is clipped. An impossible transition is clipped like any other; a state or an action
    that does not exist contributes zero.
    """

    def __init__(
        self,
        bound: Rows,
        feature_map: FeatureMap,
        kernels: Array | SparseKernels,
        values: Array,
        weights: Array | float | None = None,
    ) -> None:
        self._bound, self._kernels = bound, sparse(feature_map, kernels)
        self._later = self._kernels.after(values[1 : bound.steps + 1])  # step h is about the value after it
        self._shape = len(self._later), self._kernels.states, self._kernels.actions
        self._weight = None if weights is None else np.broadcast_to(weights, self._shape)

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        seen = self.counts(users)
        return self._bound.counted(*self.rows(seen), seen.count, users=seen.users)

    def counts(self, users: Trajectories | TransitionCounts) -> TransitionCounts:
        """The transitions that a regression looks at, counted."""
        return valid_transitions(users, *self._shape)

    def rows(self, seen: TransitionCounts) -> tuple[Indices, Array, Array]:
        """Step [n], row [n, m] and target [n] of each counted transition, before the clip."""
        moves = seen.step, seen.state, seen.action, seen.next_state
        return seen.step, *visited(self._kernels, self._later, *moves, balance=self._bound.balance, weights=self._weight)
