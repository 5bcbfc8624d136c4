"""What an episode of a linear system contributes, clipped as a whole.

PRIVATE until a privatizer has added noise. What leaves this file are `Bounded` sums, and the
`identity` of each bound, which stands in certificates and saved states.

- `ControlRows` and `ControlSums`: sums of z z^T and z x'^T with z = (x, u), for `ofu-lq`.
- `ResidualRows` and `Residuals`: what the episode says beyond a public guess of the dynamics, for
  `thompson-lq` and `certainty-equivalent-lq`.

Nothing here may be changed without a new proof: privacy rests on the sensitivities that are proved
in the docstrings, and these on the clipping, which holds for any data. Letters: n states, d inputs,
p = n + d, H steps numbered h; x' is the next state.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from confide.control import _contribution_kernels as _kernels
from confide.control.residual_features import released_moments, unpack_residuals
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.mechanisms.symmetric import ISOMETRIC, smat, svec_size
from confide.privacy.bounded import Array, Bounded, grid_for, real_numbers
from confide.privacy.request import Relation
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class ControlRows:
    """The joint query (S, sqrt(2) s C) of one episode: S = sum_h c_h z z^T, C = sum_h c_h z x'^T, s
    = `weight`.

    Enforced: the episode's trace, sum_h c_h (||z||^2 + s^2 ||x'||^2), is at most tau = `cap`, by
    weights c_h in [0, 1] (`ControlSums`); an episode with a number that is not finite contributes
    zero.

    Sensitivity: with v = (z, s x') the query is isometric to all blocks but one of the PSD matrix G
    = sum_h c_h v v^T, whose trace is at most tau, so that ||G||_F <= tau (null). replace: ||G -
    G'||_F^2 = ||G||_F^2 + ||G'||_F^2 - 2 <G, G'> <= 2 tau^2, since <G, G'> >= 0; attained by one
    step each, in orthogonal directions. It does not depend on the horizon. In L1 by
    sqrt(coordinates). Rounding to the grid moves each coordinate of either user by half a grid
    step, which is added.

    `off_diagonal` weighs the entries of S off its diagonal (`mechanisms/symmetric.py`). With less
    than sqrt(2) the query is shorter than that isometric one, so the sensitivity holds, and the
    same pair of users attains it: their steps are along coordinate axes.
    """

    states: int
    inputs: int
    cap: float
    weight: float = 1.0
    off_diagonal: float = ISOMETRIC

    def __post_init__(self) -> None:
        for name in ("states", "inputs"):
            if getattr(self, name) < 1:
                raise InvalidParameter(
                    f"{name} must be at least 1, got {name}={getattr(self, name)}"
                )
        for name in ("cap", "weight"):
            if not 1e-6 < getattr(self, name) < 1e6:
                raise InvalidParameter(
                    f"{name} must be between 1e-6 and 1e6, got {name}={getattr(self, name)}"
                )
        if not 0 < self.off_diagonal <= ISOMETRIC:
            raise InvalidParameter(
                f"off_diagonal must be in (0, sqrt(2)], got off_diagonal={self.off_diagonal}"
            )

    def identity(self) -> Identity:
        # Isometric coordinates are not named, so saved states and certificates of them stay valid.
        coordinates = {} if self.off_diagonal == ISOMETRIC else {"off_diagonal": self.off_diagonal}
        return Identity(
            "control-rows",
            1,
            states=self.states,
            inputs=self.inputs,
            cap=self.cap,
            weight=self.weight,
            **coordinates,
        )

    @property
    def dimension(self) -> int:
        """p, of z."""
        return self.states + self.inputs

    @property
    def about(self) -> str:
        return (
            f"second moments of {self.dimension} states and inputs, among themselves and with "
            f"{self.states} next states"
        )

    @property
    def size(self) -> int:
        return svec_size(self.dimension) + self.dimension * self.states

    @property
    def largest(self) -> float:
        return self.cap

    @property
    def grid(self) -> float:
        return grid_for(self.cap)

    def sensitivity(self, relation: Relation) -> float:
        factor = 1.0 if relation == Relation.NULL else math.sqrt(2)
        return factor * self.cap + math.sqrt(self.size) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        return math.sqrt(self.size) * self.sensitivity(relation)

    def contains(self, values: Array) -> bool:
        """Whether this can be one episode: whether some G has these blocks.

        The missing block of G is at least s^2 C^T S^-1 C, so that G is PSD. Its trace and that of S
        are at most the cap.
        """
        S, C = self.unpack(values)
        room = 4 * self.size * self.grid
        eigenvalues, vectors = np.linalg.eigh(S)
        if eigenvalues[0] < -room:
            return False
        rotated = vectors.T @ (self.weight * C)
        divisors = (np.maximum(eigenvalues, 0.0) + room)[:, None]
        least_trace = float((rotated**2 / divisors).sum())
        return bool(np.trace(S) + least_trace <= self.cap + room)

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """A released vector -> (S [p, p], C [p, n]).

        Noise of scale a on the vector is N(0, a^2) on the diagonal of S, N(0, a^2 / off_diagonal^2)
        off it, and N(0, a^2 / 2) on s C.
        """
        cut = svec_size(self.dimension)
        S: Array = smat(values[None, :cut], self.dimension, self.off_diagonal)[0]
        C: Array = values[cut:].reshape(self.dimension, self.states) / (math.sqrt(2) * self.weight)
        return S, C


class ControlSums:
    """Turns the users of a round into their sums.

    c_h = min(1, rem_h / (||z_h||^2 + s^2 l_h^2)), rem_1 = tau, rem_{h+1} = rem_h - c_h (||z_h||^2 +
    s^2 ||x'_h||^2), where x'_h longer than l_h = g ||z_h|| + C_w is shortened to it: with g >=
    ||Theta|| no next state is, wherever the state is. So c_h is known before x'_h is seen: the
    regression of x' on z stays unbiased given the past, and confidence widths for martingales stay
    valid. (An episode scaled by its own sum would be private, too, and biased.)
    """

    def __init__(self, bound: ControlRows, gain: float, shock: float) -> None:
        """`gain` is g, a bound on the norm of the dynamics, `shock` is C_w. (0, 1) says that no
        next state is longer than 1.
        """
        if not (0 <= gain < math.inf and 0 <= shock < math.inf and gain + shock > 0):
            raise InvalidParameter(
                f"the dynamics and the noise must have finite bounds, got {gain} and {shock}"
            )
        self.bound = bound
        self.gain = float(gain)
        self.shock = float(shock)

    def tables(self) -> list[Array]:
        return [np.array([self.gain, self.shock])]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        if isinstance(users, TransitionCounts):
            raise InvalidParameter(
                "states of a linear system are real numbers: expected trajectories, got counts"
            )
        bound = self.bound
        H = users.horizon
        states = real_numbers(users.states)
        inputs = real_numbers(users.actions)
        expected = (users.users, H + 1, bound.states), (users.users, H, bound.inputs)
        if (states.shape, inputs.shape) != expected:
            raise InvalidParameter(
                f"states and inputs must have shapes {expected[0]} and {expected[1]}"
            )
        sums = _kernels.episode_sums(
            states,
            inputs,
            bound.cap,
            bound.weight,
            self.gain,
            self.shock,
            bound.grid,
            bound.off_diagonal,
        )
        return Bounded(sums * bound.grid, bound, users.users)


@dataclass(frozen=True, slots=True)
class ResidualRows:
    """The joint query (w f S / cap, f G / clip) of one episode: S = sum_h z z^T, G = sum_h z r^T, r
    = x' - Theta_0^T z, z = (x, u).

    Inputs may be in units of their own (`Residuals.scales`): the clip comes after that.

    Enforced: f = min(1, clip / ||G||_F, cap / tr S), with public clip and cap (`Residuals`), so
    that the second part is in the unit ball and the first w times a PSD matrix of trace at most
    one; an episode with a number that is not finite contributes zero. w = 0: residuals alone, f =
    min(1, clip / ||G||_F), and the first part is left out.

    Sensitivity: two points of the unit ball are at most 2 apart, and two PSD matrices of trace at
    most one sqrt(2): replace sqrt(4 + 2 w^2); null sqrt(1 + w^2). It depends neither on the horizon
    nor on how long states or inputs are. In L1 by sqrt(coordinates). Rounding to the grid moves
    each coordinate of either user by half a grid step, which is added.
    """

    states: int
    inputs: int
    weight: float = 0.5

    def __post_init__(self) -> None:
        for name in ("states", "inputs"):
            if getattr(self, name) < 1:
                raise InvalidParameter(
                    f"{name} must be at least 1, got {name}={getattr(self, name)}"
                )
        if not (self.weight == 0 or 1e-9 < self.weight < 1e9):
            raise InvalidParameter(
                f"weight must be positive, or 0 for residuals alone, got weight={self.weight}"
            )

    def identity(self) -> Identity:
        return Identity(
            "residual-rows",
            1,
            states=self.states,
            inputs=self.inputs,
            weight=self.weight,
        )

    @property
    def dimension(self) -> int:
        """p, of z."""
        return self.states + self.inputs

    @property
    def about(self) -> str:
        residuals = f"residuals of {self.states} next states"
        return (
            f"second moments of {self.dimension} states and inputs, and {residuals}"
            if self.weight
            else residuals
        )

    @property
    def moments(self) -> int:
        """How many numbers of a contribution are second moments."""
        return released_moments(self.dimension, self.weight)

    @property
    def size(self) -> int:
        return self.moments + self.dimension * self.states

    @property
    def largest(self) -> float:
        return max(1.0, self.weight)

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    def sensitivity(self, relation: Relation) -> float:
        w = self.weight
        distance = math.sqrt(1 + w**2) if relation == Relation.NULL else math.sqrt(4 + 2 * w**2)
        return distance + math.sqrt(self.size) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        return math.sqrt(self.size) * self.sensitivity(relation)

    def contains(self, values: Array) -> bool:
        """Whether this can be one episode."""
        S, G = self.unpack(values)
        room = self.size * self.grid
        allowed = S is None or (
            np.linalg.eigvalsh(S)[0] >= -room / self.weight
            and np.trace(S) <= 1 + room / self.weight
        )
        return bool(allowed and np.linalg.norm(G) <= 1 + room)

    def unpack(self, values: Array) -> tuple[Array | None, Array]:
        """A released vector -> (S / cap [p, p] or None, G / clip [p, n])."""
        return unpack_residuals(values, self.dimension, self.states, self.weight)


@dataclass(frozen=True, slots=True, eq=False)
class Residuals:
    """Turns the users of a round into their sums, around a guess Theta_0 [p, n] that is public, as
    clip and cap are.

    Steps count as long as the states so far, the step's own included, have sum ||x||^2 <= `reach`;
    the first always does. Whether a step counts is known before its residual is: what is thrown
    away of an unstable system biases nothing.

    `scales` [p], public too, multiply the coordinates of z (and divide the rows of Theta_0, so that
    residuals stay the same) before S, G and f are made of them: what is clipped at clip and cap is
    what is sent. With scales of one over their size, small inputs stand out of the noise as large
    ones do. Those of states are 1.
    """

    bound: ResidualRows
    guess: Array = field(repr=False)
    clip: float
    cap: float
    reach: float
    scales: Array | None = None

    def __post_init__(self) -> None:
        if not (1e-9 <= self.clip < 1e50 and 1e-9 <= self.cap < 1e50 and self.reach > 0):
            raise InvalidParameter(
                f"clip, cap and reach must be positive and finite, got {self.clip}, {self.cap} and "
                f"{self.reach}"
            )
        p = self.bound.dimension
        n = self.bound.states
        scales = self.scales
        if scales is None:
            return
        positive = ((scales > 0) & (scales < 1e50)).all()
        if not (scales.shape == (p,) and (scales[:n] == 1).all() and positive):
            raise InvalidParameter(
                f"scales must be {p} positive finite numbers, those of states 1, got {scales}"
            )

    def tables(self) -> list[Array]:
        sizes = np.array([self.clip, self.cap, self.reach])
        return [self.guess, sizes] if self.scales is None else [self.guess, sizes, self.scales]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        if isinstance(users, TransitionCounts):
            raise InvalidParameter(
                "states of a linear system are real numbers: expected trajectories, got counts"
            )
        bound = self.bound
        H = users.horizon
        states = real_numbers(users.states)
        inputs = real_numbers(users.actions)
        expected = (users.users, H + 1, bound.states), (users.users, H, bound.inputs)
        if (states.shape, inputs.shape) != expected:
            raise InvalidParameter(
                f"states and inputs must have shapes {expected[0]} and {expected[1]}"
            )
        scales = np.ones(bound.dimension) if self.scales is None else self.scales
        # The product may overflow. An episode that is not finite contributes zero.
        with np.errstate(over="ignore"):
            inputs = inputs * scales[bound.states :]
        sums = _kernels.residual_sums(
            states,
            inputs,
            self.guess / scales[:, None],
            self.clip,
            self.cap,
            self.reach,
            bound.weight,
            bound.grid,
        )
        return Bounded(sums * bound.grid, bound, users.users)
