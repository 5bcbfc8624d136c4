"""What releases say about a mixture and its rewards, and the optimistic plan that follows. All post-processing.

LinOpt-PO, in `policy_planning`, plans otherwise from the same estimates.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.mixtures.explorer_planning import served, targets, wider
from confide.mixtures.planning import OptimisticPlan, optimistic, optimistic_rewards
from confide.mixtures.value_features import FeatureMap, SparseKernels, known_features, sparse
from confide.planners.public_round import PublicRound
from confide.planners.regression import RegressionEstimate, Regularizer, Width, mean_eigenvalue
from confide.planners.reward_features import RewardFeatures
from confide.policy import Policy
from confide.privatizers.schedule import Schedule

if TYPE_CHECKING:
    from confide.problems.feature_mixture import MixturePublic

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class RegressionSums:
    """Of one regression for each step: Lambda [h, m, m], with noise of this standard deviation on its diagonal, and u [h, m]. Public."""

    gram: Array
    responses: Array
    noise_std: float


@dataclass(frozen=True, slots=True, eq=False)
class Knowledge:
    """What one release says: estimates for the transitions, and the rewards, known or estimated with their bonus. Public."""

    estimate: RegressionEstimate
    width: Width
    rewards: Array  # [h, s, a]
    hoped: Array  # the same with an explorer's bonus
    signal: float | None


@dataclass(frozen=True, slots=True, eq=False)
class ValueRound:
    """A round, and the values [h, s] that its users' next states are regressed on."""

    public: PublicRound
    values: Array


@dataclass(frozen=True, slots=True, eq=False)
class MixturePlanner:
    """All that is public before the first user, and what is made of sums: estimates for the transitions, and for rewards to be learned."""

    public: "MixturePublic"
    features: FeatureMap
    regularizer: Regularizer
    reward_features: RewardFeatures | None = None
    reward_regularizer: Regularizer | None = None
    explorers: bool = True  # a small share of the users, in rounds that are not plain
    # without public weights and without knowing that rewards are in [0, 1]: the papers'
    plain: bool = False
    unit: float = 1.0  # features are kernels / unit
    ceiling: float | None = None  # of the values at every step; None: the steps that are left

    _kernels: SparseKernels = field(init=False, repr=False)

    def __post_init__(self) -> None:
        known = known_features(self.public, self.unit)
        object.__setattr__(self, "_kernels", sparse(self.features, known))

    @property
    def kernels(self) -> SparseKernels:
        return self._kernels

    def learn(
        self, transitions: RegressionSums, rewards: RegressionSums | None, generation: int
    ) -> Knowledge:
        """From the sums of the transitions and, where they are unknown, of the rewards."""
        noise_std = transitions.noise_std
        return Knowledge(
            self.regularizer.estimate(transitions.gram, transitions.responses, noise_std=noise_std),
            self.regularizer.width(noise_std=noise_std),
            *self._rewards(rewards),
            mean_eigenvalue(transitions.gram) if generation else None,
        )

    def _rewards(self, sums: RegressionSums | None) -> tuple[Array, Array]:
        if sums is None:
            assert self.public.rewards is not None
            return self.public.rewards, self.public.rewards
        assert self.reward_features is not None and self.reward_regularizer is not None
        known = sums.gram if self.plain else sums.gram * self.reward_features.pattern
        estimate = self.reward_regularizer.estimate(known, sums.responses, noise_std=sums.noise_std)
        width = self.reward_regularizer.width(noise_std=sums.noise_std)
        rewards, hoped = (
            optimistic_rewards(self.reward_features, estimate, each, clip=not self.plain)
            for each in (width, wider(width))
        )
        return rewards, hoped

    def plan(self, known: Knowledge) -> OptimisticPlan:
        ceiling = None if self.ceiling is None else np.full(self.public.horizon, self.ceiling)
        return optimistic(
            self._kernels,
            known.rewards,
            known.estimate,
            feature_map=self.features,
            width=known.width,
            ceiling=ceiling,
        )

    def explore(self, known: Knowledge) -> OptimisticPlan:
        """What an explorer plans."""
        return optimistic(
            self._kernels,
            known.hoped,
            known.estimate,
            feature_map=self.features,
            width=wider(known.width),
        )

    def with_explorers(
        self, policy: Policy, values: Array, known: Knowledge, schedule: Schedule, generation: int
    ) -> tuple[tuple[Policy, ...], tuple[float, ...], Array]:
        """The policies of a round in which a few users explore, their shares, and what all users are regressed on."""
        explorer = self.explore(known)
        policies, shares = served(policy, explorer.policy, schedule.times, generation)
        return policies, shares, targets(values, explorer.values)


def plan_round(
    planner: MixturePlanner, known: Knowledge, schedule: Schedule, generation: int
) -> ValueRound:
    """[Zhou22, Alg. 1] and, with known rewards, [Luyo21, Alg. 1]: the next round, after so many releases."""
    plan = planner.plan(known)
    if planner.plain or not planner.explorers:
        return ValueRound(PublicRound((plan.policy,), {}, known.signal), plan.values)
    policies, shares, values = planner.with_explorers(
        plan.policy, plan.values, known, schedule, generation
    )
    return ValueRound(PublicRound(policies, {}, known.signal, shares), values)
