"""How fast regret grew: its exponent in the number of users, with an error over seeds."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.comparison.intervals import RESAMPLES, Array, checked, margins, without_rounding
from confide.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Growth:
    """Between `start` and `end` users mean regret grew like users to the power of `slope`."""

    slope: float
    error: float | None  # jackknife over seeds; None with one
    low: float | None
    high: float | None
    level: float
    seeds: int
    start: float
    end: float

    def verdict(self, exponent: float) -> str:
        """`below`, `above` or `compatible` with a theorem's exponent; `unknown` with one seed."""
        if self.low is None or self.high is None:
            return "unknown"
        return "below" if self.high < exponent else "above" if self.low > exponent else "compatible"

    def against(self, exponent: float) -> str:
        """The verdict in words. A theorem is an upper bound: in the limit it implies `below` or `compatible`."""
        measured = (
            f"{self.slope:.2f}" if self.error is None else f"{self.slope:.2f} ± {self.error:.2f}"
        )
        words = {
            "below": f"below the bound's {exponent:.3g}",
            "above": f"above the bound's {exponent:.3g} on this window",
            "compatible": f"compatible with the bound's {exponent:.3g}",
            "unknown": f"one seed, no verdict on the bound's {exponent:.3g}",
        }
        return f"{words[self.verdict(exponent)]}: {measured}"


def growth(
    checkpoints: npt.ArrayLike,
    regret: npt.ArrayLike,
    *,
    after: float | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    rng: np.random.Generator | None = None,
) -> Growth:
    """The slope of log mean regret[seeds, points] over log users from `after` users on; by default over the last factor of ten.

    The error is over seeds: points of one cumulative curve are not independent, so residuals of the fit say nothing about it.

    What it says: by which power of users regret grew on this window. While one bad policy is played regret is a line and the slope goes
    to 1; where the policy is optimal regret stands still and the slope is 0; a learner that settles within the window has anything
    between, which is no rate. What it does not say: what comes after the window. A bound's exponent is about all large numbers of users,
    with constants and logarithms that a window cannot tell from a power: a slope above it refutes no theorem as long as the curve is
    under the bound itself, and a slope below it proves none.
    """
    users, curves = checked(checkpoints, "checkpoints", 1), checked(regret, "regret", 2)
    if curves.shape[1] != len(users) or users[0] <= 0 or (np.diff(users) <= 0).any():
        raise InvalidParameter.of(
            "checkpoints",
            f"must grow from above 0, one for each of {curves.shape[1]} points, got {len(users)}",
        )
    first = users[-1] / 10 if after is None else after
    inside = users >= first
    if inside.sum() < 2:
        raise InvalidParameter(
            f"a slope needs two checkpoints, got {inside.sum()} from {first:g} users on: lower `after`"
        )
    users, curves = users[inside], curves[:, inside]
    fit, n = _slope_weights(np.log(users)), len(curves)
    # the mean without each seed
    others = curves if n == 1 else (curves.sum(axis=0) - curves) / (n - 1)
    if (others <= 0).any():
        raise InvalidParameter(
            f"a slope needs mean regret above 0, also without any one seed, got {others.min():.3g} on the window"
        )
    slope = float(without_rounding(np.log(curves.mean(axis=0)) @ fit, 1.0))
    if n == 1:
        return Growth(slope, None, None, None, level, 1, float(users[0]), float(users[-1]))
    slopes = np.log(others) @ fit
    # the jackknife's pseudo-values, centred
    influence = without_rounding((n - 1) * (slopes.mean() - slopes), 1.0)
    down, up, error = (
        float(margin[0]) for margin in margins([influence[:, None]], level, resamples, rng)
    )
    return Growth(
        slope, error, slope - down, slope + up, level, n, float(users[0]), float(users[-1])
    )


def _slope_weights(logs: Array) -> Array:
    """What each point adds to the slope of least squares, weighted by its part of the axis: the grid does not matter."""
    width = (np.diff(logs, prepend=logs[0]) + np.diff(logs, append=logs[-1])) / 2
    centred = logs - width @ logs / width.sum()
    weights: Array = width * centred / (width @ centred**2)
    return weights
