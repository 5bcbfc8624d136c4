"""Pessimistic value iteration of DP-APVI [QiaoWang22, Alg. 1], from noisy counts.

Everything here is public.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.offline import _row_kernels as _kernels
from confide.policy import TabularPolicy
from confide.tables.support_features import Support
from papers.qiao22.printed import APVISetting

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Pessimistic:
    """The policy, its lower values [h, s], and of each row [h, s, a] the penalty and the visits."""

    policy: TabularPolicy
    values: Array
    penalties: Array
    visits: Array


def steps_of(states: int, actions: int, horizon: int) -> Support:
    """A tabular MDP with steps as one table.

    State s of step h is number h S + s. The last step leads to number H S.
    """
    S = states
    A = actions
    H = horizon
    lengths = np.concatenate(
        [np.full((H - 1) * S * A, S), np.ones(S * A, np.int64), np.zeros(A, np.int64)]
    )
    # The states of step h + 1, which follow step h.
    after = np.arange(S, H * S).reshape(H - 1, S)
    successors = np.concatenate([np.repeat(after, S * A, axis=0).ravel(), np.full(S * A, H * S)])
    indptr = np.concatenate([[0], np.cumsum(lengths)])
    return Support(
        1, H * S + 1, A, indptr.astype(np.int64), successors.astype(np.int64), known=True
    )


def consistent(
    counts: Array, totals: Array, indptr: npt.NDArray[np.int64], threshold: float
) -> Array:
    """Counts [cell] that are not negative and sum to within E / 2 of the totals [row].

    Of these they are the nearest ones in the largest deviation, equation (3). Counts and totals
    below zero become zero first, as in the paper. Then the least largest deviation shifts all
    counts of a row by the same amount and cuts at zero, because a smaller shift cannot bring the
    sum into the interval. Of all minimisers this one is also the nearest in Euclidean distance. The
    paper leaves the choice to a linear program.
    """
    counts = np.maximum(counts, 0.0)
    totals = np.maximum(totals, 0.0)
    row = np.repeat(np.arange(len(totals)), np.diff(indptr))
    sums = np.bincount(row, counts, len(totals))
    return _kernels.project(
        counts, np.clip(sums, totals - threshold / 2, totals + threshold / 2), indptr
    )


def pessimistic(
    setting: APVISetting, counts: Array, totals: Array, rewards: Array, threshold: float
) -> Pessimistic:
    """Backward induction with the penalty Gamma. Ties go to the action with the least number.

    `counts` and `totals` are those of `steps_of`. Rewards are [h, s, a]. The threshold is E, and 0
    for exact counts.
    """
    S = setting.states
    A = setting.actions
    H = setting.horizon
    indptr = steps_of(S, A, H).indptr
    near = consistent(counts, totals, indptr, threshold)
    visits = np.add.reduceat(near, indptr[: H * S * A]).reshape(H, S, A)
    values = np.zeros((H + 1, S))
    penalties = np.zeros((H, S, A))
    choices = np.zeros((H, S), np.int64)
    inner = near[: (H - 1) * S * A * S].reshape(H - 1, S, A, S)
    for h in reversed(range(H)):
        has_visits = visits[h] > threshold
        # Nothing follows the last step.
        mean = np.zeros((S, A))
        variance = np.zeros((S, A))
        if h < H - 1:
            P = np.where(
                has_visits[..., None],
                inner[h] / np.where(has_visits, visits[h], 1.0)[..., None],
                1 / S,
            )
            mean = P @ values[h + 1]
            variance = np.maximum(P @ values[h + 1] ** 2 - mean**2, 0.0)
        penalties[h] = setting.penalties(visits[h], variance, threshold)
        Q = np.clip(rewards[h] + mean - penalties[h], 0.0, H - h)
        choices[h] = Q.argmax(axis=1)
        values[h] = Q.max(axis=1)
    return Pessimistic(TabularPolicy(choices, A), values[:H], penalties, visits)
