"""A tape of everything that is noised: it is recorded in one run, and gives a run on other data the same releases."""

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
    """Everything that one run noises, by the source that it came from. With an `original`, its releases take the place of new ones."""

    def __init__(self, original: "Tape | None" = None) -> None:
        self._original = original
        self.noised: dict[Place, list[Noised]] = {}
        self.draws = 0  # of noise, whoever drew it
        self.stated = True  # whether there is a guarantee: then nothing is released without noise

    def kinds(self) -> list[tuple[Place, AdditiveNoise | DrawnIndex, tuple[int, ...]]]:
        """How many releases there were, of which shape and with which noise. Public."""
        return [
            (place, one.level, one.noisy.shape)
            for place, each in self.noised.items()
            for one in each
        ]

    @property
    def own_draws(self) -> int:
        """Draws that no privatizer of the library made: what became of them cannot be replayed."""
        return self.draws - sum(
            one.level.distribution != "none" for each in self.noised.values() for one in each
        )

    def take(
        self, place: Place, level: AdditiveNoise | DrawnIndex, exact: npt.NDArray[Any], noisy: Array
    ) -> Array:
        mine = self.noised.setdefault(place, [])
        if self._original is not None:
            first = self._original.noised.get(place, [])[len(mine) : len(mine) + 1]
            free = level.distribution == "none" or not level.scale > 0
            if (
                first
                and first[0].level == level
                and first[0].noisy.shape == noisy.shape
                and not (free and self.stated)
            ):
                noisy = first[0].noisy
        real = exact * (level.step or 1.0)
        mine.append(Noised(level, np.array(real, dtype=float), np.array(noisy, dtype=float)))
        return mine[-1].noisy.copy()

    def of_source(self, child: int) -> "Tape":
        """What came from one of the first source's forks."""
        made = Tape()
        made.noised = {place: each for place, each in self.noised.items() if place[:1] == (child,)}
        return made

    def shift(self, other: "Tape") -> tuple[float, float]:
        """How far apart the exact values of two runs are, in units of their noise, over all releases: (mu, epsilon).

        With the same releases this is what the Gaussian (the Laplace) noise gives away between the two data sets: it must not exceed the
        loss that is stated.
        """
        squared = absolute = 0.0
        if self.stated and not all(
            _equal(one, two) for one, two in self._pairs(other, noisy=False)
        ):
            return math.inf, math.inf
        for one, two in self._pairs(other):
            if isinstance(one.level, DrawnIndex):
                absolute += (
                    one.level.codebook.epsilon
                    * (one.level.near(one.exact) != one.level.near(two.exact)).any()
                )
                continue
            apart = (one.exact - two.exact) / one.level.scale
            if one.level.distribution == "gaussian":
                squared += float((apart**2).sum())
            else:
                absolute += _size(one.level, apart)
        return math.sqrt(squared), absolute

    def likelihood(self, other: "Tape") -> float:
        """How much more likely these releases are for the data of `other` than for those of this run: the logarithm of the ratio.

        `other` must be a run with the same releases. No test tells two data sets apart better than one of this number, if the noise is
        what it is said to be.
        """
        found = 0.0
        for one, two in self._pairs(other):
            if isinstance(one.level, DrawnIndex):
                found += one.level.log_ratio(int(one.noisy[0, 0]), one.exact, two.exact)
                continue
            mine, others = (
                (one.noisy - exact) / one.level.scale for exact in (one.exact, two.exact)
            )
            if one.level.distribution == "gaussian":
                found += float((mine**2 - others**2).sum()) / 2
            else:
                found += _size(one.level, mine) - _size(one.level, others)
        return found

    def same(self, other: "Tape") -> bool:
        """Whether the exact values are those of another run."""
        mine, others = (list(tape.noised.items()) for tape in (self, other))
        return len(mine) == len(others) and all(
            place == its and len(each) == len(theirs) and all(map(_equal, each, theirs))
            for (place, each), (its, theirs) in zip(mine, others, strict=True)
        )

    def _pairs(self, other: "Tape", *, noisy: bool = True) -> Iterator[tuple[Noised, Noised]]:
        """What was released with noise in both runs, or without."""
        for place, mine in self.noised.items():
            for one, two in zip(mine, other.noised.get(place, []), strict=False):
                if (one.level.scale > 0) == noisy and one.exact.shape == two.exact.shape:
                    yield one, two


def _size(level: AdditiveNoise, rows: Array) -> float:
    """In the norm of noise that is pure: minus the logarithm of its density, row by row."""
    order = {"laplace": 1, "cube": np.inf, "ball": 2}[level.distribution]
    return float(np.linalg.norm(np.atleast_2d(rows), order, axis=-1).sum())


def _equal(one: Noised, other: Noised) -> bool:
    return np.array_equal(one.exact, other.exact)


class TapedSource:
    """A source of noise on a tape. Its forks and devices have places of their own on it."""

    def __init__(self, inner: NoiseSource, tape: Tape, place: Place = ()) -> None:
        self._inner, self._tape, self._place, self._children = inner, tape, place, 0
        self.name, self.discrete = inner.name, inner.discrete

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

    def _child(self, made: NoiseSource) -> "TapedSource":
        self._children += 1
        return TapedSource(made, self._tape, (*self._place, self._children))

    def instead(
        self, level: AdditiveNoise | DrawnIndex, exact: npt.NDArray[Any], noisy: Array
    ) -> Array:
        return self._tape.take(self._place, level, exact, noisy)
