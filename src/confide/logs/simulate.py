"""Simulated logs."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from confide.arguments import kind, listed, whole
from confide.errors import InvalidParameter
from confide.policy import StochasticPolicy, TabularPolicy
from confide.problems.finite import FiniteProblem
from confide.trajectory import LoggedUsers

# About how many rows a block has. A matter of taste, but another number draws other users from a
# seed.
ROWS = 1_000_000


def simulate(
    problem: Any, policy: Any, users: int, rng: np.random.Generator, *, end: Collection[int] = ()
) -> Iterator[LoggedUsers]:
    """Independent users of a finite problem, one episode each, in blocks.

    `write` and `in_memory` take them. The log has states, actions, rewards and the probabilities of
    the actions under `policy`. The first step in a state of `end` is logged, and is a trajectory's
    last: absorbing states say nothing more.
    """
    kind("problem", problem, FiniteProblem)
    kind("policy", policy, TabularPolicy, StochasticPolicy)
    users = whole("users", users, at_least=0)
    for state in listed("end", end, int, np.integer):
        if not 0 <= state < problem.states:
            raise InvalidParameter.of(
                "end", f"must contain states of the problem, 0..{problem.states - 1}, got {state}"
            )
    at_once = max(1, ROWS // problem.horizon)
    # [step, state, action]
    probabilities = np.minimum(policy.probabilities(), 1.0)
    is_end = np.zeros(problem.states, np.bool_)
    is_end[list(end)] = True
    for first in range(0, users, at_once):
        played = problem.sample(policy, min(at_once, users - first), rng)
        yield _as_log(played, probabilities, is_end)


def _as_log(played: Any, policy: Any, is_end: Any) -> LoggedUsers:
    """Episodes up to the first step in an end state, with the policy's probabilities of actions."""
    users, horizon = played.rewards.shape
    states = played.states[:, :-1].astype(np.int64)
    actions = played.actions.astype(np.int64)
    ends = is_end[states]
    length = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, horizon)
    logged = np.arange(horizon) < length[:, None]
    probabilities = policy[np.arange(horizon), states, actions]
    return LoggedUsers(
        states[logged],
        played.rewards[logged],
        np.append(0, np.cumsum(length)),
        np.arange(users + 1),
        np.ones(users, np.bool_),
        actions[logged],
        probabilities[logged],
    )
