"""Noise that is added to a sum: densities, samplers, and the least noise of all kinds."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from confide.errors import InvalidParameter, PrivacyError
from confide.evaluation.contributions import Bands
from confide.mechanisms.additive import (
    additive_noise,
    ball_noise,
    cube_noise,
    least_noise,
    loss_of,
    pure_noise,
    sensitivity_of,
)
from confide.mechanisms.counters import Exact, Leaves, Toeplitz, Tree
from confide.mechanisms.sources import noise_source, shell_width
from confide.mixtures.questions.contributions import Answers
from confide.privacy import ApproxDP, CentralDP, GaussianDP, NoPrivacy, PureDP, Relation
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
    # The L1 sensitivity is sqrt(4) x 2.
    assert noise(PureDP(0.5)).scale == pytest.approx(4 / 0.5)
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
    """The exact hockey-stick divergence of two discrete Gaussians, at steps as coarse as 2^-8 of
    the noise.
    """
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
    """Without it there are pairs whose discrete profile exceeds the continuous one: the margin is
    not decoration.
    """
    exceeded = []
    for shift in range(1, 40):
        z = np.arange(-800, 800)
        p, q = np.exp(-((z - shift) ** 2) / 512), np.exp(-(z**2) / 512)
        true = np.maximum(p - math.exp(1.0) * q, 0).sum() / q.sum()
        exceeded.append(true > gaussian_delta(1.0, shift / 16) * (1 + 1e-12))
    assert any(exceeded)


def test_rounding_to_the_lattice_is_paid_for():
    """Two neighbours, rounded: their distance never exceeds the sensitivity that the noise was made
    for.
    """
    gaussian = noise(GaussianDP(1.0), discrete=True)
    rng = np.random.default_rng(0)
    for _ in range(300):
        one = rng.normal(size=4)
        one /= np.linalg.norm(one)
        ball = L2Ball(1.0, 4)
        distance = np.linalg.norm(
            (
                gaussian.to_lattice(ball.clip(one).values)
                - gaussian.to_lattice(ball.clip(-one).values)
            )
            * gaussian.step
        )
        assert distance <= gaussian.sensitivity
    assert gaussian.sensitivity == 2


def test_sums_fit_into_64_bits_or_are_refused():
    gaussian = noise(GaussianDP(1.0), discrete=True, query=Toeplitz(20, bits=16), users=10**6)
    assert 10**6 * 1.0 * 2**16 / gaussian.step < 2**62
    with pytest.raises(InvalidParameter, match="do not fit into 64 bits"):
        noise(GaussianDP(1.0), discrete=True, query=Toeplitz(20, bits=30), users=10**12)


def test_noise_that_would_saturate_64_bits_is_refused():
    """OpenDP's draws stop at the ends of int64; with this scale a third of them did, and hid
    nothing.
    """
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
    """Low bits of 1 + z are those of 1 [Mironov12]: without rounding more than 1 % of the releases
    tell 0 from 1.
    """
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
        noise_source("fast", 3).for_release(name).gaussian(1.0, 1000) for name in ("a", "a", "b")
    )
    # false alarms 6e-7
    assert np.array_equal(first, same) and abs(np.corrcoef(first, other)[0, 1]) < 5 / math.sqrt(
        1000
    )


def test_the_largest_coordinate_where_nobody_sends_something_else_than_zero():
    """Bands: a user who contributed zero before has a residual here, so that null is no closer than
    replace: svec(g g^T) of (1, +-1).
    """
    bound = Bands(1, 2)
    one, other = (np.array([0.5, sign * math.sqrt(0.5), 0.5]) for sign in (1, -1))
    assert bound.contains(one) and bound.contains(other)
    for relation in Relation:
        assert (
            np.abs(one - other).max()
            <= sensitivity_of(bound, "inf", relation)
            <= bound.sensitivity(relation)
        )


def test_the_ratio_of_densities_is_at_most_e_to_the_epsilon_in_the_cube():
    """Densities normalised by numerical integration for D = 1, 2, 3, at points and shifts all over
    the cube; e^epsilon is attained.
    """
    epsilon = 1.3
    for D in (1, 2, 3):
        noise = cube_noise(Answers(D), epsilon, Relation.REPLACE, discrete=False)

        def density(z, scale=noise.scale):
            return math.exp(-np.abs(z).max() / scale)

        # over radii: a cube of half-width r has surface 2 D (2 r)^(D - 1)
        mass, _ = integrate.quad(
            lambda r, D=D, s=noise.scale: 2 * D * (2 * r) ** (D - 1) * math.exp(-r / s), 0, np.inf
        )
        assert mass == pytest.approx(math.factorial(D) * (2 * noise.scale) ** D)
        points = np.random.default_rng(0).normal(0, 3 * noise.scale, size=(500, D))
        # A user's answers become another user's.
        shifts = np.array(list(itertools.product([-1, 0, 1], repeat=D)))
        ratios = [density(z) / density(z + v) for z in points for v in shifts]
        assert math.exp(epsilon) * (1 - 1e-5) < max(ratios) <= math.exp(epsilon) * (1 + 1e-12)
        assert noise.loss() == PureDP(epsilon)


@pytest.mark.parametrize("D", [1, 4, 9])
def test_the_standard_deviation_of_cube_noise(D):
    """4e4 draws: within 5 standard errors (false alarms 6e-7), and 5 % less is rejected."""
    noise = cube_noise(Answers(D), 1.0, Relation.REPLACE, discrete=False)
    assert noise.std == pytest.approx(math.sqrt((D + 1) * (D + 2) / 3), rel=1e-6)
    rows = noise.add(np.zeros((40_000, D)), noise_source("fast", 0))
    squares = (rows**2).mean(axis=1)
    error = squares.std() / math.sqrt(len(squares))
    assert (
        abs(squares.mean() - noise.std**2)
        < 5 * error
        < abs(squares.mean() - (0.95 * noise.std) ** 2)
    )
    assert D == 1 or abs(np.corrcoef(rows.T)[0, -1]) < 5 / math.sqrt(len(rows))


@pytest.mark.parametrize(("D", "scale"), [(1, 2.0), (2, 3.0), (3, 2.5)])
def test_whole_numbers_have_exactly_the_right_probabilities_in_the_cube(D, scale):
    """Chi-square over the radius ||z||_inf of 4,000 draws against (2m+1)^D - (2m-1)^D times
    exp(-m/scale): rejected at 1e-6. The same with a scale 20 % smaller is."""
    rows = noise_source("secure").cube(scale, (4_000, D))
    radius = np.abs(rows).max(axis=1)

    def p_value(s):
        m = np.arange(200)
        shell = (2 * m + 1.0) ** D - np.maximum(2 * m - 1.0, 0) ** D
        weights = shell * np.exp(-m / s)
        weights /= weights.sum()
        cut = int(np.searchsorted(np.cumsum(weights), 0.98))
        seen = np.append(
            np.bincount(np.minimum(radius, cut), minlength=cut + 1)[:cut], (radius >= cut).sum()
        )
        expected = np.append(weights[:cut], weights[cut:].sum()) * len(rows)
        return stats.chisquare(seen, expected).pvalue

    assert p_value(scale) > 1e-6 > p_value(0.8 * scale)
    inside = rows[radius == radius.max() // 2] if D > 1 else rows
    # The noise is symmetric.
    assert abs(np.sign(rows).mean(axis=0)).max() < 5 / math.sqrt(len(rows))
    assert inside.dtype == np.int64


def test_on_the_lattice_of_answers():
    noise = cube_noise(Answers(3), 1.0, Relation.NULL, discrete=True)
    released = noise.add(noise.to_lattice(np.array([[0.5, -0.5, 2.0]])), noise_source("secure"))
    assert np.array_equal(np.rint(released / noise.step) * noise.step, released)
    assert noise.sensitivity == pytest.approx(
        0.5, rel=1e-6
    ) and noise.loss().epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_a_bad_epsilon_is_refused_by_cube_noise(epsilon):
    with pytest.raises(InvalidParameter, match="epsilon"):
        cube_noise(Answers(1), epsilon, Relation.REPLACE, discrete=False)


REPLACE = Relation.REPLACE


def test_the_ratio_of_densities_is_at_most_e_to_the_epsilon_in_the_ball():
    """Densities normalised by numerical integration for D = 1, 2, 3, at points and shifts all over
    the ball; e^epsilon is attained.
    """
    epsilon, rng = 1.3, np.random.default_rng(0)
    for D in (1, 2, 3):
        noise = ball_noise(L2Ball(0.5, D), epsilon, REPLACE, discrete=False)
        surface = 2 * math.pi ** (D / 2) / math.gamma(D / 2)
        mass, _ = integrate.quad(
            lambda r, D=D, s=noise.scale, a=surface: a * r ** (D - 1) * math.exp(-r / s), 0, np.inf
        )
        assert mass == pytest.approx(surface * math.gamma(D) * noise.scale**D)

        def density(z, scale=noise.scale, mass=mass):
            return math.exp(-np.linalg.norm(z) / scale) / mass

        points, shifts = rng.normal(0, 3 * noise.scale, size=(300, D)), rng.normal(size=(60, D))
        # two users are at most 1 apart
        shifts /= np.maximum(np.linalg.norm(shifts, axis=1, keepdims=True), 1.0)
        along = [(2 * v, v) for v in np.eye(D)]
        ratios = [
            density(z) / density(z + v) for z, v in [*itertools.product(points, shifts), *along]
        ]
        assert math.exp(epsilon) * (1 - 1e-9) < max(ratios) <= math.exp(epsilon) * (1 + 1e-12)
        assert noise.loss() == PureDP(epsilon)


@pytest.mark.parametrize("D", [1, 4, 9])
def test_the_standard_deviation_of_ball_noise(D):
    """4e4 draws: within 5 standard errors (false alarms 6e-7), and 5 % less is rejected. The radius
    is Gamma(D).
    """
    noise = ball_noise(L2Ball(0.5, D), 1.0, REPLACE, discrete=False)
    assert noise.std == pytest.approx(math.sqrt(D + 1))
    rows = noise.add(np.zeros((40_000, D)), noise_source("fast", 0))
    squares = (rows**2).mean(axis=1)
    error = squares.std() / math.sqrt(len(squares))
    assert (
        abs(squares.mean() - noise.std**2)
        < 5 * error
        < abs(squares.mean() - (0.95 * noise.std) ** 2)
    )
    assert D == 1 or abs(np.corrcoef(rows.T)[0, -1]) < 5 / math.sqrt(len(rows))
    assert stats.kstest(np.linalg.norm(rows, axis=1), stats.gamma(D).cdf).pvalue > 1e-6


def shells(D: int, most: int) -> np.ndarray:
    """How many points of Z^D have floor(||z|| / J) = 0, 1, ..., most - 1."""
    reach = most * shell_width(D)
    squares = np.zeros((reach + 1) ** 2 + 1)
    squares[0] = 1
    axis = np.zeros_like(squares)
    for x in range(-reach, reach + 1):
        axis[x * x] += 1
    for _ in range(D):
        squares = sum(
            np.concatenate([np.zeros(k), squares[: len(squares) - k]]) * axis[k]
            for k in np.flatnonzero(axis)
        )
    lengths = np.array([math.isqrt(square) // shell_width(D) for square in range(len(squares))])
    return np.bincount(lengths, squares)[:most]


@pytest.mark.parametrize(
    ("D", "scale", "draws"), [(1, 30.0, 2_000), (2, 20.0, 1_000), (3, 30.0, 800)]
)
def test_whole_numbers_have_exactly_the_right_probabilities_in_the_ball(D, scale, draws):
    """Chi-square over six groups of shells floor(||z|| / J): false alarms 1e-6. A scale 20 %
    smaller is rejected (all but 1 in 10^4).
    """
    rows = noise_source("secure").ball(scale, (draws, D))
    width = shell_width(D)
    found = np.array([math.isqrt(int(square)) // width for square in (rows**2).sum(axis=1)])
    points = shells(D, 160)

    def p_value(s):
        weights = points * np.exp(-np.maximum(np.arange(160), 15) * width / s)
        weights /= weights.sum()
        edges = np.searchsorted(np.cumsum(weights), np.linspace(0, 1, 7)[1:-1])
        expected = np.add.reduceat(weights, np.unique([0, *edges]))
        seen = np.add.reduceat(
            np.bincount(np.minimum(found, 159), minlength=160), np.unique([0, *edges])
        )
        return stats.chisquare(seen, expected * len(rows)).pvalue

    assert p_value(scale) > 1e-6 > p_value(0.8 * scale)
    # The noise is symmetric.
    assert abs(np.sign(rows).mean(axis=0)).max() < 5 / math.sqrt(len(rows))
    assert rows.dtype == np.int64


def test_within_a_ball_all_directions_are_alike():
    """40 draws of 30 numbers: the mean fourth power of a direction is 3 / (D (D + 2)); within 6
    standard errors.
    """
    rows = noise_source("secure").ball(1e5, (40, 30)).astype(float)
    fourth = ((rows / np.linalg.norm(rows, axis=1, keepdims=True)) ** 4).mean(axis=1)
    assert abs(fourth.mean() - 3 / (30 * 32)) < 6 * fourth.std() / math.sqrt(40)
    radius = np.linalg.norm(rows, axis=1) / 1e5
    assert abs(radius.mean() - 30) < 6 * math.sqrt(30 / 40)


def test_neighbouring_points_of_the_lattice_are_at_most_e_to_the_epsilon_apart():
    """By the formula of the probabilities, all shifts up to the sensitivity, which is a whole
    number of shells.
    """
    for D, epsilon in ((2, 0.7), (3, 1.0)):
        width, T = shell_width(D), 6
        scale = T * width / epsilon
        rng = np.random.default_rng(D)
        for _ in range(2000):
            z, v = rng.integers(-80, 81, size=D), rng.normal(size=D)
            v = np.trunc(v / np.linalg.norm(v) * T * width).astype(int)
            one, two = (max(math.isqrt(int((x**2).sum())) // width, 15) for x in (z, z + v))
            assert (two - one) * width / scale <= epsilon * (1 + 1e-12)


def test_on_the_lattice_of_a_bound():
    noise = ball_noise(L2Ball(1.0, 12), 1.0, Relation.NULL, discrete=True)
    released = noise.add(noise.to_lattice(np.full((1, 12), 0.25)), noise_source("secure"))
    assert np.array_equal(np.rint(released / noise.step) * noise.step, released)
    whole = noise.sensitivity / noise.step / shell_width(12)
    assert whole == round(whole) and noise.sensitivity == pytest.approx(1.0, rel=1e-5)
    assert noise.sensitivity >= 1.0 and noise.loss().epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_a_bad_epsilon_is_refused_by_ball_noise(epsilon):
    with pytest.raises(InvalidParameter, match="epsilon"):
        ball_noise(L2Ball(1.0, 1), epsilon, REPLACE, discrete=False)


def chosen(bound, epsilon, delta, *, discrete=False, query=None):
    return least_noise(
        bound, CentralDP(epsilon, delta), query or Exact(1), discrete=discrete, users=10
    )


@pytest.mark.parametrize("discrete", [False, True])
@pytest.mark.parametrize(
    ("epsilon", "ball", "cube"), [(0.5, 11, 34), (1.0, 12, 38), (2.0, 14, 44), (5.0, 18, 56)]
)
def test_the_crossovers(epsilon, ball, cube, discrete):
    """The largest number of coordinates for which the ball, and the cube, have less noise than the
    Gaussian of delta = 1e-5.
    """
    for D, kind in ((ball, "ball"), (ball + 1, "gaussian")):
        assert chosen(L2Ball(1.0, D), epsilon, 1e-5, discrete=discrete).distribution == kind
    for D, kind in ((cube, "cube"), (cube + 1, "gaussian")):
        assert chosen(Answers(D), epsilon, 1e-5, discrete=discrete).distribution == kind


def test_the_least_noise_is_the_least_of_all_four():
    for D in (1, 2, 5, 12, 40, 100):
        for bound, delta in itertools.product((L2Ball(1.0, D), Answers(D)), (0.0, 1e-6)):
            noise_level = chosen(bound, 1.0, delta)
            usual = additive_noise(
                bound,
                noise_level.loss() if delta == 0 else GaussianDP(0.2),
                REPLACE,
                Exact(1),
                discrete=False,
                users=1,
            )
            others = [
                cube_noise(bound, 1.0, REPLACE, discrete=False),
                *([usual] if delta == 0 else []),
            ]
            others += [ball_noise(bound, 1.0, REPLACE, discrete=False)] if D <= 64 else []
            assert noise_level.std <= min(noise.std for noise in others) * (1 + 1e-12)
            assert noise_level.loss().epsilon_at(delta) <= 1 + 1e-9
            assert isinstance(noise_level.loss(), GaussianDP) == (
                noise_level.distribution == "gaussian"
            )
    # one number: all bodies are the same
    assert chosen(L2Ball(1.0, 1), 1.0, 0.0).distribution == "laplace"
    assert pure_noise(L2Ball(1.0, 3), 2.0, REPLACE, discrete=False, users=1).distribution == "ball"


def test_counters_keep_gaussian_noise_and_leaves_do_not():
    assert chosen(L2Ball(1.0, 3), 1.0, 1e-5, query=Tree(7)).distribution == "gaussian"
    assert chosen(L2Ball(1.0, 3), 1.0, 0.0, query=Tree(7)).distribution == "laplace"
    assert chosen(L2Ball(1.0, 3), 1.0, 1e-5, query=Leaves(7)).distribution == "ball"
    assert (
        least_noise(L2Ball(1.0, 3), NoPrivacy(), Exact(1), discrete=False, users=1).distribution
        == "none"
    )
