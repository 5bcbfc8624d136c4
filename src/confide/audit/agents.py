"""Whole agents, attacked: everything that a short run ever releases, with one user replaced by another."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.agents.catalogue import AGENTS, make_agent
from confide.audit.refute import Score
from confide.audit.subjects import copies, make_source
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Array
from confide.privacy.loss import Loss, loss_for
from confide.privacy.request import CentralDP, JointDP
from confide.problems.zoo.mixtures import lock
from confide.trajectory import Trajectories

USERS = 64
PRIVATE = tuple(name for name, entry in AGENTS.items() if entry.paper)


@dataclass(frozen=True)
class AgentSubject:
    """An agent that serves 64 users of a small lock. The first user is one of the two whose contributions are farthest apart; all others
    are silent. The adversary reads every release."""

    agent: str
    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"

    @property
    def loss(self) -> Loss:
        return loss_for(self.privacy)

    @cached_property
    def _problem(self) -> Any:
        return lock(0, states=6, actions=2, horizon=3, jump=2)

    @cached_property
    def _others(self) -> Trajectories:
        """Users who contribute zero: what they would add hides the first one, and the promise does not rest on it."""
        H = self._problem.horizon
        return Trajectories(np.full((USERS - 1, H + 1), -1), np.full((USERS - 1, H), -1), np.zeros((USERS - 1, H)))

    @cached_property
    def _pair(self) -> tuple[Trajectories, Trajectories]:
        """Of all trajectories there can be, possible or not, the two that the first batch tells apart best."""
        S, A, H = self._problem.states, self._problem.actions, self._problem.horizon
        grids = np.meshgrid(*[np.arange(S), np.arange(A)] * (H - 1), np.arange(S), indexing="ij")
        flat = np.stack([grid.ravel() for grid in grids], axis=1)  # s_0, a_0, s_1, a_1, ..., s_{H-1}
        states, actions = np.pad(flat[:, ::2], ((0, 0), (0, 1))), np.pad(flat[:, 1::2], ((0, 0), (0, 1)))
        everybody = Trajectories(states, actions, np.zeros(actions.shape))
        agent = self._make(make_source("fast", None, np.random.default_rng(0)))
        agent.next_batch()
        sent = np.stack([agent.contribution(everybody[i : i + 1]).values for i in range(everybody.users)])
        squared = (sent**2).sum(axis=1)
        distance: npt.NDArray[np.float64] = squared[:, None] + squared[None] - 2 * sent @ sent.T
        one, other = np.unravel_index(distance.argmax(), distance.shape)
        return everybody[int(one) : int(one) + 1], everybody[int(other) : int(other) + 1]

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        first, source = self._pair[world], make_source(self.source, self.twin, rng)
        parts = [
            (first.states, self._others.states),
            (first.actions, self._others.actions),
            (first.rewards, self._others.rewards),
        ]
        users = Trajectories(*(np.concatenate(part) for part in parts))
        return np.stack([self._run(users, source) for _ in range(runs)])

    def _run(self, users: Trajectories, source: NoiseSource) -> Array:
        seen: list[Array] = []
        for _ in range(copies(self.twin)):
            agent = self._make(source)
            while agent.users < USERS:
                size = agent.next_batch().users
                agent.observe(users[agent.users : agent.users + size])
                seen.append(agent.released().values)
        return np.concatenate(seen)

    def _make(self, source: NoiseSource) -> Any:
        privacy = JointDP(self.privacy.epsilon, self.privacy.delta)
        return make_agent(self.agent, self._problem, episodes=USERS, privacy=privacy, noise=source)

    def score(self) -> Score | None:
        return None
