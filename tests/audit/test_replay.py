"""Neighbours with the same releases.

Agents that keep their promise show the same bytes, and those that leak past the noise are refuted.
"""

import ast
import asyncio
import collections
import dataclasses
import functools
import io
import itertools
import random
import struct
import threading
import types
import weakref
from pathlib import Path

import numpy as np
import pytest

import confide
from confide import JointDP, LocalDP, NoPrivacy, run
from confide.agents import LSVIUCB, UCRLVTR
from confide.agents.catalogue import private_agents
from confide.audit.agents import Attacked
from confide.audit.canonical import canonical
from confide.audit.replay import replay
from confide.audit.replay_result import CHANNELS
from confide.audit.surface import REPLAYED
from confide.audit.verify import taken_on_trust, verify
from confide.errors import InvalidParameter, PrivacyError
from confide.learning.agent import Abilities, Batch
from confide.learning.client import LocalClient
from confide.policy import TabularPolicy
from confide.privacy import CentralDP, billboard
from confide.privacy.bounded import Bounded, L2Ball
from confide.privatizers import CentralPrivatizer, Message, every
from confide.problems import lock, one_hot
from confide.trajectory import Trajectories, TransitionCounts

pytestmark = pytest.mark.long

USERS = 24
LOCK, TABLE = lock(0, states=5, actions=2, horizon=3, jump=2), one_hot(states=3, horizon=3)
JOINT, LOCAL = JointDP(1.0, 1e-5), LocalDP(4.0, 1e-6)


def replayed(kind, *, privacy=JOINT, world=LOCK, neighbours=USERS, seed=0):
    def make(noise):
        return kind(
            world.public, episodes=USERS, privacy=privacy, noise=noise, schedule=every(6, USERS)
        )

    return replay(make, world, neighbours=neighbours, seed=seed)


def channels(result):
    return {each.channel for each in result.differences}


@pytest.mark.parametrize(
    "privacy",
    [JOINT, JointDP(1.0, delta=0.0), JointDP(1.0, 1e-5, relation="null"), LOCAL, NoPrivacy()],
    ids=str,
)
def test_an_honest_learner_stands(privacy):
    result = replayed(UCRLVTR, privacy=privacy)
    assert not result.refuted and not result.undecided and not result.differences
    assert set(result.compared) == set(CHANNELS) - {"errors"} - (
        {"messages"} if privacy != LOCAL else set()
    )
    assert (result.shift is None) == isinstance(privacy, NoPrivacy)
    assert result.shift is None or 0.2 < result.shift <= 1
    assert (
        "the same bytes in policies" in result.sentences()[0]
        and f"{USERS} neighbouring data sets" in result.sentences()[0]
    )


def test_a_learner_that_looks_at_users_again_stands():
    """LSVI-UCB.

    Its questions follow from releases, and users are asked at every change of policy.
    """
    result = replayed(LSVIUCB, world=TABLE)
    assert not result.refuted and 0.2 < result.shift <= 1


class Raw(UCRLVTR):
    """Keeps the last user's last state, which nothing that leaves may depend on."""

    _seen = 0

    def observe(self, users):
        self._seen = int(users.states[-1, -1])
        super().observe(users)


class InPolicies(Raw):
    """The agent of the issue: a raw state is in the policy that everybody gets.

    Its releases, guarantee and certificate are honest.
    """

    def next_batch(self):
        batch = super().next_batch()
        actions = batch.policy.actions.copy()
        actions[0] = [self._seen >> bit & 1 for bit in range(actions.shape[1])]
        return Batch(TabularPolicy(actions, 2), batch.users)


class InOpaquePolicies(Raw):
    """The policy's own attributes do not show it: only what it does."""

    def next_batch(self):
        seen, batch = self._seen, super().next_batch()

        class Hidden(TabularPolicy):
            last = seen

            def act(self, step, state, rng):  # noqa: ARG002
                return int(state == self.last)

        return Batch(Hidden(batch.policy.actions, 2), batch.users)


class InSizes(Raw):
    def next_batch(self):
        batch = super().next_batch()
        return Batch(batch.policy, min(batch.users, 1 + self._seen))


class InMemory(Raw):
    def current_round(self):
        planned = super().current_round()
        self._round = dataclasses.replace(
            planned, memory={**planned.memory, "last": np.array(self._seen)}
        )
        return self._round


