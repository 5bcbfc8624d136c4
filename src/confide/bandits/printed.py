"""The constants of [Shariff18] and [Zheng20] for linear bandits, and their exact privacy loss.

They are those of the papers' formulas as the authors' own code has them. For [Shariff18] this is
the Julia modules DifferentialPrivacy and LinearBandits, for [Zheng20] the repository LDPbandit2020.
Golden values stand in tests/bandits/test_printed.py, so no constant may be changed. Letters are the
papers'. Rewards are centred here: |y| <= 1/2, and the weights are at most 1/2 long, as rewards of
probability 1/2 + <x, theta> need for contexts of all directions.
"""

import math
from dataclasses import dataclass

from confide.errors import InvalidParameter
from confide.privacy.loss import NO_PRIVACY, GaussianDP, Loss
from confide.privacy.request import LocalDP, NoPrivacy, Relation, Request
from confide.problems.bandit import CENTRE
from confide.statistics.bounds import RegressionRows

# S, the largest length of the weights.
MAX_WEIGHT_LENGTH = 0.5
# The largest standard deviation of a reward.
REWARD_STD = 0.5


@dataclass(frozen=True, slots=True)
class PrintedBandit:
    """The paper's constants. The estimate solves with V + shift I, and `beta` is its width."""

    bound: RegressionRows
    # The noise on one node of the tree, or in one message, in the coordinates of the bound.
    std: float
    # m, the levels of the tree, or 0 for messages.
    levels: int
    # alpha, the probability that the confidence set may fail.
    failure: float
    # n, the number of all users.
    users: int

    @property
    def local(self) -> bool:
        return self.levels == 0

    def upsilon(self, served: int) -> float:
        """Return Upsilon, a bound on the norm of the noise after so many users.

        Under local privacy every message adds noise. With a tree, every level does.
        """
        d = self.bound.dimension
        noises = served if self.local else self.levels
        log = math.log(2 * self.users / self.failure)
        return self.std * math.sqrt(noises) * (4 * math.sqrt(d) + 2 * log)

    def shift(self, served: int) -> float:
        """Return 2 Upsilon, or 1 without noise."""
        return 2 * self.upsilon(served) if self.std else 1.0

    def beta(self, log_determinant: float, served: int) -> float:
        """Return the width of the confidence set after so many users.

        [Shariff18]: sigma sqrt(2 log(2 / alpha) + log det V - d log rho_min) + S sqrt(rho_max)
        + gamma, with rho_min = Upsilon and rho_max = 3 Upsilon.

        [Zheng20]: 2 sigma sqrt(d log n) + (sqrt(3 Upsilon) + sigma sqrt(d t / Upsilon)) d log n.
        """
        d = self.bound.dimension
        n = self.users
        alpha = self.failure
        upsilon = self.upsilon(served)
        if self.local:
            log = math.log(n)
            width = 2 * self.std * math.sqrt(d * log)
            if upsilon:
                noise_width = math.sqrt(3 * upsilon) + self.std * math.sqrt(d * served / upsilon)
                width += noise_width * d * log
            return width
        rho_min = 1.0
        rho_max = 1.0
        gamma = 0.0
        if self.std:
            rho_min = upsilon
            rho_max = 3 * upsilon
            # sigma is the standard deviation of an entry off the diagonal.
            sigma = self.std / math.sqrt(2)
            gamma = sigma * math.sqrt(self.levels / upsilon)
            gamma *= math.sqrt(d) + math.sqrt(2 * math.log(2 * n / alpha))
        radicand = 2 * math.log(2 / alpha) + log_determinant - d * math.log(rho_min)
        sampling = REWARD_STD * math.sqrt(max(radicand, 0.0))
        return sampling + MAX_WEIGHT_LENGTH * math.sqrt(rho_max) + gamma

    def loss(self, privacy: Request, column_norm: float) -> Loss:
        """Return the loss of a user who enters the counter with this norm. A message has norm 1."""
        if self.std == 0:
            return NO_PRIVACY
        sensitivity = self.bound.sensitivity(Relation(privacy.relation))
        return GaussianDP(sensitivity * column_norm / self.std)


def printed_bandit(
    privacy: Request, *, dimension: int, users: int, levels: int, failure: float
) -> PrintedBandit:
    """Return the constants of [Shariff18, Sec. 4.2], or those of [Zheng20, Alg. 4] under `LocalDP`.

    [Shariff18, Sec. 4.2]: each node of a tree over (x; y)(x; y)^T gets the noise
    Z = (Z' + Z'^T) / sqrt(2). The entries of Z' are N(0, sigma^2), with
    sigma^2 = 16 m L~^4 ln(4/delta)^2 / epsilon^2 and L~^2 = 1 + Y^2. In the coordinates of `svec`,
    all of Z has the standard deviation sqrt(2) sigma if x y is multiplied by kappa = sqrt(2).

    [Zheng20, Alg. 4]: sigma = 4 sqrt(2 ln(1.25/delta)) / epsilon on every entry of x x^T and of
    x y, on the device. Their code has lost the factor sqrt(2). Here the noise is in the coordinates
    of `svec`, with kappa = 1.
    """
    kappa = 1.0 if isinstance(privacy, LocalDP) else math.sqrt(2)
    bound = RegressionRows(1, dimension, 1.0, CENTRE, kappa)
    if isinstance(privacy, NoPrivacy):
        return PrintedBandit(bound, 0.0, 1, failure, users)
    if privacy.delta == 0:
        raise InvalidParameter(
            'delta must be positive with calibration="paper", got delta=0: '
            'the papers print no constants for it. Use calibration="tight"'
        )
    if isinstance(privacy, LocalDP):
        sigma = 4 * math.sqrt(2 * math.log(1.25 / privacy.delta)) / privacy.epsilon
        return PrintedBandit(bound, sigma, 0, failure, users)
    sigma = 4 * math.sqrt(levels) * (1 + CENTRE**2) * math.log(4 / privacy.delta) / privacy.epsilon
    return PrintedBandit(bound, math.sqrt(2) * sigma, levels, failure, users)
