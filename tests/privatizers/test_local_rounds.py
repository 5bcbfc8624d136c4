"""Rounds of messages: each round asks for other numbers, and every message is private by itself."""

import math

import numpy as np
import pytest

from confide.audit.verify import verify
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
from confide.privacy import JointDP, LocalDP, PureDP
from confide.privacy.bounded import Bounded
from confide.privacy.certificate import Certificate, certify
from confide.privacy.guarantee import billboard
from confide.privatizers import AtMost, LocalPrivatizer, expected_noise, make_privatizer

LOCAL = LocalDP(1.0, delta=0.0)


def rounds(privacy=LOCAL, users=20, leaves=4, seed=0, source="fast"):
    noise = noise_source(source, seed) if source == "fast" else noise_source(source)
    return make_privatizer(Answers(1), AtMost(users, leaves), privacy=privacy, noise=noise)


def said(questions, users=1):
    return Bounded(np.full(questions, users / 2), Answers(questions), users)


def message(server, generation, questions):
    return server.channel.message(said(questions), generation, server.device_source())


@pytest.mark.parametrize("source", ["fast", "secure"])
@pytest.mark.parametrize("privacy", [LOCAL, LocalDP(1.0, 1e-5)])
def test_messages_of_one_round_after_the_other(privacy, source):
    server = rounds(privacy, source=source)
    assert isinstance(server, LocalPrivatizer) and server.guarantee.loss == PureDP(1.0)
    with pytest.raises(StateError, match="no round is open"):
        server.receive(message(server, 0, 1))
    server.open(Answers(3), 2)
    first, second = message(server, 0, 3), message(server, 0, 3)
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
        server.receive(channel.message(said(3), 1, server.device_source()))
    assert server.users == 2
    server.receive(message(server, 1, 2))
    assert server.users == 3


def test_a_crowd_has_the_noise_of_its_messages():
    """400 sums of 25 users: a standard deviation is known to 3.5 %, and must be within 4 of these of what is stated."""
    found = []
    for seed in range(400):
        server = rounds(users=25, leaves=1, seed=seed)
        server.open(Answers(2), 25)
        server.absorb(said(2, 25))
        found.append(server.release().values - 12.5)
    assert np.std(found) == pytest.approx(server.release().noise.std, rel=0.1)
    assert "simulated for 25 users" in server.mechanism().query
    with pytest.raises(StreamExhausted):
        server.absorb(said(2))
    with pytest.raises(PrivacyError, match="no server of real users"):
        rounds(source="secure").absorb(said(1))


def test_no_more_users_than_the_round_has():
    server = rounds()
    server.open(Answers(2), 5)
    with pytest.raises(InvalidParameter, match="cross the release"):
        server.absorb(said(2, 6))
    with pytest.raises(InvalidParameter, match="another bound"):
        server.absorb(said(3, 5))
    with pytest.raises(InvalidParameter, match="LocalDP"):
        LocalPrivatizer(
            Answers(1), AtMost(5, 1), privacy=JointDP(1.0, delta=0.0), noise=noise_source("fast", 0)
        )


def test_restored_in_the_middle_of_a_round_it_knows_who_was_there():
    server = rounds()
    server.open(Answers(3), 2)
    first = message(server, 0, 3)
    server.receive(first)
    again, resumed = rounds(seed=9), rounds(seed=9)
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
    made = certify(billboard(server.guarantee), [server.mechanism()])
    assert verify(made).losses == (PureDP(2.0),)
    stated = made.document["mechanisms"][0]
    assert stated["parameters"] == {"asked": 2, "nearest": 1, "epsilon": 2.0, "dimension": 4}
    for wrong in ({"nearest": 2}, {"asked": 3}, {"epsilon": 1.0}, {"dimension": 9}):
        document = made.document | {
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
