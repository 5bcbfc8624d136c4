"""Buffered linear Toeplitz: nearly the square root's noise in constant memory [Dvijotham24].

C and B are lower-triangular Toeplitz matrices with the first columns c_j and b_j. The power series

    C(x) = prod_i (1 - v_i x)/(1 - u_i x)

approximates (1 - x)^(-1/2) by a few decays 1 > u_1 > v_1 > u_2 > v_2 > ... > 0. By partial
fractions, with B = A C^-1 and v_0 = 1,

    c_j = sum_i w_i u_i^(j-1)   for j >= 1, and c_0 = 1,
    b_j = sum_i w'_i v_i^j.

In the code, `coder` has the weights w_i and the gaps 1 - u_i, and `decoder` has w'_i and 1 - v_i.
The decays are kept as gaps in increasing order. Then every weight, and every term of the closed
forms of the norms, is positive. Nothing cancels however close a decay comes to 1.
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
    """The counter for a release after each episode.

    Its memory are 2 `buffers` + 1 arrays, and the work is the same for every leaf.

    `gaps` = (1 - u_1, 1 - v_1, 1 - u_2, ...) are increasing, two for each buffer. By default there
    are four buffers, with the gaps for which the largest noise over all releases is the smallest.
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
        increasing = all(a < b for a, b in zip((0.0, *gaps), (*gaps, 1.0), strict=True))
        if len(gaps) % 2 or not increasing:
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

    # The factorisation is the same at all times.
    def encode(
        self,
        t: int,  # noqa: ARG002
        leaf: npt.NDArray[Any],
        memory: Memory,
    ) -> npt.NDArray[Any]:
        return _kernels.encode(leaf, memory["buffers"], self._parts.coder.recipe)

    # The factorisation is the same at all times.
    def decode(self, t: int, rows: Array, memory: Memory) -> Array:  # noqa: ARG002
        return _kernels.decode(rows[0], memory["buffers"], self._parts.decoder.recipe)


@dataclass(frozen=True, slots=True)
class _Exponentials:
    """The sequence sum_i weights_i (1 - gaps_i)^j."""

    weights: Array
    gaps: Array
    # Weights and decays [weight or decay, buffer], as the compiled loops expect them.
    recipe: Array


@dataclass(frozen=True, slots=True)
class _Parts:
    # c_1, c_2, ...
    coder: _Exponentials
    # b_0, b_1, ...
    decoder: _Exponentials


def _exponentials(weights: Array, gaps: Array) -> _Exponentials:
    return _Exponentials(weights, gaps, np.stack([weights, 1 - gaps]))


@lru_cache(maxsize=64)
def _parts(gaps: tuple[float, ...]) -> _Parts:
    """The partial fractions of C and B. All products are over k."""
    # The gaps 1 - u_i and 1 - v_i.
    u_gaps = np.array(gaps[0::2])
    v_gaps = np.array(gaps[1::2])
    same = np.eye(len(u_gaps), dtype=bool)
    # w_i = prod (u_i - v_k) / prod (u_i - u_k) for k != i.
    u_differences = np.where(same, 1.0, u_gaps[None] - u_gaps[:, None])
    coder = np.prod(v_gaps[None] - u_gaps[:, None], axis=1) / np.prod(u_differences, axis=1)
    # w'_i are the residues of prod (1 - u_k x) / ((1 - x) prod (1 - v_k x)) at 1, and at 1/v_i.
    at_one = np.prod(u_gaps / v_gaps)
    v_differences = np.where(same, 1.0, v_gaps[None] - v_gaps[:, None])
    at_v = (
        np.prod(u_gaps[None] - v_gaps[:, None], axis=1) / np.prod(v_differences, axis=1) / -v_gaps
    )
    decoder = np.concatenate([[at_one], at_v])
    return _Parts(
        _exponentials(coder, u_gaps),
        _exponentials(decoder, np.concatenate([[0.0], v_gaps])),
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
    """The gaps with the smallest maximal noise max_t ||B_t|| max_j ||C e_j||.

    The row norms ||B_t|| increase in t, because all b_j are positive, so the last one counts. The
    number of buffers is a matter of taste. Any increasing gaps are valid for privacy.
    """
    from scipy.optimize import minimize

    def gaps_of(x: Array) -> Array:
        """Increasing gaps below one, for any x."""
        gaps: Array = np.exp(-np.cumsum(np.logaddexp(0, x))[::-1])
        return gaps

    def log_noise(x: Array) -> float:
        parts = _parts(tuple(gaps_of(x)))
        log_column = math.log1p(_energy(parts.coder, leaves - 1))
        log_row = math.log(_energy(parts.decoder, leaves))
        return log_column + log_row

    spread = max(math.log(leaves), 1.0) / (2 * buffers)
    start = np.full(2 * buffers, math.log(math.expm1(spread)))
    optimum = minimize(log_noise, start, method="BFGS", options={"gtol": 1e-7, "maxiter": 500})
    return tuple(float(gap) for gap in gaps_of(optimum.x))
