"""What an episode of a linear system tells about its dynamics: sums of z z^T and z x'^T with z = (x, u), clipped as a whole."""

import math
from dataclasses import dataclass

from confide.errors import InvalidParameter
from confide.mechanisms.symmetric import smat, svec_size
from confide.privacy.bounded import Array, Bounded, grid_for, real_numbers
from confide.privacy.request import Relation
from confide.statistics import _control_kernels as _kernels
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class ControlRows:
    """The joint query (S, sqrt(2) s C) of one episode: S = sum_h c_h z z^T, C = sum_h c_h z x'^T, s = `weight`.

    Enforced: the episode's trace, sum_h c_h (||z||^2 + s^2 ||x'||^2), is at most tau = `cap`, by weights c_h in [0, 1] (`ControlSums`); an
    episode with a number that is not finite contributes zero.

    Sensitivity: with v = (z, s x') the query is isometric to all blocks but one of the PSD matrix G = sum_h c_h v v^T, whose trace is at
    most tau, so that ||G||_F <= tau (null). replace: ||G - G'||_F^2 = ||G||_F^2 + ||G'||_F^2 - 2 <G, G'> <= 2 tau^2, since <G, G'> >= 0;
    attained by one step each, in orthogonal directions. It does not depend on the horizon. In L1 by sqrt(coordinates). Rounding to the
    grid moves each coordinate of either user by half a grid step, which is added.
    """

    states: int
    inputs: int
    cap: float
    weight: float = 1.0

    def __post_init__(self) -> None:
        for name in ("states", "inputs"):
            if getattr(self, name) < 1:
                raise InvalidParameter(f"{name} must be at least 1, got {name}={getattr(self, name)}")
        for name in ("cap", "weight"):
            if not 1e-6 < getattr(self, name) < 1e6:
                raise InvalidParameter(f"{name} must be between 1e-6 and 1e6, got {name}={getattr(self, name)}")

    @property
    def dimension(self) -> int:
        """p, of z."""
        return self.states + self.inputs

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
        factor = 1.0 if relation is Relation.NULL else math.sqrt(2)
        return factor * self.cap + math.sqrt(self.size) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:
        return math.sqrt(self.size) * self.sensitivity(relation)

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """A released vector -> (S [p, p], C [p, n]). Noise of scale a: N(0, a^2) on the diagonal of S, N(0, a^2 / 2) off it and on s C."""
        cut = svec_size(self.dimension)
        S: Array = smat(values[None, :cut], self.dimension)[0]
        C: Array = values[cut:].reshape(self.dimension, self.states) / (math.sqrt(2) * self.weight)
        return S, C


class ControlSums:
    """Turns the users of a round into their sums.

    c_h = min(1, rem_h / (||z_h||^2 + s^2 l_h^2)), rem_1 = tau, rem_{h+1} = rem_h - c_h (||z_h||^2 + s^2 ||x'_h||^2), where x'_h longer than
    l_h = g ||z_h|| + C_w is shortened to it: with g >= ||Theta|| no next state is, wherever the state is. So c_h is known before x'_h is
    seen: the regression of x' on z stays unbiased given the past, and confidence widths for martingales stay valid. (An episode scaled by
    its own sum would be private, too, and biased.)
    """

    def __init__(self, bound: ControlRows, gain: float, shock: float) -> None:
        """`gain` is g, a bound on the norm of the dynamics, `shock` is C_w. (0, 1) says that no next state is longer than 1."""
        if not (0 <= gain < math.inf and 0 <= shock < math.inf and gain + shock > 0):
            raise InvalidParameter(f"the dynamics and the noise must have finite bounds, got {gain} and {shock}")
        self.bound, self.gain, self.shock = bound, float(gain), float(shock)

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        if isinstance(users, TransitionCounts):
            raise InvalidParameter("states of a linear system are real numbers: there are trajectories, and no counts")
        bound, H = self.bound, users.horizon
        states, inputs = real_numbers(users.states), real_numbers(users.actions)
        expected = (users.users, H + 1, bound.states), (users.users, H, bound.inputs)
        if (states.shape, inputs.shape) != expected:
            raise InvalidParameter(f"states and inputs must have shapes {expected[0]} and {expected[1]}")
        sums = _kernels.episode_sums(states, inputs, bound.cap, bound.weight, self.gain, self.shock, bound.grid)
        return Bounded(sums * bound.grid, bound, users.users)