class InQuestions(Raw):
    """A raw state decides what the next users are asked, and the question shows it."""

    def current_round(self):
        if self._round is None:
            planned = super().current_round()
            self._round = dataclasses.replace(
                planned, statistic=Moved(planned.statistic, self._seen)
            )
        return self._round


@dataclasses.dataclass
class Moved:
    inner: object
    by: int

    def contribution(self, users):
        contribution = self.inner.contribution(users)
        return Bounded(
            contribution.values if self.by % 2 else np.zeros_like(contribution.values),
            contribution.bound,
            contribution.users,
        )


class InHiddenQuestions(Raw):
    """Nothing that is shown says so, but a raw state decides what all later users contribute.

    The sum moves by more than one user.
    """

    def contribution(self, users):
        return Moved(self._round.statistic, self._seen).contribution(users)


class InDescriptions(Raw):
    def describe(self):
        return dataclasses.replace(super().describe(), planning=f"users end in state {self._seen}")


class InReleases(Raw):
    def released(self):
        released = super().released()
        return dataclasses.replace(released, values=released.values + 1e-6 * self._seen)


class InOutput(Raw):
    def observe(self, users):
        super().observe(users)
        print(self._seen)


class InErrors(Raw):
    def observe(self, users):
        super().observe(users)
        if self._seen < 0:
            raise InvalidParameter("a state does not exist")


BROKEN = {
    InPolicies: "policies",
    InOpaquePolicies: "policies",
    InSizes: "schedule",
    InMemory: "memory",
    InQuestions: "questions",
    InDescriptions: "descriptions",
    InReleases: "releases",
    InOutput: "printed",
    InErrors: "errors",
}


@pytest.mark.parametrize("kind", BROKEN, ids=lambda kind: kind.__name__)
def test_what_leaks_past_the_noise_is_refuted(kind):
    result = replayed(kind)
    assert result.refuted and BROKEN[kind] in channels(result)
    assert CHANNELS[BROKEN[kind]] in result.sentences()[0]
    assert result.on_grid == (kind is InOpaquePolicies)


class InExactReleases(Raw):
    """A second privatizer, without noise, beside the one that the guarantee is about.

    Its release is no release.
    """

    def observe(self, users):
        ball = L2Ball(10.0, 1)
        side = CentralPrivatizer(ball, every(1, 1), privacy=NoPrivacy(), noise=self.noise)
        side.absorb(ball.clip(np.array([float(users.states[-1, -1])])))
        self._shown_state = int(side.release().values[0])
        super().observe(users)

    def next_batch(self):
        batch = super().next_batch()
        actions = batch.policy.actions.copy()
        actions[0] = [
            getattr(self, "_shown_state", 0) >> bit & 1 for bit in range(actions.shape[1])
        ]
        return Batch(TabularPolicy(actions, 2), batch.users)


class Late(UCRLVTR):
    """Writes into a policy after it was handed out."""

    def next_batch(self):
        batch = super().next_batch()
        self._handed = TabularPolicy(batch.policy.actions.copy(), 2)
        return Batch(self._handed, batch.users)

    def observe(self, users):
        super().observe(users)
        actions = np.array(self._handed.actions)
        actions[0] = np.resize(np.asarray(users.states[-1]) % 2, actions.shape[1])
        object.__setattr__(self._handed, "actions", actions)


class WithLog(TabularPolicy):
    __slots__ = ("log",)


class InBuffers(UCRLVTR):
    """In an attribute that has no attributes itself."""

    _seen = b""

    def observe(self, users):
        self._seen += np.asarray(users.states).tobytes()
        super().observe(users)

    def next_batch(self):
        batch = super().next_batch()
        shown = WithLog(batch.policy.actions, 2)
        object.__setattr__(shown, "log", io.BytesIO(self._seen))
        return Batch(shown, batch.users)


class OnCounts(UCRLVTR):
    """Honest on trajectories, and not on the transition counts of a simulation."""

    _seen = 0

    def observe(self, users):
        if isinstance(users, TransitionCounts) and len(users.next_state):
            self._seen = int(users.next_state[-1]) + 2
        super().observe(users)

    def next_batch(self):
        batch = super().next_batch()
        actions = batch.policy.actions.copy()
        if self._seen:
            actions[0] = [self._seen >> bit & 1 for bit in range(actions.shape[1])]
        return Batch(TabularPolicy(actions, 2), batch.users)


