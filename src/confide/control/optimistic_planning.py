"""Optimism for linear systems: a confidence set for the dynamics, and the cheapest system in it
[Chowdhury21, Lemma 1 and (9)].

All of it is post-processing: everything here is a function of released sums, and of the costs, the
horizon and the noise that everybody knows. It may be changed without an effect on privacy.

- What may not be changed freely: `confidence_set`, whose width holds by the proof in its docstring,
  and `printed_set`, whose constants are the paper's (golden values in tests/control).
- What may be changed freely: the search for the cheapest system. It is local, so another search may
  find a cheaper one. `lagrangian_bound` says from below what no search could beat.

Letters: n states, d inputs, p = n + d, Theta = [A B]^T of shape [p, n], z = (x, u). S [p, p] are
released sums of z z^T and C [p, n] those of z x'^T; J is the expected cost of an episode.

Departures from the paper, with their reasons:

- As printed, beta_k reads the exact Z^T Z, which nobody released: a leak. Here every number is a
  function of the release. The paper's own bound on ln det, in the proof of Thm. 1, reads no data,
  and would mend the leak as well.
- The paper leaves the search open. J is not convex in Theta, and the search here is local, with two
  starts.
- The paper's set of systems asks for controllable ones. Such a set is not closed, so that no
  minimum need exist. Controllability is not asked for here.
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
# What the compiled search says of the confidence set (`planners/_optimistic_kernels.py`).
_EMPTY = 1
_NOT_DEFINITE = 2
_NOT_DEFINITE_MESSAGE = "the estimate must be finite and V positive definite: add to the ridge"


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceSet:
    """The systems {Theta: ||V^(1/2) (Theta - theta)||_F <= beta}. Public."""

    # The estimate [p, n].
    theta: Array
    # The precision [p, p], positive definite.
    V: Array
    # The width.
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
    """Our confidence set, which holds for the least noise that the guarantee needs.

    It is made from S~ = S + N and C~ = C + L. N is GOE with N(0, noise^2) on its diagonal, and L is
    independent with standard deviation noise / (sqrt(2) weight) per entry.

    Claim: it holds Theta at all releases with probability 1 - `failure`, if ||Theta||_F <= bound,
    ||w|| <= C_w = `noise_radius`, and rows were weighted by c_h in [0, 1] that do not depend on the
    noise of their own step. Half of `failure` is for the system's noise, half for N and L, over all
    releases.

    Proof. Let q be the share of one release, a = noise / sqrt(2). Then ||N|| <= Lam = 2a sqrt(p) +
    2a sqrt(ln(2/q)), and ||L||_F <= ell. V = S~ + eta I with eta = Lam + lambda, so V >= S + lambda
    I, and

        V^(1/2)(theta - Theta) = V^(-1/2) (sum c z w^T + L - (N + eta I) Theta).

    - By the self-normalised bound with V >= S + lambda I, the first part is at most C_w sqrt(2
      ln(4/failure) + n ln det(V / lambda)).
    - The second is at most ell / sqrt(v), with v the least eigenvalue of V.
    - The third is at most bound ||V^(-1/2) (N + eta I)||, hence at most bound min((Lam +
      eta)/sqrt(v), sqrt(Lam + eta)), since 0 <= N + eta I <= V.

    That sums are rounded to a grid is left out: it is 2^-25 of the cap for each user and number.
    """
    p, n = C.shape
    a = noise / math.sqrt(2)
    q = failure / (4 * releases)
    # lambda. The claim holds for any positive number; no page compares others.
    ridge = 1.0
    Lam = 2 * a * math.sqrt(p) + 2 * a * math.sqrt(math.log(2 / q))
    ell = a / weight * (math.sqrt(n * p) + math.sqrt(2 * math.log(1 / q)))
    eta = Lam + ridge
    # With probability 1 - q no eigenvalue is raised, because S >= 0 and ||N|| <= Lam.
    theta, V, log_det, least_eigenvalue = ellipsoid(S, C, eta, ridge)
    v = least_eigenvalue
    system_part = noise_radius * math.sqrt(2 * math.log(4 / failure) + n * log_det)
    moments_part = bound * min((Lam + eta) / math.sqrt(v), math.sqrt(Lam + eta))
    responses_part = ell / math.sqrt(v)
    return ConfidenceSet(theta, V, system_part + moments_part + responses_part)


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
    # No eigenvalue is raised while ||N|| <= Lambda.
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
    """The weight s of C beside S that splits one budget between them best.

    s^2 = (-b + sqrt(b^2 + 8 a b `longest`)) / (4 a) with a = (p + 1) bound^2 and b = n p. `longest`
    bounds ||z||^2.
    """
    p = states + inputs
    a = (p + 1) * bound**2
    b = states * p
    return math.sqrt((-b + math.sqrt(b**2 + 8 * a * b * longest)) / (4 * a))


# What the compiled search takes if there is no start besides its own.
_NO_START = np.empty((0, 0))


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticModel:
    """The cheapest system that the search came to in the confidence set. Public."""

    theta: Array
    cost: float
    # The best gains for theta [h, d, n].
    gains: Array
    # How many steps both searches took. 0 if a system with A = 0, the cheapest of all, is in the
    # set.
    iterations: int
    # Whether no system within `bound` is in the confidence set, as happens when the estimate is far
    # out and the width is small. Then theta is the estimate moved into the ball, and its cost is
    # not optimistic.
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
    theta, model = _checked_model(theta, Q, R, horizon, noise_radius, first)
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
    theta, model = _checked_model(theta, Q, R, horizon, noise_radius, first)
    p, n = theta.shape
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

    The search is by spectral projected gradients, from the estimate (or `start`, say the last
    result) and from the point with A = 0. Each takes at most `iterations` steps, until a step
    promises less than `tolerance` of what was gained on the estimate's cost. If a system with A = 0
    is in the set there is nothing to search: J(Theta) >= tr(Q)/n + (H-1) tr(Q W), which is what A =
    0 costs.

    J is that of an episode which starts in `first`, or at random, uniformly on the unit sphere.
    """
    theta, model = _checked_model(theta, Q, R, horizon, noise_radius, first)
    V = _checked_precision(theta, V, beta, bound)
    if start is None:
        start = _NO_START
    elif start.shape != theta.shape or not np.isfinite(start).all():
        raise InvalidParameter(
            f"start must be finite and have the shape {theta.shape} of the estimate, got "
            f"{start.shape}"
        )
    else:
        start = writable(start)
    cheapest, J, gains, steps, flag = _search.search(
        theta, V, float(beta), model, float(bound), start, tolerance, iterations
    )
    if flag == _NOT_DEFINITE:
        raise InvalidParameter(_NOT_DEFINITE_MESSAGE)
    return OptimisticModel(cheapest, J, gains, steps, empty=flag == _EMPTY)


