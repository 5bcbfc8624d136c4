"""A tape of everything that is noised.

It is recorded in one run, and gives a run on other data the same releases. A tape holds exact
values: it is PRIVATE, and only digests and distances of it leave an audit.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.mechanisms.additive import AdditiveNoise
from confide.mechanisms.codebook import DrawnIndex
from confide.mechanisms.sources import NoiseSource, Shape
from confide.privacy.bounded import Array

Place = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Noised:
    """What was noised once. PRIVATE but for `noisy`."""

    level: AdditiveNoise | DrawnIndex
    exact: Array
    noisy: Array


class Tape:
    """Everything that one run noises, by the source that it came from.

    With an `original`, the releases of that tape take the place of new ones.
    """

    def __init__(self, original: "Tape | None" = None) -> None:
        self._original = original
        self.noised: dict[Place, list[Noised]] = {}
        # How often noise was drawn, whoever drew it.
        self.draws = 0
        # Whether a guarantee is stated. If so, nothing may be released without noise.
        self.stated = True

    def kinds(self) -> list[tuple[Place, AdditiveNoise | DrawnIndex, tuple[int, ...]]]:
        """How many releases there were, of which shape and with which noise. Public."""
        return [
            (place, release.level, release.noisy.shape)
            for place, releases in self.noised.items()
            for release in releases
        ]

    @property
    def own_draws(self) -> int:
        """How many draws no privatizer of the library made.

        What became of them cannot be replayed.
        """
        releases = [release for releases in self.noised.values() for release in releases]
        return self.draws - sum(release.level.distribution != "none" for release in releases)

    def take(
        self, place: Place, level: AdditiveNoise | DrawnIndex, exact: npt.NDArray[Any], noisy: Array
    ) -> Array:
        """Record a release. What is returned takes the place of the noisy value."""
        releases = self.noised.setdefault(place, [])
        if self._original is not None:
            originals = self._original.noised.get(place, [])
            noisy = self._replayed_value(originals[len(releases) : len(releases) + 1], level, noisy)
        real = exact * (level.step or 1.0)
        release = Noised(level, np.array(real, dtype=float), np.array(noisy, dtype=float))
        releases.append(release)
        return release.noisy.copy()

    def _replayed_value(
        self, originals: list[Noised], level: AdditiveNoise | DrawnIndex, noisy: Array
    ) -> Array:
        """The original release, if there is one of the same kind; otherwise the new one."""
        if not originals:
            return noisy
        original = originals[0]
        without_noise = level.distribution == "none" or not level.scale > 0
        if without_noise and self.stated:
            return noisy
        same_kind = original.level == level and original.noisy.shape == noisy.shape
        return original.noisy if same_kind else noisy

    def of_source(self, child: int) -> "Tape":
        """What came from one of the first source's forks."""
        part = Tape()
        part.noised = {
            place: releases for place, releases in self.noised.items() if place[:1] == (child,)
        }
        return part

    def shift(self, other: "Tape") -> tuple[float, float]:
        """How far apart the exact values of two runs are, over all releases: (mu, epsilon).

        The distance is in units of their noise. With the same releases it is what the Gaussian (the
        Laplace) noise gives away between the two data sets, and must not exceed the loss that is
        stated. It is infinite if the runs release different values without noise.
        """
        if self.stated and not self._same_without_noise(other):
            return math.inf, math.inf
        squared = 0.0
        absolute = 0.0
        for one, two in self._pairs(other):
            if isinstance(one.level, DrawnIndex):
                near_one = one.level.near(one.exact)
                near_two = one.level.near(two.exact)
                absolute += one.level.codebook.epsilon * (near_one != near_two).any()
                continue
            difference = (one.exact - two.exact) / one.level.scale
            if one.level.distribution == "gaussian":
                squared += float((difference**2).sum())
            else:
                absolute += _pure_norm(one.level, difference)
        return math.sqrt(squared), absolute

    def _same_without_noise(self, other: "Tape") -> bool:
        return all(
            _have_equal_values(one, two) for one, two in self._pairs(other, with_noise=False)
        )

    def likelihood(self, other: "Tape") -> float:
        """How much more likely these releases are for the data of `other` than for this run's.

        It is the logarithm of the ratio. `other` must be a run with the same releases. No test
        tells two data sets apart better than one of this number, if the noise is what it is said to
        be.
        """
        log_ratio = 0.0
        for one, two in self._pairs(other):
            if isinstance(one.level, DrawnIndex):
                log_ratio += one.level.log_ratio(int(one.noisy[0, 0]), one.exact, two.exact)
                continue
            noise = (one.noisy - one.exact) / one.level.scale
            other_noise = (one.noisy - two.exact) / one.level.scale
            if one.level.distribution == "gaussian":
                log_ratio += float((noise**2 - other_noise**2).sum()) / 2
            else:
                log_ratio += _pure_norm(one.level, noise) - _pure_norm(one.level, other_noise)
        return log_ratio

    def same(self, other: "Tape") -> bool:
        """Whether the exact values are those of another run."""
        if list(self.noised) != list(other.noised):
            return False
        return all(
            len(releases) == len(other.noised[place])
            and all(map(_have_equal_values, releases, other.noised[place]))
            for place, releases in self.noised.items()
        )

    def _pairs(self, other: "Tape", *, with_noise: bool = True) -> Iterator[tuple[Noised, Noised]]:
        """What both runs released with noise, or without."""
        for place, releases in self.noised.items():
            for one, two in zip(releases, other.noised.get(place, []), strict=False):
                if (one.level.scale > 0) == with_noise and one.exact.shape == two.exact.shape:
                    yield one, two


