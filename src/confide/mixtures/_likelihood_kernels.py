"""The inner loop of planning on sums of codes: Kalman's filter over rounds. PUBLIC.

The order of its operations decides the last bits of the estimates.
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]


@njit
def filter_rounds(
    sums: Array,
    M: Array,
    sampling: Array,
    noise: Array,
    ratio: float,
    mean: Array,
    covariance: Array,
) -> tuple[Array, Array]:
    """Means [t, d + c] and covariances of (w, z_t) before the first round and after each.

    A round has the sums [t, c]

        sum_t = M_t w + e_t + z_t - ratio z_{t-1},

    where w are the weights [d], e_t has the covariance sampling [t, c, c], and each number of z_t
    has the variance noise [t]. `mean` and `covariance` are those before the first round.
    """
    T, c, d = M.shape
    means = np.empty((T + 1, d + c))
    covariances = np.empty((T + 1, d + c, d + c))
    means[0] = mean
    covariances[0] = covariance
    for t in range(T):
        # The state in this round is (w, z_{t-1}, z_t), and the sums are `row` times it, plus e_t.
        row = np.zeros((c, d + 2 * c))
        row[:, :d] = M[t]
        state_covariance = np.zeros((d + 2 * c, d + 2 * c))
        state_covariance[: d + c, : d + c] = covariances[t]
        for i in range(c):
            row[i, d + i] = -ratio
            row[i, d + c + i] = 1.0
            state_covariance[d + c + i, d + c + i] = noise[t]
        state = np.zeros(d + 2 * c)
        state[: d + c] = means[t]
        cross_covariance = state_covariance @ row.T
        innovation = row @ cross_covariance + sampling[t]
        gain = np.linalg.solve(innovation, cross_covariance.T).T
        state = state + gain @ (sums[t] - row @ state)
        # Joseph's form: rounding leaves it positive.
        kept = np.eye(d + 2 * c) - gain @ row
        state_covariance = kept @ state_covariance @ kept.T + gain @ sampling[t] @ gain.T
        # z_{t-1} is not needed any more.
        places = np.concatenate((np.arange(d), np.arange(d + c, d + 2 * c)))
        means[t + 1] = state[places]
        for i in range(d + c):
            for j in range(d + c):
                entry = state_covariance[places[i], places[j]]
                mirrored = state_covariance[places[j], places[i]]
                covariances[t + 1, i, j] = (entry + mirrored) / 2
    return means, covariances
