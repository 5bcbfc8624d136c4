"""The constants of DP-APVI [QiaoWang22], the noise that it prints, and when its penalty lets learning start.

Where they are from: equations (2), (3) and (5), and Algorithm 1, of the main text (arXiv 2206.00810), read. The appendix was not: what its
proofs need is not checked here. H steps, S states, A actions; rewards in [0, 1]; n is a count of visits of (h, s, a).

True loss. Noise N(0, 2 H / rho) is added to all N(h, s, a) and N(h, s, a, s'). A replaced user leaves up to H cells of each kind and
enters up to H others: the squared sensitivity is 4 H, so the release is rho-zCDP exactly, and sqrt(2 rho)-GDP. The conversion
rho = (sqrt(L + epsilon) - sqrt(L))^2, L = log(1/delta), is loose: the true epsilon at delta is smaller than the nominal one.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.arguments import choice, real, whole
from confide.privacy.accounting import gaussian_epsilon, gaussian_mu

Array = npt.NDArray[np.float64]
_FIRST, _SECOND = math.sqrt(2), 16.0  # C_1 and C_2 of the penalty
_MOST = 10**30  # users: learning that does not start before does not start


@dataclass(frozen=True, slots=True)
class APVISetting:
    """Sizes of a table with steps, a nominal promise, and the probability with which the theorem may fail.

    `calibration`: "paper" has the noise as printed; "tight" the least Gaussian noise of the promise, and everything else as printed.
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
        real("epsilon", self.epsilon, above=0), real("delta", self.delta, above=0, below=1)
        real("failure", self.failure, above=0, below=1)
        choice("calibration", self.calibration, ("paper", "tight"))

    @property
    def rho(self) -> float:
        """Of zero-concentrated privacy."""
        if self.calibration == "tight":
            return gaussian_mu(self.epsilon, self.delta) ** 2 / 2
        logarithm = math.log(1 / self.delta)
        return (math.sqrt(logarithm + self.epsilon) - math.sqrt(logarithm)) ** 2

    @property
    def noise_std(self) -> float:
        """Of every count."""
        return math.sqrt(2 * self.horizon / self.rho)

    @property
    def true_epsilon(self) -> float:
        """What the noise gives at delta, under "replace"."""
        return gaussian_epsilon(math.sqrt(2 * self.rho), self.delta)

    @property
    def threshold(self) -> float:
        """E, which bounds the errors of all counts with probability 1 - failure; rows with fewer visits are not used."""
        counts = 4 * self.horizon * self.states**2 * self.actions
        return 4 * math.sqrt(self.horizon * math.log(counts / self.failure) / self.rho)

    @property
    def logarithm(self) -> float:
        """iota."""
        return math.log(self.horizon * self.states * self.actions / self.failure)

    def penalty(self, visits: float, variance: float = 0.0) -> float:
        """Gamma of a row with so many noisy visits, in which the next value has this variance; H if there are too few visits."""
        real("visits", visits), real("variance", variance, at_least=0)
        return float(self.penalties(np.array(visits), np.array(variance), self.threshold))

    def penalties(self, visits: Array, variances: Array, threshold: float) -> Array:
        """Gamma of many rows; with threshold 0, for exact counts, that of APVI without its term of lower order.

        Rows with too few visits have C H, C > 1, in print: H does the same, since values below zero are zero.
        """
        known = visits > threshold
        n = np.where(known, visits, threshold + 1.0)
        sampling = _FIRST * np.sqrt(variances * self.logarithm / (n - threshold))
        noise = _SECOND * self.states * self.horizon * threshold * self.logarithm / n
        return np.where(known, sampling + noise, float(self.horizon))

    def users_to_start(self, share: float | None = None) -> int:
        """How many users the penalty needs to be below H in a row that this share of them visits at its step; 1 / (S A) if None.

        Below that every action is worth nothing, and nothing is learned; how many more are needed depends on the table.
        """
        share = (
            1 / (self.states * self.actions)
            if share is None
            else real("share", share, above=0, at_most=1)
        )
        visits = max(_SECOND * self.states * self.threshold * self.logarithm, self.threshold)
        return min(math.floor(visits / share) + 1, _MOST)
