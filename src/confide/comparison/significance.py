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
    checked,
    difference,
    paired_differences,
    without_rounding,
)
from confide.errors import InvalidParameter

_EXACT = 2**16  # arrangements of signs or labels: up to here all of them, beyond a random choice
_ARRANGEMENTS = 9999  # of a random choice


@dataclass(frozen=True, slots=True)
class Compared:
    """Two samples of one group. The interval is for this pair alone; `adjusted` is corrected for all pairs of all groups."""

    group: str
    first: str
    second: str
    difference: Interval  # first minus second
    paired: bool
    p: float
    adjusted: float  # by Holm
    # that `adjusted` could be with so few seeds and so many pairs, however clear the difference
    smallest: float
    level: float

    @property
    def possible(self) -> bool:
        """Whether so few seeds could show anything at all."""
        return self.smallest <= 1 - self.level + 1e-12

    @property
    def significant(self) -> bool:
        return self.adjusted <= 1 - self.level + 1e-12

    def __str__(self) -> str:
        said = (
            f"{self.first} - {self.second}: {self.difference}, p = {self.adjusted:.2g} after Holm"
        )
        return said if self.possible else f"{said}; cannot be significant with so few seeds"


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

    Samples of the same seeds are paired, because a seed decides the world's randomness for both; without `seeds`, samples of the same
    length are of the same seeds in the same order. The p-value of pairs is that of flipping signs, exact where a difference d is as
    likely as -d; of others that of exchanging labels, with Welch's statistic, exact where both have one distribution. All arrangements are
    tried where they are few. Where only the means are equal and the shapes are not, false alarms are more (measured in the tests).

    n pairs have 2^n arrangements, so no p-value is under 2 / 2^n, and five seeds show nothing at 5 %. `paired=False` gives up what a seed
    has in common for 2 / C(2n, n); it errs on the safe side unless seeds move the two in opposite directions.
    """
    check_level(level)
    rng = np.random.default_rng(SEED) if rng is None else rng
    made = []
    for group, samples in groups.items():
        values = {
            name: checked(sample, f"the sample {name}", 1) for name, sample in samples.items()
        }
        if against is not None and against not in values:
            raise InvalidParameter.of(
                "against", f"must be one of {', '.join(values)}, got {against!r}"
            )
        pairs = (
            itertools.combinations(values, 2)
            if against is None
            else ((name, against) for name in values if name != against)
        )
        for first, second in pairs:
            known = (
                None
                if seeds is None
                else (_seeds_of(seeds, group, first), _seeds_of(seeds, group, second))
            )
            one, other, together = _aligned(values[first], values[second], known, paired)
            p, smallest = (
                _sign_flips(one, other, rng) if together else _label_swaps(one, other, rng)
            )
            seen = difference(
                one, other, paired=together, level=level, resamples=resamples, rng=rng
            )
            made.append((group, first, second, seen, together, p, smallest))
    adjusted, floors = holm([row[5] for row in made]), holm([row[6] for row in made])
    return tuple(
        Compared(*row[:6], adjusted=float(a), smallest=float(f), level=level)
        for row, a, f in zip(made, adjusted, floors, strict=True)
    )


def holm(p_values: Sequence[float]) -> Array:
    """P-values that keep the chance of any false alarm among all of them, whatever their dependence (Holm's step-down)."""
    p = np.asarray(p_values, dtype=float)
    order, m = np.argsort(p, kind="stable"), len(p)
    adjusted = np.empty(m)
    adjusted[order] = np.minimum(np.maximum.accumulate(p[order] * np.arange(m, 0, -1)), 1.0)
    return adjusted


def _seeds_of(
    seeds: Mapping[str, Mapping[str, Sequence[int]]], group: str, name: str
) -> Sequence[int]:
    if name not in seeds.get(group, {}):
        raise InvalidParameter(f"seeds must name those of every sample, got none for {name}")
    return seeds[group][name]


def _aligned(
    first: Array,
    second: Array,
    seeds: tuple[Sequence[int], Sequence[int]] | None,
    paired: bool | None,
) -> tuple[Array, Array, bool]:
    """Both in the order of their seeds, and whether they go together."""
    if seeds is None:
        return first, second, len(first) == len(second) if paired is None else paired
    for values, own in zip((first, second), seeds, strict=True):
        if len(set(own)) != len(values) or len(own) != len(values):
            raise InvalidParameter.of(
                "seeds",
                f"must be as many different numbers as the sample has values, {len(values)}, got {len(own)}",
            )
    same = set(seeds[0]) == set(seeds[1])
    if paired and not same:
        raise InvalidParameter(
            "paired samples must be of the same seeds, got others: pass paired=False"
        )
    return (
        first[np.argsort(seeds[0])],
        second[np.argsort(seeds[1])],
        same if paired is None else paired,
    )


def _sign_flips(first: Array, second: Array, rng: np.random.Generator) -> tuple[float, float]:
    """The two-sided p-value of paired differences, and the smallest that so many could have."""
    differences = paired_differences(first, second)
    n = len(differences)
    exact = 2**n <= _EXACT
    if exact:
        # the first row is what was seen
        signs = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
    else:
        signs = np.vstack([np.ones(n), rng.choice([-1.0, 1.0], size=(_ARRANGEMENTS, n))])
    statistic = np.abs(signs @ differences)
    return _tail(statistic), max(2.0 ** (1 - n), 0.0 if exact else 1 / len(statistic))


def _label_swaps(first: Array, second: Array, rng: np.random.Generator) -> tuple[float, float]:
    """The two-sided p-value of Welch's statistic under exchange of labels, and the smallest that so many could have."""
    pooled, n, m = np.concatenate([first, second]), len(first), len(second)
    if min(n, m) < 2:  # one number has no variance
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
    mask = np.zeros((len(chosen), n + m))
    np.put_along_axis(mask, chosen, 1.0, axis=1)
    means = mask @ pooled / n, (1 - mask) @ pooled / m
    squares = mask @ pooled**2 - n * means[0] ** 2, (1 - mask) @ pooled**2 - m * means[1] ** 2
    error = np.sqrt(
        np.maximum(squares[0], 0) / (n * (n - 1)) + np.maximum(squares[1], 0) / (m * (m - 1))
    )
    gap = without_rounding(np.abs(means[0] - means[1]), 1.0)
    # under that it is rounding: samples without any variance of their own
    statistic = gap / np.maximum(error, 1e-6)
    return _tail(statistic), smallest


@functools.lru_cache(maxsize=4)
def _choices(of: int, size: int) -> npt.NDArray[np.int64]:
    """All ways to choose, in lexicographic order: the first is what was seen."""
    return np.array(list(itertools.combinations(range(of), size)), dtype=np.int64)


def _tail(statistic: Array) -> float:
    """The share of arrangements at least as extreme as the first, which is what was seen; ties up to rounding count."""
    return float(np.mean(statistic >= statistic[0] * (1 - 1e-9)))
