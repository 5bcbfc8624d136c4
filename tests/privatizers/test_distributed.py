"""Distributed noise: shares, the sums of an ideal aggregator, devices that stay away."""

import copy
import dataclasses
import inspect
import itertools
import math
import os
import pickle

import numpy as np
import pytest

import confide
from confide import agents
from confide.audit.verify import verify
from confide.errors import (
    AnotherRound,
    BatchNotOpened,
    CertificateError,
    InvalidParameter,
    PrivacyError,
    StaleMessage,
    StateError,
    StreamExhausted,
)
from confide.learning.share_client import ShareClient
from confide.mechanisms.counters import Leaves
from confide.mechanisms.shares import share_noise
from confide.mechanisms.sources import noise_source
from confide.policy import RandomPolicy
from confide.privacy.bounded import L2Ball
from confide.privacy.certificate import Certificate, certify
from confide.privacy.discrete_sums import sum_epsilon
from confide.privatizers import DeviceShare, DistributedPrivatizer, custom, every, expected_noise
from confide.problems import lock

BALL = L2Ball(1.0, 3)
ASKED = confide.DistributedDP(1.0, 1e-5, dropouts=0.2)
ROUND = bytes(32)


def server(seed=0, *, users=40, size=20, privacy=ASKED, source="fast"):
    noise = noise_source(source, seed) if source == "fast" else noise_source(source)
    return DistributedPrivatizer(BALL, every(size, users), privacy=privacy, noise=noise)


def shares(privatizer, value=(0.5, -0.25, 0.0), count=1):
    """What so many devices with the same data hand to the aggregator."""
    batch = privatizer.share_batch(ROUND)
    values = BALL.clip(np.array(value)).values
    return [
        privatizer._shares.noise.add(values, batch.users, 1, privatizer.device_source())
        % batch.modulus
        for _ in range(count)
    ]


def add_up(privatizer, numbers):
    """The ideal aggregator of a simulation."""
    for each in numbers:
        privatizer.simulate_aggregation(privatizer.share_batch(ROUND), DeviceShare(each))


def test_the_sum_is_that_of_the_contributions_up_to_noise():
    privatizer = server()
    add_up(privatizer, shares(privatizer, count=20))
    released = privatizer.release()
    assert released.generation == 1 and released.users == 20 == privatizer.users
    assert np.abs(released.values - 20 * np.array([0.5, -0.25, 0.0])).max() < 6 * released.noise.std
    add_up(privatizer, shares(privatizer, count=20))
    assert privatizer.release().noise.std == pytest.approx(math.sqrt(2) * released.noise.std)
    with pytest.raises(StreamExhausted):
        _ = privatizer.share_batch(ROUND)


def test_the_sum_of_an_aggregator_is_released_as_it_is():
    """The same shares, added up by somebody else, by the simulation, and plainly."""
    for away in range(5):
        served = server(3)
        simulated = server(3)
        numbers = shares(served, count=20 - away)
        batch = served.share_batch(ROUND)
        served.receive_sum(batch.id, sum(numbers) % batch.modulus, 20 - away)
        add_up(simulated, numbers)
        if away:
            simulated.stay_away(away)
        half = batch.modulus // 2
        plain = sum((each + half) % batch.modulus - half for each in numbers) * BALL.grid
        assert (
            served.release().values.tobytes()
            == simulated.release().values.tobytes()
            == plain.tobytes()
        )
        assert served.release().users == 20 - away and served.users == 20
        assert "simulated" not in served.mechanism().query
        assert (
            f"the shares of {20 - away} users were added up by the server itself"
            in simulated.mechanism().query
        )


def test_a_batch_shows_one_sum_whoever_stays_away():
    """Masks between neighbours on a circle of 40 devices came apart where 8 in a row were away
    twice. The server then had the sum of the 12 devices between them, with too little noise. Now
    all that it gets is one sum, of as many devices as the guarantee counts on.
    """
    half = confide.DistributedDP(1.0, 1e-5, dropouts=0.5)
    rng = np.random.default_rng(0)
    two_gaps = np.setdiff1d(np.arange(40), [*range(8), *range(20, 28)])
    for present in (
        two_gaps,
        *(rng.choice(40, rng.integers(20, 41), replace=False) for _ in range(5)),
    ):
        privatizer = server(privacy=half, users=40, size=40)
        before = set(vars(privatizer))
        numbers = shares(privatizer, count=40)
        batch = privatizer.share_batch(ROUND)
        privatizer.receive_sum(
            batch.id, sum(numbers[i] for i in present) % batch.modulus, len(present)
        )
        assert privatizer.generation == 1 and set(vars(privatizer)) == before
        sensitivity = privatizer._shares.noise.sensitivity / privatizer._shares.noise.step
        assert (
            sum_epsilon(privatizer._shares.noise.share(40), len(present), sensitivity, 3, 1e-5)
            <= 1 + 1e-9
        )
        with pytest.raises(StreamExhausted):
            privatizer.receive_sum(batch.id, sum(numbers[8:20]) % batch.modulus, 12)
    # The sum of the 12 devices between the gaps would have had this epsilon. It is refused by its
    # size.
    assert sum_epsilon(privatizer._shares.noise.share(40), 12, sensitivity, 3, 1e-5) > 1.2
    privatizer = server(privacy=half, users=40, size=40)
    with pytest.raises(BatchNotOpened):
        privatizer.receive_sum(
            privatizer.share_batch(ROUND).id, sum(numbers[8:20]) % privatizer._shares.modulus, 12
        )
    assert privatizer.generation == 0 and not privatizer.release().values.any()


