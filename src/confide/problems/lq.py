"""Linear quadratic control [Chowdhury21]."""

import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import array, check_size, generator, real, text, whole
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.planners import (
    optimistic_policy as optimistic_policy,  # so that saved rules can be read
)
from confide.planners.riccati import linear_costs, riccati
from confide.policy import LinearPolicy, Policy, StartRule, is_rule
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
    """x' = A x + B u + w with costs x^T Q x + u^T R u over `horizon` steps, w uniform in a ball.

    Users start on the unit sphere, at random, or in `start`: one state [n] for all of them, or a list of states [m, n], in which users
    start one after the other, and again from the first. A list may be an adversary's [Chowdhury21, Assumption 1 (c)]. Agents are not told.

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
    start: Array | None = None

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
        check_size(horizon=self.horizon, states=n, successors=n)
        for key in ("noise_radius", "gain_bound"):
            real(key, getattr(self, key), at_least=0)
        text("name", self.name)
        if self.start is not None:
            object.__setattr__(self, "start", frozen(_check_start(self.start, n)))
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
        # A random start is not named, so identities of systems without a chosen start stay what they were.
        start = {} if self.start is None else {"start": self.start}
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
            **start,
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
        """Minus the exact expected cost of a policy over an episode."""
        return -self.cost(policy)

    def cost(self, policy: Policy) -> float:
        """The average over starts. That of a rule on random starts is not known: see `regrets`."""
        if not is_rule(policy):
            gains = self._fitting(policy).gains
            return self._expected(linear_costs(self.A, self.B, self.Q, self.R, gains))
        if self.start is None:
            raise InvalidParameter(
                "what a rule for starts costs depends on where users start, which is random here: ask for the regrets of users' starts"
            )
        starts = np.atleast_2d(self.start)
        return float(self._costs_from(policy, starts).mean())

    def counts_starts(self, policy: Policy) -> bool:
        """Whether users of one policy have different regrets, by where they start.

        Linear gains on random starts are counted by their expectation instead, which has less noise.
        """
        listed = self.start is not None and self.start.ndim == 2
        return listed or (self.start is None and is_rule(policy))

    def regrets(self, policy: Policy, starts: Array) -> Array:
        """J_1^pi(x_1) - J_1^*(x_1) [Chowdhury21, (6)] of users who started in `starts` [user, n]."""
        costs = self._costs_from(policy, starts)
        found: Array = costs - self._from(self._optimum[0], starts)
        return found

    def starts_of(self, first: int, users: int) -> Array:
        """Where so many users start, if this is fixed, the first of them being user number `first` [user, n]."""
        if self.start is None:
            raise InvalidParameter("users of this system start at random")
        listed = np.atleast_2d(self.start)
        starts: Array = listed[(first + np.arange(users)) % len(listed)]
        return starts

    def _costs_from(self, policy: Policy, starts: Array) -> Array:
        """The expected cost of an episode from each of these states [user]."""
        gains = self._gains_from(policy, starts)
        if len(gains) == 1:
            return self._from(linear_costs(self.A, self.B, self.Q, self.R, gains[0]), starts)
        return np.array(
            [
                self._from(linear_costs(self.A, self.B, self.Q, self.R, each), start[None])[0]
                for each, start in zip(gains, starts, strict=True)
            ]
        )

    def _from(self, P: Array, starts: Array) -> Array:
        """x_1^T P_1 x_1 + sum_h E[w^T P_{h+1} w] for each start [user]."""
        later = self.noise_radius**2 / (len(self.A) + 2) * np.trace(P[1:], axis1=1, axis2=2).sum()
        costs: Array = np.einsum("ui,ij,uj->u", starts, P[0], starts) + later
        return costs

    def _gains_from(self, policy: Policy, starts: Array) -> Array:
        """The gains of users with these starts [user, h, d, n], or one [1, h, d, n] for all of them.

        The last answer is kept, because a run asks twice: for what users do, and for what it costs.
        """
        if not is_rule(policy):
            return self._fitting(policy).gains[None]
        rule: StartRule = policy  # type: ignore[assignment]
        expected = (self.horizon, len(self.R), len(self.A))
        if rule.shape != expected:
            raise InvalidParameter(f"a rule for this system needs gains of shape {expected}")
        kept = self.__dict__.get("_last_gains")
        if kept is None or kept[0] is not policy or not np.array_equal(kept[1], starts):
            distinct, which = np.unique(starts, axis=0, return_inverse=True)
            found = rule.gains_of_all(distinct)
            kept = policy, starts.copy(), found if len(found) == 1 else found[which.ravel()]
            self.__dict__["_last_gains"] = kept
        gains: Array = kept[2]
        return gains

    def _expected(self, P: Array) -> float:
        """E[x_1^T P_1 x_1] + sum_h E[w^T P_{h+1} w]: covariances I/n on the sphere and C_w^2/(n+2) I in the ball."""
        if self.start is not None:
            return float(self._from(P, np.atleast_2d(self.start)).mean())
        n = len(self.A)
        traces = np.trace(P, axis1=1, axis2=2)
        return float(traces[0] / n + self.noise_radius**2 / (n + 2) * traces[1:].sum())

    def sample(
        self, policy: Policy, users: int, rng: np.random.Generator, *, first: int = 0
    ) -> Trajectories:
        """Independent episodes of `users` users under one policy. `first` is the number of the first of them, for a list of starts."""
        n, d = len(self.A), len(self.R)
        check_size(users=whole("users", users, at_least=0), horizon=self.horizon + 1, states=n)
        generator("rng", rng)
        if self.start is not None:
            starts = self.starts_of(whole("first", first, at_least=0), users)
        else:
            starts = np.empty((users if is_rule(policy) else 0, n))
            _kernels.draw_directions(starts, rng)
        gains = self._gains_from(policy, starts)
        states, inputs = np.empty((users, self.horizon + 1, n)), np.empty((users, self.horizon, d))
        rewards = np.empty((users, self.horizon))
        _kernels.walk_linear(
            self.A,
            self.B,
            self.Q,
            self.R,
            gains,
            np.ascontiguousarray(starts),
            self.noise_radius,
            states,
            inputs,
            rewards,
            rng,
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


def _check_start(start: Any, states: int) -> Array:
    """One state [n] or a list of them [m, n], none longer than 1 [Chowdhury21, Assumption 1 (c)]."""
    given = array("start", start)
    if given.ndim not in (1, 2) or given.shape[-1] != states or len(given) == 0:
        raise InvalidParameter.of(
            "start", f"must have shape ({states},) or (users, {states}), got {given.shape}"
        )
    longest = float(np.linalg.norm(np.atleast_2d(given), axis=1).max())
    if longest > 1 + 1e-9:
        raise InvalidParameter.of(
            "start", f"must hold states of length at most 1, got one of length {longest:.6g}"
        )
    return given


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
