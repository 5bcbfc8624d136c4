"""Distributed noise: shares, masks, devices that stay away."""

import math
import pickle

import numpy as np
import pytest

import confide
from confide import agents
from confide.audit.verify import verify
from confide.errors import (
    BatchNotOpened,
    CertificateError,
    DuplicateMessage,
    InvalidParameter,
    PrivacyError,
    StaleMessage,
    StateError,
    StreamExhausted,
)
from confide.mechanisms.counters import Leaves
from confide.mechanisms.shares import share_noise
from confide.mechanisms.sources import noise_source
from confide.privacy.bounded import L2Ball
from confide.privacy.certificate import Certificate, certify
from confide.privacy.discrete_sums import sum_epsilon
from confide.privatizers import DistributedPrivatizer, Message, custom, every, expected_noise, masks
from confide.problems import lock

BALL = L2Ball(1.0, 3)
ASKED = confide.DistributedDP(1.0, 1e-5, dropouts=0.2)


def server(seed=0, *, users=40, size=20, privacy=ASKED, source="fast"):
    noise = noise_source(source, seed) if source == "fast" else noise_source(source)
    return DistributedPrivatizer(BALL, every(size, users), privacy=privacy, noise=noise)


def send(made, value=(0.5, -0.25, 0.0), count=1):
    """So many devices with the same data; what they sent."""
    sent = []
    for _ in range(count):
        place, source = made.device_channel(), made.device_source()
        sent.append(place.message(BALL.clip(np.array(value)), made.generation, source))
    return sent


def deliver(made, messages):
    for message in messages:
        made.receive(message)


def test_the_sum_is_that_of_the_contributions_up_to_noise():
    made = server()
    deliver(made, send(made, count=20))
    released = made.release()
    assert released.generation == 1 and released.users == 20 == made.users
    assert np.abs(released.values - 20 * np.array([0.5, -0.25, 0.0])).max() < 6 * released.noise.std
    deliver(made, send(made, count=20))
    assert made.release().noise.std == pytest.approx(math.sqrt(2) * released.noise.std)
    with pytest.raises(StreamExhausted):
        made.device_channel()


def test_masks_cancel_and_what_is_left_of_the_absent_is_removed():
    """Without noise worth mentioning the sum of the messages is exact: here the noise is drawn again from the same seeds, and taken off."""
    for away in range(5):
        made = server(3)
        messages, plain = send(made, count=20), server(3)
        kept = messages[:12] + messages[12 + away :]
        deliver(made, kept)
        if away:
            made.stay_away(away)
        sources = [(plain.device_channel(), plain.device_source())[1] for _ in range(20)]
        exact = plain.noise.add(BALL.clip(np.array([0.5, -0.25, 0.0])).values, 20, 1, sources[0])
        total = exact.copy()
        for source in sources[1:12] + sources[12 + away :]:
            total += plain.noise.add(BALL.clip(np.array([0.5, -0.25, 0.0])).values, 20, 1, source)
        assert made.release().values.tobytes() == (total * BALL.grid).tobytes()
        assert made.release().users == 20 - away and made.users == 20


@pytest.mark.parametrize("users", [2, 17, 18, 40])
def test_pairwise_masks_cancel(users):
    modulus, secret = 2**40, b"s" * masks.SECRET
    all_of = [masks.mask(masks.seeds(secret, i, masks.neighbours(i, users)), 5, modulus) for i in range(users)]
    assert not (np.sum(all_of, axis=0) % modulus).any()
    assert all(one.any() for one in all_of)
    for i in range(users):
        assert all(i in masks.neighbours(j, users) for j in masks.neighbours(i, users))


def test_a_message_says_nothing_alone():
    """Masked numbers are evenly distributed: 600 of them in 8 bins, chi-square with 7 degrees of freedom below its 1e-4 quantile; what is
    under the masks fails it."""
    made = server(users=400, size=200)
    sent = np.concatenate([message.values for message in send(made, value=(1.0, 0.0, 0.0), count=200)])

    def statistic(values):
        seen = np.histogram(values % made.modulus, bins=8, range=(0, made.modulus))[0]
        return ((seen - len(values) / 8) ** 2 / (len(values) / 8)).sum()

    assert statistic(sent) < 29.9
    bare = [made.noise.add(np.array([1.0, 0.0, 0.0]), 200, 1, made.device_source()) for _ in range(200)]
    assert statistic(np.concatenate(bare)) > 29.9


