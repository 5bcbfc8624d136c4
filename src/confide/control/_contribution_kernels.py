"""The inner loop of statistics of linear systems."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
# Beyond this length an episode makes no sense, and factors that shorten it would lose digits.
_HUGE = 1e150


@njit
def episode_sums(
    states: Array,
    inputs: Array,
    cap: float,
    weight: float,
    gain: float,
    shock: float,
    grid: float,
    off_diagonal: float,
) -> Array:
    """The sum over users of (svec(sum c z z^T), sqrt(2) s sum c z x'^T), each user's rounded to
    whole multiples of the grid [size].

    Entries off the diagonal are multiplied by `off_diagonal`.
    """
    users, H, d = inputs.shape
    n = states.shape[2]
    p = n + d
    cut = p * (p + 1) // 2
    total = np.zeros(cut + p * n)
    one = np.zeros(cut + p * n)
    z = np.zeros(p)
    after = np.zeros(n)
    root = np.sqrt(2.0)
    for u in range(users):
        one[:] = 0.0
        left = cap
        valid = True
        for h in range(H):
            size = 0.0
            reach = 0.0
            for i in range(n):
                z[i], after[i] = states[u, h, i], states[u, h + 1, i]
                reach += after[i] * after[i]
            for i in range(d):
                z[n + i] = inputs[u, h, i]
            for i in range(p):
                size += z[i] * z[i]
            if not (size < _HUGE and reach < _HUGE):
                valid = False
                break
            longest = gain * np.sqrt(size) + shock
            if reach > longest * longest:
                for i in range(n):
                    after[i] *= longest / np.sqrt(reach)
                reach = longest * longest
            # Somebody at rest would divide by zero.
            c = min(1.0, left / max(size + weight * weight * longest * longest, 1e-300))
            left = max(left - c * (size + weight * weight * reach), 0.0)
            k = 0
            for i in range(p):
                for j in range(i, p):
                    one[k] += c * z[i] * z[j] * (1.0 if i == j else off_diagonal)
                    k += 1
            for i in range(p):
                for j in range(n):
                    one[k] += c * root * weight * z[i] * after[j]
                    k += 1
        if valid:
            for k in range(len(one)):
                total[k] += np.rint(one[k] / grid)
    return total


@njit
def residual_sums(
    states: Array,
    inputs: Array,
    guess: Array,
    clip: float,
    cap: float,
    reach: float,
    weight: float,
    grid: float,
) -> Array:
    """The sum over users of (weight svec(f S) / cap, f G / clip), each user's rounded to whole
    multiples of the grid [size]; for weight 0 of f G / clip alone, and the cap is not used.
    """
    users, H, d = inputs.shape
    n = states.shape[2]
    p = n + d
    cut = p * (p + 1) // 2 if weight > 0 else 0
    total = np.zeros(cut + p * n)
    z = np.zeros(p)
    G = np.zeros((p, n))
    S = np.zeros((p, p))
    for u in range(users):
        G[:] = 0.0
        S[:] = 0.0
        seen = 0.0
        for h in range(H):
            for i in range(n):
                z[i] = states[u, h, i]
                seen += z[i] * z[i]
            if h > 0 and not seen <= reach:
                break
            for i in range(d):
                z[n + i] = inputs[u, h, i]
            for j in range(n):
                residual = states[u, h + 1, j]
                for i in range(p):
                    residual -= guess[i, j] * z[i]
                for i in range(p):
                    G[i, j] += z[i] * residual
            for i in range(p):
                for j in range(p):
                    S[i, j] += z[i] * z[j]
        size = 0.0
        trace = 0.0
        for i in range(p):
            trace += S[i, i]
            for j in range(n):
                size += G[i, j] * G[i, j]
        size = np.sqrt(size)
        if not (size < _HUGE and trace < _HUGE and np.isfinite(seen)):
            continue
        f = min(1.0, clip / max(size, 1e-300))
        k = 0
        if weight > 0:
            f = min(f, cap / max(trace, 1e-300))
            for i in range(p):
                for j in range(i, p):
                    total[k] += np.rint(
                        f * S[i, j] * (1.0 if i == j else np.sqrt(2.0)) * weight / cap / grid
                    )
                    k += 1
        for i in range(p):
            for j in range(n):
                total[k] += np.rint(f * G[i, j] / clip / grid)
                k += 1
    return total
