import copy
import json
import math

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant

from confide.audit import verify
from confide.errors import CertificateError, InvalidParameter
from confide.mechanisms.counters import FACTORISATIONS, Counter, Exact, Leaves, Toeplitz, Tree
from confide.mechanisms.smooth import SmoothGaussian
from confide.mechanisms.sources import noise_source
from confide.privacy import (
    CentralDP,
    GaussianDP,
    Guarantee,
    JointDP,
    LocalDP,
    NoPrivacy,
    PureDP,
    Trust,
    billboard,
    compose,
    loss_for,
)
from confide.privacy.bounded import L2Ball
from confide.privacy.certificate import (
    Certificate,
    Mechanism,
    certify,
    check_schema,
    schema,
)
from confide.privacy.guarantee import no_guarantee

REQUEST = JointDP(1.0, 1e-5)


def counter(factorisation, *, loss=None, request=REQUEST, source="fast"):
    noise = noise_source(source, 0 if source == "fast" else None)
    return Counter(
        L2Ball(1.0, 3),
        factorisation,
        loss=loss or loss_for(request),
        request=request,
        users=100,
        noise=noise,
    )


def certificate(name="tree", **more):
    tree = counter(FACTORISATIONS[name](32), **more)
    return certify(billboard(tree.guarantee), [tree.mechanism()], subject="prefix sums")


@pytest.mark.parametrize(
    "request_", [REQUEST, JointDP(0.5, delta=0.0), JointDP(1.0, 1e-5, relation="null")]
)
@pytest.mark.parametrize("name", FACTORISATIONS)
def test_every_counters_certificate_verifies_after_a_trip_to_disk(tmp_path, name, request_):
    certified = certificate(name, request=request_)
    certified.save(tmp_path / "certificate.json")
    loaded = Certificate.load(tmp_path / "certificate.json")
    assert loaded == certified
    verified = verify(loaded)
    assert verified.epsilon == pytest.approx(request_.epsilon)
    assert verified.epsilon <= loaded.epsilon * (1 + 1e-9)


def test_secure_certificates_account_for_the_lattice():
    toeplitz = counter(Toeplitz(32, bits=16), source="secure")
    stated = certify(billboard(toeplitz.guarantee), [toeplitz.mechanism()])
    assert stated.document["guarantee"]["source"] == "secure"
    assert "fast-noise" not in {assumption.kind for assumption in stated.assumptions}
    assert verify(stated).epsilon == pytest.approx(1.0, abs=1e-6)
    document = copy.deepcopy(stated.document)
    document["mechanisms"][0]["lattice"] /= 2
    with pytest.raises(CertificateError, match="not the grid of the bound"):
        verify(Certificate(document))


def test_fast_noise_says_so():
    """It claims no secret seed, because a run's own files state it. The kind decides."""
    original = certificate()
    (fast,) = [each for each in original.assumptions if each.kind == "fast-noise"]
    assert fast.text.startswith("Simulation") and "secret" not in fast.text
    document = copy.deepcopy(original.document)
    for assumption in document["assumptions"]:
        assumption["text"] = "the same in other words"
    verify(Certificate(document))
    document["assumptions"] = [
        assumption for assumption in document["assumptions"] if assumption["kind"] != "fast-noise"
    ]
    with pytest.raises(CertificateError, match="assumption is missing: fast-noise"):
        verify(Certificate(document))


def test_a_certificate_of_an_older_format_is_refused_in_one_sentence():
    document = certificate().document | {"format": "confide-certificate/2"}
    with pytest.raises(CertificateError) as refused:
        check_schema(document)
    assert str(refused.value) == (
        "not a confide certificate that this version can read: "
        "its format is 'confide-certificate/2', not 'confide-certificate/3'"
    )


def test_its_guarantee_is_the_one_that_was_certified():
    tree = counter(Tree(32))
    assert certify(billboard(tree.guarantee), [tree.mechanism()]).guarantee == billboard(
        tree.guarantee
    )


def test_several_mechanisms_compose():
    half = GaussianDP(loss_for(REQUEST).mu / math.sqrt(2))
    both = [counter(Tree(32), loss=half), counter(Exact(1), loss=half)]
    together = Guarantee(
        compose(one.guarantee.loss for one in both), REQUEST, Trust.JOINT, 100, "fast"
    )
    assert verify(certify(together, [one.mechanism() for one in both])).epsilon == pytest.approx(
        1.0
    )


def test_gaussian_beside_laplace_is_composed_by_a_privacy_loss_distribution():
    parts = [counter(Tree(32), loss=GaussianDP(0.1)), counter(Exact(1), loss=PureDP(0.2))]
    together = Guarantee(
        compose((one.guarantee.loss for one in parts), delta=1e-5),
        REQUEST,
        Trust.JOINT,
        100,
        "fast",
    )
    stated = certify(together, [one.mechanism() for one in parts])
    assert stated.document["guarantee"]["loss"]["kind"] == "approximate"
    assert verify(stated).epsilon == pytest.approx(together.epsilon)