def test_too_many_absent_and_nothing_is_released():
    made = server()
    sent = send(made, count=18)
    deliver(made, sent[:15])
    with pytest.raises(BatchNotOpened, match=r"5 of the 20 devices.*allows 4.*its 15 messages are given up"):
        made.stay_away(5)
    assert made.users == 0 == made.generation and not made.release().values.any()
    with pytest.raises(StaleMessage):
        made.receive(sent[15])
    deliver(made, send(made, count=16))
    made.stay_away(4)
    assert made.generation == 1 and made.users == 20 and made.release().users == 16


def test_fewer_dropouts_give_more_privacy():
    made = server()
    share, sensitivity = made.noise.share(20), made.noise.sensitivity / made.noise.step
    everybody, promised = (sum_epsilon(share, n, sensitivity, 3, 1e-5) for n in (20, 16))
    assert everybody < 0.92 * promised and promised <= 1
    assert made.guarantee.epsilon == pytest.approx(1.0, rel=1e-6)


def test_every_batch_keeps_the_promise():
    """Batches of any size: the sum of the honest shares has the same scale, and the largest batch the largest epsilon."""
    noise = share_noise(BALL, ASKED, 23_000)
    for users in (1, 2, 5, 30, 1000, 23_000):
        epsilon = sum_epsilon(noise.share(users), noise.honest(users), noise.sensitivity / noise.step, 3, 1e-5)
        assert epsilon <= 1 + 1e-9
        assert noise.honest(users) == math.ceil(0.8 * users - 1e-9)


def test_a_crowd_has_the_law_of_its_devices():
    """450 numbers each way: standard deviations within 14 % of what is stated, four standard errors (false alarms: 1e-4 before the seeds
    are fixed), where a scale that is 20 % off is not."""
    crowds, devices = [], []
    for seed in range(150):
        crowd, real = (server(1000 * seed + kind, users=8, size=8) for kind in (1, 2))
        nobody = BALL.clip(np.zeros(3))
        crowd.absorb(sum((nobody for _ in range(7)), nobody))
        deliver(real, send(real, value=(0.0, 0.0, 0.0), count=8))
        crowds.append(crowd.release().values), devices.append(real.release().values)
    stated = crowd.release().noise.std
    assert np.std(crowds) == pytest.approx(stated, rel=0.14) and np.std(devices) == pytest.approx(stated, rel=0.14)
    assert "simulated for 8 users" in crowd.mechanism().query and "simulated" not in real.mechanism().query
    with pytest.raises(PrivacyError, match="no server of real users"):
        server(source="secure").absorb(BALL.clip(np.zeros(3)))


def test_secure_noise_goes_through_messages():
    made = server(users=4, size=4, source="secure")
    deliver(made, send(made, count=4))
    assert made.generation == 1 and made.guarantee.source == "secure"
    verify(certify(made.guarantee, [made.mechanism()]))


def test_hostile_messages_are_refused_and_change_nothing():
    made = server()
    good = send(made)[0]
    place = good.nonce

    def with_(**other):
        parts = {"generation": 0, "nonce": place, "channel": good.channel, "values": good.values} | other
        return Message(**parts)

    bad = {
        "generation": with_(generation=1),
        "cohort": with_(nonce=b"x" * 16),
        "place": with_(nonce=place[:12] + (7).to_bytes(4)),
        "channel": with_(channel=b"x" * 8),
        "fraction": with_(values=good.values + 0.5),
        "negative": with_(values=-1 - good.values),
        "large": with_(values=good.values + made.modulus),
        "size": with_(values=good.values[:2]),
    }
    for message in bad.values():
        with pytest.raises(InvalidParameter):
            made.receive(message)
    assert made.users == 0
    made.receive(Message.from_bytes(good.to_bytes()))
    with pytest.raises(DuplicateMessage):
        made.receive(good)
    assert made.users == 1


def test_saved_and_restored():
    whole, first = server(5), server(5)
    sent = send(whole, count=40 - 20)
    deliver(whole, sent)
    deliver(first, send(first, count=7))
    again = server(99)
    again.restore(first.save(), released=0, resume=True)
    deliver(again, send(again, count=13))
    assert again.release().values.tobytes() == whole.release().values.tobytes()
    fresh = server(98)
    fresh.restore(first.save(), released=0)
    assert fresh.users == 0  # the open batch is given up: no place is used twice
    with pytest.raises(StaleMessage):
        fresh.receive(sent[0])
    with pytest.raises(StateError):
        server(users=60).restore(first.save(), released=0)
    with pytest.raises(StateError, match="already released"):
        server().restore(first.save(), released=1)
    with pytest.raises(PrivacyError):
        pickle.dumps(whole)


