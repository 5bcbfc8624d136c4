"""The covariance of a whole stream of releases, by Monte Carlo: one coordinate is one run."""

import numpy as np
import pytest

from confide.mechanisms.counters import FACTORISATIONS, Counter, dense
from confide.mechanisms.sources import noise_source
from confide.privacy import CentralDP, loss_for
from confide.privacy.bounded import Bounded, L2Ball

PRIVACY = CentralDP(1.0, 1e-5)


@pytest.mark.parametrize("name", FACTORISATIONS)
def test_releases_have_the_covariance_of_the_factorisation(name):
    """Correlations are within 6 standard errors (0.03) for each of 78 pairs.

    A false alarm has a probability below 1e-6. The same test rejects a counter that redraws its
    noise at every release, or has 20 % less.
    """
    runs, leaves = 40_000, 12
    bound = L2Ball(1.0, runs)
    counter = Counter(
        bound,
        FACTORISATIONS[name](leaves),
        loss=loss_for(PRIVACY),
        request=PRIVACY,
        users=leaves,
        noise=noise_source("fast", 8),
    )
    seen = []
    for _ in range(leaves):
        counter.absorb(Bounded(np.zeros(runs), bound))
        seen.append(counter.release().values)
    decoder, _ = dense(FACTORISATIONS[name](leaves))
    stated = counter.noise.scale**2 * decoder @ decoder.T
    std = np.sqrt(np.diag(stated))

    def deviation(covariance):
        return np.abs((covariance - stated) / np.outer(std, std)).max()

    found = np.cov(seen)
    assert deviation(found) < 6 * np.sqrt(2 / runs)
    assert deviation(0.64 * found) > 6 * np.sqrt(2 / runs)
    # The releases of these two are independent.
    if name not in ("exact", "discounted"):
        assert deviation(np.diag(np.diag(found))) > 6 * np.sqrt(2 / runs)
