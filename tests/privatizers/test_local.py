"""Messages that already carry noise, in one query or in rounds of different queries."""

import copy
import math

import numpy as np
import pytest
from scipy import stats

from confide.audit.verify import taken_on_trust, verify
from confide.errors import (
    CertificateError,
    DuplicateMessage,
    InvalidParameter,
    PrivacyError,
    StaleMessage,
    StateError,
    StreamExhausted,
)
from confide.mechanisms.sources import noise_source
from confide.mixtures.questions.contributions import Answers
from confide.privacy import JointDP, LocalDP
from confide.privacy.bounded import Bounded, L2Ball
from confide.privacy.certificate import Certificate, certify
from confide.privacy.guarantee import billboard
from confide.privacy.loss import PureDP, loss_for
from confide.privatizers import (
    AtMost,
    LocalPrivatizer,
    Message,
    custom,
    expected_noise,
    make_privatizer,
)

BOUND = L2Ball(1.0, 3)
SCHEDULE = custom([4, 10])
PRIVACY = LocalDP(2.0, 1e-5)
PURE = LocalDP(2.0, delta=0.0)
# request and loss: a given loss, as of printed constants, is kept by additive noise
NOISES = {
    "gaussian": (PRIVACY, loss_for(PRIVACY)),
    "laplace": (PURE, loss_for(PURE)),
    "codebook": (PRIVACY, None),
}


def privatizer(kind="codebook", seed=0, schedule=SCHEDULE, source=None):
    privacy, loss = NOISES[kind]
    server = LocalPrivatizer(
        BOUND, schedule, privacy=privacy, noise=source or noise_source("fast", seed), loss=loss
    )
    assert server.release().noise.distribution == kind
    return server


def messages(server, count):
    """From so many devices, each with noise of its own."""
    one = BOUND.clip(np.array([0.5, 0.0, -0.5]))
    return [
        server.channel.message(one, server.generation, server.device_source()) for _ in range(count)
    ]


@pytest.mark.parametrize("kind", NOISES)
def test_it_adds_up_and_releases_at_the_schedules_times(kind):
    server = privatizer(kind)
    sent = messages(server, 4)
    for message in sent[:3]:
        server.receive(message)
    assert (server.generation, server.release().users, server.release().noise.std) == (0, 0, 0.0)
    server.receive(sent[3])
    released = server.release()
    np.testing.assert_allclose(
        released.values, sum(server.channel.decode(message) for message in sent)
    )
    assert (server.users, released.users, released.generation) == (4, 4, 1)
    assert released.noise.std == pytest.approx(server.channel.noise.std * 2)
    for message in messages(server, 6):
        server.receive(message)
    assert server.release().noise.std == pytest.approx(server.channel.noise.std * math.sqrt(10))
    with pytest.raises(StreamExhausted, match="covers 10 users"):
        server.receive(sent[0])


def snapshot(server):
    return server.save()


