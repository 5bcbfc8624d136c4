"""Optimistic backward induction for linear mixtures, on estimates made from releases. PUBLIC.

    Q_h(s, a) = clip(r_h(s, a) + E_theta[V_{h+1}(s') | s, a] + bonus_h(s, a), 0, H - h)
    V_h(s) = max_a Q_h(s, a),    V_H = 0

[Luyo21, Alg. 1] does not clip Q at 0 from below; its sensitivity bound needs it. Our guarantee does
not, because the rows of users are clipped whatever the values are.
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

    Shapes: values [h, s] for h = 0..H, Q [h, s, a]. values[H] is zero, and the regression of step h
    looks at values[h + 1].
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
    """Plan with kernels [i, s, a, s'], rewards [h, s, a] and estimates for the steps 0..H-2.

    After the last step there is nothing to learn. `estimate` and `width` are in the coordinates of
    `feature_map`. `ceiling` [h] bounds Q_h from above. By default it is H - h, which is right for
    rewards in [0, 1]. Estimates of unknown rewards, with their own bonus, come as `rewards`.
    """
    sparse_kernels = sparse(feature_map, kernels)
    H, S, A = rewards.shape
    if (sparse_kernels.states, sparse_kernels.actions) != (S, A):
        raise InvalidParameter(
            f"rewards must have shape (horizon, {sparse_kernels.states}, "
            f"{sparse_kernels.actions}), got {rewards.shape}"
        )
    _check_estimate(estimate, H - 1, feature_map.dimension)
    if ceiling is None:
        ceilings = np.arange(H, 0, -1.0)
    else:
        ceilings = np.ascontiguousarray(ceiling, dtype=float)
    if ceilings.shape != (H,):
        raise InvalidParameter(f"ceiling must have shape ({H},), got {ceilings.shape}")
    values, Q, actions = _kernels.optimistic(
        sparse_kernels.arrays,
        np.ascontiguousarray(rewards, dtype=float),
        sparse_kernels.span,
        np.ascontiguousarray(estimate.weights),
        np.ascontiguousarray(estimate.precision),
        parameters(width),
        ceilings,
    )
    return OptimisticPlan(values, Q, TabularPolicy(actions, A))


def _check_estimate(estimate: RegressionEstimate, steps: int, m: int) -> None:
    """Compiled loops read these arrays without looking at their bounds."""
    weights = estimate.weights
    precision = estimate.precision
    has_shapes = weights.shape == (len(weights), m) and precision.shape == (len(weights), m, m)
    if len(weights) < steps or not has_shapes:
        raise InvalidParameter(
            f"estimates must have shapes ({steps}, {m}) and ({steps}, {m}, {m}), "
            f"got {weights.shape} and {precision.shape}"
        )


def optimistic_rewards(
    features: RewardFeatures, estimate: RegressionEstimate, width: Width, *, clip: bool
) -> Array:
    """varphi.theta + bonus [h, s, a], from estimates for all steps.

    With `clip` rewards are in [0, 1], before the bonus and after it.
    """
    means = features.offset + np.einsum("saj,hj->hsa", features.rows, estimate.weights)
    bonuses = np.stack(
        [bonus(features.rows, precision, 1.0, width) for precision in estimate.precision]
    )
    if not clip:
        return np.asarray(means + bonuses)
    return np.asarray(np.minimum(np.clip(means, 0.0, 1.0) + bonuses, 1.0))
