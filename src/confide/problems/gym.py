"""Gymnasium: its tables as problems, our problems as environments, and environments played step by step through features."""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.arguments import choice, kind, listed, real, shown, whole
from confide.catalogue import function_by_name, name_of_function
from confide.errors import InvalidParameter, MissingExtra
from confide.policy import (
    FeaturePolicy,
    Features,
    LinearPolicy,
    StochasticPolicy,
    TabularPolicy,
)
from confide.problems.finite import FiniteProblem
from confide.problems.lq import LQSystem
from confide.problems.observations import FeaturesPublic, check_features
from confide.problems.tabular import TabularMDP
from confide.problems.transitions import sparse_rows
from confide.trajectory import Trajectories

try:
    import gymnasium
    from gymnasium import ObservationWrapper as ObservationWrapper
    from gymnasium import spaces as spaces
    from gymnasium import vector as vector
    from gymnasium import wrappers
except ImportError:
    raise MissingExtra(
        "Gymnasium environments need Gymnasium: pip install 'confide[gym]'"
    ) from None

if TYPE_CHECKING:
    from confide.problems.environments import FiniteEnv, LinearEnv

Array = npt.NDArray[np.float64]
Env = gymnasium.Env[Any, Any]
REWARDS = ("learned", "public")
_HARMLESS = (  # wrappers that change nothing of what is observed, done and earned
    wrappers.TimeLimit,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
    wrappers.HumanRendering,
    wrappers.RenderCollection,
)
# P[s][a] = [(probability, next state, reward, terminated)]
Table = dict[int, dict[int, list[tuple[float, int, float, bool]]]]


@dataclass(frozen=True, slots=True)
class RewardMap:
    """How rewards of an environment came to lie in [0, 1]: (r - low) / (high - low), the same at every step."""

    low: float
    high: float

    def apply(self, reward: float) -> float:
        return (reward - self.low) / (self.high - self.low)

    @property
    def suffix(self) -> str:
        """What a problem's name says about it."""
        return (
            ""
            if self == RewardMap(0.0, 1.0)
            else f", rewards (r {-self.low:+g}) / {self.high - self.low:g}"
        )

    def original(self, value: float, horizon: int) -> float:
        """The expected sum of the environment's own rewards for a value of the imported problem."""
        return value * (self.high - self.low) + horizon * self.low


def from_gymnasium(
    env: Env | str,
    horizon: int | None = None,
    *,
    rewards: str = "learned",
    reward_range: tuple[float, float] | None = None,
    **options: Any,
) -> TabularMDP:
    """The table of a toy-text environment (FrozenLake-v1, Taxi-v4, CliffWalking-v1, ...) as a problem with a fixed horizon.

    Options go to `gymnasium.make`; without a horizon the environment's own time limit is taken. Whoever terminates goes to an absorbing
    state, added at the end, where the environment's reward is 0.

    Public are the numbers of states and actions, the start, that episodes can end, and the range of rewards. Rewards have to be learned:
    users get those of the environment. With `rewards="public"` agents know r(s, a), and users get it, which tells something
    of the dynamics: rewards that depend on where one arrives are averaged over it (next to the goal of FrozenLake r(s, a) is the
    probability to reach it), and Taxi's show which actions are illegal.

    Rewards outside [0, 1] are mapped to it by `reward_map`, or by the given `reward_range`, and the name says how. Every episode then lasts
    `horizon` steps and the map is the same at each, also in the absorbing state (which gets the image of 0, not 0): all values change by
    one increasing function, and policies keep their order, whether their episodes end early or not.
    """
    choice("rewards", rewards, REWARDS)
    made = made_env(env, options)
    table, start = _table(made)
    mapped = _map_of(table, reward_range)
    S, A = len(table), len(table[0])
    ends = int(any(done for *_, done in _outcomes(table)))
    means = np.zeros((S + ends, A))
    means[S:] = mapped.apply(0.0)
    # For each pair the probabilities of its outcomes. Public rewards are averaged over outcomes that lead to the same state.
    rows: list[dict[tuple[int, float], float]] = []
    for s, a in np.ndindex(S, A):
        outcomes: dict[tuple[int, float], float] = {}
        for p, arrived, reward, done in table[s][a]:
            target = S if done else int(arrived)
            earned = mapped.apply(reward)
            outcome = (target, earned if rewards == "learned" else 0.0)
            if p > 0:
                outcomes[outcome] = outcomes.get(outcome, 0.0) + p
            means[s, a] += p * earned
        rows.append(outcomes)
    rows += [{(S, mapped.apply(0.0)): 1.0}] * (ends * A)
    indptr = np.cumsum([0, *map(len, rows)])
    targets = [target for row in rows for target, _ in row]
    P = sparse_rows(S + ends, A, indptr, targets, [p for row in rows for p in row.values()])
    earned_by_outcome = np.clip([earned for row in rows for _, earned in row], 0.0, 1.0)
    return TabularMDP(
        P,
        np.clip(means, 0.0, 1.0),  # averages may leave [0, 1] by rounding
        np.append(start, np.zeros(ends)),
        horizon=env_horizon(made, horizon),
        stochastic_rewards=rewards == "learned",
        name=env_name(made) + mapped.suffix,
        # a `done` flag is seen by whoever plays
        terminal=np.arange(S + ends) >= S if ends else None,
        outcome_rewards=earned_by_outcome if rewards == "learned" else None,
    )


