"""Normal noise to 120 digits, for a scale that is private and so cannot choose a lattice.

The noisy value is computed in decimal arithmetic and rounded to a public grid. In real arithmetic that is post-processing of the
continuous mechanism. Here the value before rounding is off by less than 1e-115 of its size, so that the rounded one differs from that of
real arithmetic only within so much of the middle between two points of the grid: with probability below 1e-35 as long as the scale is
below 1e80 steps of the grid. The entropy is the system's. No low bit of floating point is ever made from the data and the noise.
"""

import decimal
import math
import secrets
from decimal import Decimal

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]
_BITS = 420  # of a uniform variable
_CONTEXT = decimal.Context(prec=120, rounding=decimal.ROUND_HALF_EVEN, Emin=-9999, Emax=9999)


def standard_normals(size: int) -> list[Decimal]:
    """From the system's entropy."""
    with decimal.localcontext(_CONTEXT):
        draws: list[Decimal] = []
        while len(draws) < size:
            draws += _pair()
    return draws[:size]


def noisy(values: Array, scale: float, draws: list[Decimal], grid: float) -> Array:
    """values + scale draws, rounded to whole multiples of the grid."""
    with decimal.localcontext(_CONTEXT):
        sigma, step = Decimal(scale), Decimal(grid)
        whole = [
            ((Decimal(value) + sigma * draw) / step).to_integral_value()
            for value, draw in zip(values.tolist(), draws, strict=True)
        ]
        return np.array([float(number * step) for number in whole])


def round_to_grid(values: Array, grid: float) -> Array:
    """Rounded to whole multiples of the grid, in place; the grid is a power of two."""
    values /= grid
    np.rint(values, out=values)
    values *= grid
    return values


def grid_below(scale: float) -> float:
    """A power of two, 2^-10 to 2^-11 of a scale: rounding to it adds 8e-8 of the variance."""
    return 2.0 ** (math.frexp(scale)[1] - 11)


def _pair() -> tuple[Decimal, ...]:
    """Marsaglia's polar method: no function but a logarithm and a root."""
    while True:
        u, v = (
            2 * (Decimal(secrets.randbits(_BITS)) + Decimal("0.5")) / Decimal(2**_BITS) - 1
            for _ in range(2)
        )
        square = u * u + v * v
        if square < 1:
            factor = (-2 * square.ln() / square).sqrt()
            return u * factor, v * factor
