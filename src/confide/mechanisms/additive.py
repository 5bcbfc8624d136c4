"""Additive noise of the right size for one linear query, on the reals or on a lattice.

There is one class for all additive noise: Gaussian, Laplace, and the K-norm mechanism of the cube
and the ball. They differ in the norm of the sensitivity and in the draw, and in nothing else.

What leaves this file: the names of the distributions stand in certificates and saved states. The
scale that a function here computes is required for privacy, down to its last bit of rounding.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.arguments import has, whole
from confide.errors import InvalidParameter
from confide.mechanisms.precise import grid_below, round_to_grid
from confide.mechanisms.sources import NoiseSource, shell_width
from confide.privacy.loss import GaussianDP, Loss, PureDP, check_loss, loss_for
from confide.privacy.request import NoPrivacy, Relation, Request, check_privacy_request

if TYPE_CHECKING:
    from confide.privacy.bounded import Bound

Array = npt.NDArray[np.float64]
# The lattice step is at most this share of the scale of the noise. Taste: it makes the cost of the
# lattice, two steps of scale, less than 1 %.
_COARSEST_STEP = 2.0**-8
# Sums and noise must stay below this, so that both together fit into 64 bits. Required for privacy.
_LARGEST_INTEGER = 2.0**61
# So many scales are reserved for the noise. Taste: Laplace noise exceeds them with probability
# e^-128, and the samplers refuse a draw that does not fit into 62 bits.
_REACH = 128
# Sums of whole numbers up to this are exact in floating point. Required for privacy.
_LARGEST_EXACT = 2.0**53
# Up to so many coordinates an exact draw from the ball takes a few milliseconds. Taste.
_MOST_COORDINATES_OF_BALL = 64
# On a lattice a Gaussian scale loses so many steps (see `AdditiveNoise`). Required for privacy.
_STEPS_LOST = 2
# The norm in which the noise of a distribution needs the sensitivity.
NORMS: dict[str, int | str] = {"gaussian": 2, "laplace": 1, "cube": "inf", "ball": 2}
_PURE = ("laplace", "cube", "ball")


def loss_of(
    distribution: str, sensitivity: float, scale: float, step: float | None
) -> GaussianDP | PureDP:
    """The loss of additive noise for a query of this sensitivity, in the norm of the noise."""
    if distribution != "gaussian":
        return PureDP(sensitivity / scale)
    lost_scale = _STEPS_LOST * step if step else 0.0
    if scale <= lost_scale:
        return GaussianDP(math.inf)
    return GaussianDP(sensitivity / (scale - lost_scale))


class LinearQuery(Protocol):
    """A linear query of a stream x, given by a matrix C: noise is added to the rows of C x."""

    @property
    def integral(self) -> bool:
        """Whether C has whole entries, so that whole contributions give whole rows."""

    @property
    def coefficient(self) -> float:
        """The largest absolute entry of C."""

    def column_norm(self, order: int) -> float:
        """max_j ||C e_j|| in L1 or L2: how often, in that norm, one contribution is counted."""


@dataclass(frozen=True, slots=True)
class AdditiveNoise:
    """Independent noise of one scale on every coordinate of a query of known sensitivity.

    The query is q(x) = C x, and its sensitivity is `sensitivity` * `stream_norm` (both below).

    Guarantee: y = q(x) + z is mu-GDP for Gaussian z with scale = sensitivity_2(q) / mu. It is
    epsilon-DP for Laplace z with scale = sensitivity_1(q) / epsilon. K-norm noise [HardtTalwar10]
    has a density proportional to exp(-||z|| / scale) on every row of C x, where ||z|| is the
    largest coordinate (cube) or the L2 norm (ball). It is epsilon-DP for scale = sensitivity /
    epsilon in that norm, because ||z + v|| <= ||z|| + ||v||. A contribution in several rows loses
    the sum of their losses, so the L1 norm of its column of C counts.

    Lattice. With a `discrete` source everything is a whole multiple of `step`, the grid of the
    bound. Contributions come rounded to it, and the sensitivity of the bound pays for that. Sums
    are exact in int64, and the noise is exactly sampled. So no low-order bit of floating point
    tells anything.

    - Discrete Laplace, cube and ball noise is epsilon-DP as it stands.
    - Discrete Gaussian noise of a scale of s steps is taken to be (k / (s - 2))-GDP for a shift by
      k steps. Coordinate by coordinate, its trade-off curve is the continuous one's up to one
      lattice step in the threshold, and GDP composes over coordinates. This is not proved on paper:
      tests/mechanisms/test_additive.py computes the exact profile.

    Reals. With a source on the reals the noisy value is rounded to a public grid g (`snap`), which
    is 2^-10 to 2^-11 of the scale. In real arithmetic this is post-processing, and costs nothing
    but g^2/12, 8e-8 of the variance. It is a second line of defence against attacks on low bits
    [Mironov12]. If the computed value is off by at most eta, the rounded value differs from that of
    real arithmetic only where the latter is within eta of the middle between two points. This has a
    probability of at most 2 eta/g (1 + 2^-10). A coordinate of size 2^m scale has eta = 2^(m - 52)
    scale, so delta grows by less than (1 + e^epsilon) 2^(m - 40) per coordinate. Secure noise has
    no such term.
    """

    # "gaussian", "laplace", "cube", "ball" or "none".
    distribution: str
    # The norm in which `sensitivity` is measured: 2, 1 or "inf".
    norm: int | str
    # The sensitivity of one user's contribution.
    sensitivity: float
    # max_j ||C e_j||: how often, in that norm, one contribution is counted.
    stream_norm: float
    # The standard deviation (Gaussian), b (Laplace), or sensitivity / epsilon (cube, ball).
    scale: float
    # The step of the lattice, or None on the reals.
    step: float | None
    # How many coordinates get noise together. K-norm noise depends on it.
    size: int = 1

    @property
    def std(self) -> float:
        """The standard deviation of the noise on each coordinate."""
        if self.distribution == "cube":
            return self.scale * math.sqrt((self.size + 1) * (self.size + 2) / 3)
        if self.distribution == "ball":
            return self.scale * math.sqrt(self.size + 1)
        if self.distribution == "laplace":
            return self.scale * math.sqrt(2.0)
        return self.scale

    def loss(self) -> Loss:
        """The privacy loss of this noise. It may be smaller than the loss that was asked for."""
        if self.scale == 0:
            return PureDP(math.inf)
        return loss_of(
            self.distribution, self.sensitivity * self.stream_norm, self.scale, self.step
        )

    @property
    def order(self) -> int:
        """The norm in which the losses of several releases add up, L2 or L1."""
        return 2 if self.distribution == "gaussian" else 1

    @property
    def snap(self) -> float:
        """The grid to which values with noise on the reals are rounded: a power of two."""
        return grid_below(self.scale)

    def to_lattice(self, values: Array) -> npt.NDArray[Any]:
        """Values in whole steps of the lattice. On the reals they stay as they are."""
        return values if self.step is None else np.rint(values / self.step).astype(np.int64)

    def add(self, exact: npt.NDArray[Any], noise: NoiseSource) -> Array:
        """Add noise to exact [row, size], and return the noisy rows as floats.

        The source of an audit has a method `instead`. It reads the rows, and may replace them.
        """
        noisy = exact if self.distribution == "none" else self._noisy(exact, noise)
        instead = getattr(noise, "instead", None)
        return noisy if instead is None else np.asarray(instead(self, exact, noisy))

    def _noisy(self, exact: npt.NDArray[Any], noise: NoiseSource) -> Array:
        """exact [row, size], with noise, on the reals or on the lattice."""
        draw = {
            "gaussian": noise.gaussian,
            "laplace": noise.laplace,
            "cube": noise.cube,
            "ball": noise.ball,
        }[self.distribution]
        if self.step is None:
            noisy: Array = draw(self.scale, exact.shape)
            noisy += exact
            return round_to_grid(noisy, self.snap)
        # In whole steps, where the sum is exact.
        noisy_steps = exact + draw(self.scale / self.step, exact.shape)
        return np.asarray(noisy_steps * self.step)


def sensitivity_of(bound: "Bound", norm: int | str, relation: Relation) -> float:
    """The sensitivity of one user's contribution in L1, L2 or its largest coordinate ("inf").

    In the largest coordinate: no coordinate is larger than `largest`. Replacing a user moves each
    by at most 2 `largest`, and both contributions are rounded by half a grid step. A user who
    contributes zero instead moves it by `largest`, unless the bound says that zero is a
    contribution like others (`absent_is_zero`). No coordinate moves farther than the whole vector
    does in L2.
    """
    if norm == 2:
        return bound.sensitivity(relation)
    if norm == 1:
        return bound.l1_sensitivity(relation)
    becomes_zero = relation == Relation.NULL and getattr(bound, "absent_is_zero", True)
    largest_move = bound.largest * (1 if becomes_zero else 2) + bound.grid
    return min(largest_move, bound.sensitivity(relation))


def check_bound(value: object) -> "Bound":
    """Return the argument `bound` if it is one, and refuse it otherwise."""
    members = ("size", "largest", "grid", "sensitivity", "l1_sensitivity", "identity")
    bound: Bound = has("bound", value, members, "a bound on contributions, such as L2Ball")
    return bound


def additive_noise(
    bound: "Bound",
    loss: Loss,
    relation: Relation,
    query: LinearQuery,
    *,
    discrete: bool,
    users: int,
) -> AdditiveNoise:
    """The Gaussian or Laplace noise with which a query keeps `loss`.

    The query is one of a stream of contributions within `bound`, by at most `users` users.
    """
    check_bound(bound)
    has(
        "query",
        query,
        ("integral", "coefficient", "column_norm"),
        "a query that is linear, such as a counter",
    )
    whole("users", users, at_least=1)
    check_loss(loss)
    if loss == PureDP(math.inf):
        return AdditiveNoise(
            "none", 2, bound.sensitivity(relation), query.column_norm(2), 0.0, None
        )
    if isinstance(loss, GaussianDP):
        distribution = "gaussian"
        amount = loss.mu
    elif isinstance(loss, PureDP):
        distribution = "laplace"
        amount = loss.epsilon
    else:
        raise InvalidParameter(
            "additive noise serves GaussianDP or PureDP, not (epsilon, delta) alone"
        )
    if not (amount > 0 and math.isfinite(amount)):
        raise InvalidParameter(f"the loss must be positive and finite, got {loss}")
    noise = _calibrate(distribution, amount, bound, relation, query, discrete=discrete)
    return check_lattice(noise, bound, query, users)


def cube_noise(
    bound: "Bound", epsilon: float, relation: Relation, *, discrete: bool
) -> AdditiveNoise:
    """The K-norm mechanism of the cube, for a user who is in one release: pure epsilon-DP."""
    return _calibrate("cube", _check_epsilon(epsilon), bound, relation, None, discrete=discrete)


def ball_noise(
    bound: "Bound", epsilon: float, relation: Relation, *, discrete: bool
) -> AdditiveNoise:
    """The K-norm mechanism of the L2 ball, for a user who is in one release: pure epsilon-DP.

    On a lattice the probabilities are proportional to exp(-floor(||z||_2 / J) J / scale) with
    J = `shell_width` steps. The sensitivity is rounded up to T J steps for a whole T, because
    floor((a + T J) / J) = floor(a / J) + T.
    """
    return _calibrate("ball", _check_epsilon(epsilon), bound, relation, None, discrete=discrete)


def pure_noise(
    bound: "Bound", epsilon: float, relation: Relation, *, discrete: bool, users: int
) -> AdditiveNoise:
    """The least noise that is epsilon-DP for a user who is in one release: Laplace, cube or ball.

    The choice depends on public numbers only.
    """
    check_bound(bound)
    whole("users", users, at_least=1)
    amount = _check_epsilon(epsilon)
    distributions = list(_PURE)
    if bound.size > _MOST_COORDINATES_OF_BALL:
        distributions.remove("ball")
    candidates = [
        _calibrate(distribution, amount, bound, relation, None, discrete=discrete)
        for distribution in distributions
    ]
    least = min(candidates, key=lambda noise: noise.std)
    return check_lattice(least, bound, None, users)


def least_noise(
    bound: "Bound", privacy: Request, query: LinearQuery, *, discrete: bool, users: int
) -> AdditiveNoise:
    """The noise with the smallest variance that keeps `privacy`.

    The choice is a formula of public numbers. If a user is in one release (no column of the query
    is longer than one in L1), all kinds are compared: Gaussian noise for delta > 0, and Laplace,
    cube and ball noise for any delta, because epsilon-DP is more than was asked for. The loss may
    then be pure: charge `loss()` of the noise, and never `loss_for(privacy)`. Counters, in which a
    user is in many sums, get Gaussian noise, or Laplace noise at delta = 0.
    """
    check_privacy_request(privacy)
    relation = Relation(privacy.relation)
    usual = additive_noise(
        bound, loss_for(privacy), relation, query, discrete=discrete, users=users
    )
    if isinstance(privacy, NoPrivacy) or query.column_norm(1) > 1:
        return usual
    pure = pure_noise(bound, privacy.epsilon, relation, discrete=discrete, users=users)
    return min(usual, pure, key=lambda noise: noise.std)


def _check_epsilon(value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise InvalidParameter.of("epsilon", "must be positive and finite", got=f"{value}")
    return value


def _calibrate(
    distribution: str,
    amount: float,
    bound: "Bound",
    relation: Relation,
    query: LinearQuery | None,
    *,
    discrete: bool,
) -> AdditiveNoise:
    """Noise of one kind for a loss of this amount, which is mu or epsilon.

    Without a `query` every user is in one release.
    """
    norm = NORMS[distribution]
    step = bound.grid if discrete else None
    stream_norm = 1.0
    if query is not None:
        stream_norm = query.column_norm(2 if distribution == "gaussian" else 1)
    sensitivity = sensitivity_of(bound, norm, relation)
    if distribution == "ball" and step is not None:
        # Rounded up to whole shells, exactly: see `ball_noise`.
        shell = Fraction(step) * shell_width(bound.size)
        sensitivity = float(math.ceil(Fraction(sensitivity) / shell) * shell)
    scale = sensitivity * stream_norm / amount
    if distribution == "gaussian" and step is not None:
        scale += _STEPS_LOST * step
    return AdditiveNoise(distribution, norm, sensitivity, stream_norm, scale, step, bound.size)


def check_lattice(
    noise: AdditiveNoise, bound: "Bound", query: LinearQuery | None, users: int
) -> AdditiveNoise:
    """Return the noise, if 64 bits can hold it and its lattice is fine enough. Refuse it if not."""
    step = noise.step
    scale = noise.scale
    if step is None:
        return noise
    if query is not None and not query.integral:
        raise InvalidParameter(
            "secure noise needs a counter whose coded sums are whole numbers: "
            "Tree, HonakerTree or Toeplitz(bits=...)"
        )
    coefficient = 1.0 if query is None else query.coefficient
    largest_sum = (users + 1) * bound.largest
    if max(largest_sum * coefficient, _REACH * scale) / step > _LARGEST_INTEGER:
        raise InvalidParameter(
            f"the sums of {users} users and noise of scale {scale:g} do not fit into 64 bits: "
            "use fewer users or bits"
        )
    if largest_sum / step >= _LARGEST_EXACT:
        raise InvalidParameter(
            f"the sums of {users} users are not exact in floating point: use fewer users"
        )
    if step > _COARSEST_STEP * scale:
        raise InvalidParameter(
            f"noise of scale {scale:g} is too small for the lattice of step {step:g}: "
            "use a smaller epsilon"
        )
    return noise