@pytest.mark.parametrize("kind", [InExactReleases, Late, InBuffers, OnCounts])
def test_what_hides_from_a_simple_replay_is_refuted(kind):
    assert replayed(kind).refuted


class OwnDraw(Raw):
    """A draw of its own, which it throws away: no replay can know that."""

    def observe(self, users):
        self.noise.gaussian(1.0, 1)
        super().observe(users)


class InPublish(Raw):
    """Each of these agents is honest in everything that a run shows.

    What a service would show has a raw state in it.
    """

    def publish(self, run=""):
        return super().publish(run) + bytes([self._seen % 256])


class InAssign(Raw):
    def assign(self, number=None):
        given = super().assign(number)
        actions = given.policy.actions.copy()
        actions[0] = [self._seen >> bit & 1 for bit in range(actions.shape[1])]
        return dataclasses.replace(given, policy=TabularPolicy(actions, 2))


class InBatchSize(Raw):
    @property
    def batch_size(self):
        return min(super().batch_size, 1 + self._seen % 3)


class InAnAttribute(Raw):
    def observe(self, users):
        super().observe(users)
        self.last_state = self._seen


class InAProperty(Raw):
    @property
    def progress(self):
        return self._seen / 10


class InAMethod(Raw):
    def summary(self, digits=2):
        return f"{self._seen:.{digits}f}"


class InAGenerator(Raw):
    def history(self):
        yield self._seen


class InAnErrorBefore(Raw):
    """Python prints both errors."""

    def check(self):
        try:
            raise ValueError(f"the last state was {self._seen}")
        except ValueError:
            raise InvalidParameter("the state cannot be used")  # noqa: B904


class InTheRestOfAnArray(Raw):
    """A part of an array shows the whole array as its `base`."""

    def observe(self, users):
        super().observe(users)
        self.size = np.array([2, self._seen])[:1]


class InTheOrderOfItsKeys(Raw):
    def summary(self):
        names = ["low", "high"]
        return dict.fromkeys(names[self._seen % 2 :] + names[: self._seen % 2])


class InAnAnswerToAnError(Raw):
    def check(self):
        raise ValueError(f"the last state was {self._seen}")


class InTheOpenSum(UCRLVTR):
    """Only between two releases, and only for whoever asks then."""

    @property
    def waiting(self):
        return self._privatizer._open_sum.sum()


class InAMemoryview(Raw):
    def observe(self, users):
        super().observe(users)
        self.buffer = memoryview(bytes([self._seen % 256]))


class InAView(Raw):
    """Neither the view nor the buffer says its content in words."""

    def observe(self, users):
        super().observe(users)
        self.ends = {"last": io.BytesIO(bytes([self._seen % 256]))}.values()


class InAClass(Raw):
    """The instance has no attributes. Its class was made while the agent ran."""

    def observe(self, users):
        super().observe(users)
        self.summary = type("Summary", (), {"last": self._seen})()


class InItsText(Raw):
    def __str__(self):
        return f"served a user who ended in {self._seen}"


class InItsLength(Raw):
    def __len__(self):
        return self._seen


class InItsElements(Raw):
    def __iter__(self):
        yield "states"
        yield self._seen


class InItsItems(Raw):
    def __getitem__(self, index):
        return [self._seen][index]


class InALaterElement(Raw):
    def ends(self):
        return map(self._next, [0, 0, self._seen])

    def _next(self, state):
        return state + 1


class UnderAHiddenName(InAnAttribute):
    def __dir__(self):
        return [name for name in super().__dir__() if name != "last_state"]


class UnderAnyName(Raw):
    def __getattr__(self, name):
        raise AttributeError(f"there is no {name}, and the last state was {self._seen}")


class InACoroutine(Raw):
    async def progress(self):
        return self._seen


class InAnAsynchronousGenerator(Raw):
    async def progress(self):
        yield "states"
        yield self._seen


class AfterAClose(Raw):
    """Only where a batch is closed before it is full, which a run never does."""

    def close(self, total=None, users=0):
        before = self.released().generation
        super().close(total, users)
        self._memory = {**self._memory, "last": np.array(self._seen + before)}


