"""A small problem whose states are observations, for audits of agents that learn from features."""

from typing import Any

import numpy as np

from confide.policy import FeaturePolicy, RandomPolicy
from confide.problems.observations import FeaturesPublic
from confide.trajectory import Trajectories

HORIZON = 3
ACTIONS = 2
DIMENSION = 2


def features(observation: Any) -> Any:
    """The direction of an angle, and the opposite one for the other action."""
    direction = np.array([np.cos(observation), np.sin(observation)])
    return np.array([direction, -direction])


class ObservedWorld:
    """A walk on the circle: an action turns to one side, and the upper half has rewards."""

    name = "observed-world"
    optimal_value = None
    uniform_value = None
    horizon = HORIZON
    actions = ACTIONS
    dimension = DIMENSION

    def __init__(self) -> None:
        self.public = FeaturesPublic(features, HORIZON, ACTIONS, DIMENSION)

    def sample(
        self, policy: FeaturePolicy | RandomPolicy, users: int, rng: np.random.Generator
    ) -> Trajectories:
        return self.public.collect([self._episode(policy, rng) for _ in range(users)])

    def _episode(
        self, policy: FeaturePolicy | RandomPolicy, rng: np.random.Generator
    ) -> tuple[Any, Any, Any]:
        angle = float(rng.uniform(0, 2 * np.pi))
        observations = [angle]
        actions = []
        rewards = []
        for step in range(HORIZON):
            action = policy.act(step, angle, rng)
            angle += (0.8 if action == 0 else -0.8) + float(rng.normal(0, 0.1))
            observations.append(angle)
            actions.append(action)
            rewards.append(float(np.sin(angle) > 0))
        return observations, actions, rewards
