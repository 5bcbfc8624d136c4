"""Gymnasium environments with finitely many states and actions, of which nothing is known: they are only played."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from confide.arguments import array, check_size, generator, listed, whole
from confide.errors import InvalidParameter
from confide.policy import FinitePolicy, Policy
from confide.problems.finite import fitting
from confide.problems.gym import (
    Env,
    ObservationWrapper,
    RewardMap,
    check_end_reward,
    env_horizon,
    env_name,
    made_env,
    mapped_reward,
    spaces,
    stated_range,
    vector,
)
from confide.problems.tabular import TabularPublic, check_start
from confide.trajectory import Trajectories

Array = npt.NDArray[np.float64]
Vector = vector.VectorEnv[Any, Any, Any]


def environment(
    env: Env | Vector | str,
    horizon: int | None = None,
    *,
    reward_range: tuple[float, float],
    states: int | None = None,
    actions: int | None = None,
    start: npt.ArrayLike | None = None,
    **options: Any,
) -> "SampledProblem":
    """Any environment with finitely many observations and actions as a problem; nothing of its dynamics is known, or looked at.

    `env` is an environment, a vectorised one (its copies play different users at the same time), or a name, with options for
    `gymnasium.make`. Observations and actions are numbered as their spaces say: Discrete, MultiDiscrete, MultiBinary, or a Tuple of these.
    `states` is for spaces that do not say how many there are, with observations 0..states - 1; `binned` numbers vectors. An observation
    must be all of the state: what follows may depend on it and on the action alone.

    Episodes are cut off after `horizon` steps; without one the environment's own time limit is taken. Rewards in the stated `reward_range`,
    which is public and contains 0, are mapped to [0, 1]; one outside is an error. Whoever ends early stays in an absorbing state, where
    each step earns the image of 0: see `from_gymnasium`.

    Where episodes start has to be learned, too, unless `start` [s] is given: they then begin one step before, in a state of its own,
    where all actions do the same.
    """
    return SampledProblem(
        env,
        horizon,
        reward_range=reward_range,
        states=states,
        actions=actions,
        start=start,
        **options,
    )


@dataclass(frozen=True, slots=True)
class SpaceNumbers:
    """The states and actions of an environment by number, as its spaces say."""

    observation_space: Any
    action_space: Any
    observed: tuple[int, ...]
    played: tuple[int, ...]
    name: str

    @classmethod
    def of(
        cls,
        observation_space: Any,
        action_space: Any,
        states: int | None,
        name: str,
        *,
        expected_actions: int | None = None,
    ) -> "SpaceNumbers":
        observed = _sizes("observation", observation_space, states)
        played = _sizes("action", action_space, expected_actions)
        return cls(observation_space, action_space, observed, played, name)

    @property
    def states(self) -> int:
        return math.prod(self.observed)

    @property
    def actions(self) -> int:
        return math.prod(self.played)

    def state(self, observation: Any) -> int:
        """The number of the state that is observed."""
        parts = _parts(observation, self.observation_space)
        if len(parts) != len(self.observed) or not all(
            0 <= p < n for p, n in zip(parts, self.observed, strict=True)
        ):
            raise InvalidParameter(
                f"{self.name} gave an observation that is none of its {self.states} states"
            )
        return parts[0] if len(parts) == 1 else int(np.ravel_multi_index(parts, self.observed))

    def action(self, number: int) -> Any:
        """The action of the environment."""
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return number + int(space.start)
        parts = np.array(np.unravel_index(number, self.played))
        return tuple(map(int, parts)) if isinstance(space, spaces.Tuple) else parts


class SampledProblem:
    """Made by `environment`. Values are unknown: runs report the returns of users, and no regret.

    States are the observations 0..S-1, then S: the episode is over, then S + 1, where no `start` is given: it has not begun. Every episode
    is reseeded from `rng`: a resumed run goes on bit by bit the same.
    """

    optimal_value = None
    uniform_value = None

    def __init__(
        self,
        env: Env | Vector | str,
        horizon: int | None = None,
        *,
        reward_range: tuple[float, float],
        states: int | None = None,
        actions: int | None = None,
        start: npt.ArrayLike | None = None,
        **options: Any,
    ) -> None:
        self._many = isinstance(env, vector.VectorEnv) and not options
        self._env = cast("Any", env if self._many else made_env(cast("Env", env), options))
        prefix = "single_" if self._many else ""
        numbers = SpaceNumbers.of(
            getattr(self._env, f"{prefix}observation_space"),
            getattr(self._env, f"{prefix}action_space"),
            states,
            env_name(self._env),
            expected_actions=actions,
        )
        self._map = stated_range(reward_range)
        check_end_reward(self._map, reward_range)
        if self._many and self._env.metadata.get("autoreset_mode") == vector.AutoresetMode.DISABLED:
            raise InvalidParameter(
                "the copies of a vectorised environment must reset themselves: choose another autoreset_mode"
            )
        steps, spec = env_horizon(self._env, horizon), self._env.spec
        limit = spec.max_episode_steps if spec else None
        if limit is not None and steps > limit:
            raise InvalidParameter.of(
                "horizon",
                f"must be at most {limit}, after which the environment stops",
                got=f"{steps}",
            )
        chosen = (
            f"({', '.join(f'{key}={value}' for key, value in sorted(options.items()))})"
            if options
            else ""
        )
        self.name = env_name(self._env) + chosen + self._map.suffix
        self._numbers = replace(numbers, name=self.name)
        self._ended, self.actions = numbers.states, numbers.actions
        self._begun = start is not None
        self.states, self.horizon = self._ended + 2 - self._begun, steps + 1 - self._begun
        check_size(horizon=self.horizon, states=self.states, actions=self.actions)
        begins = np.zeros(self.states)
        begins[-1] = 1.0
        if start is not None:
            begins[: self._ended], begins[-1] = check_start(start, self._ended), 0.0
        ends = np.arange(self.states) == self._ended
        self.public = TabularPublic(
            self.horizon,
            self.states,
            self.actions,
            None,
            begins,
            terminal=ends,
            terminal_reward=self.rewards.apply(0.0),
        )

    @property
    def rewards(self) -> RewardMap:
        """How rewards are mapped to [0, 1]."""
        return self._map

    @property
    def chunk(self) -> int:
        """How many users to sample at a time."""
        return max(1, 2**22 // (self.horizon + 1))

    def sample(self, policy: Policy, users: int, rng: np.random.Generator) -> Trajectories:
        """Episodes of `users` users under one policy."""
        chosen = fitting(policy, self.horizon, self.states, self.actions)
        whole("users", users, at_least=0), generator("rng", rng)
        H = self.horizon
        states = np.full((users, H + 1), self._ended, dtype=np.int32)
        actions, rewards = (
            np.zeros((users, H), dtype=np.int32),
            np.full((users, H), self.rewards.apply(0.0)),
        )
        if not self._begun:
            states[:, 0], rewards[:, 0] = self._ended + 1, 0.0
            actions[:, 0] = [chosen.act(0, self._ended + 1, rng) for _ in range(users)]
        width = self._env.num_envs if self._many else 1
        for first in range(0, users, width):
            rows = slice(first, min(first + width, users))
            (self._play_many if self._many else self._play)(
                chosen, states[rows], actions[rows], rewards[rows], rng
            )
        return Trajectories(states, actions, rewards)

    def act(self, policy: Policy, step: int, observation: Any, rng: np.random.Generator) -> Any:
        """The action of the environment that a learned policy takes, `step` steps after the reset, where it sees this observation."""
        chosen = fitting(policy, self.horizon, self.states, self.actions)
        generator("rng", rng)
        if whole("step", step, at_least=0) >= self._steps:
            raise InvalidParameter.of(
                "step", f"must be below the horizon, which is {self._steps}", got=f"{step}"
            )
        return self._action(
            chosen.act(self.horizon - self._steps + step, self._number(observation), rng)
        )

    def _play(
        self,
        policy: FinitePolicy,
        states: Any,
        actions: Any,
        rewards: Array,
        rng: np.random.Generator,
    ) -> None:
        """One user."""
        first = self.horizon - self._steps
        now = self._number(called(self.name, self._env.reset, seed=int(rng.integers(2**31)))[0])
        for h in range(first, self.horizon):
            states[0, h] = now
            actions[0, h] = chosen = policy.act(h, now, rng)
            observation, reward, terminated, truncated, _ = called(
                self.name, self._env.step, self._action(chosen)
            )
            rewards[0, h] = mapped_reward(self.name, self._map, reward)
            if self._over(h, terminated, truncated):
                return
            now = self._number(observation)
        states[0, self.horizon] = now

    def _play_many(
        self,
        policy: FinitePolicy,
        states: Any,
        actions: Any,
        rewards: Array,
        rng: np.random.Generator,
    ) -> None:
        """A user for each copy; copies without a user, or whose episode is over, play on, and nobody looks."""
        n, users = self._env.num_envs, len(states)
        seeds = [int(seed) for seed in rng.integers(2**31, size=n)]
        observations = called(self.name, self._env.reset, seed=seeds)[0]
        alive = list(range(users))
        # what copies showed last that are reset in the step in which they are cut off
        cut: dict[int, Any] = {}
        for h in range(self.horizon - self._steps, self.horizon + 1):
            now = list(vector.utils.iterate(self._env.observation_space, observations))
            for i in alive:
                states[i, h] = self._number(cut.get(i, now[i]))
            if h == self.horizon or not alive:
                return
            for i in alive:
                actions[i, h] = policy.act(h, int(states[i, h]), rng)
            taken = [self._action(int(actions[i, h]) if i < users else 0) for i in range(n)]
            observations, earned, terminated, truncated, info = called(
                self.name, self._env.step, np.stack(taken)
            )
            for i in alive:
                rewards[i, h] = mapped_reward(self.name, self._map, earned[i])
            alive = [i for i in alive if not self._over(h, terminated[i], truncated[i])]
            final = info.get("final_obs")
            cut = {} if final is None else {i: final[i] for i in alive if truncated[i]}

    def _over(self, step: int, terminated: Any, truncated: Any) -> bool:
        """A time limit at the horizon ends no episode: where it cuts one off something would have followed."""
        return bool(terminated or (truncated and step < self.horizon - 1))

    @property
    def _steps(self) -> int:
        """That the environment plays."""
        return self.horizon - (not self._begun)

    def _number(self, observation: Any) -> int:
        """Of the state that is observed."""
        return self._numbers.state(observation)

    def _action(self, number: int) -> Any:
        return self._numbers.action(number)

    def own_returns(self, users: Trajectories) -> Array:
        """The sums of the environment's own rewards [user]."""
        width = self._map.high - self._map.low
        earned = users.rewards[:, self.horizon - self._steps :]
        returns: Array = (self._map.low + width * earned).sum(axis=1)
        return returns


