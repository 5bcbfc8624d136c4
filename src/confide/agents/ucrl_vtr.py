"""UCRL-VTR [Luyo21, Alg. 1] under joint differential privacy, and how much noise its printed constants add at the same promise."""

import math
from dataclasses import dataclass

import numpy as np

from confide.agents.learner import Learner, Round, choose_schedule
from confide.errors import InvalidParameter
from confide.mechanisms.counters import Factorisation, Tree
from confide.mechanisms.sources import NoiseSource
from confide.planners.optimism import optimistic
from confide.planners.regularizers import Regularizer, Repair
from confide.planners.value_features import FeatureMap, reduced
from confide.privacy.bounded import Released
from confide.privacy.loss import GaussianDP, loss_for
from confide.privacy.request import JointDP, LocalDP, Relation, Request
from confide.privatizers import Schedule, geometric, worst_std
from confide.problems.linear_mixture import LinearMixturePublic
from confide.statistics.bounds import RegressionRows, WeightedRows
from confide.statistics.value_targets import ValueTargets


@dataclass(frozen=True, slots=True)
class Calibration:
    """The noise of (Lambda_h)_h after some number of users, in units of L^2 (the square of the bound on the rows)."""

    name: str
    counter: str
    releases: int
    noise: float  # standard deviation of a diagonal entry of Lambda at the worst release
    loss: GaussianDP  # what the noise really gives
    dimension: int

    def users(self) -> int:
        """How many users it takes until the average eigenvalue of Lambda, k L^2 / d, exceeds the noise's norm, noise x sqrt(2 d)."""
        return math.ceil(self.dimension * math.sqrt(2 * self.dimension) * self.noise)


@dataclass(frozen=True, slots=True)
class PaperConstants:
    """[Luyo21, Cor. 5], as printed, for values in [0, H]."""

    sigma: float  # sigma_B
    levels: int  # K_0
    upsilon: float  # the bound on the noise's eigenvalues; Lambda is shifted by twice this


def paper_constants(privacy: JointDP, *, episodes: int, horizon: int, dimension: int, failure: float = 0.1) -> PaperConstants:
    """The noise of [Luyo21, Cor. 5]."""
    check_setting(episodes, horizon, dimension, failure)
    if privacy.delta == 0:
        raise InvalidParameter("Cor. 5 needs delta > 0")
    K, H, d, epsilon, delta, p = episodes, horizon, dimension, privacy.epsilon, privacy.delta, failure
    K0 = math.ceil(math.log2(K) + 1)
    logs = math.log(8 * H / delta) * math.log(4 / delta) * math.log(16 * H * K0 / delta)
    sigma = 32 * H**2 / epsilon * math.sqrt(2 * H * K0 * logs)
    upsilon = sigma * math.sqrt(K0) * (4 * math.sqrt(d) + 2 * math.log(6 * K * H / p))
    return PaperConstants(sigma, K0, upsilon)


def paper_joint(privacy: JointDP, *, episodes: int, horizon: int, dimension: int, failure: float = 0.1) -> Calibration:
    """[Luyo21, Cor. 5]: a binary tree over the episodes, each node with (Z' + Z'^T)/sqrt(2) on Lambda and N(0, sigma_B^2) on u.

    (Z' + Z'^T)/sqrt(2) is GOE noise of scale sqrt(2) sigma_B, so Lambda and u are one query with kappa = sqrt(2) under noise of that scale:
    its true loss follows from the sensitivity of `RegressionRows`.
    """
    constants = paper_constants(privacy, episodes=episodes, horizon=horizon, dimension=dimension, failure=failure)
    H = horizon
    tree = Tree(episodes)
    rows = RegressionRows(value_steps(H), dimension, row_norm=H, target=H, balance=math.sqrt(2))
    scale = math.sqrt(2) * constants.sigma
    mu = rows.sensitivity(Relation(privacy.relation)) * tree.column_norm(2) / scale
    noise = scale / H**2 * worst_std(tree) / tree.column_norm(2)
    return Calibration("paper", tree.name, episodes, noise, GaussianDP(mu), dimension)


