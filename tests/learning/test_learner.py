"""What all learners share: stores, settings, and what is refused."""

import copy
import dataclasses
import os
import pickle

import numpy as np
import pytest

import confide
from confide.agents import LSVIUCB, OFULQ, UCRLVTR, LikelihoodVI, NextStateVI, ThompsonLQ
from confide.audit.verify import verify
from confide.errors import InvalidParameter, PrivacyError, StateError
from confide.learning.client import LocalClient
from confide.mechanisms.sources import noise_source
from confide.mechanisms.state import StateFile
from confide.mixtures.likelihood_memory import ROUNDS
from confide.mixtures.likelihood_vi import POLICIES
from confide.privacy.certificate import certify
from confide.problems import lock, one_hot, oscillator
from confide.trajectory import TransitionCounts

LOCK = lock(0)
PRIVATE = confide.JointDP(1.0, 1e-5)
LOCAL = confide.LocalDP(4.0, 1e-6)


def learner(seed=0, kind=LikelihoodVI, privacy=PRIVATE, episodes=200, **more):
    return kind(
        LOCK.public, episodes=episodes, privacy=privacy, noise=noise_source("fast", seed), **more
    )


def serve(agent, users, seed=0):
    """The next `users` users, one at a time."""
    world = LOCK.sample(LOCK.optimal_policy, users, np.random.default_rng(seed))
    for i in range(users):
        agent.next_batch()
        agent.observe(world[i : i + 1])


def test_a_store_has_every_release_before_it_can_be_read(tmp_path):
    agent = learner()
    agent.keep(tmp_path / "state")
    serve(agent, 45)
    assert StateFile(tmp_path / "state").generation() == agent.released().generation == 2
    other = learner(seed=1)
    other.keep(tmp_path / "state")
    np.testing.assert_array_equal(other.released().values, agent.released().values)
    assert other.users == 39  # the users of the open round are not in it
    serve(other, 20)
    # and nobody else goes on from the same state
    with pytest.raises(StateError, match="already written"):
        serve(agent, 20)
    with pytest.raises(StateError, match="must not be published"):
        agent.released()
    with pytest.raises(StateError, match="must not be published"):
        agent.save()


@pytest.mark.process
def test_a_fork_with_users_does_not_go_on():
    """Both processes would release the same users with other noise."""
    agent = learner()
    agent.next_batch()  # before there are users, a fork may go on
    for data_first in (False, True):
        if data_first:
            serve(agent, 5)
        assert served_by_a_fork(agent) == (17 if data_first else 16)
    serve(agent, 5)
    # Nor does a fork of an agent that has its users from a saved state.
    restored = learner()
    restored.restore(agent.save(), released=agent.released().generation)
    assert served_by_a_fork(restored) == 17
    serve(restored, 5)


