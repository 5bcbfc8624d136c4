"""Whole agents, attacked: everything that a short run ever releases, or that devices send, with one user replaced by another."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.agents.catalogue import AGENTS, make_agent
from confide.arguments import kind
from confide.audit.mechanisms import copies, make_source
from confide.audit.observed_world import ObservedWorld
from confide.audit.refute import Score
from confide.audit.replay import Replay, replay
from confide.audit.tape import Tape, TapedSource
from confide.errors import InvalidParameter
from confide.learning.client import LocalClient
from confide.learning.learner import Learner
from confide.mechanisms.codebook import DrawnIndex, Report
from confide.mechanisms.sources import FastSource, NoiseSource
from confide.privacy.bounded import Array
from confide.privacy.loss import GaussianDP, Loss, PureDP, loss_for
from confide.privacy.request import CentralDP, JointDP, LocalDP, Request
from confide.privatizers import AtMost, Message
from confide.problems.bandit import LinearBandit
from confide.problems.finite import FiniteProblem
from confide.problems.lq import LQSystem
from confide.problems.problem import Problem
from confide.problems.zoo.bandits import linear_bandit
from confide.problems.zoo.control import oscillator
from confide.problems.zoo.linear import one_hot
from confide.problems.zoo.mixtures import lock
from confide.problems.zoo.tables import riverswim
from confide.trajectory import Trajectories

USERS = 64
_PARTS = ("states", "actions", "rewards")


@dataclass(frozen=True)
class Attacked:
    """An agent on a small problem, and two users whose contributions are farthest apart."""

    agent: str
    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"
    # whether users show features of observations, where the agent also learns from numbered states
    observed: bool = False

    @property
    def loss(self) -> Loss:
        """What was asked for; of an agent whose noise is pure whatever delta is, epsilon alone."""
        given: Loss = self._made_once.guarantee.loss
        return given if isinstance(given, PureDP) else loss_for(self.privacy)

    @cached_property
    def _made_once(self) -> Any:
        return self._make(FastSource(np.random.default_rng(0)))

    @cached_property
    def _problem(self) -> Any:
        return ObservedWorld() if self.observed else small_world(self.agent)

    @cached_property
    def _pair(self) -> tuple[Trajectories, Trajectories]:
        return farthest(self._make(FastSource(np.random.default_rng(0))), self._problem)

    def _request(self) -> Request:
        return JointDP(self.privacy.epsilon, self.privacy.delta)

    def replay(self, neighbours: int = USERS) -> Replay:
        """Everything that leaves, on neighbouring data sets with the same releases."""
        return replay(self._make, self._problem, neighbours=neighbours)

    def _make(self, source: NoiseSource) -> Any:
        return make_agent(
            self.agent, self._problem, episodes=USERS, privacy=self._request(), noise=source
        )


@dataclass(frozen=True)
class AgentSubject(Attacked):
    """An agent that serves 64 users of a small problem. The first user is one of the two whose contributions are farthest apart; all others
    contribute zero: what they would add hides the first one, and the promise does not rest on it. The adversary reads everything that is
    noised, of which all releases are made (a replay checks that), and what is released.
    """

    @cached_property
    def _users(self) -> tuple[Trajectories, Trajectories]:
        others = silent(self._problem, USERS - 1)
        one, other = (
            Trajectories(
                *(
                    np.concatenate([getattr(part, name) for part in (first, others)])
                    for name in _PARTS
                )
            )
            for first in self._pair
        )
        return one, other

    @cached_property
    def _expected(self) -> tuple[Tape, Tape]:
        """One run on each data set, with the same releases: what is noised."""
        first, _ = self._serve(0, FastSource(np.random.default_rng(0)), Tape())
        return self._read(first), self._other(1, first)

    @property
    def reach(self) -> float:
        """How much of the stated loss the two data sets use up: an attack cannot show more."""
        shift, loss = self._expected[0].shift(self._expected[1]), self.loss
        return (
            shift[0] / loss.mu if isinstance(loss, GaussianDP) else shift[1] / loss.epsilon_at(0.0)
        )

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        source = make_source(self.source, self.twin, rng)
        return np.stack([self._run(world, source) for _ in range(runs)])

    def _run(self, world: int, source: NoiseSource) -> Array:
        """How much more likely data set 1 is, and where a test must be fitted, all releases."""
        likelihood, seen = 0.0, []
        for _ in range(copies(self.twin)):
            tape, released = self._serve(world, source, Tape())
            mine = self._read(tape)
            other = (
                self._expected[1 - world]
                if mine.same(self._expected[world])
                else self._other(1 - world, tape)
            )
            likelihood += mine.likelihood(other) * (1 if world == 0 else -1)
            adaptive = isinstance(getattr(self._made_once, "schedule", None), AtMost)
            # how many numbers later rounds release depends on the first ones
            seen += released[:1] if adaptive else released
        likelihood = round(
            likelihood,
            9,
            # in real arithmetic: the low bits of fast noise tell the two worlds apart, as its source says
        )
        return (
            np.array([likelihood]) if self._known else np.append(likelihood, np.concatenate(seen))
        )

    @cached_property
    def _known(self) -> bool:
        """Whether the likelihood says it all: not if noise is shared by coordinates, or added by other code than the library's."""
        return self.twin != "shared" and bool(self._expected[0].noised)

    def _serve(self, world: int, source: NoiseSource, tape: Tape) -> tuple[Tape, list[Array]]:
        agent, users = self._make(TapedSource(source, tape)), self._users[world]
        releases: list[Array] = []
        while agent.users < USERS:
            size = agent.next_batch().users
            agent.observe(users[agent.users : agent.users + size])
            if agent.released().generation > len(releases):
                releases.append(agent.released().values)
        return tape, releases

    def _other(self, world: int, tape: Tape) -> Tape:
        """A run on the other data set, with the releases of the tape."""
        return self._read(self._serve(world, FastSource(np.random.default_rng(0)), Tape(tape))[0])

    def _read(self, tape: Tape) -> Tape:
        return tape

    def score(self) -> Score | None:
        return (lambda seen: np.asarray(seen[:, 0])) if self._known else None


