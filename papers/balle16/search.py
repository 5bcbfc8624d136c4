"""Random neighbouring data sets, some with extreme values, to search [Balle16]'s sensitivities."""

import numpy as np

from confide.privacy.bounded import Array


def neighbours(
    rng: np.random.Generator, states: int, m: int, top: float
) -> list[tuple[Array, Array]]:
    """Two data sets of m trajectories that differ in one, as visits n_s and sums of returns.

    Returns are often 0 or `top`.
    """
    visits = rng.random((m + 1, states)) < rng.random()
    returns = rng.choice([0.0, 1.0, rng.random()], (m + 1, states)) * top
    if rng.random() < 0.5:
        visits[-2:] = rng.random(2)[:, None] < 0.8
    kept = [np.r_[: m - 1, last] for last in (m - 1, m)]
    return [
        (visits[rows].sum(axis=0).astype(float), (visits * returns)[rows].sum(axis=0))
        for rows in kept
    ]
