"""LSVI-UCB on continuous observations: users walk along a corridor, and features locate them.

python examples/corridor.py [--quick]

The same from the command line, in the folder of this file:

confide run lsvi-ucb gym:corridor:Corridor --features corridor:features --horizon 6 --epsilon 1
"""

import sys

import gymnasium
import numpy as np
from gymnasium import spaces

import confide
from confide.policy import load_policy

HORIZON = 6
# The features of a position are hats around these centres. At each position they sum to one.
CENTRES = np.linspace(0.0, 1.0, 6)


class Corridor(gymnasium.Env):
    """A position in [0, 1]. One action goes right and one goes left. The right end is worth 1."""

    observation_space = spaces.Box(0.0, 1.0, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002 - Gymnasium's own contract
        super().reset(seed=seed)
        self.position = self.np_random.uniform(0.0, 0.3)
        return np.array([self.position]), {}

    def step(self, action):
        move = 0.15 if action == 1 else -0.15
        position = self.position + move + self.np_random.normal(0.0, 0.03)
        self.position = float(np.clip(position, 0.0, 1.0))
        reward = float(self.position > 0.7)
        return np.array([self.position]), reward, False, False, {}


def features(observation):
    """A row for each action: the hats around the position, in the part of the action."""
    hats = np.maximum(0.0, 1.0 - np.abs(observation[0] - CENTRES) / 0.2)
    return np.kron(np.eye(2), hats)


def main(users):
    problem = confide.problems.GymProblem(Corridor(), features, HORIZON)
    uniform = confide.agents.Uniform(problem.public, episodes=1000)
    print(f"uniform play earns {confide.run(uniform, problem).mean_return[-1]:.2f} of at most 6")
    for privacy in (confide.NoPrivacy(), confide.JointDP(epsilon=1.0, delta=1e-5)):
        agent = confide.agents.LSVIUCB(problem.public, episodes=users, privacy=privacy)
        run = confide.run(agent, problem, seed=0)
        print(f"{run.guarantee}: the last policy earns {run.mean_return[-1]:.2f}")
    run.policy.save("corridor.npz")
    # The file holds numbers and the name of the function. The function itself must be passed.
    policy = load_policy("corridor.npz", features=features)
    action = policy.act(0, np.array([0.2]), np.random.default_rng(0))
    print(f"at position 0.2 this policy takes action {action}")


if __name__ == "__main__":
    main(500 if "--quick" in sys.argv else 5_000)