def binned(env: Env | str, bins: Sequence[npt.ArrayLike], **options: Any) -> Env:
    """An environment whose vectors of observations are numbered by public bins, for `environment`.

    `bins` has one array of increasing edges per dimension: k edges make k + 1 bins, below the first and above the last one included; no
    edge leaves the dimension out. The edges are public: choose them from what is known of the domain, never from users' data.
    """
    return _Binned(made_env(env, options), bins)


class _Binned(ObservationWrapper[Any, Any, Any]):
    def __init__(self, env: Env, bins: Sequence[npt.ArrayLike]) -> None:
        super().__init__(env)
        space = env.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 1:
            raise InvalidParameter(
                f"only vectors of numbers can be binned, got the observation space {space}"
            )
        self.edges = [array("bins", edges, ndim=1) for edges in listed("bins", bins, object)]
        if len(self.edges) != space.shape[0]:
            raise InvalidParameter.of(
                "bins",
                f"must have edges for each of {space.shape[0]} dimensions, got {len(self.edges)}",
            )
        if any((np.diff(edges) <= 0).any() for edges in self.edges):
            raise InvalidParameter.of("bins", "must be increasing edges")
        self.sizes = tuple(len(edges) + 1 for edges in self.edges)
        check_size(**{f"bins[{i}]": size for i, size in enumerate(self.sizes)})
        self.observation_space = spaces.Discrete(math.prod(self.sizes))

    def observation(self, observation: Any) -> int:
        if np.isnan(observation).any():
            raise InvalidParameter("an observation that is not a number is in no bin")
        parts = [
            int(np.searchsorted(edges, x, side="right"))
            for edges, x in zip(self.edges, observation, strict=True)
        ]
        return int(np.ravel_multi_index(parts, self.sizes))


