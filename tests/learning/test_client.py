"""A device: one user, one message, whatever the user did and whoever asks."""

import builtins
import dataclasses
import gc
import os
import pickle
import sys
import threading

import numpy as np
import pytest

import confide
from confide.agents import UCRLVTR, LocalClient
from confide.errors import AnotherRound, InvalidParameter, MissingExtra, PrivacyError, StateError
from confide.identity import Identity
from confide.learning.algorithm import Calibration, Round
from confide.learning.learner import Learner
from confide.mechanisms.sources import noise_source
from confide.policy import StochasticPolicy, TabularPolicy
from confide.privacy.bounded import L2Ball
from confide.privatizers import Message, geometric
from confide.problems import lock
from confide.trajectory import Trajectories

LOCK = lock(0)
PRIVACY = confide.LocalDP(4.0, 1e-6)
H = LOCK.horizon


def server(seed=0, episodes=100, privacy=PRIVACY):
    return UCRLVTR(
        LOCK.public, episodes=episodes, privacy=privacy, noise=noise_source("fast", seed)
    )


def episode(seed=0):
    return LOCK.sample(LOCK.optimal_policy, 1, np.random.default_rng(seed))


def ready(learner):
    client = learner.client()
    client.plan(learner.released())
    return client


def test_a_round_trip():
    learner = server()
    client = learner.client()
    policy = client.plan(learner.released())
    message = client.report(LOCK.sample(policy, 1, np.random.default_rng(0)))
    learner.absorb(message)
    assert learner.users == 1
    assert client.guarantee.trust is confide.Trust.LOCAL
    # a codebook: pure
    assert str(learner.guarantee).startswith(
        "LocalDP(epsilon=4, delta=0), replace one user, 100 users"
    )
    with pytest.raises(InvalidParameter, match="absorbed before"):
        learner.absorb(message)
    with pytest.raises(InvalidParameter, match="not a message"):
        learner.absorb(b"\x80\x04K\x01.")
    assert learner.users == 1


def test_asked_again_it_returns_the_same_bytes():
    learner = server()
    client = ready(learner)
    sent = client.report(episode(0))
    assert client.report(episode(0)) == client.report(episode(1)) == sent
    while learner.released().generation == 0:
        learner.absorb(ready(learner).report(episode(2)))
    client.plan(learner.released())
    assert client.report(episode(3)) == sent
    with pytest.raises(InvalidParameter, match="stale"):
        learner.absorb(sent)


class OtherProcessor:
    """An algorithm that plans another round from the same release, as other kernels of BLAS may
    make it.
    """

    def __init__(self, algorithm, change):
        self._algorithm = algorithm
        self._change = change

    def __getattr__(self, name):
        return getattr(self._algorithm, name)

    def plan(self, released):
        planned = self._algorithm.plan(released)
        return dataclasses.replace(planned, policies=tuple(map(self._change, planned.policies)))


def test_a_message_that_answers_another_round_is_refused():
    """And the same round is accepted although its last bits differ."""
    learner = server()
    other = OtherProcessor(
        learner.algorithm,
        lambda policy: TabularPolicy((policy.actions + 1) % policy.choices, policy.choices),
    )
    client = LocalClient(other, PRIVACY, noise_source("fast", 7))
    client.plan(learner.released())
    message = client.report(episode())
    for take in (learner.absorb, learner.decoded):
        with pytest.raises(
            AnotherRound, match="another round than the one that this server planned"
        ):
            take(message)
    assert learner.users == 0
    same = ready(learner).report(episode())
    assert (
        Message.from_bytes(same).round
        == learner.current_round().digest
        != Message.from_bytes(message).round
    )
    learner.absorb(same)
    assert learner.users == 1


def test_the_digest_of_a_round_leaves_out_last_bits_and_nothing_else():
    rng = np.random.default_rng(0)
    weights = rng.dirichlet(np.ones(4), size=(3, 5))

    class Statistic:
        def __init__(self, table):
            self.table = table

        def tables(self):
            return [self.table]

    def digest(table=weights, policy=weights, shares=(0.25, 0.75)):
        policies = (StochasticPolicy(policy), TabularPolicy(np.zeros((2, 2), dtype=int), 2))
        return Round(policies, Statistic(table), shares=shares).digest

    assert digest(table=weights * (1 + 1e-15)) == digest() == digest(policy=weights * (1 - 1e-15))
    assert digest(table=weights * (1 + 1e-4)) != digest()
    assert digest(table=-weights) != digest() != digest(table=weights[:, :4])
    assert digest(policy=weights[:, ::-1]) != digest() != digest(shares=(0.75, 0.25))


