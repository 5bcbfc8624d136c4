"""How second moments and residuals lie in a released vector. Public."""

import numpy as np
import numpy.typing as npt

from confide.mechanisms.symmetric import smat, svec_size

Array = npt.NDArray[np.float64]


def released_moments(dimension: int, weight: float) -> int:
    """How many numbers of a release are second moments of rows of this dimension."""
    return svec_size(dimension) if weight else 0


def unpack_residuals(
    values: Array, dimension: int, states: int, weight: float
) -> tuple[Array | None, Array]:
    """A released vector -> (S / cap [p, p] or None, G / clip [p, n]).

    Noise of standard deviation a in the release is a / weight on the diagonal of the first part,
    and a on the second.
    """
    cut = released_moments(dimension, weight)
    residuals = values[cut:].reshape(dimension, states)
    if not weight:
        return None, residuals
    return smat(values[None, :cut], dimension)[0] / weight, residuals
