"""Contextual linear bandits: each user comes with a context for every action, and plays one action.

What leaves this file: the values of `LinearBandit.identity` are the saved file, and identify it.
"""

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import array, check_size, generator, text, whole
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.policy import ContextPolicy, Policy, RandomPolicy
from confide.problems.saving import save_problem
from confide.problems.transitions import read_only_copy
from confide.trajectory import Trajectories

Array = npt.NDArray[np.float64]
# The centre of rewards, which are in [0, 1].
CENTRE = 0.5
# Norms and means may exceed their bounds by so much rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class LinearBanditPublic:
    """What an agent may know: how many numbers a context has, and how many actions there are.

    Contexts are the users' own.
    """

    family: ClassVar[str] = "linear bandit"
    horizon: ClassVar[int] = 1

    dimension: int
    actions: int

    def identity(self) -> Identity:
        return Identity("linear-bandit-public", 1, dimension=self.dimension, actions=self.actions)


@dataclass(frozen=True, eq=False)
class LinearBandit:
    """Users are drawn from a population, whose contexts are [user, a, i].

    Action a has reward 1 with probability 1/2 + <x_a, parameter>, else 0. An episode has one step.
    As states a trajectory has the user's contexts [user, h, a, i]; the state after the step does
    not exist, and is NaN. Values and regret are exact: averages over the population.
    """

    # In a saved file.
    kind: ClassVar[str] = "linear-bandit"
    horizon: ClassVar[int] = 1
    # Users sampled at a time, so that memory does not grow with their number.
    chunk: ClassVar[int] = 8192

    parameter: Array = field(repr=False)
    contexts: Array = field(repr=False)
    name: str = "linear-bandit"

    def __post_init__(self) -> None:
        parameter = array("parameter", self.parameter)
        contexts = array("contexts", self.contexts)
        has_shapes = parameter.ndim == 1 and contexts.ndim == 3
        if not has_shapes or contexts.shape[2] != len(parameter) or contexts.size == 0:
            raise InvalidParameter(
                "contexts must have shape (users, actions, dimension) and parameter (dimension,), "
                f"got {contexts.shape} and {parameter.shape}"
            )
        norms = np.linalg.norm(contexts, axis=2)
        is_too_long = ~(norms <= 1 + _ROUNDING)
        if is_too_long.any():
            n, a = np.argwhere(is_too_long)[0]
            raise InvalidParameter(
                f"contexts[user={n}, a={a}] must have norm at most 1, got {norms[n, a]:.4g}"
            )
        means = np.abs(contexts @ parameter)
        is_too_large = ~(means <= CENTRE + _ROUNDING)
        if is_too_large.any():
            n, a = np.argwhere(is_too_large)[0]
            raise InvalidParameter(
                f"|<contexts[user={n}, a={a}], parameter>| must be at most 1/2, "
                f"got {means[n, a]:.4g}"
            )
        text("name", self.name)
        object.__setattr__(self, "parameter", read_only_copy(parameter))
        object.__setattr__(self, "contexts", read_only_copy(np.ascontiguousarray(contexts)))

    def identity(self) -> Identity:
        """Everything that it is, by the names in its file."""
        return Identity(
            self.kind,
            1,
            parameter=self.parameter,
            contexts=self.contexts,
            name=self.name,
        )

    @property
    def actions(self) -> int:
        return int(self.contexts.shape[1])

    @property
    def dimension(self) -> int:
        return len(self.parameter)

    @property
    def public(self) -> LinearBanditPublic:
        return LinearBanditPublic(self.dimension, self.actions)

    @cached_property
    def _means(self) -> Array:
        """Expected rewards [user, a]."""
        means: Array = np.clip(CENTRE + self.contexts @ self.parameter, 0.0, 1.0)
        return means

    @property
    def optimal_policy(self) -> ContextPolicy:
        return ContextPolicy(self.parameter)

    @cached_property
    def optimal_value(self) -> float:
        """The largest expected reward: every user gets the best of its own actions."""
        return float(self._means.max(axis=1).mean())

    @cached_property
    def uniform_value(self) -> float:
        """The value of playing at random: the other end of the scale."""
        return float(self._means.mean())

    def value(self, policy: Policy) -> float:
        """The exact expected reward of a policy."""
        policy = self._fitting(policy)
        if isinstance(policy, RandomPolicy):
            return self.uniform_value
        played = policy.choose(self.contexts)
        return float(np.take_along_axis(self._means, played[:, None], axis=1).mean())

    def sample(self, policy: Policy, users: int, rng: np.random.Generator) -> Trajectories:
        """Independent users under one policy, with their contexts."""
        policy = self._fitting(policy)
        check_size(
            users=whole("users", users, at_least=0),
            steps=2,
            actions=self.actions,
            dimension=self.dimension,
        )
        who = generator("rng", rng).integers(len(self.contexts), size=users)
        states = np.full((users, 2, self.actions, self.dimension), np.nan)
        states[:, 0] = self.contexts[who]
        if isinstance(policy, RandomPolicy):
            played = rng.integers(self.actions, size=users)
        else:
            played = policy.choose(states[:, 0])
        rewards = (rng.random(users) < self._means[who, played]).astype(float)
        return Trajectories(states, played[:, None], rewards[:, None])

    def save(self, path: str | Path) -> None:
        """Write one file, which `load_problem` and the command line open again."""
        save_problem(self, path)

    def _fitting(self, policy: Policy) -> ContextPolicy | RandomPolicy:
        if isinstance(policy, ContextPolicy) and policy.weights.shape == self.parameter.shape:
            return policy
        if isinstance(policy, RandomPolicy) and policy.choices == self.actions:
            return policy
        raise InvalidParameter(
            f"a linear bandit needs a ContextPolicy with {self.dimension} weights"
        )
