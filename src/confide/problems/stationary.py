"""What the inputs of a linear system reach, and the control of it over an infinite horizon.

Both read the true A and B, so agents must not use them.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.policy import LinearPolicy
from confide.problems.transitions import read_only_copy

Array = npt.NDArray[np.float64]

# A spectral radius must be below one by more than this, so that rounding does not decide.
ROUNDING = 1e-9
# Inputs reach a direction if they move it by more than this, relative to ||B||, then to ||A||.
COUPLED = 1e-10
# SciPy accepts some modes on the unit circle. A solution is refused if its radius is this close to
# one, or if its residual, relative to the solution, is above the second number.
_STABILITY_MARGIN = 1e-7
_RICCATI_RESIDUAL = 1e-6


@dataclass(frozen=True, slots=True)
class ReachedSpace:
    """The subspace that inputs reach.

    `rest` is the spectral radius of A on what is left, and 0 if nothing is left.
    """

    dimension: int
    rest: float

    @property
    def rest_decays(self) -> bool:
        return self.rest < 1 - ROUNDING


def reached_space(A: Array, B: Array) -> ReachedSpace:
    """The span of B, A B, A^2 B, ..., built from one orthonormal block after another.

    Its dimension is the rank of the controllability matrix. That matrix is not computed, because
    its columns become parallel: for `mass_chain(masses=10)`, with A / ||A|| in the place of A, its
    smallest singular value is 1e-14, near rounding. The blocks find all 20 dimensions.
    """
    n = len(A)
    basis = np.zeros((n, 0))
    # What the last block of directions is mapped to, and the norm that tells it from rounding.
    image = B
    scale = float(np.linalg.norm(B, 2))
    while basis.shape[1] < n:
        new_part = image - basis @ (basis.T @ image)
        left, sizes, _ = np.linalg.svd(new_part, full_matrices=False)
        new = left[:, sizes > COUPLED * scale]
        if not new.size:
            break
        # Small directions are orthogonal to the basis only roughly, so this is done once more.
        new = np.linalg.qr(new - basis @ (basis.T @ new))[0]
        basis = np.hstack([basis, new])
        image = A @ new
        scale = float(np.linalg.norm(A, 2))
    dimension = basis.shape[1]
    if dimension >= n:
        return ReachedSpace(n, 0.0)
    others = np.linalg.qr(basis, mode="complete")[0][:, dimension:]
    rest = float(np.abs(np.linalg.eigvals(others.T @ A @ others)).max())
    return ReachedSpace(dimension, rest)


@dataclass(frozen=True, slots=True, eq=False)
class Stationary:
    """The solution for the infinite horizon.

    P = Q + A^T P A - A^T P B (R + B^T P B)^-1 B^T P A, and `gain` is the K that stabilises A + B K.
    `spectral_radius` is rho of A + B K: finite horizons approach P and K like rho^(2H). `is_limit`
    says whether they do, which is so if every mode of A that does not decay costs something.
    """

    P: Array
    gain: Array
    spectral_radius: float
    is_limit: bool

    def policy(self, horizon: int) -> LinearPolicy:
        """The same gain at every step."""
        return LinearPolicy(np.repeat(self.gain[None], horizon, axis=0))


def stationary(A: Array, B: Array, Q: Array, R: Array) -> Stationary:
    """Solve the Riccati equation of the infinite horizon, or say why it has no solution."""
    from scipy.linalg import solve_discrete_are

    try:
        P = np.asarray(solve_discrete_are(A, B, Q, R), dtype=float)
    except np.linalg.LinAlgError:
        raise InvalidParameter(_why_none(A, B, Q)) from None
    gain = -np.linalg.solve(R + B.T @ P @ B, B.T @ P @ A)
    closed_loop = A + B @ gain
    radius = float(np.abs(np.linalg.eigvals(closed_loop)).max())
    residual = np.abs(Q + A.T @ P @ closed_loop - P).max() / max(1.0, float(np.abs(P).max()))
    if not (radius < 1 - _STABILITY_MARGIN and residual < _RICCATI_RESIDUAL):
        raise InvalidParameter(_why_none(A, B, Q))
    is_limit = reached_space(A.T, Q).rest_decays
    return Stationary(read_only_copy(P), read_only_copy(gain), radius, is_limit)


def _why_none(A: Array, B: Array, Q: Array) -> str:
    reached = reached_space(A, B)
    if not reached.rest_decays:
        why = f"inputs do not reach a part of A with spectral radius {reached.rest:.4g}"
    elif not reached_space(A.T, Q).rest_decays:
        why = "a mode of A on the unit circle costs nothing under Q"
    else:
        why = "the Riccati equation is too badly conditioned"
    return (
        "the infinite horizon needs a gain that stabilises the system, and none was found: "
        f"{why}; optimal_policy is for the finite one"
    )