def test_too_many_absent_and_nothing_is_released():
    privatizer = server()
    numbers = shares(privatizer, count=18)
    batch = privatizer.share_batch(ROUND)
    add_up(privatizer, numbers[:15])
    with pytest.raises(
        BatchNotOpened, match=r"5 of the 20 devices.*allows 4.*nothing of the batch is released"
    ):
        privatizer.stay_away(5)
    assert privatizer.users == 0 == privatizer.generation and not privatizer.release().values.any()
    with pytest.raises(StaleMessage):
        privatizer.simulate_aggregation(batch, DeviceShare(numbers[15]))
    with pytest.raises(BatchNotOpened, match=r"5 of the 20 devices"):
        privatizer.receive_sum(privatizer.share_batch(ROUND).id, numbers[0], 15)
    assert privatizer.users == 0 == privatizer.generation
    add_up(privatizer, shares(privatizer, count=16))
    privatizer.stay_away(4)
    assert (
        privatizer.generation == 1 and privatizer.users == 20 and privatizer.release().users == 16
    )


def test_fewer_dropouts_give_more_privacy():
    privatizer = server()
    share = privatizer._shares.noise.share(20)
    sensitivity = privatizer._shares.noise.sensitivity / privatizer._shares.noise.step
    everybody, promised = (sum_epsilon(share, n, sensitivity, 3, 1e-5) for n in (20, 16))
    assert everybody < 0.92 * promised and promised <= 1
    assert privatizer.guarantee.epsilon == pytest.approx(1.0, rel=1e-6)


def test_every_batch_keeps_the_promise():
    """Batches of any size: the sum of the honest shares has the same scale, and the largest batch
    the largest epsilon.
    """
    noise = share_noise(BALL, ASKED, 23_000)
    for users in (1, 2, 5, 30, 1000, 23_000):
        epsilon = sum_epsilon(
            noise.share(users), noise.honest(users), noise.sensitivity / noise.step, 3, 1e-5
        )
        assert epsilon <= 1 + 1e-9
        assert noise.honest(users) == math.ceil(0.8 * users - 1e-9)


def test_a_crowd_has_the_law_of_its_devices():
    """450 numbers each way: standard deviations within 14 % of what is stated, four standard errors
    (false alarms: 1e-4 before the seeds are fixed), where a scale that is 20 % off is not.
    """
    crowds = []
    devices = []
    for seed in range(150):
        crowd, real = (server(1000 * seed + kind, users=8, size=8) for kind in (1, 2))
        nobody = BALL.clip(np.zeros(3))
        crowd.absorb(sum((nobody for _ in range(7)), nobody))
        add_up(real, shares(real, value=(0.0, 0.0, 0.0), count=8))
        crowds.append(crowd.release().values), devices.append(real.release().values)
    stated = crowd.release().noise.std
    assert np.std(crowds) == pytest.approx(stated, rel=0.14) and np.std(devices) == pytest.approx(
        stated, rel=0.14
    )
    assert (
        "simulated for 8 users" in crowd.mechanism().query
        and "simulated for" not in real.mechanism().query
    )
    with pytest.raises(PrivacyError, match="no server of real users"):
        server(source="secure").absorb(BALL.clip(np.zeros(3)))


def test_secure_noise_comes_in_shares():
    privatizer = server(users=4, size=4, source="secure")
    add_up(privatizer, shares(privatizer, count=4))
    assert privatizer.generation == 1 and privatizer.guarantee.source == "secure"
    verify(certify(privatizer.guarantee, [privatizer.mechanism()]))


