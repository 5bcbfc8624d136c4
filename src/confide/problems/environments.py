"""Finite problems and linear systems as Gymnasium environments; made by `to_gymnasium`.

Gymnasium stores the path of these classes in an `EnvSpec`, so they must stay importable from here.
"""

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
        self.observation_space = spaces.Discrete(problem.states)  # type: ignore[assignment]
        self.action_space = spaces.Discrete(problem.actions)  # type: ignore[assignment]
        self.spec = _spec("FiniteEnv", problem)
        self._state = 0
        # Before the first reset the episode is over.
        self._step = problem.horizon

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[int, dict[str, Any]]:
        super().reset(seed=seed)
        start = self.problem.truth.start
        self._state = int(self.np_random.choice(self.problem.states, p=start))
        self._step = 0
        return self._state, {"step": 0}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        truth = self.problem.truth
        P = truth.transitions
        h = self._step
        s = self._state
        _check_not_over(h, self.problem.horizon)
        if not 0 <= action < self.problem.actions:
            raise InvalidParameter(f"the action must be in 0..{self.problem.actions - 1}")
        reward = float(truth.rewards[h, s, action])
        if truth.stochastic_rewards and truth.outcome_rewards is None:
            reward = float(self.np_random.random() < reward)
        # The outcomes of (h, s, a) are the entries from `first` on, up to `last`.
        row = (min(h, P.layers - 1) * P.states + s) * P.actions + int(action)
        first = P.indptr[row]
        last = P.indptr[row + 1]
        draw = self.np_random.random()
        outcome = first + np.searchsorted(P.cumulative[first:last], draw, side="right")
        self._state = int(P.successors[outcome])
        if truth.outcome_rewards is not None:
            reward = float(truth.outcome_rewards[outcome])
        self._step += 1
        is_over = self._step == self.problem.horizon
        return self._state, reward, is_over, False, {"step": self._step}


class LinearEnv(gymnasium.Env[Array, Array]):
    """A linear system, one user at a time.

    Gymnasium wants actions in [-1, 1]. The input is u = `input_bound` times the clipped action.
    `input_bound` is large enough for every u = K x with |K| <= gain_bound, so such policies are
    never clipped.
    """

    metadata = {"render_modes": []}  # noqa: RUF012 - Gymnasium's own contract

    def __init__(self, problem: LQSystem) -> None:
        states = len(problem.A)
        inputs = len(problem.R)
        norm_A = float(np.linalg.norm(problem.A, 2))
        norm_B = float(np.linalg.norm(problem.B, 2))
        # Bounds of |x_1| .. |x_H| under gains within the bound.
        controlled_norms = _norm_bounds(
            norm_A + norm_B * problem.gain_bound, problem.noise_radius, problem.horizon
        )
        self.problem = problem
        self.input_bound = max(problem.gain_bound, 1e-9) * max(controlled_norms[:-1])
        # Bounds of the norms under all inputs that an action can choose.
        largest_input = np.sqrt(inputs) * self.input_bound
        all_norms = _norm_bounds(
            norm_A, norm_B * largest_input + problem.noise_radius, problem.horizon
        )
        # The factor is for rounding.
        largest = 1.000001 * max(all_norms)
        self.observation_space = spaces.Box(-largest, largest, (states,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (inputs,), np.float64)
        self.spec = _spec("LinearEnv", problem)
        self._state = np.zeros(states)
        # Before the first reset the episode is over.
        self._step = problem.horizon
        self._episodes = 0

    def reset(
        self,
        *,
        seed: int | None = None,
        options: dict[str, Any] | None = None,  # noqa: ARG002
    ) -> tuple[Array, dict[str, Any]]:
        super().reset(seed=seed)
        if self.problem.start is None:
            self._state = self._draw_direction()
        else:
            self._state = self.problem.starts_of(self._episodes, 1)[0].copy()
        self._episodes += 1
        self._step = 0
        return self._state.copy(), {"step": 0}

    def step(self, action: Array) -> tuple[Array, float, bool, bool, dict[str, Any]]:
        system = self.problem
        x = self._state
        _check_not_over(self._step, system.horizon)
        u = self.input_bound * np.clip(np.asarray(action, dtype=float), -1.0, 1.0)
        cost = float(x @ system.Q @ x + u @ system.R @ u)
        # Uniform in a ball: the radius is the power 1/n of a uniform number.
        length = system.noise_radius * self.np_random.random() ** (1 / len(x))
        noise = length * self._draw_direction()
        self._state = system.A @ x + system.B @ u + noise
        self._step += 1
        is_over = self._step == system.horizon
        return self._state.copy(), -cost, is_over, False, {"step": self._step}

    def _draw_direction(self) -> Array:
        """A uniform point of the unit sphere."""
        draw = self.np_random.standard_normal(len(self.problem.A))
        return np.asarray(draw / np.linalg.norm(draw))


def _norm_bounds(factor: float, added: float, steps: int) -> list[float]:
    """Bounds of |x_1| .. |x_{steps + 1}|, if |x_1| = 1 and |x_{h+1}| <= factor |x_h| + added."""
    bounds = [1.0]
    for _ in range(steps):
        bounds.append(factor * bounds[-1] + added)
    return bounds


def _spec(class_name: str, problem: FiniteProblem | LQSystem) -> EnvSpec:
    """What Gymnasium needs to make another one."""
    name = problem.truth.name if isinstance(problem, FiniteProblem) else problem.name
    plain_name = re.sub(r"[^\w.-]+", "_", name)
    return EnvSpec(
        id=f"confide/{plain_name}",
        entry_point=f"confide.problems.environments:{class_name}",
        kwargs={"problem": problem},
    )


def _check_not_over(step: int, horizon: int) -> None:
    if step >= horizon:
        raise gymnasium.error.ResetNeeded("the episode is over: call reset() first")
