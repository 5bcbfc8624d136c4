"""Reports by a codebook: private by counting, for every codebook and every contribution, and
unbiased by rotation invariance.
"""

import math
import secrets
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.audit.mechanisms import Scaled
from confide.errors import InvalidParameter
from confide.mechanisms import codebook, sources
from confide.mechanisms.codebook import (
    COORDINATES,
    Codebook,
    DrawnIndex,
    SignReport,
    best_codebook,
    best_report,
    best_signs,
)
from confide.mechanisms.sources import FastSource, noise_source
from confide.mixtures.questions.contributions import Answers
from confide.privacy import PureDP
from confide.privacy.bounded import L2Ball

NONCE = bytes(range(16))
BALL = L2Ball(2.0, 3)
FIRST = [-0.842418, 1.229525, 0.377943]


def chances(codebook, values, nonce, far=None):
    """The exact probability of every index: n weights of one and N - n of `far`, a rational number
    next to e^-epsilon.
    """
    far = Fraction(math.exp(-codebook.epsilon)) if far is None else far
    weights = [Fraction(1) if near else far for near in codebook.near(values, nonce)]
    total = sum(weights)
    return [weight / total for weight in weights]


def ratio(codebook, one, other, nonce, far=None):
    """max_i P(i | one) / P(i | other), over all indices: nothing is sampled."""
    pairs = zip(
        chances(codebook, one, nonce, far), chances(codebook, other, nonce, far), strict=True
    )
    return max(a / b for a, b in pairs)