def plan_optimistically(
    plausible: ConfidenceSet,
    released: Released,
    costs: tuple[Array, Array, int, float],
    *,
    bound: float,
    gain_bound: float,
    warns: bool,
) -> PublicRound:
    """One policy for all users: the best gains for the cheapest system, no longer than their bound.

    `costs` are Q, R, the horizon and the radius of the noise. The cheapest system is that for a
    random start, so the gains are a function of releases alone.
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
    # The signal is how much is known of a direction on average; before the first release, nothing.
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

    Proof. Let v = (Theta - theta)^T z be what a system of the set adds to the prediction theta^T z
    from z = (x, u). By Cauchy and Schwarz, at every z,

        ||v||^2 <= ||V^{1/2} (Theta - theta)||^2 z^T V^-1 z <= beta^2 z^T V^-1 z.

    So for every mu >= 0 each system and policy costs at least the same system and policy with mu
    (||v||^2 - beta^2 z^T V^-1 z) <= 0 added to the cost of every step h < H, and at least the least
    of that over all causal u and v. This is an LQ problem with inputs (u, v) and the known system
    x' = theta^T z + v + w.

    - With P = P_{h+1} its minimum over v, if P + mu I > 0, is z^T theta P~ theta^T z, P~ = (P^-1 +
      I/mu)^-1 = mu P (P + mu I)^-1.
    - It leaves M = diag(Q, R) + theta P~ theta^T - mu beta^2 V^-1. If M_uu > 0, the minimum over u
      is the Schur complement P_h = M_xx - M_xu M_uu^-1 M_ux.
    - The bound is E x_1^T P_1 x_1 + sum_h tr(P_{h+1} W), P_H = Q; P may become indefinite.

    A mu for which one of the two conditions fails proves nothing, every other proves its value. As
    a minimum of functions that are linear in mu it is concave, hence unimodal in log mu; mu = 0
    gives E x_1^T Q x_1 + (H-1) tr(Q W). 1e-11 of it is taken off for rounding.

    For n = 1 it is tight in practice. For n > 1 the relaxation forgets that the error is one
    matrix, the same at every step and state, whose Frobenius norm is bounded: a gap of the first
    order in beta remains, however good the search.
    """
    theta, model = _checked_model(theta, Q, R, horizon, noise_radius, first)
    V = _checked_precision(theta, V, beta, 1.0)
    finite = np.isfinite(theta).all() and np.isfinite(V).all()
    if not (finite and float(np.linalg.eigvalsh(V)[0]) > 0.0):
        raise InvalidParameter(_NOT_DEFINITE_MESSAGE)
    inverse = np.linalg.inv(V)
    spread: Array = beta**2 / 2 * (inverse + inverse.T)  # beta^2 V^-1
    value = _cost_without_dynamics(model, theta.shape[1])
    multiplier = 0.0
    if model[2] > 1:
        largest = _largest_multiplier(theta, spread, model)
        highest_value, best_multiplier = _riccati.highest(theta, spread, model, largest)
        if highest_value > value:
            value = highest_value
            multiplier = best_multiplier
    return LagrangianBound(value * (1 - 1e-11), multiplier)


