"""Whole agents, attacked: everything that a short run releases, or that devices send.

One user is replaced by another. Which pair is attacked, and which number is looked at, may be
changed freely: a weaker attack shows less, but never refutes an honest agent.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from confide.agents.catalogue import AGENTS, make_agent
from confide.arguments import kind
from confide.audit.mechanisms import RATIO_DIGITS, copies, make_source
from confide.audit.observed_world import ObservedWorld
from confide.audit.refute import Score
from confide.audit.replay import replay
from confide.audit.replay_result import Replay
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
# How many users show which parts of their data matter. A contribution that one transition of one
# step decides in the smallest lock is missed with probability 1e-3.
_USERS_THAT_SHOW = 1000


@dataclass(frozen=True)
class Attacked:
    """An agent on a small problem, and two users whose contributions are farthest apart."""

    agent: str
    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"
    # Whether users show features of observations, for agents that also learn from numbered states.
    observed: bool = False

    @property
    def loss(self) -> Loss:
        """What was asked for. If noise is pure whatever delta is, it is epsilon alone."""
        stated: Loss = self._agent.guarantee.loss
        return stated if isinstance(stated, PureDP) else loss_for(self.privacy)

    @cached_property
    def _agent(self) -> Any:
        """An agent that serves nobody, to ask for its guarantee."""
        return self._make(FastSource(np.random.default_rng(0)))

    @cached_property
    def _problem(self) -> Any:
        return ObservedWorld() if self.observed else small_world(self.agent)

    @cached_property
    def _pair(self) -> tuple[Trajectories, Trajectories]:
        agent = self._make(FastSource(np.random.default_rng(0)))
        return farthest_pair(agent, self._problem)

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
    """An agent that serves 64 users of a small problem.

    The first user is one of the two whose contributions are farthest apart. All others contribute
    zero: what they would add hides the first one, and the guarantee does not rest on it. The
    adversary reads everything that is noised, of which all releases are made (a replay checks
    that), and what is released.
    """

    @cached_property
    def _users(self) -> tuple[Trajectories, Trajectories]:
        others = empty_users(self._problem, USERS - 1)
        one, other = self._pair
        return _together(one, others), _together(other, others)

    @cached_property
    def _expected(self) -> tuple[Tape, Tape]:
        """What is noised in one run on each data set, with the same releases."""
        first, _ = self._serve(0, FastSource(np.random.default_rng(0)), Tape())
        return self._read(first), self._other(1, first)

    @property
    def reach(self) -> float:
        """How much of the stated loss the two data sets use up: an attack cannot show more."""
        mu, epsilon = self._expected[0].shift(self._expected[1])
        loss = self.loss
        if isinstance(loss, GaussianDP):
            return mu / loss.mu
        return epsilon / loss.epsilon_at(0.0)

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        source = make_source(self.source, self.twin, rng)
        return np.stack([self._run(world, source) for _ in range(runs)])

    def _run(self, world: int, source: NoiseSource) -> Array:
        """How much more likely data set 1 is, and, where a test must be fitted, all releases."""
        likelihood = 0.0
        releases: list[Array] = []
        # Of an adaptive schedule, how many numbers later rounds release depends on the first ones.
        is_adaptive = isinstance(getattr(self._agent, "schedule", None), AtMost)
        for _ in range(copies(self.twin)):
            tape, released = self._serve(world, source, Tape())
            seen = self._read(tape)
            if seen.same(self._expected[world]):
                other = self._expected[1 - world]
            else:
                other = self._other(1 - world, tape)
            likelihood += seen.likelihood(other) * (1 if world == 0 else -1)
            releases += released[:1] if is_adaptive else released
        likelihood = round(likelihood, RATIO_DIGITS)
        if self._likelihood_suffices:
            return np.array([likelihood])
        return np.append(likelihood, np.concatenate(releases))

    @cached_property
    def _likelihood_suffices(self) -> bool:
        """Whether the likelihood says it all.

        It does not if noise is shared by coordinates, or added by other code than the library's.
        """
        return self.twin != "shared" and bool(self._expected[0].noised)

    def _serve(self, world: int, source: NoiseSource, tape: Tape) -> tuple[Tape, list[Array]]:
        agent = self._make(TapedSource(source, tape))
        users = self._users[world]
        releases: list[Array] = []
        while agent.users < USERS:
            size = agent.next_batch().users
            agent.observe(users[agent.users : agent.users + size])
            if agent.released().generation > len(releases):
                releases.append(agent.released().values)
        return tape, releases

    def _other(self, world: int, tape: Tape) -> Tape:
        """A run on the other data set, with the releases of the tape."""
        other, _ = self._serve(world, FastSource(np.random.default_rng(0)), Tape(tape))
        return self._read(other)

    def _read(self, tape: Tape) -> Tape:
        """The part of the tape that the adversary reads."""
        return tape

    def score(self) -> Score | None:
        if not self._likelihood_suffices:
            return None
        return lambda views: np.asarray(views[:, 0])


@dataclass(frozen=True)
class AnswersSubject(AgentSubject):
    """The answers of LSVI-UCB alone, against their own share of the budget.

    Beside prefix sums, too little noise on them would not show.
    """

    @property
    def loss(self) -> Loss:
        loss: Loss = self._make(FastSource(np.random.default_rng(0))).algorithm.loss
        return loss

    def _read(self, tape: Tape) -> Tape:
        # The first source is that of prefix sums.
        return tape.of_source(2)


@dataclass(frozen=True)
class DeviceSubject(Attacked):
    """Two devices of a small lock under local privacy.

    The first one's user is one of the two who are farthest apart, the other one contributes zero.
    Each is asked for its message twice, and the adversary reads everything: lengths, releases,
    nonces, numbers.
    """

    @cached_property
    def loss(self) -> Loss:
        stated: Loss = self._agent.guarantee.loss
        return stated

    @cached_property
    def _contributions(self) -> tuple[Array, Array]:
        """What the two users would send without noise.

        An adversary knows it, and looks in that direction.
        """
        server = self._make(FastSource(np.random.default_rng(0)))
        server.next_batch()
        one, other = self._pair
        return server.contribution(one).values, server.contribution(other).values

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        server = self._make(make_source(self.source, self.twin, rng))
        users = (self._pair[world], empty_users(self._problem, 1))
        return np.stack(
            [np.concatenate([self._view(server, user) for user in users]) for _ in range(runs)]
        )

    def _view(self, server: Learner, user: Trajectories) -> Array:
        """All that can be got out of one device. The twin that redraws forgets what it has sent."""
        client = _ready_client(server)
        asked_again = _ready_client(server) if self.twin == "redraw" else client
        reports = [client.report(user), asked_again.report(user)]
        messages = [Message.from_bytes(data) for data in dict.fromkeys(reports)]
        nonce = np.frombuffer(messages[0].nonce, dtype=">u8") / 2.0**64
        noise = client.channel.noise
        likelihood = np.mean([self._likelihood(noise, message) for message in messages])
        return np.array([len(reports[0]), messages[0].generation, *nonce, likelihood])

    def _likelihood(self, noise: object, message: Message) -> float:
        """How much more the message looks like the second user, up to a factor."""
        one, other = self._contributions
        values = message.values
        if isinstance(noise, Report):
            return DrawnIndex(noise, message.nonce).log_ratio(int(values[0]), one, other)
        if self.privacy.delta > 0:
            return float(values @ (other - one))
        log_ratio = (np.abs(values - one) - np.abs(values - other)).sum()
        return round(float(log_ratio), RATIO_DIGITS)

    def _request(self) -> Request:
        return LocalDP(self.privacy.epsilon, self.privacy.delta)

    @property
    def reach(self) -> float:
        """How much of the stated loss the two users use up."""
        server = self._make(FastSource(np.random.default_rng(0)))
        (mechanism,) = server.mechanisms()
        if mechanism.distribution in ("codebook", "signs"):
            # Some index is in the set of one user and not of the other.
            return 1.0
        one, other = self._contributions
        return float(np.linalg.norm(other - one, ord=mechanism.norm) / mechanism.sensitivity)

    def score(self) -> Score | None:
        """What the first device's message says."""
        return lambda views: np.asarray(views[:, views.shape[1] // 2 - 1])


def _together(first: Trajectories, others: Trajectories) -> Trajectories:
    return Trajectories(
        np.concatenate([first.states, others.states]),
        np.concatenate([first.actions, others.actions]),
        np.concatenate([first.rewards, others.rewards]),
    )


def _ready_client(server: Learner) -> LocalClient:
    client = server.client()
    client.adopt(server.current_round(), server.released().generation)
    return client


def empty_users(problem: Problem, users: int) -> Trajectories:
    """Users who contribute zero: their states do not exist, or are no numbers."""
    H = problem.horizon
    rewards = np.zeros((users, H))
    if isinstance(problem, LQSystem):
        states = np.full((users, H + 1, len(problem.A)), np.nan)
        inputs = np.full((users, H, len(problem.R)), np.nan)
        return Trajectories(states, inputs, rewards)
    no_actions = np.full((users, H), -1)
    if isinstance(problem, LinearBandit | ObservedWorld):
        features = np.full((users, H + 1, problem.actions, problem.dimension), np.nan)
        return Trajectories(features, no_actions, rewards)
    return Trajectories(np.full((users, H + 1), -1), no_actions, rewards)


def small_world(agent: str) -> Any:
    """A small problem of the kind that the agent is for.

    For agents of mixtures it is a small lock with known rewards. Where rewards are learned, the
    first plan values all states alike, and its users show next to nothing. What reward regressions
    add is attacked by brute force in the tests of their bound.
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


def farthest_pair(agent: Learner, problem: Problem) -> tuple[Trajectories, Trajectories]:
    """The two trajectories that the first batch tells apart best.

    All trajectories that there can be are tried, possible or not.
    """
    if isinstance(problem, LQSystem):
        return _jump(problem, 1.0), _jump(problem, -1.0)
    agent.next_batch()
    if isinstance(problem, LinearBandit):
        users = _contexts(problem)
    elif isinstance(problem, ObservedWorld):
        users = _directions(problem)
    else:
        users = _that_matter(agent, _everybody(kind("problem", problem, FiniteProblem)))
    contributions = _contributions(agent, users)
    # Each contribution once.
    first = np.sort(np.unique(contributions, axis=0, return_index=True)[1])
    contributions = contributions[first]
    distances = _distances(contributions, euclidean=agent.privacy.delta > 0)
    if distances.max() <= 0:
        raise InvalidParameter(
            f"no two users of {problem.name} differ in what they contribute: "
            "this audit cannot show anything"
        )
    # Of pairs that are equally far apart it is one whose difference a draw shared by all
    # coordinates cannot hide.
    sums = contributions.sum(axis=1)
    common = np.subtract.outer(sums, sums) ** 2 / contributions.shape[1]
    distances -= 1e-6 * common
    one, other = first[list(np.unravel_index(distances.argmax(), distances.shape))]
    return users[int(one) : int(one) + 1], users[int(other) : int(other) + 1]


def _distances(contributions: Array, *, euclidean: bool) -> Array:
    """Squared Euclidean distances, or sums of absolute differences [user, user]."""
    if not euclidean:
        return np.stack([np.abs(contributions - one).sum(axis=1) for one in contributions])
    squared = (contributions**2).sum(axis=1)
    distances: Array = squared[:, None] + squared[None] - 2 * contributions @ contributions.T
    return distances


def _contributions(agent: Learner, users: Trajectories) -> Array:
    """What each of them contributes alone [user, coordinate]."""
    return np.stack([agent.contribution(users[i : i + 1]).values for i in range(users.users)])


def _that_matter(agent: Learner, users: Trajectories) -> Trajectories:
    """Leave out users who differ from others only in parts of their data that do not matter.

    These parts are rewards and the last state. A thousand users show whether they matter.
    """
    if users.users <= _USERS_THAT_SHOW:
        return users
    some = np.random.default_rng(0).choice(users.users, _USERS_THAT_SHOW, replace=False)
    states = users.states[some]
    actions = users.actions[some]
    rewards = users.rewards[some]
    contributions = _contributions(agent, Trajectories(states, actions, rewards))

    def are_the_same(others: Trajectories) -> bool:
        return np.array_equal(contributions, _contributions(agent, others))

    kept = np.ones(users.users, dtype=np.bool_)
    if are_the_same(Trajectories(states, actions, np.zeros_like(rewards))):
        kept &= (users.rewards == 0).all(axis=1)
    is_last = np.arange(states.shape[1]) == states.shape[1] - 1
    if are_the_same(Trajectories(np.where(is_last, 0, states), actions, rewards)):
        kept &= users.states[:, -1] == 0
    return Trajectories(users.states[kept], users.actions[kept], users.rewards[kept])


def _jump(system: LQSystem, sign: float) -> Trajectories:
    """From an ordinary start one jump along the same axis, up or down, then rest.

    It uses up the clip of residuals.
    """
    states = np.zeros((1, system.horizon + 1, len(system.A)))
    states[0, 0, 0] = 1.0
    states[0, 1, 0] = sign * 1e3
    inputs = np.zeros((1, system.horizon, len(system.R)))
    return Trajectories(states, inputs, np.zeros((1, system.horizon)))


def _everybody(problem: FiniteProblem) -> Trajectories:
    """All trajectories of a finite problem, with rewards at both ends of their range."""
    S = problem.states
    A = problem.actions
    H = problem.horizon
    grids = np.meshgrid(*[np.arange(S), np.arange(A)] * H, np.arange(S), indexing="ij")
    # [trajectory, (s_0, a_0, s_1, a_1, ..., s_H)]
    steps = np.stack([grid.ravel() for grid in grids], axis=1)
    states = steps[:, ::2]
    actions = steps[:, 1::2]
    rewards = np.concatenate([np.zeros(actions.shape), np.ones(actions.shape)])
    return Trajectories(np.tile(states, (2, 1)), np.tile(actions, (2, 1)), rewards)


def _directions(world: ObservedWorld) -> Trajectories:
    """Features of all directions of a plane, the same at all steps.

    Directions are in steps of five degrees, with rewards at both ends of their range.
    """
    angles = np.deg2rad(np.arange(0, 180, 5))
    features = np.zeros((len(angles), world.horizon + 1, world.actions, world.dimension))
    features[..., 0] = np.cos(angles)[:, None, None]
    features[..., 1] = np.sin(angles)[:, None, None]
    shape = (2 * len(angles), world.horizon)
    rewards = np.repeat([0.0, 1.0], len(angles))[:, None] * np.ones(shape)
    return Trajectories(np.tile(features, (2, 1, 1, 1)), np.zeros(shape, dtype=int), rewards)


def _contexts(bandit: LinearBandit) -> Trajectories:
    """Contexts of all directions of a plane, with rewards at both ends of their range.

    Directions are in steps of five degrees. A half turn is enough: of x and -x with the other
    reward the contributions are the same.
    """
    angles = np.deg2rad(np.arange(0, 180, 5))
    states = np.zeros((len(angles), 2, bandit.actions, bandit.dimension))
    states[:, 0, :, 0] = np.cos(angles)[:, None]
    states[:, 0, :, 1] = np.sin(angles)[:, None]
    rewards = np.repeat([[0.0], [1.0]], len(angles), axis=0)
    actions = np.zeros(rewards.shape, dtype=int)
    return Trajectories(np.tile(states, (2, 1, 1, 1)), actions, rewards)
