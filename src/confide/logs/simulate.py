"""Simulated logs."""

from collections.abc import Collection, Iterator
from typing import Any

import numpy as np

from confide.arguments import kind, listed, whole
from confide.errors import InvalidParameter
from confide.policy import StochasticPolicy, TabularPolicy
from confide.problems.finite import FiniteProblem
from confide.trajectory import LoggedUsers

ROWS = 1_000_000  # of a block


def simulate(
    problem: Any, policy: Any, users: int, rng: np.random.Generator, *, end: Collection[int] = ()
) -> Iterator[LoggedUsers]:
    """Independent users of a finite problem, one episode each, in blocks: for `write` and `in_memory`.

    Logged are states, actions, rewards and the probabilities of the actions under `policy`. The first step in a state of `end` is logged,
    and is a trajectory's last: absorbing states say nothing more.
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
    weights = np.minimum(policy.probabilities(), 1.0)  # [h, s, a]
    last = np.zeros(problem.states, np.bool_)
    last[list(end)] = True
    for first in range(0, users, at_once):
        yield _logged(problem.sample(policy, min(at_once, users - first), rng), weights, last)


def _logged(played: Any, weights: Any, last: Any) -> LoggedUsers:
    states, (users, H) = played.states[:, :-1].astype(np.int64), played.rewards.shape
    ends = last[states]
    length = np.where(ends.any(axis=1), ends.argmax(axis=1) + 1, H)
    logged = np.arange(H) < length[:, None]
    chosen = played.actions.astype(np.int64)
    probabilities = weights[np.arange(H), states, chosen]
    return LoggedUsers(
        states[logged],
        played.rewards[logged],
        np.append(0, np.cumsum(length)),
        np.arange(users + 1),
        np.ones(users, np.bool_),
        chosen[logged],
        probabilities[logged],
    )
