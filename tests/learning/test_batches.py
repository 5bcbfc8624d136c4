"""Batches that close when somebody decides so in public, and users who are served one by one."""

import math
from collections import Counter as Tally

import numpy as np
import pytest

import confide
from confide.agents import (
    LSVIUCB,
    UCRLVTR,
    CertaintyEquivalentLQ,
    LikelihoodVI,
    LinOptPO,
    LinOptVI,
    NextStateVI,
    QuestionsVI,
    ThompsonLQ,
    UCRLVTRPlus,
)
from confide.audit.verify import verify
from confide.errors import InvalidParameter, PrivacyError, StaleMessage, StateError, StreamExhausted
from confide.mechanisms.sources import noise_source
from confide.privacy.certificate import certify
from confide.problems import lock, one_hot, oscillator

PRIVATE = confide.JointDP(1.0, 1e-5)
WORLDS = {
    UCRLVTR: lock(0),
    UCRLVTRPlus: lock(0),
    LinOptVI: lock(0),
    LinOptPO: lock(0),
    LikelihoodVI: lock(0),
    QuestionsVI: lock(0),
    NextStateVI: one_hot(),
    LSVIUCB: one_hot(),
    ThompsonLQ: oscillator(),
    CertaintyEquivalentLQ: oscillator(),
}


def make_agent(kind=LikelihoodVI, episodes=1000, privacy=PRIVATE, seed=0):
    return kind(
        WORLDS[kind].public, episodes=episodes, privacy=privacy, noise=noise_source("fast", seed)
    )


def serve(agent, users, seed=0):
    """One by one, each with a policy of their own draw and the generation it was planned with."""
    world = WORLDS[type(agent)]
    rng = np.random.default_rng(seed)
    for _ in range(users):
        given = agent.assign(int(rng.integers(2**62)) << 66)
        agent.observe(world.sample(given.policy, 1, rng), generation=given.generation)


@pytest.mark.parametrize("kind", WORLDS, ids=lambda kind: kind.name)
def test_a_batch_closes_at_any_size(kind):
    """Planners know how many reported; nobody at all is a size, too."""
    agent = make_agent(kind, episodes=100_000)
    seen = 0
    for users in (3, 0, 5):
        before = agent.released().generation
        serve(agent, users, seed=users)
        agent.close()
        seen += users
        assert (agent.users, agent.released().users, agent.released().generation) == (
            seen,
            seen,
            before + 1,
        )
        assert math.isfinite(float(np.sum(agent.released().values)))
    assert verify(certify(agent.guarantee, agent.mechanisms(), subject="by hand"))


@pytest.mark.parametrize(
    "privacy",
    [
        PRIVATE,
        confide.JointDP(1.0, delta=0.0),
        confide.LocalDP(2.0, delta=0.0),
        confide.NoPrivacy(),
    ],
    ids=str,
)
def test_what_is_left_of_the_schedule_is_a_limit(privacy):
    """As many releases as the schedule has, whatever their size; then no more."""
    agent = make_agent(privacy=privacy)
    for _ in range(agent.schedule.leaves):
        agent.close()
    assert agent.released().generation == agent.schedule.leaves and agent.users == 0
    for again in (agent.close, agent.next_batch):
        with pytest.raises(StreamExhausted):
            again()
    # a refused call leaves it as it was
    assert agent.released().generation == agent.schedule.leaves


def test_batches_keep_their_sizes_after_one_that_closed_early():
    agent = make_agent()
    planned = [agent.schedule.size(generation) for generation in range(3)]
    serve(agent, 4)
    agent.close()
    assert agent.next_batch().users <= planned[1]
    serve(agent, planned[1] - 1)
    assert agent.released().generation == 1
    serve(agent, 1, seed=1)
    assert agent.released().generation == 2 and agent.users == 4 + planned[1]


def test_users_who_were_served_with_another_release_are_refused():
    agent = make_agent()
    world = WORLDS[LikelihoodVI]
    late = agent.assign()
    serve(agent, 5)
    agent.close()
    users = world.sample(late.policy, 1, np.random.default_rng(0))
    with pytest.raises(StaleMessage, match="served with release 0, the current one is 1"):
        agent.observe(users, generation=late.generation)
    assert agent.users == 5
    with pytest.raises(InvalidParameter, match="generation"):
        agent.observe(users, generation=-1)


