"""Environments with finitely many observations and actions, of which nothing is known but that.

They are played, and nobody looks at their dynamics. No file leaves here. The name of a problem
stands in results and in the labels of saved runs.
"""

import math
from collections.abc import Sequence
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
    call_environment,
    check_time_limit,
    env_horizon,
    env_name,
    open_environment,
    spaces,
    vector,
)
from confide.problems.reward_mapping import (
    RewardMap,
    check_end_reward,
    map_reward,
    read_reward_range,
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
    """Any environment with finitely many observations and actions as a problem.

    Nothing of its dynamics is known, or looked at. `env` is an environment, a vectorised one (its
    copies play different users at the same time), or a name, with options for `gymnasium.make`.
    Observations and actions are numbered as their spaces say: Discrete, MultiDiscrete, MultiBinary,
    or a Tuple of these. `states` is for spaces that do not say how many there are, with
    observations 0..states - 1; `binned` numbers vectors. An observation must be all of the state:
    what follows may depend on it and on the action alone.

    Episodes are cut off after `horizon` steps; without one the environment's own time limit is
    taken. Rewards in the stated `reward_range`, which is public and contains 0, are mapped to
    [0, 1]; one outside is an error. An episode that ends early stays in an absorbing state, where
    each step earns the image of 0: see `from_gymnasium`.

    Where episodes start has to be learned, too, unless `start` [s] is given. Episodes then begin
    one step before, in a state of its own, where all actions do the same.
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
    """The states and actions of an environment by number, as its spaces say.

    `observation_sizes` and `action_sizes` say how many values each part of an observation or an
    action has. `name` is for errors.
    """

    observation_space: Any
    action_space: Any
    observation_sizes: tuple[int, ...]
    action_sizes: tuple[int, ...]
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
        observation_sizes = _sizes("observation", observation_space, states)
        action_sizes = _sizes("action", action_space, expected_actions)
        return cls(observation_space, action_space, observation_sizes, action_sizes, name)

    @property
    def states(self) -> int:
        return math.prod(self.observation_sizes)

    @property
    def actions(self) -> int:
        return math.prod(self.action_sizes)

    def state(self, observation: Any) -> int:
        """The number of the state that is observed."""
        parts = _parts(observation, self.observation_space)
        sizes = self.observation_sizes
        is_valid = len(parts) == len(sizes) and all(
            0 <= part < size for part, size in zip(parts, sizes, strict=True)
        )
        if not is_valid:
            raise InvalidParameter(
                f"{self.name} gave an observation that is none of its {self.states} states"
            )
        return parts[0] if len(parts) == 1 else int(np.ravel_multi_index(parts, sizes))

    def action(self, number: int) -> Any:
        """The action of the environment with this number."""
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return number + int(space.start)
        parts = np.array(np.unravel_index(number, self.action_sizes))
        return tuple(map(int, parts)) if isinstance(space, spaces.Tuple) else parts


class SampledProblem:
    """A problem made by `environment`. Its values are unknown: runs report returns, and no regret.

    States are the observations 0..S-1, then S for an episode that is over, and, where no `start` is
    given, S + 1 for an episode that has not begun. Every episode is reseeded from `rng`, so that a
    resumed run continues bit by bit the same.
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
        self._is_vectorised = isinstance(env, vector.VectorEnv) and not options
        opened = env if self._is_vectorised else open_environment(cast("Env", env), options)
        self._env = cast("Any", opened)
        # The spaces of one copy of a vectorised environment.
        prefix = "single_" if self._is_vectorised else ""
        numbers = SpaceNumbers.of(
            getattr(self._env, f"{prefix}observation_space"),
            getattr(self._env, f"{prefix}action_space"),
            states,
            env_name(self._env),
            expected_actions=actions,
        )
        self._map = read_reward_range(reward_range)
        check_end_reward(self._map, reward_range)
        self._check_autoreset()
        self._env_steps = env_horizon(self._env, horizon)
        check_time_limit(self._env, self._env_steps)
        pairs = ", ".join(f"{key}={value}" for key, value in sorted(options.items()))
        written_options = f"({pairs})" if options else ""
        self.name = env_name(self._env) + written_options + self._map.suffix
        self._numbers = replace(numbers, name=self.name)

        self.actions = numbers.actions
        # The state of an episode that is over, and the one before the start, if there is one.
        self._end_state = numbers.states
        self._before_start = None if start is not None else numbers.states + 1
        extra_states = 1 if start is not None else 2
        extra_steps = 0 if start is not None else 1
        self.states = numbers.states + extra_states
        self.horizon = self._env_steps + extra_steps
        check_size(horizon=self.horizon, states=self.states, actions=self.actions)
        start_probabilities = np.zeros(self.states)
        if start is None:
            start_probabilities[-1] = 1.0
        else:
            start_probabilities[: self._end_state] = check_start(start, self._end_state)
        self.public = TabularPublic(
            self.horizon,
            self.states,
            self.actions,
            None,
            start_probabilities,
            terminal=np.arange(self.states) == self._end_state,
            terminal_reward=self.rewards.apply(0.0),
        )

    def _check_autoreset(self) -> None:
        """Copies of a vectorised environment must begin a new episode by themselves."""
        if not self._is_vectorised:
            return
        if self._env.metadata.get("autoreset_mode") == vector.AutoresetMode.DISABLED:
            raise InvalidParameter(
                "the copies of a vectorised environment must reset themselves: "
                "choose another autoreset_mode"
            )

    @property
    def rewards(self) -> RewardMap:
        """How rewards are mapped to [0, 1]."""
        return self._map

    @property
    def chunk(self) -> int:
        """How many users to sample at a time, so that they take some 64 MB."""
        return max(1, 2**22 // (self.horizon + 1))

    def sample(self, policy: Policy, users: int, rng: np.random.Generator) -> Trajectories:
        """Independent episodes of `users` users under one policy."""
        checked_policy = fitting(policy, self.horizon, self.states, self.actions)
        whole("users", users, at_least=0)
        generator("rng", rng)
        # [user, step]; after the end of an episode nothing changes.
        states = np.full((users, self.horizon + 1), self._end_state, dtype=np.int32)
        actions = np.zeros((users, self.horizon), dtype=np.int32)
        rewards = np.full((users, self.horizon), self.rewards.apply(0.0))
        if self._before_start is not None:
            states[:, 0] = self._before_start
            rewards[:, 0] = 0.0
            actions[:, 0] = [checked_policy.act(0, self._before_start, rng) for _ in range(users)]
        play = self._play_copies if self._is_vectorised else self._play_one
        # How many users are played at the same time.
        width = self._env.num_envs if self._is_vectorised else 1
        for first in range(0, users, width):
            rows = slice(first, min(first + width, users))
            play(checked_policy, states[rows], actions[rows], rewards[rows], rng)
        return Trajectories(states, actions, rewards)

    def act(self, policy: Policy, step: int, observation: Any, rng: np.random.Generator) -> Any:
        """The environment's action that a learned policy takes after seeing this observation.

        `step` counts the steps since the reset.
        """
        checked_policy = fitting(policy, self.horizon, self.states, self.actions)
        generator("rng", rng)
        if whole("step", step, at_least=0) >= self._env_steps:
            raise InvalidParameter.of(
                "step", f"must be below the horizon, which is {self._env_steps}", got=f"{step}"
            )
        state = self._numbers.state(observation)
        number = checked_policy.act(self._first_step + step, state, rng)
        return self._numbers.action(number)

    def _play_one(
        self,
        policy: FinitePolicy,
        states: Any,
        actions: Any,
        rewards: Array,
        rng: np.random.Generator,
    ) -> None:
        """Play the episode of one user, and fill in the only row of each array."""
        seed = int(rng.integers(2**31))
        observation = call_environment(self.name, self._env.reset, seed=seed)[0]
        state = self._numbers.state(observation)
        for h in range(self._first_step, self.horizon):
            states[0, h] = state
            actions[0, h] = policy.act(h, state, rng)
            taken = self._numbers.action(int(actions[0, h]))
            observation, reward, terminated, truncated, _ = call_environment(
                self.name, self._env.step, taken
            )
            rewards[0, h] = map_reward(self.name, self._map, reward)
            if self._is_over(h, terminated, truncated):
                return
            state = self._numbers.state(observation)
        states[0, self.horizon] = state

    def _play_copies(
        self,
        policy: FinitePolicy,
        states: Any,
        actions: Any,
        rewards: Array,
        rng: np.random.Generator,
    ) -> None:
        """Play a user on each copy, and fill in the rows of these users.

        Copies without a user, or whose episode is over, play on, and nobody looks.
        """
        copies = self._env.num_envs
        users = len(states)
        seeds = [int(seed) for seed in rng.integers(2**31, size=copies)]
        observations = call_environment(self.name, self._env.reset, seed=seeds)[0]
        playing = list(range(users))
        # The last observations of copies that were reset in the step in which they were cut off.
        last_observations: dict[int, Any] = {}
        for h in range(self._first_step, self.horizon + 1):
            current = list(vector.utils.iterate(self._env.observation_space, observations))
            for user in playing:
                observation = last_observations.get(user, current[user])
                states[user, h] = self._numbers.state(observation)
            if h == self.horizon or not playing:
                return
            for user in playing:
                actions[user, h] = policy.act(h, int(states[user, h]), rng)
            numbers = [int(actions[copy, h]) if copy < users else 0 for copy in range(copies)]
            taken = np.stack([self._numbers.action(number) for number in numbers])
            observations, step_rewards, terminated, truncated, info = call_environment(
                self.name, self._env.step, taken
            )
            for user in playing:
                rewards[user, h] = map_reward(self.name, self._map, step_rewards[user])
            playing = [
                user for user in playing if not self._is_over(h, terminated[user], truncated[user])
            ]
            final = info.get("final_obs")
            last_observations = {}
            if final is not None:
                last_observations = {user: final[user] for user in playing if truncated[user]}

    def _is_over(self, step: int, terminated: Any, truncated: Any) -> bool:
        """Whether an episode has ended.

        A time limit at the horizon ends no episode, because something would have followed.
        """
        return bool(terminated or (truncated and step < self.horizon - 1))

    @property
    def _first_step(self) -> int:
        """The first step that the environment plays."""
        return self.horizon - self._env_steps

    def own_returns(self, users: Trajectories) -> Array:
        """The sums of the environment's own rewards [user]."""
        width = self._map.high - self._map.low
        played = users.rewards[:, self._first_step :]
        returns: Array = (self._map.low + width * played).sum(axis=1)
        return returns


def binned(env: Env | str, bins: Sequence[npt.ArrayLike], **options: Any) -> Env:
    """An environment whose vectors of observations are numbered by public bins.

    `bins` has one array of increasing edges per dimension. k edges make k + 1 bins, with those
    below the first and above the last edge; no edge leaves the dimension out. The edges are public:
    choose them from what is known of the domain, never from users' data.
    """
    return _BinnedObservations(open_environment(env, options), bins)


class _BinnedObservations(ObservationWrapper[Any, Any, Any]):
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
            int(np.searchsorted(edges, number, side="right"))
            for edges, number in zip(self.edges, observation, strict=True)
        ]
        return int(np.ravel_multi_index(parts, self.sizes))


def _sizes(what: str, space: Any, stated: int | None) -> tuple[int, ...]:
    """How many values each part of an observation or an action has.

    `what` is observation or action. `stated` is the total, if the user states it.
    """
    if stated is not None:
        whole("actions" if what == "action" else "states", stated, at_least=1)
    sizes = _sizes_of_space(space)
    if sizes is None:
        if stated is not None and what == "observation":
            return (stated,)
        raise InvalidParameter(
            f"the {what}s must be numbered, but the {what} space is {space}{_hint(what, space)}"
        )
    if stated is not None and stated != math.prod(sizes):
        raise InvalidParameter(
            f"the {what} space {space} has {math.prod(sizes)} elements, not {stated}"
        )
    return sizes


def _hint(what: str, space: Any) -> str:
    """Which wrapper numbers the elements of this space."""
    is_vector = isinstance(space, spaces.Box) and len(space.shape) == 1
    if what == "observation" and is_vector:
        return "; confide.problems.binned(env, bins=[...]) numbers vectors"
    wrapper = "TransformAction" if what == "action" else "TransformObservation"
    return (
        f"; gymnasium.wrappers.{wrapper}(env, function, gymnasium.spaces.Discrete(n)) numbers them"
    )


def _sizes_of_space(space: Any) -> tuple[int, ...] | None:
    """How many values each part of an element has; None if the elements are not numbered."""
    if isinstance(space, spaces.Discrete):
        return (int(space.n),)
    if isinstance(space, spaces.MultiDiscrete) and not np.any(space.start):
        return tuple(int(size) for size in space.nvec.ravel())
    if isinstance(space, spaces.MultiBinary):
        return (2,) * math.prod(space.shape)
    if isinstance(space, spaces.Tuple) and all(
        isinstance(part, spaces.Discrete) and part.start == 0 for part in space.spaces
    ):
        return tuple(int(part.n) for part in space.spaces)  # type: ignore[attr-defined]
    return None


def _parts(observation: Any, space: Any) -> list[int]:
    """The parts of an observation as whole numbers; an empty list if it is something else."""
    first = int(space.start) if isinstance(space, spaces.Discrete) else 0
    try:
        values = np.asarray(observation).ravel()
        # Only booleans and integers are numbers of states.
        return [int(value) - first for value in values] if values.dtype.kind in "biu" else []
    except (TypeError, ValueError):
        return []