def test_two_threads_get_one_message():
    client = ready(server())
    seen = []
    threads = [
        threading.Thread(target=lambda i=i: seen.append(client.report(episode(i))))
        for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(seen)) == 1


@pytest.mark.process
def test_a_device_without_a_store_refuses_after_a_fork():
    client = ready(server())
    child = os.fork()
    if child == 0:
        status = 1
        try:
            client.report(episode())
        except PrivacyError as error:
            status = 17 if "copied by a fork" in str(error) else 1
        finally:
            os._exit(status)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
    assert client.report(episode()) == client.report(episode(1))


def odd_episodes():
    nan = np.full((1, H), np.nan)
    whole = np.zeros((1, H))
    yield Trajectories(np.full((1, H + 1), -1), np.full((1, H), 10**9), nan)
    yield Trajectories(np.full((1, H + 1), np.nan), np.full((1, H), np.inf), nan)
    yield Trajectories(np.full((1, H + 1), "home"), np.full((1, H), None), whole)
    yield Trajectories(np.zeros((1, 3)), np.zeros((1, 2)), np.zeros((1, 2)))  # broken off
    yield Trajectories(np.zeros((1, H + 8)), np.zeros((1, H + 7)), np.zeros((1, H + 7)))
    yield Trajectories(np.zeros((1, H + 1, 2, 3)), np.zeros((1, H, 4)), whole)


@pytest.mark.parametrize("trajectory", list(odd_episodes()))
def test_whatever_a_user_did_the_message_looks_the_same(trajectory, capfd):
    odd = Message.from_bytes(ready(server(1)).report(trajectory))
    usual = Message.from_bytes(ready(server(1)).report(episode()))
    assert (len(odd.to_bytes()), odd.generation, odd.nonce) == (
        len(usual.to_bytes()),
        usual.generation,
        usual.nonce,
    )
    assert odd.kind == usual.kind == "index" and 0 <= odd.values[0] < 1024
    assert capfd.readouterr() == ("", "")


def test_a_hostile_release_cannot_move_the_bound():
    """The promise does not rest on what the server sends to be planned with."""
    learner = server()
    released = learner.released()
    for values in (np.full_like(released.values, 1e300), -np.full_like(released.values, 1e12)):
        silent = server(5).client()
        loud = server(5).client()
        for client in (silent, loud):
            try:
                client.plan(dataclasses.replace(released, values=values))
            except (ValueError, ArithmeticError, np.linalg.LinAlgError):
                client.plan(released)
        empty = Trajectories(np.full((1, H + 1), -1), np.full((1, H), -1), np.zeros((1, H)))
        one, other = (
            Message.from_bytes(c.report(t)) for c, t in ((silent, empty), (loud, episode()))
        )
        assert (
            len(one.to_bytes()) == len(other.to_bytes())
            and one.channel == other.channel == learner.client().channel.id
        )
    with pytest.raises(InvalidParameter, match="a release must have"):
        learner.client().plan(dataclasses.replace(released, values=np.zeros(3)))


def test_what_is_no_report_is_refused():
    learner = server()
    with pytest.raises(InvalidParameter, match="call plan first"):
        learner.client().report(episode())
    with pytest.raises(InvalidParameter, match="exactly one user"):
        ready(learner).report(LOCK.sample(LOCK.optimal_policy, 2, np.random.default_rng(0)))
    with pytest.raises(InvalidParameter, match="exactly one user"):
        ready(learner).report(None)
    with pytest.raises(InvalidParameter, match="another guarantee"):
        LocalClient(
            learner.algorithm,
            confide.LocalDP(1.0, delta=0.0),
            noise_source("fast", 0),
            channel=learner._privatizer.channel,
        )
    with pytest.raises(PrivacyError, match="copied or pickled"):
        pickle.dumps(learner.client())