def test_duplicates_stale_and_misfit_messages_are_refused_and_change_nothing():
    server = privatizer()
    first, *others = messages(server, 4)
    server.receive(first)
    before = snapshot(server)
    # the nonce counts
    copied = Message(
        first.generation, first.nonce, first.channel, (first.values + 1) % 1024, "index"
    )
    numbers = privatizer("gaussian")
    with pytest.raises(InvalidParameter, match="must have 3 numbers, got 4"):
        numbers.receive(Message(0, bytes(16), numbers.channel.id, np.zeros(4)))
    assert numbers.users == 0
    for bad, message in (
        (first, "absorbed before"),
        (copied, "absorbed before"),
        (
            Message(1, bytes(16), server.channel.id, np.zeros(1), "index"),
            "planned with release 1, the current one is 0",
        ),
        (Message(0, bytes(16), server.channel.id, np.zeros(3)), "with other noise"),
        (messages(numbers, 1)[0], "with other noise"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            server.receive(bad)
        assert snapshot(server) == before
    for message in others:
        server.receive(message)
    with pytest.raises(InvalidParameter, match="planned with release 0, the current one is 1"):
        server.receive(first)


@pytest.mark.parametrize(("kind", "reach"), [("gaussian", 12.0), ("laplace", 40.0)])
def test_hostile_numbers_reach_no_farther_than_the_limit(kind, reach):
    server = privatizer(kind, schedule=custom([1]))
    server.receive(Message(0, bytes(16), server.channel.id, np.array([1e300, -1e300, 0.25])))
    limit = BOUND.largest + reach * server.channel.noise.scale
    np.testing.assert_allclose(server.release().values, [limit, -limit, 0.25])


def gathered(kind, *, crowd, runs=2000, users=8):
    """The released sums of `users` silent users, in units of one message's noise."""
    server = privatizer(kind, seed=3, schedule=custom(range(users, users * runs + 1, users)))
    nobody = Bounded(np.zeros(3), BOUND)
    seen = [np.zeros(3)]
    for _ in range(runs):
        if crowd:
            server.absorb(Bounded(np.zeros(3), BOUND, users))
        else:
            for _ in range(users):
                server.receive(
                    server.channel.message(nobody, server.generation, server.device_source())
                )
        seen.append(server.release().values)
    return np.diff(seen, axis=0).ravel() / server.channel.noise.std


@pytest.mark.parametrize("kind", NOISES)
def test_a_crowd_has_the_law_of_its_messages(kind):
    """6000 sums of 8 (or 3) messages and 12 000 of crowds: Kolmogorov-Smirnov at 1e-4.

    Noise that is 20 % off is rejected at that level.
    """
    users = 8 if kind == "laplace" else 3
    one_by_one = gathered(kind, crowd=False, users=users)
    crowds = gathered(kind, crowd=True, runs=4000, users=users)
    assert stats.ks_2samp(one_by_one, crowds).pvalue > 1e-4
    for wrong in (0.8, 1.2):
        assert stats.ks_2samp(one_by_one, wrong * crowds).pvalue < 1e-4
    assert np.var(crowds) == pytest.approx(users, rel=0.1)
    # of one Laplace draw: 3
    assert stats.kurtosis(crowds) == pytest.approx(3 / 8 if kind == "laplace" else 0, abs=0.25)


def test_devices_draw_independently():
    """Correlation of the noise of neighbouring devices, 3000 pairs of numbers: |r| < 0.072 but for
    1e-4.
    """
    server = privatizer()
    noise = np.stack([server.channel.decode(message) for message in messages(server, 2000)]) - [
        0.5,
        0.0,
        -0.5,
    ]
    assert abs(np.corrcoef(noise[::2].ravel(), noise[1::2].ravel())[0, 1]) < 0.072
    assert len({message.nonce for message in messages(server, 2000)}) == 2000


def test_a_crowd_is_for_simulation_only():
    secure = LocalPrivatizer(BOUND, SCHEDULE, privacy=PRIVACY, noise=noise_source("secure"))
    with pytest.raises(PrivacyError, match="no server of real users takes contributions"):
        secure.absorb(Bounded(np.zeros(3), BOUND, 2))
    server = privatizer()
    with pytest.raises(InvalidParameter, match="cross the release after user 4"):
        server.absorb(Bounded(np.zeros(3), BOUND, 5))
    with pytest.raises(InvalidParameter, match="another bound"):
        server.absorb(Bounded(np.zeros(3), L2Ball(2.0, 3), 1))
    assert "simulated" not in server.mechanism().query
    server.absorb(Bounded(np.zeros(3), BOUND, 4))
    assert (
        "simulated for 4 users, whose noise was drawn as one Gaussian sum"
        in server.mechanism().query
    )


@pytest.mark.parametrize("source", ["fast", "secure"])
@pytest.mark.parametrize("kind", NOISES)
def test_its_certificate_verifies(kind, source):
    server = privatizer(kind, source=noise_source(source))
    certificate = certify(server.guarantee, [server.mechanism()])
    assert verify(certificate).epsilon == pytest.approx(2.0, rel=1e-4)
    assert taken_on_trust(certificate) == []
    assert certificate.document["guarantee"]["trust"] == "local"
    assert server.guarantee.loss == (PureDP(2.0) if kind != "gaussian" else loss_for(PRIVACY))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epsilon": 1.0}, "a decoded message has the standard deviation"),
        ({"nearest": 100}, "a decoded message has the standard deviation"),
        ({"nearest": 1024}, "nearest must be at most 1023"),
        ({"vectors": 2000}, "vectors must be at most 1024"),
        ({"dimension": 0}, "not a confide certificate"),
    ],
)
def test_a_forged_certificate_of_a_codebook_does_not_verify(change, message):
    server = privatizer()
    certificate = certify(server.guarantee, [server.mechanism()])
    certificate.document["mechanisms"][0]["parameters"] |= change
    with pytest.raises(CertificateError, match=message):
        verify(certificate)
    del certificate.document["mechanisms"][0]["parameters"]["nearest"]
    with pytest.raises(CertificateError, match="nearest"):
        verify(certificate)


