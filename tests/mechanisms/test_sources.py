import math
import sys

import numpy as np
import pytest

from confide.errors import InvalidParameter, MissingExtra
from confide.mechanisms.sources import FastSource, noise_source


def test_fast_is_reproducible_and_secure_is_not():
    np.testing.assert_array_equal(
        noise_source("fast", 1).gaussian(2.0, 5), noise_source("fast", 1).gaussian(2.0, 5)
    )
    one, other = (noise_source("secure").gaussian(2.0**30, 50) for _ in range(2))
    assert one.dtype == np.int64
    assert (one != other).any()


def test_secure_refuses_a_seed():
    with pytest.raises(InvalidParameter, match="has no seed"):
        noise_source("secure", 0)
    with pytest.raises(InvalidParameter, match="name must be one of fast, secure, got name='slow'"):
        noise_source("slow")


@pytest.mark.parametrize(("name", "unit"), [("fast", 3.0), ("secure", 3.0 * 2**20)])
def test_scales(name, unit):
    """20 000 draws: 6 standard errors of a standard deviation are 3 % (Gaussian) and 4.8 %
    (Laplace); a 20 % error is rejected.
    """
    source = noise_source(name, 0 if name == "fast" else None)
    for draws, std, slack in (
        (source.gaussian(unit, 20_000), unit, 0.03),
        (source.laplace(unit, 20_000), unit * 2**0.5, 0.048),
    ):
        assert np.std(draws) == pytest.approx(std, rel=slack)
        assert np.std(0.8 * draws) != pytest.approx(std, rel=slack)
        assert abs(np.mean(draws)) < 6 * std / 20_000**0.5


def test_state_continues_the_stream_without_touching_the_callers_generator():
    source = noise_source("fast", 4)
    source.gaussian(1.0, 10)
    state = source.state()
    ahead = source.gaussian(1.0, 10)
    rng = np.random.default_rng(9)
    other = FastSource(rng)
    other.restore(state)
    np.testing.assert_array_equal(other.gaussian(1.0, 10), ahead)
    assert rng.random() == np.random.default_rng(9).random()
    assert noise_source("secure").state() == {}


def test_forks_are_independent_and_restore_apart():
    """Two mechanisms on one source, saved and restored, must not end up with the same draws: their
    difference would have no noise.
    """
    source = noise_source("fast", 4)
    one, other = source.fork(), source.fork()
    assert one.state() != other.state()
    assert (one.gaussian(1.0, 5) != other.gaussian(1.0, 5)).all()
    assert noise_source("secure").fork().name == "secure"


def test_only_generators_that_can_be_saved():
    with pytest.raises(InvalidParameter, match="PCG64"):
        FastSource(np.random.Generator(np.random.MT19937(0))).state()


def test_without_opendp_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opendp.prelude", None)
    with pytest.raises(MissingExtra, match=r"confide\[secure\]"):
        noise_source("secure")


def test_devices_are_independent_and_go_on_alike_after_a_restore():
    source, other = noise_source("fast", 5), noise_source("fast", 6)
    source.device()
    other.restore(source.state())
    first, second = source.device(), source.device()
    assert first.gaussian(1.0, 3).tolist() != second.gaussian(1.0, 3).tolist()
    again = [other.device() for _ in range(2)][1]
    again.gaussian(1.0, 3)
    np.testing.assert_array_equal(again.laplace(1.0, 3), second.laplace(1.0, 3))
    assert again.token(16) == second.token(16) != second.token(16)
    secure = noise_source("secure")
    assert len(secure.token(16)) == 16
    assert secure.device().token(16) != secure.device().token(16)


def test_a_sum_of_laplace_draws():
    """20 000 sums of 50: variance 2 x 50 within 6 standard errors (6 %)."""
    sums = noise_source("fast", 0).laplace_sum(3.0, 50, 20_000)
    assert np.var(sums) == pytest.approx(2 * 50 * 9, rel=0.062)
    assert abs(sums.mean()) < 6 * np.sqrt(900 / 20_000)


@pytest.mark.parametrize("scale", [0.6, 1.5, 7.3])
@pytest.mark.parametrize("name", ["fast", "secure"])
def test_lattice_gaussian_has_the_probabilities_of_a_discrete_gaussian(name, scale):
    """Chi-square of 20,000 draws at level 1e-4; draws of a scale that is 20 % off fail it."""
    from scipy.stats import chisquare

    def p_value(drawn_scale):
        source = noise_source(name, 3) if name == "fast" else noise_source(name)
        drawn = source.lattice_gaussian(drawn_scale, (200, 100))
        assert drawn.dtype == np.int64
        x = np.arange(-200, 201)
        p = np.exp(-(x**2) / (2 * scale**2))
        p /= p.sum()
        inner = np.abs(x) <= math.floor(2.2 * scale) + 1
        edge = x[inner].max()
        seen = [
            *(np.count_nonzero(drawn == at) for at in x[inner]),
            np.count_nonzero(np.abs(drawn) > edge),
        ]
        return chisquare(seen, drawn.size * np.array([*p[inner], p[~inner].sum()])).pvalue

    assert p_value(scale) > 1e-4
    assert p_value(1.2 * scale) < 1e-4
