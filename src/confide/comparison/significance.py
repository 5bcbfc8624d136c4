"""Whether samples of a few seeds differ: permutation tests, corrected for their number."""

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.comparison.intervals import (
    RESAMPLES,
    SEED,
    Array,
    Interval,
    check_level,
    check_sample,
    difference,
    paired_differences,
    without_rounding,
)
from confide.errors import InvalidParameter

# Up to so many arrangements of signs or labels are all tried. A matter of time.
_EXACT = 2**16
# Beyond that, so many random ones are.
_ARRANGEMENTS = 9999
# Adjusted p-values may be above the level by this much because of rounding.
_SLACK = 1e-12


@dataclass(frozen=True, slots=True)
class Compared:
    """Two samples of one group.

    The interval is for this pair alone. `adjusted` is corrected for all pairs of all groups.
    """

    group: str
    first: str
    second: str
    # First minus second.
    difference: Interval
    paired: bool
    p: float
    # By Holm.
    adjusted: float
    # The smallest `adjusted` with so few seeds and so many pairs, however clear the difference.
    smallest: float
    level: float

    @property
    def possible(self) -> bool:
        """Whether so few seeds could show anything at all."""
        return self.smallest <= 1 - self.level + _SLACK

    @property
    def significant(self) -> bool:
        return self.adjusted <= 1 - self.level + _SLACK

    def __str__(self) -> str:
        p = f"p = {self.adjusted:.2g} after Holm"
        text = f"{self.first} - {self.second}: {self.difference}, {p}"
        return text if self.possible else f"{text}; cannot be significant with so few seeds"


def compare_all(
    samples: Mapping[str, npt.ArrayLike],
    *,
    seeds: Mapping[str, Sequence[int]] | None = None,
    against: str | None = None,
    paired: bool | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    rng: np.random.Generator | None = None,
) -> tuple[Compared, ...]:
    """All pairs of samples (or each with the one named by `against`): see `compare_groups`."""
    return compare_groups(
        {"": samples},
        seeds=None if seeds is None else {"": seeds},
        against=against,
        paired=paired,
        level=level,
        resamples=resamples,
        rng=rng,
    )


def compare_groups(
    groups: Mapping[str, Mapping[str, npt.ArrayLike]],
    *,
    seeds: Mapping[str, Mapping[str, Sequence[int]]] | None = None,
    against: str | None = None,
    paired: bool | None = None,
    level: float = 0.95,
    resamples: int = RESAMPLES,
    rng: np.random.Generator | None = None,
) -> tuple[Compared, ...]:
    """Pairs within each group (a problem), corrected over all of them together.

    Samples of the same seeds are paired, because a seed decides the randomness of the problem for
    both. Without `seeds`, samples of the same length are of the same seeds in the same order.

    The p-value of paired samples is that of flipping signs. It is exact where a difference d is as
    likely as -d. The p-value of other samples is that of exchanging labels, with Welch's statistic.
    It is exact where both have one distribution. All arrangements are tried if they are few. Where
    only the means are equal and the shapes are not, there are more false alarms (measured in the
    tests).

    n pairs have 2^n arrangements, so no p-value is below 2 / 2^n, and five seeds show nothing at
    5 %. `paired=False` gives up what a seed has in common for 2 / C(2n, n). It errs on the safe
    side unless seeds move the two in opposite directions.
    """
    check_level(level)
    rng = np.random.default_rng(SEED) if rng is None else rng
    tests = []
    for group, samples in groups.items():
        values = {
            name: check_sample(sample, f"the sample {name}", 1) for name, sample in samples.items()
        }
        for first, second in _pairs(values, against):
            seeds_of_both = None
            if seeds is not None:
                seeds_of_both = (_seeds_of(seeds, group, first), _seeds_of(seeds, group, second))
            one, other, is_paired = _align(values[first], values[second], seeds_of_both, paired)
            test = _sign_flips if is_paired else _label_swaps
            p, smallest = test(one, other, rng)
            gap = difference(
                one, other, paired=is_paired, level=level, resamples=resamples, rng=rng
            )
            tests.append((group, first, second, gap, is_paired, p, smallest))
    adjusted = holm([test[5] for test in tests])
    smallest_adjusted = holm([test[6] for test in tests])
    return tuple(
        Compared(*test[:6], adjusted=float(p), smallest=float(smallest), level=level)
        for test, p, smallest in zip(tests, adjusted, smallest_adjusted, strict=True)
    )


def _pairs(values: Mapping[str, Array], against: str | None) -> list[tuple[str, str]]:
    """All pairs of samples, or each with the one named by `against`."""
    if against is None:
        return list(itertools.combinations(values, 2))
    if against not in values:
        raise InvalidParameter.of("against", f"must be one of {', '.join(values)}, got {against!r}")
    return [(name, against) for name in values if name != against]


