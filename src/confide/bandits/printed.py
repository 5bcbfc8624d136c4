"""The constants of [Shariff18] and [Zheng20] for linear bandits, and the exact privacy loss of their noise.

They are those of the papers' formulas as the authors' own code has them (for [Shariff18] the Julia modules DifferentialPrivacy and
LinearBandits, for [Zheng20] the repository LDPbandit2020). Letters are the papers'. Rewards are centred here: |y| <= 1/2, and the weights
are at most 1/2 long, as rewards of probability 1/2 + <x, theta> need for contexts of all directions.
"""

import math
from dataclasses import dataclass

from confide.errors import InvalidParameter
from confide.privacy.loss import NO_PRIVACY, GaussianDP, Loss
from confide.privacy.request import LocalDP, NoPrivacy, Relation, Request
from confide.problems.bandit import CENTRE
from confide.statistics.bounds import RegressionRows

LENGTH = 0.5  # S, of the weights
DEVIATION = 0.5  # of rewards


@dataclass(frozen=True, slots=True)
class PrintedBandit:
    """What is planned with: V + `shift` I is solved with, and the width is `width(log det V, users)`."""

    bound: RegressionRows
    # of each noise, in the coordinates of the bound: on one node of the tree, or in one message
    std: float
    levels: int  # m: of the tree; 0 for messages
    failure: float  # alpha
    users: int  # n

    @property
    def local(self) -> bool:
        return self.levels == 0

    def upsilon(self, served: int) -> float:
        """A bound on the norm of the noise after so many users: its growth under local privacy is the messages'."""
        d, log = self.bound.dimension, math.log(2 * self.users / self.failure)
        if self.local:
            return self.std * math.sqrt(served) * (4 * math.sqrt(d) + 2 * log)
        return self.std * math.sqrt(self.levels) * (4 * math.sqrt(d) + 2 * log)

    def shift(self, served: int) -> float:
        """2 Upsilon; without noise 1."""
        return 2 * self.upsilon(served) if self.std else 1.0

    def beta(self, log_determinant: float, served: int) -> float:
        """[Shariff18]: sigma sqrt(2 log(2 / alpha) + log det V - d log rho_min) + S sqrt(rho_max) + gamma, with rho_min = Upsilon,
        rho_max = 3 Upsilon. [Zheng20]: 2 sigma sqrt(d log n) + (sqrt(3 Upsilon) + sigma sqrt(d t / Upsilon)) d log n."""
        d, n, alpha, upsilon = self.bound.dimension, self.users, self.failure, self.upsilon(served)
        if self.local:
            log = math.log(n)
            rest = (
                (math.sqrt(3 * upsilon) + self.std * math.sqrt(d * served / upsilon)) * d * log
                if upsilon
                else 0.0
            )
            return 2 * self.std * math.sqrt(d * log) + rest
        low, high, gamma = (upsilon, 3 * upsilon, 0.0) if self.std else (1.0, 1.0, 0.0)
        if self.std:
            sigma = self.std / math.sqrt(2)  # of an entry off the diagonal
            gamma = (
                sigma
                * math.sqrt(self.levels / upsilon)
                * (math.sqrt(d) + math.sqrt(2 * math.log(2 * n / alpha)))
            )
        sampling = DEVIATION * math.sqrt(
            max(2 * math.log(2 / alpha) + log_determinant - d * math.log(low), 0.0)
        )
        return sampling + LENGTH * math.sqrt(high) + gamma

    def loss(self, privacy: Request, column_norm: float) -> Loss:
        """Of a user who enters the counter with this norm; a message has norm 1."""
        if self.std == 0:
            return NO_PRIVACY
        return GaussianDP(
            self.bound.sensitivity(Relation(privacy.relation)) * column_norm / self.std
        )


def printed_bandit(
    privacy: Request, *, dimension: int, users: int, levels: int, failure: float
) -> PrintedBandit:
    """[Shariff18, Sec. 4.2]: noise Z = (Z' + Z'^T) / sqrt(2) on nodes of a tree over (x; y)(x; y)^T, Z' with entries N(0, sigma^2),
    sigma^2 = 16 m L~^4 ln(4/delta)^2 / epsilon^2, L~^2 = 1 + Y^2. In the coordinates of `svec` all of Z has the deviation sqrt(2) sigma,
    if x y is multiplied by kappa = sqrt(2).

    [Zheng20, Alg. 4]: sigma = 4 sqrt(2 ln(1.25/delta)) / epsilon on every entry of x x^T and of x y, on the device (their code has lost the
    factor sqrt(2)). Here in the coordinates of `svec`, kappa = 1.
    """
    if isinstance(privacy, NoPrivacy):
        return PrintedBandit(
            RegressionRows(1, dimension, 1.0, CENTRE, math.sqrt(2)), 0.0, 1, failure, users
        )
    if privacy.delta == 0:
        raise InvalidParameter(
            'there are no printed constants for delta = 0: use calibration="tight", or delta > 0'
        )
    if isinstance(privacy, LocalDP):
        sigma = 4 * math.sqrt(2 * math.log(1.25 / privacy.delta)) / privacy.epsilon
        return PrintedBandit(
            RegressionRows(1, dimension, 1.0, CENTRE, 1.0), sigma, 0, failure, users
        )
    sigma = 4 * math.sqrt(levels) * (1 + CENTRE**2) * math.log(4 / privacy.delta) / privacy.epsilon
    bound = RegressionRows(1, dimension, 1.0, CENTRE, math.sqrt(2))
    return PrintedBandit(bound, math.sqrt(2) * sigma, levels, failure, users)