SHOWN_TO_SERVICES = {
    InPublish: "agent.publish()",
    InAssign: "policies",
    InBatchSize: "agent.batch_size",
    InAnAttribute: "agent.last_state",
    InAProperty: "agent.progress",
    InAMethod: "agent.summary()",
    InAGenerator: "agent.history()",
    InAnAnswerToAnError: "agent.check()",
    InAnErrorBefore: "agent.check()",
    InTheRestOfAnArray: "agent.size",
    InTheOrderOfItsKeys: "agent.summary()",
    InTheOpenSum: "agent.waiting",
    InAMemoryview: "agent.buffer",
    InAView: "agent.ends",
    InAClass: "agent.summary",
    InItsText: "agent.__str__()",
    InItsLength: "agent.__len__()",
    InItsElements: "agent.__iter__()",
    InItsItems: "agent.__getitem__()",
    InALaterElement: "agent.ends()",
    UnderAHiddenName: "agent.last_state",
    UnderAnyName: "agent.__getattr__()",
    InACoroutine: "agent.progress()",
    InAnAsynchronousGenerator: "agent.progress()",
    AfterAClose: "memory",
}


@pytest.mark.parametrize("kind", SHOWN_TO_SERVICES, ids=lambda kind: kind.__name__)
def test_what_leaks_to_a_service_is_refuted(kind):
    result = replayed(kind)
    assert result.refuted and SHOWN_TO_SERVICES[kind] in channels(result)
    assert any(str(each) in result.sentences()[0] for each in result.differences)


class WithDeclaration(InAProperty):
    """Honest: it says what is not meant for anybody to see."""

    private = {**UCRLVTR.private, "progress": "for the curator's own screen"}  # noqa: RUF012


class NotForServices(InAProperty):
    @property
    def batch_size(self):
        raise RuntimeError("no service may use it")


def test_an_agent_that_no_service_can_use_is_still_looked_at():
    result = replayed(NotForServices)
    assert result.refuted and "agent.progress" in channels(result)
    assert (
        result.left_out["use by a service"] == "the agent fails if a service uses it: RuntimeError"
    )


def test_what_is_not_compared_is_listed_with_its_reason():
    result = replayed(WithDeclaration, neighbours=8)
    assert not result.refuted and not result.undecided
    assert result.left_out["progress"] == "private by contract: for the curator's own screen"
    assert result.left_out["save"] == "private by contract: the saved state has exact sums"
    assert result.left_out["restore()"] == "it needs arguments: data"
    assert "progress" not in result.surface and {
        "publish()",
        "assign()",
        "batch_size",
        "released()",
    } <= set(result.surface)
    assert any(
        "not compared: " in line and "progress (private by contract" in line
        for line in result.sentences()
    )
    assert result.to_json()["left_out"] == result.left_out


class HardToCompare(UCRLVTR):
    """Honest, but nobody can compare all that it shows."""

    def next_batch(self):
        batch = super().next_batch()
        policy = WithLog(batch.policy.actions, 2)
        object.__setattr__(policy, "log", threading.Lock())
        return Batch(policy, batch.users)

    @property
    def lock(self):
        return [threading.Lock()]

    def count(self):
        return itertools.count()

    def started(self):
        return self

    def summary(self, digits=2):
        return f"{1:.{digits}f}"

    async def later(self):
        await asyncio.sleep(1)

    @types.coroutine
    def later_than_this(self):
        yield

    def __getattr__(self, name):
        raise AttributeError(name)

    def __call__(self, state):
        return state

    def __repr__(self):
        return f"an agent like {super().__repr__()}"


def test_parts_that_cannot_be_compared_are_listed():
    result = replayed(HardToCompare, neighbours=8)
    assert not result.refuted and not result.undecided
    assert {
        "a lock in policies": "its content cannot be read",
        "a lock in lock": "its content cannot be read",
        "later elements of a count in count()": "only the first 1000 were compared",
        "summary() with other arguments": "it was called without digits",
        "a coroutine in later()": "it waits for something else",
        "__getattr__() with other arguments": "it was called with 'a_name_that_it_lacks' only",
        "__call__()": "it needs arguments: state",
    }.items() <= result.left_out.items()


def test_everything_that_a_service_asks_of_a_learner_is_compared():
    """Found in the service's code, so that a new call cannot be forgotten."""
    folder = Path(confide.__file__).parent / "service"
    read_names = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            of_learner = (
                isinstance(node, ast.Attribute)
                and getattr(node.value, "attr", getattr(node.value, "id", "")) == "learner"
            )
            read_names |= {node.attr} if of_learner else set()
    assert {
        "publish",
        "close",
        "released",
        "current_round",
        "batch_size",
        "decoded",
        "save",
    } <= read_names
    result = replayed(UCRLVTR, neighbours=4)
    compared = {name.removesuffix("()") for name in result.surface} | set(REPLAYED)
    assert {
        name
        for name in read_names - compared
        if f"{name}()" not in result.left_out and name not in result.left_out
    } == set()
    left_out = {
        name for name in read_names if name in result.left_out or f"{name}()" in result.left_out
    }
    assert left_out == {"contribution", "restore", "rng", "save"} - compared