def reward_map(env: Env | str, **options: Any) -> RewardMap:
    """The map that `from_gymnasium` applies to this environment's rewards; nothing is changed if they lie in [0, 1] already."""
    return _map_of(_table(made_env(env, options))[0])


def to_gymnasium(problem: FiniteProblem | LQSystem) -> "FiniteEnv | LinearEnv":
    """A problem as an environment that terminates after the horizon; `info["step"]` is the step, which good policies depend on."""
    from confide.problems.environments import FiniteEnv, LinearEnv

    if isinstance(problem, LQSystem):
        return LinearEnv(problem)
    if isinstance(problem, FiniteProblem):
        return FiniteEnv(problem)
    raise InvalidParameter(
        f"only finite problems and linear systems can be exported, got {type(problem).__name__}"
    )


class ActsOnFeatures(Protocol):
    """A policy for step-by-step problems: `state` is the features [action, i] of every action."""

    def act(self, step: int, state: Any, rng: np.random.Generator) -> Any: ...


class GymProblem:
    """Any environment with finitely many actions, played step by step; what agents see of a state is its features.

    `features(observation)` gives an array [action, i]: all that a linear learner needs, for the action that was taken and for every action
    that could be taken next. It may also be package.module:function. Policies get the features as their state, and trajectories hold them.
    `feature_norm` is the public bound on the norm of a row, and longer rows are clipped to it by the agent. The optimal value is unknown
    here: returns are reported, regret is unknown.

    Rewards must be in [0, 1], or in a stated `reward_range`, which is public and contains 0, and is mapped to [0, 1].

    Shapes: states [user, h, action, i]; once an episode is over features are zero, the recorded action is 0 and each step earns the image
    of a reward of 0, so what is over adds nothing to a regression. If the features of an observation cannot be computed, the action is
    random and all features of this user are NaN, so the user contributes zero. Every episode is reseeded from `rng`: a resumed run goes on
    bit by bit the same.
    """

    optimal_value = None
    uniform_value = None

    def __init__(
        self,
        env: Env | str,
        features: Features | str,
        horizon: int | None = None,
        *,
        feature_norm: float = 1.0,
        reward_range: tuple[float, float] | None = None,
        **options: Any,
    ) -> None:
        self._env = made_env(env, options)
        if not callable(features) and not isinstance(features, str):
            raise InvalidParameter.of(
                "features", "must be a function of an observation", got=shown(features)
            )
        named = features if isinstance(features, str) else name_of_function(features)
        function = function_by_name("features", features) if isinstance(features, str) else features
        self.horizon = env_horizon(self._env, horizon)
        space, limit = (
            self._env.action_space,
            self._env.spec.max_episode_steps if self._env.spec else None,
        )
        if not isinstance(space, spaces.Discrete):
            raise InvalidParameter(
                f"the environment must have finitely many actions, got the action space {space}"
            )
        if limit is not None and self.horizon > limit:
            raise InvalidParameter.of(
                "horizon",
                f"must be at most {limit}, after which the environment stops",
                got=f"{self.horizon}",
            )
        self.actions, self._first = int(space.n), int(space.start)
        self._map = RewardMap(0.0, 1.0) if reward_range is None else stated_range(reward_range)
        check_end_reward(self._map, reward_range)
        rows = check_features(function, self._env.reset(seed=0)[0], self.actions)
        self.public = FeaturesPublic(
            function,
            self.horizon,
            self.actions,
            int(rows.shape[1]),
            feature_norm=feature_norm,
            terminal_reward=self._map.apply(0.0),
            features_name=named,
        )
        self.name = env_name(self._env) + self._map.suffix

    @property
    def dimension(self) -> int:
        return self.public.dimension

    @property
    def rewards(self) -> RewardMap:
        """How rewards are mapped to [0, 1]."""
        return self._map

    @property
    def chunk(self) -> int:
        """How many users to sample at a time, so that their features stay below 64 MB."""
        return max(1, 2**23 // ((self.horizon + 1) * self.actions * self.dimension))

    def sample(
        self, policy: ActsOnFeatures | FeaturePolicy, users: int, rng: np.random.Generator
    ) -> Trajectories:
        """Independent episodes of `users` users under one policy, one after the other."""
        if isinstance(policy, TabularPolicy | StochasticPolicy | LinearPolicy):
            raise InvalidParameter(
                f"a step-by-step problem needs a policy that acts on features, got {type(policy).__name__}"
            )
        choose = policy.choose if isinstance(policy, FeaturePolicy) else policy.act
        states = np.zeros((users, self.horizon + 1, self.actions, self.dimension))
        actions, rewards = (
            np.zeros((users, self.horizon), dtype=np.int32),
            np.full((users, self.horizon), self.public.terminal_reward),
        )
        for i in range(users):
            seed = int(rng.integers(2**31))
            # Draws of a learned policy are the user's own, so that no user changes those of another.
            draws = np.random.default_rng(seed) if isinstance(policy, FeaturePolicy) else rng
            states[i, 0] = self.public.rows(self._env.reset(seed=seed)[0])
            for h in range(self.horizon):
                usable = bool(np.isfinite(states[i, h]).all())
                actions[i, h] = (
                    choose(h, states[i, h], draws) if usable else draws.integers(self.actions)
                )
                observation, reward, terminated, truncated, _ = self._env.step(
                    self._first + int(actions[i, h])
                )
                rewards[i, h] = mapped_reward(self.name, self._map, reward)
                if terminated or truncated:
                    break
                states[i, h + 1] = self.public.rows(observation)
            if not np.isfinite(states[i]).all():
                states[i] = np.nan
        return Trajectories(states, actions, rewards)

    def own_returns(self, users: Trajectories) -> Array:
        """The sums of the environment's own rewards [user]."""
        width = self._map.high - self._map.low
        returns: Array = (self._map.low + width * users.rewards).sum(axis=1)
        return returns

    def act(
        self, policy: FeaturePolicy, step: int, observation: Any, rng: np.random.Generator
    ) -> int:
        """The action of the environment that a learned policy takes, `step` steps after the reset, where it sees this observation."""
        return self._first + policy.choose(step, self.public.rows(observation), rng)


def made_env(env: Env | str, options: dict[str, Any]) -> Env:
    if not isinstance(env, str):
        kind("env", env, gymnasium.Env, expected="a Gymnasium environment, or the name of one")
        if options:
            raise InvalidParameter(
                f"options are for environments given by name, got {', '.join(options)}"
            )
        return env
    try:
        return gymnasium.make(env, **options)
    except (gymnasium.error.Error, ImportError, AttributeError, TypeError, ValueError) as error:
        raise InvalidParameter(f"Gymnasium cannot make {env!r}: {error}") from None


def env_name(env: Env) -> str:
    return f"gym:{env.spec.id if env.spec else type(env.unwrapped).__name__}"


def has_table(env: Env) -> bool:
    """Whether the environment carries its dynamics, in the states and actions that one who plays it sees."""
    bare, outer = env.unwrapped, env
    while outer is not bare:
        if type(outer) not in _HARMLESS:
            return False
        outer = outer.env  # type: ignore[attr-defined]
    return _carries_table(bare)


def _carries_table(bare: Any) -> bool:
    return hasattr(bare, "P") and hasattr(bare, "initial_state_distrib")


def _table(env: Env) -> tuple[Table, Array]:
    """The table and the distribution of the first state."""
    bare: Any = env.unwrapped
    if not _carries_table(bare):
        raise InvalidParameter(
            f"{type(bare).__name__} has no table P with an initial_state_distrib: play it with confide.problems.environment, or step by "
            "step through features with GymProblem"
        )
    if not has_table(env):
        raise InvalidParameter(
            f"a wrapper may change what the table of {type(bare).__name__} says: play it with confide.problems.environment"
        )
    if getattr(bare, "fickle_passenger", False):
        raise InvalidParameter(
            "a fickle passenger is not in the table P: make Taxi with fickle_passenger=False"
        )
    return bare.P, np.asarray(bare.initial_state_distrib, dtype=float)


def _outcomes(table: Table) -> list[tuple[float, int, float, bool]]:
    return [
        outcome
        for row in table.values()
        for listed in row.values()
        for outcome in listed
        if outcome[0] > 0
    ]


def _map_of(table: Table, stated: tuple[float, float] | None = None) -> RewardMap:
    outcomes = _outcomes(table)
    rewards = [float(reward) for _, _, reward, _ in outcomes]
    if any(done for *_, done in outcomes):
        rewards.append(0.0)  # the absorbing state's
    low, high = min(rewards), max(rewards)
    if stated is not None:
        mapped = stated_range(stated)
        if low < mapped.low or high > mapped.high:
            raise InvalidParameter.of(
                "reward_range",
                f"must contain all rewards, which are in [{low:g}, {high:g}], got {stated}",
            )
        return mapped
    if low >= 0 and high <= 1:
        return RewardMap(0.0, 1.0)
    return RewardMap(low, high if high > low else low + 1.0)


def stated_range(reward_range: Any) -> RewardMap:
    """From (low, high), as a user states it."""
    ends = [real("reward_range", end) for end in listed("reward_range", reward_range, object)]
    if len(ends) != 2 or not ends[0] < ends[1]:
        raise InvalidParameter.of(
            "reward_range", "must be (low, high) with low < high", got=shown(reward_range)
        )
    return RewardMap(*ends)


def check_end_reward(mapped: RewardMap, reward_range: Any) -> None:
    """Refuse a range without 0, which an episode earns when it is over."""
    if not mapped.low <= 0 <= mapped.high:
        raise InvalidParameter.of(
            "reward_range",
            f"must contain 0, which an episode earns when it is over, got {reward_range}",
        )


def mapped_reward(problem: str, mapped: RewardMap, reward: Any) -> float:
    """A reward of an environment in [0, 1]; an error if it is outside of the stated range."""
    try:
        given = float(reward)
    except (TypeError, ValueError):
        given = math.nan
    if not mapped.low <= given <= mapped.high:
        raise InvalidParameter(
            f"{problem} gave a reward that is not a number in reward_range=({mapped.low:g}, {mapped.high:g})"
        )
    return mapped.apply(given)


def env_horizon(env: Env, horizon: int | None) -> int:
    chosen = horizon if horizon is not None else env.spec.max_episode_steps if env.spec else None
    if chosen is None:
        raise InvalidParameter(
            "this environment has no time limit: give a horizon, as in --horizon 20"
        )
    return whole("horizon", chosen, at_least=1)
