"""Normal noise to 120 digits, for a scale that is private and so cannot choose a lattice.

Guarantee: the noisy value is computed in decimal arithmetic and rounded to a public grid. In real
arithmetic that is post-processing of the continuous mechanism. Here the value before rounding is
off by less than 1e-115 of its size. So the rounded value differs from that of real arithmetic only
if the latter is that close to the middle between two points of the grid. This has a probability
below 1e-35 as long as the scale is below 1e80 steps of the grid. The entropy is the system's. No
low bit of floating point is ever made from the data and the noise together.
"""

import decimal
import math
import secrets
from decimal import Decimal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
# The bits of a uniform variable, and the digits of the arithmetic. Required for privacy: the proof
# above needs 115 digits, and 420 bits are 126 digits.
_BITS = 420
_CONTEXT = decimal.Context(prec=120, rounding=decimal.ROUND_HALF_EVEN, Emin=-9999, Emax=9999)
# The grid is 2^(e - _GRID_BITS) for a scale in [2^(e - 1), 2^e). Taste: a finer grid protects less
# against attacks on low bits, and a coarser one adds more to the variance.
_GRID_BITS = 11


def standard_normals(size: int) -> list[Decimal]:
    """Standard normal variables, from the system's entropy."""
    with decimal.localcontext(_CONTEXT):
        draws: list[Decimal] = []
        while len(draws) < size:
            draws += _normal_pair()
    return draws[:size]


def noisy(values: Array, scale: float, draws: list[Decimal], grid: float) -> Array:
    """values + scale * draws, rounded to whole multiples of the grid."""
    with decimal.localcontext(_CONTEXT):
        sigma = Decimal(scale)
        step = Decimal(grid)
        steps = [
            ((Decimal(value) + sigma * draw) / step).to_integral_value()
            for value, draw in zip(values.tolist(), draws, strict=True)
        ]
        return np.array([float(number * step) for number in steps])


def round_to_grid(values: Array, grid: float) -> Array:
    """Round to whole multiples of the grid, in place. The grid must be a power of two."""
    values /= grid
    np.rint(values, out=values)
    values *= grid
    return values


def grid_below(scale: float) -> float:
    """A power of two, 2^-10 to 2^-11 of a scale. Rounding to it adds 8e-8 of the variance."""
    return 2.0 ** (math.frexp(scale)[1] - _GRID_BITS)


def _normal_pair() -> tuple[Decimal, ...]:
    """Two standard normal variables, by Marsaglia's polar method.

    It needs no functions but a logarithm and a root, which decimal arithmetic rounds correctly.
    """
    while True:
        u, v = (
            2 * (Decimal(secrets.randbits(_BITS)) + Decimal("0.5")) / Decimal(2**_BITS) - 1
            for _ in range(2)
        )
        square = u * u + v * v
        if square < 1:
            factor = (-2 * square.ln() / square).sqrt()
            return u * factor, v * factor
