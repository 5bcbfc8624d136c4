"""A confidence set for the dynamics of a linear system from released sums alone [Chowdhury21, Lemma 1]. All post-processing.

[Chowdhury21]'s beta_k reads the exact Z^T Z, which nobody released: a leak. Here every number is a function of the release.
"""

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.planners._least_squares_kernels import ellipsoid

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ConfidenceSet:
    """{Theta: ||V^(1/2) (Theta - theta)||_F <= beta}. Public."""

    theta: Array  # [p, n]
    V: Array  # [p, p], positive definite
    beta: float


def confidence_set(
    S: Array, C: Array, *, noise: float, weight: float, noise_radius: float, bound: float, failure: float, releases: int
) -> ConfidenceSet:
    """From S~ = S + N and C~ = C + L: N GOE with N(0, noise^2) on its diagonal, L independent with noise / (sqrt(2) weight) per entry.

    It holds Theta at all releases with probability 1 - `failure` (half for the system's noise, half for N and L, over all releases), if
    ||Theta||_F <= bound, ||w|| <= C_w, and rows were weighted by c_h in [0, 1] that do not depend on the noise of their own step.
    With q the share of one release, ||N|| <= Lam = 2a sqrt(p) + 2a sqrt(ln(2/q)), a = noise/sqrt(2), and ||L||_F <= ell. V = S~ + eta I,
    eta = Lam + lambda, so V >= S + lambda I, and V^(1/2)(theta - Theta) = V^(-1/2) (sum c z w^T + L - (N + eta I) Theta). By the
    self-normalised bound with V >= S + lambda I the first part is at most C_w sqrt(2 ln(4/failure) + n ln det(V / lambda)); the second
    ell / sqrt(v), v the least eigenvalue of V; the third bound ||V^(-1/2) (N + eta I)||, at most
    bound min((Lam + eta)/sqrt(v), sqrt(Lam + eta)), since 0 <= N + eta I <= V. That sums are rounded to a grid is left out: it is 2^-25 of
    the cap for each user and number.
    """
    p, n = C.shape
    a, q, ridge = noise / math.sqrt(2), failure / (4 * releases), 1.0
    Lam = 2 * a * math.sqrt(p) + 2 * a * math.sqrt(math.log(2 / q))
    ell = a / weight * (math.sqrt(n * p) + math.sqrt(2 * math.log(1 / q)))
    eta = Lam + ridge
    theta, V, log_det, v = ellipsoid(S, C, eta, ridge)  # with probability 1 - q nothing is raised: S >= 0 and ||N|| <= Lam
    sampling = noise_radius * math.sqrt(2 * math.log(4 / failure) + n * log_det)
    drawn = bound * min((Lam + eta) / math.sqrt(v), math.sqrt(Lam + eta))
    return ConfidenceSet(theta, V, sampling + drawn + ell / math.sqrt(v))


def printed_set(
    S: Array, C: Array, *, lambda_min: float, lambda_max: float, nu: float, noise_radius: float, failure: float
) -> ConfidenceSet:
    """[Chowdhury21, Lemma 1] around S~ + eta I, eta = (lambda_min + lambda_max) / 2, with its leak mended.

    The printed beta_k has ln det(I + Z^T Z / lambda_min), of the exact Z^T Z. While ||N|| <= Lambda = lambda_min the released
    V = Z^T Z + N + 2 Lambda I is at least Z^T Z + lambda_min I, so that ln det(V / lambda_min) is at least as large, and is public.
    """
    theta, V, log_det, _ = ellipsoid(S, C, (lambda_min + lambda_max) / 2, lambda_min)  # nothing is raised while ||N|| <= Lambda
    beta = noise_radius * math.sqrt(2 * math.log(2 / failure) + C.shape[1] * log_det) + math.sqrt(lambda_max) + nu
    return ConfidenceSet(theta, V, beta)


def response_weight(states: int, inputs: int, bound: float, longest: float) -> float:
    """s that splits one budget between S and C best: s^2 = (-B' + sqrt(B'^2 + 8 A' B' b)) / (4 A'), A' = (p + 1) bound^2, B' = n p."""
    p = states + inputs
    A, B = (p + 1) * bound**2, states * p
    return math.sqrt((-B + math.sqrt(B**2 + 8 * A * B * longest)) / (4 * A))