def test_hostile_sums_are_refused_and_change_nothing():
    privatizer = server()
    batch = privatizer.share_batch(ROUND)
    good = sum(shares(privatizer, count=20)) % privatizer._shares.modulus
    bad = [
        (b"x" * 16, good, 20),
        ("id", good, 20),
        (batch.id, good[:2], 20),
        (batch.id, good + 0.5, 20),
        (batch.id, good.astype(float), 20),
        (batch.id, -1 - good, 20),
        (batch.id, good + privatizer._shares.modulus, 20),
        (batch.id, [[1], [2, 3]], 20),
        (batch.id, "abc", 20),
        (batch.id, good, 21),
        (batch.id, good, -1),
        (batch.id, good, 19.5),
    ]
    for sent in bad:
        with pytest.raises(InvalidParameter):
            privatizer.receive_sum(*sent)
    other = dataclasses.replace(batch, least=1)
    with pytest.raises(StaleMessage):
        privatizer.simulate_aggregation(other, DeviceShare(good))
    with pytest.raises(InvalidParameter, match="must be"):
        privatizer.simulate_aggregation(batch, good)
    assert privatizer.users == 0 and privatizer.share_batch(ROUND) == batch
    privatizer.receive_sum(batch.id, good, 20)
    with pytest.raises(StaleMessage):
        privatizer.receive_sum(batch.id, good, 20)
    add_up(privatizer, shares(privatizer))
    with pytest.raises(InvalidParameter, match="a sum comes alone"):
        privatizer.receive_sum(privatizer.share_batch(ROUND).id, good, 20)


def test_saved_and_restored():
    whole = server(5)
    first = server(5)
    sent = shares(whole, count=20)
    batch = whole.share_batch(ROUND)
    add_up(whole, sent)
    add_up(first, shares(first, count=7))
    again = server(99)
    again.restore(first.save(), released=0, resume=True)
    add_up(again, shares(again, count=13))
    assert again.release().values.tobytes() == whole.release().values.tobytes()
    fresh = server(98)
    fresh.restore(first.save(), released=0)
    assert fresh.users == 0  # the open batch is given up: it may have been opened already
    with pytest.raises(StaleMessage):
        fresh.receive_sum(batch.id, sum(sent) % batch.modulus, 20)
    with pytest.raises(StateError):
        server(users=60).restore(first.save(), released=0)
    with pytest.raises(StateError, match="already released"):
        server().restore(first.save(), released=1)
    with pytest.raises(PrivacyError):
        pickle.dumps(whole)


def test_what_it_is_not_made_for():
    for other in (
        {"counter": Leaves(2)},
        {"loss": confide.GaussianDP(0.1)},
        {"privacy": confide.JointDP(1.0, 1e-5)},
    ):
        with pytest.raises(InvalidParameter):
            DistributedPrivatizer(
                BALL,
                every(20, 40),
                **({"privacy": ASKED, "noise": noise_source("fast", 0)} | other),
            )
    with pytest.raises(InvalidParameter, match="cross the release"):
        server().stay_away(21)
    with pytest.raises(InvalidParameter, match="53 bits"):
        server(users=2**30, size=2**30)


def test_expected_noise_is_that_of_everybody_present():
    schedule = custom((10, 30, 40))
    expected = expected_noise(BALL, schedule, privacy=ASKED, discrete=False)
    privatizer = DistributedPrivatizer(BALL, schedule, privacy=ASKED, noise=noise_source("fast", 0))
    stds = []
    for users in (10, 20, 10):
        add_up(privatizer, shares(privatizer, count=users))
        stds.append(privatizer.release().noise.std)
    assert [expected.first, expected.last, expected.worst] == pytest.approx(
        [stds[0], stds[-1], stds[-1]]
    )


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
    privatizer = server()
    document = certify(privatizer.guarantee, [privatizer.mechanism()]).document
    verify(Certificate(document))
    mechanism = document["mechanisms"][0]
    for name, value in change.items():
        where = mechanism["parameters"] if name in mechanism["parameters"] else mechanism
        where[name] = (
            value if name == "dimension" else (50 if name == "honest" else where[name] * value)
        )
    with pytest.raises(CertificateError, match=said):
        verify(Certificate(document))


def test_a_certificate_that_claims_more_dropouts_than_its_noise_is_made_for_is_caught():
    document = certify(server().guarantee, [server().mechanism()]).document
    document["guarantee"]["request"]["dropouts"] *= 2
    with pytest.raises(CertificateError, match="other dropouts"):
        verify(Certificate(document))


def test_a_certificate_of_fast_noise_cannot_call_it_secure():
    document = certify(server().guarantee, [server().mechanism()]).document
    document["guarantee"]["source"] = "secure"
    with pytest.raises(CertificateError, match="contradicts fast-noise"):
        verify(Certificate(document))


