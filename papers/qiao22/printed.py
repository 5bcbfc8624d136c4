"""The constants of DP-APVI [QiaoWang22], its noise, and when its penalty lets learning start.

They are equations (2), (3) and (5), and Algorithm 1, of the main text (arXiv 2206.00810). We did
not read the appendix, so what its proofs need is not checked here. There are H steps, S states and
A actions, and rewards are in [0, 1]. n is a count of visits of (h, s, a).

Noise N(0, 2 H / rho) is added to all N(h, s, a) and N(h, s, a, s'). A replaced user leaves up to H
cells of each kind and enters up to H others. So the squared sensitivity is 4 H, and the release is
exactly rho-zCDP and sqrt(2 rho)-GDP. The conversion rho = (sqrt(L + epsilon) - sqrt(L))^2 with
L = log(1/delta) is loose, so the true epsilon at delta is smaller than the nominal one.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.arguments import choice, real, whole
from confide.privacy.accounting import gaussian_epsilon, gaussian_mu

Array = npt.NDArray[np.float64]
# C_1 and C_2 of the penalty, as the paper has them.
_FIRST_CONSTANT = math.sqrt(2)
_SECOND_CONSTANT = 16.0
# With so many users learning counts as not starting at all. The number is a matter of taste.
_MOST_USERS = 10**30


@dataclass(frozen=True, slots=True)
class APVISetting:
    """Sizes of a tabular MDP, a request, and the probability with which the theorem may fail.

    The calibration "paper" has the paper's noise. The calibration "tight" has the least Gaussian
    noise for the request, and everything else as in the paper.
    """

    states: int
    actions: int
    horizon: int
    epsilon: float = 1.0
    delta: float = 1e-6
    failure: float = 0.1
    calibration: str = "paper"

    def __post_init__(self) -> None:
        for name in ("states", "actions", "horizon"):
            whole(name, getattr(self, name), at_least=1)
        real("epsilon", self.epsilon, above=0)
        real("delta", self.delta, above=0, below=1)
        real("failure", self.failure, above=0, below=1)
        choice("calibration", self.calibration, ("paper", "tight"))

    @property
    def rho(self) -> float:
        """The rho of zero-concentrated differential privacy."""
        if self.calibration == "tight":
            return gaussian_mu(self.epsilon, self.delta) ** 2 / 2
        logarithm = math.log(1 / self.delta)
        return (math.sqrt(logarithm + self.epsilon) - math.sqrt(logarithm)) ** 2

    @property
    def noise_std(self) -> float:
        """The standard deviation of the noise on every count."""
        return math.sqrt(2 * self.horizon / self.rho)

    @property
    def true_epsilon(self) -> float:
        """The epsilon of the noise at delta, under "replace"."""
        return gaussian_epsilon(math.sqrt(2 * self.rho), self.delta)

    @property
    def threshold(self) -> float:
        """E, which bounds the errors of all counts with probability 1 - failure.

        Rows with fewer visits are not used.
        """
        counts = 4 * self.horizon * self.states**2 * self.actions
        return 4 * math.sqrt(self.horizon * math.log(counts / self.failure) / self.rho)

    @property
    def logarithm(self) -> float:
        """iota."""
        return math.log(self.horizon * self.states * self.actions / self.failure)

    def penalty(self, visits: float, variance: float = 0.0) -> float:
        """Gamma of a row with so many noisy visits and this variance of the next value.

        It is H if there are too few visits.
        """
        real("visits", visits)
        real("variance", variance, at_least=0)
        return float(self.penalties(np.array(visits), np.array(variance), self.threshold))

    def penalties(self, visits: Array, variances: Array, threshold: float) -> Array:
        """Gamma of many rows.

        With threshold 0, for exact counts, it is that of APVI without its term of lower order. In
        the paper rows with too few visits have C H with C > 1. H has the same effect, because
        values below zero become zero.
        """
        has_visits = visits > threshold
        n = np.where(has_visits, visits, threshold + 1.0)
        sampling = _FIRST_CONSTANT * np.sqrt(variances * self.logarithm / (n - threshold))
        noise = _SECOND_CONSTANT * self.states * self.horizon * threshold * self.logarithm / n
        return np.where(has_visits, sampling + noise, float(self.horizon))

    def users_to_start(self, share: float | None = None) -> int:
        """How many users it takes until the penalty is below H in a row.

        `share` is the share of users who visit the row at its step, by default 1 / (S A). With
        fewer users every action is worth nothing, and nothing is learned. How many more are needed
        depends on the MDP.
        """
        share = (
            1 / (self.states * self.actions)
            if share is None
            else real("share", share, above=0, at_most=1)
        )
        needed = _SECOND_CONSTANT * self.states * self.threshold * self.logarithm
        visits = max(needed, self.threshold)
        return min(math.floor(visits / share) + 1, _MOST_USERS)
