"""A tape of everything that is noised: it is recorded in one run, and gives a run on other data the same releases."""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.mechanisms.additive import AdditiveNoise
from confide.mechanisms.sources import FastSource, Shape
from confide.privacy.bounded import Array

Place = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Noised:
    """What was noised once. PRIVATE but for `noisy`."""

    level: AdditiveNoise
    exact: Array
    noisy: Array


class Tape:
    """Everything that one run noises, by the source that it came from. With an `original`, its releases take the place of new ones."""

    def __init__(self, original: "Tape | None" = None) -> None:
        self._original = original
        self.noised: dict[Place, list[Noised]] = {}
        self.draws = 0  # of noise, whoever drew it

    def kinds(self) -> list[tuple[Place, AdditiveNoise, tuple[int, ...]]]:
        """How many releases there were, of which shape and with which noise. Public."""
        return [(place, one.level, one.noisy.shape) for place, each in self.noised.items() for one in each]

    @property
    def own_draws(self) -> int:
        """Draws that no privatizer of the library made: what became of them cannot be replayed."""
        return self.draws - sum(one.level.distribution != "none" for each in self.noised.values() for one in each)

    def take(self, place: Place, level: AdditiveNoise, exact: npt.NDArray[Any], noisy: Array) -> Array:
        mine = self.noised.setdefault(place, [])
        if self._original is not None:
            first = self._original.noised.get(place, [])[len(mine) : len(mine) + 1]
            if first and first[0].level == level and first[0].noisy.shape == noisy.shape:
                noisy = first[0].noisy
        real = exact * (level.step or 1.0)
        mine.append(Noised(level, np.array(real, dtype=float), np.array(noisy, dtype=float)))
        return mine[-1].noisy.copy()

    def shift(self, other: "Tape") -> tuple[float, float]:
        """How far apart the exact values of two runs are, in units of their noise, over all releases: (mu, epsilon).

        With the same releases this is what the Gaussian (the Laplace) noise gives away between the two data sets: it must not exceed the
        loss that is stated.
        """
        squared = absolute = 0.0
        for place, mine in self.noised.items():
            for one, two in zip(mine, other.noised.get(place, []), strict=False):
                if one.level.scale > 0 and one.exact.shape == two.exact.shape:
                    apart = (one.exact - two.exact) / one.level.scale
                    if one.level.distribution == "gaussian":
                        squared += float((apart**2).sum())
                    else:
                        absolute += float(np.abs(apart).sum())
        return math.sqrt(squared), absolute


class TapedSource(FastSource):
    """Fast noise on a tape. Its forks and devices have places of their own on it."""

    def __init__(self, rng: np.random.Generator, tape: Tape, place: Place = ()) -> None:
        super().__init__(rng)
        self._tape, self._place, self._children = tape, place, 0

    def gaussian(self, scale: float, shape: Shape) -> Array:
        self._tape.draws += 1
        return super().gaussian(scale, shape)

    def laplace(self, scale: float, shape: Shape) -> Array:
        self._tape.draws += 1
        return super().laplace(scale, shape)

    def fork(self) -> "TapedSource":
        return self._child(super().fork())

    def device(self) -> "TapedSource":
        return self._child(super().device())

    def _child(self, made: FastSource) -> "TapedSource":
        self._children += 1
        return TapedSource(made._rng, self._tape, (*self._place, self._children))

    def instead(self, level: AdditiveNoise, exact: npt.NDArray[Any], noisy: Array) -> Array:
        return self._tape.take(self._place, level, exact, noisy)
