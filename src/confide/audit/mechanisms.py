"""Audits of mechanisms and counters on their worst pair of neighbours, and broken variants.

The pair differs in one user, the one whom most rows see (leaf 1), who sends something far outside
the bound in opposite directions. So the clip is attacked together with the noise. The other users
send nothing: what they send cancels. The broken variants (twins) exist to show that an audit
detects what it should.
"""

import math
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.audit.refute import Score
from confide.mechanisms.additive import ball_noise, cube_noise
from confide.mechanisms.counters import Counter, Factorisation, dense
from confide.mechanisms.counters.counter import Memory
from confide.mechanisms.smooth import SmoothGaussian
from confide.mechanisms.sources import FastSource, NoiseSource, Shape, noise_source
from confide.privacy.bounded import Array, Bound, Bounded, L2Ball
from confide.privacy.loss import Loss, PureDP, loss_for
from confide.privacy.request import CentralDP, Relation
from confide.privatizers import CentralPrivatizer, Schedule, geometric
from confide.statistics.bounds import RegressionRows

TWINS = {
    "noise": "noise 20 % too small",
    "clip": "the clip left out",
    "redraw": "noise redrawn at a restart",
    "shared": "one draw shared by all coordinates",
}
# How far outside the bound the user tries to get, as a multiple of it.
_FAR = 1e3
# Likelihood ratios are rounded to so many digits, as in real arithmetic: the low bits of fast noise
# tell the two worlds apart, as its source says.
RATIO_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Scaled:
    """A broken source: its noise is `factor` times the requested noise."""

    inner: FastSource
    factor: float = 0.8
    name: str = "fast"
    discrete: bool = False

    def gaussian(self, scale: float, shape: Shape) -> npt.NDArray[Any]:
        return self.inner.gaussian(self.factor * scale, shape)

    def laplace(self, scale: float, shape: Shape) -> npt.NDArray[Any]:
        return self.inner.laplace(self.factor * scale, shape)

    def lattice_gaussian(self, scale: float, shape: Shape) -> npt.NDArray[np.int64]:
        return self.inner.lattice_gaussian(self.factor * scale, shape)

    def cube(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[Any]:
        return self.inner.cube(self.factor * scale, shape)

    def ball(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[Any]:
        return self.inner.ball(self.factor * scale, shape)

    def choose(self, likely: npt.NDArray[np.bool_], loss: float) -> int:
        return self.inner.choose(likely, loss / self.factor)

    def state(self) -> dict[str, Any]:
        return self.inner.state()

    def restore(self, state: dict[str, Any]) -> None:
        self.inner.restore(state)

    def fork(self) -> "Scaled":
        return type(self)(self.inner.fork(), self.factor)

    def device(self) -> "Scaled":
        return type(self)(self.inner.device(), self.factor)

    def refresh(self) -> None:
        self.inner.refresh()

    def token(self, size: int) -> bytes:
        return self.inner.token(size)


@dataclass(frozen=True, slots=True)
class Shared(Scaled):
    """A broken source: one draw for all coordinates, as if noise were a number and not a vector."""

    def gaussian(self, scale: float, shape: Shape) -> npt.NDArray[Any]:
        return np.full(shape, self.inner.gaussian(scale, 1)[0])

    def laplace(self, scale: float, shape: Shape) -> npt.NDArray[Any]:
        return np.full(shape, self.inner.laplace(scale, 1)[0])

    def cube(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[Any]:
        return np.full(shape, self.inner.cube(scale, (1, 1))[0, 0])

    def ball(self, scale: float, shape: tuple[int, int]) -> npt.NDArray[Any]:
        return np.full(shape, self.inner.ball(scale, (1, 1))[0, 0])


class Tapped:
    """A factorisation whose noisy rows the adversary reads.

    The guarantee covers them, and the releases are made of them.
    """

    def __init__(self, inner: Factorisation) -> None:
        self._inner = inner
        self.rows: list[Array] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def decode(self, t: int, rows: Array, memory: Memory) -> Array:
        self.rows.append(rows.ravel())
        return self._inner.decode(t, rows, memory)


@dataclass(frozen=True, slots=True)
class CounterSubject:
    """A counter over a short stream: every noisy row, and so everything it releases."""

    factorisation: Factorisation
    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"
    bound: L2Ball = field(default_factory=lambda: L2Ball(1.0, 2))

    @property
    def loss(self) -> Loss:
        return loss_for(self.privacy)

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        source = make_source(self.source, self.twin, rng)
        sent = _FAR * self._difference() * (1 if world else -1)
        grid = self.bound.grid
        if self.twin == "clip":
            first = bypass_bound(np.rint(sent / grid) * grid, self.bound, 1)
        else:
            first = self.bound.clip(sent)
        return np.stack([self._run(first, source) for _ in range(runs)])

    def _difference(self) -> Array:
        """The first user's contribution.

        It is a corner, so that it is extreme in L1 and in L2, with signs that a shared draw cannot
        hide.
        """
        signs: Array = np.resize([1.0, -1.0], self.bound.size)
        return signs * self.bound.radius / math.sqrt(self.bound.size)

    def _run(self, first: Bounded, source: NoiseSource) -> Array:
        nothing = Bounded(np.zeros(self.bound.size), self.bound)
        rows: list[Array] = []
        for _ in range(copies(self.twin)):
            tapped = Tapped(self.factorisation)
            users = self.factorisation.leaves
            counter = Counter(
                self.bound, tapped, loss=self.loss, request=self.privacy, users=users, noise=source
            )
            for t in range(users):
                counter.absorb(nothing if t else first)
            rows += tapped.rows
        return np.concatenate(rows)

    def score(self) -> Score | None:
        """For Laplace noise its likelihood ratio.

        Otherwise a linear test is fitted, which is optimal.
        """
        if self.privacy.delta > 0 or self.twin == "shared":
            return None
        _, coder = dense(self.factorisation)
        shift = np.tile((coder[:, :1] * self._difference()).ravel(), copies(self.twin))

        def log_ratio(views: Array) -> Array:
            ratio: Array = (np.abs(views + shift) - np.abs(views - shift)).sum(axis=1)
            return np.round(ratio, RATIO_DIGITS)

        return log_ratio


@dataclass(frozen=True, slots=True)
class KNormSubject:
    """One release of two numbers with K-norm noise, of the cube or the ball.

    The user moves it on the axis where it moves most in both norms.
    """

    body: str
    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"
    bound: L2Ball = field(default_factory=lambda: L2Ball(1.0, 2))

    @property
    def loss(self) -> Loss:
        return PureDP(self.privacy.epsilon)

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        source = make_source(self.source, self.twin, rng)
        bound = self.bound
        sent = _FAR * self._difference() * (1 if world else -1)
        values = sent if self.twin == "clip" else bound.clip(sent).values
        make = {"cube": cube_noise, "ball": ball_noise}[self.body]
        noise = make(bound, self.privacy.epsilon, Relation.REPLACE, discrete=source.discrete)
        exact = noise.to_lattice(values)[None]
        draws = range(copies(self.twin))
        return np.stack(
            [np.concatenate([noise.add(exact, source)[0] for _ in draws]) for _ in range(runs)]
        )

    def _difference(self) -> Array:
        return np.array([self.bound.radius, 0.0])

    def score(self) -> Score | None:
        """The likelihood ratio of the noise that it should be."""
        if self.twin == "shared":
            return None
        order = np.inf if self.body == "cube" else 2
        shift = self._difference()

        def log_ratio(views: Array) -> Array:
            releases = views.reshape(len(views), -1, 2)
            ratios = np.linalg.norm(releases + shift, order, axis=2) - np.linalg.norm(
                releases - shift, order, axis=2
            )
            total: Array = ratios.sum(axis=1)
            return np.round(total, RATIO_DIGITS)

        return log_ratio


@dataclass(frozen=True, slots=True)
class StreamSubject:
    """Least-squares statistics through a privatizer on a geometric schedule, for 64 users.

    The adversary sees the whole released stream of a learner.
    """

    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"
    episodes: int = 64

    @property
    def loss(self) -> Loss:
        return loss_for(self.privacy)

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        bound = RegressionRows(2, 2)
        schedule = geometric(self.episodes, first=8, ratio=2.0)
        rows = np.full((self.episodes, 2, 2), 0.3)
        targets = np.full((self.episodes, 2), 0.5)
        rows[0], targets[0] = _opposite_rows(world)
        edges = list(pairwise((0, *schedule.times)))
        leaves = [bound.contribution(rows[a:b], targets[a:b]) for a, b in edges]
        source = make_source(self.source, self.twin, rng)
        return np.stack([self._run(bound, schedule, leaves, source) for _ in range(runs)])

    def _run(
        self, bound: RegressionRows, schedule: Schedule, leaves: list[Bounded], source: NoiseSource
    ) -> Array:
        releases: list[Array] = []
        for _ in range(copies(self.twin)):
            privatizer = CentralPrivatizer(bound, schedule, privacy=self.privacy, noise=source)
            for leaf in leaves:
                privatizer.absorb(leaf)
                releases.append(privatizer.release().values)
        return np.concatenate(releases)

    def score(self) -> Score | None:
        return None


def _opposite_rows(world: int) -> tuple[Array, Array]:
    """The rows and the targets of the first user.

    After the clip they are the pair that attains the sensitivity of `RegressionRows` at kappa = L =
    Y = 1: X.X' = 1/2, y = -y'.
    """
    sign = 1.0 if world else -1.0
    row = [math.cos(math.pi / 6), sign * math.sin(math.pi / 6)]
    return _FAR * np.tile(row, (2, 1)), np.full(2, sign * _FAR)


@dataclass(frozen=True, slots=True)
class SmoothSubject:
    """The Gaussian of smooth sensitivity.

    The neighbours differ in value and in noise as much as is allowed.
    """

    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"
    dimension: int = 2

    @property
    def loss(self) -> Loss:
        return self._mechanism().loss

    def _mechanism(self) -> SmoothGaussian:
        return SmoothGaussian(self.privacy.epsilon, self.privacy.delta, self.dimension)

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        mechanism = self._mechanism()
        source = make_source(self.source, self.twin, rng)
        value = np.zeros(self.dimension)
        value[0] = (_FAR if self.twin == "clip" else 1.0) * world
        # beta bounds the change of the square.
        smooth = math.exp(mechanism.beta / 2 * (1 - world))
        draws = range(copies(self.twin))
        return np.stack(
            [
                np.concatenate([mechanism.release(value, smooth, source, least=1.0) for _ in draws])
                for _ in range(runs)
            ]
        )

    def score(self) -> Score | None:
        if self.twin in ("clip", "shared"):
            return None
        mechanism = self._mechanism()
        narrow = mechanism.alpha
        wide = narrow * math.exp(mechanism.beta / 2)
        shift = np.tile(np.eye(self.dimension)[0], copies(self.twin))

        def log_ratio(views: Array) -> Array:
            from_zero = (views**2).sum(axis=1) / (2 * wide**2)
            from_shift = ((views - shift) ** 2).sum(axis=1) / (2 * narrow**2)
            ratio: Array = from_zero - from_shift
            return ratio

        return log_ratio


def bypass_bound(values: Array, bound: Bound, users: int) -> Bounded:
    """A contribution past the bound that should have clipped it.

    Only a broken twin makes one, by going round the constructor.
    """
    contribution = object.__new__(Bounded)
    for name, value in (("values", values), ("bound", bound), ("users", users)):
        object.__setattr__(contribution, name, value)
    return contribution


def copies(twin: str | None) -> int:
    """How often noise is drawn for the same data."""
    return 2 if twin == "redraw" else 1


def make_source(name: str, twin: str | None, rng: np.random.Generator) -> NoiseSource:
    if name != "fast":
        return noise_source(name)
    fast = FastSource(rng)
    if twin == "noise":
        return Scaled(fast)
    return Shared(fast) if twin == "shared" else fast
