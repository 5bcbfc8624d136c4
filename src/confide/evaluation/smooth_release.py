"""First-visit Monte Carlo with noise that follows the data: what DP-LSW and DP-LSL share [Balle16].

The size of the noise depends on private data, so neither it nor an error bar may leave this file:
only noisy parameters and values do. The alpha, beta and S(x) of [Balle16, Lemma 1] are required for
privacy.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from confide.arguments import choice
from confide.errors import InvalidParameter
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.estimator import Estimator
from confide.evaluation.parameters import keep_returns, numbers, rule_for_unknown_states, whole
from confide.evaluation.visit_contributions import FirstVisitReturns, FirstVisits
from confide.identity import Identity
from confide.mechanisms.smooth import SmoothGaussian
from confide.privacy.bounded import Array, Bounded
from confide.privacy.certificate import Mechanism, certify
from confide.privacy.guarantee import Guarantee, no_guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import CentralDP, NoPrivacy, Request, Trust
from confide.privatizers import Share
from confide.release.parameters import described, first_of_user, keep
from confide.release.question import check_call
from confide.release.sums import LogSource, LogSums, Progress, delta_warning, log_assumptions

# Required for privacy: S(x) is multiplied by this, because the computed fit may be off by 5e-7
# S(x). The average of a table is off by 4e-16 users S(x) at most. A factor leaves beta as it is.
_ROUNDING_FACTOR = 1 + 1e-6


class LinearMonteCarlo(ABC):
    """A least-squares fit to average first-visit returns.

    It comes with a smooth bound on how far one user can move it.
    """

    __slots__ = ()
    states: int
    discount: float
    return_bound: float
    features: Array | None
    weights: Array | None

    @abstractmethod
    def identity(self) -> Identity:
        """What is fitted, by its public parameters."""

    def __repr__(self) -> str:
        return described(self)

    def _keep_shared(self) -> None:
        """Check the public parameters that all of them have."""
        keep_returns(self)
        keep(self, states=whole("states", self.states))
        for name in ("features", "weights"):
            if getattr(self, name) is not None:
                keep(self, **{name: numbers(name, getattr(self, name))})
        if self.features is not None:
            feature_matrix(self)

    @abstractmethod
    def solve(self, counts: Array, returns: Array) -> Array:
        """Visits n_s and sums of returns F [s], PRIVATE -> the parameters [d], PRIVATE."""

    @abstractmethod
    def smooth_sensitivity(self, counts: Array, users: int, beta: float, *, printed: bool) -> float:
        """S(x) >= local sensitivity with |ln S^2 - ln S'^2| <= beta between neighbours. PRIVATE."""

    @abstractmethod
    def least_sensitivity(self, users: int, *, printed: bool) -> float:
        """The smallest S(x) that any log of so many users has.

        Public: releases are rounded to a grid that follows from it.
        """


def feature_matrix(model: LinearMonteCarlo) -> Array:
    """Phi [s, d], where there are features."""
    table = np.asarray(model.features)
    if table.ndim != 2 or len(table) != model.states:
        raise InvalidParameter.of(
            "features",
            f"must have the shape ({model.states}, d), a row per state, got shape {table.shape}",
        )
    if np.linalg.matrix_rank(table[fitted_states(model)]) < table.shape[1]:
        raise InvalidParameter.of(
            "features",
            "must have full column rank over the states whose weight is not 0: "
            "leave out the ones that depend on others",
        )
    return table


def values_of(model: LinearMonteCarlo, theta: Array) -> Array:
    """Phi theta [s]; NaN for states that the fit leaves out."""
    fitted = fitted_states(model)
    if fitted.all():
        return theta if model.features is None else feature_matrix(model) @ theta
    values = np.full(model.states, np.nan)
    values[fitted] = theta if model.features is None else feature_matrix(model)[fitted] @ theta
    return values


def public_weights(given: Array | None, states: int) -> Array:
    """The weights [s], of which some may be 0 [Balle16, Section 2.2 for rho; Cor. 11 for w]."""
    weights = np.ones(states) if given is None else given
    if weights.shape != (states,) or not (weights >= 0).all() or not weights.any():
        raise InvalidParameter.of(
            "weights",
            f"must be {states} numbers of at least 0, one per state and not all 0, "
            f"got shape {weights.shape}",
        )
    return weights


def fitted_states(model: LinearMonteCarlo) -> npt.NDArray[np.bool_]:
    """The states [s] whose weight is not 0. The others are left out of the fit and get no value."""
    fitted: npt.NDArray[np.bool_] = public_weights(model.weights, model.states) > 0
    return fitted


def first_visit_returns(model: LinearMonteCarlo) -> FirstVisitReturns:
    """What is added up over users: one trajectory of each, its returns clipped to [0, F_max]."""
    R = model.return_bound / 2
    return FirstVisitReturns(FirstVisits(model.states, model.states), model.discount, R, R)


def visits_and_sums(model: LinearMonteCarlo, total: Bounded) -> tuple[Array, Array]:
    """(n_s, sum of F) [s]. PRIVATE.

    One user changes each n_s by 1 at most: the bounds of [Balle16] are about that.
    """
    counts, scaled, _ = first_visit_returns(model).bound.unpack(total.values)
    return counts, model.return_bound / 2 * (scaled + counts)


