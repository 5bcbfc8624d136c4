"""What every problem with finitely many states can do: exact values, and samples."""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size, generator, whole
from confide.errors import InvalidParameter
from confide.planners.backward_induction import optimal, policy_values
from confide.policy import FinitePolicy, Policy, StochasticPolicy, TabularPolicy, uniform_policy
from confide.problems import _kernels
from confide.problems.saving import save_problem
from confide.problems.transitions import normalised
from confide.trajectory import Trajectories, TransitionCounts, counts_without_check

if TYPE_CHECKING:
    from confide.problems.tabular import TabularMDP

Array = npt.NDArray[np.float64]
_BLOCK = 1024  # users whose draws are made at once


class FiniteProblem:
    """Exact optimal values and policies, exact values of any policy, episodes and exact transition counts; all from `truth`."""

    truth: "TabularMDP"

    @property
    def horizon(self) -> int:
        return len(self.truth.rewards)

    @property
    def states(self) -> int:
        return self.truth.transitions.states

    @property
    def actions(self) -> int:
        return self.truth.transitions.actions

    @cached_property
    def _layer_rows(self) -> int:
        """How far apart the rows of two steps are: not at all, if the problem is the same at every step."""
        P = self.truth.transitions
        return P.rows if P.layers > 1 else 0

    @cached_property
    def _optimum(self) -> tuple[Array, TabularPolicy]:
        return optimal(self.truth.transitions.expect, self.truth.rewards)

    @cached_property
    def optimal_value(self) -> float:
        """The largest expected sum of rewards over an episode."""
        return float(self.truth.start @ self._optimum[0][0])

    @property
    def optimal_policy(self) -> TabularPolicy:
        return self._optimum[1]

    def value(self, policy: Policy) -> float:
        """The exact expected sum of rewards of a policy over an episode."""
        return float(self.truth.start @ self.values(self._fitting(policy))[0])

    def values(self, policy: FinitePolicy) -> Array:
        """V [h, s] of a policy, h = 0..H."""
        policy = self._fitting(policy)
        if isinstance(policy, TabularPolicy):
            P = self.truth.transitions
            rewards = self.truth.rewards
            return _kernels.follow(
                P.indptr, P.successors, P.probabilities, self._layer_rows, rewards, policy.actions
            )
        return policy_values(self.truth.transitions.expect, self.truth.rewards, policy)

    @cached_property
    def uniform_value(self) -> float:
        """The value of playing at random: the other end of the scale."""
        return self.value(uniform_policy(self.horizon, self.states, self.actions))

    @cached_property
    def _cumulative_start(self) -> Array:
        start = np.cumsum(self.truth.start)
        # rounding must not make an impossible state possible
        start[np.flatnonzero(self.truth.start)[-1] :] = 1.0
        return start

    def sample(self, policy: Policy, users: int, rng: np.random.Generator) -> Trajectories:
        """Independent episodes of `users` users under one policy."""
        truth, H = self.truth, self.horizon
        policy = self._fitting(policy)
        check_size(users=whole("users", users, at_least=0), horizon=H + 1)
        generator("rng", rng)
        if isinstance(policy, TabularPolicy):
            actions, weights = policy.actions, np.zeros((H, 1, 1))
        else:
            actions, weights = np.full((H, self.states), -1), np.cumsum(policy.weights, axis=2)
        states_out = np.empty((users, H + 1), dtype=np.int32)
        actions_out, rewards_out = np.empty((users, H), dtype=np.int32), np.empty((users, H))
        P = truth.transitions
        drawn_rewards = truth.stochastic_rewards and truth.outcome_rewards is None
        earned = np.zeros(0) if truth.outcome_rewards is None else truth.outcome_rewards
        per_step = 1 + isinstance(policy, StochasticPolicy) + drawn_rewards
        for first in range(0, users, _BLOCK):
            block = slice(first, first + _BLOCK)
            _kernels.walk(
                self._cumulative_start,
                P.indptr,
                P.successors,
                P.cumulative,
                self._layer_rows,
                truth.rewards,
                drawn_rewards,
                earned,
                actions,
                weights,
                states_out[block],
                actions_out[block],
                rewards_out[block],
                rng.random((min(_BLOCK, users - first), 1 + H * per_step)),
            )
        return Trajectories(states_out, actions_out, rewards_out)

    def count(self, policy: Policy, users: int, rng: np.random.Generator) -> TransitionCounts:
        """The transition counts of `users` episodes, drawn directly by multinomials: exact in law, at a cost free of `users`."""
        truth, H = self.truth, self.horizon
        # multinomials are stricter than policies
        weights = normalised(self._fitting(policy).probabilities())
        whole("users", users, at_least=0), generator("rng", rng)
        visits = rng.multinomial(users, truth.start)
        parts: list[tuple[npt.NDArray[np.int64], ...]] = []
        for h in range(H):
            states = np.flatnonzero(visits)
            chosen = rng.multinomial(visits[states], weights[h, states])
            which, actions = np.nonzero(chosen)
            parts.append(self._move(h, states[which], actions, chosen[which, actions], rng))
            visits = np.bincount(parts[-1][3], parts[-1][5], minlength=self.states).astype(np.int64)
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        step, state, action, next_state, reward, count = columns
        # Multinomials give at most `users` transitions per step, so nothing has to be checked.
        return counts_without_check(
            step, state, action, next_state, reward.astype(float), count, users=users, horizon=H
        )

    def _move(
        self,
        h: int,
        states: npt.NDArray[np.int64],
        actions: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        rng: np.random.Generator,
    ) -> tuple[npt.NDArray[np.int64], ...]:
        """Rows (step, state, action, next_state, reward, count) of one step, for counts of (state, action)."""
        truth, P = self.truth, self.truth.transitions
        rewards = truth.rewards[h, states, actions]
        if (
            truth.stochastic_rewards and truth.outcome_rewards is None
        ):  # split each (state, action) into those who got 1 and those who got 0
            ones = rng.binomial(counts, rewards)
            states, actions = np.tile(states, 2), np.tile(actions, 2)
            counts, rewards = (
                np.concatenate([ones, counts - ones]),
                np.repeat([1.0, 0.0], len(ones)),
            )
            keep = counts > 0
            states, actions, counts, rewards = (
                states[keep],
                actions[keep],
                counts[keep],
                rewards[keep],
            )
        rows = (min(h, P.layers - 1) * P.states + states) * P.actions + actions
        lengths = P.indptr[rows + 1] - P.indptr[rows]
        width = int(lengths.max(initial=1))
        # successors stand at the right end of each row: the last one takes what rounding leaves, never a state that cannot follow
        entry = P.indptr[rows + 1][:, None] + np.arange(-width, 0)
        valid = np.arange(width) >= width - lengths[:, None]
        moved = rng.multinomial(
            counts, np.where(valid, P.probabilities[np.where(valid, entry, 0)], 0.0)
        )
        row, column = np.nonzero(moved)
        outcome = entry[row, column]
        arrived = P.successors[outcome].astype(np.int64)
        if truth.outcome_rewards is not None:
            return (
                np.full(len(row), h),
                states[row],
                actions[row],
                arrived,
                truth.outcome_rewards[outcome],
                moved[row, column],
            )
        return (
            np.full(len(row), h),
            states[row],
            actions[row],
            arrived,
            rewards[row],
            moved[row, column],
        )

    def save(self, path: str | Path) -> None:
        """Into one file that `load_problem`, and the command line, open again."""
        save_problem(self, path)

    def _fitting(self, policy: Policy) -> FinitePolicy:
        return fitting(policy, self.horizon, self.states, self.actions)


def fitting(policy: Policy, horizon: int, states: int, actions: int) -> FinitePolicy:
    """The policy, if it is one for so many steps, states and actions."""
    if not isinstance(policy, TabularPolicy | StochasticPolicy):
        raise InvalidParameter(
            f"a finite problem needs a TabularPolicy or a StochasticPolicy, got {type(policy).__name__}"
        )
    shape = policy.actions.shape if isinstance(policy, TabularPolicy) else policy.weights.shape[:2]
    if shape != (horizon, states) or policy.choices != actions:
        raise InvalidParameter(
            f"the policy is for {shape[0]} steps, {shape[1]} states and {policy.choices} actions, "
            f"the problem has {horizon}, {states} and {actions}"
        )
    return policy
