import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.mechanisms.symmetric import MIRRORED, smat, svec, svec_size


@given(st.integers(1, 8), st.integers(0, 1000))
def test_an_isometry_and_its_inverse(d, seed):
    half = np.random.default_rng(seed).normal(size=(3, d, d))
    matrices = half + half.swapaxes(1, 2)
    vectors = svec(matrices)
    assert vectors.shape == (3, svec_size(d))
    np.testing.assert_allclose(
        np.linalg.norm(vectors, axis=1), np.linalg.norm(matrices, axis=(1, 2))
    )
    np.testing.assert_allclose(smat(vectors, d), matrices)


def test_isotropic_noise_is_goe():
    """20 000 matrices: 6 standard errors of a standard deviation are 3 %."""
    noise = smat(np.random.default_rng(0).normal(size=(20_000, svec_size(3))), 3)
    np.testing.assert_array_equal(noise, noise.swapaxes(1, 2))
    assert np.std(noise[:, 0, 0]) == pytest.approx(1.0, rel=0.03)
    assert np.std(noise[:, 0, 1]) == pytest.approx(0.5**0.5, rel=0.03)
    # Mirrored noise would have the full variance.
    assert np.std(noise[:, 0, 1]) != pytest.approx(1.0, rel=0.03)


def test_mirrored_noise_has_one_standard_deviation_in_every_entry():
    """20,000 matrices: 6 standard errors of a standard deviation are 3 %."""
    noise = np.random.default_rng(0).normal(size=(20_000, svec_size(3)))
    mirrored = smat(noise, 3, MIRRORED)
    np.testing.assert_array_equal(mirrored, mirrored.swapaxes(1, 2))
    np.testing.assert_allclose(mirrored.std(axis=0), 1.0, rtol=0.03)
    np.testing.assert_array_equal(svec(mirrored, MIRRORED), noise)
    assert (np.linalg.norm(noise, axis=1) <= np.linalg.norm(mirrored, axis=(1, 2))).all()
