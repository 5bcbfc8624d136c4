"""The compiled loops against plain NumPy twins."""

import numpy as np
import pytest

from confide.mechanisms.counters import _kernels

pytestmark = pytest.mark.kernels


def encode_twin(leaf, buffers, decays, weights):
    row = leaf + weights @ buffers
    return row[None], decays[:, None] * buffers + leaf


def decode_twin(row, buffers, decays, weights):
    buffers = decays[:, None] * buffers + row
    return weights @ buffers, buffers


def test_kernels_equal_their_twins():
    rng = np.random.default_rng(0)
    for kernel, twin in ((_kernels.encode, encode_twin), (_kernels.decode, decode_twin)):
        leaf, buffers, decays, weights = (
            rng.normal(size=7),
            rng.normal(size=(3, 7)),
            rng.uniform(size=3),
            rng.uniform(size=3),
        )
        expected, moved = twin(leaf, buffers.copy(), decays, weights)
        np.testing.assert_allclose(
            kernel(leaf, buffers, np.stack([weights, decays])), expected, rtol=1e-14
        )
        np.testing.assert_allclose(buffers, moved, rtol=1e-14)


def test_energy_is_the_sum_of_squares():
    weights, gaps = np.array([0.3, 0.2, 0.5]), np.array([0.0, 0.01, 0.4])
    for terms in (0, 1, 2, 50):
        sequence = ((1 - gaps) ** np.arange(terms)[:, None]) @ weights
        np.testing.assert_allclose(
            _kernels.energy(weights, gaps, terms), (sequence**2).sum(), rtol=1e-12
        )