@pytest.mark.parametrize("name", private_agents())
def test_all_agents_of_the_package_stand(name):
    result = Attacked(name, CentralDP(1.0, 1e-2)).replay(4)
    assert not result.refuted and not result.undecided
    assert len(result.surface) > 20 and "public attributes and methods" not in result.left_out


def test_a_draw_of_its_own_is_not_decided():
    result = replayed(OwnDraw)
    assert (
        not result.refuted
        and result.undecided
        and "draws noise of its own" in result.sentences()[-1]
    )
    assert "nothing was compared" in result.sentences()[0]


class Chatty(UCRLVTR):
    """Honest: prints something rare that has nothing to do with the data."""

    calls = 0

    def next_batch(self):
        Chatty.calls += 1
        if Chatty.calls % 37 == 0:
            print("slow")
        return super().next_batch()


def test_what_differs_without_the_data_is_not_refuted():
    result = replayed(Chatty)
    assert not result.refuted and "printed" in result.undecided


class Talkative(LocalClient):
    """A device that hides a raw state in the nonce of its message."""

    def report(self, trajectory):
        sent = Message.from_bytes(super().report(trajectory))
        nonce = sent.nonce[:-1] + bytes([int(trajectory.states[0, -1]) % 256])
        return Message(
            sent.generation, nonce, sent.channel, sent.values, sent.kind, sent.round
        ).to_bytes()


class Forgetful(LocalClient):
    """A device that stores what it saw, and sends it to nobody yet."""

    def report(self, trajectory):
        self.seen = int(trajectory.states[0, -1])
        return super().report(trajectory)

    def save(self):
        return super().save() + bytes([self.seen % 256])


def with_devices(device):
    class Server(UCRLVTR):
        def client(self):
            local = self._privatizer
            return device(
                self.algorithm, self.privacy, local.device_source(), channel=local.channel
            )

    return Server


@pytest.mark.parametrize("device", [Talkative, Forgetful])
def test_devices_that_say_more_than_their_message_are_refuted(device):
    result = replayed(with_devices(device), privacy=LOCAL)
    assert "messages" in channels(result)
    # The nonce of a talkative one also decides how its message is decoded.
    if device is Forgetful:
        assert channels(result) == {"messages"}
    assert not replayed(with_devices(LocalClient), privacy=LOCAL, neighbours=4).refuted


class Plain:
    """Not a learner: it counts the states where episodes end."""

    abilities = Abilities(noise=True, mechanisms=True)

    def __init__(self, public, *, episodes, privacy, noise, schedule):
        self.episodes, self.public = episodes, public
        self._bound = L2Ball(1.0, public.states)
        self._privatizer = CentralPrivatizer(self._bound, schedule, privacy=privacy, noise=noise)
        self.guarantee, self.noise = billboard(self._privatizer.guarantee), noise

    def mechanisms(self):
        return [self._privatizer.mechanism()]

    def plan(self, values):
        return np.tile((values > 0).astype(int), (self.public.horizon, 1))

    def next_batch(self):
        users, times = self._privatizer.users, self._privatizer.schedule.times
        released = self._privatizer.release()
        return Batch(
            TabularPolicy(self.plan(released.values), 2), times[released.generation] - users
        )

    def observe(self, users):
        ends = users.states[:, -1]
        ends = np.eye(self.public.states)[ends[ends >= 0]].sum(axis=0)
        self._privatizer.absorb(Bounded(ends, self._bound, users.users))


class Again(Plain):
    """The first user is in the place of the last one of every batch: absorbed several times."""

    _first = None

    def observe(self, users):
        states = users.states.copy()
        if self._first is not None:
            states[-1] = self._first
        else:
            self._first = states[0]
        super().observe(Trajectories(states, users.actions, users.rewards))