def test_a_certificate_states_its_assumptions():
    privatizer = server()
    document = certify(privatizer.guarantee, [privatizer.mechanism()]).document
    kinds = {assumption["kind"] for assumption in document["assumptions"]}
    assert kinds >= {"ideal-aggregator", "honest-devices"} and "trusted-curator" not in kinds
    document["assumptions"] = [
        assumption
        for assumption in document["assumptions"]
        if assumption["kind"] != "ideal-aggregator"
    ]
    with pytest.raises(CertificateError, match="assumption"):
        verify(Certificate(document))


def learner(privacy=ASKED, **options):
    world = lock(0, states=5, actions=2, horizon=3, jump=2)
    return world, agents.LikelihoodVI(
        world.public, episodes=40, privacy=privacy, schedule=every(10, 40), **options
    )


def test_a_learner_goes_on_without_those_who_stay_away():
    world, agent = learner(noise=noise_source("fast", 0))
    rng = np.random.default_rng(0)
    for _ in range(4):
        for _ in range(8):
            device = agent.shares.client()
            device.contribute(
                world.sample(device.plan(agent.publish()), 1, rng),
                agent.shares.simulate_aggregation,
            )
        agent.shares.stay_away(2)
    assert agent.users == 40 and agent.released().users == 32
    world, agent = learner(noise=noise_source("fast", 0))
    with pytest.raises(BatchNotOpened):
        agent.shares.stay_away(3)
    assert agent.users == 0 and agent.next_batch().users > 0
    _, joint = learner(confide.JointDP(1.0, 1e-5), noise=noise_source("fast", 0))
    with pytest.raises(PrivacyError, match="shares of noise are for DistributedDP"):
        joint.shares.stay_away(1)


def test_a_run_says_what_was_simulated():
    world, agent = learner()
    one_by_one = confide.run(agent, world, seed=1)
    (sentence,) = [
        each.text for each in one_by_one.certificate.assumptions if each.kind == "simulated"
    ]
    assert (
        "simulated aggregation: the shares of 40 users were added up by the server itself"
        in sentence
    )
    _, agent = learner()
    counted = confide.run(agent, world, seed=1, counts=True)
    assert any("no device sent a message" in each.text for each in counted.certificate.assumptions)
    rows = dict(confide.explain(agent).rows())
    assert rows["trust"][0].startswith("distributed: only the user's device sees the data")
    assert (
        rows["mechanism"][0] == "discrete Gaussian noise in shares, one from each device: "
        "4 sums of batches, each seen once"
    )
    assert "assuming an ideal aggregator" in rows["trust"][0]
    assert counted.guarantee.trust is confide.privacy.Trust.DISTRIBUTED
    assert str(counted.guarantee).endswith("assuming an ideal aggregator")


def device(world, agent, **options):
    client = ShareClient(
        agent.algorithm, ASKED, agent.shares.batch, noise_source("fast", 1), **options
    )
    return client, world.sample(client.plan(agent.publish()), 1, np.random.default_rng(0))


def test_devices_and_an_aggregator_of_ones_own():
    """The interface of a real protocol: shares come in on the devices, and the sum of a batch goes
    to the server.
    """
    world, agent = learner(noise=noise_source("fast", 0))
    for _ in range(4):
        batch = agent.shares.batch
        total = 0
        for i in range(9):
            one = ShareClient(agent.algorithm, ASKED, batch, noise_source("fast", i))
            handed = []
            one.contribute(
                world.sample(one.plan(agent.publish()), 1, np.random.default_rng(i)),
                lambda *both, to=handed: to.append(both),
            )
            ((named, share),) = handed
            assert named == batch
            total = (total + share.for_aggregation()) % batch.modulus
        agent.shares.absorb_sum(batch.id, total, 9)
    assert agent.users == 40 and agent.released().users == 36


def test_a_share_leaves_through_the_aggregation_alone(capsys, caplog):
    world, agent = learner(noise=noise_source("fast", 0))
    client, episode = device(world, agent)
    seen = []
    assert client.contribute(episode, lambda _, share: seen.append(share)) is None
    (share,) = seen
    numbers = share.for_aggregation()
    shown = (repr(share), str(share), f"{share}", repr(client), str(vars(client)))
    assert not any(str(int(number)) in text for text in shown for number in numbers if number > 999)
    for forbidden in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(PrivacyError):
            forbidden(share)
        with pytest.raises(PrivacyError):
            forbidden(client)
    assert capsys.readouterr() == ("", "") and not caplog.records
    kept = [
        value
        for value in vars(client).values()
        if isinstance(value, bytes | np.ndarray | DeviceShare)
    ]
    assert kept == []
    public = {
        name: inspect.signature(member)
        for name, member in inspect.getmembers(ShareClient, callable)
        if name[0] != "_"
    }
    assert set(public) == {"plan", "adopt", "contribute"}
    assert public["contribute"].return_annotation is None