def test_k_norm_beside_gaussian_noise_about_the_same_users():
    """By an independent accountant: a pure loss is no better than randomised response, and never a
    Gaussian one of the same (1, 1e-5).
    """
    half = CentralDP(0.5, 1e-5)
    ball = Counter(
        L2Ball(1.0, 3), Exact(1), loss=None, request=half, users=100, noise=noise_source("fast", 0)
    )
    assert ball.noise.distribution == "ball" and ball.guarantee.loss == PureDP(0.5)
    parts = [ball, counter(Tree(32), loss=GaussianDP(0.1))]
    together = Guarantee(
        compose((one.guarantee.loss for one in parts), delta=1e-5),
        REQUEST,
        Trust.JOINT,
        100,
        "fast",
    )
    verified = verify(certify(together, [one.mechanism() for one in parts]))
    assert verified.losses[0] == PureDP(0.5) and verified.losses[1].mu == pytest.approx(0.1)
    accountant = (
        PLDAccountant()
        .compose(dp_accounting.GaussianDpEvent(10.0))
        .compose(dp_accounting.LaplaceDpEvent(2.0))
    )
    # of all that is 0.5-DP, Laplace noise is not the worst
    assert accountant.get_epsilon(1e-5) <= verified.epsilon * (1 + 1e-3)
    assert 0.5 < verified.epsilon <= 0.5 + GaussianDP(0.1).epsilon_at(5e-6)
    claimed = Guarantee(loss_for(half), half, Trust.CENTRAL, 100, "fast")
    with pytest.raises(CertificateError, match="the mechanisms give PureDP"):
        verify(certify(claimed, [ball.mechanism()]))


@pytest.mark.parametrize("source", ["fast", "secure"])
def test_a_ball_is_verified_and_less_noise_is_refused(source):
    tree = Counter(
        L2Ball(1.0, 3),
        Leaves(4),
        loss=None,
        request=CentralDP(1.0, 1e-5),
        users=10,
        noise=noise_source(source),
    )
    stated = certify(tree.guarantee, [tree.mechanism()])
    assert verify(stated).losses[0].epsilon == pytest.approx(1.0)
    changes = {"scale": 0.99, "sensitivity": 0.9}
    for name, factor in changes.items():
        less = tree.mechanism().to_json()
        less[name] *= factor
        with pytest.raises(CertificateError):
            verify(certify(tree.guarantee, [Mechanism(**less)]))
    if source == "secure":
        between = tree.mechanism().to_json() | {
            "sensitivity": tree.noise.sensitivity + tree.noise.step
        }
        with pytest.raises(CertificateError, match="whole number of shells"):
            verify(certify(tree.guarantee, [Mechanism(**between)]))


def test_local_and_smooth_mechanisms():
    local = LocalDP(1.0, 1e-5)
    mu = loss_for(local).mu
    sent = Mechanism(name="local", distribution="gaussian", norm=2, sensitivity=2.0, scale=2.0 / mu)
    assert verify(
        certify(Guarantee(GaussianDP(mu), local, Trust.LOCAL, 10, "fast"), [sent])
    ).epsilon == pytest.approx(1.0)
    central = CentralDP(1.0, 1e-5)
    smooth = SmoothGaussian(1.0, 1e-5, 5)
    parameters = {
        "epsilon": 1.0,
        "delta": 1e-5,
        "alpha": smooth.alpha,
        "beta": smooth.beta,
        "dimension": 5,
    }
    released = Mechanism(
        name="smooth",
        distribution="gaussian",
        norm=2,
        sensitivity=None,
        scale=None,
        parameters=parameters,
    )
    promise = Guarantee(smooth.loss, central, Trust.CENTRAL, 10, "fast")
    assert verify(certify(promise, [released])).epsilon == pytest.approx(1.0)
    weaker = certify(
        promise,
        [
            Mechanism(
                **(released.to_json() | {"parameters": parameters | {"alpha": 0.8 * smooth.alpha}})
            )
        ],
    )
    with pytest.raises(CertificateError, match="alpha and beta give delta"):
        verify(weaker)


def test_no_privacy_is_certified_as_none():
    exact = counter(Exact(3), loss=PureDP(math.inf), request=NoPrivacy())
    stated = certify(exact.guarantee, [exact.mechanism()])
    assert stated.document["guarantee"]["epsilon"] is None
    assert [assumption.kind for assumption in stated.assumptions] == ["no-noise"]
    assert verify(stated).epsilon == math.inf
    assert json.loads(json.dumps(stated.document, allow_nan=False)) == stated.document