def test_a_codebook_keeps_no_more_than_its_own_epsilon():
    """A certificate whose coin has a larger epsilon than the guarantee, with the noise of that
    coin.
    """
    server = privatizer()
    certificate = certify(server.guarantee, [server.mechanism()])
    other = LocalPrivatizer(
        BOUND, SCHEDULE, privacy=LocalDP(3.0, 1e-5), noise=noise_source("fast", 0)
    ).mechanism()
    certificate.document["mechanisms"] = [other.to_json()]
    with pytest.raises(CertificateError, match="the stated loss is"):
        verify(certificate)


def test_after_a_restore_no_device_gets_the_noise_of_an_earlier_one():
    """A device that was made between the save and a crash used the next draws already: with the
    same noise the difference of two messages would be the difference of two users' data.
    """
    one = privatizer()
    saved = one.save()
    lost = one.device_source().gaussian(1.0, 50)
    for other in (privatizer(), privatizer(seed=9)):
        other.restore(saved, released=0)
        assert not np.isclose(other.device_source().gaussian(1.0, 50), lost).any()
    other = privatizer()
    other.restore(saved, released=0, resume=True)
    # a simulated run repeats its own devices
    assert np.array_equal(other.device_source().gaussian(1.0, 50), lost)


def test_saved_and_restored_it_goes_on_with_the_same_bits_and_knows_its_duplicates():
    one = privatizer()
    other = privatizer(seed=9)
    sent = messages(one, 4)
    for message in sent[:3]:
        one.receive(message)
    other.restore(one.save(), released=0, resume=True)
    assert other.users == 3
    with pytest.raises(InvalidParameter, match="absorbed before"):
        other.receive(sent[0])
    for server in (one, other):
        server.receive(sent[3])
        for message in messages(server, 6):
            server.receive(message)
    np.testing.assert_array_equal(one.release().values, other.release().values)
    with pytest.raises(StateError, match="already absorbed"):
        other.restore(one.save(), released=0)
    with pytest.raises(StateError, match="already released"):
        privatizer().restore(one.save(), released=3)
    with pytest.raises(StateError, match="another bound, guarantee"):
        privatizer("laplace").restore(one.save(), released=0)
    with pytest.raises(PrivacyError, match="copied or pickled"):
        copy.deepcopy(one)


LOCAL = LocalDP(1.0, delta=0.0)


def rounds(privacy=LOCAL, users=20, leaves=4, seed=0, source="fast"):
    noise = noise_source(source, seed) if source == "fast" else noise_source(source)
    return make_privatizer(Answers(1), AtMost(users, leaves), privacy=privacy, noise=noise)


def answers(questions, users=1):
    return Bounded(np.full(questions, users / 2), Answers(questions), users)


def message(server, generation, questions):
    return server.channel.message(answers(questions), generation, server.device_source())


