"""Confidence bands, and intervals of means, differences, ratios and times to a goal, over a handful of seeds.

All take plain arrays with one row or number per seed, and a generator whose default is fixed: the same runs give the same report.

They are studentised bootstraps. A percentile bootstrap of n seeds never leaves what was seen, which holds the mean of three normal seeds in
75 % of cases and that of five in at most 94 %; the studentised one is free of this. Its resamples are smoothed by noise of one standard
error per seed, because resamples of three seeds are all one seed in 11 % of cases, and have no deviation then; and no side is shorter than
Student's, because heavy tails make it so. What cannot be negative (`positive=True`, and ratios) has its interval on the logarithmic scale:
its errors are skewed to the right. The coverages that were measured are in tests/comparison/test_intervals.py. No interval knows what no
seed showed: where one run in seven fails, five seeds show nothing of it in 46 % of cases.

An interval is for one number, a band for one point at a time: not for a whole curve at once.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter

Array = npt.NDArray[np.float64]

RESAMPLES = 5000
SEED = 0
# exact values are sums of rounded numbers: differences below this, relative, are none
_ROUNDING = 1e-9
_CHUNK = 256  # points at a time: memory


@dataclass(frozen=True, slots=True)
class Interval:
    """A number over seeds, and where it would lie with very many of them. One seed has no interval; seeds that all agree have one
    without width, which says that they agree and not that others would."""

    estimate: float
    low: float | None
    high: float | None
    error: float | None  # the standard error; of a ratio, that of its logarithm
    level: float
    seeds: int  # of the smaller sample, where there are two

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.estimate:.3g} (one seed: no interval)"
        if self.low == self.high:
            return f"{self.estimate:.3g} (the same in all {self.seeds} seeds)"
        return f"{self.estimate:.3g} ({percent(self.level)} interval {self.low:.3g} to {self.high:.3g}, {self.seeds} seeds)"


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """The mean curve over seeds and a confidence interval at each of its points; one seed has none."""

    mean: Array
    low: Array | None
    high: Array | None
    level: float
    seeds: int


@dataclass(frozen=True, slots=True)
class Reached:
    """After how many users half of the seeds had reached a goal. Infinite: not within the runs."""

    median: float
    low: float | None
    high: float | None
    # that the interval has: of fewer than six seeds even the first and the last to arrive have less than 95 %
    level: float
    reached: int
    seeds: int

    def __str__(self) -> str:
        missing = self.seeds - self.reached
        count = (
            f"not reached in {missing} of {self.seeds}"
            if missing
            else f"reached in all {self.seeds}"
        )
        if not self.reached:
            return count
        if self.low is None or self.high is None:
            return f"{_users(self.median)} (one seed: no interval)"
        return f"{_users(self.median)} ({percent(self.level)} interval {_users(self.low)} to {_users(self.high)}; {count})"


def band(
    curves: npt.ArrayLike,
    *,
    positive: bool = False,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    rng: np.random.Generator | None = None,
) -> Band:
    """The mean of `curves[seeds, points]` with its confidence band; `positive` where they cannot fall below zero, like regret."""
    values = checked(curves, "curves", 2)
    mean: Array = values.mean(axis=0)
    if positive and (values < 0).any():
        raise InvalidParameter(
            f"positive curves have no values below 0, got {values.min():.3g}: leave `positive` out"
        )
    if len(values) == 1:
        return Band(mean, None, None, level, 1)
    # of two, the logarithmic one would end at hundreds of times the mean
    if not positive or len(values) == 2:
        down, up, _ = margins([values], level, resamples, rng)
        return Band(
            mean,
            np.maximum(mean - down, 0.0) if positive else mean - down,
            mean + up,
            level,
            len(values),
        )
    relative = np.divide(values, mean, out=np.zeros_like(values), where=mean > 0)
    down, up, _ = margins([relative], level, resamples, rng)
    return Band(mean, mean * np.exp(-down), mean * np.exp(up), level, len(values))


def interval(
    samples: npt.ArrayLike,
    *,
    positive: bool = False,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    rng: np.random.Generator | None = None,
) -> Interval:
    """The mean of one number per seed, with its confidence interval; `positive` as for `band`."""
    values = checked(samples, "samples", 1)
    made = band(values[:, None], positive=positive, level=level, resamples=resamples, rng=rng)
    if made.low is None or made.high is None:
        return Interval(float(made.mean[0]), None, None, None, level, 1)
    error = float(_deviation(values[:, None])[0]) / math.sqrt(len(values))
    return Interval(
        float(made.mean[0]), float(made.low[0]), float(made.high[0]), error, level, len(values)
    )


def difference(
    first: npt.ArrayLike,
    second: npt.ArrayLike,
    *,
    paired: bool | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    rng: np.random.Generator | None = None,
) -> Interval:
    """The mean of `first` minus the mean of `second`. Paired: number i of both is of the same seed; None: if they are equally many."""
    one, other = checked(first, "first", 1), checked(second, "second", 1)
    pairs, seeds = pairing(len(one), len(other), paired), min(len(one), len(other))
    estimate = float(without_rounding(one.mean() - other.mean(), abs(one.mean())))
    if seeds == 1:
        return Interval(estimate, None, None, None, level, 1)
    groups = [paired_differences(one, other)[:, None]] if pairs else [one[:, None], -other[:, None]]
    down, up, error = (float(margin[0]) for margin in margins(groups, level, resamples, rng))
    return Interval(estimate, estimate - down, estimate + up, error, level, seeds)


def ratio(
    above: npt.ArrayLike,
    below: npt.ArrayLike,
    *,
    paired: bool | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    rng: np.random.Generator | None = None,
) -> Interval:
    """The mean of `above` over the mean of `below`: no mean of ratios, in which one lucky seed below the line decides. Paired as in
    `difference`."""
    top, bottom = checked(above, "above", 1), checked(below, "below", 1)
    pairs, seeds = pairing(len(top), len(bottom), paired), min(len(top), len(bottom))
    if top.mean() <= 0 or bottom.mean() <= 0:
        raise InvalidParameter(
            f"a ratio needs means above 0, got {top.mean():.3g} over {bottom.mean():.3g}: take the difference"
        )
    estimate = float(top.mean() / bottom.mean())
    if seeds == 1:
        return Interval(estimate, None, None, None, level, 1)
    one, other = _influence(top), _influence(bottom)
    groups = (
        [without_rounding(one - other, 1.0)[:, None]] if pairs else [one[:, None], -other[:, None]]
    )
    down, up, error = (float(margin[0]) for margin in margins(groups, level, resamples, rng))
    return Interval(
        estimate, estimate * math.exp(-down), estimate * math.exp(up), error, level, seeds
    )


def privacy_cost(
    private: npt.ArrayLike,
    free: npt.ArrayLike,
    *,
    paired: bool | None = None,
    level: float = 0.95,
    rng: np.random.Generator | None = None,
) -> Interval:
    """How many times the regret (or the users to a goal) of the same learner without privacy: 1 is no cost."""
    return ratio(private, free, paired=paired, level=level, rng=rng)


def episodes_to(reached: Sequence[float | None], *, level: float = 0.95) -> Reached:
    """When half of the seeds had got there, from each seed's own number (`Run.episodes_to`); None or infinity: never.

    A seed that never got there is later than all others, and is never left out. That is right where all runs are equally long: a run that
    was stopped early has not failed to get there. The interval lies between order statistics and holds for any distribution.
    """
    check_level(level)
    times = np.sort(np.array([math.inf if time is None else time for time in reached], dtype=float))
    if not len(times) or not (times > 0).all():  # nan, too
        raise InvalidParameter(
            "the time to a goal is a number of users above 0 per seed, or None for never, got none or another"
        )
    n, arrived = len(times), int(np.isfinite(times).sum())
    median = float(times[(n - 1) // 2])
    if n == 1:
        return Reached(median, None, None, level, arrived, 1)
    rank = max((r for r in range(1, n // 2 + 1) if _held(n, r) >= level), default=1)
    return Reached(
        median, float(times[rank - 1]), float(times[n - rank]), _held(n, rank), arrived, n
    )


def margins(
    groups: Sequence[Array], level: float, resamples: int, rng: np.random.Generator | None
) -> tuple[Array, Array, Array]:
    """How far the interval of a sum of independent groups' means reaches below and above it, and its standard error; per point.

    Each group is [seeds, points]. Either side is the quantile of the studentised error of smoothed resamples, or Student's if larger.
    """
    check_level(level)
    if resamples < 100:
        raise InvalidParameter.of("resamples", "must be at least 100", got=f"{resamples}")
    rng = np.random.default_rng(SEED) if rng is None else rng
    draws = [_draw(len(group), resamples, rng) for group in groups]
    down, up, errors = [], [], []
    for start in range(0, groups[0].shape[1], _CHUNK):
        columns = [group[:, start : start + _CHUNK] for group in groups]
        squared_errors = np.array([_deviation(values) ** 2 / len(values) for values in columns])
        moved, spread = np.zeros((1, 1)), np.zeros((1, 1))
        for values, squared, draw in zip(columns, squared_errors, draws, strict=True):
            mean, resampled = _resampled(values, np.sqrt(squared * len(values)), draw)
            moved, spread = moved + mean, spread + resampled
        studentised = np.divide(moved, np.sqrt(spread), out=np.zeros_like(moved), where=spread > 0)
        low, high = np.quantile(studentised, [(1 - level) / 2, (1 + level) / 2], axis=0)
        student = _student(squared_errors, [len(values) for values in columns], level)
        error = np.sqrt(squared_errors.sum(axis=0))
        down.append(np.maximum(high, student) * error)
        up.append(np.maximum(-low, student) * error)
        errors.append(error)
    return np.concatenate(down), np.concatenate(up), np.concatenate(errors)


def pairing(first: int, second: int, paired: bool | None) -> bool:
    """Whether two samples of these sizes go together seed by seed; None: if they can."""
    if paired and first != second:
        raise InvalidParameter(
            f"paired samples have one number each per seed, got {first} and {second}: pass paired=False"
        )
    return first == second if paired is None else paired


def paired_differences(first: Array, second: Array) -> Array:
    return without_rounding(first - second, np.maximum(np.abs(first), np.abs(second)))


def checked(values: npt.ArrayLike, what: str, dimensions: int) -> Array:
    """Finite numbers with at least one seed."""
    array = np.asarray(values, dtype=float)
    if array.ndim != dimensions or not array.size:
        shape = "one number per seed" if dimensions == 1 else "an array [seeds, points]"
        raise InvalidParameter(f"{what} must be {shape}, and not empty, got shape {array.shape}")
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array).reshape(len(array), -1).all(axis=1)).sum())
        raise InvalidParameter(
            f"{what} must be finite, got nan or infinity in {bad} of {len(array)}: unknown values have no statistics"
        )
    return array


def check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidParameter.of("level", "must be between 0 and 1", got=f"{level}")


def without_rounding(differences: npt.ArrayLike, scale: npt.ArrayLike) -> Array:
    """Zero where a difference of numbers of this size is nothing but rounding."""
    given = np.asarray(differences, dtype=float)
    return np.where(np.abs(given) <= _ROUNDING * np.asarray(scale), 0.0, given)


def percent(level: float) -> str:
    return f"{100 * level:.3g} %"


def _draw(n: int, resamples: int, rng: np.random.Generator) -> tuple[Array, Array, Array, Array]:
    """Resamples with noise, as sums: how often each seed is in, the noise it got there, all noise, and all squared noise."""
    slots = (rng.integers(n, size=(resamples, n)) + n * np.arange(resamples)[:, None]).ravel()
    # of one standard error, in units of the deviation
    noise: Array = rng.standard_normal((resamples, n)) / math.sqrt(n)
    times = np.bincount(slots, minlength=resamples * n).reshape(resamples, n).astype(float)
    noises: Array = (
        np.bincount(slots, weights=noise.ravel(), minlength=resamples * n)
        .reshape(resamples, n)
        .astype(float)
    )
    return times, noises, noise.sum(axis=1, keepdims=True), (noise**2).sum(axis=1, keepdims=True)


def _resampled(
    values: Array, deviation: Array, draw: tuple[Array, Array, Array, Array]
) -> tuple[Array, Array]:
    """Of each resample and point: how far its mean is from that of the values, and its squared standard error."""
    times, noises, noise, squares = draw
    n = len(values)
    scaled = np.divide(
        values - values.mean(axis=0), deviation, out=np.zeros_like(values), where=deviation > 0
    )
    mean = (times @ scaled + noise) / n
    variance = np.maximum(times @ scaled**2 + 2 * noises @ scaled + squares - n * mean**2, 0.0) / (
        n - 1
    )
    return mean * deviation, variance * deviation**2 / n


def _student(squared_errors: Array, sizes: Sequence[int], level: float) -> Array:
    """Student's quantile at each point, with Welch's degrees of freedom where there are several groups."""
    from scipy.special import stdtrit

    parts = np.sum(squared_errors**2 / (np.array(sizes)[:, None] - 1), axis=0)
    freedom = np.divide(
        squared_errors.sum(axis=0) ** 2,
        parts,
        out=np.full(parts.shape, min(sizes) - 1.0),
        where=parts > 0,
    )
    return np.asarray(stdtrit(freedom, (1 + level) / 2))


def _influence(values: Array) -> Array:
    """Of each seed on the logarithm of the mean: the jackknife's pseudo-values, centred. First-order ones are too small where one seed is
    much larger than the others, and intervals from them held 83 % instead of 92 %."""
    others = (values.sum() - values) / (len(values) - 1)
    if (others <= 0).any():
        raise InvalidParameter(
            f"a ratio needs means above 0, also without any one seed, got {others.min():.3g}: take the difference"
        )
    logs = np.log(others)
    return without_rounding((len(values) - 1) * (logs.mean() - logs), 1.0)


def _deviation(values: Array) -> Array:
    """The standard deviation over seeds (axis 0); equal up to rounding is equal."""
    return without_rounding(values.std(axis=0, ddof=1), np.abs(values.mean(axis=0)))


def _held(n: int, rank: int) -> float:
    """How surely the median lies between the rank-th of n and the rank-th from the end."""
    return float(1 - 2 * sum(math.comb(n, k) for k in range(rank)) / 2**n)


def _users(count: float) -> str:
    return f"{count:.0f}" if math.isfinite(count) else "never"