def test_a_server_takes_no_message_under_distributed_noise():
    _, agent = learner(noise=noise_source("fast", 0))
    for attempt in (
        agent.client,
        agent.channel,
        lambda: agent.absorb(b"x"),
        lambda: agent.decoded(b"x"),
    ):
        with pytest.raises(PrivacyError, match="carries almost no noise"):
            attempt()


def test_a_device_contributes_once(tmp_path):
    world, agent = learner(noise=noise_source("fast", 0))
    client, episode = device(world, agent, store=tmp_path / "device")
    twin, _ = device(world, agent, store=tmp_path / "device")
    seen = []

    def aggregate(_batch, share):
        seen.append(share)
        raise OSError("the network is down")

    with pytest.raises(OSError, match="network"):
        client.contribute(episode, aggregate)
    again, _ = device(world, agent, store=tmp_path / "device")
    for one in (client, twin, again):
        with pytest.raises(PrivacyError, match="has contributed"):
            one.contribute(episode, aggregate)
    assert len(seen) == 1
    numbers = seen[0].for_aggregation()
    stored = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert numbers.tobytes() not in stored and not any(
        str(int(each)).encode() in stored for each in numbers if each > 999
    )


def test_a_fork_does_not_contribute():
    world, agent = learner(noise=noise_source("fast", 0))
    client, episode = device(world, agent)
    client._process = os.getpid() + 1
    with pytest.raises(StateError, match="fork"):
        client.contribute(episode, agent.shares.simulate_aggregation)
    assert agent.users == 0


def test_a_device_refuses_a_batch_that_does_not_fit():
    """Whatever a server says of a batch, `least` shares of devices that believe it keep the
    request.
    """
    world, agent = learner(noise=noise_source("fast", 0))
    batch = agent.shares.batch
    for change in ({"least": 1}, {"modulus": batch.modulus * 2}, {"size": 3}):
        with pytest.raises(InvalidParameter, match="another guarantee"):
            ShareClient(agent.algorithm, ASKED, dataclasses.replace(batch, **change))
    for users, largest in itertools.product((10, 100, 1000), (1000, 10_000)):
        noise = share_noise(agent.algorithm.bound, ASKED, largest)
        forged = dataclasses.replace(
            batch,
            users=users,
            largest=largest,
            least=noise.honest(users),
            modulus=noise.modulus(agent.algorithm.bound.largest),
        )
        believed = ShareClient(agent.algorithm, ASKED, forged, noise_source("fast", 0))._noise
        sensitivity = believed.sensitivity / believed.step
        assert (
            sum_epsilon(believed.share(users), forged.least, sensitivity, forged.size, ASKED.delta)
            <= 1 + 1e-9
        )
    with pytest.raises(InvalidParameter, match="32 bytes"):
        dataclasses.replace(batch, round=b"short")
    client, _ = device(world, agent)
    with pytest.raises(StaleMessage, match="use the batch of that release"):
        client.adopt(agent.current_round(), 1)
    with pytest.raises(InvalidParameter, match="call plan first"):
        ShareClient(agent.algorithm, ASKED, batch).contribute(
            None, agent.shares.simulate_aggregation
        )


def test_a_device_that_plans_another_round_takes_no_part():
    """As on another processor: the release is the same, and the policies are not."""
    world, agent = learner(noise=noise_source("fast", 0))
    client, episode = device(world, agent)
    planned = agent.current_round()
    other = dataclasses.replace(planned, policies=(RandomPolicy(2), *planned.policies[1:]))
    elsewhere = ShareClient(agent.algorithm, ASKED, agent.shares.batch)
    with pytest.raises(AnotherRound, match="another kind of processor"):
        elsewhere.adopt(other, 0)
    with pytest.raises(InvalidParameter, match="call plan first"):
        elsewhere.contribute(episode, agent.shares.simulate_aggregation)
    assert agent.shares.batch.round == planned.digest != other.digest
    forged = dataclasses.replace(agent.shares.batch, round=other.digest)
    with pytest.raises(AnotherRound):
        agent.shares.simulate_aggregation(
            forged, DeviceShare(np.zeros(forged.size, dtype=np.int64))
        )
    client.contribute(episode, agent.shares.simulate_aggregation)
    assert agent.users == 1