def test_policies_are_drawn_by_their_shares_and_not_by_order_of_arrival():
    """2000 draws of a round with shares: each within 5 standard deviations.

    The same number gives the same policy.
    """
    agent = make_agent(episodes=20_000)
    serve(agent, 30)
    current = agent.current_round()
    drawn = Tally(id(agent.assign().policy) for _ in range(2000))
    shares = np.array(current.shares) / sum(current.shares)
    for policy, share in zip(current.policies, shares, strict=True):
        assert (
            abs(drawn[id(policy)] - 2000 * share) <= 5 * math.sqrt(2000 * share * (1 - share)) + 1
        )
    assert agent.assign(7 << 120).policy is agent.assign(7 << 120).policy
    for wrong in (-1, 2**128, 0.5):
        with pytest.raises(InvalidParameter, match="number"):
            agent.assign(wrong)


def test_the_release_of_a_batch_that_closed_early_has_the_same_noise():
    """What leaves is the sum of those who reported, with the noise of a full batch: 300 releases,
    variance within 4 s.e.
    """
    noise = []
    for seed in range(300):
        agent = make_agent(seed=seed)
        agent.close()
        noise.append(agent.released().values / agent.released().noise.std)
    assert np.var(noise) == pytest.approx(1.0, abs=4 * math.sqrt(2 / np.size(noise)))


def test_a_saved_state_knows_that_a_batch_closed_early():
    for privacy in (PRIVATE, confide.LocalDP(2.0, delta=0.0)):
        agent = make_agent(privacy=privacy)
        if privacy is PRIVATE:
            serve(agent, 4)
        agent.close()
        agent.close()
        other = make_agent(privacy=privacy, seed=1)
        other.restore(agent.save(), released=2)
        assert other.released().generation == 2 and other.users == agent.users
        np.testing.assert_array_equal(other.released().values, agent.released().values)
        assert other.next_batch().users == agent.next_batch().users


def test_a_round_of_devices_that_closes_early_has_the_noise_of_its_messages():
    """Under LocalDP the server adds nothing; messages of the closed round are stale, and their
    nonces forgotten.
    """
    agent = make_agent(QuestionsVI, episodes=100_000, privacy=confide.LocalDP(1.0, delta=0.0))
    client = agent.client()
    rng = np.random.default_rng(0)
    message = client.report(WORLDS[QuestionsVI].sample(client.plan(agent.released()), 1, rng))
    agent.absorb(message)
    sent = agent._privatizer._open_sum.copy()
    agent.close()
    released = agent.released()
    np.testing.assert_array_equal(released.values, sent)
    assert released.noise.distribution == "signs" and (released.users, released.generation) == (
        1,
        1,
    )
    with pytest.raises(StaleMessage):
        agent.absorb(message)
    agent.close()  # with nobody
    assert math.isfinite(float(agent.released().values.sum())) and agent.released().users == 1


def test_questions_say_how_many_users_answered():
    agent = make_agent(QuestionsVI, episodes=100_000, privacy=confide.JointDP(1.0, delta=0.0))
    planned = agent.questions()[0]
    serve(agent, 3)
    agent.close()
    first = agent.questions()[0]
    later = agent.questions()[-1]
    assert (planned.users > 3, first.users, later.first) == (True, 3, 4)
    assert first.expected == pytest.approx(planned.expected * 3 / planned.users)
    for _ in range(agent.schedule.leaves - 1):
        agent.close()
    assert len(agent.questions()) > 1  # also when no release is left


def test_after_a_restart_a_report_is_taken_at_once():
    agent = make_agent()
    serve(agent, 4)
    agent.close()
    given = agent.assign()
    other = make_agent(seed=1)
    other.restore(agent.save(), released=1)
    other.observe(
        WORLDS[LikelihoodVI].sample(given.policy, 1, np.random.default_rng(0)),
        generation=given.generation,
    )
    assert other.users == 5


def test_a_distributed_batch_is_closed_by_its_devices():
    agent = make_agent(privacy=confide.DistributedDP(1.0, 1e-5))
    with pytest.raises(PrivacyError, match="absorb_sum"):
        agent.close()
    assert agent.released().generation == 0


def test_a_store_that_fails_stops_the_release(tmp_path, monkeypatch):
    agent = make_agent()
    agent.keep(tmp_path / "state")
    serve(agent, 3)

    def full(_data):
        raise OSError("no space left")

    monkeypatch.setattr(agent._store, "write", full)
    with pytest.raises(OSError, match="no space"):
        agent.close()
    with pytest.raises(StateError, match="must not be published"):
        agent.released()