TAMPERINGS = {
    "less noise": (("mechanisms", 0, "scale"), lambda x: 0.99 * x),
    "a larger sensitivity": (("mechanisms", 0, "sensitivity"), lambda x: 1.01 * x),
    "more leaves": (("mechanisms", 0, "parameters", "leaves"), lambda x: 4 * x),
    "a smaller epsilon": (("guarantee", "epsilon"), lambda x: 0.99 * x),
    "a smaller loss": (("guarantee", "loss", "mu"), lambda x: 0.99 * x),
    "a smaller request": (("guarantee", "request", "epsilon"), lambda x: 0.99 * x),
    "a smaller delta": (("guarantee", "delta"), lambda x: 0.9 * x),
    "a larger delta": (("guarantee", "delta"), lambda x: 2 * x),
    "another trust": (("guarantee", "trust"), lambda _: "local"),
    "no noise": (("mechanisms", 0, "distribution"), lambda _: "none"),
    "the other noise": (("mechanisms", 0, "distribution"), lambda _: "laplace"),
    "zero noise": (("mechanisms", 0, "scale"), lambda _: 0.0),
    "no guarantee": (("guarantee", "epsilon"), lambda _: None),
    "absurdly many leaves": (("mechanisms", 0, "parameters", "leaves"), lambda _: 10**18),
    "parameters of another counter": (("mechanisms", 0, "parameters", "bits"), lambda _: 16),
    "leaves that are not whole": (("mechanisms", 0, "parameters", "leaves"), lambda _: 32.0),
    "more leaves than users": (("guarantee", "users"), lambda _: 3),
    "a larger epsilon": (("guarantee", "epsilon"), lambda x: 1.01 * x),
    "a larger loss": (("guarantee", "loss", "mu"), lambda x: 1.01 * x),
    "a smaller sensitivity": (("mechanisms", 0, "sensitivity"), lambda x: 0.99 * x),
    "more noise": (("mechanisms", 0, "scale"), lambda x: 1.01 * x),
    "another bound": (("mechanisms", 0, "bound", "radius"), lambda x: 1.01 * x),
    "another relation": (("guarantee", "relation"), lambda _: "null"),
    "secure noise without a lattice": (("guarantee", "source"), lambda _: "secure"),
    "a lattice without secure noise": (("mechanisms", 0, "lattice"), lambda _: 1e-9),
    "no source": (("guarantee", "source"), lambda _: "none"),
    "nothing assumed": (("assumptions",), lambda _: []),
    "pure loss for Gaussian noise": (
        ("guarantee", "loss"),
        lambda _: {"kind": "pure", "epsilon": 1.0},
    ),
    "approximate loss for Gaussian noise": (
        ("guarantee", "loss"),
        lambda _: {"kind": "approximate", "epsilon": 1.0, "delta": 1e-5},
    ),
    "sizes that are not whole": (("mechanisms", 0, "bound", "size"), lambda _: 3.01),
    "a local mechanism in a central place": (("mechanisms", 0, "name"), lambda _: "local"),
}


@pytest.mark.parametrize("tampering", TAMPERINGS)
def test_every_tampering_is_noticed(tampering):
    path, change = TAMPERINGS[tampering]
    document = copy.deepcopy(certificate("tree").document)
    *parents, last = path
    place = document
    for key in parents:
        place = place[key]
    place[last] = change(place.get(last))
    check_schema(document)
    with pytest.raises(CertificateError):
        verify(Certificate(document))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not the JSON of a certificate"),
        ("[]", "not a confide certificate"),
        ('{"format": "other"}', "not a confide certificate"),
        ('{"x": NaN}', "NaN is not allowed"),
        ('{"x": Infinity}', "Infinity is not allowed"),
        ('{"x": 1e999}', "1e999 is not allowed"),
        ('{"x": 1, "x": 2}', "a key appears twice"),
    ],
)
def test_what_is_not_a_certificate_is_refused(tmp_path, text, message):
    (tmp_path / "c.json").write_text(text)
    with pytest.raises(CertificateError, match=message):
        Certificate.load(tmp_path / "c.json")


def test_the_schema_knows_every_counter():
    names = schema()["$defs"]["mechanism"]["properties"]["name"]["enum"]
    assert set(names) == {*FACTORISATIONS, "rounds", "local", "distributed", "smooth"}


def test_a_certificate_is_about_one_participation():
    tree = counter(Tree(32))
    with pytest.raises(InvalidParameter, match="one participation"):
        certify(tree.guarantee.participations(2), [tree.mechanism()])


def test_central_guarantees_become_joint_certificates():
    tree = counter(Tree(32), request=CentralDP(1.0, 1e-5))
    assert verify(certify(billboard(tree.guarantee), [tree.mechanism()])).epsilon == pytest.approx(
        1.0
    )


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(CertificateError, match="cannot read"):
        Certificate.load(tmp_path / "none.json")


def test_the_schema_is_itself_valid_and_names_the_place():
    import jsonschema

    jsonschema.Draft202012Validator.check_schema(schema())
    document = copy.deepcopy(certificate().document)
    document["mechanisms"][0]["scale"] = "much"
    with pytest.raises(CertificateError, match="mechanisms/0/scale"):
        check_schema(document)


def test_no_guarantee_has_no_epsilon():
    assert no_guarantee(3).epsilon == math.inf
    assert np.isinf(
        certify(no_guarantee(3), [Mechanism("exact", "none", 2, 1.0, 0.0, {"leaves": 1})]).epsilon
    )
