"""The value of a policy in an environment that can be played, in the environment's own units.

It is estimated by rollouts: simulated episodes. What leaves this file is printed by `confide run`,
and `RolloutValue.to_json` is a part of its JSON.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from confide import arguments
from confide.arguments import check_size, kind, whole
from confide.errors import InvalidParameter
from confide.policy import (
    ContextPolicy,
    FeaturePolicy,
    LinearPolicy,
    RandomPolicy,
    StochasticPolicy,
    TabularPolicy,
)

Array = npt.NDArray[np.float64]
# Episodes that are sampled at a time from a problem. Memory does not grow with their number.
_BLOCK = 10_000


@dataclass(frozen=True, slots=True)
class RolloutValue:
    """The mean return of simulated episodes under one policy, in the units of the environment.

    `low` and `high` are the ends of an interval that holds the policy's value with probability
    `level`, by Student's t. Where all returns were the same, the interval is one point, because
    rarer returns were not seen.
    """

    mean: float
    standard_error: float
    low: float
    high: float
    episodes: int
    level: float = 0.9

    def to_json(self) -> dict[str, float | int]:
        return {
            "mean": self.mean,
            "standard_error": self.standard_error,
            "low": self.low,
            "high": self.high,
            "episodes": self.episodes,
            "level": self.level,
        }

    def __str__(self) -> str:
        width = self.high - self.low
        # Three digits of the width are shown.
        digits = max(0, 2 - int(np.floor(np.log10(width)))) if width > 0 else 3
        interval = f"{self.low:.{digits}f} to {self.high:.{digits}f}"
        return f"{self.mean:.{digits}f} ({100 * self.level:g} % interval {interval})"


def value_of_returns(returns: Array, level: float = 0.9) -> RolloutValue:
    """The mean of independent returns [episode], with its interval."""
    arguments.real("level", level, above=0, below=1)
    episodes = len(returns)
    mean = float(returns.mean())
    standard_error = float(returns.std(ddof=1)) / np.sqrt(episodes)
    margin = float(stdtrit(episodes - 1, (1 + level) / 2)) * standard_error
    return RolloutValue(mean, float(standard_error), mean - margin, mean + margin, episodes, level)


def evaluate_policy(
    policy: Any,
    env: Any,
    episodes: int = 1000,
    *,
    horizon: int | None = None,
    seed: int = 0,
    level: float = 0.9,
    states: int | None = None,
    **options: Any,
) -> RolloutValue:
    """Play a policy in an environment, and return its mean return with an interval.

    `env` is a Gymnasium environment, the name of one (with options for `gymnasium.make`), or a
    problem. Returns are sums of the environment's own rewards, without a discount. A policy of a
    run is played for its own number of steps. `horizon` is for policies that do the same at every
    step, whose episodes otherwise end with the environment's time limit. `states` is for
    observation spaces that do not say how many states there are. A problem of the library is
    sampled as it is.

    Nothing here is private or needs to be: a policy is public, and the environment is a simulator.
    """
    kind(
        "policy",
        policy,
        TabularPolicy,
        StochasticPolicy,
        LinearPolicy,
        RandomPolicy,
        ContextPolicy,
        FeaturePolicy,
    )
    episodes = whole("episodes", episodes, at_least=2)
    arguments.real("level", level, above=0, below=1)
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    check_size(episodes=episodes)
    if hasattr(env, "own_returns"):
        returns = _sample_returns(env, policy, episodes, rng, env.own_returns)
        return value_of_returns(returns, level)
    if hasattr(env, "sample") and hasattr(env, "public"):
        returns = _sample_returns(env, policy, episodes, rng, _sum_rewards)
        return value_of_returns(returns, level)
    if isinstance(policy, LinearPolicy | ContextPolicy):
        raise InvalidParameter.of(
            "policy", f"must choose among finitely many actions, got {type(policy).__name__}"
        )
    from confide.problems.gym import open_environment
    from confide.problems.playing import play_returns

    opened = open_environment(env, options)
    return value_of_returns(play_returns(opened, policy, episodes, horizon, rng, states), level)


def _sum_rewards(users: Any) -> Array:
    returns: Array = users.rewards.sum(axis=1)
    return returns


def _sample_returns(
    problem: Any,
    policy: Any,
    episodes: int,
    rng: np.random.Generator,
    returns_of: Callable[[Any], Array],
) -> Array:
    """The return of each episode [episode], sampled in blocks."""
    block = min(_BLOCK, getattr(problem, "chunk", _BLOCK))
    parts = []
    for first in range(0, episodes, block):
        users = problem.sample(policy, min(block, episodes - first), rng)
        parts.append(returns_of(users))
    return np.concatenate(parts)
