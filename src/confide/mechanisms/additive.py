"""Noise of the right size for one linear query, on the reals or on a lattice.

One class for all additive noise: Gaussian, Laplace, and the K-norm mechanism of the cube and the ball. They differ in the norm of the
sensitivity and in the draw, and in nothing else.
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
_COARSEST = 2.0**-8  # the lattice step against the scale of the noise, at most
_INT64 = 2.0**61
_FEW = 64  # coordinates: up to here an exact draw from the ball takes a few milliseconds
# of the sensitivity, by distribution
NORMS: dict[str, int | str] = {"gaussian": 2, "laplace": 1, "cube": "inf", "ball": 2}
_PURE = ("laplace", "cube", "ball")


def loss_of(
    distribution: str, sensitivity: float, scale: float, step: float | None
) -> GaussianDP | PureDP:
    """What additive noise gives for a query of this sensitivity, in the norm of the noise."""
    if distribution != "gaussian":
        return PureDP(sensitivity / scale)
    margin = 2 * step if step else 0.0  # of the lattice: see AdditiveNoise
    return GaussianDP(sensitivity / (scale - margin)) if scale > margin else GaussianDP(math.inf)


class LinearQuery(Protocol):
    """What is noised of a stream x: the rows of C x."""

    @property
    def integral(self) -> bool:
        """Whether C has whole entries, so that whole contributions give whole rows."""

    @property
    def coefficient(self) -> float:
        """The largest absolute entry of C."""

    def column_norm(self, order: int) -> float:
        """max_j ||C e_j|| in L1 or L2: how often, in that norm, one contribution is seen."""


@dataclass(frozen=True, slots=True)
class AdditiveNoise:
    """Independent noise of one scale on every coordinate of a query of known sensitivity.

    Guarantee: y = q(x) + z is mu-GDP for Gaussian z with scale = sensitivity_2(q) / mu, and epsilon-DP for Laplace z with scale =
    sensitivity_1(q) / epsilon. K-norm noise [HardtTalwar10] has a density proportional to exp(-||z|| / scale) on every row of C x, in
    the largest coordinate (cube) or in L2 (ball), and is epsilon-DP for scale = sensitivity / epsilon in that norm, because
    ||z + v|| <= ||z|| + ||v||; a contribution that is in several rows loses the sum, which is what the L1 norm of its column is for.

    With a `discrete` source everything is a whole multiple of `step`, the grid of the bound: contributions come rounded to it (the bound's
    sensitivity pays for that), sums are exact in int64, and the noise is exactly sampled, so that no low-order bit of floating point
    tells anything. Discrete Laplace, cube and ball noise is epsilon-DP as it stands. Discrete Gaussian noise of scale s steps is taken to
    be (k / (s - 2))-GDP for a shift by k steps: coordinate by coordinate its trade-off curve is the continuous one's up to one lattice step
    in the threshold (tests/mechanisms/test_additive.py computes the exact profile), and GDP composes over coordinates.

    With a source on the reals the noisy value is rounded to a public grid g, 2^-10 to 2^-11 of the scale. In real arithmetic this is
    post-processing, and costs nothing but g^2/12, 8e-8 of the variance. It is a second line of defence against attacks on low bits
    [Mironov12]: if the computed value is off by at most eta, the rounded value differs from that of real arithmetic only where the latter
    is within eta of the middle between two points, with probability 2 eta/g (1 + 2^-10) at most. A coordinate of size 2^m scale has eta =
    2^(m - 52) scale, so that delta grows by less than (1 + e^epsilon) 2^(m - 40) per coordinate. Secure noise has no such term.
    """

    distribution: str  # gaussian | laplace | cube | ball | none
    norm: int | str  # 2 | 1 | "inf": the norm in which `sensitivity` is measured
    sensitivity: float  # of one user's contribution
    stream_norm: float  # max_j ||C e_j||: how often, in that norm, one contribution is seen
    scale: float  # standard deviation (Gaussian), b (Laplace) or sensitivity / epsilon (cube, ball)
    step: float | None  # of the lattice; None on the reals
    size: int = 1  # coordinates that are noised together: K-norm noise depends on it

    @property
    def std(self) -> float:
        if self.distribution == "cube":
            return self.scale * math.sqrt((self.size + 1) * (self.size + 2) / 3)
        if self.distribution == "ball":
            return self.scale * math.sqrt(self.size + 1)
        return self.scale * (math.sqrt(2.0) if self.distribution == "laplace" else 1.0)

    def loss(self) -> Loss:
        """What the noise really gives."""
        if self.scale == 0:
            return PureDP(math.inf)
        return loss_of(
            self.distribution, self.sensitivity * self.stream_norm, self.scale, self.step
        )

    @property
    def order(self) -> int:
        """How losses of several releases add up: the norm of the stream, 2 for Gaussian noise and 1 for pure epsilon."""
        return 2 if self.distribution == "gaussian" else 1

    @property
    def snap(self) -> float:
        """The grid to which values with noise on the reals are rounded: a power of two."""
        return grid_below(self.scale)

    def to_lattice(self, values: Array) -> npt.NDArray[Any]:
        return values if self.step is None else np.rint(values / self.step).astype(np.int64)

    def add(self, exact: npt.NDArray[Any], noise: NoiseSource) -> Array:
        """exact [rows, size] -> the noisy rows, as floats. The source of an audit reads them, and may put others in their place."""
        noisy = exact if self.distribution == "none" else self._noisy(exact, noise)
        instead = getattr(noise, "instead", None)
        return noisy if instead is None else np.asarray(instead(self, exact, noisy))

    def _noisy(self, exact: npt.NDArray[Any], noise: NoiseSource) -> Array:
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
        result: Array = (exact + draw(self.scale / self.step, exact.shape)) * self.step
        return result


def sensitivity_of(bound: "Bound", norm: int | str, relation: Relation) -> float:
    """Of one user's contribution, in L1, in L2, or in its largest coordinate ("inf").

    No coordinate is larger than `largest`, so that replacing a user moves each by 2 `largest` at most, and each of both is rounded by
    half a grid step; somebody who contributes zero moves it by `largest`, unless the bound says that this is a contribution like others
    (`absent_is_zero`). No coordinate moves farther than the whole does in L2.
    """
    if norm == "inf":
        alone = relation == Relation.NULL and getattr(bound, "absent_is_zero", True)
        return min(bound.largest * (1 if alone else 2) + bound.grid, bound.sensitivity(relation))
    return bound.sensitivity(relation) if norm == 2 else bound.l1_sensitivity(relation)


def check_bound(value: object) -> "Bound":
    """The argument `bound`, if it is one."""
    members = ("size", "largest", "grid", "sensitivity", "l1_sensitivity", "identity")
    found: Bound = has("bound", value, members, "a bound on contributions, such as L2Ball")
    return found


def additive_noise(
    bound: "Bound",
    loss: Loss,
    relation: Relation,
    query: LinearQuery,
    *,
    discrete: bool,
    users: int,
) -> AdditiveNoise:
    """The Gaussian or Laplace noise under which `query` on a stream of contributions within `bound` keeps `loss`."""
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
        distribution, amount = "gaussian", loss.mu
    elif isinstance(loss, PureDP):
        distribution, amount = "laplace", loss.epsilon
    else:
        raise InvalidParameter(
            "additive noise serves GaussianDP or PureDP, not (epsilon, delta) alone"
        )
    if not (amount > 0 and math.isfinite(amount)):
        raise InvalidParameter(f"the loss must be positive and finite, got {loss}")
    made = _made(distribution, amount, bound, relation, query, discrete=discrete)
    return check_lattice(made, bound, query, users)


def cube_noise(
    bound: "Bound", epsilon: float, relation: Relation, *, discrete: bool
) -> AdditiveNoise:
    """The K-norm mechanism of the cube, for a user who is in one release: pure epsilon-DP."""
    return _made("cube", _epsilon(epsilon), bound, relation, None, discrete=discrete)


def ball_noise(
    bound: "Bound", epsilon: float, relation: Relation, *, discrete: bool
) -> AdditiveNoise:
    """The K-norm mechanism of the L2 ball, for a user who is in one release: pure epsilon-DP.

    On a lattice the probabilities are proportional to exp(-floor(||z||_2 / J) J / scale), J = `shell_width` steps, and the sensitivity is
    rounded up to T J steps: floor((a + T J) / J) = floor(a / J) + T.
    """
    return _made("ball", _epsilon(epsilon), bound, relation, None, discrete=discrete)


def pure_noise(
    bound: "Bound", epsilon: float, relation: Relation, *, discrete: bool, users: int
) -> AdditiveNoise:
    """The least noise that is epsilon-DP for a user who is in one release: Laplace, cube or ball. All of it is public."""
    check_bound(bound)
    kinds = _PURE if bound.size <= _FEW else _PURE[:2]
    made = [
        _made(kind, _epsilon(epsilon), bound, relation, None, discrete=discrete) for kind in kinds
    ]
    return check_lattice(
        min(made, key=lambda noise: noise.std), bound, None, whole("users", users, at_least=1)
    )


def least_noise(
    bound: "Bound", privacy: Request, query: LinearQuery, *, discrete: bool, users: int
) -> AdditiveNoise:
    """The noise with the smallest variance that keeps `privacy`: by a formula of public numbers.

    Where a user is in one release (no column of the query is longer than one in L1), all kinds are compared: Gaussian noise for delta > 0,
    Laplace, cube and ball for any delta, since epsilon-DP is more than was asked for. What then is lost is pure: charge `loss()` of the
    noise, never `loss_for(privacy)`. Counters, in which a user is in many sums, have Gaussian noise, or Laplace noise at delta = 0.
    """
    check_privacy_request(privacy)
    relation = Relation(privacy.relation)
    usual = additive_noise(
        bound, loss_for(privacy), relation, query, discrete=discrete, users=users
    )
    if isinstance(privacy, NoPrivacy) or query.column_norm(1) > 1:
        return usual
    return min(
        usual,
        pure_noise(bound, privacy.epsilon, relation, discrete=discrete, users=users),
        key=lambda noise: noise.std,
    )


def _epsilon(value: float) -> float:
    if not (value > 0 and math.isfinite(value)):
        raise InvalidParameter.of("epsilon", "must be positive and finite", got=f"{value}")
    return value


def _made(
    distribution: str,
    amount: float,
    bound: "Bound",
    relation: Relation,
    query: LinearQuery | None,
    *,
    discrete: bool,
) -> AdditiveNoise:
    """Noise of one kind for a loss of this amount, mu or epsilon; `query` None: a user is in one release."""
    norm, step = NORMS[distribution], bound.grid if discrete else None
    stream_norm = (
        1.0 if query is None else query.column_norm(2 if distribution == "gaussian" else 1)
    )
    sensitivity = sensitivity_of(bound, norm, relation)
    if distribution == "ball" and step is not None:
        unit = Fraction(step) * shell_width(bound.size)
        sensitivity = float(math.ceil(Fraction(sensitivity) / unit) * unit)
    scale = sensitivity * stream_norm / amount
    if distribution == "gaussian" and step is not None:
        scale += 2 * step
    return AdditiveNoise(distribution, norm, sensitivity, stream_norm, scale, step, bound.size)


def check_lattice(
    made: AdditiveNoise, bound: "Bound", query: LinearQuery | None, users: int
) -> AdditiveNoise:
    """The noise, unless whole numbers of 64 bits cannot hold it and the sums, or the lattice is too coarse."""
    step, scale = made.step, made.scale
    if step is None:
        return made
    if query is not None and not query.integral:
        raise InvalidParameter(
            "secure noise needs a counter whose coded sums are whole numbers: Tree, HonakerTree or Toeplitz(bits=...)"
        )
    coefficient = 1.0 if query is None else query.coefficient
    if max((users + 1) * bound.largest * coefficient, 128 * scale) / step > _INT64:
        raise InvalidParameter(
            f"the sums of {users} users and noise of scale {scale:g} do not fit into 64 bits: use fewer users or bits"
        )
    if (users + 1) * bound.largest / step >= 2.0**53:
        raise InvalidParameter(
            f"the sums of {users} users are not exact in floating point: use fewer users"
        )
    if step > _COARSEST * scale:
        raise InvalidParameter(
            f"noise of scale {scale:g} is too small for the lattice of step {step:g}: use a smaller epsilon"
        )
    return made
