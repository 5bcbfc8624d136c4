"""The two regressions of UCRL-VTR+: the values of the next states and their squares, as one query per user [Luyo21, Alg. 3]."""

from dataclasses import dataclass

import numpy as np

from confide.privacy.bounded import Bounded
from confide.statistics.bounds import RegressionRows
from confide.statistics.value_targets import ValueTargets
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True, eq=False)
class PairedTargets:
    """Both regressions in one bound: the first as its problems 0 .. n - 1, the second as n .. 2n - 1."""

    bound: RegressionRows
    first: ValueTargets
    second: ValueTargets

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        seen = self.first.counts(users)
        (step, X, y), (same, X2, y2) = self.first.rows(seen), self.second.rows(seen)
        steps, rows = np.concatenate([step, same + self.bound.steps // 2]), np.concatenate([X, X2])
        return self.bound.counted(steps, rows, np.concatenate([y, y2]), np.tile(seen.count, 2), users=seen.users)