def _cost_without_dynamics(model: _riccati.Model, n: int) -> float:
    """E x_1^T Q x_1 + (H-1) tr(Q W): what a system with A = 0 costs. No system costs less."""
    Q, _, H, noise, start = model
    if start.size:
        return float(start @ Q @ start + np.trace(Q) * (H - 1) * noise)
    return float(np.trace(Q) * (1 / n + (H - 1) * noise))


def _largest_multiplier(theta: Array, spread: Array, model: _riccati.Model) -> float:
    """A number above which no mu proves anything.

    M_uu > 0 at h = H - 1 needs mu beta^2 tr V^-1_uu below tr(R) + tr(B^T Q B). For beta = 0 there
    is no such number, so the divisor is not less than a small part of it.
    """
    Q, R, *_ = model
    n = theta.shape[1]
    allowed = float(np.trace(R) + np.trace(theta[n:] @ Q @ theta[n:].T))
    least_divisor = 1e-12 * allowed / float(np.trace(R) + np.trace(Q))
    return allowed / max(float(np.trace(spread[n:, n:])), least_divisor)


def _checked_model(
    theta: Array, Q: Array, R: Array, horizon: int, noise_radius: float, first: Array | None
) -> tuple[Array, _riccati.Model]:
    """The system, and what compiled loops need to know of its costs.

    A model is (Q, R, the horizon, the variance of the noise in one direction, the first state or an
    empty array).
    """
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


def _checked_precision(theta: Array, V: Array, beta: float, bound: float) -> Array:
    """V, if it fits the estimate, and beta and the bound on ||Theta||_F are possible."""
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