def _sizes(what: str, space: Any, stated: int | None) -> tuple[int, ...]:
    """How many values each part of an observation or an action has."""
    if stated is not None:
        whole(f"{what}s" if what == "action" else "states", stated, at_least=1)
    found = _counted(space)
    if found is None:
        if stated is not None and what == "observation":
            return (stated,)
        raise InvalidParameter(
            f"the {what}s must be numbered, but the {what} space is {space}{_hint(what, space)}"
        )
    if stated is not None and stated != math.prod(found):
        raise InvalidParameter(
            f"the {what} space {space} has {math.prod(found)} elements, not {stated}"
        )
    return found


def _hint(what: str, space: Any) -> str:
    if what == "action":
        return "; gymnasium.wrappers.TransformAction(env, function, gymnasium.spaces.Discrete(n)) numbers them"
    if isinstance(space, spaces.Box) and len(space.shape) == 1:
        return "; confide.problems.binned(env, bins=[...]) numbers vectors"
    return "; gymnasium.wrappers.TransformObservation(env, function, gymnasium.spaces.Discrete(n)) numbers them"


def _counted(space: Any) -> tuple[int, ...] | None:
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete) and not np.any(space.start):
        return tuple(int(n) for n in space.nvec.ravel())
    if isinstance(space, spaces.MultiBinary):
        return (2,) * math.prod(space.shape)
    if isinstance(space, spaces.Tuple) and all(
        isinstance(part, spaces.Discrete) and part.start == 0 for part in space.spaces
    ):
        return tuple(int(part.n) for part in space.spaces)  # type: ignore[attr-defined]
    return None


def _parts(observation: Any, space: Any) -> list[int]:
    """As whole numbers; none of them where it is something else."""
    first = int(space.start) if isinstance(space, spaces.Discrete) else 0
    try:
        found = np.asarray(observation).ravel()
        return [int(x) - first for x in found] if found.dtype.kind in "biu" else []
    except (TypeError, ValueError):
        return []


def called(name: str, method: Callable[..., Any], *given: Any, **named: Any) -> Any:
    """Whatever goes wrong in somebody's own environment is said in one line."""
    try:
        return method(*given, **named)
    except InvalidParameter:
        raise
    except Exception as error:
        raise InvalidParameter(
            f"{name} failed in {method.__name__}(): {type(error).__name__}: {error}"
        ) from error
