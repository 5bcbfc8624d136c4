"""Environments of Gymnasium as problems, and problems as environments.

An environment becomes a problem in one of three ways:
- `from_gymnasium` reads the table of a toy-text environment, so values are exact;
- `environment` (`problems/sampled.py`) plays an environment whose observations are numbered;
- `GymProblem` plays an environment with any observations through features of them.

Names of problems are made here (`env_name`). They stand in results and in the labels of saved runs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.arguments import choice, kind, shown, whole
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
from confide.problems.reward_mapping import (
    UNCHANGED,
    RewardMap,
    check_end_reward,
    map_reward,
    read_reward_range,
)
from confide.problems.tabular import TabularMDP
from confide.problems.transitions import Transitions, sparse_rows
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
# Wrappers that change nothing of what is observed, done and earned.
_HARMLESS = (
    wrappers.TimeLimit,
    wrappers.OrderEnforcing,
    wrappers.PassiveEnvChecker,
    wrappers.RecordEpisodeStatistics,
    wrappers.RecordVideo,
    wrappers.HumanRendering,
    wrappers.RenderCollection,
)
# Gymnasium's own: P[s][a] = [(probability, next state, reward, terminated)]
Table = dict[int, dict[int, list[tuple[float, int, float, bool]]]]


def from_gymnasium(
    env: Env | str,
    horizon: int | None = None,
    *,
    rewards: str = "learned",
    reward_range: tuple[float, float] | None = None,
    **options: Any,
) -> TabularMDP:
    """The table of a toy-text environment as a problem with a fixed horizon.

    Such environments are FrozenLake-v1, Taxi-v4, CliffWalking-v1 and others. Options go to
    `gymnasium.make`. Without a horizon the environment's own time limit is taken. Episodes that
    terminate go to an absorbing state, added at the end, where the environment's reward is 0.

    Public are the numbers of states and actions, the start, that episodes can end, and the range of
    rewards. Rewards have to be learned: users get those of the environment. With `rewards="public"`
    agents know r(s, a), and users get it. This tells something of the dynamics, because rewards
    that depend on where one arrives are averaged over it. Next to the goal of FrozenLake r(s, a) is
    the probability to reach the goal, and Taxi's show which actions are illegal.

    Rewards outside [0, 1] are mapped to it by `reward_map`, or by the given `reward_range`, and the
    name says how. Every episode then lasts `horizon` steps and the map is the same at each, also in
    the absorbing state (which gets the image of 0, not 0). So all values change by one increasing
    function, and policies keep their order, whether their episodes end early or not.
    """
    choice("rewards", rewards, REWARDS)
    opened = open_environment(env, options)
    table, start = _read_table(opened)
    mapped = _reward_map_of(table, reward_range)
    is_learned = rewards == "learned"
    has_end = any(done for *_, done in _possible_outcomes(table))
    transitions, mean_rewards, outcome_rewards = _import_table(
        table, mapped, has_end=has_end, is_learned=is_learned
    )
    states = transitions.states
    # Whoever plays sees that an episode is over, so the state after the end is public.
    terminal = np.arange(states) >= len(table) if has_end else None
    return TabularMDP(
        transitions,
        mean_rewards,
        np.append(start, np.zeros(states - len(table))),
        horizon=env_horizon(opened, horizon),
        stochastic_rewards=is_learned,
        name=env_name(opened) + mapped.suffix,
        terminal=terminal,
        outcome_rewards=outcome_rewards if is_learned else None,
    )


def _import_table(
    table: Table, mapped: RewardMap, *, has_end: bool, is_learned: bool
) -> tuple[Transitions, Array, Array]:
    """Transitions, mean rewards [s, a] and the reward of each outcome, all mapped to [0, 1].

    If episodes can end, the absorbing state is the last one. Learned rewards tell apart outcomes
    that lead to the same state; public ones are averaged over them.
    """
    states = len(table)
    actions = len(table[0])
    extra_states = int(has_end)
    end_reward = mapped.apply(0.0)
    mean_rewards = np.zeros((states + extra_states, actions))
    mean_rewards[states:] = end_reward
    # For each (s, a) the probability of each outcome (next state, reward).
    rows: list[dict[tuple[int, float], float]] = []
    for state, action in np.ndindex(states, actions):
        row: dict[tuple[int, float], float] = {}
        for probability, next_state, reward, done in table[state][action]:
            mapped_reward = mapped.apply(reward)
            target = states if done else int(next_state)
            outcome = (target, mapped_reward if is_learned else 0.0)
            if probability > 0:
                row[outcome] = row.get(outcome, 0.0) + probability
            mean_rewards[state, action] += probability * mapped_reward
        rows.append(row)
    rows += [{(states, end_reward): 1.0}] * (extra_states * actions)

    indptr = np.cumsum([0, *map(len, rows)])
    targets = [target for row in rows for target, _ in row]
    probabilities = [probability for row in rows for probability in row.values()]
    transitions = sparse_rows(states + extra_states, actions, indptr, targets, probabilities)
    outcome_rewards = np.array([reward for row in rows for _, reward in row])
    # Rounding may take averages out of [0, 1].
    return transitions, np.clip(mean_rewards, 0.0, 1.0), np.clip(outcome_rewards, 0.0, 1.0)


def reward_map(env: Env | str, **options: Any) -> RewardMap:
    """The map that `from_gymnasium` applies to the rewards of this environment.

    Rewards that all lie in [0, 1] are unchanged.
    """
    table, _ = _read_table(open_environment(env, options))
    return _reward_map_of(table)


def to_gymnasium(problem: FiniteProblem | LQSystem) -> "FiniteEnv | LinearEnv":
    """A problem as an environment that terminates after the horizon.

    `info["step"]` is the step, which good policies depend on.
    """
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
    """Any environment with finitely many actions, played step by step through features.

    `features(observation)` gives an array [action, i]. This is all that a linear learner needs, for
    the action that was taken and for every action that could be taken next. It may also be
    package.module:function. Policies get the features as their state, and trajectories hold them.
    `feature_norm` is the public bound on the norm of a row; the agent clips longer rows to it.

    Rewards must be in [0, 1], or in a stated `reward_range`, which is public and contains 0, and is
    mapped to [0, 1]. The optimal value is unknown: returns are reported, and no regret.

    Shapes: states [user, h, action, i]. Once an episode is over, features are zero, the recorded
    action is 0 and each step earns the image of a reward of 0, so these steps add nothing to a
    regression. If the features of an observation cannot be computed, the action is random and all
    features of this user are NaN, so the user contributes zero. Every episode is reseeded from
    `rng`, so that a resumed run continues bit by bit the same.
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
        self._env = open_environment(env, options)
        if isinstance(features, str):
            features_name = features
            function = function_by_name("features", features)
        elif callable(features):
            features_name = name_of_function(features)
            function = features
        else:
            raise InvalidParameter.of(
                "features", "must be a function of an observation", got=shown(features)
            )
        self.horizon = env_horizon(self._env, horizon)
        space = self._env.action_space
        if not isinstance(space, spaces.Discrete):
            raise InvalidParameter(
                f"the environment must have finitely many actions, got the action space {space}"
            )
        check_time_limit(self._env, self.horizon)
        self.actions = int(space.n)
        # The environment's number of the first action.
        self._first_action = int(space.start)
        self._map = UNCHANGED if reward_range is None else read_reward_range(reward_range)
        check_end_reward(self._map, reward_range)
        rows = check_features(function, self._env.reset(seed=0)[0], self.actions)
        self.public = FeaturesPublic(
            function,
            self.horizon,
            self.actions,
            int(rows.shape[1]),
            feature_norm=feature_norm,
            terminal_reward=self._map.apply(0.0),
            features_name=features_name,
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
        numbers_per_user = (self.horizon + 1) * self.actions * self.dimension
        return max(1, 2**23 // numbers_per_user)

    def sample(
        self, policy: ActsOnFeatures | FeaturePolicy, users: int, rng: np.random.Generator
    ) -> Trajectories:
        """Independent episodes of `users` users under one policy, one after the other."""
        if isinstance(policy, TabularPolicy | StochasticPolicy | LinearPolicy):
            raise InvalidParameter(
                "a step-by-step problem needs a policy that acts on features, "
                f"got {type(policy).__name__}"
            )
        choose = policy.choose if isinstance(policy, FeaturePolicy) else policy.act
        # [user, step, action, i]
        states = np.zeros((users, self.horizon + 1, self.actions, self.dimension))
        actions = np.zeros((users, self.horizon), dtype=np.int32)
        rewards = np.full((users, self.horizon), self.public.terminal_reward)
        for user in range(users):
            seed = int(rng.integers(2**31))
            # Draws of a learned policy are the user's own, so that no user changes those of
            # another.
            draws = np.random.default_rng(seed) if isinstance(policy, FeaturePolicy) else rng
            observation = self._env.reset(seed=seed)[0]
            self._play(choose, observation, states[user], actions[user], rewards[user], draws)
            if not np.isfinite(states[user]).all():
                states[user] = np.nan
        return Trajectories(states, actions, rewards)

    def _play(
        self,
        choose: Callable[..., Any],
        observation: Any,
        states: Array,
        actions: npt.NDArray[np.int32],
        rewards: Array,
        draws: np.random.Generator,
    ) -> None:
        """Play one episode from its first observation, and fill in the rows of this user."""
        states[0] = self.public.rows(observation)
        for h in range(self.horizon):
            if np.isfinite(states[h]).all():
                actions[h] = choose(h, states[h], draws)
            else:
                actions[h] = draws.integers(self.actions)
            taken = self._first_action + int(actions[h])
            observation, reward, terminated, truncated, _ = self._env.step(taken)
            rewards[h] = map_reward(self.name, self._map, reward)
            if terminated or truncated:
                return
            states[h + 1] = self.public.rows(observation)

    def own_returns(self, users: Trajectories) -> Array:
        """The sums of the environment's own rewards [user]."""
        width = self._map.high - self._map.low
        returns: Array = (self._map.low + width * users.rewards).sum(axis=1)
        return returns

    def act(
        self, policy: FeaturePolicy, step: int, observation: Any, rng: np.random.Generator
    ) -> int:
        """The environment's action that a learned policy takes after seeing this observation.

        `step` counts the steps since the reset.
        """
        return self._first_action + policy.choose(step, self.public.rows(observation), rng)


def open_environment(env: Env | str, options: dict[str, Any]) -> Env:
    """The environment itself, or the one of this name, made with these options."""
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


def call_environment(name: str, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Call a method of somebody's own environment. Whatever goes wrong is said in one line."""
    try:
        return method(*given, **named)
    except InvalidParameter:
        raise
    except Exception as error:
        raise InvalidParameter(
            f"{name} failed in {method.__name__}(): {type(error).__name__}: {error}"
        ) from error


def env_name(env: Env) -> str:
    """The name of the problem that is made of this environment."""
    return f"gym:{env.spec.id if env.spec else type(env.unwrapped).__name__}"


def env_horizon(env: Env, horizon: int | None) -> int:
    """The horizon, if one is given, or the environment's time limit."""
    steps = horizon
    if steps is None and env.spec:
        steps = env.spec.max_episode_steps
    if steps is None:
        raise InvalidParameter(
            "this environment has no time limit: give a horizon, as in --horizon 20"
        )
    return whole("horizon", steps, at_least=1)


def check_time_limit(env: Env, horizon: int) -> None:
    """Refuse a horizon after which the environment stops by itself."""
    limit = env.spec.max_episode_steps if env.spec else None
    if limit is not None and horizon > limit:
        raise InvalidParameter.of(
            "horizon",
            f"must be at most {limit}, after which the environment stops",
            got=f"{horizon}",
        )


def has_table(env: Env) -> bool:
    """Whether the environment carries its dynamics.

    They must be in the states and actions that one who plays it sees, so no wrapper may change
    them.
    """
    inner = env.unwrapped
    layer = env
    while layer is not inner:
        if type(layer) not in _HARMLESS:
            return False
        layer = layer.env  # type: ignore[attr-defined]
    return _carries_table(inner)


def _carries_table(inner: Any) -> bool:
    return hasattr(inner, "P") and hasattr(inner, "initial_state_distrib")


def _read_table(env: Env) -> tuple[Table, Array]:
    """The table, and the distribution of the first state [s]."""
    inner: Any = env.unwrapped
    name = type(inner).__name__
    if not _carries_table(inner):
        raise InvalidParameter(
            f"{name} has no table P with an initial_state_distrib: play it with "
            "confide.problems.environment, or step by step through features with GymProblem"
        )
    if not has_table(env):
        raise InvalidParameter(
            f"a wrapper may change what the table of {name} says: "
            "play it with confide.problems.environment"
        )
    if getattr(inner, "fickle_passenger", False):
        raise InvalidParameter(
            "a fickle passenger is not in the table P: make Taxi with fickle_passenger=False"
        )
    return inner.P, np.asarray(inner.initial_state_distrib, dtype=float)


def _possible_outcomes(table: Table) -> list[tuple[float, int, float, bool]]:
    """All outcomes of all (s, a) with a positive probability."""
    return [
        outcome
        for outcomes_of_actions in table.values()
        for outcomes in outcomes_of_actions.values()
        for outcome in outcomes
        if outcome[0] > 0
    ]


def _reward_map_of(table: Table, stated: tuple[float, float] | None = None) -> RewardMap:
    """The map of the stated range, which must contain all rewards, or of the smallest range."""
    outcomes = _possible_outcomes(table)
    rewards = [float(reward) for _, _, reward, _ in outcomes]
    if any(done for *_, done in outcomes):
        # The reward of the absorbing state.
        rewards.append(0.0)
    low = min(rewards)
    high = max(rewards)
    if stated is not None:
        mapped = read_reward_range(stated)
        if low < mapped.low or high > mapped.high:
            raise InvalidParameter.of(
                "reward_range",
                f"must contain all rewards, which are in [{low:g}, {high:g}], got {stated}",
            )
        return mapped
    if low >= 0 and high <= 1:
        return UNCHANGED
    # If all rewards are equal, any width will do.
    return RewardMap(low, high if high > low else low + 1.0)
