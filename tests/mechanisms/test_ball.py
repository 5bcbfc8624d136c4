"""The K-norm mechanism of the L2 ball: its density, its samplers, and the least noise of all kinds."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from confide.errors import InvalidParameter
from confide.mechanisms.additive import (
    additive_noise,
    ball_noise,
    cube_noise,
    least_noise,
    pure_noise,
)
from confide.mechanisms.counters import Exact, Leaves, Tree
from confide.mechanisms.sources import noise_source, shell_width
from confide.mixtures.questions.contributions import Answers
from confide.privacy import CentralDP, GaussianDP, NoPrivacy, PureDP, Relation
from confide.privacy.bounded import L2Ball

REPLACE = Relation.REPLACE


def test_the_ratio_of_densities_is_at_most_e_to_the_epsilon():
    """Densities normalised by numerical integration for D = 1, 2, 3, at points and shifts all over the ball; e^epsilon is attained."""
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
def test_its_standard_deviation(D):
    """4e4 draws: within 5 standard errors (false alarms 6e-7), and 5 % less is rejected. The radius is Gamma(D)."""
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
def test_whole_numbers_have_exactly_the_right_probabilities(D, scale, draws):
    """Chi-square over six groups of shells floor(||z|| / J): false alarms 1e-6. A scale 20 % smaller is rejected (all but 1 in 10^4)."""
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
    assert abs(np.sign(rows).mean(axis=0)).max() < 5 / math.sqrt(len(rows))  # symmetric
    assert rows.dtype == np.int64


def test_within_a_ball_all_directions_are_alike():
    """40 draws of 30 numbers: the mean fourth power of a direction is 3 / (D (D + 2)); within 6 standard errors."""
    rows = noise_source("secure").ball(1e5, (40, 30)).astype(float)
    fourth = ((rows / np.linalg.norm(rows, axis=1, keepdims=True)) ** 4).mean(axis=1)
    assert abs(fourth.mean() - 3 / (30 * 32)) < 6 * fourth.std() / math.sqrt(40)
    radius = np.linalg.norm(rows, axis=1) / 1e5
    assert abs(radius.mean() - 30) < 6 * math.sqrt(30 / 40)


def test_neighbouring_points_of_the_lattice_are_at_most_e_to_the_epsilon_apart():
    """By the formula of the probabilities, all shifts up to the sensitivity, which is a whole number of shells."""
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
def test_a_bad_epsilon_is_refused(epsilon):
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
    """The largest number of coordinates for which the ball, and the cube, have less noise than the Gaussian of delta = 1e-5."""
    for D, kind in ((ball, "ball"), (ball + 1, "gaussian")):
        assert chosen(L2Ball(1.0, D), epsilon, 1e-5, discrete=discrete).distribution == kind
    for D, kind in ((cube, "cube"), (cube + 1, "gaussian")):
        assert chosen(Answers(D), epsilon, 1e-5, discrete=discrete).distribution == kind


def test_the_least_noise_is_the_least_of_all_four():
    for D in (1, 2, 5, 12, 40, 100):
        for bound, delta in itertools.product((L2Ball(1.0, D), Answers(D)), (0.0, 1e-6)):
            found = chosen(bound, 1.0, delta)
            usual = additive_noise(
                bound,
                found.loss() if delta == 0 else GaussianDP(0.2),
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
            assert found.std <= min(noise.std for noise in others) * (1 + 1e-12)
            assert found.loss().epsilon_at(delta) <= 1 + 1e-9
            assert isinstance(found.loss(), GaussianDP) == (found.distribution == "gaussian")
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
