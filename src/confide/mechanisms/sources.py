"""Noise sources: fast and seeded for simulation, or secure for real data.

Fast noise is a NumPy generator in floating point: reproducible, and open to attacks on its seed and on the low bits of its
output [Mironov12]. Secure noise is OpenDP's: discrete, exactly sampled, from the system's entropy. A certificate says which was used.
"""

import hashlib
import math
import secrets
from collections.abc import Callable
from decimal import Decimal, localcontext
from functools import lru_cache
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.arguments import choice, generator, has, kind, whole
from confide.errors import InvalidParameter, MissingExtra, PrivacyError, StateError

Shape = int | tuple[int, ...]


class NoiseSource(Protocol):
    """Independent draws of noise. `discrete` sources return int64 and take their scale in units of the lattice."""

    @property
    def name(self) -> str: ...
    @property
    def discrete(self) -> bool: ...
    def gaussian(self, scale: float, shape: Shape) -> npt.NDArray[Any]: ...
    def laplace(self, scale: float, shape: Shape) -> npt.NDArray[Any]: ...
    def lattice_gaussian(self, scale: float, shape: Shape) -> npt.NDArray[np.int64]:
        """Whole numbers z with probabilities proportional to exp(-z^2 / (2 scale^2)), whatever `discrete` is."""

    def cube(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[Any]:
        """Rows z [row, size] with density proportional to exp(-||z||_inf / scale)."""

    def ball(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[Any]:
        """Rows z [row, size] with density proportional to exp(-||z||_2 / scale); on a lattice of shells, see `SecureSource.ball`."""

    def choose(self, likely: npt.NDArray[np.bool_], loss: float) -> int:
        """An index with probability proportional to 1 where it is `likely`, and to e^-loss elsewhere: exactly, by whole numbers."""

    def state(self) -> dict[str, Any]:
        """What the next draws depend on, for a saved state; empty where they depend on nothing that can be saved."""

    def restore(self, state: dict[str, Any]) -> None: ...
    def fork(self) -> "NoiseSource":
        """A source of its own for one mechanism: no two may ever be restored to the same draws."""

    def device(self) -> "NoiseSource":
        """A source for one more device, independent of all others; the next ones are decided by `state`, where draws are."""

    def refresh(self) -> None:
        """Forget the seed, if there is one: what is drawn from here on comes from the system's entropy."""

    def token(self, size: int) -> bytes:
        """Random bytes that are shown as they are, and tell nothing about the noise."""


class FastSource:
    """NumPy's generator: for simulation, where reproducing a run matters more than an adversary who knows the seed."""

    name = "fast"
    discrete = False

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = generator("rng", rng)

    def gaussian(self, scale: float, shape: Shape) -> npt.NDArray[np.float64]:
        return self._rng.normal(0.0, scale, shape)

    def laplace(self, scale: float, shape: Shape) -> npt.NDArray[np.float64]:
        return self._rng.laplace(0.0, scale, shape)

    def lattice_gaussian(self, scale: float, shape: Shape) -> npt.NDArray[np.int64]:
        """By rejection from the discrete Laplace distribution [Canonne20, Alg. 3], in floating point."""
        size, t = int(np.prod(shape)), math.floor(scale) + 1
        found = np.zeros(0, dtype=np.int64)
        while found.size < size:
            tried = 2 * (size - found.size) + 8
            laplace = np.subtract(*self._rng.geometric(-math.expm1(-1 / t), (2, tried)))
            rejected = (np.abs(laplace) - scale**2 / t) ** 2 / (2 * scale**2)
            found = np.concatenate([found, laplace[self._rng.random(tried) < np.exp(-rejected)]])
        return found[:size].reshape(shape)

    def cube(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
        rows, size = shape
        return (
            scale
            * self._rng.standard_gamma(size + 1, (rows, 1))
            * self._rng.uniform(-1.0, 1.0, shape)
        )

    def ball(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
        rows, size = shape
        directions = self._rng.standard_normal(shape)
        radius = scale * self._rng.standard_gamma(size, (rows, 1))
        found: npt.NDArray[np.float64] = (
            radius * directions / np.linalg.norm(directions, axis=1, keepdims=True)
        )
        return found

    def choose(self, likely: npt.NDArray[np.bool_], loss: float) -> int:
        return _chosen(self._below, likely, loss)

    def _below(self, limit: int) -> int:
        bits = (limit - 1).bit_length()
        while True:
            drawn = int.from_bytes(self._rng.bytes(bits // 8 + 1)) & ((1 << bits) - 1)
            if drawn < limit:
                return drawn

    def uniform(self, shape: Shape) -> npt.NDArray[np.float64]:
        return self._rng.random(shape)

    def state(self) -> dict[str, Any]:
        state = dict(self._rng.bit_generator.state)
        if state["bit_generator"] != "PCG64":
            raise InvalidParameter(
                "saving needs the PCG64 generator that numpy.random.default_rng makes"
            )
        return state

    def restore(self, state: dict[str, Any]) -> None:
        if kind("state", state, dict):
            own = np.random.default_rng()  # never a generator that may be in use elsewhere
            try:
                own.bit_generator.state = state
            except (KeyError, TypeError, ValueError):
                raise StateError("this is not the state of a source of fast noise") from None
            self._rng = own

    def fork(self) -> "FastSource":
        return FastSource(self._rng.spawn(1)[0])

    def device(self) -> "FastSource":
        # drawn, not spawned: a restore goes on alike
        return FastSource(np.random.default_rng(self._rng.integers(2**63, size=4)))

    def for_release(self, asked: str) -> "FastSource":
        """For the release of that name: one seed gives two releases independent draws, at any scale."""
        own = int.from_bytes(hashlib.sha256(asked.encode()).digest()[:16])
        return FastSource(np.random.default_rng([*self._rng.integers(2**63, size=4).tolist(), own]))

    def refresh(self) -> None:
        self._rng = np.random.default_rng()

    def token(self, size: int) -> bytes:
        whole("size", size, at_least=1, at_most=64)
        bits = self._rng.bytes(32)  # hashed: the generator's own bits would give its state away
        return hashlib.blake2b(bits, digest_size=size).digest()

    def laplace_sum(self, scale: float, terms: int, shape: Shape) -> npt.NDArray[np.float64]:
        """The sum of `terms` independent draws of `laplace`: a Laplace variable is a difference of two exponential ones."""
        return scale * (
            self._rng.standard_gamma(terms, shape) - self._rng.standard_gamma(terms, shape)
        )


class SecureSource:
    """OpenDP's exact samplers of the discrete Gaussian and the discrete Laplace, on system entropy. It has no seed to leak."""

    name = "secure"
    discrete = True

    def __init__(self, *, lattice: bool = True) -> None:
        """Without `lattice` for normal and uniform variables alone, which need no OpenDP."""
        self._lattice = lattice
        if lattice:
            _opendp()

    def gaussian(self, scale: float, shape: Shape) -> npt.NDArray[np.int64]:
        return self._draw("gaussian", scale, shape)

    def laplace(self, scale: float, shape: Shape) -> npt.NDArray[np.int64]:
        return self._draw("laplace", scale, shape)

    def lattice_gaussian(self, scale: float, shape: Shape) -> npt.NDArray[np.int64]:
        return self._draw("gaussian", scale, shape)

    def cube(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[np.int64]:
        """exp(-s ||z||_inf) is a mixture of even distributions on cubes {-m..m}^size, with weights (2m+1)^size exp(-s m).

        m is drawn as a sum of size + 1 geometric variables, which has weights prod_i (m + i) exp(-s m), and kept with probability
        prod_i (2m + 1)/(2m + 2i): whole numbers and the system's entropy alone.
        """
        rows, size = shape
        return np.array([self._cube_row(scale, size) for _ in range(rows)], dtype=np.int64).reshape(
            shape
        )

    def _cube_row(self, scale: float, size: int) -> list[int]:
        while True:
            geometric = self._draw("laplace", scale, size + 1)
            m = sum(int(draw) if draw >= 0 else -int(draw) - 1 for draw in geometric)
            kept, of = 1, 1
            for i in range(1, size + 1):
                kept, of = kept * (2 * m + 1), of * (2 * m + 2 * i)
            if self._below(of) < kept:
                return [self._below(2 * m + 1) - m for _ in range(size)]

    def ball(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[np.int64]:
        """Probabilities proportional to exp(-max(floor(||z||_2 / J), 15) J / scale), J = `shell_width`(size): epsilon-DP for a
        sensitivity of scale epsilon, if that is a whole multiple of J.

        They are a mixture of even distributions on the points of the balls ||z||_2 < J l, l > 15, with weights (points of the ball) e^(-s
        l), s = J / scale. l is drawn with weights l^D e^(-s l), as in `cube`; then D coordinates from the discrete Gaussian of scale l,
        kept with probability exp(-((J l)^2 - ||z||^2) / (2 l^2)) if z is in the ball, which makes z even in it. Otherwise l is drawn anew,
        too: so l is kept in proportion to points / (l theta)^D, where l theta sqrt(2 pi) is the sum of the Gaussian's weights. By
        Poisson's summation 1 <= theta < 1 + 3 exp(-2 pi^2 l^2) < 1 + e^-5000, and this, with the rounding of s, is paid for by a scale
        that is larger by 2^-40. One in sqrt(pi D) draws is kept. Whole numbers and the system's entropy alone.
        """
        rows, size = shape
        return np.array([self._ball_row(scale, size) for _ in range(rows)], dtype=np.int64).reshape(
            shape
        )

    def _ball_row(self, scale: float, size: int) -> npt.NDArray[np.int64]:
        width = shell_width(size)
        while True:
            geometric = self._draw("laplace", scale / width * (1 + 2.0**-40), size + 1)
            l = 1 + sum(int(draw) if draw >= 0 else -int(draw) - 1 for draw in geometric)  # noqa: E741 - as in the proof
            if l < 16 or self._below(math.prod(range(l, l + size))) >= l**size:
                continue
            z = self._draw("gaussian", float(l), size, cached=False)
            short = (width * l) ** 2 - sum(int(each) ** 2 for each in z)
            if short > 0 and exponential_coin(self._below, short, 2 * l * l):
                return z

    def choose(self, likely: npt.NDArray[np.bool_], loss: float) -> int:
        return _chosen(self._below, likely, loss)

    def _below(self, limit: int) -> int:
        return secrets.randbelow(limit)

    def _draw(
        self, distribution: str, scale: float, shape: Shape, *, cached: bool = True
    ) -> npt.NDArray[np.int64]:
        size = int(np.prod(shape))
        sampler = (_sampler if cached else _sampler.__wrapped__)(distribution, scale, size)
        draws = np.array(sampler([0] * size), dtype=np.int64)
        # OpenDP saturates at the ends of int64: such a draw would hide nothing
        if size and np.abs(draws).max() >= 2**62:
            raise PrivacyError("a draw of noise does not fit into 64 bits")
        return draws.reshape(shape)

    def uniform(self, shape: Shape) -> npt.NDArray[np.float64]:
        size = int(np.prod(shape))
        bits = np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64) >> np.uint64(11)
        uniform: npt.NDArray[np.float64] = bits.astype(np.float64).reshape(shape) * 2.0**-53
        return uniform

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing to restore: future draws are fresh."""

    def fork(self) -> "SecureSource":
        return self

    def device(self) -> "SecureSource":
        return SecureSource(lattice=self._lattice)

    def refresh(self) -> None:
        """Nothing to forget."""

    def token(self, size: int) -> bytes:
        return secrets.token_bytes(whole("size", size, at_least=1, at_most=64))


_COIN = 2**128


def _chosen(below: Callable[[int], int], likely: npt.NDArray[np.bool_], loss: float) -> int:
    """One even draw from n + (N - n) e^-loss, in units of 2^-128: each likely index owns 1 of it, each other one e^-loss.

    There is one draw whatever comes of it, and what is computed from it is computed for both kinds of index: how long it takes says
    nothing about the index. (An exact coin is thrown a random number of times that tells its result [Canonne20].) e^-loss is rounded up,
    so that no index is more than e^loss times as likely as another.
    """
    other, near = _just_above(loss), int(likely.sum())
    order = np.argsort(~likely, kind="stable")  # the likely ones first
    drawn = below(near * _COIN + (len(likely) - near) * other)
    past = drawn - near * _COIN
    return int(order[(drawn // _COIN, near + past // other)[past >= 0]])


@lru_cache(maxsize=64)
def _just_above(loss: float) -> int:
    """e^-loss in units of 2^-128, rounded up: to 60 digits, and one unit more for their rounding."""
    with localcontext() as context:
        context.prec = 60
        return min(int((-Decimal(loss)).exp() * _COIN) + 2, _COIN)


def shell_width(size: int) -> int:
    """J of `SecureSource.ball`: the nearest whole number to the root of the number of coordinates."""
    return max(1, round(math.sqrt(size)))


def exponential_coin(below: Callable[[int], int], above: int, under: int) -> bool:
    """True with probability e^(-above / under), exactly [Canonne20, Alg. 1]."""
    while True:  # e^-loss = e^-1 ... e^-1 e^-rest: one coin for each factor
        part = min(above, under)
        k = 1
        while below(under * k) < part:
            k += 1
        if k % 2 == 0:
            return False
        if above <= under:
            return True
        above -= under


def check_source(value: object, name: str = "noise") -> NoiseSource:
    """The argument, if it can draw noise."""
    found: NoiseSource = has(
        name,
        value,
        ("discrete", "gaussian", "laplace", "fork", "token"),
        "a source of noise, as noise_source makes",
    )
    return found


def _seeded(seed: object) -> np.random.Generator:
    """NumPy's generator from a seed of any kind that it takes: a whole number, a seed sequence, a generator, or None."""
    if seed is None or isinstance(seed, np.random.SeedSequence | np.random.Generator):
        return np.random.default_rng(seed)
    return np.random.default_rng(whole("seed", seed, at_least=0))


def noise_source(
    name: str, seed: "int | np.random.SeedSequence | np.random.Generator | None" = None
) -> NoiseSource:
    """`fast` (with a seed, a seed sequence or a generator) or `secure` (which refuses one)."""
    if choice("name", name, ("fast", "secure")) == "fast":
        return FastSource(_seeded(seed))
    else:
        if seed is not None:
            raise InvalidParameter(
                "the secure source has no seed: noise that can be reproduced can be subtracted"
            )
        return SecureSource()


@lru_cache(maxsize=64)
def _sampler(distribution: str, scale: float, size: int) -> Any:
    dp = _opendp()
    domain = dp.vector_domain(dp.atom_domain(T="i64"), size=size)
    if distribution == "gaussian":
        return dp.m.make_gaussian(domain, dp.l2_distance(T="i64"), scale=scale)
    return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)


def _opendp() -> Any:
    try:
        import opendp.prelude as dp
    except ImportError:
        raise MissingExtra("secure noise needs OpenDP: pip install 'confide[secure]'") from None
    dp.enable_features("contrib")
    return dp
