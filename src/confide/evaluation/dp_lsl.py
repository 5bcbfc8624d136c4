"""DP-LSL: ridge regression on first-visit returns [Balle16, Section 3.2].

What is proved here is that `smooth_sensitivity` bounds how far one user can move the fit. A smaller
bound needs a proof.
"""

import math
from dataclasses import dataclass
from typing import Annotated

import numpy as np

from confide import arguments
from confide.errors import InvalidParameter
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.options import CALIBRATION, FEATURES, WEIGHTS, Option
from confide.evaluation.parameters import positive, visits_and_returns
from confide.evaluation.smooth_release import (
    LinearMonteCarlo,
    SmoothEstimator,
    check_calibration,
    check_no_privacy,
    feature_matrix,
    fitted_states,
    log_concave_maximum,
    public_weights,
    release_exactly,
)
from confide.identity import Identity
from confide.privacy.bounded import Array
from confide.privacy.request import NoPrivacy
from confide.release.parameters import keep
from confide.release.sums import LogSource, Progress


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class _RidgeFit(LinearMonteCarlo):
    """theta = argmin sum over visits rho_s (F - phi_s theta)^2 + (lambda/2) ||theta||^2.

    [Balle16, (11)-(12), times m]. `weights` rho [s] are public and in [0, 1] (1, if None). A state
    of weight 0 is left out of the fit and gets no value. `ridge` lambda is public, and so are
    `features` Phi [s, d] (the identity, if None).
    """

    states: int
    ridge: Annotated[float, Option("ridge penalty")]
    discount: float = 1.0
    return_bound: float
    features: Annotated[Array | None, FEATURES] = None
    weights: Annotated[Array | None, WEIGHTS] = None

    def __post_init__(self) -> None:
        self._keep_shared()
        keep(self, ridge=positive("ridge", self.ridge))
        if (public_weights(self.weights, self.states) > 1).any():
            raise InvalidParameter.of("weights", "must be at most 1")

    @property
    def _norm(self) -> float:
        """||Phi|| over the states that are fitted."""
        if self.features is None:
            return 1.0
        return float(np.linalg.norm(feature_matrix(self)[fitted_states(self)], 2))

    def solve(self, counts: Array, returns: Array) -> Array:
        counts, returns = visits_and_returns(self.states, counts, returns)
        fitted = fitted_states(self)
        rho = public_weights(self.weights, self.states)[fitted]
        counts = counts[fitted]
        returns = returns[fitted]
        if self.features is None:
            averages: Array = rho * returns / (rho * counts + self.ridge / 2)
            return averages
        phi = feature_matrix(self)[fitted]
        d = phi.shape[1]
        # A least-squares problem has a solution whatever the counts are: no user may decide whether
        # there is an error.
        weight = np.sqrt(rho * counts)
        target = np.divide(rho * returns, weight, out=np.zeros_like(returns), where=weight > 0)
        rows = np.concatenate([weight[:, None] * phi, math.sqrt(self.ridge / 2) * np.eye(d)])
        targets = np.append(target, np.zeros(d))
        theta: Array = np.linalg.lstsq(rows, targets, rcond=0.0)[0]
        return theta

    def smooth_sensitivity(self, counts: Array, users: int, beta: float, *, printed: bool) -> float:
        """(2 F_max ||Phi||/lambda) sqrt(psi).

        psi = max_k e^(-k beta) (c sqrt(sum_s rho_s min(n_s + k, m)) + ||rho||_2)^2, where
        c = ||Phi|| ||rho||_inf/sqrt(2 lambda).

        Local sensitivity: with A = Phi^T D Phi + lambda/2, D = diag(rho n), b = Phi^T rho (sum of
        F), A theta = b, a neighbour has A'(theta' - theta) = (b' - b) - (A' - A) theta, where
        ||A'^-1|| <= 2/lambda, ||b' - b|| <= ||Phi|| ||rho||_2 F_max (as F is in [0, F_max]), ||A' -
        A|| <= ||Phi||^2 ||rho||_inf, and ||theta|| <= F_max sqrt(sum rho n/(2 lambda)), because the
        norm of (M^T M + l)^-1 M^T is at most 1/(2 sqrt(l)).

        This holds for every lambda > 0. [Balle16, Cor. 8] divides by lambda - ||Phi||^2 ||rho||_inf
        instead (`printed`). At distance k the counts grow by k at most, up to m: min, as in
        [Balle16, (13)], where its Lemma 9 and the display before it print max. sqrt(sum ...) is
        concave in k, so the function is log-concave: ternary search.
        """
        counts, _ = visits_and_returns(self.states, counts, counts)
        arguments.whole("users", users, at_least=0)
        arguments.real("beta", beta, at_least=0)
        arguments.flag("printed", printed)
        rho = public_weights(self.weights, self.states)
        c = self._norm * float(rho.max()) / math.sqrt(2 * self.ridge)

        def root_at_distance(k: int) -> float:
            largest_counts = np.minimum(counts + k, max(users, 1))
            root = c * math.sqrt(float(rho @ largest_counts)) + float(np.linalg.norm(rho))
            return math.exp(-k * beta / 2) * root

        return self._factor(printed) * log_concave_maximum(root_at_distance, max(users, 1))

    def least_sensitivity(self, users: int, *, printed: bool) -> float:  # noqa: ARG002
        """sqrt(psi) >= ||rho||_2, at k = 0."""
        arguments.flag("printed", printed)
        rho = public_weights(self.weights, self.states)
        return self._factor(printed) * float(np.linalg.norm(rho))

    def _factor(self, printed: bool) -> float:
        """2 F_max ||Phi||/lambda; the printed one divides by lambda - ||Phi||^2 ||rho||_inf."""
        largest = float(public_weights(self.weights, self.states).max())
        divisor = self.ridge - self._norm**2 * largest if printed else self.ridge
        if divisor <= 0:
            raise InvalidParameter.of(
                "ridge",
                f"must be above {self._norm**2 * largest:g} for the printed sensitivity, "
                f"got {self.ridge:g}",
            )
        return 2 * self.return_bound * self._norm / divisor