def release_exactly(
    model: LinearMonteCarlo, logs: LogSource, progress: Progress | None = None
) -> ValueEstimate:
    """The non-private fit: its guarantee states that there is none."""
    check_call(logs, progress=progress)
    return exact_estimate(model, logs, logs.total(first_visit_returns(model), progress=progress))


def exact_estimate(model: LinearMonteCarlo, logs: LogSource, total: Bounded) -> ValueEstimate:
    """The fit to exact sums. NOT PRIVATE, and the guarantee and the certificate say so."""
    counts, returns = visits_and_sums(model, total)
    guarantee = no_guarantee(max(total.users, 1))
    plain = Mechanism("exact", "none", 2, 1.0, 0.0, {"leaves": 1})
    certificate = certify(
        guarantee, [plain], subject=model.identity().kind, assumptions=list(logs.assumptions)
    )
    theta = model.solve(counts, returns)
    return ValueEstimate(
        values_of(model, theta),
        np.zeros(model.states),
        guarantee,
        certificate,
        0.0,
        model.return_bound,
        None if model.features is None else theta,
    )


class SmoothEstimator(Estimator, LinearMonteCarlo):
    """The fit plus N(0, (alpha S(x))^2 I) [Balle16, Lemma 1].

    alpha S(x) depends on the data, so neither it nor an error bar leaves this class.
    """

    __slots__ = ()
    lattice = False
    gaussian = True
    calibration: str

    def counted(self, trajectories: int, steps: int) -> str:  # noqa: ARG002
        return counts_one_trajectory(self.states, self.return_bound, steps)

    def loss(self, privacy: Request) -> Loss:
        if isinstance(privacy, CentralDP):
            return self._mechanism(privacy).loss
        return super().loss(privacy)

    def _mechanism(self, privacy: CentralDP) -> SmoothGaussian:
        if self.features is None:
            dimension = int(fitted_states(self).sum())
        else:
            dimension = feature_matrix(self).shape[1]
        return SmoothGaussian(privacy.epsilon, privacy.delta, dimension, self.calibration)

    def queries(self, logs: LogSource, privacy: Request) -> Sequence[Share]:  # noqa: ARG002
        """No queries, because there are none whose noise has a size that is known in advance."""
        return ()

    def answer(self, sums: LogSums) -> ValueEstimate:
        privacy = sums.privacy
        total = sums.total(first_visit_returns(self))
        if not isinstance(privacy, CentralDP):
            return exact_estimate(self, sums.logs, total)
        mechanism = self._mechanism(privacy)
        counts, returns = visits_and_sums(self, total)
        users = total.users
        delta_warning(users, privacy.delta)
        printed = self.calibration != "tight"
        sensitivity = self.smooth_sensitivity(counts, users, mechanism.beta, printed=printed)
        theta = mechanism.release(
            self.solve(counts, returns),
            _ROUNDING_FACTOR * sensitivity,
            sums.source,
            least=self.least_sensitivity(users, printed=printed),
        )
        guarantee = Guarantee(
            mechanism.loss, privacy, Trust.CENTRAL, max(users, 1), sums.source.name
        )
        facts = {
            name: getattr(mechanism, name)
            for name in ("alpha", "beta", "dimension", "epsilon", "delta")
        }
        certificate = certify(
            guarantee,
            [Mechanism("smooth", "gaussian", None, None, None, facts)],
            subject=f"{self.identity().kind}, {self.calibration} calibration",
            assumptions=log_assumptions(sums.logs, privacy),
        )
        return ValueEstimate(
            values_of(self, theta),
            None,
            guarantee,
            certificate,
            0.0,
            self.return_bound,
            None if self.features is None else theta,
        )


def log_concave_maximum(value: Callable[[int], float], stop: int) -> float:
    """The largest value at a whole number in [0, stop] of a function whose logarithm is concave.

    By ternary search. Required for privacy: never less than the largest value.
    """
    low = 0
    high = stop
    while high - low > 2:
        third = (high - low) // 3
        left = low + third
        right = high - third
        if value(left) < value(right):
            low = left + 1
        else:
            high = right - 1 if value(left) > value(right) else right
    return max(value(k) for k in range(low, high + 1))


def counts_one_trajectory(states: int, return_bound: float, steps: int) -> str:
    """What counts, in words, whatever cap on trajectories the log has."""
    rules = [
        f"returns are clipped to [0, {return_bound:g}]",
        first_of_user(1, steps),
        "all different states of it count",
        rule_for_unknown_states(states),
    ]
    return "; ".join(rules)


def check_no_privacy(privacy: Request | None) -> None:
    if not isinstance(privacy, NoPrivacy | None):
        raise InvalidParameter(
            "this estimator is not private: it supports NoPrivacy only, "
            f"got {type(privacy).__name__}; use its private version"
        )


def check_calibration(calibration: str) -> None:
    choice("calibration", calibration, ("tight", "paper", "supplement"))
