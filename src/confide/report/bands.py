"""Curves of one run at any number of users, and their confidence bands over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.experiments.run import Run

Array = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

FEW = 4  # seeds: with fewer, Student's t is wider than anything that was seen (12.7 standard errors with two)
_CONFIDENCE = 0.95
_ROUNDING = 1e-9  # exact values are sums of rounded numbers: differences below this, relative, are none


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """The mean over seeds and its 95 % confidence band (Student's t), or under `FEW` seeds the lowest and the highest of them; with one
    seed there is no band: low = mean = high."""

    users: Counts
    mean: Array
    low: Array
    high: Array

    @property
    def known(self) -> bool:
        return bool(np.isfinite(self.mean).any())


@dataclass(frozen=True, slots=True)
class Summary:
    """A final figure over seeds."""

    mean: float
    error: float | None  # the standard error of the mean; None with one seed
    median: float


def band(users: Counts, curves: Sequence[Array]) -> Band:
    stacked = np.stack(curves)
    mean, n = stacked.mean(axis=0), len(curves)
    spread = _deviation(stacked) if n > 1 else np.zeros(len(users))
    if n < FEW:
        differ = spread > 0
        return Band(users, mean, np.where(differ, stacked.min(axis=0), mean), np.where(differ, stacked.max(axis=0), mean))
    half = t_quantile(n - 1) * spread / math.sqrt(n)
    return Band(users, mean, mean - half, mean + half)


def summary(values: Sequence[float]) -> Summary:
    error = float(_deviation(np.array(values))) / math.sqrt(len(values)) if len(values) > 1 else None
    return Summary(float(np.mean(values)), error, float(np.median(values)))


def t_quantile(freedom: int) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + _CONFIDENCE) / 2))


def regret_at(run: Run, users: Counts) -> Array:
    """Exact: cumulative regret is linear within a segment; zero where it is nothing but rounding."""
    if run.optimal_value is None:
        return np.full(len(users), math.nan)
    regret = _cumulative(run, [run.optimal_value - _number(s.value) for s in run.segments], users)
    regret[np.abs(regret) <= _ROUNDING * users * abs(run.optimal_value)] = 0.0
    return regret


def value_at(run: Run, users: Counts) -> Array:
    return _of_segment(run, [_number(s.value) for s in run.segments], users)


def noise_at(run: Run, users: Counts) -> Array:
    return _of_segment(run, [_number(s.noise_std) for s in run.segments], users)


def signal_at(run: Run, users: Counts) -> Array:
    return _of_segment(run, [_number(s.signal) for s in run.segments], users)


def return_at(run: Run, users: Counts) -> Array:
    """The average return of the users since the number before: one segment alone may be one user, and all noise."""
    total = _cumulative(run, [_number(s.mean_return) for s in run.segments], users)
    return np.diff(total, prepend=0.0) / np.diff(users, prepend=0)


def _deviation(values: Array) -> Array:
    """The standard deviation over seeds (axis 0); equal up to rounding is equal."""
    spread: Array = values.std(axis=0, ddof=1)
    return np.where(spread <= _ROUNDING * np.abs(values.mean(axis=0)), 0.0, spread)


def _cumulative(run: Run, per_user: list[float], users: Counts) -> Array:
    sizes = np.array([s.users for s in run.segments])
    total: Array = np.interp(users, _ends(run), np.concatenate([[0.0], np.cumsum(sizes * np.array(per_user))]))
    return total


def _of_segment(run: Run, per_segment: list[float], users: Counts) -> Array:
    values: Array = np.array(per_segment)[np.searchsorted(_ends(run)[1:], users, side="left")]
    return values


def _ends(run: Run) -> Counts:
    return np.concatenate([[0], np.cumsum([s.users for s in run.segments], dtype=np.int64)])


def _number(value: float | None) -> float:
    return math.nan if value is None else value
