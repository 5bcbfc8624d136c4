"""Reports by a public codebook [Isik23]: a device says which of N public vectors is near its contribution, and lies by chance.

A nonce that is part of the message gives N = 1024 Gaussian vectors of R^(size + 1), the same on the device and on the server: the raw
output of the counter-based generator Philox-4x64-10 with the nonce as its key, by Box and Muller's transform. Vector i is made from
`width` 32-bit numbers, size + 1 rounded up to a multiple of eight (a block of the generator), of which the upper 24 bits are used; they
are computed in single precision, whose error of 1e-7 counts for nothing beside the noise. Nothing else of NumPy's generators is used: they
may change from version to version.
"""

import math
import threading
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import real, whole
from confide.errors import InvalidParameter
from confide.mechanisms.sources import NoiseSource
from confide.privacy.loss import PureDP
from confide.privacy.request import Relation

if TYPE_CHECKING:
    from confide.privacy.bounded import Bound

Array = npt.NDArray[np.float64]
VECTORS = 1024
COORDINATES = 2**14  # of a contribution, at most: a device makes 1024 vectors of this length
_AT_ONCE = 2**15  # numbers in memory: what a cache holds is faster


@dataclass(frozen=True, slots=True)
class Codebook:
    """The k-closest mechanism: one of `vectors` indices, those of the `nearest` vectors e^epsilon times as likely as the others.

    Guarantee: epsilon-DP for two arbitrary contributions. The set C of the nearest vectors has exactly n = `nearest` members for every
    contribution and every codebook, so an index has probability 1/Q in C and e^-epsilon / Q outside, with the same Q = n + (N - n)
    e^-epsilon for all contributions. The index is drawn with whole numbers alone (`NoiseSource.choose`). Floating point decides which
    vectors are called near, and so the accuracy; no bound on the contribution and no property of the codebook is needed for privacy.

    Decoding: a contribution is divided by `radius`, its largest norm, and padded by one coordinate to a unit vector v. The products z_i.v
    are independent N(0, 1) variables for every v, and what is orthogonal to v is independent of them. So E z_I = `gain` v, and
    `radius` z_I / gain is unbiased. Its error is exactly Gaussian with standard deviation radius / gain orthogonal to v; along v its
    variance is another one (`along`), and `std` is the root of the mean over all coordinates.
    """

    size: int  # coordinates of a contribution
    radius: float
    epsilon: float
    nearest: int
    vectors: int = VECTORS

    distribution: ClassVar[str] = "codebook"
    norm: ClassVar[int | str] = 2  # of `radius`

    def __post_init__(self) -> None:
        whole("size", self.size, at_least=1, at_most=COORDINATES)
        real("radius", self.radius, above=0), real("epsilon", self.epsilon, above=0)
        whole("vectors", self.vectors, at_least=2, at_most=VECTORS)
        whole("nearest", self.nearest, at_least=1, at_most=self.vectors - 1)

    def loss(self) -> PureDP:
        return PureDP(self.epsilon)

    @property
    def parameters(self) -> dict[str, float]:
        """For a certificate."""
        return {
            "vectors": self.vectors,
            "nearest": self.nearest,
            "epsilon": self.epsilon,
            "dimension": self.size,
        }

    @property
    def gain(self) -> float:
        """E z_I . v, of the vector that is sent."""
        return float(_gains(self.vectors, self.epsilon)[self.nearest - 1])

    @property
    def along(self) -> float:
        """The variance of a decoded message along the contribution, in units of radius^2; elsewhere it is 1 / gain^2."""
        _, squares = _order_sums(self.vectors)
        lied = math.exp(-self.epsilon)
        inside, total = (
            float(squares[self.nearest - 1]),
            self.nearest + (self.vectors - self.nearest) * lied,
        )
        return (inside + lied * (self.vectors - inside)) / total / self.gain**2 - 1

    @property
    def std(self) -> float:
        """Of a decoded message, on each coordinate."""
        return self.radius * math.sqrt((self.size / self.gain**2 + self.along) / (self.size + 1))

    def near(self, values: Array, nonce: bytes) -> npt.NDArray[np.bool_]:
        """Whether a vector [i] is one of the nearest of this contribution; of equally near ones the first."""
        unit = values / self.radius
        padded = np.append(unit, math.sqrt(max(0.0, 1.0 - float(unit @ unit)))).astype(np.float32)
        rows = max(1, _AT_ONCE // self._width)
        edges = range(0, self.vectors, rows)
        products = np.concatenate(
            [self._rows(nonce, a, min(a + rows, self.vectors)) @ padded for a in edges]
        )
        found = np.zeros(self.vectors, dtype=bool)
        found[np.argsort(-products, kind="stable")[: self.nearest]] = True
        return found

    def draw(self, values: Array, nonce: bytes, source: NoiseSource) -> int:
        return _drawn(self, values, nonce, source)

    def decode(self, index: int, nonce: bytes) -> Array:
        """An unbiased estimate of the contribution."""
        whole("index", index, at_least=0, at_most=self.vectors - 1)
        return self._rows(nonce, index, index + 1)[0, :-1].astype(float) * (self.radius / self.gain)

    @property
    def _width(self) -> int:
        return -(-(self.size + 1) // 8) * 8

    def _rows(self, nonce: bytes, start: int, stop: int) -> npt.NDArray[np.float32]:
        """Vectors start to stop [i, size + 1]."""
        one, half = np.float32(1), self._width // 2
        bits = _philox(nonce, start * self._width // 8)
        raw = bits.random_raw((stop - start) * half).astype("<u8", copy=False).view(
            "<u4"
        ) >> np.uint32(8)
        even = raw.astype(np.float32).reshape(stop - start, 2, half)
        length = np.sqrt(np.float32(-2) * np.log((even[:, 0] + one) * np.float32(2.0**-24)))
        angle = even[:, 1] * np.float32(2.0**-23 * math.pi)
        return np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)[
            :, : self.size + 1
        ]


_GENERATORS = threading.local()


def _philox(nonce: bytes, counter: int) -> np.random.Philox:
    """Philox(key, counter), from one generator of this thread: a new one asks the system for a seed that nobody needs."""
    if not hasattr(_GENERATORS, "philox"):
        _GENERATORS.philox = np.random.Philox(0)
    made: np.random.Philox = _GENERATORS.philox
    high, low = divmod(int.from_bytes(nonce), 2**64)
    made.state = {
        "bit_generator": "Philox",
        "state": {
            "counter": np.array([counter, 0, 0, 0], dtype=np.uint64),
            "key": np.array([low, high], dtype=np.uint64),
        },
        "buffer": np.zeros(4, dtype=np.uint64),
        "buffer_pos": 4,
        "has_uint32": 0,
        "uinteger": 0,
    }
    return made


@dataclass(frozen=True, slots=True)
class SignReport:
    """The same mechanism with another book: all patterns of yes and no of `asked` coordinates, which the nonce picks.

    Each coordinate that is picked becomes a sign: v in [-radius, radius] is 1 with probability (1 + v / radius) / 2, by the nonce. The
    `nearest` patterns, those that differ from these signs in the fewest places, are e^epsilon times as likely as the others: with one of
    them this is randomized response. `nearest` counts whole levels, 1 + asked + asked (asked - 1) / 2 + ..., so that there are equally many
    for every contribution.

    Guarantee: epsilon-DP for two arbitrary contributions, by the count of `Codebook`: the book, which coordinates are picked and how they
    are rounded are functions of the nonce, which is drawn before anything that depends on the data.

    Decoding: a sign that is sent is right more often than wrong, E = `gain` x the sign, and a coordinate is picked with probability
    asked / size. `std` is of a coordinate that is 0; of one that is +-radius it is smaller.
    """

    size: int  # coordinates of a contribution
    radius: float  # of each coordinate
    epsilon: float
    asked: int
    nearest: int

    distribution: ClassVar[str] = "signs"
    norm: ClassVar[int | str] = "inf"

    def __post_init__(self) -> None:
        whole("size", self.size, at_least=1, at_most=COORDINATES)
        real("radius", self.radius, above=0), real("epsilon", self.epsilon, above=0)
        whole("asked", self.asked, at_least=1, at_most=min(self.size, VECTORS.bit_length() - 1))
        if whole("nearest", self.nearest, at_least=1) not in _levels(self.asked)[:-1]:
            raise InvalidParameter.of(
                "nearest", f"must be one of {_levels(self.asked)[:-1]}", got=f"{self.nearest}"
            )

    def loss(self) -> PureDP:
        return PureDP(self.epsilon)

    @property
    def parameters(self) -> dict[str, float]:
        """For a certificate."""
        return {
            "asked": self.asked,
            "nearest": self.nearest,
            "epsilon": self.epsilon,
            "dimension": self.size,
        }

    @property
    def gain(self) -> float:
        """E of a sign that is sent times the true one: (1 - e^-epsilon) sum over the nearest z of z.x / (asked Q)."""
        reach, lied = _levels(self.asked).index(self.nearest), math.exp(-self.epsilon)
        products = sum(
            math.comb(self.asked, wrong) * (self.asked - 2 * wrong) for wrong in range(reach + 1)
        )
        total = self.nearest + (2**self.asked - self.nearest) * lied
        return float(-math.expm1(-self.epsilon) * products / (self.asked * total))

    @property
    def std(self) -> float:
        """Of a decoded message, on each coordinate, at most."""
        return self.radius * math.sqrt(self.size / self.asked) / self.gain

    def near(self, values: Array, nonce: bytes) -> npt.NDArray[np.bool_]:
        """Whether a pattern [i] is one of the nearest: bit c of i is the sign of the c-th coordinate that is picked."""
        picked, even = self._picked(nonce)
        signs = values[picked] > (2 * even - 1) * self.radius
        wrong = (_patterns(self.asked) != signs).sum(axis=1)
        return np.asarray(wrong <= _levels(self.asked).index(self.nearest))

    def draw(self, values: Array, nonce: bytes, source: NoiseSource) -> int:
        return _drawn(self, values, nonce, source)

    def decode(self, index: int, nonce: bytes) -> Array:
        """An unbiased estimate of the contribution."""
        whole("index", index, at_least=0, at_most=2**self.asked - 1)
        found = np.zeros(self.size)
        signs = np.where(_patterns(self.asked)[index], 1.0, -1.0)
        found[self._picked(nonce)[0]] = signs * (self.radius * self.size / (self.asked * self.gain))
        return found

    def _picked(self, nonce: bytes) -> tuple[npt.NDArray[np.int64], Array]:
        """Which coordinates, and for each of them a number in [0, 1) that rounds it."""
        raw = _philox(nonce, 0).random_raw(self.size + self.asked)
        picked = np.argsort(raw[: self.size], kind="stable")[: self.asked].astype(np.int64)
        return picked, (raw[self.size :] >> np.uint64(11)).astype(np.float64) * 2.0**-53


Report = Codebook | SignReport


def _drawn(report: Report, values: Array, nonce: bytes, source: NoiseSource) -> int:
    """The index that is sent. The source of an audit reads it, and may put another one in its place."""
    index = source.choose(report.near(values, nonce), report.epsilon)
    instead = getattr(source, "instead", None)
    if instead is None:
        return index
    return int(instead(DrawnIndex(report, nonce), values[None], np.array([[float(index)]]))[0, 0])


@dataclass(frozen=True, slots=True)
class DrawnIndex:
    """One message's codebook: what an audit's tape knows of the index that was drawn. Public."""

    codebook: Report
    nonce: bytes
    distribution: ClassVar[str] = "codebook"
    step: ClassVar[None] = None

    @property
    def scale(self) -> float:
        return self.codebook.std

    def near(self, exact: Array) -> npt.NDArray[np.bool_]:
        return self.codebook.near(exact.ravel(), self.nonce)

    def log_ratio(self, index: int, one: Array, other: Array) -> float:
        """How much more likely the index is for the contribution `other` than for `one`: the logarithm of the ratio, exactly."""
        return self.codebook.epsilon * (int(self.near(other)[index]) - int(self.near(one)[index]))


def best_codebook(bound: "Bound", epsilon: float) -> Codebook:
    """The codebook report with the least noise for contributions within `bound`: `nearest` with the largest gain.

    The radius is the bound's sensitivity under the relation null: the largest norm of a contribution.
    """
    if bound.size > COORDINATES:
        raise InvalidParameter(
            f"a codebook report has at most {COORDINATES} coordinates, the bound has {bound.size}"
        )
    nearest = 1 + int(np.argmax(_gains(VECTORS, real("epsilon", epsilon, above=0))))
    return Codebook(bound.size, bound.sensitivity(Relation.NULL), epsilon, nearest)


def best_signs(bound: "Bound", epsilon: float) -> SignReport:
    """The report of signs with the least noise for contributions within `bound`: how many coordinates, and how many patterns are near."""
    real("epsilon", epsilon, above=0)
    most = min(bound.size, VECTORS.bit_length() - 1)
    made = [
        SignReport(bound.size, bound.largest, epsilon, asked, near)
        for asked in range(1, most + 1)
        for near in _levels(asked)[:-1]
    ]
    return min(made, key=lambda report: report.std)


def best_report(bound: "Bound", epsilon: float) -> Report:
    """By signs or by a codebook, whichever has less noise: signs for few numbers of which each may be large by itself."""
    signs, codebook = best_signs(bound, epsilon), best_codebook(bound, epsilon)
    return signs if signs.std < codebook.std else codebook


@lru_cache(maxsize=16)
def _levels(asked: int) -> list[int]:
    """How many patterns differ from one of them in at most 0, 1, ..., asked places."""
    return [sum(math.comb(asked, wrong) for wrong in range(most + 1)) for most in range(asked + 1)]


@lru_cache(maxsize=16)
def _patterns(asked: int) -> npt.NDArray[np.bool_]:
    """[pattern, coordinate]"""
    return np.asarray((np.arange(2**asked)[:, None] >> np.arange(asked)) & 1 == 1)


@lru_cache(maxsize=64)
def _gains(vectors: int, epsilon: float) -> Array:
    """E z_I . v for each number n = 1, ..., N - 1 of nearest vectors: (1 - e^-epsilon) sum_{i <= n} E z_(i) / Q."""
    sums, _ = _order_sums(vectors)
    n = np.arange(1, vectors)
    found: Array = -math.expm1(-epsilon) * sums[:-1] / (n + (vectors - n) * math.exp(-epsilon))
    return found


@lru_cache(maxsize=4)
def _order_sums(vectors: int) -> tuple[Array, Array]:
    """The sums over the n largest of N standard normal variables, n = 1, ..., N: (E of their sum, E of the sum of their squares).

    The density of the i-th largest is N phi(z) C(N - 1, i - 1) (1 - Phi(z))^(i - 1) Phi(z)^(N - i): integrated by the rule of
    trapezoids, whose error is that of rounding for such functions.
    """
    from scipy.special import gammaln, log_ndtr  # a device that only reports does not need it

    z = np.linspace(-9.0, 9.0, 1801)
    above, below = log_ndtr(-z), log_ndtr(z)
    ranks = np.arange(vectors)[:, None]
    ways = gammaln(vectors) - gammaln(ranks + 1) - gammaln(vectors - ranks)
    log_density = ways + ranks * above + (vectors - 1 - ranks) * below - z**2 / 2
    density = np.exp(log_density) * (vectors * (z[1] - z[0]) / math.sqrt(2 * math.pi))
    return np.cumsum(density @ z), np.cumsum(density @ z**2)
