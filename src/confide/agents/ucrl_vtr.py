"""UCRL-VTR [Luyo21, Alg. 1]: how much noise its statistics get, as printed and at the same promise."""

import math
from dataclasses import dataclass

from confide.errors import InvalidParameter
from confide.mechanisms.counters import Factorisation, Tree
from confide.privacy.loss import GaussianDP, loss_for
from confide.privacy.request import JointDP, Relation
from confide.privatizers import worst_std
from confide.statistics.bounds import RegressionRows


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
