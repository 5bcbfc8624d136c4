"""Reports by a public codebook [Isik23].

A device says which of N public vectors is near its contribution, and lies by chance.

A nonce that is part of the message gives N = 1024 Gaussian vectors of R^(size + 1), the same on the
device and on the server. They are the raw output of the counter-based generator Philox-4x64-10 with
the nonce as its key, by Box and Muller's transform. Vector i is made from `width` 32-bit numbers of
which the upper 24 bits are used. `width` is size + 1, rounded up to a multiple of eight, which is a
block of the generator. The vectors are computed in single precision, whose error of 1e-7 counts for
nothing beside the noise. Nothing else of NumPy's generators is used, because they may change from
version to version.

What leaves this file is a message: the nonce and an index. `clients/typescript` makes the same
messages (`clients/vectors.json`), so the order of the generator's numbers and of the vectors must
stay.
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
# The vectors of a codebook. Part of the format of messages. The number is a matter of taste: more
# of them would need longer computations for a little less noise.
VECTORS = 1024
# The most coordinates of a contribution. Taste: a device makes 1024 vectors of this length.
COORDINATES = 2**14
# So many numbers of the codebook are in memory at once. Taste: what a cache holds is faster.
_NUMBERS_AT_ONCE = 2**15
# The philox generator makes blocks of so many 32-bit numbers.
_BLOCK = 8


@dataclass(frozen=True, slots=True)
class Codebook:
    """The k-closest mechanism: one of N indices is sent, which is `vectors` in the code.

    The indices of the n = `nearest` vectors are e^epsilon times as likely as the others.

    Guarantee: epsilon-DP for two arbitrary contributions. The set C of the nearest vectors has
    exactly n members for every contribution and every codebook. So an index has the probability 1/Q
    in C and e^-epsilon / Q outside, and Q = n + (N - n) e^-epsilon is the same for all
    contributions. The index is drawn with whole numbers alone (`NoiseSource.choose`). Floating
    point decides which vectors are near, and so the accuracy. Privacy needs no bound on the
    contribution and no property of the codebook.

    Decoding: a contribution is divided by `radius`, its largest norm, and padded by one coordinate
    to a unit vector v. The products z_i.v with the vectors z_i are independent N(0, 1) variables
    for every v, and what is orthogonal to v is independent of them. So the vector z_I that is sent
    has the mean E z_I = `gain` v, and `radius` z_I / gain is unbiased. Orthogonal to v its error is
    exactly Gaussian with standard deviation radius / gain. Along v its variance is another one
    (`along`). `std` is the root of the mean variance over all coordinates.
    """

    # The number of coordinates of a contribution.
    size: int
    # The largest norm of a contribution.
    radius: float
    epsilon: float
    nearest: int
    vectors: int = VECTORS

    distribution: ClassVar[str] = "codebook"
    # The norm in which `radius` is measured.
    norm: ClassVar[int | str] = 2

    def __post_init__(self) -> None:
        whole("size", self.size, at_least=1, at_most=COORDINATES)
        real("radius", self.radius, above=0)
        real("epsilon", self.epsilon, above=0)
        whole("vectors", self.vectors, at_least=2, at_most=VECTORS)
        whole("nearest", self.nearest, at_least=1, at_most=self.vectors - 1)

    def loss(self) -> PureDP:
        return PureDP(self.epsilon)

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of the report in a certificate. Their names are part of its format."""
        return {
            "vectors": self.vectors,
            "nearest": self.nearest,
            "epsilon": self.epsilon,
            "dimension": self.size,
        }

    @property
    def gain(self) -> float:
        """E z_I . v for the vector z_I that is sent."""
        return float(_gains(self.vectors, self.epsilon)[self.nearest - 1])

    @property
    def along(self) -> float:
        """The variance of a decoded message along the contribution, in units of radius^2.

        In other directions it is 1 / gain^2.
        """
        _, sums_of_squares = _order_sums(self.vectors)
        weight_of_others = math.exp(-self.epsilon)
        square_of_nearest = float(sums_of_squares[self.nearest - 1])
        square_of_others = self.vectors - square_of_nearest
        total_weight = self.nearest + (self.vectors - self.nearest) * weight_of_others
        mean_square = (square_of_nearest + weight_of_others * square_of_others) / total_weight
        return mean_square / self.gain**2 - 1

    @property
    def std(self) -> float:
        """The standard deviation of a decoded message on each coordinate."""
        return self.radius * math.sqrt((self.size / self.gain**2 + self.along) / (self.size + 1))

    def near(self, values: Array, nonce: bytes) -> npt.NDArray[np.bool_]:
        """Whether a vector [i] is one of the nearest to this contribution [coordinate].

        Of equally near vectors the first ones count.
        """
        unit = values / self.radius
        padding = math.sqrt(max(0.0, 1.0 - float(unit @ unit)))
        padded = np.append(unit, padding).astype(np.float32)
        rows = max(1, _NUMBERS_AT_ONCE // self._width)
        starts = range(0, self.vectors, rows)
        products = np.concatenate(
            [
                self._codebook_rows(nonce, start, min(start + rows, self.vectors)) @ padded
                for start in starts
            ]
        )
        is_near = np.zeros(self.vectors, dtype=bool)
        is_near[np.argsort(-products, kind="stable")[: self.nearest]] = True
        return is_near

    def draw(self, values: Array, nonce: bytes, source: NoiseSource) -> int:
        """The index that is sent for this contribution [coordinate]."""
        return _draw_index(self, values, nonce, source)

    def decode(self, index: int, nonce: bytes) -> Array:
        """An unbiased estimate of the contribution."""
        whole("index", index, at_least=0, at_most=self.vectors - 1)
        vector = self._codebook_rows(nonce, index, index + 1)[0, :-1]
        return vector.astype(float) * (self.radius / self.gain)

    @property
    def _width(self) -> int:
        """How many 32-bit numbers make one vector: size + 1, rounded up to whole blocks."""
        return -(-(self.size + 1) // _BLOCK) * _BLOCK

    def _codebook_rows(self, nonce: bytes, start: int, stop: int) -> npt.NDArray[np.float32]:
        """The vectors `start` to `stop` - 1 of the codebook [i, size + 1]."""
        half = self._width // 2
        generator = _philox(nonce, start * self._width // _BLOCK)
        raw = generator.random_raw((stop - start) * half).astype("<u8", copy=False)
        upper_bits = raw.view("<u4") >> np.uint32(8)
        # Uniform whole numbers below 2^24 [i, length or angle, half].
        uniform = upper_bits.astype(np.float32).reshape(stop - start, 2, half)
        in_unit_interval = (uniform[:, 0] + np.float32(1)) * np.float32(2.0**-24)
        length = np.sqrt(np.float32(-2) * np.log(in_unit_interval))
        angle = uniform[:, 1] * np.float32(2.0**-23 * math.pi)
        normal = np.concatenate([length * np.cos(angle), length * np.sin(angle)], axis=1)
        return normal[:, : self.size + 1]


_GENERATORS = threading.local()


def _philox(nonce: bytes, counter: int) -> np.random.Philox:
    """The generator with the nonce as its key, at this counter.

    Each thread has one generator and sets its state, because making a new one would ask the system
    for a seed that nobody needs.
    """
    if not hasattr(_GENERATORS, "philox"):
        _GENERATORS.philox = np.random.Philox(0)
    generator: np.random.Philox = _GENERATORS.philox
    high, low = divmod(int.from_bytes(nonce), 2**64)
    generator.state = {
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
    return generator


@dataclass(frozen=True, slots=True)
class SignReport:
    """The k-closest mechanism with another book: all patterns of signs of a few coordinates.

    The nonce picks k = `sign_count` coordinates. Each of them becomes a sign: v in [-radius,
    radius] is 1 with probability (1 + v / radius) / 2, by the nonce. The `nearest` patterns are
    those that differ from these signs in the fewest places. They are e^epsilon times as likely as
    the others. If only one pattern is near, this is randomized response. `nearest` counts whole
    levels, 1 + k + k (k - 1) / 2 + ..., so there are equally many for every contribution.

    Guarantee: epsilon-DP for two arbitrary contributions, by the proof of `Codebook`. The book,
    which coordinates are picked, and how they are rounded are functions of the nonce, and the nonce
    is drawn before anything that depends on the data.

    Decoding: the mean of a sign that is sent is `gain` times the true sign, and a coordinate is
    picked with probability sign_count / size. `std` is that of a coordinate that is 0. For a
    coordinate of ±radius it is smaller.
    """

    # The number of coordinates of a contribution.
    size: int
    # The largest absolute value of each coordinate.
    radius: float
    epsilon: float
    sign_count: int
    nearest: int

    distribution: ClassVar[str] = "signs"
    norm: ClassVar[int | str] = "inf"

    def __post_init__(self) -> None:
        whole("size", self.size, at_least=1, at_most=COORDINATES)
        real("radius", self.radius, above=0)
        real("epsilon", self.epsilon, above=0)
        whole(
            "sign_count",
            self.sign_count,
            at_least=1,
            at_most=min(self.size, VECTORS.bit_length() - 1),
        )
        allowed = _levels(self.sign_count)[:-1]
        if whole("nearest", self.nearest, at_least=1) not in allowed:
            raise InvalidParameter.of("nearest", f"must be one of {allowed}", got=f"{self.nearest}")

    def loss(self) -> PureDP:
        return PureDP(self.epsilon)

    @property
    def parameters(self) -> dict[str, float]:
        """The parameters of the report in a certificate. Their names are part of its format."""
        return {
            "asked": self.sign_count,
            "nearest": self.nearest,
            "epsilon": self.epsilon,
            "dimension": self.size,
        }

    @property
    def gain(self) -> float:
        """The mean of a sign that is sent times the true one.

        This is (1 - e^-epsilon) sum of z.x / (sign_count Q) over the nearest patterns z, for the
        signs x.
        """
        weight_of_others = math.exp(-self.epsilon)
        # A pattern with so many wrong signs has the product z.x = sign_count - 2 wrong.
        products = sum(
            math.comb(self.sign_count, wrong) * (self.sign_count - 2 * wrong)
            for wrong in range(self._most_wrong_signs + 1)
        )
        total_weight = self.nearest + (2**self.sign_count - self.nearest) * weight_of_others
        return float(-math.expm1(-self.epsilon) * products / (self.sign_count * total_weight))

    @property
    def _most_wrong_signs(self) -> int:
        """In how many places a pattern may differ from the signs and still be near."""
        return _levels(self.sign_count).index(self.nearest)

    @property
    def std(self) -> float:
        """The largest standard deviation of a decoded message on a coordinate."""
        return self.radius * math.sqrt(self.size / self.sign_count) / self.gain

    def near(self, values: Array, nonce: bytes) -> npt.NDArray[np.bool_]:
        """Whether a pattern [i] is one of the nearest to this contribution [coordinate].

        Bit c of i is the sign of the c-th coordinate that is picked.
        """
        picked, uniform = self._pick_coordinates(nonce)
        signs = values[picked] > (2 * uniform - 1) * self.radius
        wrong = (_patterns(self.sign_count) != signs).sum(axis=1)
        return np.asarray(wrong <= self._most_wrong_signs)

    def draw(self, values: Array, nonce: bytes, source: NoiseSource) -> int:
        """The index that is sent for this contribution [coordinate]."""
        return _draw_index(self, values, nonce, source)

    def decode(self, index: int, nonce: bytes) -> Array:
        """An unbiased estimate of the contribution."""
        whole("index", index, at_least=0, at_most=2**self.sign_count - 1)
        estimate = np.zeros(self.size)
        signs = np.where(_patterns(self.sign_count)[index], 1.0, -1.0)
        picked, _ = self._pick_coordinates(nonce)
        estimate[picked] = signs * (self.radius * self.size / (self.sign_count * self.gain))
        return estimate

    def _pick_coordinates(self, nonce: bytes) -> tuple[npt.NDArray[np.int64], Array]:
        """The coordinates that are picked, and for each a number in [0, 1) that rounds it."""
        raw = _philox(nonce, 0).random_raw(self.size + self.sign_count)
        picked = np.argsort(raw[: self.size], kind="stable")[: self.sign_count].astype(np.int64)
        uniform = (raw[self.size :] >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return picked, uniform


Report = Codebook | SignReport


def _draw_index(report: Report, values: Array, nonce: bytes, source: NoiseSource) -> int:
    """The index that is sent.

    The source of an audit has a method `instead`. It reads the index, and may replace it.
    """
    index = source.choose(report.near(values, nonce), report.epsilon)
    instead = getattr(source, "instead", None)
    if instead is None:
        return index
    replaced = instead(DrawnIndex(report, nonce), values[None], np.array([[float(index)]]))
    return int(replaced[0, 0])


@dataclass(frozen=True, slots=True)
class DrawnIndex:
    """What an audit records about an index that was drawn: the codebook of one message. Public."""

    codebook: Report
    nonce: bytes
    distribution: ClassVar[str] = "codebook"
    step: ClassVar[None] = None

    @property
    def scale(self) -> float:
        return self.codebook.std

    def near(self, exact: Array) -> npt.NDArray[np.bool_]:
        """Whether an index [i] is near this contribution."""
        return self.codebook.near(exact.ravel(), self.nonce)

    def log_ratio(self, index: int, one: Array, other: Array) -> float:
        """The logarithm of the ratio of the index's probabilities for `other` and for `one`."""
        return self.codebook.epsilon * (int(self.near(other)[index]) - int(self.near(one)[index]))


def best_codebook(bound: "Bound", epsilon: float) -> Codebook:
    """The codebook report with the least noise for contributions within `bound`.

    It has the `nearest` with the largest gain. The radius is the bound's sensitivity under the
    relation null: the largest norm of a contribution.
    """
    if bound.size > COORDINATES:
        raise InvalidParameter(
            f"a codebook report has at most {COORDINATES} coordinates, the bound has {bound.size}"
        )
    gains = _gains(VECTORS, real("epsilon", epsilon, above=0))
    nearest = 1 + int(np.argmax(gains))
    return Codebook(bound.size, bound.sensitivity(Relation.NULL), epsilon, nearest)


def best_signs(bound: "Bound", epsilon: float) -> SignReport:
    """The report of signs with the least noise for contributions within `bound`.

    It is chosen by how many coordinates are picked, and by how many patterns are near.
    """
    real("epsilon", epsilon, above=0)
    most_signs = min(bound.size, VECTORS.bit_length() - 1)
    candidates = [
        SignReport(bound.size, bound.largest, epsilon, sign_count, nearest)
        for sign_count in range(1, most_signs + 1)
        for nearest in _levels(sign_count)[:-1]
    ]
    return min(candidates, key=lambda report: report.std)


def best_report(bound: "Bound", epsilon: float) -> Report:
    """The report by signs or by a codebook, whichever has less noise.

    Signs have less noise for few numbers of which each may be large by itself.
    """
    signs = best_signs(bound, epsilon)
    codebook = best_codebook(bound, epsilon)
    return signs if signs.std < codebook.std else codebook


@lru_cache(maxsize=16)
def _levels(sign_count: int) -> list[int]:
    """How many patterns differ from a given one in at most 0, 1, ..., sign_count places."""
    levels = []
    patterns = 0
    for wrong in range(sign_count + 1):
        patterns += math.comb(sign_count, wrong)
        levels.append(patterns)
    return levels


@lru_cache(maxsize=16)
def _patterns(sign_count: int) -> npt.NDArray[np.bool_]:
    """All patterns of signs [pattern, coordinate]: bit c of a pattern is its coordinate c."""
    return np.asarray((np.arange(2**sign_count)[:, None] >> np.arange(sign_count)) & 1 == 1)


@lru_cache(maxsize=64)
def _gains(vectors: int, epsilon: float) -> Array:
    """E z_I . v for each number n = 1, ..., N - 1 of nearest vectors.

    This is (1 - e^-epsilon) sum_{i <= n} E z_(i) / Q with the i-th largest product z_(i).
    """
    sums, _ = _order_sums(vectors)
    n = np.arange(1, vectors)
    total_weight = n + (vectors - n) * math.exp(-epsilon)
    gains: Array = -math.expm1(-epsilon) * sums[:-1] / total_weight
    return gains


@lru_cache(maxsize=4)
def _order_sums(vectors: int) -> tuple[Array, Array]:
    """The mean of the sum, and of the sum of squares, of the n largest of N normal variables.

    Both are arrays over n = 1, ..., N, where N is `vectors`. The density of the i-th largest is
    N phi(z) C(N - 1, i - 1) (1 - Phi(z))^(i - 1) Phi(z)^(N - i). It is integrated by the rule of
    trapezoids, whose error is that of rounding for such functions.
    """
    # A device that only reports does not need SciPy.
    from scipy.special import gammaln, log_ndtr

    z = np.linspace(-9.0, 9.0, 1801)
    log_above = log_ndtr(-z)
    log_below = log_ndtr(z)
    # i - 1 for each i.
    ranks = np.arange(vectors)[:, None]
    log_ways = gammaln(vectors) - gammaln(ranks + 1) - gammaln(vectors - ranks)
    log_density = log_ways + ranks * log_above + (vectors - 1 - ranks) * log_below - z**2 / 2
    # Times the step of z, for the integral.
    density = np.exp(log_density) * (vectors * (z[1] - z[0]) / math.sqrt(2 * math.pi))
    return np.cumsum(density @ z), np.cumsum(density @ z**2)