@pytest.mark.parametrize("kind", [InHiddenQuestions, Again])
def test_sums_that_move_by_more_than_one_user_are_refuted(kind):
    """Every channel shows the same bytes, and the stated loss would be exceeded."""
    result = replayed(kind, neighbours=2 * USERS)
    assert not result.differences and result.refuted and result.shift > 1.2
    assert "times as far apart as the stated loss allows" in result.sentences()[0]


class OwnNoise(Plain):
    """Draws noise itself: a replay cannot put another release in its place."""

    def plan(self, values):
        return super().plan(values + self.noise.gaussian(1.0, values.shape))


class Moody(Plain):
    """Plans at random, and not from a seed."""

    def plan(self, values):
        return np.random.default_rng().integers(2, size=(self.public.horizon, len(values)))


def test_agents_of_any_kind_can_be_replayed():
    result = replayed(Plain)
    assert (
        not result.refuted
        and not result.undecided
        and result.shift == pytest.approx(1 / np.sqrt(2), rel=1e-6)
    )


def test_what_cannot_be_decided_is_said():
    assert set(CHANNELS) <= set(replayed(OwnNoise).undecided)
    result = replayed(Moody)
    assert not result.refuted and result.undecided == ("policies",)
    assert any("NOT DECIDED for policies" in line for line in result.sentences())


def test_verdicts_hold_no_data():
    """What is said of a refuted agent names channels and positions."""
    record = replayed(InErrors).to_json()
    assert set(record["differences"][0]) == {"channel", "replaced", "served"}


def test_canonical_bytes():
    """Equal values have the same bytes; everything that a reader can tell apart has others."""

    def enclosing(value):
        return lambda state: state + value

    class Slotted:
        __slots__ = ("_y", "x")

        def __init__(self, x, y):
            self.x, self._y = x, y

    makers = [
        lambda: np.zeros(3),
        lambda: np.zeros((3, 1)),
        lambda: np.zeros(3, dtype=np.float32),
        lambda: np.array([None, 1], dtype=object),
        lambda: -0.0,
        lambda: 0.0,
        lambda: 0,
        lambda: {"b": 1, "a": {3, 1, 2}},
        lambda: {"b": 1, "a": {3, 1}},
        lambda: enclosing(1),
        lambda: enclosing(2),
        lambda: functools.partial(enclosing, 1),
        lambda: Slotted(1, 2),
        lambda: Slotted(1, 3),
        lambda: np.random.default_rng(0),
        lambda: np.random.default_rng(1),
        lambda: TabularPolicy(np.zeros((1, 2), dtype=int), 2),
        lambda: object,
    ]
    digests = [canonical(each()) for each in makers]
    assert len(set(digests)) == len(makers)
    assert digests == [canonical(each()) for each in makers]
    # Whoever prints a dict sees its order.
    assert canonical({"a": 1, "b": 2}) != canonical({"b": 2, "a": 1})
    assert canonical({8, 0}) == canonical({0, 8})
    cycle = []
    cycle.append(cycle)
    assert canonical(cycle) == canonical(cycle)


class Text(str):
    __slots__ = ("last",)

    def __repr__(self):
        return "a text"


class Box:
    """Its class is found by its name, and has what its instances do not have."""

    last = 0


def with_attribute(value, last):
    value.last = last
    return value


def with_class_attribute(last):
    Box.last = last
    return Box()


def with_text(function, text):
    function.__doc__ = text
    return function


def with_keyword(last):
    def function(*, state=last):
        return state

    return function


def with_default(last):
    return collections.defaultdict(lambda: last)


def error_after_another_one(last):
    try:
        try:
            raise ValueError(last)
        except ValueError:
            raise KeyError("a state")  # noqa: B904
    except KeyError as error:
        return error


def with_note(last):
    error = ValueError("a state")
    error.add_note(f"{last}")
    return error


def after_spawning(last):
    rng = np.random.default_rng(0)
    rng.spawn(1 + last)
    return rng


def not_writeable(last):
    array = np.zeros(3)
    array.flags.writeable = bool(last)
    return array


