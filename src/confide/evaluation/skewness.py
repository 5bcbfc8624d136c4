"""How much farther an interval must reach where returns are skewed. All of this is post-processing.

A normal interval misses too often on the side of the longer tail. In the corner of a grid far from
the goal, for example, ten of 1,700 visitors earn anything, and a log with fewer winners than usual
has both a smaller mean and a smaller variance. Measured on the grid of
benchmarks/results/values_evaluate.md.

The released sums determine the mean and the variance of a state's returns, but not their third
moment. They bound it, however, because returns lie in a known range (`third_moment_per_variance`).
The far end of the interval is moved by what the first term of the Edgeworth expansion needs for the
bound [Hall83]. The near end is left where it is, so that an interval never becomes shorter.
"""

import numpy as np

from confide.privacy.bounded import Array


def reach_beyond_normal(
    counts: Array, sums: Array, squares: Array, z: float
) -> tuple[Array, Array]:
    """How far the lower end must fall and the upper end rise [s], for returns scaled to [-1, 1].

    `counts` are released visits n, `sums` those of returns g and `squares` those of g^2, all [s].
    The normal interval has the half width z standard deviations. Where the mean of n returns has
    variance sigma^2/n and third central moment mu3, both of its ends should move by
    (2 z^2 + 1)/6 mu3 / (sigma^2 n).
    """
    visits = np.maximum(counts, 1.0)
    # f = (1 + g)/2 and 1 - f lie in [0, 1]. Their means and second moments:
    mean = np.clip((1 + sums / visits) / 2, 0.0, 1.0)
    second = np.clip((1 + (2 * sums + squares) / visits) / 4, mean**2, mean)
    right = third_moment_per_variance(mean, second)
    left = third_moment_per_variance(1 - mean, 1 - 2 * mean + second)
    # The factor 2 turns a distance of f into one of g.
    scale = 2 * (2 * z**2 + 1) / (6 * visits)
    return scale * left, scale * right


def third_moment_per_variance(mean: Array, second: Array) -> Array:
    """A lower bound on mu3 / sigma^2 of a variable in [0, inf) with these moments, at least 0.

    By the Cauchy-Schwarz inequality E[f^2]^2 <= E[f] E[f^3]. With m = E[f] and q = E[f^2] therefore
    mu3 = E[f^3] - 3 m q + 2 m^3 >= (q - m^2) (q/m - 2 m), and sigma^2 = q - m^2.
    """
    positive = mean > 0
    size_of_returns = np.where(positive, second / np.where(positive, mean, 1.0), 0.0)
    bound: Array = np.maximum(size_of_returns - 2 * mean, 0.0)
    return bound
