"""An environment played under a policy, whose rewards are added up as they are."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.policy import FeaturePolicy, RandomPolicy
from confide.problems.gym import Env, env_horizon, env_name
from confide.problems.sampled import SpaceNumbers, called

Array = npt.NDArray[np.float64]


def played_returns(
    env: Env,
    policy: Any,
    episodes: int,
    horizon: int | None,
    rng: np.random.Generator,
    states: int | None = None,
) -> Array:
    """The sum of the environment's rewards in each of so many episodes.

    An episode has at most as many steps as the policy was planned for, or as `horizon` says.
    """
    name = env_name(env)
    by_features = isinstance(policy, FeaturePolicy)
    played = _by_features(env, policy) if by_features else _by_number(env, policy, states)
    steps = env_horizon(env, played.steps if horizon is None else horizon)
    if played.steps is not None and steps > played.steps:
        raise InvalidParameter.of(
            "horizon", f"must be at most {played.steps}, the steps of the policy, got {steps}"
        )
    choose = played.choose
    returns = np.zeros(episodes)
    for episode in range(episodes):
        observation = called(name, env.reset, seed=int(rng.integers(2**31)))[0]
        for step in range(steps):
            action = choose(step, observation, rng)
            observation, reward, terminated, truncated, _ = called(name, env.step, action)
            returns[episode] += float(reward)
            if terminated or truncated:
                break
    if not np.isfinite(returns).all():
        raise InvalidParameter(f"{name} gave a reward that is not a finite number")
    return returns


@dataclass(frozen=True, slots=True)
class _Played:
    """How a policy acts on observations, and for how many steps; None if it does the same at every step."""

    choose: Callable[[int, Any, np.random.Generator], Any]
    steps: int | None


def _by_features(env: Env, policy: FeaturePolicy) -> _Played:
    space: Any = env.action_space
    first = int(getattr(space, "start", 0))

    def choose(step: int, observation: Any, rng: np.random.Generator) -> Any:
        return first + policy.act(step, observation, rng)

    return _Played(choose, policy.horizon)


def _by_number(env: Env, policy: Any, states: int | None) -> _Played:
    """Actions drawn from the policy's table. A policy of a run may have a state before the start, and one after the end."""
    numbers = SpaceNumbers.of(env.observation_space, env.action_space, states, env_name(env))
    if isinstance(policy, RandomPolicy):
        if policy.choices != numbers.actions:
            raise _other_sizes(numbers, f"{policy.choices} actions")

        def anything(step: int, observation: Any, rng: np.random.Generator) -> Any:  # noqa: ARG001
            return numbers.action(int(rng.integers(policy.choices)))

        return _Played(anything, None)
    table = policy.probabilities()
    planned, size, actions = table.shape
    if actions != numbers.actions or size not in (
        numbers.states,
        numbers.states + 1,
        numbers.states + 2,
    ):
        raise _other_sizes(numbers, f"{size} states and {actions} actions")
    # A policy with two states more than the environment begins one step before it.
    before = int(size == numbers.states + 2)
    cumulated = np.cumsum(table, axis=2)

    def choose(step: int, observation: Any, rng: np.random.Generator) -> Any:
        row = cumulated[0 if planned == 1 else step + before, numbers.state(observation)]
        drawn = int(np.searchsorted(row, rng.random() * row[-1], side="right"))
        return numbers.action(min(drawn, actions - 1))

    return _Played(choose, planned - before if planned > 1 else None)


def _other_sizes(numbers: SpaceNumbers, found: str) -> InvalidParameter:
    return InvalidParameter.of(
        "policy",
        f"must be one for {numbers.states} states and {numbers.actions} actions, got {found}",
    )
