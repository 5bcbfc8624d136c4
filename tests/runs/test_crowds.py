"""A crowd of devices: their messages are simulated by the sum of them, in law, and the certificate
says so.
"""

import numpy as np
import pytest

import confide
from confide.agents import OFULQ, UCRLVTR
from confide.errors import PrivacyError
from confide.mechanisms.sources import noise_source
from confide.privacy.certificate import certify
from confide.privatizers import every
from confide.problems import lock, oscillator

LOCAL = confide.LocalDP(5.0, 1e-5)


def agent(episodes, seed=None):
    noise = None if seed is None else noise_source("fast", seed)
    return OFULQ(
        oscillator().public,
        episodes=episodes,
        privacy=LOCAL,
        schedule=every(episodes, episodes),
        noise=noise,
    )


def test_a_crowd_has_the_law_of_its_messages():
    """The same 20 users, 100 times by messages and 100 times as a crowd.

    12 means and 12 standard deviations of each are compared at 5 standard errors. A sound crowd
    fails in less than one of 1e4 seeds. A crowd with sqrt(n) less noise always fails.
    """
    users = oscillator().sample(agent(20, 0).next_batch().policy, 20, np.random.default_rng(1))

    def release_values(seed, crowd):
        learner = agent(20, seed)
        planned = learner.current_round()
        generation = learner.released().generation
        if crowd:
            learner.observe_crowd(users)
        else:
            for i in range(20):
                client = learner.client()
                client.adopt(planned, generation)
                learner.absorb(client.report(users[i : i + 1]))
        return learner.released().values

    messages, crowds = (
        np.array([release_values(seed + offset, crowd) for seed in range(100)])
        for crowd, offset in ((False, 0), (True, 1000))
    )
    spread = messages.std(axis=0, ddof=1)
    assert (
        np.abs(messages.mean(axis=0) - crowds.mean(axis=0)) < 5 * spread * np.sqrt(2 / 100)
    ).all()
    assert (np.abs(np.log(crowds.std(axis=0, ddof=1) / spread)) < 5 / np.sqrt(100)).all()


def test_many_devices_are_simulated_at_once_and_few_send_messages():
    system = oscillator()
    few = confide.run(OFULQ(system.public, episodes=300, privacy=LOCAL), system, seed=0)
    many = confide.run(OFULQ(system.public, episodes=10_001, privacy=LOCAL), system, seed=0)
    assert "no device sent a message" not in str(few.certificate.document["assumptions"])
    assert "no device sent a message" in str(many.certificate.document["assumptions"])


def test_a_crowd_is_for_local_promises():
    learner = OFULQ(
        oscillator().public,
        episodes=10,
        privacy=confide.JointDP(1.0, 1e-5),
        noise=noise_source("fast", 0),
    )
    users = oscillator().sample(learner.next_batch().policy, 2, np.random.default_rng(0))
    with pytest.raises(PrivacyError, match="LocalDP"):
        learner.observe_crowd(users)


def test_no_certificate_hides_a_simulation():
    """Made by hand, after a save and a restore, too."""
    learner = agent(20, 0)
    learner.next_batch()
    learner.observe_crowd(
        oscillator().sample(learner.next_batch().policy, 12, np.random.default_rng(0))
    )
    again = agent(20, 0)
    again.restore(learner.save(), released=0)
    for one in (learner, again):
        assert "simulated for 12 users" in str(
            certify(one.guarantee, one.mechanisms()).document["assumptions"]
        )
    counted = UCRLVTR(
        lock().public,
        episodes=50,
        privacy=confide.JointDP(1.0, 1e-5),
        noise=noise_source("fast", 0),
    )
    counted.observe(lock().count(counted.next_batch().policy, 30, np.random.default_rng(0)))
    restored = UCRLVTR(
        lock().public,
        episodes=50,
        privacy=confide.JointDP(1.0, 1e-5),
        noise=noise_source("fast", 0),
    )
    restored.restore(counted.save(), released=0)
    for one in (counted, restored):
        assert "exact transition counts" in str(
            certify(one.guarantee, one.mechanisms()).document["assumptions"]
        )


def test_a_server_of_real_users_is_told_what_to_do():
    learner = OFULQ(oscillator().public, episodes=10, privacy=LOCAL, noise=noise_source("secure"))
    users = oscillator().sample(learner.next_batch().policy, 2, np.random.default_rng(0))
    with pytest.raises(PrivacyError, match="each device sends its own message"):
        learner.observe_crowd(users)
