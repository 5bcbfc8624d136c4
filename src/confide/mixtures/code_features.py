"""Codes: public vectors for transitions, which a user may send instead of a row of a regression.

PUBLIC knowledge, which both sides use. A transition (s, a, s') speaks for some kernels and against
others: p_i = P_i(s' | s, a). Its code c(s, a, s') is a fixed, public vector made from p. So a sum
of codes is a linear sketch of the users' transitions, and its mean is linear in the weights w:

    E[c | s, a] = sum_i w_i G(s, a)_i,    G(s, a)_i = sum_s' c(s, a, s') P_i(s' | s, a).

Under noise it counts what difference w makes to the mean, against the largest distance between two
codes, which is the sensitivity. Two codes are good at this, in different problems. The better one
is chosen from the public kernels:
- responsibilities p_i / sum_j p_j, points of the simplex, for transitions that point to one kernel;
- directions (p - mean p) / ||p - mean p||, for transitions that speak against one kernel as clearly
  as others speak for it.
Both are taken at equal weights. A code that follows the current estimate fades just where the
estimate is wrong.

Required for privacy: `diameter`, `l1_diameter` and `radius` bound the distances that they name.
Which vectors are codes may be changed freely.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.mixtures import _code_kernels as _kernels

Array = npt.NDArray[np.float64]
# Up to so many different codes the distances of all pairs are computed. A matter of time only.
MAX_COMPARED_CODES = 6000
# A shorter difference between kernels is a rounding error.
ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """A code for every transition. Public.

    Shapes: table [s, a, s', c]. `diameter` and `l1_diameter` bound the distance between two of its
    rows, and from a row to zero. `radius` bounds the norm of a row.
    """

    name: str
    table: Array = field(repr=False)
    diameter: float
    l1_diameter: float
    radius: float

    def signal(self, kernels: Array) -> float:
        """How much the mean code of a transition moves with the weights.

        It is ||G(s, a)||_F on weights that sum to zero, averaged.
        """
        G = mean_codes(self.table, kernels)
        moving = G - G.mean(axis=-1, keepdims=True)
        return float(np.sqrt((moving**2).sum(axis=(-1, -2))).mean())


def best_codes(kernels: Array, *, size: str) -> Codes:
    """The codes with the most signal for their size.

    `size` names the one that the noise follows: `diameter`, `l1_diameter` or `radius`.
    """
    candidates = [
        measure_codes("responsibilities", responsibilities(kernels)),
        measure_codes("directions", directions(kernels)),
    ]
    return max(candidates, key=lambda codes: codes.signal(kernels) / getattr(codes, size))


def responsibilities(kernels: Array) -> Array:
    """p / sum p - 1/d [s, a, s', i], and zero for an impossible transition.

    This is the posterior of the kernel at equal weights, centred.
    """
    p = np.moveaxis(kernels, 0, -1)
    total = p.sum(axis=-1, keepdims=True)
    return np.where(total > 0, p / np.where(total > 0, total, 1.0) - 1 / len(kernels), 0.0)


def directions(kernels: Array) -> Array:
    """(p - mean p) / ||p - mean p|| [s, a, s', i], and zero where all kernels agree."""
    centred = responsibilities(kernels)
    norm = np.linalg.norm(centred, axis=-1, keepdims=True)
    is_long = norm > ROUNDING
    return np.where(is_long, centred / np.where(is_long, norm, 1.0), 0.0)


def measure_codes(name: str, table: Array) -> Codes:
    """Bound the distances of a table's rows.

    If there are few different codes, all pairs are compared, and the bounds are exact. Otherwise
    they are twice the largest norm.
    """
    length = table.shape[-1]
    rows = np.unique(np.vstack([table.reshape(-1, length), np.zeros(length)]), axis=0)
    radius = float(np.linalg.norm(rows, axis=1).max())
    if len(rows) <= MAX_COMPARED_CODES:
        diameter, l1_diameter = _kernels.diameters(rows)
    else:
        diameter = 2 * radius
        l1_diameter = 2 * np.abs(rows).sum(axis=1).max()
    if diameter < ROUNDING:
        # All kernels agree everywhere, so there is nothing to learn.
        return Codes(name, np.zeros_like(table), 1.0, 1.0, 1.0)
    return Codes(name, table, float(diameter), float(l1_diameter), radius)


def mean_codes(table: Array, kernels: Array) -> Array:
    """G [s, a, c, i]: the mean code of a transition from s by a under each kernel i."""
    return np.asarray(np.matmul(table.swapaxes(-1, -2), np.moveaxis(kernels, 0, -1)))
