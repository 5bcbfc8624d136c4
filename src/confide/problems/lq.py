"""Linear quadratic control [Chowdhury21]: the system, and what agents may know of it.

What leaves this file: the values of `LQSystem.identity` are the saved file, and identify the
system. Random numbers are used by the kernels in a fixed order, which decides the users of a seed.
"""

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

# This import makes saved rules for starts readable.
from confide.planners import optimistic_policy as optimistic_policy
from confide.planners.riccati import linear_costs, riccati
from confide.policy import LinearPolicy, Policy, StartRule, is_rule
from confide.problems import _kernels
from confide.problems.saving import save_problem
from confide.problems.stationary import Stationary, reached_space, stationary
from confide.problems.transitions import read_only_copy
from confide.trajectory import Trajectories

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class LQPublic:
    """What an agent may know: costs, horizon, size of the noise, and bounds on what is unknown.

    `parameter_bound` bounds ||(A, B)||_F. Gains are projected to norm `gain_bound`, which the paper
    calls gamma.
    """

    family: ClassVar[str] = "linear control"

    Q: Array
    R: Array
    horizon: int
    noise_radius: float
    parameter_bound: float
    gain_bound: float

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

    A has shape [n, n], B [n, d], Q [n, n] and R [d, d]. Users start on the unit sphere, at random,
    or in `start`: one state [n] for all of them, or a list of states [m, n], in which users start
    one after the other, and again from the first. A list may be an adversary's
    [Chowdhury21, Assumption 1 (c)]. Agents are not told.

    `parameter_bound` is public and bounds ||(A, B)||_F; by default it is 1, or the next power of
    two that holds. An unstable A is legitimate at a finite horizon: see `spectral_radius`. Rewards
    are minus costs, so that values and regret mean the same as everywhere.
    """

    # In a saved file.
    kind: ClassVar[str] = "lq"

    A: Array
    B: Array
    Q: Array
    R: Array
    horizon: int
    noise_radius: float
    parameter_bound: float | None = None
    gain_bound: float = 1.2
    name: str = "lq"
    start: Array | None = None

    def __post_init__(self) -> None:
        matrices = _check_matrices(self.A, self.B, self.Q, self.R)
        for key, matrix in matrices.items():
            object.__setattr__(self, key, read_only_copy(matrix))
        # Rounding may make a zero eigenvalue of Q slightly negative; R needs an inverse.
        _check_form(matrices["Q"], "Q", -1e-12, "semidefinite")
        _check_form(matrices["R"], "R", 1e-12, "definite")
        states = len(matrices["A"])
        object.__setattr__(self, "horizon", whole("horizon", self.horizon, at_least=1))
        check_size(horizon=self.horizon, states=states, successors=states)
        for key in ("noise_radius", "gain_bound"):
            real(key, getattr(self, key), at_least=0)
        text("name", self.name)
        if self.start is not None:
            object.__setattr__(self, "start", read_only_copy(_check_start(self.start, states)))
        object.__setattr__(self, "parameter_bound", self._checked_bound())

    def _checked_bound(self) -> float:
        """The public bound on ||(A, B)||_F, which must hold."""
        norm = float(np.hypot(np.linalg.norm(self.A), np.linalg.norm(self.B)))
        if self.parameter_bound is None:
            return 2.0 ** math.ceil(math.log2(max(norm, 1.0)))
        bound = real("parameter_bound", self.parameter_bound)
        if not (np.isfinite(bound) and norm <= bound * (1 + 1e-9)):
            raise InvalidParameter(
                f"||(A, B)||_F is {norm:.4g}, above the public parameter_bound={bound:g}: "
                "raise the bound"
            )
        return bound

    def identity(self) -> Identity:
        """Everything that it is, by the names in its file."""
        # A random start is not named, so that older files and identities stay valid.
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
        """Whether inputs reach all states.

        A direction counts if it is moved by more than 1e-10, relative to ||B|| or ||A||.
        """
        return reached_space(self.A, self.B).dimension == len(self.A)

    @property
    def stabilisable(self) -> bool:
        """Whether what inputs do not reach decays by itself."""
        return reached_space(self.A, self.B).rest_decays

    def stationary(self) -> Stationary:
        """The gain of the infinite horizon, by `scipy.linalg.solve_discrete_are`.

        It is refused where no gain stabilises the system.
        """
        return stationary(self.A, self.B, self.Q, self.R)

    @cached_property
    def _optimum(self) -> tuple[Array, LinearPolicy]:
        return riccati(self.A, self.B, self.Q, self.R, self.horizon)

    @property
    def optimal_policy(self) -> LinearPolicy:
        return self._optimum[1]

    @property
    def optimal_value(self) -> float:
        return -self._expected_cost(self._optimum[0])

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
            return self._expected_cost(self._linear_costs(gains))
        if self.start is None:
            raise InvalidParameter(
                "what a rule for starts costs depends on where users start, which is random here: "
                "ask for the regrets of users' starts"
            )
        starts = np.atleast_2d(self.start)
        return float(self._costs_from(policy, starts).mean())

    def counts_starts(self, policy: Policy) -> bool:
        """Whether users of one policy have different regrets, by where they start.

        Linear gains on random starts are counted by their expectation instead, which has less
        noise.
        """
        has_list_of_starts = self.start is not None and self.start.ndim == 2
        return has_list_of_starts or (self.start is None and is_rule(policy))

    def regrets(self, policy: Policy, starts: Array) -> Array:
        """J_1^pi(x_1) - J_1^*(x_1) of users who started in `starts` [user, n].

        This is [Chowdhury21, (6)].
        """
        costs = self._costs_from(policy, starts)
        optimal_costs = self._cost_of_matrices(self._optimum[0], starts)
        regrets: Array = costs - optimal_costs
        return regrets

    def starts_of(self, first: int, users: int) -> Array:
        """Where so many users start [user, n], if this is fixed.

        `first` is the number of the first of them among all users.
        """
        if self.start is None:
            raise InvalidParameter("users of this system start at random")
        list_of_starts = np.atleast_2d(self.start)
        starts: Array = list_of_starts[(first + np.arange(users)) % len(list_of_starts)]
        return starts

    def _costs_from(self, policy: Policy, starts: Array) -> Array:
        """The expected cost of an episode from each of these states [user]."""
        gains = self._gains_from(policy, starts)
        if len(gains) == 1:
            return self._cost_of_matrices(self._linear_costs(gains[0]), starts)
        costs = [
            self._cost_of_matrices(self._linear_costs(own_gains), start[None])[0]
            for own_gains, start in zip(gains, starts, strict=True)
        ]
        return np.array(costs)

    def _linear_costs(self, gains: Array) -> Array:
        """The matrices P_1 .. P_{H+1} of the cost of these gains [h, d, n]."""
        return linear_costs(self.A, self.B, self.Q, self.R, gains)

    def _cost_of_matrices(self, P: Array, starts: Array) -> Array:
        """x_1^T P_1 x_1 + sum_h E[w^T P_{h+1} w] for each start [user]."""
        variance = self.noise_radius**2 / (len(self.A) + 2)
        noise_cost = variance * np.trace(P[1:], axis1=1, axis2=2).sum()
        costs: Array = np.einsum("ui,ij,uj->u", starts, P[0], starts) + noise_cost
        return costs

    def _gains_from(self, policy: Policy, starts: Array) -> Array:
        """The gains of users with these starts [user, h, d, n], or one [1, h, d, n] for all.

        The last answer is kept, because a run asks twice: for what users do, and for what it costs.
        """
        if not is_rule(policy):
            return self._fitting(policy).gains[None]
        rule: StartRule = policy  # type: ignore[assignment]
        expected = (self.horizon, len(self.R), len(self.A))
        if rule.shape != expected:
            raise InvalidParameter(f"a rule for this system needs gains of shape {expected}")
        # (policy, starts, gains)
        last = self.__dict__.get("_last_gains")
        if last is None or last[0] is not policy or not np.array_equal(last[1], starts):
            distinct_starts, place = np.unique(starts, axis=0, return_inverse=True)
            distinct_gains = rule.gains_of_all(distinct_starts)
            is_same_for_all = len(distinct_gains) == 1
            all_gains = distinct_gains if is_same_for_all else distinct_gains[place.ravel()]
            last = policy, starts.copy(), all_gains
            self.__dict__["_last_gains"] = last
        gains: Array = last[2]
        return gains

    def _expected_cost(self, P: Array) -> float:
        """E[x_1^T P_1 x_1] + sum_h E[w^T P_{h+1} w].

        The covariance of a point on the unit sphere is I/n, that of the noise C_w^2/(n+2) I.
        """
        if self.start is not None:
            return float(self._cost_of_matrices(P, np.atleast_2d(self.start)).mean())
        n = len(self.A)
        traces = np.trace(P, axis1=1, axis2=2)
        return float(traces[0] / n + self.noise_radius**2 / (n + 2) * traces[1:].sum())

    def sample(
        self, policy: Policy, users: int, rng: np.random.Generator, *, first: int = 0
    ) -> Trajectories:
        """Independent episodes of `users` users under one policy.

        `first` is the number of the first of them among all users, for a list of starts.
        """
        n = len(self.A)
        d = len(self.R)
        check_size(users=whole("users", users, at_least=0), horizon=self.horizon + 1, states=n)
        generator("rng", rng)
        if self.start is not None:
            starts = self.starts_of(whole("first", first, at_least=0), users)
        else:
            # A rule needs the starts first. Without any, the kernel below draws them itself.
            starts = np.empty((users if is_rule(policy) else 0, n))
            _kernels.draw_directions(starts, rng)
        gains = self._gains_from(policy, starts)
        states = np.empty((users, self.horizon + 1, n))
        inputs = np.empty((users, self.horizon, d))
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
        """Write one file, which `load_problem` and the command line open again."""
        save_problem(self, path)

    def _fitting(self, policy: Policy) -> LinearPolicy:
        expected = (self.horizon, len(self.R), len(self.A))
        if not isinstance(policy, LinearPolicy) or policy.gains.shape != expected:
            raise InvalidParameter(
                f"a linear system needs a LinearPolicy with gains of shape {expected}"
            )
        return policy


def _check_matrices(A: Any, B: Any, Q: Any, R: Any) -> dict[str, Array]:
    """The matrices by name, with shapes that fit each other, and finite."""
    matrices = {
        key: np.atleast_2d(array(key, value, finite=False))
        for key, value in (("A", A), ("B", B), ("Q", Q), ("R", R))
    }
    n = len(matrices["A"])
    if matrices["A"].shape != (n, n):
        raise InvalidParameter(f"A must be square, got shape {matrices['A'].shape}")
    if np.ndim(B) == 1:
        # A vector is the column of a single input.
        matrices["B"] = matrices["B"].T
    d = matrices["B"].shape[1] if matrices["B"].ndim == 2 else 0
    shapes = {"A": (n, n), "B": (n, d), "Q": (n, n), "R": (d, d)}
    for key, shape in shapes.items():
        matrix = matrices[key]
        if matrix.shape != shape or matrix.size == 0:
            raise InvalidParameter(f"{key} must have shape {shape} to fit A, got {matrix.shape}")
        if not np.isfinite(matrix).all():
            i, j = np.argwhere(~np.isfinite(matrix))[0]
            raise InvalidParameter(f"{key}[{i}, {j}] must be finite")
    return matrices


def _check_start(start: Any, states: int) -> Array:
    """One state [n] or a list of them [m, n], none longer than 1.

    The bound is [Chowdhury21, Assumption 1 (c)].
    """
    checked = array("start", start)
    if checked.ndim not in (1, 2) or checked.shape[-1] != states or len(checked) == 0:
        raise InvalidParameter.of(
            "start", f"must have shape ({states},) or (users, {states}), got {checked.shape}"
        )
    longest = float(np.linalg.norm(np.atleast_2d(checked), axis=1).max())
    if longest > 1 + 1e-9:
        raise InvalidParameter.of(
            "start", f"must hold states of length at most 1, got one of length {longest:.6g}"
        )
    return checked


def _check_form(matrix: Array, name: str, least: float, word: str) -> None:
    """Refuse a matrix that is not symmetric, or has an eigenvalue below `least`.

    The smallest eigenvalue of a leading block only falls as the block grows, so the first bad block
    names the row.
    """
    unequal = ~np.isclose(matrix, matrix.T)
    if unequal.any():
        i, j = np.argwhere(unequal)[0]
        raise InvalidParameter.of(
            name,
            f"must be symmetric, got {name}[{i}, {j}]={matrix[i, j]} "
            f"and {name}[{j}, {i}]={matrix[j, i]}",
        )
    for size in range(1, len(matrix) + 1):
        smallest = np.linalg.eigvalsh(matrix[:size, :size])[0]
        if smallest < least:
            raise InvalidParameter.of(
                name,
                f"must be positive {word}, got the eigenvalue {smallest:.6g} "
                f"from row {size - 1} on",
            )