HOSTILE = [
    np.zeros(3),
    np.full(3, 1e300),
    np.full(3, np.nan),
    np.array([np.inf, 0.0, 0.0]),
    np.array([2.0, 0.0, 0.0]),
]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
def test_no_index_is_more_than_e_to_the_epsilon_times_as_likely(epsilon):
    """By enumeration, with rational numbers, for random and for hostile contributions: also outside
    the ball.
    """
    codebook, rng = best_codebook(BALL, epsilon), np.random.default_rng(0)
    most = 1 / Fraction(math.exp(-epsilon))
    with np.errstate(all="ignore"):
        for turn in range(20):
            one, other = (
                rng.normal(size=(2, 3))
                if turn < 10
                else (HOSTILE[turn % 5], HOSTILE[(turn + 1 + turn // 15) % 5])
            )
            nonce = rng.bytes(16)
            assert (
                codebook.near(one, nonce).sum()
                == codebook.near(other, nonce).sum()
                == codebook.nearest
            )
            assert ratio(codebook, one, other, nonce) <= most
    # The bound is attained.
    assert ratio(codebook, HOSTILE[4], -HOSTILE[4], NONCE) == most
    assert codebook.loss() == PureDP(epsilon)


def test_broken_twins_exceed_it():
    """A coin that keeps too rarely, and a set of the near that is as large as the data say."""
    codebook, one = best_codebook(BALL, 1.0), np.array([2.0, 0.0, 0.0])
    assert ratio(codebook, one, -one, NONCE, far=Fraction(math.exp(-1.25))) > Fraction(
        math.exp(1.0)
    )
    larger = Codebook(3, 2.0, 1.0, codebook.nearest + 200)
    pairs = zip(chances(codebook, one, NONCE), chances(larger, -one, NONCE), strict=True)
    assert max(a / b for a, b in pairs) > Fraction(math.exp(1.0))


@pytest.mark.parametrize("kind", ["fast", "secure"])
@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.5])
def test_the_source_chooses_with_these_chances(kind, epsilon):
    """4000 draws: the share of likely ones within 5 standard errors, false alarm 6e-7; a coin with
    epsilon 20 % off is rejected.
    """
    source, likely = noise_source(kind), np.arange(8) < 3
    drawn = np.array([source.choose(likely, epsilon) for _ in range(4000)])
    share = 3 / (3 + 5 * math.exp(-epsilon))
    allowed = 5 * math.sqrt(share * (1 - share) / 4000)
    assert abs(likely[drawn].mean() - share) < allowed
    counts = np.bincount(drawn, minlength=8)
    assert (np.abs(counts[:3] - counts[:3].mean()) < 5 * math.sqrt(counts[:3].mean())).all()
    if epsilon > 1:
        assert abs(likely[drawn].mean() - 3 / (3 + 5 * math.exp(-1.25 * epsilon))) > allowed


def test_a_coin_of_any_loss_ends():
    source, likely = noise_source("fast", 0), np.array([True, False])
    assert {source.choose(likely, 1e-300) for _ in range(100)} == {0, 1}
    assert {source.choose(likely, 1e30) for _ in range(100)} == {0}


def test_the_source_of_a_twin_lies_less():
    """2000 draws each: 0.731 and 0.982 of them are likely, within 5 standard errors."""
    likely = np.array([True, False])
    for factor, share in ((1.0, 1 / (1 + math.exp(-1))), (0.25, 1 / (1 + math.exp(-4)))):
        source = Scaled(FastSource(np.random.default_rng(1)), factor)
        found = np.mean([source.choose(likely, 1.0) == 0 for _ in range(2000)])
        assert abs(found - share) < 5 * math.sqrt(share * (1 - share) / 2000)


@pytest.mark.parametrize("contribution", [[0.0, 0.0, 0.0], [1.0, 0.0, -0.5], [2.0, 0.0, 0.0]])
def test_messages_are_unbiased_and_have_the_stated_noise(contribution):
    """4000 messages: means within 4.5 standard errors (false alarm 2e-5), standard deviations
    within 5 / sqrt(8000) = 6 %.
    """
    codebook, source, values = (
        best_codebook(BALL, 1.0),
        noise_source("fast", 0),
        np.array(contribution),
    )
    nonces = [source.token(16) for _ in range(4000)]
    decoded = np.array(
        [codebook.decode(codebook.draw(values, nonce, source), nonce) for nonce in nonces]
    )
    assert np.abs(decoded.mean(axis=0) - values).max() < 4.5 * codebook.std / math.sqrt(4000)
    np.testing.assert_allclose(decoded.std(axis=0), codebook.std, rtol=0.06)


def test_the_variance_of_a_coordinate():
    """In units of radius^2: golden values."""
    for epsilon, variance in ((0.5, 25.2), (1.0, 6.34), (2.0, 1.62), (5.0, 0.294), (10.0, 0.104)):
        report = best_codebook(L2Ball(1.0, 20), epsilon)
        assert 1 / report.gain**2 == pytest.approx(variance, rel=4e-3)
        assert report.std**2 == pytest.approx((20 / report.gain**2 + report.along) / 21)


def test_order_statistics_are_those_of_a_small_case():
    """Of two standard normal variables the larger has mean 1/sqrt(pi) and second moment 1: both
    constants by hand.
    """
    report, lied = Codebook(1, 1.0, 1.0, 1, 2), math.exp(-1)
    gain = (1 - lied) / math.sqrt(math.pi) / (1 + lied)
    assert report.gain == pytest.approx(gain, rel=1e-9)
    assert report.along == pytest.approx(1 / gain**2 - 1, rel=1e-9)


def test_the_vectors_are_a_fixed_function_of_the_nonce():
    """Server and device may run different versions of NumPy: the first vector for this nonce,
    written down once.
    """
    codebook = best_codebook(BALL, 1.0)
    np.testing.assert_allclose(
        codebook.decode(0, NONCE) * codebook.gain / codebook.radius, FIRST, rtol=1e-5
    )
    whole = codebook._codebook_rows(NONCE, 0, 1024)
    for index in (0, 7, 1023):
        np.testing.assert_allclose(
            codebook._codebook_rows(NONCE, index, index + 1)[0], whole[index], rtol=1e-5
        )
    assert abs(whole.mean()) < 5 / 64 and abs(whole.std() - 1) < 5 / math.sqrt(8192)


def test_large_contributions_are_measured_in_parts(monkeypatch):
    codebook = best_codebook(L2Ball(1.0, 50), 1.0)
    values = np.full(50, 0.1)
    at_once = codebook.near(values, NONCE)
    monkeypatch.setattr("confide.mechanisms.codebook._NUMBERS_AT_ONCE", 1000)
    np.testing.assert_array_equal(codebook.near(values, NONCE), at_once)


@given(st.integers(0, 1023), st.sampled_from(HOSTILE[:1] + HOSTILE[4:]))
def test_the_likelihood_of_an_index_is_at_most_epsilon(index, values):
    drawn = DrawnIndex(best_codebook(BALL, 1.5), NONCE)
    log_ratio = drawn.log_ratio(index, values, np.array([0.0, 1.0, 0.0]))
    assert log_ratio in (-1.5, 0.0, 1.5)
    assert drawn.log_ratio(index, values, values) == 0


@pytest.mark.parametrize(
    "made",
    [
        lambda: Codebook(3, 1.0, 1.0, 1024),
        lambda: Codebook(3, 1.0, 1.0, 0),
        lambda: Codebook(3, 1.0, 0.0, 10),
        lambda: Codebook(3, math.nan, 1.0, 10),
        lambda: Codebook(COORDINATES + 1, 1.0, 1.0, 10),
        lambda: best_codebook(L2Ball(1.0, COORDINATES + 1), 1.0),
        lambda: best_codebook(BALL, 1.0).decode(1024, NONCE),
    ],
)
def test_no_such_codebook(made):
    with pytest.raises(InvalidParameter):
        made()


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("size", [1, 3, 12])
def test_no_pattern_of_signs_is_more_than_e_to_the_epsilon_times_as_likely(size, epsilon):
    """By enumeration, for every nonce and for hostile contributions; opposite answers attain it."""
    report, rng, most = (
        best_signs(Answers(size), epsilon),
        np.random.default_rng(0),
        1 / Fraction(math.exp(-epsilon)),
    )
    for strange in (0.0, 1e300, np.nan, np.inf, 0.5):
        nonce, one = rng.bytes(16), rng.normal(size=size)
        other = np.full(size, strange)
        assert report.near(one, nonce).sum() == report.near(other, nonce).sum() == report.nearest
        assert ratio(report, one, other, nonce) <= most
    assert ratio(report, np.full(size, 0.5), np.full(size, -0.5), NONCE) == most
    assert (
        ratio(
            report,
            np.full(size, 0.5),
            np.full(size, -0.5),
            NONCE,
            far=Fraction(math.exp(-1.25 * epsilon)),
        )
        > most
    )
    assert report.loss() == PureDP(epsilon)


def test_signs_are_unbiased():
    """20,000 reports: by 4.5 standard errors a false alarm of 7e-6 per number; twice the gain would
    be off by half of each answer.
    """
    report, source = best_signs(Answers(4), 2.0), noise_source("fast", 0)
    values = np.array([0.5, -0.5, 0.0, 0.25])
    nonces = [source.token(16) for _ in range(20_000)]
    decoded = np.array(
        [report.decode(report.draw(values, nonce, source), nonce) for nonce in nonces]
    )
    assert np.abs(decoded.mean(axis=0) - values).max() < 4.5 * report.std / math.sqrt(20_000) < 0.05
    np.testing.assert_allclose(decoded.var(axis=0), report.std**2 - values**2, rtol=0.06)


def test_the_variance_of_an_answer():
    """By hand: randomized response on one of D answers at epsilon = 1, on pairs of them at 2; then
    the codebook is better.
    """
    coin = (math.e + 1) / (math.e - 1)
    for size in (1, 5, 12):
        report = best_report(Answers(size), 1.0)
        assert (report.sign_count, report.nearest) == (1, 1) and report.std**2 == pytest.approx(
            size / 4 * coin**2
        )
    pair = (math.e**2 + 3) / (math.e**2 - 1)
    report = best_report(Answers(6), 2.0)
    assert (report.sign_count, report.nearest) == (2, 1) and report.std**2 == pytest.approx(
        6 / 8 * pair**2
    )
    assert isinstance(best_report(Answers(6), 8.0), Codebook) and isinstance(
        best_report(L2Ball(1.0, 20), 1.0), Codebook
    )


def test_patterns_within_one_place():
    """Three coordinates, those that differ in at most one place: 4 of 8 patterns, E z.x = 3 + 3 of
    them.
    """
    report = SignReport(3, 1.0, 1.0, 3, 4)
    assert report.gain == pytest.approx((1 - math.exp(-1)) * 6 / (3 * (4 + 4 * math.exp(-1))))
    assert report.near(np.ones(3), NONCE).tolist() == [
        False,
        False,
        False,
        True,
        False,
        True,
        True,
        True,
    ]


@pytest.mark.parametrize(
    "made",
    [
        lambda: SignReport(3, 1.0, 1.0, 3, 2),
        lambda: SignReport(3, 1.0, 1.0, 3, 8),
        lambda: SignReport(3, 1.0, 1.0, 4, 1),
        lambda: SignReport(20, 1.0, 1.0, 11, 1),
        lambda: SignReport(3, 0.0, 1.0, 1, 1),
        lambda: SignReport(3, 1.0, math.inf, 1, 1),
        lambda: best_signs(Answers(3), 1.0).decode(2, NONCE),
    ],
)
def test_no_such_report_of_signs(made):
    with pytest.raises(InvalidParameter):
        made()


@pytest.mark.parametrize("loss", [0.5, 1.0, 4.0, 200.0])
def test_how_long_a_draw_takes_says_nothing_about_it(loss):
    """There is one draw from a fixed range, near or far; every number of it belongs to one index,
    and far ones own e^-loss of a near one, rounded up by 2^-126 at most."""
    near, limits = np.arange(1024) % 3 == 0, []

    def below(limit):
        limits.append(limit)
        return secrets.randbelow(limit)

    for _ in range(50):
        sources._choose(below, near, loss)
    limit, many = sources._units_above(loss), int(near.sum())
    whole = many * 2**128 + (1024 - many) * limit
    assert limits == [whole] * 50
    edges = [k * 2**128 for k in range(many)] + [
        many * 2**128 + k * limit for k in range(1024 - many)
    ]
    order = np.concatenate([np.flatnonzero(near), np.flatnonzero(~near)])
    for first, last, index in zip(edges, [*edges[1:], whole], order, strict=True):
        assert {sources._choose(lambda _, at=at: at, near, loss) for at in (first, last - 1)} == {
            index
        }
    with localcontext() as context:
        context.prec = 100
        assert 0 < Decimal(limit) / 2**128 - (-Decimal(loss)).exp() < Decimal(2) ** -126


@given(nonce=st.binary(min_size=16, max_size=16), counter=st.integers(0, 2**40))
def test_the_generator_of_a_nonce_is_philox_with_this_key(nonce, counter):
    numbers = codebook._philox(nonce, counter).random_raw(9)
    assert (
        numbers == np.random.Philox(key=int.from_bytes(nonce), counter=counter).random_raw(9)
    ).all()
