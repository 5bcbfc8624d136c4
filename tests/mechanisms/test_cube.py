"""The K-norm mechanism of the cube: its density, its samplers, and what becomes of too little of it."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate, stats

from confide.errors import InvalidParameter
from confide.mechanisms.additive import cube_noise
from confide.mechanisms.sources import noise_source
from confide.mixtures.questions.contributions import Answers
from confide.privacy import PureDP, Relation


def test_the_ratio_of_densities_is_at_most_e_to_the_epsilon():
    """Densities normalised by numerical integration for D = 1, 2, 3, at points and shifts all over the cube; e^epsilon is attained."""
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
        shifts = np.array(list(itertools.product([-1, 0, 1], repeat=D)))  # two users' answers
        ratios = [density(z) / density(z + v) for z in points for v in shifts]
        assert math.exp(epsilon) * (1 - 1e-5) < max(ratios) <= math.exp(epsilon) * (1 + 1e-12)
        assert noise.loss() == PureDP(epsilon)


@pytest.mark.parametrize("D", [1, 4, 9])
def test_its_standard_deviation(D):
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
def test_whole_numbers_have_exactly_the_right_probabilities(D, scale):
    """Chi-square over the radius ||z||_inf of 4,000 draws against (2m+1)^D - (2m-1)^D times exp(-m/scale): rejected at 1e-6. The same
    with a scale 20 % smaller is."""
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
    assert abs(np.sign(rows).mean(axis=0)).max() < 5 / math.sqrt(len(rows))  # symmetric
    assert inside.dtype == np.int64


def test_on_the_lattice_of_answers():
    noise = cube_noise(Answers(3), 1.0, Relation.NULL, discrete=True)
    released = noise.add(noise.to_lattice(np.array([[0.5, -0.5, 2.0]])), noise_source("secure"))
    assert np.array_equal(np.rint(released / noise.step) * noise.step, released)
    assert noise.sensitivity == pytest.approx(
        0.5, rel=1e-6
    ) and noise.loss().epsilon == pytest.approx(1.0)


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan])
def test_a_bad_epsilon_is_refused(epsilon):
    with pytest.raises(InvalidParameter, match="epsilon"):
        cube_noise(Answers(1), epsilon, Relation.REPLACE, discrete=False)
