"""An environment played under a policy, whose rewards are added up as they are.

Nothing here is private: the environment is a simulator, and a policy is public.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.policy import FeaturePolicy, RandomPolicy
from confide.problems.gym import Env, call_environment, env_horizon, env_name
from confide.problems.sampled import SpaceNumbers

Array = npt.NDArray[np.float64]


def play_returns(
    env: Env,
    policy: Any,
    episodes: int,
    horizon: int | None,
    rng: np.random.Generator,
    states: int | None = None,
) -> Array:
    """The sum of the environment's rewards in each of so many episodes, [episode].

    An episode has at most as many steps as the policy was planned for, or as `horizon` says.
    """
    name = env_name(env)
    if isinstance(policy, FeaturePolicy):
        player = _feature_player(env, policy)
    else:
        player = _numbered_player(env, policy, states)
    steps = env_horizon(env, player.steps if horizon is None else horizon)
    if player.steps is not None and steps > player.steps:
        raise InvalidParameter.of(
            "horizon", f"must be at most {player.steps}, the steps of the policy, got {steps}"
        )
    choose = player.choose
    returns = np.zeros(episodes)
    for episode in range(episodes):
        seed = int(rng.integers(2**31))
        observation = call_environment(name, env.reset, seed=seed)[0]
        for step in range(steps):
            action = choose(step, observation, rng)
            observation, reward, terminated, truncated, _ = call_environment(name, env.step, action)
            returns[episode] += float(reward)
            if terminated or truncated:
                break
    if not np.isfinite(returns).all():
        raise InvalidParameter(f"{name} gave a reward that is not a finite number")
    return returns


@dataclass(frozen=True, slots=True)
class _Player:
    """How a policy acts on observations: `choose(step, observation, rng)` is an action of the
    environment. `steps` is None if the policy does the same at every step.
    """

    choose: Callable[[int, Any, np.random.Generator], Any]
    steps: int | None


def _feature_player(env: Env, policy: FeaturePolicy) -> _Player:
    space: Any = env.action_space
    first_action = int(getattr(space, "start", 0))

    def choose(step: int, observation: Any, rng: np.random.Generator) -> Any:
        return first_action + policy.act(step, observation, rng)

    return _Player(choose, policy.horizon)


def _numbered_player(env: Env, policy: Any, states: int | None) -> _Player:
    """Actions are drawn from the policy's table, by the number of the state that is observed.

    The policy of a run may have a state for the end, and also one before the start.
    """
    numbers = SpaceNumbers.of(env.observation_space, env.action_space, states, env_name(env))
    if isinstance(policy, RandomPolicy):
        return _random_player(numbers, policy)
    table = policy.probabilities()  # [step, state, action]
    policy_steps, policy_states, actions = table.shape
    extra_states = policy_states - numbers.states
    if actions != numbers.actions or extra_states not in (0, 1, 2):
        raise _wrong_sizes(numbers, f"{policy_states} states and {actions} actions")
    # A policy with two more states begins one step before the environment.
    first_step = 1 if extra_states == 2 else 0
    cumulative = np.cumsum(table, axis=2)

    def choose(step: int, observation: Any, rng: np.random.Generator) -> Any:
        row = 0 if policy_steps == 1 else step + first_step
        weights = cumulative[row, numbers.state(observation)]
        number = int(np.searchsorted(weights, rng.random() * weights[-1], side="right"))
        # Rounding must not lead behind the last action.
        return numbers.action(min(number, actions - 1))

    return _Player(choose, policy_steps - first_step if policy_steps > 1 else None)


def _random_player(numbers: SpaceNumbers, policy: RandomPolicy) -> _Player:
    if policy.choices != numbers.actions:
        raise _wrong_sizes(numbers, f"{policy.choices} actions")

    def choose(step: int, observation: Any, rng: np.random.Generator) -> Any:  # noqa: ARG001
        return numbers.action(int(rng.integers(policy.choices)))

    return _Player(choose, None)


def _wrong_sizes(numbers: SpaceNumbers, got: str) -> InvalidParameter:
    return InvalidParameter.of(
        "policy",
        f"must be one for {numbers.states} states and {numbers.actions} actions, got {got}",
    )
