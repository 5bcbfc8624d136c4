"""Features of observations: all that an agent may know of an environment without a table.

Here features of users' observations are computed, so the methods that return them are PRIVATE. What
leaves this file: `FeaturesPublic.identity`, which knows the function by its name alone.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import array, check_size, real, shown, text, whole
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.policy import Features, feature_rows
from confide.trajectory import Trajectories, collect

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class FeaturesPublic:
    """What an agent may know: the function of an observation, the sizes, and the norm of features.

    `features(observation)` returns a row of features for each action, [action, i]. It must depend
    on the observation alone. A function that remembers earlier calls puts one user's data into the
    features of another, and no guarantee covers that; `check_features` calls it twice.

    Rows longer than `feature_norm` are clipped to it. Once an episode is over, all its features are
    zero, and each step that is left earns `terminal_reward`. `features_name` is
    package.module:function, or empty if nobody else can import the function.
    """

    family: ClassVar[str] = "features"

    features: Features = field(repr=False)
    horizon: int
    actions: int
    dimension: int
    feature_norm: float = 1.0
    terminal_reward: float = 0.0
    features_name: str = ""

    def __post_init__(self) -> None:
        if not callable(self.features):
            raise InvalidParameter.of(
                "features", "must be a function of an observation", got=shown(self.features)
            )
        for name in ("horizon", "actions", "dimension"):
            whole(name, getattr(self, name), at_least=1)
        check_size(horizon=self.horizon, actions=self.actions, dimension=self.dimension)
        if not 1e-50 < real("feature_norm", self.feature_norm) < 1e50:
            raise InvalidParameter.of(
                "feature_norm", "must be positive and finite", got=f"{self.feature_norm}"
            )
        real("terminal_reward", self.terminal_reward, at_least=0, at_most=1)
        text("features_name", self.features_name)

    def identity(self) -> Identity:
        """The function is known by its name alone."""
        return Identity(
            "features-public",
            1,
            horizon=self.horizon,
            actions=self.actions,
            dimension=self.dimension,
            feature_norm=self.feature_norm,
            terminal_reward=self.terminal_reward,
            features_name=self.features_name,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Of the features of one observation."""
        return self.actions, self.dimension

    def rows(self, observation: Any) -> Array:
        """The features [action, i] of one observation, NaN if they cannot be computed. PRIVATE."""
        return feature_rows(self.features, observation, self.shape)

    def collect(self, episodes: Iterable[tuple[Any, Any, Any]]) -> Trajectories:
        """What an agent learns from, made from episodes (observations, actions, rewards). PRIVATE.

        A shorter episode has ended: it earns `terminal_reward` in the steps that are left. If the
        features of any observation of a user cannot be computed, all features of this user become
        NaN. Such a user contributes zero, and nobody else's rows change.
        """
        if isinstance(episodes, np.ndarray) or not isinstance(episodes, Iterable):
            raise InvalidParameter(
                "episodes must be a list of (observations, actions, rewards), "
                f"got {type(episodes).__name__}"
            )
        features_of_users: list[Array] = []
        outcomes: list[tuple[Any, ...]] = []
        for episode in episodes:
            features_of_users.append(self._features_of_user(episode))
            # `collect` gets no observations. It turns whatever else is wrong into no steps.
            has_parts = isinstance(episode, list | tuple)
            outcomes.append(([], *episode[1:3]) if has_parts else ())
        collected = collect(outcomes, self.horizon)
        states = np.zeros((len(outcomes), self.horizon + 1, *self.shape))
        for user, rows in enumerate(features_of_users):
            states[user, : len(rows)] = rows
            if not np.isfinite(rows).all():
                states[user] = np.nan
            # A step without features comes after the end.
            is_over = ~states[user, : self.horizon].any(axis=(1, 2))
            collected.actions[user, is_over] = 0
            collected.rewards[user, is_over] = self.terminal_reward
        return Trajectories(states, collected.actions, collected.rewards)

    def _features_of_user(self, episode: Any) -> Array:
        """The features of all observations of one user [h, action, i], whatever an episode is."""
        # Private data are never refused: a user whose data cannot be read contributes zero.
        try:
            observations = list(islice(episode[0], self.horizon + 1))
        except Exception:
            return np.full((1, *self.shape), np.nan)
        rows = [self.rows(observation) for observation in observations]
        return np.array(rows).reshape(len(rows), *self.shape)


def check_features(features: Features, observation: Any, actions: int) -> Array:
    """The features of a public observation, if they are what a learner needs.

    The function is called twice. One that gives two answers remembers something, and could put one
    user's data into the features of another.
    """
    first = _evaluate(features, observation, actions)
    second = _evaluate(features, observation, actions)
    if not np.array_equal(first, second):
        raise InvalidParameter(
            "features(observation) gave two answers for the same observation: it must not remember "
            "earlier calls, change the observation or draw random numbers"
        )
    return first


def _evaluate(features: Features, observation: Any, actions: int) -> Array:
    rows = np.array(array("features(observation)", features(observation)), dtype=float)
    if rows.ndim != 2 or len(rows) != actions or rows.size == 0:
        raise InvalidParameter(
            f"features(observation) must have shape ({actions}, dimension), got {rows.shape}"
        )
    return rows
