"""DP-LSW: least squares with public weights on average first-visit returns [Balle16, Section 3.1].

What is proved here is that `smooth_sensitivity` bounds how far one user can move the fit. A smaller
bound needs a proof.
"""

from dataclasses import dataclass
from typing import Annotated

import numpy as np

from confide import arguments
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.options import CALIBRATION, FEATURES, WEIGHTS
from confide.evaluation.parameters import visits_and_returns
from confide.evaluation.smooth_release import (
    LinearMonteCarlo,
    SmoothEstimator,
    check_calibration,
    check_no_privacy,
    feature_matrix,
    fitted_states,
    public_weights,
    release_exactly,
)
from confide.identity import Identity
from confide.privacy.bounded import Array
from confide.privacy.request import NoPrivacy
from confide.release.sums import LogSource, Progress


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class _WeightedFit(LinearMonteCarlo):
    """theta = argmin sum_s w_s (F_s - phi_s theta)^2, F_s the average first-visit return.

    [Balle16, (7)-(9)]. `weights` w [s] are public (1, if None), and so are `features` Phi [s, d]
    (the identity, if None). A state of weight 0 is left out of the fit and gets no value. A state
    that nobody visits has F_s = 0.
    """

    states: int
    discount: float = 1.0
    return_bound: float
    features: Annotated[Array | None, FEATURES] = None
    weights: Annotated[Array | None, WEIGHTS] = None

    def __post_init__(self) -> None:
        self._keep_shared()
        public_weights(self.weights, self.states)

    def solve(self, counts: Array, returns: Array) -> Array:
        counts, returns = visits_and_returns(self.states, counts, returns)
        average = np.divide(returns, counts, out=np.zeros_like(returns), where=counts > 0)
        fitted = fitted_states(self)
        if self.features is None:
            return average[fitted]
        root = np.sqrt(public_weights(self.weights, self.states)[fitted])
        rows = root[:, None] * feature_matrix(self)[fitted]
        theta: Array = np.linalg.lstsq(rows, root * average[fitted], rcond=None)[0]
        return theta

    def smooth_sensitivity(
        self,
        counts: Array,
        users: int,  # noqa: ARG002
        beta: float,
        *,
        printed: bool,  # noqa: ARG002
    ) -> float:
        """F_max ||(Gamma^1/2 Phi)^+|| sqrt(psi) [Balle16, Alg. 1], Gamma = diag(w).

        psi = max_k e^(-k beta) sum_s w_s/max(n_s - k, 1)^2.

        Local sensitivity [Balle16, Cor. 3]: a neighbour moves F_s by F_max/max(n_s, 1) at most.
        Between two of the points n_s - 1 each term is log-convex in k, so their sum is, and the
        maximum is at 0 or at one of these points. No scan over k is needed.
        """
        counts, _ = visits_and_returns(self.states, counts, counts)
        arguments.real("beta", beta, at_least=0)
        fitted = fitted_states(self)
        w = public_weights(self.weights, self.states)[fitted]
        counts = counts[fitted]
        k = np.unique(np.append(np.maximum(counts - 1, 0.0), 0.0))
        terms = w / np.square(np.maximum(counts - k[:, None], 1.0))
        psi = float((np.exp(-k * beta) * terms.sum(axis=1)).max())
        return self._factor() * float(np.sqrt(psi))

    def least_sensitivity(self, users: int, *, printed: bool) -> float:  # noqa: ARG002
        """psi >= sum_s w_s/n_s^2 at k = 0, and no state has more visits than there are users."""
        arguments.whole("users", users, at_least=0)
        w = public_weights(self.weights, self.states)
        return self._factor() * float(np.sqrt(w.sum())) / max(users, 1)

    def _factor(self) -> float:
        """F_max ||(Gamma^1/2 Phi)^+||, Gamma = diag(w)."""
        fitted = fitted_states(self)
        root = np.sqrt(public_weights(self.weights, self.states)[fitted])
        if self.features is None:
            singular_values = root
        else:
            rows = root[:, None] * feature_matrix(self)[fitted]
            singular_values = np.linalg.svd(rows, compute_uv=False)
        return self.return_bound / float(singular_values.min())


class LSW(_WeightedFit):
    """The exact fit: NOT PRIVATE, and its guarantee says so. `DPLSW` is the private one."""

    __slots__ = ()

    def identity(self) -> Identity:
        return Identity(
            "lsw",
            1,
            states=self.states,
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
class DPLSW(_WeightedFit, SmoothEstimator):
    """LSW plus Gaussian noise on smooth sensitivity.

    Guarantee: (epsilon, delta)-DP for replacing one user, of whom the first trajectory counts; also
    in floating point, with secure noise. Returns are clipped to [0, return_bound]. The size of the
    noise depends on the data and stays secret: `noise_std` is None, and there are no intervals.

    Reference: [Balle16, Alg. 1, Thm. 6].

    Departures: `calibration="tight"` takes alpha and beta from the exact divergence
    (`mechanisms/smooth.py`). "paper" keeps the printed ones, and refuses them where they are false
    (a large epsilon). "supplement" has those that the supplement proves, with a larger alpha, for
    epsilon up to 5. psi is exact without the paper's scan over k. `return_bound` is the paper's
    F_max. Returns above it are clipped; the paper assumes that there are none. On a table the
    paper's pseudo-inverse gives a state of weight 0 the value 0; here it gets none.
    """

    calibration: Annotated[str, CALIBRATION] = "tight"

    def __post_init__(self) -> None:
        _WeightedFit.__post_init__(self)
        check_calibration(self.calibration)

    def identity(self) -> Identity:
        return Identity(
            "dp-lsw",
            1,
            states=self.states,
            discount=self.discount,
            return_bound=self.return_bound,
            features=self.features,
            weights=self.weights,
            calibration=self.calibration,
        )
