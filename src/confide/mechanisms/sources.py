"""Noise sources: fast and seeded for simulation, or secure for real data.

Fast noise is a NumPy generator in floating point. It is reproducible, and open to attacks on its
seed and on the low bits of its output [Mironov12]. Secure noise is discrete, exactly sampled, and
comes from the system's entropy, by OpenDP. A certificate says which one was used.

All results of seeded runs depend on the order in which fast noise is drawn. In secure noise only
exact operations on whole numbers may follow a draw.
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
# A secure draw must leave room for the sum that it is added to. Required for privacy: OpenDP
# saturates at the ends of int64, and such a draw would hide nothing.
_LARGEST_DRAW = 2**62
# `_choose` works in units of 1 / _UNITS. Taste: fewer bits would make the rounding of e^-loss
# count.
_UNITS = 2**128
# The ball sampler leaves out the innermost shells, up to this radius in shells. Required for
# privacy: the proof in `SecureSource.ball` needs it.
_INNERMOST_SHELLS = 15
# The scale of the ball sampler is larger by this factor. Required for privacy, as above.
_BALL_SAFETY_FACTOR = 1 + 2.0**-40


class NoiseSource(Protocol):
    """A source of independent draws of noise.

    A `discrete` source returns int64 and takes its scale in steps of the lattice.
    """

    @property
    def name(self) -> str:
        """What certificates call this kind of noise: "fast" or "secure"."""

    @property
    def discrete(self) -> bool: ...
    def gaussian(self, scale: float, shape: Shape) -> npt.NDArray[Any]:
        """Normal variables with this standard deviation, or discrete ones on a lattice."""

    def laplace(self, scale: float, shape: Shape) -> npt.NDArray[Any]:
        """Variables with density proportional to exp(-|z| / scale), or discrete ones."""

    def lattice_gaussian(self, scale: float, shape: Shape) -> npt.NDArray[np.int64]:
        """Whole numbers z with probabilities proportional to exp(-z^2 / (2 scale^2)).

        A source on the reals draws them, too.
        """

    def cube(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[Any]:
        """Rows z [row, size] with density proportional to exp(-||z||_inf / scale)."""

    def ball(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[Any]:
        """Rows z [row, size] with density proportional to exp(-||z||_2 / scale).

        On a lattice the norm is rounded to shells: see `SecureSource.ball`.
        """

    def choose(self, likely: npt.NDArray[np.bool_], loss: float) -> int:
        """An index with probability proportional to 1 if it is `likely`, and to e^-loss if not.

        `likely` [index]. The draw uses whole numbers, so no index is more than e^loss times as
        likely as another one.
        """

    def state(self) -> dict[str, Any]:
        """What the next draws depend on, for a saved state. Empty if there is nothing to save."""

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from a saved state: the next draws are those that would have followed it."""

    def fork(self) -> "NoiseSource":
        """A source of its own for one mechanism. No two may ever be restored to the same draws."""

    def device(self) -> "NoiseSource":
        """A source for one more device, independent of all others.

        After a restore the next devices get the same sources as without it.
        """

    def refresh(self) -> None:
        """Forget the seed, if there is one. From here on draws come from the system's entropy."""

    def token(self, size: int) -> bytes:
        """Random bytes that are shown to anybody, and tell nothing about the noise."""


