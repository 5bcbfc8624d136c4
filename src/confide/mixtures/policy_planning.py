"""Policy optimisation for linear mixtures [Zhou22, Alg. 2].

PUBLIC: everything here is post-processing of releases. A policy is evaluated optimistically, then
moved towards what looks better:

    Q_h(s, a) = clip(r_h(s, a) + E_theta[V_{h+1}(s') | s, a] + bonus_h(s, a), 0, H - h)
    V_h(s) = <Q_h(s, .), pi_h(. | s)>,    V_H = 0
    pi'_h(a | s) ~ pi_h(a | s) exp(eta Q_h(s, a))

Policies are kept as logits [h, s, a], log pi up to a constant per state. They are the memory of a
round: its names "logits" and "total" are a format, which saved agents and devices have.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.mixtures import _kernels
from confide.mixtures.regression_planning import MixtureEstimates, MixturePlanner, ValueRound
from confide.mixtures.value_features import FeatureMap, SparseKernels, sparse
from confide.planners.mirror_descent import improve, softmax
from confide.planners.public_round import PublicRound
from confide.planners.regression import RegressionEstimate, Width, bonus
from confide.policy import StochasticPolicy
from confide.privacy.bounded import Released
from confide.privatizers.schedule import Schedule

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Evaluation:
    """Optimistic values [h, s] (h = 0..H) and Q [h, s, a] of one policy. Public."""

    values: Array
    Q: Array


def evaluate(
    kernels: Array | SparseKernels,
    rewards: Array,
    estimate: RegressionEstimate,
    logits: Array,
    *,
    feature_map: FeatureMap,
    width: Width,
) -> Evaluation:
    """As `optimistic` plans, but for the policy of the logits instead of the greedy one."""
    sparse_kernels = sparse(feature_map, kernels)
    H, S, A = rewards.shape
    policy = softmax(logits)
    values = np.zeros((H + 1, S))
    Q = np.empty((H, S, A))
    for h in reversed(range(H)):
        expected = np.zeros(S * A)
        if h < H - 1:
            X, offset, scale = _kernels.value_features(
                sparse_kernels.arrays, values[h + 1], sparse_kernels.span
            )
            optimism = bonus(X, estimate.precision[h], scale, width)
            expected = offset + scale * X @ estimate.weights[h] + optimism
        Q[h] = np.clip(rewards[h] + expected.reshape(S, A), 0.0, float(H - h))
        values[h] = (Q[h] * policy[h]).sum(axis=1)
    return Evaluation(values, Q)


@dataclass(frozen=True, slots=True)
class PolicySteps:
    """How a policy moves: pi' ~ pi^keep exp(n eta Q) after a round of n users.

    A round of n users is n episodes of the paper with the same Q, and eta is `size`. The paper has
    keep = 1. With `ahead` the policy is improved by what the last round's users showed before the
    next round is served. The paper serves first, and then improves.
    """

    size: float
    keep: float
    ahead: bool


def plan_round(
    planner: MixturePlanner,
    estimates: MixtureEstimates,
    schedule: Schedule,
    released: Released,
    steps: PolicySteps,
) -> ValueRound:
    """The next round of [Zhou22, Alg. 2], with the logits that the round after it starts from."""
    generation = released.generation
    logits = released.memory["logits"] if generation else np.zeros(estimates.rewards.shape)
    if steps.ahead and generation:
        logits = steps.keep * logits
        users = released.users - int(released.memory["total"])
        Q = evaluate_logits(planner, estimates, logits).Q
        logits = improve(logits, Q, steps.size * users)
    evaluation = evaluate_logits(planner, estimates, logits)
    next_logits = logits
    if not steps.ahead:
        step = steps.size * schedule.size(generation)
        next_logits = improve(steps.keep * logits, evaluation.Q, step)
    policy = StochasticPolicy(softmax(logits))
    memory = {"logits": next_logits, "total": np.array(released.users)}
    if planner.plain:
        public = PublicRound((policy,), memory, estimates.signal)
        return ValueRound(public, evaluation.values)
    policies, shares, values = planner.with_explorers(
        policy, evaluation.values, estimates, schedule, generation
    )
    return ValueRound(PublicRound(policies, memory, estimates.signal, shares), values)


def evaluate_logits(
    planner: MixturePlanner, estimates: MixtureEstimates, logits: Array
) -> Evaluation:
    return evaluate(
        planner.kernels,
        estimates.rewards,
        estimates.estimate,
        logits,
        feature_map=planner.features,
        width=estimates.width,
    )
