"""Exact draws with whole numbers from a stream of random bytes.

This is secure noise without OpenDP, with the same bits in every language. The same bytes give the
same draws here and in `clients/typescript`, and tests compare them. So what is read from the
stream, and in which order, may not change in one language alone.

How many bytes a draw takes depends on its result, and so does its time. The time that an index
takes does not (`NoiseSource.choose`).
"""

import secrets
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from confide.errors import PrivacyError
from confide.mechanisms.sources import SecureSource, Shape, exponential_coin

# take(size) gives so many random bytes.
Take = Callable[[int], bytes]
# below(limit) gives a whole number from 0 to limit - 1, all equally likely.
Below = Callable[[int], int]
# A draw must leave room for the sum that it is added to. Required for privacy.
_LARGEST = 2**62


def below(take: Take, limit: int) -> int:
    """A whole number from 0 to limit - 1, all equally likely.

    As many bits are drawn as `limit` needs, the highest bits first, until their number is below it.
    """
    bits = (limit - 1).bit_length()
    size = (bits + 7) // 8
    while True:
        candidate = int.from_bytes(take(size)) >> (8 * size - bits)
        if candidate < limit:
            return candidate


def discrete_laplace(draw_below: Below, scale: Fraction) -> int:
    """Draw z with probability proportional to exp(-|z| / scale) [Canonne20, Alg. 2].

    The scale is t / s in the paper's letters.
    """
    t, s = scale.as_integer_ratio()
    while True:
        # u and v of the paper: u + t v has probability proportional to e^(-(u + t v) / t).
        u = draw_below(t)
        if not exponential_coin(draw_below, u, t):
            continue
        v = 0
        while exponential_coin(draw_below, 1, 1):
            v += 1
        size = (u + t * v) // s
        is_negative = draw_below(2) == 1
        # Zero has two signs, and is kept with one of them only.
        if size or not is_negative:
            return -size if is_negative else size


def discrete_gaussian(draw_below: Below, scale: Fraction) -> int:
    """Draw z with probability proportional to exp(-z^2 / (2 scale^2)) [Canonne20, Alg. 3].

    A discrete Laplace variable of scale t is kept with probability
    exp(-(|z| - scale^2 / t)^2 / (2 scale^2)). With scale^2 = p / q the exponent is a fraction of
    whole numbers.
    """
    p, q = (scale * scale).as_integer_ratio()
    t = scale.numerator // scale.denominator + 1
    while True:
        z = discrete_laplace(draw_below, Fraction(t))
        if exponential_coin(draw_below, (abs(z) * t * q - p) ** 2, 2 * p * q * t * t):
            return z


class ExactSource(SecureSource):
    """Secure noise for devices, from the system's entropy.

    A draw takes tens of microseconds and needs no OpenDP. `take` gives so many random bytes. Only
    tests pass another function than the system's.
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
        """Exact draws, one after the other."""
        draw = discrete_gaussian if distribution == "gaussian" else discrete_laplace
        draws = [draw(self._below, Fraction(scale)) for _ in range(int(np.prod(shape)))]
        if any(abs(each) >= _LARGEST for each in draws):
            raise PrivacyError("a draw of noise does not fit into 64 bits")
        return np.array(draws, dtype=np.int64).reshape(shape)

    def device(self) -> "ExactSource":
        return self

    def token(self, size: int) -> bytes:
        return self._take(size)