class FastSource:
    """Noise of NumPy's generator, for simulation.

    A run can be reproduced. An adversary who knows the seed can subtract the noise.
    """

    name = "fast"
    discrete = False

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = generator("rng", rng)

    def gaussian(self, scale: float, shape: Shape) -> npt.NDArray[np.float64]:
        return self._rng.normal(0.0, scale, shape)

    def laplace(self, scale: float, shape: Shape) -> npt.NDArray[np.float64]:
        return self._rng.laplace(0.0, scale, shape)

    def lattice_gaussian(self, scale: float, shape: Shape) -> npt.NDArray[np.int64]:
        """Discrete Gaussian variables, by rejection from discrete Laplace variables.

        This is [Canonne20, Alg. 3] in floating point; t is the scale of the Laplace variables.
        """
        size = int(np.prod(shape))
        t = math.floor(scale) + 1
        accepted = np.zeros(0, dtype=np.int64)
        while accepted.size < size:
            # Taste: most candidates are accepted. The results of seeded runs depend on this number,
            # because it decides which draws follow.
            candidates = 2 * (size - accepted.size) + 8
            geometric = self._rng.geometric(-math.expm1(-1 / t), (2, candidates))
            laplace = np.subtract(*geometric)
            exponent = (np.abs(laplace) - scale**2 / t) ** 2 / (2 * scale**2)
            is_accepted = self._rng.random(candidates) < np.exp(-exponent)
            accepted = np.concatenate([accepted, laplace[is_accepted]])
        return accepted[:size].reshape(shape)

    def cube(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
        """A radius with a gamma distribution times a uniform point of the cube."""
        rows, size = shape
        radius = scale * self._rng.standard_gamma(size + 1, (rows, 1))
        return radius * self._rng.uniform(-1.0, 1.0, shape)

    def ball(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[np.float64]:
        """A radius with a gamma distribution times a uniform direction."""
        rows, size = shape
        directions = self._rng.standard_normal(shape)
        radius = scale * self._rng.standard_gamma(size, (rows, 1))
        lengths = np.linalg.norm(directions, axis=1, keepdims=True)
        noise: npt.NDArray[np.float64] = radius * directions / lengths
        return noise

    def choose(self, likely: npt.NDArray[np.bool_], loss: float) -> int:
        return _choose(self._below, likely, loss)

    def _below(self, limit: int) -> int:
        """A whole number from 0 to limit - 1, all equally likely."""
        bits = (limit - 1).bit_length()
        while True:
            candidate = int.from_bytes(self._rng.bytes(bits // 8 + 1)) & ((1 << bits) - 1)
            if candidate < limit:
                return candidate

    def uniform(self, shape: Shape) -> npt.NDArray[np.float64]:
        """Uniform numbers in [0, 1), in steps of 2^-53."""
        return self._rng.random(shape)

    def state(self) -> dict[str, Any]:
        state = dict(self._rng.bit_generator.state)
        if state["bit_generator"] != "PCG64":
            raise InvalidParameter(
                "saving needs the PCG64 generator that numpy.random.default_rng makes"
            )
        return state

    def restore(self, state: dict[str, Any]) -> None:
        # A baseline without noise, and a secure source, save an empty state.
        if kind("state", state, dict):
            # A new generator, because the old one may be in use elsewhere.
            rng = np.random.default_rng()
            try:
                rng.bit_generator.state = state
            except (KeyError, TypeError, ValueError):
                raise StateError("this is not the state of a source of fast noise") from None
            self._rng = rng

    def fork(self) -> "FastSource":
        return FastSource(self._rng.spawn(1)[0])

    def device(self) -> "FastSource":
        # The seed is drawn and not spawned, because a saved state does not count spawned children.
        return FastSource(np.random.default_rng(self._rng.integers(2**63, size=4)))

    def for_release(self, name: str) -> "FastSource":
        """A source for the release of this name.

        From one seed, two releases get independent noise, whatever its scale is.
        """
        own_seed = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16])
        common_seed = self._rng.integers(2**63, size=4).tolist()
        return FastSource(np.random.default_rng([*common_seed, own_seed]))

    def refresh(self) -> None:
        self._rng = np.random.default_rng()

    def token(self, size: int) -> bytes:
        whole("size", size, at_least=1, at_most=64)
        # The bits are hashed, because the generator's own bits would give its state away.
        bits = self._rng.bytes(32)
        return hashlib.blake2b(bits, digest_size=size).digest()

    def laplace_sum(self, scale: float, terms: int, shape: Shape) -> npt.NDArray[np.float64]:
        """The sum of `terms` independent draws of `laplace`.

        A Laplace variable is a difference of two exponential ones, whose sums have gamma
        distributions.
        """
        positive = self._rng.standard_gamma(terms, shape)
        negative = self._rng.standard_gamma(terms, shape)
        return scale * (positive - negative)


class SecureSource:
    """OpenDP's exact samplers of the discrete Gaussian and the discrete Laplace distribution.

    They use the system's entropy, so there is no seed that could leak.
    """

    name = "secure"
    discrete = True

    def __init__(self, *, lattice: bool = True) -> None:
        """Make a source. Without `lattice` it draws only what needs no OpenDP."""
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
        """Rows z [row, size] of whole numbers with probability proportional to exp(-s ||z||_inf).

        Here s = 1 / scale. The distribution is a mixture of uniform distributions on the cubes
        {-m..m}^size, with weights (2m + 1)^size exp(-s m).

        m is drawn as a sum of size + 1 geometric variables, which has weights proportional to
        prod_i (m + i) exp(-s m), i = 1..size. It is kept with probability
        prod_i (2m + 1)/(2m + 2i). All of this uses whole numbers and the system's entropy alone.
        """
        rows, size = shape
        draws = [self._cube_row(scale, size) for _ in range(rows)]
        return np.array(draws, dtype=np.int64).reshape(shape)

    def _cube_row(self, scale: float, size: int) -> list[int]:
        """One row of `cube`."""
        while True:
            m = self._geometric_sum(scale, size + 1)
            # The probability of keeping m, as a fraction of whole numbers.
            numerator = (2 * m + 1) ** size
            denominator = math.prod(2 * m + 2 * i for i in range(1, size + 1))
            if self._below(denominator) < numerator:
                return [self._below(2 * m + 1) - m for _ in range(size)]

    def ball(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[np.int64]:
        """Rows z [row, size] of whole numbers from shells of width J = `shell_width`(size).

        Their probabilities are proportional to exp(-max(floor(||z||_2 / J), 15) J / scale).

        Guarantee: epsilon-DP for a sensitivity of scale * epsilon, if that is a whole multiple of
        J.

        Proof. With D = size and s = J / scale, the distribution is a mixture of uniform
        distributions on the whole points of the balls ||z||_2 < J l, l > 15 (`radius` is l in the
        code), with weights (points of the ball) e^(-s l).

        1. l is drawn with weights l^D e^(-s l), as in `cube`.
        2. D coordinates are drawn from the discrete Gaussian of scale l. They are kept with
           probability exp(-((J l)^2 - ||z||^2) / (2 l^2)) if z is in the ball (`gap` is
           (J l)^2 - ||z||^2 in the code). This makes z uniform in the ball.
        3. If z is not kept, l is drawn anew, too. So l is kept in proportion to
           points / (l theta)^D, where l theta sqrt(2 pi) is the sum of the Gaussian's weights.
        4. By Poisson's summation 1 <= theta < 1 + 3 exp(-2 pi^2 l^2) < 1 + e^-5000. This, and the
           rounding of s, are paid for by a scale that is larger by a factor of 1 + 2^-40.

        One in sqrt(pi D) draws is kept. All of this uses whole numbers and the system's entropy
        alone.
        """
        rows, size = shape
        draws = [self._ball_row(scale, size) for _ in range(rows)]
        return np.array(draws, dtype=np.int64).reshape(shape)

    def _ball_row(self, scale: float, size: int) -> npt.NDArray[np.int64]:
        """One row of `ball`. The numbers of the comments are those of its proof."""
        width = shell_width(size)
        while True:
            # 1. l of the proof.
            radius = 1 + self._geometric_sum(scale / width * _BALL_SAFETY_FACTOR, size + 1)
            if radius <= _INNERMOST_SHELLS:
                continue
            # The sum has weights radius (radius + 1) ... (radius + D - 1) e^(-s radius).
            if self._below(math.prod(range(radius, radius + size))) >= radius**size:
                continue
            # 2. The coordinates, and 3. otherwise another l.
            z = self._draw("gaussian", float(radius), size, cached=False)
            gap = (width * radius) ** 2 - sum(int(coordinate) ** 2 for coordinate in z)
            if gap > 0 and exponential_coin(self._below, gap, 2 * radius * radius):
                return z

    def _geometric_sum(self, scale: float, terms: int) -> int:
        """The sum of geometric variables k = 0, 1, ... with weights exp(-k / scale).

        A discrete Laplace variable z gives one: z if z >= 0, and -z - 1 if not.
        """
        draws = self._draw("laplace", scale, terms)
        return sum(int(draw) if draw >= 0 else -int(draw) - 1 for draw in draws)

    def choose(self, likely: npt.NDArray[np.bool_], loss: float) -> int:
        return _choose(self._below, likely, loss)

    def _below(self, limit: int) -> int:
        """A whole number from 0 to limit - 1, all equally likely."""
        return secrets.randbelow(limit)

    def _draw(
        self, distribution: str, scale: float, shape: Shape, *, cached: bool = True
    ) -> npt.NDArray[np.int64]:
        """Exact draws. Samplers of scales that do not come again are not `cached`."""
        size = int(np.prod(shape))
        make_sampler = _sampler if cached else _sampler.__wrapped__
        sampler = make_sampler(distribution, scale, size)
        draws = np.array(sampler([0] * size), dtype=np.int64)
        if size and np.abs(draws).max() >= _LARGEST_DRAW:
            raise PrivacyError("a draw of noise does not fit into 64 bits")
        return draws.reshape(shape)

    def uniform(self, shape: Shape) -> npt.NDArray[np.float64]:
        """Uniform numbers in [0, 1), in steps of 2^-53."""
        size = int(np.prod(shape))
        bits = np.frombuffer(secrets.token_bytes(8 * size), dtype=np.uint64) >> np.uint64(11)
        uniform: npt.NDArray[np.float64] = bits.astype(np.float64).reshape(shape) * 2.0**-53
        return uniform

    def state(self) -> dict[str, Any]:
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """There is nothing to restore, because future draws are fresh."""

    def fork(self) -> "SecureSource":
        return self

    def device(self) -> "SecureSource":
        return SecureSource(lattice=self._lattice)

    def refresh(self) -> None:
        """There is nothing to forget."""

    def token(self, size: int) -> bytes:
        return secrets.token_bytes(whole("size", size, at_least=1, at_most=64))


def _choose(below: Callable[[int], int], likely: npt.NDArray[np.bool_], loss: float) -> int:
    """The draw of `NoiseSource.choose`: one uniform number below n + (N - n) e^-loss.

    There are N indices, and n of them are likely. Each likely index owns 1 of the range, and each
    other one owns e^-loss, in units of 2^-128. e^-loss is rounded up, so no index is more than
    e^loss times as likely as another.

    There is one draw whatever its result is, and both kinds of index are computed from it. So the
    time says nothing about the index. (An exact coin is thrown a random number of times, which
    tells its result [Canonne20].)
    """
    share_of_unlikely = _units_above(loss)
    count_of_likely = int(likely.sum())
    # The likely indices first.
    order = np.argsort(~likely, kind="stable")
    range_of_likely = count_of_likely * _UNITS
    number = below(range_of_likely + (len(likely) - count_of_likely) * share_of_unlikely)
    beyond = number - range_of_likely
    if_likely = number // _UNITS
    if_unlikely = count_of_likely + beyond // share_of_unlikely
    return int(order[(if_likely, if_unlikely)[beyond >= 0]])


@lru_cache(maxsize=64)
def _units_above(loss: float) -> int:
    """e^-loss in units of 2^-128, rounded up.

    It is computed to 60 digits. One unit is added for their rounding, and one rounds up.
    """
    with localcontext() as context:
        context.prec = 60
        return min(int((-Decimal(loss)).exp() * _UNITS) + 2, _UNITS)


def shell_width(size: int) -> int:
    """J of `SecureSource.ball`: the root of the number of coordinates, as a whole number."""
    return max(1, round(math.sqrt(size)))


def exponential_coin(below: Callable[[int], int], above: int, under: int) -> bool:
    """True with probability e^(-above / under), exactly [Canonne20, Alg. 1]."""
    # e^(-above / under) = e^-1 ... e^-1 e^-rest. There is one coin for each factor.
    while True:
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
    """Return the argument if it can draw noise, and refuse it otherwise."""
    source: NoiseSource = has(
        name,
        value,
        ("discrete", "gaussian", "laplace", "fork", "token"),
        "a source of noise, as noise_source makes",
    )
    return source


def _generator_of(seed: object) -> np.random.Generator:
    """NumPy's generator of a seed: a whole number, a seed sequence, a generator, or None."""
    if seed is None or isinstance(seed, np.random.SeedSequence | np.random.Generator):
        return np.random.default_rng(seed)
    return np.random.default_rng(whole("seed", seed, at_least=0))


def noise_source(
    name: str, seed: "int | np.random.SeedSequence | np.random.Generator | None" = None
) -> NoiseSource:
    """Make a source of noise, "fast" or "secure". The secure source refuses a seed."""
    if choice("name", name, ("fast", "secure")) == "fast":
        return FastSource(_generator_of(seed))
    if seed is not None:
        raise InvalidParameter(
            "the secure source has no seed: noise that can be reproduced can be subtracted"
        )
    return SecureSource()


@lru_cache(maxsize=64)
def _sampler(distribution: str, scale: float, size: int) -> Any:
    """OpenDP's function that adds noise of this scale to a list of whole numbers."""
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
