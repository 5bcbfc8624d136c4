"""A confidence set for the dynamics of a linear system from released sums alone [Chowdhury21, Lemma
1]. All post-processing.

As printed, [Chowdhury21]'s beta_k reads the exact Z^T Z, which nobody released: a leak. Here every
number is a function of the release. The paper's own bound on ln det, in the proof of Thm. 1, reads
no data and would mend the leak as well.

The optimistic search of Private-OFU-RL [Chowdhury21, (9)] over linear systems, and a certificate of
how optimistic its result can be.

Theta = [A B]^T has the shape (n + d, n). Everything here is a function of public quantities: an
estimate and a precision that were released, and the costs, horizon and noise that everybody knows.
The paper leaves the search open. Its set S asks for controllable systems too. Such a set is not
closed, so that no minimum need exist. Controllability is not asked for here. J is not convex in
Theta and the search is local, with two starts; `lagrangian_bound` says from below what no search
could beat.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.control.gain_planning import warn_of_gain_bound
from confide.errors import InvalidParameter
from confide.planners import _optimistic_kernels as _search
from confide.planners import _riccati_kernels as _riccati
from confide.planners._regression_kernels import ellipsoid
from confide.planners.optimistic_policy import (
    MOST_STEPS,
    TOLERANCE,
    OptimisticPolicy,
    within_bound,
    writable,
)
from confide.planners.public_round import PublicRound
from confide.planners.regularity import Regularity
from confide.policy import LinearPolicy, Policy
from confide.privacy.bounded import Released

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceSet:
    """{Theta: ||V^(1/2) (Theta - theta)||_F <= beta}. Public."""

    theta: Array  # [p, n]
    # [p, p], positive definite.
    V: Array
    beta: float


def confidence_set(
    S: Array,
    C: Array,
    *,
    noise: float,
    weight: float,
    noise_radius: float,
    bound: float,
    failure: float,
    releases: int,
) -> ConfidenceSet:
    """From S~ = S + N and C~ = C + L: N GOE with N(0, noise^2) on its diagonal, L independent with
    noise / (sqrt(2) weight) per entry.

    It holds Theta at all releases with probability 1 - `failure` (half for the system's noise, half
    for N and L, over all releases), if
    ||Theta||_F <= bound, ||w|| <= C_w, and rows were weighted by c_h in [0, 1] that do not depend
    on the noise of their own step. With q the share of one release, ||N|| <= Lam = 2a sqrt(p) + 2a
    sqrt(ln(2/q)), a = noise/sqrt(2), and ||L||_F <= ell. V = S~ + eta I, eta = Lam + lambda, so V
    >= S + lambda I, and V^(1/2)(theta - Theta) = V^(-1/2) (sum c z w^T + L - (N + eta I) Theta). By
    the self-normalised bound with V >= S + lambda I the first part is at most C_w sqrt(2
    ln(4/failure) + n ln det(V / lambda)); the second ell / sqrt(v), v the least eigenvalue of V;
    the third bound ||V^(-1/2) (N + eta I)||, at most bound min((Lam + eta)/sqrt(v), sqrt(Lam +
    eta)), since 0 <= N + eta I <= V. That sums are rounded to a grid is left out: it is 2^-25 of
    the cap for each user and number.
    """
    p, n = C.shape
    a = noise / math.sqrt(2)
    q = failure / (4 * releases)
    ridge = 1.0
    Lam = 2 * a * math.sqrt(p) + 2 * a * math.sqrt(math.log(2 / q))
    ell = a / weight * (math.sqrt(n * p) + math.sqrt(2 * math.log(1 / q)))
    eta = Lam + ridge
    # With probability 1 - q nothing is raised, because S >= 0 and ||N|| <= Lam.
    theta, V, log_det, v = ellipsoid(S, C, eta, ridge)
    sampling = noise_radius * math.sqrt(2 * math.log(4 / failure) + n * log_det)
    drawn = bound * min((Lam + eta) / math.sqrt(v), math.sqrt(Lam + eta))
    return ConfidenceSet(theta, V, sampling + drawn + ell / math.sqrt(v))


def printed_set(
    S: Array,
    C: Array,
    *,
    lambda_min: float,
    lambda_max: float,
    nu: float,
    noise_radius: float,
    failure: float,
) -> ConfidenceSet:
    """[Chowdhury21, Lemma 1] around S~ + eta I, eta = (lambda_min + lambda_max) / 2, with its leak
    mended.

    The printed beta_k has ln det(I + Z^T Z / lambda_min), of the exact Z^T Z. While ||N|| <= Lambda
    = lambda_min the released V = Z^T Z + N + 2 Lambda I is at least Z^T Z + lambda_min I, so that
    ln det(V / lambda_min) is at least as large, and is public.
    """
    # Nothing is raised while ||N|| <= Lambda.
    theta, V, log_det, _ = ellipsoid(S, C, (lambda_min + lambda_max) / 2, lambda_min)
    beta = (
        noise_radius * math.sqrt(2 * math.log(2 / failure) + C.shape[1] * log_det)
        + math.sqrt(lambda_max)
        + nu
    )
    return ConfidenceSet(theta, V, beta)


def regularized_set(
    V: Array, U: Array, regularity: Regularity, *, noise_radius: float, failure: float
) -> ConfidenceSet:
    """[Chowdhury21, Lemma 1] for any regularizers, V = Z^T Z + H_k and U = Z^T X + L_k, with its
    leak mended as in `printed_set`.

    V >= Z^T Z + lambda_min I, so ln det(V / lambda_min) is at least ln det(I + Z^T Z / lambda_min).
    While Assumption 2 holds no eigenvalue is raised.
    """
    theta, V, log_det, _ = ellipsoid(V, U, 0.0, regularity.lambda_min)
    beta = (
        noise_radius * math.sqrt(2 * math.log(2 / failure) + U.shape[1] * log_det)
        + math.sqrt(regularity.lambda_max)
        + regularity.nu
    )
    return ConfidenceSet(theta, V, beta)


def response_weight(states: int, inputs: int, bound: float, longest: float) -> float:
    """s that splits one budget between S and C best: s^2 = (-B' + sqrt(B'^2 + 8 A' B' b)) / (4 A'),
    A' = (p + 1) bound^2, B' = n p.
    """
    p = states + inputs
    A = (p + 1) * bound**2
    B = states * p
    return math.sqrt((-B + math.sqrt(B**2 + 8 * A * B * longest)) / (4 * A))


_NO_START = np.empty((0, 0))


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticModel:
    """The cheapest system that was found in the confidence set. Public.

    `empty`: no system within `bound` is in the confidence set, as happens when the estimate is far
    out and the width is small; theta is then the estimate drawn into the ball, and its cost is not
    optimistic.
    """

    theta: Array
    cost: float
    # [h, d, n], the best for theta.
    gains: Array
    # Of both starts; 0 if a system with A = 0, the cheapest of all, is in the set.
    iterations: int
    empty: bool


@dataclass(frozen=True, slots=True)
class LagrangianBound:
    """No system of the confidence set costs less than `value`; the multiplier proves it."""

    value: float
    multiplier: float


def cost(
    theta: Array,
    Q: Array,
    R: Array,
    horizon: int,
    noise_radius: float,
    first: Array | None = None,
) -> float:
    """J(Theta) = E[x_1^T P_1 x_1] + sum_h tr(P_{h+1} W), W = C_w^2/(n+2) I the covariance in a
    ball.

    x_1 is `first`, or uniform on the unit sphere.
    """
    theta, model = _model(theta, Q, R, horizon, noise_radius, first)
    p, n = theta.shape
    return float(_riccati.backward(theta, model, _riccati.workspace(p, n, horizon))[0])


def cost_gradient(
    theta: Array,
    Q: Array,
    R: Array,
    horizon: int,
    noise_radius: float,
    first: Array | None = None,
) -> tuple[float, Array]:
    """J and dJ/dTheta = 2 sum_{h < H} [I; K_h] S_h A_h^T P_{h+1}, S_{h+1} = A_h S_h A_h^T + W, A_h
    = A + B K_h.

    S_1 is I/n if x_1 is uniform on the unit sphere, and x_1 x_1^T if it is `first`.

    Exact, by the envelope theorem: the gains are optimal, so to first order only the system moves.
    """
    theta, model = _model(theta, Q, R, horizon, noise_radius, first)
    (p, n) = theta.shape
    gradient = np.empty_like(theta)
    work = _riccati.workspace(p, n, horizon)
    J, earliest = _riccati.backward(theta, model, work)
    _riccati.forward(theta, model, earliest, work, gradient)
    return float(J), gradient


def optimistic(
    theta: Array,
    V: Array,
    beta: float,
    Q: Array,
    R: Array,
    horizon: int,
    noise_radius: float,
    *,
    bound: float = 1.0,
    start: Array | None = None,
    first: Array | None = None,
    tolerance: float = TOLERANCE,
    iterations: int = MOST_STEPS,
) -> OptimisticModel:
    """Minimise J over ||V^{1/2} (Theta - theta)||_F <= beta and ||Theta||_F <= bound.

    Spectral projected gradient from the estimate (or `start`, say the last result) and from the
    point with A = 0, each at most `iterations` steps, until a step promises less than `tolerance`
    of what was gained on the estimate's cost. If a system with A = 0 is in the set there is nothing
    to search: J(Theta) >= tr(Q)/n + (H-1) tr(Q W), which is what A = 0 costs.

    J is that of an episode which starts in `first`, or at random, uniformly on the unit sphere.
    """
    theta, model = _model(theta, Q, R, horizon, noise_radius, first)
    V = _region(theta, V, beta, bound)
    if start is None:
        start = _NO_START
    elif start.shape != theta.shape or not np.isfinite(start).all():
        raise InvalidParameter(
            f"start must be finite and have the shape {theta.shape} of the estimate, got "
            f"{start.shape}"
        )
    else:
        start = writable(start)
    theta_found, J, gains, steps, flag = _search.search(
        theta, V, float(beta), model, float(bound), start, tolerance, iterations
    )
    if flag == 2:
        raise InvalidParameter(
            "the estimate must be finite and V positive definite: add to the ridge"
        )
    return OptimisticModel(theta_found, J, gains, steps, flag == 1)


def plan_optimistically(
    plausible: ConfidenceSet,
    released: Released,
    costs: tuple[Array, Array, int, float],
    *,
    bound: float,
    gain_bound: float,
    warns: bool,
) -> PublicRound:
    """The best gains for the cheapest system, no longer than their bound.

    `costs` are Q, R, the horizon and the radius of the noise.
    """
    cheapest = optimistic(plausible.theta, plausible.V, plausible.beta, *costs, bound=bound)
    gains = within_bound(cheapest.gains, gain_bound)
    warn_of_gain_bound(warns and bool((gains != cheapest.gains).any()), gain_bound)
    return _round(LinearPolicy(gains), plausible, released)


def plan_for_starts(
    plausible: ConfidenceSet,
    released: Released,
    costs: tuple[Array, Array, int, float],
    *,
    bound: float,
    gain_bound: float,
) -> PublicRound:
    """The rule that gives every user the best gains for the system that is cheapest from where this
    user starts. Public.

    It is the confidence set and what everybody knows. The search is done for each user, and its
    result is nobody else's business: also whether the gains had to be shortened depends on the
    user's start, so there is no warning.
    """
    Q, R, horizon, noise_radius = costs
    rule = OptimisticPolicy(
        plausible.theta, plausible.V, plausible.beta, Q, R, horizon, noise_radius, bound, gain_bound
    )
    return _round(rule, plausible, released)


def _round(policy: Policy, plausible: ConfidenceSet, released: Released) -> PublicRound:
    signal = float(plausible.V.trace() / len(plausible.V)) if released.generation else None
    return PublicRound((policy,), {"seed": released.memory["seed"]}, signal)


def lagrangian_bound(
    theta: Array,
    V: Array,
    beta: float,
    Q: Array,
    R: Array,
    horizon: int,
    noise_radius: float,
    first: Array | None = None,
) -> LagrangianBound:
    """A lower bound on J over the whole ellipsoid ||V^{1/2} (Theta - theta)||_F <= beta, hence over
    its part in any ball as well.

    Let v = (Theta - theta)^T z be what a system of the set adds to the prediction theta^T z from z
    = (x, u). By Cauchy and Schwarz
    ||v||^2 <= ||V^{1/2} (Theta - theta)||^2 z^T V^-1 z <= beta^2 z^T V^-1 z at every z. So for
    every mu >= 0 each system and policy costs at least the same system and policy with mu (||v||^2
    - beta^2 z^T V^-1 z) <= 0 added to the cost of every step h < H, and at least the least of that
    over all causal u and v: an LQ problem with inputs (u, v) and the known system x' = theta^T z +
    v + w. With P = P_{h+1} its minimum over v, if P + mu I > 0, is z^T theta P~ theta^T z, P~ =
    (P^-1 + I/mu)^-1 = mu P (P + mu I)^-1. It leaves M = diag(Q, R) + theta P~ theta^T - mu beta^2
    V^-1, and if M_uu > 0 the minimum over u is the Schur complement P_h = M_xx - M_xu M_uu^-1 M_ux.
    The bound is E x_1^T P_1 x_1 + sum_h tr(P_{h+1} W), P_H = Q; P may become indefinite. A mu for
    which one of the two conditions fails proves nothing, every other proves its value. As a minimum
    of functions that are linear in mu it is concave, hence unimodal in log mu; mu = 0 gives E x_1^T
    Q x_1 + (H-1) tr(Q W). 1e-11 of it is taken off for rounding.

    For n = 1 it is tight in practice. For n > 1 the relaxation forgets that the error is one
    matrix, the same at every step and state, whose Frobenius norm is bounded: a gap of the first
    order in beta remains, however good the search.
    """
    theta, model = _model(theta, Q, R, horizon, noise_radius, first)
    V = _region(theta, V, beta, 1.0)
    n = theta.shape[1]
    if not (
        np.isfinite(theta).all() and np.isfinite(V).all() and float(np.linalg.eigvalsh(V)[0]) > 0.0
    ):
        raise InvalidParameter(
            "the estimate must be finite and V positive definite: add to the ridge"
        )
    inverse = np.linalg.inv(V)
    spread: Array = beta**2 / 2 * (inverse + inverse.T)
    Q, R, H, noise, start = model
    if start.size:
        best = float(start @ Q @ start + np.trace(Q) * (H - 1) * noise)
    else:
        best = float(np.trace(Q) * (1 / n + (H - 1) * noise))
    multiplier = 0.0
    if H > 1:
        most = float(
            np.trace(R) + np.trace(theta[n:] @ Q @ theta[n:].T)
            # M_uu > 0 at h = H - 1 needs mu beta^2 tr V^-1_uu below this.
        )
        # Beta = 0: mu does not end.
        least = 1e-12 * most / float(np.trace(R) + np.trace(Q))
        value, mu = _riccati.highest(
            theta, spread, model, most / max(float(np.trace(spread[n:, n:])), least)
        )
        if value > best:
            best = value
            multiplier = mu
    return LagrangianBound(best * (1 - 1e-11), multiplier)


def _model(
    theta: Array, Q: Array, R: Array, horizon: int, noise_radius: float, first: Array | None
) -> tuple[Array, _riccati.Model]:
    n = len(Q)
    d = len(R)
    theta = writable(theta)
    if theta.shape != (n + d, n):
        raise InvalidParameter(
            f"theta = [A B]^T must have shape {(n + d, n)} to fit Q and R, got {theta.shape}"
        )
    if horizon < 1 or not 0 <= noise_radius < math.inf:
        raise InvalidParameter(
            f"horizon must be at least 1 and noise_radius not negative, got {horizon} and "
            f"{noise_radius}"
        )
    start = np.empty(0) if first is None else writable(first)
    if first is not None and (start.shape != (n,) or not np.isfinite(start).all()):
        raise InvalidParameter(f"first must be a finite state of shape ({n},), got {start.shape}")
    return theta, (writable(Q), writable(R), horizon, noise_radius**2 / (n + 2), start)


def _region(theta: Array, V: Array, beta: float, bound: float) -> Array:
    p = len(theta)
    V = writable(V)
    if V.shape != (p, p):
        raise InvalidParameter(f"V must have shape {(p, p)} to fit the estimate, got {V.shape}")
    if not (0 <= beta < math.inf and bound > 0):
        raise InvalidParameter(
            f"beta must be finite and not negative and bound positive, got beta={beta} and "
            f"bound={bound}"
        )
    return V