def _pure_norm(level: AdditiveNoise, rows: Array) -> float:
    """Minus the logarithm of the density of pure noise, row by row: its norm."""
    order = {"laplace": 1, "cube": np.inf, "ball": 2}[level.distribution]
    return float(np.linalg.norm(np.atleast_2d(rows), order, axis=-1).sum())


def _have_equal_values(one: Noised, other: Noised) -> bool:
    return np.array_equal(one.exact, other.exact)


class TapedSource:
    """A source of noise on a tape. Its forks and devices have places of their own on it."""

    def __init__(self, inner: NoiseSource, tape: Tape, place: Place = ()) -> None:
        self._inner = inner
        self._tape = tape
        self._place = place
        self._children = 0
        self.name = inner.name
        self.discrete = inner.discrete

    def gaussian(self, scale: float, shape: Shape) -> npt.NDArray[Any]:
        self._tape.draws += 1
        return self._inner.gaussian(scale, shape)

    def lattice_gaussian(self, scale: float, shape: Shape) -> npt.NDArray[np.int64]:
        self._tape.draws += 1
        return self._inner.lattice_gaussian(scale, shape)

    def cube(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[Any]:
        self._tape.draws += 1
        return self._inner.cube(scale, shape)

    def ball(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[Any]:
        self._tape.draws += 1
        return self._inner.ball(scale, shape)

    def choose(self, likely: npt.NDArray[np.bool_], loss: float) -> int:
        self._tape.draws += 1
        return self._inner.choose(likely, loss)

    def refresh(self) -> None:
        self._inner.refresh()

    def laplace(self, scale: float, shape: Shape) -> npt.NDArray[Any]:
        self._tape.draws += 1
        return self._inner.laplace(scale, shape)

    def state(self) -> dict[str, Any]:
        return self._inner.state()

    def restore(self, state: dict[str, Any]) -> None:
        self._inner.restore(state)

    def fork(self) -> "TapedSource":
        return self._child(self._inner.fork())

    def device(self) -> "TapedSource":
        return self._child(self._inner.device())

    def token(self, size: int) -> bytes:
        return self._inner.token(size)

    def _child(self, inner: NoiseSource) -> "TapedSource":
        self._children += 1
        return TapedSource(inner, self._tape, (*self._place, self._children))

    def instead(
        self, level: AdditiveNoise | DrawnIndex, exact: npt.NDArray[Any], noisy: Array
    ) -> Array:
        return self._tape.take(self._place, level, exact, noisy)
