"""Buffered linear Toeplitz: nearly the square root's noise in constant memory [Dvijotham24].

C(x) = prod_i (1 - v_i x)/(1 - u_i x) approximates (1 - x)^(-1/2) by a few decays 1 > u_1 > v_1 > u_2 > v_2 > ... > 0. By partial fractions

    c_j = sum_i w_i u_i^(j-1)  (j >= 1, c_0 = 1)        b_j = sum_i b_i' v_i^j  with v_0 = 1,  for B = A C^-1.

The decays are kept as gaps 1 - u_i, 1 - v_i in increasing order: then every weight and every term of the closed forms of the norms is
positive, and nothing cancels however close a decay comes to 1.
"""

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import array, whole
from confide.errors import InvalidParameter
from confide.mechanisms.counters import _kernels
from confide.mechanisms.counters.counter import Memory, check_order, check_time
from confide.privacy.bounded import Array


@dataclass(frozen=True, slots=True)
class Buffered:
    """The counter for a release per episode: 2 x `buffers` + 1 arrays of memory, the same work for every leaf.

    `gaps` = (1 - u_1, 1 - v_1, 1 - u_2, ...), increasing, two per buffer; by default four buffers, optimised for the largest noise over
    the `leaves` releases.
    """

    leaves: int
    gaps: tuple[float, ...] = ()
    _parts: "_Parts" = field(init=False, repr=False, compare=False)
    name: ClassVar[str] = "buffered"
    integral: ClassVar[bool] = False
    coefficient: ClassVar[float] = 1.0

    def __post_init__(self) -> None:
        whole("leaves", self.leaves, at_least=1)
        gaps = tuple(array("gaps", self.gaps, ndim=1).tolist()) or optimal_gaps(self.leaves)
        if len(gaps) % 2 or not all(a < b for a, b in zip((0.0, *gaps), (*gaps, 1.0), strict=True)):
            raise InvalidParameter.of(
                "gaps", f"must be an even number of increasing values in (0, 1), got {gaps}"
            )
        object.__setattr__(self, "gaps", gaps)
        object.__setattr__(self, "_parts", _parts(gaps))

    def column_norm(self, order: int) -> float:
        coder = self._parts.coder
        if check_order(order) == 1:
            return 1 + float(coder.weights @ _geometric(coder.gaps, self.leaves - 1))
        return math.sqrt(1 + _energy(coder, self.leaves - 1))

    def row_norm(self, t: int) -> float:
        return math.sqrt(_energy(self._parts.decoder, check_time(t, self.leaves)))

    def parameters(self) -> dict[str, Any]:
        return {"gaps": list(self.gaps)}

    def private_memory(self, size: int, dtype: type) -> Memory:
        return {"buffers": np.zeros((len(self.gaps) // 2, size), dtype)}

    def public_memory(self, size: int) -> Memory:
        return {"buffers": np.zeros((len(self.gaps) // 2 + 1, size))}

    def encode(self, t: int, leaf: npt.NDArray[Any], memory: Memory) -> npt.NDArray[Any]:  # noqa: ARG002 - time-invariant
        return _kernels.encode(leaf, memory["buffers"], self._parts.coder.recipe)

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:  # noqa: ARG002 - time-invariant
        return _kernels.decode(rows[0], memory["buffers"], self._parts.decoder.recipe)


@dataclass(frozen=True, slots=True)
class _Exponentials:
    """The sequence sum_i weights_i (1 - gaps_i)^j."""

    weights: Array
    gaps: Array
    recipe: Array  # [weights, decays]: as the compiled loops want them


@dataclass(frozen=True, slots=True)
class _Parts:
    coder: _Exponentials  # c_1, c_2, ...
    decoder: _Exponentials  # b_0, b_1, ...


def _exponentials(weights: Array, gaps: Array) -> _Exponentials:
    return _Exponentials(weights, gaps, np.stack([weights, 1 - gaps]))


@lru_cache(maxsize=64)
def _parts(gaps: tuple[float, ...]) -> _Parts:
    u, v = np.array(gaps[0::2]), np.array(gaps[1::2])
    same = np.eye(len(u), dtype=bool)
    coder = np.prod(v[None] - u[:, None], axis=1) / np.prod(
        np.where(same, 1.0, u[None] - u[:, None]), axis=1
    )
    # residues of prod (1 - u_k x) / ((1 - x) prod (1 - v_k x)): at 1, and at 1/v_i
    at_one = np.prod(u / v)
    decoder = (
        np.prod(u[None] - v[:, None], axis=1)
        / np.prod(np.where(same, 1.0, v[None] - v[:, None]), axis=1)
        / -v
    )
    return _Parts(
        _exponentials(coder, u),
        _exponentials(np.concatenate([[at_one], decoder]), np.concatenate([[0.0], v])),
    )


def _geometric(gaps: Array, terms: int) -> Array:
    """sum_{j < terms} (1 - gap)^j, for each gap in [0, 1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        sums: Array = np.where(gaps > 0, -np.expm1(terms * np.log1p(-gaps)) / gaps, terms)
    return sums


def _energy(sequence: _Exponentials, terms: int) -> float:
    """sum_{j < terms} of the squares of the sequence."""
    return float(_kernels.energy(sequence.weights, sequence.gaps, terms))


@lru_cache(maxsize=64)
def optimal_gaps(leaves: int, buffers: int = 4) -> tuple[float, ...]:
    """The gaps with the smallest maximal noise, max_t ||B_t|| max_j ||C e_j|| (row norms increase in t: all b_j > 0)."""
    from scipy.optimize import minimize

    def gaps_of(x: Array) -> Array:
        gaps: Array = np.exp(-np.cumsum(np.logaddexp(0, x))[::-1])  # increasing, below one
        return gaps

    def log_noise(x: Array) -> float:
        parts = _parts(tuple(gaps_of(x)))
        return math.log1p(_energy(parts.coder, leaves - 1)) + math.log(
            _energy(parts.decoder, leaves)
        )

    spread = max(math.log(leaves), 1.0) / (2 * buffers)
    start = np.full(2 * buffers, math.log(math.expm1(spread)))
    found = minimize(log_noise, start, method="BFGS", options={"gtol": 1e-7, "maxiter": 500})
    return tuple(float(gap) for gap in gaps_of(found.x))
