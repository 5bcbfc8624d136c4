"""Exact draws by whole numbers from a stream of random bytes: secure noise without OpenDP, and the same bits in every language.

The same bytes give the same draws here and in `clients/typescript`: tests compare them. What a draw takes from the stream depends on its
result, and so does its time; the time that an index takes does not (`choose`).
"""

import secrets
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from confide.errors import PrivacyError
from confide.mechanisms.sources import SecureSource, Shape, exponential_coin

Take = Callable[[int], bytes]
Below = Callable[[int], int]
_LARGEST = 2**62


def below(take: Take, limit: int) -> int:
    """A whole number from 0 to limit - 1, all equally likely: as many bits as it needs, the first ones first, until one is below."""
    bits = (limit - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        drawn = int.from_bytes(take(size)) >> (8 * size - bits)
        if drawn < limit:
            return drawn


def discrete_laplace(even: Below, scale: Fraction) -> int:
    """z with probability proportional to exp(-|z| / scale) [Canonne20, Alg. 2]."""
    t, s = scale.as_integer_ratio()
    while True:
        first = even(t)
        if not exponential_coin(even, first, t):
            continue
        more = 0
        while exponential_coin(even, 1, 1):
            more += 1
        size, negative = (first + t * more) // s, even(2) == 1
        if size or not negative:
            return -size if negative else size


def discrete_gaussian(even: Below, scale: Fraction) -> int:
    """z with probability proportional to exp(-z^2 / (2 scale^2)) [Canonne20, Alg. 3]."""
    p, q = (scale * scale).as_integer_ratio()
    t = scale.numerator // scale.denominator + 1
    while True:
        tried = discrete_laplace(even, Fraction(t))
        # (|z| - scale^2 / t)^2 / (2 scale^2)
        if exponential_coin(even, (abs(tried) * t * q - p) ** 2, 2 * p * q * t * t):
            return tried


class ExactSource(SecureSource):
    """Secure noise of one or few users by the system's entropy, for devices: tens of microseconds a draw, and no OpenDP.

    `take` gives that many random bytes. Only tests pass another one than the system's.
    """

    def __init__(self, take: Take = secrets.token_bytes) -> None:
        super().__init__(lattice=False)
        self._take = take

    def _below(self, limit: int) -> int:
        return below(self._take, limit)

    def _draw(
        self,
        distribution: str,
        scale: float,
        shape: Shape,
        *,
        cached: bool = True,  # noqa: ARG002
    ) -> npt.NDArray[np.int64]:
        draw = discrete_gaussian if distribution == "gaussian" else discrete_laplace
        draws = [draw(self._below, Fraction(scale)) for _ in range(int(np.prod(shape)))]
        if any(abs(each) >= _LARGEST for each in draws):
            raise PrivacyError("a draw of noise does not fit into 64 bits")
        return np.array(draws, dtype=np.int64).reshape(shape)

    def device(self) -> "ExactSource":
        return self

    def token(self, size: int) -> bytes:
        return self._take(size)