@pytest.mark.parametrize("source", ["fast", "secure"])
@pytest.mark.parametrize("privacy", [LOCAL, LocalDP(1.0, 1e-5)])
def test_messages_of_one_round_after_the_other(privacy, source):
    server = rounds(privacy, source=source)
    assert isinstance(server, LocalPrivatizer) and server.guarantee.loss == PureDP(1.0)
    with pytest.raises(StateError, match="no round is open"):
        server.receive(message(server, 0, 1))
    server.open(Answers(3), 2)
    first = message(server, 0, 3)
    second = message(server, 0, 3)
    server.receive(first)
    with pytest.raises(DuplicateMessage):
        server.receive(first)
    assert (server.users, server.release().generation) == (1, 0)
    channel = server.channel
    server.receive(second)
    np.testing.assert_allclose(
        server.release().values, channel.decode(first) + channel.decode(second)
    )
    assert server.release().noise.std == pytest.approx(channel.noise.std * math.sqrt(2))
    server.open(Answers(2), 3)
    with pytest.raises(StaleMessage):
        server.receive(message(server, 0, 2))
    with pytest.raises(InvalidParameter, match="another bound"):
        server.receive(channel.message(answers(3), 1, server.device_source()))
    assert server.users == 2
    server.receive(message(server, 1, 2))
    assert server.users == 3


def test_a_crowd_has_the_noise_of_its_messages():
    """400 sums of 25 users: a standard deviation is known to 3.5 %, and must be within 4 of these
    of what is stated.
    """
    errors = []
    for seed in range(400):
        server = rounds(users=25, leaves=1, seed=seed)
        server.open(Answers(2), 25)
        server.absorb(answers(2, 25))
        errors.append(server.release().values - 12.5)
    assert np.std(errors) == pytest.approx(server.release().noise.std, rel=0.1)
    assert "simulated for 25 users" in server.mechanism().query
    with pytest.raises(StreamExhausted):
        server.absorb(answers(2))
    with pytest.raises(PrivacyError, match="no server of real users"):
        rounds(source="secure").absorb(answers(1))


def test_no_more_users_than_the_round_has():
    server = rounds()
    server.open(Answers(2), 5)
    with pytest.raises(InvalidParameter, match="cross the release"):
        server.absorb(answers(2, 6))
    with pytest.raises(InvalidParameter, match="another bound"):
        server.absorb(answers(3, 5))
    with pytest.raises(InvalidParameter, match="LocalDP"):
        LocalPrivatizer(
            Answers(1), AtMost(5, 1), privacy=JointDP(1.0, delta=0.0), noise=noise_source("fast", 0)
        )


def test_restored_in_the_middle_of_a_round_it_knows_who_was_there():
    server = rounds()
    server.open(Answers(3), 2)
    first = message(server, 0, 3)
    server.receive(first)
    again = rounds(seed=9)
    resumed = rounds(seed=9)
    again.restore(server.save(), released=0)
    resumed.restore(server.save(), released=0, resume=True)
    for each in (again, resumed):
        each.open(Answers(3), 2)
        with pytest.raises(DuplicateMessage):
            each.receive(first)
        assert each.users == 1
    same, fresh = (message(each, 0, 3).nonce for each in (resumed, again))
    # a device made after a crash has noise of its own
    assert message(server, 0, 3).nonce == same != fresh
    with pytest.raises(StateError):
        rounds(LocalDP(2.0, delta=0.0)).restore(server.save(), released=0)


def test_its_certificate_says_what_a_message_is():
    server = rounds(privacy=LocalDP(2.0, 1e-5))
    server.open(Answers(4), 3)
    certificate = certify(billboard(server.guarantee), [server.mechanism()])
    assert verify(certificate).losses == (PureDP(2.0),)
    stated = certificate.document["mechanisms"][0]
    assert stated["parameters"] == {"asked": 2, "nearest": 1, "epsilon": 2.0, "dimension": 4}
    for wrong in ({"nearest": 2}, {"asked": 3}, {"epsilon": 1.0}, {"dimension": 9}):
        document = certificate.document | {
            "mechanisms": [stated | {"parameters": stated["parameters"] | wrong}]
        }
        with pytest.raises(CertificateError):
            verify(Certificate(document))
    noise = expected_noise(
        Answers(4), AtMost(20, 4), privacy=LocalDP(2.0, delta=0.0), discrete=False
    )
    assert (noise.distribution, noise.first, noise.last) == (
        "signs",
        stated["scale"],
        stated["scale"] * math.sqrt(20),
    )
