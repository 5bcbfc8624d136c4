import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.errors import InvalidParameter, PrivacyError
from confide.evaluation.contributions import Bands
from confide.mechanisms.additive import additive_noise, loss_of, sensitivity_of
from confide.mechanisms.counters import Exact, Toeplitz, Tree
from confide.mechanisms.sources import noise_source
from confide.privacy import ApproxDP, GaussianDP, PureDP, Relation
from confide.privacy.accounting import gaussian_delta
from confide.privacy.bounded import L2Ball


def noise(loss, *, bound=None, discrete=False, query=None, users=1000):
    return additive_noise(
        bound or L2Ball(1.0, 4),
        loss,
        Relation.REPLACE,
        query or Exact(1),
        discrete=discrete,
        users=users,
    )


def test_gaussian_and_laplace_scales():
    assert noise(GaussianDP(0.5)).scale == pytest.approx(2 / 0.5)
    assert noise(PureDP(0.5)).scale == pytest.approx(4 / 0.5)  # L1: sqrt(4) x 2
    assert noise(PureDP(0.5)).std == pytest.approx(8 * math.sqrt(2))
    assert noise(GaussianDP(0.5), query=Tree(7)).scale == pytest.approx(2 * math.sqrt(3) / 0.5)
    assert noise(PureDP(math.inf)).scale == 0


@given(st.floats(0.01, 10), st.booleans(), st.booleans())
def test_the_loss_is_what_was_asked_for_never_more(amount, gaussian, discrete):
    loss = GaussianDP(amount) if gaussian else PureDP(amount)
    given_loss = noise(loss, discrete=discrete).loss()
    got = given_loss.mu if gaussian else given_loss.epsilon
    assert got <= amount * (1 + 1e-12)
    assert got == pytest.approx(amount, rel=1e-9)


@settings(max_examples=40)
@given(st.floats(0.02, 3), st.floats(0.05, 5), st.integers(256, 3000))
def test_discrete_gaussian_noise_keeps_the_profile_of_the_margin(mu, epsilon, scale):
    """The exact hockey-stick divergence of two discrete Gaussians, at steps as coarse as 2^-8 of the noise."""
    shift = max(1, round(mu * scale))
    z = np.arange(-12 * scale - shift, 12 * scale + shift)
    log_p = -((z - shift) ** 2) / (2 * scale**2)
    log_q = -(z**2) / (2 * scale**2)
    normaliser = np.exp(log_q).sum()
    true = np.maximum(np.exp(log_p) - math.exp(epsilon) * np.exp(log_q), 0).sum() / normaliser
    claimed = loss_of("gaussian", shift, scale, 1.0)
    assert true <= claimed.delta_at(epsilon) * (1 + 1e-9) + 1e-14
    assert claimed.mu <= shift / scale * 1.01


def test_the_margin_is_needed():
    """Without it there are pairs whose discrete profile exceeds the continuous one: the margin is not decoration."""
    exceeded = []
    for shift in range(1, 40):
        z = np.arange(-800, 800)
        p, q = np.exp(-((z - shift) ** 2) / 512), np.exp(-(z**2) / 512)
        true = np.maximum(p - math.exp(1.0) * q, 0).sum() / q.sum()
        exceeded.append(true > gaussian_delta(1.0, shift / 16) * (1 + 1e-12))
    assert any(exceeded)


def test_rounding_to_the_lattice_is_paid_for():
    """Two neighbours, rounded: their distance never exceeds the sensitivity that the noise was made for."""
    made = noise(GaussianDP(1.0), discrete=True)
    rng = np.random.default_rng(0)
    for _ in range(300):
        one = rng.normal(size=4)
        one /= np.linalg.norm(one)
        ball = L2Ball(1.0, 4)
        distance = np.linalg.norm(
            (made.to_lattice(ball.clip(one).values) - made.to_lattice(ball.clip(-one).values))
            * made.step
        )
        assert distance <= made.sensitivity
    assert made.sensitivity == 2


def test_sums_fit_into_64_bits_or_are_refused():
    made = noise(GaussianDP(1.0), discrete=True, query=Toeplitz(20, bits=16), users=10**6)
    assert 10**6 * 1.0 * 2**16 / made.step < 2**62
    with pytest.raises(InvalidParameter, match="do not fit into 64 bits"):
        noise(GaussianDP(1.0), discrete=True, query=Toeplitz(20, bits=30), users=10**12)


def test_noise_that_would_saturate_64_bits_is_refused():
    """OpenDP's draws stop at the ends of int64; with this scale a third of them did, and hid nothing."""
    with pytest.raises(InvalidParameter, match="do not fit into 64 bits"):
        noise(GaussianDP(1e-4), discrete=True, query=Toeplitz(2, bits=30), users=2)
    with pytest.raises(InvalidParameter, match="not exact in floating point"):
        noise(GaussianDP(1.0), discrete=True, users=2**30)
    with pytest.raises(InvalidParameter, match="too small for the lattice"):
        noise(GaussianDP(1e8), discrete=True)
    with pytest.raises(PrivacyError, match="does not fit into 64 bits"):
        noise_source("secure").gaussian(2.0**63, 200)


def test_refusals():
    for loss in (GaussianDP(0.0), PureDP(0.0), GaussianDP(math.inf)):
        with pytest.raises(InvalidParameter, match="positive and finite"):
            noise(loss)
    with pytest.raises(InvalidParameter, match="GaussianDP or PureDP"):
        noise(ApproxDP(1.0, 1e-5))


@pytest.mark.parametrize("loss", [GaussianDP(0.5), PureDP(0.5)])
def test_fast_noise_is_rounded_to_a_public_grid(loss):
    """Low bits of 1 + z are those of 1 [Mironov12]: without rounding more than 1 % of the releases tell 0 from 1."""
    noise = additive_noise(L2Ball(1.0, 1), loss, Relation.NULL, Exact(1), discrete=False, users=1)
    source, n = noise_source("fast", 0), 20_000
    draw = source.gaussian if isinstance(loss, GaussianDP) else source.laplace
    z = draw(noise.scale, n)
    assert (np.fmod(z + 1, 2.0**-53) == 0).all() and (np.fmod(z, 2.0**-53) != 0).mean() > 0.01
    assert 2.0**-11 < noise.snap / noise.scale <= 2.0**-10
    for exact in (0.0, 1.0):
        assert (np.fmod(noise.add(np.full((n, 1), exact), source), noise.snap) == 0).all()


def test_one_seed_gives_each_release_its_own_draws():
    first, same, other = (
        noise_source("fast", 3).for_release(asked).gaussian(1.0, 1000) for asked in ("a", "a", "b")
    )
    # false alarms 6e-7
    assert np.array_equal(first, same) and abs(np.corrcoef(first, other)[0, 1]) < 5 / math.sqrt(
        1000
    )


def test_the_largest_coordinate_where_nobody_sends_something_else_than_zero():
    """Bands: a user who contributed zero before has a residual here, so that null is no closer than replace: svec(g g^T) of (1, +-1)."""
    bound = Bands(1, 2)
    one, other = (np.array([0.5, sign * math.sqrt(0.5), 0.5]) for sign in (1, -1))
    assert bound.contains(one) and bound.contains(other)
    for relation in Relation:
        assert (
            np.abs(one - other).max()
            <= sensitivity_of(bound, "inf", relation)
            <= bound.sensitivity(relation)
        )
