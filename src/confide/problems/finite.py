"""What every problem with finitely many states can do: exact values, and samples.

Everything is computed from `truth`. The order in which random numbers are used decides the users of
a seed, and with them every published figure: do not change it.
"""

from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size, generator, whole
from confide.errors import InvalidParameter
from confide.planners.backward_induction import optimal, policy_values
from confide.policy import FinitePolicy, Policy, StochasticPolicy, TabularPolicy, uniform_policy
from confide.problems import _kernels
from confide.problems.saving import save_problem
from confide.problems.transitions import normalize_rows
from confide.trajectory import Trajectories, TransitionCounts, counts_without_check

if TYPE_CHECKING:
    from confide.problems.tabular import TabularMDP

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# Users whose random numbers are drawn at once. Another number gives other users for the same seed.
_BLOCK = 1024


class FiniteProblem:
    """A problem with finitely many states and actions, whose `truth` is a tabular MDP.

    It gives exact optimal values and policies, exact values of any policy, episodes, and exact
    transition counts of many users at once.
    """

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
        """How far apart the rows of two steps are; zero, if all steps are the same."""
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
        # Rounding must not make an impossible state possible.
        start[np.flatnonzero(self.truth.start)[-1] :] = 1.0
        return start

    def sample(self, policy: Policy, users: int, rng: np.random.Generator) -> Trajectories:
        """Independent episodes of `users` users under one policy."""
        H = self.horizon
        truth = self.truth
        P = truth.transitions
        policy = self._fitting(policy)
        check_size(users=whole("users", users, at_least=0), horizon=H + 1)
        generator("rng", rng)
        is_stochastic = isinstance(policy, StochasticPolicy)
        if isinstance(policy, TabularPolicy):
            actions = policy.actions
            cumulative_weights = np.zeros((H, 1, 1))
        else:
            # The kernel draws an action where the table has -1.
            actions = np.full((H, self.states), -1)
            cumulative_weights = np.cumsum(policy.weights, axis=2)
        # Rewards are 0 or 1 with the given means, or belong to outcomes, or are the means.
        outcome_rewards = truth.outcome_rewards
        draws_rewards = truth.stochastic_rewards and outcome_rewards is None
        if outcome_rewards is None:
            outcome_rewards = np.zeros(0)
        states_out = np.empty((users, H + 1), dtype=np.int32)
        actions_out = np.empty((users, H), dtype=np.int32)
        rewards_out = np.empty((users, H))
        draws_per_step = 1 + is_stochastic + draws_rewards
        for first in range(0, users, _BLOCK):
            block = slice(first, first + _BLOCK)
            _kernels.walk(
                self._cumulative_start,
                P.indptr,
                P.successors,
                P.cumulative,
                self._layer_rows,
                truth.rewards,
                draws_rewards,
                outcome_rewards,
                actions,
                cumulative_weights,
                states_out[block],
                actions_out[block],
                rewards_out[block],
                rng.random((min(_BLOCK, users - first), 1 + H * draws_per_step)),
            )
        return Trajectories(states_out, actions_out, rewards_out)

    def count(self, policy: Policy, users: int, rng: np.random.Generator) -> TransitionCounts:
        """The transition counts of `users` episodes, drawn directly as multinomials.

        They have exactly the distribution of counts of sampled episodes, at a cost that does not
        depend on `users`.
        """
        # Multinomials are stricter than policies about sums of one.
        weights = normalize_rows(self._fitting(policy).probabilities())
        whole("users", users, at_least=0)
        generator("rng", rng)
        visits = rng.multinomial(users, self.truth.start)
        # Of each step: step, state, action, next state, reward and count of each kind of move.
        parts: list[tuple[npt.NDArray[Any], ...]] = []
        for h in range(self.horizon):
            states = np.flatnonzero(visits)
            chosen = rng.multinomial(visits[states], weights[h, states])
            place, actions = np.nonzero(chosen)
            part = self._count_moves(h, states[place], actions, chosen[place, actions], rng)
            parts.append(part)
            next_states = part[3]
            counts = part[5]
            visits = np.bincount(next_states, counts, minlength=self.states).astype(np.int64)
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        step, state, action, next_state, reward, count = columns
        # Multinomials give at most `users` transitions per step, so nothing has to be checked.
        return counts_without_check(
            step,
            state,
            action,
            next_state,
            reward.astype(float),
            count,
            users=users,
            horizon=self.horizon,
        )

    def _count_moves(
        self, h: int, states: Ints, actions: Ints, counts: Ints, rng: np.random.Generator
    ) -> tuple[npt.NDArray[Any], ...]:
        """Columns (step, state, action, next_state, reward, count) of one step.

        `counts` says how many users are at each (state, action).
        """
        truth = self.truth
        P = truth.transitions
        rewards = truth.rewards[h, states, actions]
        if truth.stochastic_rewards and truth.outcome_rewards is None:
            states, actions, counts, rewards = _split_by_reward(
                states, actions, counts, rewards, rng
            )
        rows = (min(h, P.layers - 1) * P.states + states) * P.actions + actions
        lengths = P.indptr[rows + 1] - P.indptr[rows]
        width = int(lengths.max(initial=1))
        # Entries of P are right-aligned in [row, place]. A multinomial gives its last place what
        # rounding leaves, so that must be an entry of the row, and not a state that cannot follow.
        entries = P.indptr[rows + 1][:, None] + np.arange(-width, 0)
        is_entry = np.arange(width) >= width - lengths[:, None]
        probabilities = np.where(is_entry, P.probabilities[np.where(is_entry, entries, 0)], 0.0)
        moved = rng.multinomial(counts, probabilities)
        row, place = np.nonzero(moved)
        outcomes = entries[row, place]
        outcome_rewards = rewards[row]
        if truth.outcome_rewards is not None:
            outcome_rewards = truth.outcome_rewards[outcomes]
        return (
            np.full(len(row), h),
            states[row],
            actions[row],
            P.successors[outcomes].astype(np.int64),
            outcome_rewards,
            moved[row, place],
        )

    def save(self, path: str | Path) -> None:
        """Write one file, which `load_problem` and the command line open again."""
        save_problem(self, path)

    def _fitting(self, policy: Policy) -> FinitePolicy:
        return fitting(policy, self.horizon, self.states, self.actions)


def _split_by_reward(
    states: Ints, actions: Ints, counts: Ints, means: Array, rng: np.random.Generator
) -> tuple[Ints, Ints, Ints, Array]:
    """Split the users of each (state, action) into those who earned 1 and those who earned 0.

    Groups without users are left out.
    """
    ones = rng.binomial(counts, means)
    split_counts = np.concatenate([ones, counts - ones])
    split_rewards = np.repeat([1.0, 0.0], len(ones))
    keep = split_counts > 0
    return (
        np.tile(states, 2)[keep],
        np.tile(actions, 2)[keep],
        split_counts[keep],
        split_rewards[keep],
    )


def fitting(policy: Policy, horizon: int, states: int, actions: int) -> FinitePolicy:
    """The policy, if it is one for so many steps, states and actions."""
    if not isinstance(policy, TabularPolicy | StochasticPolicy):
        raise InvalidParameter(
            "a finite problem needs a TabularPolicy or a StochasticPolicy, "
            f"got {type(policy).__name__}"
        )
    shape = policy.actions.shape if isinstance(policy, TabularPolicy) else policy.weights.shape[:2]
    if shape != (horizon, states) or policy.choices != actions:
        raise InvalidParameter(
            f"the policy is for {shape[0]} steps, {shape[1]} states and {policy.choices} actions, "
            f"the problem has {horizon}, {states} and {actions}"
        )
    return policy