def tight_joint(privacy: JointDP, counter: Factorisation, *, horizon: int, dimension: int) -> Calibration:
    """All of a user's numbers as one query, exact accounting, GOE noise; rows and targets non-negative, as with known kernels."""
    rows = RegressionRows(value_steps(horizon), dimension, nonnegative=True)
    loss = loss_for(privacy)
    if not isinstance(loss, GaussianDP):
        raise InvalidParameter("Gaussian noise needs delta > 0")
    noise = rows.sensitivity(Relation(privacy.relation)) / loss.mu * worst_std(counter)
    return Calibration("tight", counter.name, counter.leaves, noise, loss, dimension)


def value_steps(horizon: int) -> int:
    """How many steps have something to learn: the value after the last step is zero, so its regression is empty."""
    return max(horizon - 1, 1)


def check_setting(episodes: int, horizon: int, dimension: int, failure: float) -> None:
    for name, value in (("episodes", episodes), ("horizon", horizon), ("dimension", dimension)):
        if value < 1:
            raise InvalidParameter(f"{name} must be at least 1, got {name}={value}")
    if not 0 < failure < 1:
        raise InvalidParameter(f"failure must be in (0, 1), got failure={failure}")


@dataclass(frozen=True, slots=True, eq=False)
class ValueTargetedPlanning:
    """[Luyo21, Alg. 1] between two releases: regularised least squares, optimistic backward induction, and the rows of the next users."""

    public: LinearMixturePublic
    features: FeatureMap
    bound: WeightedRows
    regularizer: Regularizer

    def plan(self, released: Released) -> Round:
        Lambda, u = self.bound.unpack(released.values)
        noise_std = released.noise.std
        estimate, width = self.regularizer.estimate(Lambda, u, noise_std=noise_std), self.regularizer.width(noise_std=noise_std)
        kernels, rewards = self.public.kernels, self.public.rewards
        assert rewards is not None
        plan = optimistic(kernels, rewards, estimate, feature_map=self.features, width=width)
        mean_eigenvalue = float(np.trace(Lambda, axis1=1, axis2=2).mean() / self.features.dimension)
        statistic = ValueTargets(self.bound, self.features, kernels, plan.values)
        return Round((plan.policy,), statistic, signal=mean_eigenvalue if released.generation else None)


class UCRLVTR(Learner):
    """UCRL-VTR: optimistic planning on value-targeted least squares, from private prefix sums.

    Promise: joint DP for every user (`privacy`), by one query per user (all steps together) through one counter; delta = 0 gives Laplace
    noise. Actions are functions of releases alone. `NoPrivacy` is the same algorithm without noise.

    Reference: [Luyo21, Alg. 1].

    Departures (each for less noise at the same promise, none needed for privacy): exact accounting of one joint query instead of
    composition over steps; GOE noise; values centred and scaled to [0, 1] and mixture weights on the simplex, so that rows live in d - 1
    dimensions; public weights per (s, a); releases on a geometric schedule, each batch one leaf of the counter with the least noise;
    eigenvalues clipped at zero and a ridge of the size of the noise instead of the shift 2 Upsilon; estimates projected on the simplex;
    a bonus from released quantities, scaled by `bonus_scale`; Q clipped at 0 from below. Regret is measured, not proved.
    """

    name = "ucrl-vtr"

    def __init__(
        self,
        public: LinearMixturePublic,
        *,
        episodes: int,
        privacy: Request,
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        known_mixture(public, "UCRL-VTR")
        if isinstance(privacy, LocalDP):
            raise InvalidParameter("this agent keeps joint promises: use JointDP or NoPrivacy")
        features = reduced(public.dimension)
        bound = WeightedRows(value_steps(public.horizon), features.dimension, balance=1.05)
        regularizer = Repair(bound.balance, 0.1 if bonus_scale is None else bonus_scale, simplex=features)
        super().__init__(
            ValueTargetedPlanning(public, features, bound, regularizer),
            choose_schedule(schedule, geometric(episodes)),
            privacy=privacy,
            noise=noise,
        )


def known_mixture(public: LinearMixturePublic, name: str, *, rewards: bool = True) -> None:
    if not isinstance(public, LinearMixturePublic):
        raise InvalidParameter(f"{name} needs a mixture of known kernels (LinearMixtureMDP.public), got {type(public).__name__}")
    if rewards and public.rewards is None:
        raise InvalidParameter(f"{name} needs known rewards")
