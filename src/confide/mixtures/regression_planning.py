"""From sums of value-targeted regressions to the next round of UCRL-VTR, LinOpt-VI and LinOpt-PO.

PUBLIC: everything here is post-processing of releases, so it may be changed without weakening the
guarantee. What leaves is the round, and the values that its users' next states are regressed on.
The paper's calibration (`plain`) must stay as the papers print it.
"""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.mixtures.explorer_planning import explorer_width, regression_values, with_explorer
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
    """The released sums of one regression for each step. Public.

    Shapes: gram [h, m, m] is Lambda, with noise of the standard deviation `noise_std` on its
    diagonal, and responses [h, m] are u.
    """

    gram: Array
    responses: Array
    noise_std: float


@dataclass(frozen=True, slots=True, eq=False)
class MixtureEstimates:
    """What one release says of the transitions and of the rewards. Public.

    `rewards` [h, s, a] are known, or estimated with their bonus. `explorer_rewards` [h, s, a] are
    the same with an explorer's bonus.
    """

    estimate: RegressionEstimate
    width: Width
    rewards: Array
    explorer_rewards: Array
    signal: float | None


@dataclass(frozen=True, slots=True, eq=False)
class ValueRound:
    """A round, and the values [h, s] that its users' next states are regressed on."""

    public: PublicRound
    values: Array


@dataclass(frozen=True, slots=True, eq=False)
class MixturePlanner:
    """All that is public before the first user, and the plans that follow from a release.

    With `explorers` a small share of the users explores, unless rounds are `plain`. Plain rounds
    are the papers': without public weights of rows, and without knowing that rewards are in [0, 1].
    Features are kernels divided by `unit`. `ceiling` bounds the values at every step; if it is
    None, they are bounded by the steps that are left.
    """

    public: "MixturePublic"
    features: FeatureMap
    regularizer: Regularizer
    reward_features: RewardFeatures | None = None
    reward_regularizer: Regularizer | None = None
    explorers: bool = True
    plain: bool = False
    unit: float = 1.0
    ceiling: float | None = None

    _kernels: SparseKernels = field(init=False, repr=False)

    def __post_init__(self) -> None:
        features = known_features(self.public, self.unit)
        object.__setattr__(self, "_kernels", sparse(self.features, features))

    @property
    def kernels(self) -> SparseKernels:
        return self._kernels

    def learn(
        self, transitions: RegressionSums, rewards: RegressionSums | None, generation: int
    ) -> MixtureEstimates:
        """Estimate from the sums of transitions and, where rewards are unknown, of rewards."""
        noise_std = transitions.noise_std
        estimate = self.regularizer.estimate(
            transitions.gram, transitions.responses, noise_std=noise_std
        )
        width = self.regularizer.width(noise_std=noise_std)
        mean_rewards, explorer_rewards = self._rewards(rewards)
        signal = mean_eigenvalue(transitions.gram) if generation else None
        return MixtureEstimates(estimate, width, mean_rewards, explorer_rewards, signal)

    def _rewards(self, sums: RegressionSums | None) -> tuple[Array, Array]:
        """Optimistic rewards [h, s, a] for most users, and for an explorer."""
        if sums is None:
            assert self.public.rewards is not None
            return self.public.rewards, self.public.rewards
        features = self.reward_features
        regularizer = self.reward_regularizer
        assert features is not None and regularizer is not None
        gram = sums.gram if self.plain else sums.gram * features.pattern
        estimate = regularizer.estimate(gram, sums.responses, noise_std=sums.noise_std)
        width = regularizer.width(noise_std=sums.noise_std)
        clip = not self.plain
        rewards = optimistic_rewards(features, estimate, width, clip=clip)
        explorer_rewards = optimistic_rewards(features, estimate, explorer_width(width), clip=clip)
        return rewards, explorer_rewards

    def plan(self, estimates: MixtureEstimates) -> OptimisticPlan:
        ceiling = None if self.ceiling is None else np.full(self.public.horizon, self.ceiling)
        return optimistic(
            self._kernels,
            estimates.rewards,
            estimates.estimate,
            feature_map=self.features,
            width=estimates.width,
            ceiling=ceiling,
        )

    def explore(self, estimates: MixtureEstimates) -> OptimisticPlan:
        """What an explorer plans."""
        return optimistic(
            self._kernels,
            estimates.explorer_rewards,
            estimates.estimate,
            feature_map=self.features,
            width=explorer_width(estimates.width),
        )

    def with_explorers(
        self,
        policy: Policy,
        values: Array,
        estimates: MixtureEstimates,
        schedule: Schedule,
        generation: int,
    ) -> tuple[tuple[Policy, ...], tuple[float, ...], Array]:
        """Let a few users of a round explore.

        Returned are the policies of the round, their shares, and the values [h, s] that all users
        are regressed on.
        """
        explorer = self.explore(estimates)
        policies, shares = with_explorer(policy, explorer.policy, schedule.times, generation)
        return policies, shares, regression_values(values, explorer.values)


def plan_round(
    planner: MixturePlanner, estimates: MixtureEstimates, schedule: Schedule, generation: int
) -> ValueRound:
    """The next round of [Zhou22, Alg. 1] and, with known rewards, of [Luyo21, Alg. 1]."""
    plan = planner.plan(estimates)
    if planner.plain or not planner.explorers:
        return ValueRound(PublicRound((plan.policy,), {}, estimates.signal), plan.values)
    policies, shares, values = planner.with_explorers(
        plan.policy, plan.values, estimates, schedule, generation
    )
    return ValueRound(PublicRound(policies, {}, estimates.signal, shares), values)
