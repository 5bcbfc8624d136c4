"""Public vectors for transitions: what a user may send instead of a row of a regression.

A transition (s, a, s') speaks for some kernels and against others: p_i = P_i(s' | s, a). Its code c(s, a, s') is a fixed, public vector
made from p, so a sum of codes is a linear sketch of the users' transitions, and its mean is linear in the mixture weights:

    E[c | s, a] = sum_i w_i G(s, a)_i,    G(s, a)_i = sum_s' c(s, a, s') P_i(s' | s, a).

What counts under noise is the difference that w makes to the mean, against the largest distance between two codes (the sensitivity). Two
codes are good at it, in different worlds, and the better one is chosen from the public kernels:
- responsibilities p_i / sum_j p_j, points of the simplex, for transitions that point to one kernel;
- directions, (p - mean p) / ||p - mean p||, for transitions that speak against one kernel as clearly as others for it.
Both are taken at equal weights: a code that follows the current estimate fades just where the estimate is wrong.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.mixtures import _code_kernels as _kernels

Array = npt.NDArray[np.float64]
_FEW_CODES = 6000  # up to here all pairs are measured


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """A code for every transition. Public.

    Shapes: table [s, a, s', c]. `diameter` and `l1_diameter` bound the distance between two of its rows, and from a row to zero; `radius`
    bounds the norm of a row.
    """

    name: str
    table: Array = field(repr=False)
    diameter: float
    l1_diameter: float
    radius: float

    def signal(self, kernels: Array) -> float:
        """How much the mean code of a transition moves with the weights: ||G(s, a)||_F on weights that sum to zero, averaged."""
        G = means(self.table, kernels)
        moving = G - G.mean(axis=-1, keepdims=True)
        return float(np.sqrt((moving**2).sum(axis=(-1, -2))).mean())


def best_codes(kernels: Array, *, size: str) -> Codes:
    """The codes with the most signal for their size, the one of `diameter`, `l1_diameter` and `radius` that the noise answers to."""
    candidates = [
        measured("responsibilities", responsibilities(kernels)),
        measured("directions", directions(kernels)),
    ]
    return max(candidates, key=lambda codes: codes.signal(kernels) / getattr(codes, size))


def responsibilities(kernels: Array) -> Array:
    """p / sum p - 1/d [s, a, s', i]: the posterior of the kernel at equal weights, centred; zero for an impossible transition."""
    p = np.moveaxis(kernels, 0, -1)
    total = p.sum(axis=-1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1.0) - 1 / len(kernels), 0.0)


def directions(kernels: Array) -> Array:
    """(p - mean p) / ||p - mean p|| [s, a, s', i]: unit vectors; zero where all kernels agree."""
    centred = responsibilities(kernels)
    norm = np.linalg.norm(centred, axis=-1, keepdims=True)
    certain = norm > 1e-9
    return np.where(certain, centred / np.where(certain, norm, 1.0), 0.0)


def measured(name: str, table: Array) -> Codes:
    """Exactly, pair by pair, where the codes are few; else twice the largest norm."""
    rows = np.unique(
        np.vstack([table.reshape(-1, table.shape[-1]), np.zeros(table.shape[-1])]), axis=0
    )
    radius = float(np.linalg.norm(rows, axis=1).max())
    if len(rows) <= _FEW_CODES:
        apart, apart_l1 = _kernels.diameters(rows)
    else:
        apart, apart_l1 = 2 * radius, 2 * np.abs(rows).sum(axis=1).max()
    if apart < 1e-9:  # all kernels agree everywhere
        return Codes(name, np.zeros_like(table), 1.0, 1.0, 1.0)
    return Codes(name, table, float(apart), float(apart_l1), radius)


def means(table: Array, kernels: Array) -> Array:
    """G [s, a, c, i]."""
    return np.asarray(np.matmul(table.swapaxes(-1, -2), np.moveaxis(kernels, 0, -1)))