class LSL(_RidgeFit):
    """The exact fit: NOT PRIVATE, and its guarantee says so. `DPLSL` is the private one."""

    __slots__ = ()

    def identity(self) -> Identity:
        return Identity(
            "lsl",
            1,
            states=self.states,
            ridge=self.ridge,
            discount=self.discount,
            return_bound=self.return_bound,
            features=self.features,
            weights=self.weights,
        )

    def release(
        self, logs: LogSource, *, privacy: NoPrivacy | None = None, progress: Progress | None = None
    ) -> ValueEstimate:
        check_no_privacy(privacy)
        return release_exactly(self, logs, progress)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class DPLSL(_RidgeFit, SmoothEstimator):
    """LSL plus Gaussian noise on smooth sensitivity.

    Guarantee: (epsilon, delta)-DP for replacing one user, of whom the first trajectory counts; also
    in floating point, with secure noise. Returns are clipped to [0, return_bound]. The size of the
    noise depends on the data and stays secret: `noise_std` is None, and there are no intervals.

    Reference: [Balle16, Alg. 2, Thm. 10].

    Departures: `calibration="tight"` takes alpha and beta from the exact divergence and drops the
    condition lambda > ||Phi||^2 ||rho||_inf, which is not needed (proof at `smooth_sensitivity`).
    "paper" keeps both, and refuses constants that are false (a large epsilon). "supplement" keeps
    the condition, and has the constants that the supplement proves, with a larger alpha, for
    epsilon up to 5. `return_bound` is the paper's F_max. Returns above it are clipped; the paper
    assumes that there are none.
    """

    calibration: Annotated[str, CALIBRATION] = "tight"

    def __post_init__(self) -> None:
        _RidgeFit.__post_init__(self)
        check_calibration(self.calibration)
        least = self._norm**2 * float(public_weights(self.weights, self.states).max())
        if self.calibration != "tight" and self.ridge <= least:
            raise InvalidParameter(
                f"[Balle16, Alg. 2] needs ridge > ||Phi||^2 ||rho||_inf = {least:g}, "
                f"got ridge={self.ridge:g}"
            )

    def identity(self) -> Identity:
        return Identity(
            "dp-lsl",
            1,
            states=self.states,
            ridge=self.ridge,
            discount=self.discount,
            return_bound=self.return_bound,
            features=self.features,
            weights=self.weights,
            calibration=self.calibration,
        )
