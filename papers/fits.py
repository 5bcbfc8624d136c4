"""Exponents: of formulas, and of what was measured."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from confide.comparison.growth import Growth, growth


def exponent(formula: Callable[[float], float], at: float, *, factor: float = 1e3) -> float:
    """The exponent of a formula in one of its letters around a value: the log-log slope between at and factor x at."""
    return math.log(formula(at * factor) / formula(at)) / math.log(factor)


def fitted(x: Sequence[float], table: npt.ArrayLike) -> Growth:
    """The slope of log mean table[seed, point] over log x: `growth` over the whole window, with an error over seeds.

    Points are runs of their own, made for their x (a learner knows how many users will come), with the same seeds.
    """
    return growth(np.asarray(x, dtype=float), table, after=float(x[0]))


def plain(slope: Growth) -> str:
    return f"{slope.slope:.2f}" if slope.error is None else f"{slope.slope:.2f} ± {slope.error:.2f}"
