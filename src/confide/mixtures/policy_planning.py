"""Policy optimisation for linear mixtures [Zhou22, Alg. 2]: evaluate a policy optimistically, then move it towards what looks better.

    Q_h(s, a) = clip(r_h(s, a) + E_theta[V_{h+1}(s') | s, a] + bonus_h(s, a), 0, H - h),    V_h(s) = <Q_h(s, .), pi_h(. | s)>,    V_H = 0
    pi'_h(a | s) ~ pi_h(a | s) exp(eta Q_h(s, a))

Policies are kept as logits [h, s, a], log pi up to a constant per state. All post-processing.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.mixtures import _kernels
from confide.mixtures.regression_planning import Knowledge, MixturePlanner, ValueRound
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
    seen, (H, S, A) = sparse(feature_map, kernels), rewards.shape
    policy = softmax(logits)
    values, Q = np.zeros((H + 1, S)), np.empty((H, S, A))
    for h in reversed(range(H)):
        expected = np.zeros(S * A)
        if h < H - 1:
            X, offset, scale = _kernels.value_features(seen.arrays, values[h + 1], seen.span)
            expected = (
                offset
                + scale * X @ estimate.weights[h]
                + bonus(X, estimate.precision[h], scale, width)
            )
        Q[h] = np.clip(rewards[h] + expected.reshape(S, A), 0.0, float(H - h))
        values[h] = (Q[h] * policy[h]).sum(axis=1)
    return Evaluation(values, Q)


@dataclass(frozen=True, slots=True)
class PolicySteps:
    """How a policy moves: pi' ~ pi^keep exp(n eta Q) after a round of n users, which is n episodes of the paper with the same Q.

    The paper has keep = 1. `ahead` improves the policy by what the last round's users showed before the next round is served; the paper
    serves, and then improves.
    """

    size: float  # eta, per user
    keep: float
    ahead: bool


def plan_round(
    planner: MixturePlanner,
    known: Knowledge,
    schedule: Schedule,
    released: Released,
    steps: PolicySteps,
) -> ValueRound:
    """[Zhou22, Alg. 2]: the next round, and in its memory the logits that the round after it starts from."""
    generation = released.generation
    logits = released.memory["logits"] if generation else np.zeros(known.rewards.shape)
    if steps.ahead and generation:
        logits = steps.keep * logits
        served = released.users - int(released.memory["total"])
        logits = improve(logits, evaluate_known(planner, known, logits).Q, steps.size * served)
    found = evaluate_known(planner, known, logits)
    after = logits
    if not steps.ahead:
        size = steps.size * schedule.size(generation)
        after = improve(steps.keep * logits, found.Q, size)
    policy = StochasticPolicy(softmax(logits))
    memory = {"logits": after, "total": np.array(released.users)}
    if planner.plain:
        return ValueRound(PublicRound((policy,), memory, known.signal), found.values)
    policies, shares, values = planner.with_explorers(
        policy, found.values, known, schedule, generation
    )
    return ValueRound(PublicRound(policies, memory, known.signal, shares), values)


def evaluate_known(planner: MixturePlanner, known: Knowledge, logits: Array) -> Evaluation:
    return evaluate(
        planner.kernels,
        known.rewards,
        known.estimate,
        logits,
        feature_map=planner.features,
        width=known.width,
    )
