"""How fast regret grew: its exponent in the number of users, with an error over seeds."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.comparison.intervals import RESAMPLES, Array, check_sample, margins, without_rounding
from confide.errors import InvalidParameter


@dataclass(frozen=True, slots=True)
class Growth:
    """Between `start` and `end` users mean regret grew like users to the power of `slope`."""

    slope: float
    # By the jackknife over seeds; None with one seed.
    error: float | None
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
        if self.high < exponent:
            return "below"
        return "above" if self.low > exponent else "compatible"

    def against(self, exponent: float) -> str:
        """The verdict in words.

        A theorem is an upper bound: in the limit it implies `below` or `compatible`.
        """
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
    """The slope of log mean regret over log users, from `after` users on.

    `regret` is [seed, point]. By default the window is the last factor of ten. The error is over
    seeds: the points of one cumulative curve are not independent, so the residuals of the fit say
    nothing about it.

    The slope is the power of users by which regret grew on this window. While one bad policy is
    played, regret is a line and the slope goes to 1. Where the policy is optimal, regret stands
    still and the slope is 0. A learner that settles within the window has a slope between, which
    is no rate.

    The slope says nothing about what comes after the window. The exponent of a bound is about all
    large numbers of users, with constants and logarithms that a window cannot distinguish from a
    power. So a larger slope refutes no theorem as long as the curve is under the bound itself, and
    a smaller slope proves none.
    """
    users = check_sample(checkpoints, "checkpoints", 1)
    curves = check_sample(regret, "regret", 2)
    if curves.shape[1] != len(users) or users[0] <= 0 or (np.diff(users) <= 0).any():
        raise InvalidParameter.of(
            "checkpoints",
            f"must grow from above 0, one for each of {curves.shape[1]} points, got {len(users)}",
        )
    first = users[-1] / 10 if after is None else after
    inside = users >= first
    if inside.sum() < 2:
        raise InvalidParameter(
            f"a slope needs two checkpoints, got {inside.sum()} from {first:g} users on: "
            "lower `after`"
        )
    users = users[inside]
    curves = curves[:, inside]
    start = float(users[0])
    end = float(users[-1])
    weights = _slope_weights(np.log(users))
    seeds = len(curves)
    # The mean without each seed.
    others = curves if seeds == 1 else (curves.sum(axis=0) - curves) / (seeds - 1)
    if (others <= 0).any():
        raise InvalidParameter(
            "a slope needs mean regret above 0, also without any one seed, "
            f"got {others.min():.3g} on the window"
        )
    slope = float(without_rounding(np.log(curves.mean(axis=0)) @ weights, 1.0))
    if seeds == 1:
        return Growth(slope, None, None, None, level, 1, start, end)
    slopes = np.log(others) @ weights
    # The jackknife's pseudo-values, centred.
    influence = without_rounding((seeds - 1) * (slopes.mean() - slopes), 1.0)
    down, up, error = (
        float(margin[0]) for margin in margins([influence[:, None]], level, resamples, rng)
    )
    return Growth(slope, error, slope - down, slope + up, level, seeds, start, end)


def _slope_weights(logs: Array) -> Array:
    """What each point adds to the slope of least squares.

    A point is weighted by its part of the axis, so the grid does not matter.
    """
    width = (np.diff(logs, prepend=logs[0]) + np.diff(logs, append=logs[-1])) / 2
    centred = logs - width @ logs / width.sum()
    weights: Array = width * centred / (width @ centred**2)
    return weights