def holm(p_values: Sequence[float]) -> Array:
    """P-values adjusted by Holm's step-down method.

    They keep the chance of any false alarm among all of them, whatever their dependence.
    """
    p = np.asarray(p_values, dtype=float)
    order = np.argsort(p, kind="stable")
    m = len(p)
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(m, 0, -1)), 1.0)
    return adjusted


def _seeds_of(
    seeds: Mapping[str, Mapping[str, Sequence[int]]], group: str, name: str
) -> Sequence[int]:
    if name not in seeds.get(group, {}):
        raise InvalidParameter(f"seeds must name those of every sample, got none for {name}")
    return seeds[group][name]


def _align(
    first: Array,
    second: Array,
    seeds: tuple[Sequence[int], Sequence[int]] | None,
    paired: bool | None,
) -> tuple[Array, Array, bool]:
    """Both samples in the order of their seeds, and whether they are paired."""
    if seeds is None:
        return first, second, len(first) == len(second) if paired is None else paired
    for values, own in zip((first, second), seeds, strict=True):
        if len(set(own)) != len(values) or len(own) != len(values):
            raise InvalidParameter.of(
                "seeds",
                "must be as many different numbers as the sample has values, "
                f"{len(values)}, got {len(own)}",
            )
    same = set(seeds[0]) == set(seeds[1])
    if paired and not same:
        raise InvalidParameter(
            "paired samples must be of the same seeds, got others: pass paired=False"
        )
    is_paired = same if paired is None else paired
    return first[np.argsort(seeds[0])], second[np.argsort(seeds[1])], is_paired


def _sign_flips(first: Array, second: Array, rng: np.random.Generator) -> tuple[float, float]:
    """The two-sided p-value of paired differences, and the smallest that so many could have."""
    differences = paired_differences(first, second)
    n = len(differences)
    exact = 2**n <= _EXACT
    if exact:
        # The first row is the arrangement that was observed.
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = np.vstack([np.ones(n), rng.choice([-1.0, 1.0], size=(_ARRANGEMENTS, n))])
    statistic = np.abs(signs @ differences)
    return _tail(statistic), max(2.0 ** (1 - n), 0.0 if exact else 1 / len(statistic))


def _label_swaps(first: Array, second: Array, rng: np.random.Generator) -> tuple[float, float]:
    """The two-sided p-value of Welch's statistic under exchange of labels.

    The other number is the smallest p-value that so many seeds could have.
    """
    pooled = np.concatenate([first, second])
    n = len(first)
    m = len(second)
    if min(n, m) < 2:
        # One number has no variance.
        return 1.0, 1.0
    count = math.comb(n + m, n)
    exact = count <= _EXACT
    smallest = max((2 if n == m else 1) / count, 0.0 if exact else 1 / (1 + _ARRANGEMENTS))
    scale = float(without_rounding(pooled.std(), np.abs(pooled).max()))
    if scale == 0:
        return 1.0, smallest
    pooled = (pooled - pooled.mean()) / scale
    if exact:
        chosen = _choices(n + m, n)
    else:
        shuffled = rng.permuted(np.tile(np.arange(n + m), (_ARRANGEMENTS, 1)), axis=1)[:, :n]
        chosen = np.vstack([np.arange(n), shuffled])
    # [arrangement, number]: 1 for the numbers of the first sample.
    mask = np.zeros((len(chosen), n + m))
    np.put_along_axis(mask, chosen, 1.0, axis=1)
    first_mean = mask @ pooled / n
    second_mean = (1 - mask) @ pooled / m
    first_squares = mask @ pooled**2 - n * first_mean**2
    second_squares = (1 - mask) @ pooled**2 - m * second_mean**2
    first_variance = np.maximum(first_squares, 0) / (n * (n - 1))
    second_variance = np.maximum(second_squares, 0) / (m * (m - 1))
    error = np.sqrt(first_variance + second_variance)
    gap = without_rounding(np.abs(first_mean - second_mean), 1.0)
    # Samples without any variance of their own have an error of nothing but rounding.
    statistic = gap / np.maximum(error, 1e-6)
    return _tail(statistic), smallest


@functools.lru_cache(maxsize=4)
def _choices(of: int, size: int) -> npt.NDArray[np.int64]:
    """All ways to choose, in lexicographic order. The first is the one that was observed."""
    return np.array(list(itertools.combinations(range(of), size)), dtype=np.int64)


def _tail(statistic: Array) -> float:
    """The share of arrangements that are at least as extreme as the first, the observed one.

    Ties up to rounding count.
    """
    return float(np.mean(statistic >= statistic[0] * (1 - 1e-9)))
