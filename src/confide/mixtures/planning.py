"""Optimistic backward induction for linear mixtures, on estimates made from releases.

    Q_h(s, a) = clip(r_h(s, a) + E_theta[V_{h+1}(s') | s, a] + bonus_h(s, a), 0, H - h),    V_h(s) = max_a Q_h(s, a),    V_H = 0

[Luyo21, Alg. 1] does not clip Q at 0 from below; its sensitivity bound needs it.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.mixtures import _kernels
from confide.mixtures.value_features import FeatureMap, SparseKernels, sparse
from confide.planners.regression import RegressionEstimate, Width, bonus, parameters
from confide.planners.reward_features import RewardFeatures
from confide.policy import TabularPolicy

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticPlan:
    """Optimistic values and the policy that is greedy for them. Public.

    Shapes: values [h, s] for h = 0..H (values[H] = 0; the regression of step h looks at values[h + 1]), Q [h, s, a].
    """

    values: Array
    Q: Array
    policy: TabularPolicy


def optimistic(
    kernels: Array | SparseKernels,
    rewards: Array,
    estimate: RegressionEstimate,
    *,
    feature_map: FeatureMap,
    width: Width,
    ceiling: npt.ArrayLike | None = None,
) -> OptimisticPlan:
    """Plan with kernels [i, s, a, s'], rewards [h, s, a] and estimates for the steps 0..H-2 (after the last there is nothing to learn).

    `estimate` and `width` are in the coordinates of `feature_map`. `ceiling` [h] bounds Q_h from above: H - h by default, which is right
    for rewards in [0, 1]. Estimates of unknown rewards, with their own bonus, come as `rewards`.
    """
    seen, (H, S, A) = sparse(feature_map, kernels), rewards.shape
    m = feature_map.dimension
    weights, precision = estimate.weights, estimate.precision
    if (seen.states, seen.actions) != (S, A):
        raise InvalidParameter(
            f"rewards must have shape (horizon, {seen.states}, {seen.actions}), got {rewards.shape}"
        )
    if (
        len(weights) < H - 1
        or weights.shape != (len(weights), m)
        or precision.shape != (len(weights), m, m)
    ):
        expected = f"({H - 1}, {m}) and ({H - 1}, {m}, {m})"
        raise InvalidParameter(
            f"estimates must have shapes {expected}, got {weights.shape} and {precision.shape}"
        )
    ceilings = (
        np.arange(H, 0, -1.0) if ceiling is None else np.ascontiguousarray(ceiling, dtype=float)
    )
    if ceilings.shape != (H,):
        raise InvalidParameter(f"ceiling must have shape ({H},), got {ceilings.shape}")
    values, Q, actions = _kernels.optimistic(
        seen.arrays,
        np.ascontiguousarray(rewards, dtype=float),
        seen.span,
        np.ascontiguousarray(weights),
        np.ascontiguousarray(precision),
        parameters(width),
        ceilings,
    )
    return OptimisticPlan(values, Q, TabularPolicy(actions, A))


def optimistic_rewards(
    features: RewardFeatures, estimate: RegressionEstimate, width: Width, *, clip: bool
) -> Array:
    """varphi.theta + bonus [h, s, a], from estimates for all steps; `clip` knows that rewards are in [0, 1], before the bonus and after."""
    means = features.offset + np.einsum("saj,hj->hsa", features.rows, estimate.weights)
    extra = np.stack(
        [bonus(features.rows, precision, 1.0, width) for precision in estimate.precision]
    )
    return np.asarray(np.minimum(np.clip(means, 0.0, 1.0) + extra, 1.0) if clip else means + extra)
