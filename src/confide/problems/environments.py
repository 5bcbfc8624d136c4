"""Finite problems and linear systems as Gymnasium environments; made by `to_gymnasium`."""

import re
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.envs.registration import EnvSpec

from confide.errors import InvalidParameter
from confide.problems.finite import FiniteProblem
from confide.problems.lq import LQSystem

Array = npt.NDArray[np.float64]


class FiniteEnv(gymnasium.Env[int, int]):
    """A finite problem, one user at a time: observations are states."""

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own contract

    def __init__(self, problem: FiniteProblem) -> None:
        self.problem = problem
        self.observation_space, self.action_space = (
            spaces.Discrete(problem.states),  # type: ignore[assignment]
            spaces.Discrete(problem.actions),  # type: ignore[assignment]
        )
        self.spec = _spec("FiniteEnv", problem)
        self._state, self._step = 0, problem.horizon

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        self._state, self._step = (
            int(self.np_random.choice(self.problem.states, p=self.problem.truth.start)),
            0,
        )
        return self._state, {"step": 0}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        truth, h, s = self.problem.truth, self._step, self._state
        _not_over(h, self.problem.horizon)
        if not 0 <= action < self.problem.actions:
            raise InvalidParameter(f"the action must be in 0..{self.problem.actions - 1}")
        P = truth.transitions
        row = (min(h, P.layers - 1) * P.states + s) * P.actions + int(action)
        reward = float(truth.rewards[h, s, action])
        if truth.stochastic_rewards and truth.outcome_rewards is None:
            reward = float(self.np_random.random() < reward)
        first, last = P.indptr[row], P.indptr[row + 1]
        outcome = first + np.searchsorted(
            P.cumulative[first:last], self.np_random.random(), side="right"
        )
        self._state = int(P.successors[outcome])
        if truth.outcome_rewards is not None:
            reward = float(truth.outcome_rewards[outcome])
        self._step += 1
        return self._state, reward, self._step == self.problem.horizon, False, {"step": self._step}


class LinearEnv(gymnasium.Env[Array, Array]):
    """A linear system, one user at a time. Gymnasium wants actions in [-1, 1]: the input is u = `input_bound` times the (clipped) action.

    `input_bound` is large enough for every u = K x with |K| <= gain_bound, so such policies are never clipped.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own contract

    def __init__(self, problem: LQSystem) -> None:
        n, d, H = len(problem.A), len(problem.R), problem.horizon
        a, b = float(np.linalg.norm(problem.A, 2)), float(np.linalg.norm(problem.B, 2))
        # of x_1 .. x_H under gains within the bound
        steered = _norms(a + b * problem.gain_bound, problem.noise_radius, H)
        self.problem = problem
        self.input_bound = max(problem.gain_bound, 1e-9) * max(steered[:-1])
        reached = max(_norms(a, b * np.sqrt(d) * self.input_bound + problem.noise_radius, H))
        largest = 1.000001 * reached  # a little for rounding
        self.observation_space = spaces.Box(-largest, largest, (n,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (d,), np.float64)
        self.spec = _spec("LinearEnv", problem)
        self._state, self._step = np.zeros(n), H
        self._episodes = 0

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        if self.problem.start is None:
            self._state = self._direction()
        else:
            self._state = self.problem.starts_of(self._episodes, 1)[0].copy()
        self._episodes, self._step = self._episodes + 1, 0
        return self._state.copy(), {"step": 0}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        system, x = self.problem, self._state
        _not_over(self._step, system.horizon)
        u = self.input_bound * np.clip(np.asarray(action, dtype=float), -1.0, 1.0)
        cost = float(x @ system.Q @ x + u @ system.R @ u)
        noise = system.noise_radius * self.np_random.random() ** (1 / len(x)) * self._direction()
        self._state, self._step = system.A @ x + system.B @ u + noise, self._step + 1
        return self._state.copy(), -cost, self._step == system.horizon, False, {"step": self._step}

    def _direction(self) -> Array:
        draw = self.np_random.standard_normal(len(self.problem.A))
        return np.asarray(draw / np.linalg.norm(draw))


def _norms(factor: float, added: float, steps: int) -> list[float]:
    """Bounds on |x_1| = 1, ..., |x_{steps + 1}| if |x'| <= factor |x| + added."""
    norms = [1.0]
    for _ in range(steps):
        norms.append(factor * norms[-1] + added)
    return norms


def _spec(kind: str, problem: FiniteProblem | LQSystem) -> EnvSpec:
    """What Gymnasium needs to make another one."""
    name = re.sub(
        r"[^\w.-]+", "_", problem.truth.name if isinstance(problem, FiniteProblem) else problem.name
    )
    return EnvSpec(
        id=f"confide/{name}",
        entry_point=f"confide.problems.environments:{kind}",
        kwargs={"problem": problem},
    )


def _not_over(step: int, horizon: int) -> None:
    if step >= horizon:
        raise gymnasium.error.ResetNeeded("the episode is over: call reset() first")