def test_no_way_leads_from_a_device_to_its_server():
    learner = server()
    client = ready(learner)
    client.report(episode())
    secrets = {
        id(learner),
        id(learner._privatizer),
        id(learner._privatizer._messages.source),
        id(learner.noise),
    }
    assert not secrets & reachable(client)
    client.leak = learner.observe
    assert secrets & reachable(client)


def reachable(start):
    modules = {id(vars(module)) for module in sys.modules.values() if module is not None}
    seen = set()
    queue = [start]
    while queue:
        one = queue.pop()
        if id(one) not in seen | modules and not isinstance(one, type):
            seen.add(id(one))
            queue += gc.get_referents(one)
    return seen


def test_devices_of_one_server_differ_and_are_reproducible():
    learner = server(3)
    again = server(3)
    one, other = (ready(learner).report(episode()) for _ in range(2))
    assert one != other
    assert [ready(again).report(episode()) for _ in range(2)] == [one, other]


def test_a_device_that_restarts_sends_the_same_bytes(tmp_path):
    learner = server()
    first = LocalClient(
        learner.algorithm, PRIVACY, noise_source("fast", 1), store=tmp_path / "device"
    )
    first.plan(learner.released())
    sent = first.report(episode())
    second = LocalClient(
        learner.algorithm, PRIVACY, noise_source("fast", 2), store=tmp_path / "device"
    )
    assert second.report(episode(4)) == sent  # even before it has planned
    third = LocalClient(learner.algorithm, PRIVACY, noise_source("fast", 3))
    third.restore(first.save())
    assert third.report(episode(5)) == sent
    with pytest.raises(StateError, match="another message"):
        third.restore(_reported(learner).save())
    with pytest.raises(StateError, match="already released"):
        third.restore(learner.client().save())  # of a device that has not sent yet
    with pytest.raises(StateError, match="another guarantee"):
        LocalClient(
            learner.algorithm, confide.LocalDP(1.0, delta=0.0), noise_source("fast", 3)
        ).restore(first.save())


def _reported(learner):
    client = ready(learner)
    client.report(episode())
    return client


def test_devices_that_share_a_store_send_one_message(tmp_path):
    learner = server()
    twins = [
        LocalClient(learner.algorithm, PRIVACY, noise_source("fast", i), store=tmp_path / "device")
        for i in range(2)
    ]
    for client in twins:
        client.plan(learner.released())
    sent = twins[0].report(episode())
    assert twins[1].report(episode(1)) == sent  # read from the store, and not drawn again


def test_without_noise_a_device_is_secure_or_nothing(monkeypatch):
    learner = UCRLVTR(LOCK.public, episodes=100, privacy=PRIVACY)
    assert learner.client().guarantee.source == "secure"
    assert LocalClient(learner.algorithm, PRIVACY).guarantee.source == "secure"
    learner.absorb(ready(learner).report(episode()))
    true_import = builtins.__import__

    def missing(name, *rest):
        if name.startswith("opendp"):
            raise ImportError(name)
        return true_import(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(MissingExtra, match="secure noise needs OpenDP"):
        LocalClient(learner.algorithm, PRIVACY)
    with pytest.raises(MissingExtra, match="secure noise needs OpenDP"):
        UCRLVTR(LOCK.public, episodes=100, privacy=PRIVACY).client()


class TwoPolicies:
    """Two policies at a time; users contribute where they ended."""

    bound = L2Ball(1.0, 3)

    def plan(self, released):
        policies = tuple(TabularPolicy(np.full((2, 3), a), 2) for a in range(2))
        return Round(policies, self, memory={"seen": np.array(released.generation)})

    def contribution(self, users):
        return self.bound.clip(np.eye(3)[users.states[0, -1]])


def test_each_policy_serves_an_equal_share():
    """Of 400 devices between 150 and 250 play the first policy but for 5e-7."""
    learner = Learner(
        Calibration(TwoPolicies(), geometric(500)),
        privacy=PRIVACY,
        identity=Identity("two policies"),
        noise=noise_source("fast", 0),
    )
    chosen = []
    for _ in range(400):
        client = learner.client()
        chosen.append(client.plan(learner.released()).actions[0, 0])
        assert client.plan(learner.released()).actions[0, 0] == chosen[-1]
        client.report(Trajectories(np.zeros((1, 3), dtype=int), np.zeros((1, 2)), np.zeros((1, 2))))
    assert 150 < sum(chosen) < 250