def served_by_a_fork(agent):
    """How a forked process ends that serves users: 16 if it could, 17 if it was refused."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            serve(agent, 5)
            status = 16
        except StateError as error:
            status = 17 if "a fork copied this agent" in str(error) else 1
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, pickle.dumps], ids=lambda each: each.__name__
)
def test_an_agent_cannot_be_copied(duplicate):
    with pytest.raises(PrivacyError, match="an agent cannot be copied"):
        duplicate(learner())


def test_a_store_is_chosen_once_and_in_time(tmp_path):
    agent = learner()
    serve(agent, 1)
    with pytest.raises(StateError, match="chosen once"):
        agent.keep(tmp_path / "late")


def test_a_state_of_another_problem_is_refused():
    other = lock(1, actions=3)
    agent = LikelihoodVI(other.public, episodes=200, privacy=PRIVATE, noise=noise_source("fast", 0))
    with pytest.raises(StateError, match="another problem"):
        agent.restore(learner().save(), released=0)


def test_certificates_say_that_users_were_counted():
    agent = learner(kind=UCRLVTR)
    agent.observe(LOCK.count(agent.next_batch().policy, 30, np.random.default_rng(0)))
    certificate = certify(agent.guarantee, agent.mechanisms(), subject="by hand")
    verify(certificate)
    assert "simulated: 30 users" in certificate.document["mechanisms"][0]["query"]


@pytest.mark.parametrize("kind", [UCRLVTR, LikelihoodVI])
def test_counts_are_of_users_with_one_transition_per_step(kind):
    def counts(count, users=1):
        n = len(count)
        zeros = np.zeros(n, dtype=np.int64)
        rewards = np.zeros(n)
        return TransitionCounts(zeros, zeros, zeros, zeros, rewards, np.array(count), users, 5)

    for wrong in ([2], [1, 1], [1, -1], [1, 2**63 - 1]):
        agent = learner(kind=kind)
        agent.next_batch()
        with pytest.raises(InvalidParameter, match="at most one"):
            agent.observe(counts(wrong))
    agent = learner(kind=kind)
    agent.next_batch()
    agent.observe(counts([1, 2], users=3))


HOSTILE = {
    "an action that does not exist": {"shown": np.full((4, 5, 20), 1000)},
    "a negative one": {"shown": np.full((4, 5, 20), -50)},
    "another type": {"shown": np.zeros((4, 5, 20))},
    "another shape": {"earlier": np.zeros((4, 20, 3))},
    "too many rounds": {
        "policies": np.zeros((ROUNDS * (POLICIES + 1) + 1, 5, 20), dtype=np.int64),
        "users": np.ones(ROUNDS * (POLICIES + 1) + 1),
    },
    "infinitely many users": {
        "policies": np.zeros((1, 5, 20), dtype=np.int64),
        "users": np.array([np.inf]),
    },
    "users who are not there yet": {"total": np.array(31)},
    "a share that is no number": {"shares": np.array([1.0, np.nan, 1.0, 1.0])},
    "shares of nothing": {"shares": np.zeros(4)},
    "sums of another shape": {"sums": np.zeros((0, 4, 7))},
    "sums that are no numbers": {"last": np.full(20, np.nan)},
    "a negative deviation": {"sums": np.zeros((1, 4, 5)), "stds": np.array([-1.0])},
    "a round that does not exist": {
        "policies": np.zeros((1, 5, 20), dtype=np.int64),
        "users": np.ones(1),
        "rounds": np.array([5]),
    },
    "a covariance that is none": {"covariance": np.full((4, 10, 10), np.inf)},
}


@pytest.mark.parametrize("wrong", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_server_cannot_reach_into_a_device(wrong):
    """Compiled loops do not check indices: what a device is told about earlier rounds is checked
    before.
    """
    server = learner(privacy=LOCAL)
    client = server.client()
    released = server.released()
    memory = dict(server.current_round().memory)
    client.plan(dataclasses.replace(released, users=30, generation=1, memory=memory))
    with pytest.raises(InvalidParameter, match="does not fit this problem"):
        client.plan(dataclasses.replace(released, users=30, generation=1, memory=memory | wrong))


def test_a_release_without_its_memory_is_refused_in_one_line():
    server = learner(privacy=LOCAL)
    for memory in ({}, {"seed": np.array(-1)}, {"seed": np.array(0), "shown": np.zeros(3)}):
        with pytest.raises(InvalidParameter, match="does not fit this problem"):
            server.client().plan(dataclasses.replace(server.released(), memory=memory))


def test_a_device_plans_with_finite_releases_only():
    server = learner(privacy=LOCAL)
    client = server.client()
    released = server.released()
    broken = released.values.copy()
    broken[0] = np.nan
    level = dataclasses.replace(released.noise, std=np.inf)
    for wrong in ({"values": broken}, {"noise": level}, {"generation": 2**70}, {"users": -1}):
        with pytest.raises(InvalidParameter, match="a release must be"):
            client.plan(dataclasses.replace(released, **wrong))


def test_a_message_with_other_noise_than_the_server_counts_on_is_refused():
    """Printed constants add more noise than the promise needs: a device that does not know would be
    certified with noise it has not.
    """
    server = learner(kind=UCRLVTR, privacy=LOCAL, calibration="paper")
    user = LOCK.sample(LOCK.optimal_policy, 1, np.random.default_rng(0))
    ignorant = LocalClient(server.algorithm, LOCAL, noise_source("fast", 3))
    ignorant.plan(server.released())
    with pytest.raises(InvalidParameter, match="other noise"):
        server.absorb(ignorant.report(user))
    informed = LocalClient(server.algorithm, LOCAL, noise_source("fast", 3), loss=server.loss)
    informed.plan(server.released())
    server.absorb(informed.report(user))


def test_settings_tell_learners_apart():
    texts = [
        learner().settings,
        learner(bonus_scale=0.2).settings,
        learner(kind=UCRLVTR).settings,
        learner(kind=UCRLVTR, calibration="paper").settings,
        learner(episodes=300).settings,
    ]
    assert len(set(texts)) == 5
    assert learner(seed=4).settings == texts[0]


@pytest.mark.parametrize("kind", [LSVIUCB, NextStateVI, ThompsonLQ, OFULQ])
def test_what_a_learner_is_made_for_is_checked_first(kind):
    public = oscillator().public if kind in (ThompsonLQ, OFULQ) else one_hot().public
    for privacy in (None, 1.0, "joint"):
        with pytest.raises(InvalidParameter, match="privacy must be JointDP, LocalDP or NoPrivacy"):
            kind(public, episodes=100, privacy=privacy)
    for episodes in (0, None, "many", True, 1.5):
        with pytest.raises(InvalidParameter, match=r"episodes must be (a whole number|at least 1)"):
            kind(public, episodes=episodes, privacy=PRIVATE)
