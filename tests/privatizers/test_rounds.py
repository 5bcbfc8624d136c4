"""Rounds whose users and questions are decided from releases."""

import numpy as np
import pytest

from confide.audit.verify import verify
from confide.errors import InvalidParameter, PrivacyError, StateError, StreamExhausted
from confide.mechanisms.sources import noise_source
from confide.mixtures.questions.contributions import Answers
from confide.privacy import CentralDP, JointDP, LocalDP, NoPrivacy, PureDP
from confide.privacy.bounded import Bounded, L2Ball
from confide.privacy.certificate import certify
from confide.privatizers import AtMost, CentralPrivatizer

PRIVATE = JointDP(1.0, 1e-5)


def rounds(privacy=PRIVATE, users=20, leaves=4, seed=0, source="fast"):
    noise = noise_source(source, seed) if source == "fast" else noise_source(source)
    return CentralPrivatizer(Answers(1), AtMost(users, leaves), privacy=privacy, noise=noise)


def answers(questions, users=1, sign=1):
    return Bounded(np.full(questions, sign * users / 2), Answers(questions), users)


def test_each_round_is_released_once_with_noise_of_its_own():
    privatizer = rounds()
    exact = rounds(NoPrivacy())
    for each in (privatizer, exact):
        each.open(Answers(3), 5)
        assert each.batch == (0, 5)
        each.absorb(answers(3, 2))
        assert each.release().generation == 0
        each.absorb(answers(3, 3))
        assert (each.generation, each.users) == (1, 5)
        each.open(Answers(2), 15)
        each.absorb(answers(2, 15, sign=-1))
        assert each.release().values.shape == (2,)
    assert np.array_equal(exact.release().values, [-7.5, -7.5])
    assert (
        privatizer.release().noise.distribution == "cube"
        and privatizer.release().noise.std == pytest.approx(2.0, rel=1e-6)
    )
    assert (
        np.array_equal(privatizer.release().values, privatizer.release().values)
        and (privatizer.release().values != -7.5).all()
    )


def test_what_is_open_stays_open():
    privatizer = rounds()
    with pytest.raises(StateError, match="no round is open"):
        privatizer.absorb(answers(1))
    privatizer.open(Answers(2), 5)
    privatizer.open(Answers(9), 1)  # decided once
    assert privatizer.batch == (0, 5)
    with pytest.raises(InvalidParameter, match="another bound"):
        privatizer.absorb(answers(1))
    with pytest.raises(InvalidParameter, match="cross the release"):
        privatizer.absorb(answers(2, 6))


def test_no_more_users_and_no_more_rounds_than_were_promised():
    privatizer = rounds(users=4, leaves=2)
    with pytest.raises(StreamExhausted):
        privatizer.open(Answers(1), 5)
    for _ in range(2):
        privatizer.open(Answers(1), 1)
        privatizer.absorb(answers(1))
    with pytest.raises(StreamExhausted):
        privatizer.open(Answers(1), 1)


def test_saved_in_a_round_it_goes_on_with_the_same_bits():
    one = rounds()
    other = rounds(seed=9)
    for each in (one,):
        each.open(Answers(2), 2)
        each.absorb(answers(2, 2))
        each.open(Answers(3), 4)
        each.absorb(answers(3, 1))
    other.restore(one.save(), released=1)
    with pytest.raises(StateError, match="planned otherwise"):
        other.open(Answers(2), 4)
    other.open(Answers(3), 4)
    for each in (one, other):
        each.absorb(answers(3, 3))
    assert np.array_equal(one.release().values, other.release().values)
    with pytest.raises(StateError):
        rounds(users=21).restore(one.save(), released=2)
    with pytest.raises(StateError, match="already released"):
        rounds().restore(one.save(), released=9)


@pytest.mark.parametrize("source", ["fast", "secure"])
def test_it_is_pure_and_its_certificate_verifies(source):
    privatizer = rounds(source=source)
    assert privatizer.guarantee.loss == PureDP(1.0)
    certificate = certify(privatizer.guarantee, [privatizer.mechanism()])
    assert verify(certificate).epsilon == pytest.approx(1.0, rel=1e-4)
    document = certificate.document
    document["mechanisms"][0]["sensitivity"] /= 2
    from confide.errors import CertificateError
    from confide.privacy.certificate import Certificate

    with pytest.raises(CertificateError):
        verify(Certificate(document))


def test_local_privacy_is_refused():
    with pytest.raises(PrivacyError):
        rounds(LocalDP(1.0, delta=0.0))


def test_a_restored_round_goes_on_under_the_bound_that_its_users_were_clipped_by():
    wide = L2Ball(1000.0, 4)
    narrow = L2Ball(0.001, 4)
    privatizer = rounds(CentralDP(1.0, 0.0))
    again = rounds(CentralDP(1.0, 0.0))
    privatizer.open(wide, 10)
    privatizer.absorb(Bounded(np.array([9000.0, 0, 0, 0]), wide, 9))
    again.restore(privatizer.save(), released=0)
    # It has as many numbers, and its noise would be a million times too small for the sum.
    with pytest.raises(StateError, match="planned otherwise"):
        again.open(narrow, 10)
    # A state that is saved before anybody has planned again knows the bound, too.
    third = rounds(CentralDP(1.0, 0.0))
    third.restore(again.save(), released=0)
    with pytest.raises(StateError, match="planned otherwise"):
        third.open(narrow, 10)
    third.open(wide, 10)
    third.absorb(Bounded(np.zeros(4), wide))
    assert third.release().noise.std > 1000
