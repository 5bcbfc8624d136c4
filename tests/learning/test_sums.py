"""Batches from outside: a service adds up contributions itself, and the learner gets the sum."""

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import confide
from confide.agents import (
    LDPOBI,
    LSVIUCB,
    PUCB,
    UCBPO,
    UCBVI,
    UCRLVTR,
    CertaintyEquivalentLQ,
    LikelihoodVI,
    LinOptPO,
    LinOptVI,
    LinTS,
    LinUCB,
    NextStateVI,
    QuestionsVI,
    TabularPSRL,
    ThompsonLQ,
    UCRLVTRPlus,
)
from confide.errors import InvalidParameter, PrivacyError, StaleMessage, StateError, StreamExhausted
from confide.mechanisms.sources import noise_source
from confide.mechanisms.state import StateFile
from confide.problems import linear_bandit, lock, one_hot, oscillator, riverswim

JOINT = confide.JointDP(1.0, 1e-5)
LOCAL = confide.LocalDP(2.0, delta=0.0)
WORLDS = {
    **dict.fromkeys((UCRLVTR, UCRLVTRPlus, LinOptVI, LinOptPO, LikelihoodVI, QuestionsVI), lock(0)),
    NextStateVI: one_hot(),
    **dict.fromkeys((LinTS, LinUCB), linear_bandit(seed=0)),
    **dict.fromkeys((TabularPSRL, PUCB, UCBVI, UCBPO, LDPOBI), riverswim()),
    **dict.fromkeys((ThompsonLQ, CertaintyEquivalentLQ), oscillator()),
}


def make_agent(kind=LikelihoodVI, privacy=JOINT, seed=0, episodes=100_000):
    world = WORLDS.get(kind, one_hot())
    return kind(world.public, episodes=episodes, privacy=privacy, noise=noise_source("fast", seed))


def players(agent, users, seed=0):
    rng = np.random.default_rng(seed)
    world = WORLDS[type(agent)]
    return [
        world.sample(agent.assign(int(rng.integers(2**62)) << 66).policy, 1, rng)
        for _ in range(users)
    ]


@pytest.mark.parametrize("kind", WORLDS, ids=lambda kind: kind.name)
def test_a_sum_gives_the_release_of_its_users(kind):
    """The bytes are the same if users come one by one, or as the exact sum of contributions."""
    one = make_agent(kind)
    other = make_agent(kind)
    for users in (3, 0, 4):
        came = players(one, users, seed=users)
        total = sum(
            (
                other.contribution(each).steps
                for each in reversed(players(other, users, seed=users))
            ),
            start=0,
        )
        total = (
            total
            if users
            else np.zeros(
                other.current_round().statistic.contribution(players(other, 1)[0]).values.size
            )
        )
        for each in came:
            one.observe(each)
        one.close()
        other.close(total, users)
        assert one.publish() == other.publish()
    assert one.users == other.users == 7


@pytest.mark.parametrize("kind", [LikelihoodVI, QuestionsVI], ids=lambda kind: kind.name)
def test_a_sum_of_messages_is_that_of_the_devices(kind):
    server = make_agent(kind, LOCAL)
    other = make_agent(kind, LOCAL)
    clients = [server.client() for _ in range(5)]
    rng = np.random.default_rng(0)
    messages = [
        client.report(WORLDS[kind].sample(client.plan(server.released()), 1, rng))
        for client in clients
    ]
    total = sum(other.decoded(message) for message in messages[::-1])
    for message in messages:
        server.absorb(message)
    server.close()
    other.close(total, 5)
    step = other.algorithm.bound.grid if kind is LikelihoodVI else 2.0**-25
    np.testing.assert_allclose(other.released().values, server.released().values, atol=5 * step)
    assert other.users == 5
    with pytest.raises(StaleMessage):
        other.decoded(messages[0])
    with pytest.raises(InvalidParameter):
        other.decoded(messages[0][:-1])


def test_a_sum_may_be_larger_than_planned_but_not_than_the_guarantee():
    agent = make_agent(episodes=100)
    size = agent.algorithm.bound.size
    assert agent.batch_size == 30
    agent.close(np.zeros(size), 40)
    assert agent.users == 40
    with pytest.raises(StreamExhausted, match="100 users"):
        agent.close(np.zeros(size), 61)
    agent.close(np.zeros(size), 60)
    assert agent.users == 100 and agent.batch_size == 0


@pytest.mark.parametrize(
    "kind", [LikelihoodVI, QuestionsVI, UCRLVTR, TabularPSRL], ids=lambda kind: kind.name
)
@pytest.mark.parametrize("users", [1, 3])
def test_a_sum_that_nobody_could_have_contributed_is_clipped(kind, users):
    """An error would say something about the people in it.

    The release is that of the clipped sum.
    """
    agent = make_agent(kind)
    size = agent.current_round().statistic.contribution(players(agent, 1)[0]).values.size
    agent.close(np.full(size, -(2**60)), users)
    assert agent.released().generation == 1 and agent.users == users


def test_a_sum_of_another_shape_is_refused():
    agent = make_agent()
    size = agent.algorithm.bound.size
    for wrong, users in ((np.zeros(size + 1), 3), (np.zeros(size), -1), (np.full(size, 0.5), 1)):
        with pytest.raises(InvalidParameter):
            agent.close(wrong, users)
    with pytest.raises(InvalidParameter, match="total"):
        agent.close(users=3)
    local = make_agent(privacy=LOCAL)
    with pytest.raises(InvalidParameter, match="zero users"):
        local.close(np.ones(size), 0)
    assert agent.released().generation == local.released().generation == 0  # and both go on
    agent.close(np.zeros(size), 3)


def test_users_come_one_by_one_or_as_a_sum():
    agent = make_agent()
    agent.observe(players(agent, 1)[0], generation=0)
    with pytest.raises(StateError, match="open batch"):
        agent.close(np.zeros(agent.algorithm.bound.size), 3)


def test_learners_that_look_again_take_no_sums():
    agent = make_agent(LSVIUCB)
    assert not agent.abilities.sums
    with pytest.raises(PrivacyError, match="see its users again"):
        agent.close(np.zeros(agent.algorithm.bound.size), 3)
    with pytest.raises(PrivacyError, match="carries almost no noise"):
        make_agent(privacy=confide.DistributedDP(1.0, 1e-5)).decoded(b"x")


@pytest.mark.process
def test_another_process_is_refused_until_the_first_one_has_ended(tmp_path):
    code = textwrap.dedent("""
        import sys
        from confide.mechanisms.state import StateFile
        StateFile(sys.argv[1]).hold()
        print("held", flush=True)
        sys.stdin.read()
    """)
    command = [sys.executable, "-c", code, str(tmp_path / "state")]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as first:
        assert first.stdout.readline() == "held\n"
        with pytest.raises(StateError, match="another process"):
            make_agent().keep(tmp_path / "state")
        first.kill()
    agent = make_agent()
    agent.keep(StateFile(tmp_path / "state"))
    agent.close()
    with pytest.raises(InvalidParameter, match="StateStore"):
        make_agent().keep(3)


@pytest.mark.parametrize("total", [["7654321"], [7654321.5], [7654321, None], [7654321e9]])
def test_an_error_about_a_sum_does_not_quote_it(total):
    agent = make_agent()
    agent.next_batch()
    with pytest.raises(InvalidParameter, match="total must be an array") as refused:
        agent.close(total, 1)
    assert "7654321" not in str(refused.value)
    assert refused.value.got is None