HIDING = {
    "order of a dict": lambda last: {last: 0, 1 - last: 0},
    "payload of a NaN": lambda last: struct.unpack("<d", bytes([last, 0, 0, 0, 0, 0, 248, 127]))[0],
    "rest of an array": lambda last: np.array([0, last])[:1],
    "rest of a buffer": lambda last: np.frombuffer(bytes([0, last]), dtype=np.uint8)[:1],
    "rest of a memoryview": lambda last: memoryview(bytes([0, last]))[:1],
    "order of an array": lambda last: np.zeros((3, 3), order="CF"[last]),
    "flag of an array": not_writeable,
    "notes of a type": lambda last: np.zeros(1, dtype=np.dtype("f8", metadata={"last": last})),
    "default of a dict": with_default,
    "an error before": error_after_another_one,
    "note of an error": with_note,
    "spawned generators": after_spawning,
    "text about a function": lambda last: with_text(lambda: 0, f"{last}"),
    "memoryview": lambda last: memoryview(bytes([last])),
    "keys": lambda last: {(io.BytesIO(bytes([last])),): 0}.keys(),
    "items": lambda last: {0: io.BytesIO(bytes([last]))}.items(),
    "deque": lambda last: collections.deque([lambda: last]),
    "class": lambda last: type("Shown", (), {"last": last}),
    "base class": lambda last: type("Shown", (type("Base", (), {"last": last}),), {})(),
    "method of a class": lambda last: type("Shown", (), {"act": lambda _: last})(),
    "class attribute": with_class_attribute,
    "module": lambda last: with_attribute(types.ModuleType("shown"), last),
    "text": lambda last: Text(f"{last}"),
    "slot of a text": lambda last: with_attribute(Text(), last),
    "attribute of a list": lambda last: with_attribute(type("Shown", (list,), {})(), last),
    "attribute of a function": lambda last: with_attribute(lambda: 0, last),
    "keyword of a function": with_keyword,
    "global of a function": lambda last: types.FunctionType((lambda: Box).__code__, {"Box": last}),
    "inner function": lambda last: eval(f"lambda: lambda: {last}"),
    "method of a list": lambda last: [last].append,
    "argument of an error": lambda last: with_attribute(ValueError(last), 0),
    "weak reference": lambda last: weakref.ref(KEPT[last]),
    "structured array": lambda last: np.zeros(1, dtype=[(f"state {last}", int)]),
    "iterator": lambda last: iter([lambda: last]),
    "zip": lambda last: zip([0, 0], [lambda: 0, lambda: last], strict=True),
    "generator that fails": lambda last: (1 // each for each in [1, 1 - last]),
    "random numbers": lambda last: random.Random(last),
}
KEPT = [{0}, {1}]


@pytest.mark.parametrize("name", HIDING)
def test_values_that_hide_their_content_are_told_apart(name):
    unread = {}
    zero, one = (canonical(HIDING[name](last), unread) for last in (0, 1))
    assert zero != one and not unread
    assert zero == canonical(HIDING[name](0)) and one == canonical(HIDING[name](1))


def test_a_function_that_remembers_its_calls_is_listed():
    """An answer from the cache takes less time, and the cache cannot be read."""
    unread = {}
    remembering = functools.lru_cache(lambda state: state)
    canonical(remembering, unread)
    assert not unread
    remembering(7)
    canonical(remembering, unread)
    assert list(unread.values()) == ["its content cannot be read"]


def test_an_iterator_that_can_be_copied_is_left_where_it_is():
    numbers = itertools.count()
    canonical(numbers)
    assert next(numbers) == 0


@pytest.mark.parametrize("neighbours", [0, -1, 1.5, True])
def test_bad_numbers_of_neighbours_are_refused(neighbours):
    with pytest.raises(InvalidParameter, match="neighbours must be"):
        replayed(UCRLVTR, neighbours=neighbours)


def test_a_certificate_quotes_a_replay_and_a_refuted_agent_is_not_run():
    """The library's own agents need no such lines.

    A class of somebody's own is on trust, whatever was tested.
    """
    for kind, foreign in ((UCRLVTR, False), (Raw, True)):
        agent = kind(LOCK.public, episodes=USERS, privacy=JOINT)
        certificate = run(
            agent, LOCK, counts=False, audited=replayed(kind, neighbours=4)
        ).certificate
        verify(certificate)
        assert any(
            "4 neighbouring data sets" in sentence for sentence in certificate.document["checked"]
        )
        assert ("on_trust" in certificate.document) == foreign
        assert (
            any(
                "Raw is not part of confide" in sentence for sentence in taken_on_trust(certificate)
            )
            == foreign
        )
    with pytest.raises(PrivacyError, match="was refuted: replay"):
        run(
            InPolicies(LOCK.public, episodes=USERS, privacy=JOINT),
            LOCK,
            audited=replayed(InPolicies),
        )
