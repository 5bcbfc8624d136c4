"""The inner loop of planning on sums of codes: Kalman's filter over rounds."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]


@njit
def filtered(
    sums: Array,
    M: Array,
    sampling: Array,
    noise: Array,
    ratio: float,
    mean: Array,
    covariance: Array,
) -> tuple[Array, Array]:
    """Means [t, d + c] and covariances of (w, z_t) before the first round and after each: sums [t, c] with mean M [t, c, d] w.

    A round has sum_t = M_t w + e_t + z_t - ratio z_{t-1}, e_t with covariance sampling [t, c, c] and z_t with variance noise [t].
    """
    T, c, d = M.shape
    means, covariances = np.empty((T + 1, d + c)), np.empty((T + 1, d + c, d + c))
    means[0], covariances[0] = mean, covariance
    for t in range(T):
        row = np.zeros((c, d + 2 * c))  # of w, z_{t-1} and z_t
        row[:, :d] = M[t]
        wide = np.zeros((d + 2 * c, d + 2 * c))
        wide[: d + c, : d + c] = covariances[t]
        for i in range(c):
            row[i, d + i], row[i, d + c + i] = -ratio, 1.0
            wide[d + c + i, d + c + i] = noise[t]
        known = np.zeros(d + 2 * c)
        known[: d + c] = means[t]
        shown = wide @ row.T
        innovation = row @ shown + sampling[t]
        gain = np.linalg.solve(innovation, shown.T).T
        known = known + gain @ (sums[t] - row @ known)
        # Joseph's form: rounding leaves it positive
        left = np.eye(d + 2 * c) - gain @ row
        wide = left @ wide @ left.T + gain @ sampling[t] @ gain.T
        keep = np.concatenate((np.arange(d), np.arange(d + c, d + 2 * c)))
        means[t + 1] = known[keep]
        for i in range(d + c):
            for j in range(d + c):
                covariances[t + 1, i, j] = (wide[keep[i], keep[j]] + wide[keep[j], keep[i]]) / 2
    return means, covariances
