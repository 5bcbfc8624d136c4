"""Reference agents: uniform play, the optimal policy, and planning without data."""

from typing import Any, Protocol

import numpy as np

from confide.arguments import has, kind, private_kind, whole
from confide.errors import InvalidParameter, StateError
from confide.learning.agent import Abilities, Batch, Profile
from confide.planners.backward_induction import optimal
from confide.policy import LinearPolicy, Policy, RandomPolicy, uniform_policy
from confide.privacy.guarantee import no_guarantee
from confide.problems.problem import Problem
from confide.trajectory import Trajectories, TransitionCounts


class _FixedPolicy:
    """Serves everybody by one policy.

    It learns nothing, so it reveals nothing. It states no guarantee either.
    """

    abilities = Abilities(counts=True, ignores_data=True, saves=True)

    def __init__(self, policy: Policy, episodes: int, name: str) -> None:
        whole("episodes", episodes, at_least=1)
        self.episodes = episodes
        self.name = name
        self.guarantee = no_guarantee(episodes)
        self._policy = policy
        self._users_left = episodes

    def next_batch(self) -> Batch:
        return Batch(self._policy, self._users_left)

    def observe(self, users: Trajectories | TransitionCounts) -> None:
        self._users_left -= private_kind("users", users, Trajectories, TransitionCounts).users

    def save(self) -> bytes:
        return str(self._users_left).encode()

    def restore(self, data: bytes) -> None:
        left = kind("data", data, bytes)
        if not left.isdigit():
            raise StateError("this is not the state of an agent with a fixed policy")
        self._users_left = int(left)


class Uniform(_FixedPolicy):
    """Plays every action with the same probability. In a linear system it does nothing."""

    profile = Profile("plays uniformly random actions (linear control: zero input)")

    def __init__(self, public: Any, *, episodes: int) -> None:
        if hasattr(public, "inputs"):
            policy: Policy = LinearPolicy(np.zeros((public.horizon, public.inputs, public.states)))
        elif not hasattr(public, "states"):
            # A world that is played step by step.
            has("public", public, ("actions",), "what agents know of a problem: problem.public")
            policy = RandomPolicy(public.actions)
        else:
            policy = uniform_policy(public.horizon, public.states, public.actions)
        super().__init__(policy, episodes, "uniform")


class SolvedProblem(Problem, Protocol):
    """A problem whose optimal policy is known."""

    @property
    def optimal_policy(self) -> Policy: ...


class Oracle(_FixedPolicy):
    """Plays the optimal policy. It is made from the problem itself, not from its public part."""

    profile = Profile("plays the optimal policy", knows_truth=True)

    def __init__(self, problem: SolvedProblem, *, episodes: int) -> None:
        has("problem", problem, ("optimal_policy",), "a problem whose optimal policy is known")
        super().__init__(problem.optimal_policy, episodes, "oracle")


class NoData(_FixedPolicy):
    """Plans as if all kernels had the same weight, and never looks at anybody's data."""

    profile = Profile(
        "plans with equal weights of all kernels, without data",
        family="mixture",
        known_rewards=True,
        kernels=True,
    )

    def __init__(self, public: Any, *, episodes: int) -> None:
        if not hasattr(public, "kernels") or public.rewards is None:
            raise InvalidParameter(
                "planning without data needs known kernels and known rewards: a LinearMixtureMDP"
            )
        average = public.kernels.mean(axis=0)
        _, policy = optimal(lambda _, values: average @ values, public.rewards)
        super().__init__(policy, episodes, "no-data")