@dataclass(frozen=True)
class AnswersSubject(AgentSubject):
    """The answers of LSVI-UCB alone, against their own share of the budget: beside prefix sums, too little noise on them would not show."""

    @property
    def loss(self) -> Loss:
        loss: Loss = self._make(FastSource(np.random.default_rng(0))).algorithm.loss
        return loss

    def _read(self, tape: Tape) -> Tape:
        return tape.of_source(2)  # the first one is that of prefix sums


@dataclass(frozen=True)
class DeviceSubject(Attacked):
    """Two devices of a small lock under local privacy. The first one's user is one of the two who are farthest apart, the other one is
    silent. Each is asked for its message twice, and the adversary reads everything: lengths, releases, nonces, numbers.
    """

    @cached_property
    def loss(self) -> Loss:
        made: Loss = self._make(FastSource(np.random.default_rng(0))).guarantee.loss
        return made

    @cached_property
    def _sent(self) -> tuple[Array, Array]:
        """What the two users would send without noise: an adversary knows it, and looks in that direction."""
        server = self._make(FastSource(np.random.default_rng(0)))
        server.next_batch()
        one, other = (server.contribution(user).values for user in self._pair)
        return one, other

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        server = self._make(make_source(self.source, self.twin, rng))
        users = (self._pair[world], silent(self._problem, 1))
        return np.stack(
            [np.concatenate([self._asked(server, user) for user in users]) for _ in range(runs)]
        )

    def _asked(self, server: Learner, user: Trajectories) -> Array:
        """All that can be got out of one device. The twin that redraws forgets what it has sent."""
        client = _ready(server)
        said = [
            client.report(user),
            (_ready(server) if self.twin == "redraw" else client).report(user),
        ]
        messages = [Message.from_bytes(data) for data in dict.fromkeys(said)]
        nonce = np.frombuffer(messages[0].nonce, dtype=">u8") / 2.0**64
        about = [len(said[0]), messages[0].generation, *nonce]
        return np.array(
            [
                *about,
                np.mean([self._likelihood(client.channel.noise, message) for message in messages]),
            ]
        )

    def _likelihood(self, noise: object, message: Message) -> float:
        """How much more the message looks like the second user, up to a factor."""
        (one, other), values = self._sent, message.values
        if isinstance(noise, Report):
            return DrawnIndex(noise, message.nonce).log_ratio(int(values[0]), one, other)
        if self.privacy.delta > 0:
            return float(values @ (other - one))
        # in real arithmetic: the low bits of fast noise tell the two worlds apart, as its source says
        return round(float((np.abs(values - one) - np.abs(values - other)).sum()), 9)

    def _request(self) -> Request:
        return LocalDP(self.privacy.epsilon, self.privacy.delta)

    @property
    def reach(self) -> float:
        """How much of the stated loss the two users use up."""
        server, (one, other) = self._make(FastSource(np.random.default_rng(0))), self._sent
        (mechanism,) = server.mechanisms()
        if mechanism.distribution in ("codebook", "signs"):
            return 1.0  # some index is in the set of one user and not of the other
        return float(np.linalg.norm(other - one, ord=mechanism.norm) / mechanism.sensitivity)

    def score(self) -> Score | None:
        """What the first device's message says."""
        return lambda seen: np.asarray(seen[:, seen.shape[1] // 2 - 1])


def _ready(server: Learner) -> LocalClient:
    client = server.client()
    client.adopt(server.current_round(), server.released().generation)
    return client


def silent(problem: Problem, users: int) -> Trajectories:
    """Users who contribute zero: their states do not exist, or are no numbers."""
    H = problem.horizon
    if isinstance(problem, LQSystem):
        nowhere, nothing = (
            np.full((users, H + 1, len(problem.A)), np.nan),
            np.full((users, H, len(problem.R)), np.nan),
        )
        return Trajectories(nowhere, nothing, np.zeros((users, H)))
    if isinstance(problem, LinearBandit | ObservedWorld):
        nowhere = np.full((users, H + 1, problem.actions, problem.dimension), np.nan)
        return Trajectories(nowhere, np.full((users, H), -1), np.zeros((users, H)))
    return Trajectories(np.full((users, H + 1), -1), np.full((users, H), -1), np.zeros((users, H)))


def small_world(agent: str) -> Any:
    """For controllers an oscillation, for agents of linear MDPs and of tables a short table.

    Otherwise a small lock with known rewards: where they are learned, the first plan values all states alike, and its users show next to
    nothing; what reward regressions add is attacked by brute force in the tests of their bound.
    """
    family = AGENTS[agent].profile.family if agent in AGENTS else "mixture"
    if family == "linear control":
        return oscillator(horizon=3)
    if family == "linear MDP":
        return one_hot(states=3, horizon=3)
    if family == "linear bandit":
        return linear_bandit(2, 2, population=64)
    if family == "table":
        return riverswim(states=3, horizon=3)
    return lock(0, states=6, actions=2, horizon=3, jump=2)


def farthest(agent: Learner, problem: Problem) -> tuple[Trajectories, Trajectories]:
    """Of all trajectories there can be, possible or not, the two that the first batch tells apart best."""
    if isinstance(problem, LQSystem):
        return _episode(problem, 1.0), _episode(problem, -1.0)
    agent.next_batch()
    if isinstance(problem, LinearBandit):
        everybody = _contexts(problem)
    elif isinstance(problem, ObservedWorld):
        everybody = _directions(problem)
    else:
        everybody = _that_matter(agent, _everybody(kind("problem", problem, FiniteProblem)))
    sent = _sent(agent, everybody)
    first = np.sort(np.unique(sent, axis=0, return_index=True)[1])  # each contribution once
    sent = sent[first]
    if agent.privacy.delta > 0:
        squared = (sent**2).sum(axis=1)
        distance: npt.NDArray[np.float64] = squared[:, None] + squared[None] - 2 * sent @ sent.T
    else:
        distance = np.stack([np.abs(sent - one).sum(axis=1) for one in sent])
    if distance.max() <= 0:
        raise InvalidParameter(
            f"no two users of {problem.name} differ in what they contribute: this audit cannot show anything"
        )
    common = np.subtract.outer(sent.sum(axis=1), sent.sum(axis=1)) ** 2 / sent.shape[1]
    distance -= (
        1e-6 * common
        # of pairs that are equally far apart one whose difference a draw shared by all coordinates cannot hide
    )
    one, other = first[list(np.unravel_index(distance.argmax(), distance.shape))]
    return everybody[int(one) : int(one) + 1], everybody[int(other) : int(other) + 1]


# a contribution that one transition of one step decides in the smallest lock is missed with probability 1e-3
_SHOWN = 1000


def _sent(agent: Learner, users: Trajectories) -> Array:
    """What each of them contributes alone."""
    return np.stack([agent.contribution(users[i : i + 1]).values for i in range(users.users)])


def _that_matter(agent: Learner, users: Trajectories) -> Trajectories:
    """Without those who differ from others in rewards or in the last state only, if a thousand users show that it does not matter."""
    if users.users <= _SHOWN:
        return users
    some = np.random.default_rng(0).choice(users.users, _SHOWN, replace=False)
    states, actions, rewards = users.states, users.actions, users.rewards
    sent = _sent(agent, Trajectories(states[some], actions[some], rewards[some]))
    last = np.arange(states.shape[1]) == states.shape[1] - 1
    kept = np.ones(users.users, dtype=np.bool_)
    if np.array_equal(
        sent, _sent(agent, Trajectories(states[some], actions[some], np.zeros_like(rewards[some])))
    ):
        kept &= (rewards == 0).all(axis=1)
    if np.array_equal(
        sent,
        _sent(agent, Trajectories(np.where(last, 0, states[some]), actions[some], rewards[some])),
    ):
        kept &= states[:, -1] == 0
    return Trajectories(states[kept], actions[kept], rewards[kept])


def _episode(system: LQSystem, sign: float) -> Trajectories:
    """From an ordinary start one jump along the same axis, up or down, which uses up the clip of residuals; then rest."""
    states, inputs = (
        np.zeros((1, system.horizon + 1, len(system.A))),
        np.zeros((1, system.horizon, len(system.R))),
    )
    states[0, 0, 0], states[0, 1, 0] = 1.0, sign * 1e3
    return Trajectories(states, inputs, np.zeros((1, system.horizon)))


def _everybody(problem: FiniteProblem) -> Trajectories:
    """All trajectories of a problem with finitely many states, with rewards at both ends of their range."""
    S, A, H = problem.states, problem.actions, problem.horizon
    grids = np.meshgrid(*[np.arange(S), np.arange(A)] * H, np.arange(S), indexing="ij")
    flat = np.stack([grid.ravel() for grid in grids], axis=1)  # s_0, a_0, s_1, a_1, ..., s_H
    states, actions = flat[:, ::2], flat[:, 1::2]
    # both ends of their range
    rewards = np.concatenate([np.zeros(actions.shape), np.ones(actions.shape)])
    return Trajectories(np.tile(states, (2, 1)), np.tile(actions, (2, 1)), rewards)


def _directions(world: ObservedWorld) -> Trajectories:
    """Features of all directions of a plane, in steps of five degrees, with rewards at both ends of their range; the same at all steps."""
    angles = np.deg2rad(np.arange(0, 180, 5))
    rows = np.zeros((len(angles), world.horizon + 1, world.actions, world.dimension))
    rows[..., 0], rows[..., 1] = np.cos(angles)[:, None, None], np.sin(angles)[:, None, None]
    shape = (2 * len(angles), world.horizon)
    rewards = np.repeat([0.0, 1.0], len(angles))[:, None] * np.ones(shape)
    return Trajectories(np.tile(rows, (2, 1, 1, 1)), np.zeros(shape, dtype=int), rewards)


def _contexts(bandit: LinearBandit) -> Trajectories:
    """Contexts of all directions of a plane, in steps of five degrees, with rewards at both ends of their range."""
    # of x and -x with the other reward the contributions are the same
    angles = np.deg2rad(np.arange(0, 180, 5))
    states = np.zeros((len(angles), 2, bandit.actions, bandit.dimension))
    states[:, 0, :, 0], states[:, 0, :, 1] = np.cos(angles)[:, None], np.sin(angles)[:, None]
    rewards = np.repeat([[0.0], [1.0]], len(angles), axis=0)
    return Trajectories(np.tile(states, (2, 1, 1, 1)), np.zeros(rewards.shape, dtype=int), rewards)