def test_what_it_is_not_made_for():
    for other in ({"counter": Leaves(2)}, {"loss": confide.GaussianDP(0.1)}, {"privacy": confide.JointDP(1.0, 1e-5)}):
        with pytest.raises(InvalidParameter):
            DistributedPrivatizer(BALL, every(20, 40), **({"privacy": ASKED, "noise": noise_source("fast", 0)} | other))
    with pytest.raises(InvalidParameter, match="all of them have their places"):
        send(server(), count=21)
    with pytest.raises(InvalidParameter, match="cross the release"):
        server().stay_away(21)
    with pytest.raises(InvalidParameter, match="53 bits"):
        server(users=2**30, size=2**30)


def test_expected_noise_is_that_of_everybody_present():
    schedule = custom((10, 30, 40))
    expected = expected_noise(BALL, schedule, privacy=ASKED, discrete=False)
    made = DistributedPrivatizer(BALL, schedule, privacy=ASKED, noise=noise_source("fast", 0))
    stds = []
    for users in (10, 20, 10):
        deliver(made, send(made, count=users))
        stds.append(made.release().noise.std)
    assert [expected.first, expected.last, expected.worst] == pytest.approx([stds[0], stds[-1], stds[-1]])


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"scale": 0.9}, "requested|stated"),
        ({"honest": 1.2}, "requested|stated|more honest"),
        ({"dimension": 5}, "its bound has 3 numbers"),
        ({"sensitivity": 0.5}, "sensitivity"),
        ({"lattice": 2.0}, "lattice"),
    ],
)
def test_a_forged_certificate_is_caught(change, said):
    made = server()
    document = certify(made.guarantee, [made.mechanism()]).document
    verify(Certificate(document))
    mechanism = document["mechanisms"][0]
    for name, value in change.items():
        where = mechanism["parameters"] if name in mechanism["parameters"] else mechanism
        where[name] = value if name == "dimension" else (50 if name == "honest" else where[name] * value)
    with pytest.raises(CertificateError, match=said):
        verify(Certificate(document))


def test_a_certificate_states_its_assumptions():
    made = server()
    document = certify(made.guarantee, [made.mechanism()]).document
    assert any("Secure aggregation" in said for said in document["assumptions"])
    assert not any("curator" in said for said in document["assumptions"])
    document["assumptions"] = [said for said in document["assumptions"] if "Secure aggregation" not in said]
    with pytest.raises(CertificateError, match="assumption"):
        verify(Certificate(document))


def learner(privacy=ASKED, **options):
    world = lock(0, states=5, actions=2, horizon=3, jump=2)
    return world, agents.LikelihoodVI(world.public, episodes=40, privacy=privacy, schedule=every(10, 40), **options)


def test_a_learner_goes_on_without_those_who_stay_away():
    world, agent = learner(noise=noise_source("fast", 0))
    rng = np.random.default_rng(0)
    for _ in range(4):
        for _ in range(8):
            device = agent.client()
            agent.absorb(device.report(world.sample(device.plan(agent.publish()), 1, rng)))
        agent.stay_away(2)
    assert agent.users == 40 and agent.released().users == 32
    world, agent = learner(noise=noise_source("fast", 0))
    with pytest.raises(BatchNotOpened):
        agent.stay_away(3)
    assert agent.users == 0 and agent.next_batch().users > 0
    _, joint = learner(confide.JointDP(1.0, 1e-5), noise=noise_source("fast", 0))
    with pytest.raises(PrivacyError, match="devices stay away under DistributedDP"):
        joint.stay_away(1)


def test_a_run_says_what_was_simulated():
    world, agent = learner()
    one_by_one = confide.run(agent, world, seed=1)
    assert not any("Simulated" in said for said in one_by_one.certificate.document["assumptions"])
    _, agent = learner()
    counted = confide.run(agent, world, seed=1, counts=True)
    assert any("no device sent a message" in said for said in counted.certificate.document["assumptions"])
    said = dict(confide.explain(agent).rows())
    assert said["trust"][0].startswith("distributed: only the user's device sees the data")
    assert said["mechanism"][0] == "discrete Gaussian noise in shares, one from each device: 4 sums of batches, each seen once"
    assert "DistributedDP" in counted.guarantee
