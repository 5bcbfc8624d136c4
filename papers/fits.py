"""Exponents: of formulas, and of what was measured."""

import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from confide.comparison.growth import Growth, growth


def exponent(formula: Callable[[float], float], at: float, *, factor: float = 1e3) -> float:
    """The exponent of a formula in one of its letters.

    It is the slope of the logarithms between `at` and `factor` times `at`.
    """
    return math.log(formula(at * factor) / formula(at)) / math.log(factor)


def fit_growth(x: Sequence[float], table: npt.ArrayLike) -> Growth:
    """The slope of log mean table[seed, point] over log x, with an error over seeds.

    Each point is a run of its own, because an agent knows how many users will come. All points have
    the same seeds.
    """
    return growth(np.asarray(x, dtype=float), table, after=float(x[0]))


def plain(slope: Growth) -> str:
    """The slope, and its standard error if there are several seeds."""
    if slope.error is None:
        return f"{slope.slope:.2f}"
    return f"{slope.slope:.2f} ± {slope.error:.2f}"
