"""Linear quadratic control [Chowdhury21]."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import array, fits, generator, real, text, whole
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.planners.riccati import linear_costs, riccati
from confide.policy import LinearPolicy, Policy
from confide.problems import _kernels
from confide.problems.saving import save_problem
from confide.problems.stationary import Stationary, stationary, steered
from confide.problems.transitions import frozen
from confide.trajectory import Trajectories

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LQPublic:
    """What an agent may know: the costs, the horizon, the size of the noise, and bounds on what is unknown."""

    family: ClassVar[str] = "linear control"

    Q: Array
    R: Array
    horizon: int
    noise_radius: float
    parameter_bound: float  # on ||(A, B)||_F
    gain_bound: float  # gamma: gains are projected to this norm

    def identity(self) -> Identity:
        return Identity(
            "lq-public",
            1,
            Q=self.Q,
            R=self.R,
            horizon=self.horizon,
            noise_radius=self.noise_radius,
            parameter_bound=self.parameter_bound,
            gain_bound=self.gain_bound,
        )

    @property
    def inputs(self) -> int:
        return len(self.R)

    @property
    def states(self) -> int:
        return len(self.Q)


@dataclass(frozen=True, eq=False)
class LQSystem:
    """x' = A x + B u + w with costs x^T Q x + u^T R u over `horizon` steps; x_1 uniform on the unit sphere, w uniform in a ball.

    An unstable A is legitimate at a finite horizon: see `spectral_radius`. Rewards are minus costs, so that values and regret mean the same
    as everywhere.
    """

    kind: ClassVar[str] = "lq"  # in a saved file

    A: Array
    B: Array
    Q: Array
    R: Array
    horizon: int
    noise_radius: float
    # public bound on ||(A, B)||_F; by default 1, or the next power of two that holds
    parameter_bound: float | None = None
    gain_bound: float = 1.2
    name: str = "lq"

    def __post_init__(self) -> None:
        matrices = {
            key: np.atleast_2d(array(key, getattr(self, key), finite=False)) for key in "ABQR"
        }
        n = len(matrices["A"])
        if matrices["A"].shape != (n, n):
            raise InvalidParameter(f"A must be square, got shape {matrices['A'].shape}")
        if np.ndim(self.B) == 1:
            matrices["B"] = matrices["B"].T  # one input
        d = matrices["B"].shape[1] if matrices["B"].ndim == 2 else 0
        for key, shape in (("A", (n, n)), ("B", (n, d)), ("Q", (n, n)), ("R", (d, d))):
            if matrices[key].shape != shape or matrices[key].size == 0:
                raise InvalidParameter(
                    f"{key} must have shape {shape} to fit A, got {matrices[key].shape}"
                )
            if not np.isfinite(matrices[key]).all():
                i, j = np.argwhere(~np.isfinite(matrices[key]))[0]
                raise InvalidParameter(f"{key}[{i}, {j}] must be finite")
            object.__setattr__(self, key, frozen(matrices[key]))
        _check_form(matrices["Q"], "Q", -1e-12, "semidefinite")
        _check_form(matrices["R"], "R", 1e-12, "definite")
        object.__setattr__(self, "horizon", whole("horizon", self.horizon, at_least=1))
        fits(horizon=self.horizon, states=n, successors=n)
        for key in ("noise_radius", "gain_bound"):
            real(key, getattr(self, key), at_least=0)
        text("name", self.name)
        size = float(np.hypot(np.linalg.norm(self.A), np.linalg.norm(self.B)))
        fitting = 2.0 ** math.ceil(math.log2(max(size, 1.0)))
        bound = (
            fitting
            if self.parameter_bound is None
            else real("parameter_bound", self.parameter_bound)
        )
        if not (np.isfinite(bound) and size <= bound * (1 + 1e-9)):
            raise InvalidParameter(
                f"||(A, B)||_F is {size:.4g}, above the public parameter_bound={bound:g}: raise the bound"
            )
        object.__setattr__(self, "parameter_bound", bound)

    def identity(self) -> Identity:
        """Everything that it is, by the names in its file."""
        return Identity(
            self.kind,
            1,
            A=self.A,
            B=self.B,
            Q=self.Q,
            R=self.R,
            horizon=self.horizon,
            noise_radius=self.noise_radius,
            parameter_bound=self.parameter_bound,
            gain_bound=self.gain_bound,
            name=self.name,
        )

    @property
    def public(self) -> LQPublic:
        return LQPublic(
            self.Q,
            self.R,
            self.horizon,
            self.noise_radius,
            float(self.parameter_bound or 1.0),
            self.gain_bound,
        )

    @property
    def spectral_radius(self) -> float:
        """Of A: at least 1 means that the uncontrolled system is unstable."""
        return float(np.abs(np.linalg.eigvals(self.A)).max())

    @property
    def controllable(self) -> bool:
        """Whether inputs reach all states: a direction counts if it is moved by more than 1e-10, relative to ||B|| or ||A||."""
        return steered(self.A, self.B).dimension == len(self.A)

    @property
    def stabilisable(self) -> bool:
        """Whether what inputs do not reach decays by itself."""
        return steered(self.A, self.B).rest_decays

    def stationary(self) -> Stationary:
        """The gain of the infinite horizon, by `scipy.linalg.solve_discrete_are`; refused where no gain stabilises the system."""
        return stationary(self.A, self.B, self.Q, self.R)

    @cached_property
    def _optimum(self) -> tuple[Array, LinearPolicy]:
        return riccati(self.A, self.B, self.Q, self.R, self.horizon)

    @property
    def optimal_policy(self) -> LinearPolicy:
        return self._optimum[1]

    @property
    def optimal_value(self) -> float:
        return -self._expected(self._optimum[0])

    @cached_property
    def uniform_value(self) -> float:
        """The value of doing nothing, u = 0: the other end of the scale."""
        return self.value(LinearPolicy(np.zeros((self.horizon, len(self.R), len(self.A)))))

    def value(self, policy: Policy) -> float:
        """Minus the exact expected cost of a linear policy over an episode."""
        return -self.cost(policy)

    def cost(self, policy: Policy) -> float:
        gains = self._fitting(policy).gains
        return self._expected(linear_costs(self.A, self.B, self.Q, self.R, gains))

    def _expected(self, P: Array) -> float:
        """E[x_1^T P_1 x_1] + sum_h E[w^T P_{h+1} w]: covariances I/n on the sphere and C_w^2/(n+2) I in the ball."""
        n = len(self.A)
        traces = np.trace(P, axis1=1, axis2=2)
        return float(traces[0] / n + self.noise_radius**2 / (n + 2) * traces[1:].sum())

    def sample(self, policy: Policy, users: int, rng: np.random.Generator) -> Trajectories:
        """Independent episodes of `users` users under one policy."""
        gains, n, d = self._fitting(policy).gains, len(self.A), len(self.R)
        fits(users=whole("users", users, at_least=0), horizon=self.horizon + 1, states=n)
        generator("rng", rng)
        states, inputs = np.empty((users, self.horizon + 1, n)), np.empty((users, self.horizon, d))
        rewards = np.empty((users, self.horizon))
        _kernels.walk_linear(
            self.A, self.B, self.Q, self.R, gains, self.noise_radius, states, inputs, rewards, rng
        )
        return Trajectories(states, inputs, rewards)

    def save(self, path: str | Path) -> None:
        """Into one file that `load_problem`, and the command line, open again."""
        save_problem(self, path)

    def _fitting(self, policy: Policy) -> LinearPolicy:
        expected = (self.horizon, len(self.R), len(self.A))
        if not isinstance(policy, LinearPolicy) or policy.gains.shape != expected:
            raise InvalidParameter(
                f"a linear system needs a LinearPolicy with gains of shape {expected}"
            )
        return policy


def _check_form(matrix: Array, name: str, least: float, word: str) -> None:
    """Symmetric, and no eigenvalue below `least`. Leading blocks only lose as they grow: the first bad one names the row."""
    unequal = ~np.isclose(matrix, matrix.T)
    if unequal.any():
        i, j = np.argwhere(unequal)[0]
        raise InvalidParameter.of(
            name,
            f"must be symmetric, got {name}[{i}, {j}]={matrix[i, j]} and {name}[{j}, {i}]={matrix[j, i]}",
        )
    for k in range(1, len(matrix) + 1):
        smallest = np.linalg.eigvalsh(matrix[:k, :k])[0]
        if smallest < least:
            raise InvalidParameter.of(
                name,
                f"must be positive {word}, got the eigenvalue {smallest:.6g} from row {k - 1} on",
            )
