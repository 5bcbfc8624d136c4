"""Symmetric matrices as vectors.

`svec` keeps the diagonal and multiplies the d(d-1)/2 entries above it by `off_diagonal`.

By default `off_diagonal` is `ISOMETRIC` = sqrt(2), so that ||svec(M)||_2 = ||M||_F. Independent
N(0, s^2) noise on svec(M) is then GOE noise on M (diagonal N(0, s^2), off the diagonal N(0, s^2/2),
mirrored): exactly calibrated to the Frobenius norm.

With `MIRRORED` = 1 the coordinates are the entries of the upper triangle, and N(0, s^2) noise on
them gives every entry of M the standard deviation s. [Chowdhury21] and [Zhou22] print this noise.
It has twice the variance off the diagonal. Sensitivities of the isometric coordinates remain valid,
because ||svec(M)||_2 <= ||M||_F for every off_diagonal <= sqrt(2). They are attained by matrices
that differ on the diagonal only.
"""

import math
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arguments import whole
from confide.errors import InvalidParameter
from confide.privacy.bounded import Array

# The two weights of the entries off the diagonal. Both are proved above.
ISOMETRIC = math.sqrt(2.0)
MIRRORED = 1.0


def svec_size(dimension: int) -> int:
    """The number of coordinates of a symmetric matrix of this dimension."""
    return dimension * (dimension + 1) // 2


def svec(matrices: Array, off_diagonal: float = ISOMETRIC) -> Array:
    """[..., d, d] symmetric -> [..., d(d+1)/2]. Reads the upper triangle."""
    if (
        not isinstance(matrices, np.ndarray)
        or matrices.ndim < 2
        or matrices.shape[-1] != matrices.shape[-2]
    ):
        raise InvalidParameter.of(
            "matrices",
            "must be an array of shape (..., d, d), "
            f"got {getattr(matrices, 'shape', type(matrices))}",
        )
    rows, columns, weights = _layout(matrices.shape[-1], off_diagonal)
    result: Array = matrices[..., rows, columns] * weights
    return result


def smat(vectors: Array, dimension: int, off_diagonal: float = ISOMETRIC) -> Array:
    """[..., d(d+1)/2] -> [..., d, d] symmetric: the inverse of svec."""
    size = svec_size(whole("dimension", dimension, at_least=1))
    if not isinstance(vectors, np.ndarray) or vectors.ndim < 1 or vectors.shape[-1] != size:
        raise InvalidParameter.of(
            "vectors",
            f"must be an array of shape (..., {size}), "
            f"got {getattr(vectors, 'shape', type(vectors))}",
        )
    rows, columns, weights = _layout(dimension, off_diagonal)
    result = np.empty((*vectors.shape[:-1], dimension, dimension))
    entries = vectors / weights
    result[..., rows, columns] = entries
    result[..., columns, rows] = entries
    return result


@lru_cache(maxsize=64)
def _layout(
    dimension: int, off_diagonal: float
) -> tuple[npt.NDArray[Any], npt.NDArray[Any], Array]:
    """The row, the column and the weight of each coordinate, all [coordinate]."""
    rows, columns = np.triu_indices(dimension)
    return rows, columns, np.where(rows == columns, 1.0, off_diagonal)
