"""Reports by a public codebook [Isik23]: a device says which of N public vectors is near its contribution, and lies by chance.

A nonce that is part of the message gives N = 1024 Gaussian vectors of R^(size + 1), the same on the device and on the server: the raw
output of the counter-based generator Philox-4x64-10 with the nonce as its key, by Box and Muller's transform. Vector i is made from
`width` 32-bit numbers, size + 1 rounded up to a multiple of eight (a block of the generator), of which the upper 24 bits are used; they
are computed in single precision, whose error of 1e-7 counts for nothing beside the noise. Nothing else of NumPy's generators is used: they
may change from version to version.
"""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, log_ndtr

from confide.arguments import real, whole
from confide.errors import InvalidParameter
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Array, Bound
from confide.privacy.loss import PureDP
from confide.privacy.request import Relation

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

    def __post_init__(self) -> None:
        whole("size", self.size, at_least=1, at_most=COORDINATES)
        real("radius", self.radius, above=0), real("epsilon", self.epsilon, above=0)
        whole("vectors", self.vectors, at_least=2, at_most=VECTORS)
        whole("nearest", self.nearest, at_least=1, at_most=self.vectors - 1)

    def loss(self) -> PureDP:
        return PureDP(self.epsilon)

    @property
    def gain(self) -> float:
        """E z_I . v, of the vector that is sent."""
        return float(_gains(self.vectors, self.epsilon)[self.nearest - 1])

    @property
    def along(self) -> float:
        """The variance of a decoded message along the contribution, in units of radius^2; elsewhere it is 1 / gain^2."""
        _, squares = _order_sums(self.vectors)
        lied = math.exp(-self.epsilon)
        inside, total = float(squares[self.nearest - 1]), self.nearest + (self.vectors - self.nearest) * lied
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
        products = np.concatenate([self._rows(nonce, a, min(a + rows, self.vectors)) @ padded for a in edges])
        found = np.zeros(self.vectors, dtype=bool)
        found[np.argsort(-products, kind="stable")[: self.nearest]] = True
        return found

    def draw(self, values: Array, nonce: bytes, source: NoiseSource) -> int:
        """The index that is sent. The source of an audit reads it, and may put another one in its place."""
        index = source.choose(self.near(values, nonce), self.epsilon)
        instead = getattr(source, "instead", None)
        if instead is None:
            return index
        return int(instead(Drawn(self, nonce), values[None], np.array([[float(index)]]))[0, 0])

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
        bits = np.random.Philox(key=int.from_bytes(nonce), counter=start * self._width // 8)
        raw = bits.random_raw((stop - start) * half).astype("<u8", copy=False).view("<u4") >> np.uint32(8)
        even = raw.astype(np.float32).reshape(stop - start, 2, half)
        length = np.sqrt(np.float32(-2) * np.log((even[:, 0] + one) * np.float32(2.0**-24)))
        angle = even[:, 1] * np.float32(2.0**-23 * math.pi)
        return np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)[:, : self.size + 1]


@dataclass(frozen=True, slots=True)
class Drawn:
    """One message's codebook: what an audit's tape knows of the index that was drawn. Public."""

    codebook: Codebook
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


def best_codebook(bound: Bound, epsilon: float) -> Codebook:
    """The codebook report with the least noise for contributions within `bound`: `nearest` with the largest gain.

    The radius is the bound's sensitivity under the relation null: the largest norm of a contribution.
    """
    if bound.size > COORDINATES:
        raise InvalidParameter(f"a codebook report has at most {COORDINATES} coordinates, the bound has {bound.size}")
    nearest = 1 + int(np.argmax(_gains(VECTORS, real("epsilon", epsilon, above=0))))
    return Codebook(bound.size, bound.sensitivity(Relation.NULL), epsilon, nearest)


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
    z = np.linspace(-9.0, 9.0, 1801)
    above, below = log_ndtr(-z), log_ndtr(z)
    ranks = np.arange(vectors)[:, None]
    ways = gammaln(vectors) - gammaln(ranks + 1) - gammaln(vectors - ranks)
    log_density = ways + ranks * above + (vectors - 1 - ranks) * below - z**2 / 2
    density = np.exp(log_density) * (vectors * (z[1] - z[0]) / math.sqrt(2 * math.pi))
    return np.cumsum(density @ z), np.cumsum(density @ z**2)
