import math

import pytest

from confide.errors import InvalidParameter, PromiseBroken
from confide.privacy import (
    ApproxDP,
    CentralDP,
    DistributedDP,
    GaussianDP,
    Guarantee,
    JointDP,
    LocalDP,
    NoPrivacy,
    PureDP,
    Relation,
    Trust,
    billboard,
    loss_for,
)
from confide.privacy.guarantee import no_guarantee

REQUEST = JointDP(epsilon=1.0, delta=1e-5)


def make(loss=None, request=REQUEST, trust=Trust.CENTRAL):
    return Guarantee(loss or loss_for(request), request, trust, 100_000, "fast")


@pytest.mark.parametrize("epsilon", [-1.0, 0.0, math.nan, math.inf])
@pytest.mark.parametrize("kind", [JointDP, CentralDP, LocalDP])
def test_bad_epsilon_is_refused(kind, epsilon):
    with pytest.raises(
        InvalidParameter, match=f"epsilon must be positive and finite, got epsilon={epsilon}"
    ):
        kind(epsilon=epsilon, delta=1e-5)


@pytest.mark.parametrize("request_class", [CentralDP, JointDP, LocalDP, DistributedDP])
def test_a_request_without_delta_is_refused_and_says_what_to_write(request_class):
    with pytest.raises(
        InvalidParameter, match=r"delta must be stated, got none\. Write .*delta=1e-5.*delta=0\.0"
    ):
        request_class(1.0)


@pytest.mark.parametrize("delta", [1.0, 1.5, -1e-9, math.nan])
def test_bad_delta_is_refused(delta):
    with pytest.raises(InvalidParameter, match="delta must be in"):
        JointDP(epsilon=1.0, delta=delta)


def test_relations_are_words():
    assert JointDP(1.0, 1e-5).relation is Relation.REPLACE
    assert JointDP(1.0, 1e-5, relation="null").relation is Relation.NULL
    with pytest.raises(InvalidParameter, match='"null" or "replace"'):
        JointDP(1.0, 1e-5, relation="add")
    with pytest.raises(InvalidParameter, match="LocalDP"):
        LocalDP(1.0, 1e-5, relation="null")


def test_it_reads_as_a_sentence():
    assert (
        str(billboard(make()))
        == "JointDP(epsilon=1, delta=1e-05), replace one user, 100000 users, fast noise"
    )
    assert str(no_guarantee(7)) == "NO PRIVACY, 7 users"


def test_joint_privacy_is_derived_from_central_and_from_nothing_else():
    assert billboard(make()).trust is Trust.JOINT
    assert billboard(make(trust=Trust.LOCAL)).trust is Trust.LOCAL
    assert billboard(no_guarantee(5)).trust is Trust.NONE


def test_it_states_what_the_noise_gives_not_what_was_asked_for():
    assert make(GaussianDP(0.1)).epsilon == pytest.approx(GaussianDP(0.1).epsilon_at(1e-5))
    assert make(GaussianDP(0.1)).epsilon < 0.4


def test_a_loss_beyond_the_request_is_refused_with_its_number():
    with pytest.raises(
        PromiseBroken,
        match=r"gives epsilon=1\.0\d+ at delta=1e-05, more than the requested epsilon=1",
    ):
        make(GaussianDP(loss_for(REQUEST).mu * 1.01))
    with pytest.raises(PromiseBroken):
        make(PureDP(math.inf))
    with pytest.raises(PromiseBroken):
        make(ApproxDP(1.0, 1e-4))


def test_trust_must_serve_the_request():
    for request, trust in (
        (LocalDP(1.0, 1e-5), Trust.CENTRAL),
        (CentralDP(1.0, 1e-5), Trust.JOINT),
        (JointDP(1.0, 1e-5), Trust.NONE),
    ):
        with pytest.raises(PromiseBroken, match="was requested, which"):
            make(request=request, trust=trust)
    assert billboard(make(request=CentralDP(1.0, 1e-5))).request == JointDP(1.0, 1e-5)
    assert make(request=CentralDP(1e-7, 1e-9)).epsilon == pytest.approx(1e-7)
    with pytest.raises(InvalidParameter, match="users must be at least 1"):
        Guarantee(GaussianDP(0.1), REQUEST, Trust.CENTRAL, -3, "fast")


def test_participations():
    thrice = make().participations(3)
    assert thrice.loss == GaussianDP(3 * make().loss.mu)
    assert thrice.epsilon == pytest.approx(3.40702, abs=1e-5)
    assert "a person who comes 3 times" in str(thrice)
    assert make().participations(2).participations(3).loss.mu == pytest.approx(6 * make().loss.mu)
    approximate = make(ApproxDP(1.0, 1e-5)).participations(2)
    assert approximate.delta == pytest.approx(1e-5 * (1 + math.e))
    assert approximate.epsilon == pytest.approx(2.0)
    with pytest.raises(InvalidParameter):
        make().participations(0)
    with pytest.raises(InvalidParameter, match="whole number"):
        make().participations(1.5)


def test_no_privacy_promises_nothing():
    assert no_guarantee(3).epsilon == math.inf
    assert NoPrivacy().trust is Trust.NONE


def test_json_whose_numbers_contradict_each_other_is_refused():
    written = make(GaussianDP(0.1)).to_json()
    assert Guarantee.from_json(written) == make(GaussianDP(0.1))
    rounded = written | {"epsilon": written["epsilon"] * (1 + 1e-9)}
    assert Guarantee.from_json(rounded) == make(GaussianDP(0.1))
    for name, value in {"epsilon": 0.01, "delta": 0.0, "relation": "null"}.items():
        with pytest.raises(InvalidParameter, match=f"states {name}=.*does not follow"):
            Guarantee.from_json(written | {name: value})
    with pytest.raises(InvalidParameter, match="gaussian, pure or approximate"):
        Guarantee.from_json(written | {"loss": {"kind": "x", "epsilon": 0.1, "delta": 0.0}})
    with pytest.raises(InvalidParameter, match="trust must be"):
        Guarantee.from_json(written | {"trust": "everybody"})
