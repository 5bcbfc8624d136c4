"""What the inputs of a linear system reach, and the infinite horizon. Both read the true A and B, so agents must not use them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.policy import LinearPolicy
from confide.problems.transitions import frozen

Array = npt.NDArray[np.float64]

ROUNDING = 1e-9  # a limit that is passed by less than this, relatively, is kept
# inputs reach a direction if they move it by more than this, relative to ||B||, then to ||A||
COUPLED = 1e-10


@dataclass(frozen=True, slots=True)
class Steered:
    """The subspace that inputs reach: its dimension, and the spectral radius of A on what is left (0 if nothing is)."""

    dimension: int
    rest: float

    @property
    def rest_decays(self) -> bool:
        return self.rest < 1 - ROUNDING


def steered(A: Array, B: Array) -> Steered:
    """The span of B, A B, A^2 B, ..., one orthonormal block after another.

    Its dimension is the rank of the controllability matrix, but that is not what is computed: its columns become parallel. For
    `mass_chain(masses=10)`, with A / ||A|| in the place of A, its smallest singular value is 1e-14, near rounding; here 20 of 20 are found.
    """
    n = len(A)
    basis, pushed, scale = np.zeros((n, 0)), B, float(np.linalg.norm(B, 2))
    while basis.shape[1] < n:
        left, sizes, _ = np.linalg.svd(pushed - basis @ (basis.T @ pushed), full_matrices=False)
        new = left[:, sizes > COUPLED * scale]
        if not new.size:
            break
        # once more: small ones are orthogonal only roughly
        new = np.linalg.qr(new - basis @ (basis.T @ new))[0]
        basis, pushed, scale = np.hstack([basis, new]), A @ new, float(np.linalg.norm(A, 2))
    reached = basis.shape[1]
    if reached >= n:
        return Steered(n, 0.0)
    others = np.linalg.qr(basis, mode="complete")[0][:, reached:]
    return Steered(reached, float(np.abs(np.linalg.eigvals(others.T @ A @ others)).max()))


@dataclass(frozen=True, slots=True, eq=False)
class Stationary:
    """The infinite horizon: P = Q + A^T P A - A^T P B (R + B^T P B)^-1 B^T P A, and the gain that stabilises A + B K."""

    P: Array
    gain: Array
    spectral_radius: float  # rho of A + B K: finite horizons approach P and K like rho^(2H)
    # finite horizons tend to it: every mode of A that does not decay costs something
    is_limit: bool

    def policy(self, horizon: int) -> LinearPolicy:
        """The same gain at every step."""
        return LinearPolicy(np.repeat(self.gain[None], horizon, axis=0))


def stationary(A: Array, B: Array, Q: Array, R: Array) -> Stationary:
    from scipy.linalg import solve_discrete_are

    try:
        P = np.asarray(solve_discrete_are(A, B, Q, R), dtype=float)
    except np.linalg.LinAlgError:
        raise InvalidParameter(_why_none(A, B, Q)) from None
    gain = -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    closed = A + B @ gain
    radius = float(np.abs(np.linalg.eigvals(closed)).max())
    residual = np.abs(Q + A.T @ P @ closed - P).max() / max(1.0, float(np.abs(P).max()))
    if not (radius < 1 - 1e-7 and residual < 1e-6):  # SciPy lets some modes on the unit circle pass
        raise InvalidParameter(_why_none(A, B, Q))
    return Stationary(frozen(P), frozen(gain), radius, steered(A.T, Q).rest_decays)


def _why_none(A: Array, B: Array, Q: Array) -> str:
    reached = steered(A, B)
    if not reached.rest_decays:
        why = f"inputs do not reach a part of A with spectral radius {reached.rest:.4g}"
    elif not steered(A.T, Q).rest_decays:
        why = "a mode of A on the unit circle costs nothing under Q"
    else:
        why = "the Riccati equation is too badly conditioned"
    return f"the infinite horizon needs a gain that stabilises the system, and none was found: {why}; optimal_policy is for the finite one"
