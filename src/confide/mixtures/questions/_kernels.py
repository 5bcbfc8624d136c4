"""The inner loops of planning with questions. Kernels come as P [s, a, s', i]: what all of them say of one transition stands together."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Signs = npt.NDArray[np.int8]


@njit
def signs(kernels: Array, theta: Array, small: float) -> Signs:
    """The answer to "does theta.P(s'|s, a) speak for yes?" [s, a, s']: 1, -1, or 0 where it is below `small` sum_i P_i."""
    S, A, T, d = kernels.shape
    answers = np.zeros((S, A, T), dtype=np.int8)
    for s in range(S):
        for a in range(A):
            for t in range(T):
                total, said = 0.0, 0.0
                for i in range(d):
                    total += kernels[s, a, t, i]
                    said += theta[i] * kernels[s, a, t, i]
                if abs(said) > small * total:
                    answers[s, a, t] = 1 if said > 0.0 else -1
    return answers


@njit
def means(kernels: Array, thetas: Array, visits: Array, small: float) -> Array:
    """What the answers of users with these visits [s, a] add up to, for each kernel [q, i]: half a sign each."""
    S, A, T, d = kernels.shape
    Q = len(thetas)
    result = np.zeros((Q, d))
    for s in range(S):
        for a in range(A):
            n = visits[s, a]
            if n <= 0.0:
                continue
            for t in range(T):
                total = 0.0
                for i in range(d):
                    total += kernels[s, a, t, i]
                if total == 0.0:
                    continue
                for q in range(Q):
                    said = 0.0
                    for i in range(d):
                        said += thetas[q, i] * kernels[s, a, t, i]
                    if abs(said) > small * total:
                        half = 0.5 * n if said > 0.0 else -0.5 * n
                        for i in range(d):
                            result[q, i] += half * kernels[s, a, t, i]
    return result


@njit
def moments(kernels: Array, weights: Array, thetas: Array, visits: Array, small: float) -> Array:
    """E of products of two answers, added up over these visits [q, q], under the mixture with these weights."""
    S, A, T, d = kernels.shape
    Q = len(thetas)
    result = np.zeros((Q, Q))
    answer = np.zeros(Q)
    for s in range(S):
        for a in range(A):
            n = visits[s, a]
            if n <= 0.0:
                continue
            for t in range(T):
                total, p = 0.0, 0.0
                for i in range(d):
                    total += kernels[s, a, t, i]
                    p += weights[i] * kernels[s, a, t, i]
                if p <= 0.0:
                    continue
                for q in range(Q):
                    said = 0.0
                    for i in range(d):
                        said += thetas[q, i] * kernels[s, a, t, i]
                    answer[q] = 0.0
                    if abs(said) > small * total:
                        answer[q] = 0.5 if said > 0.0 else -0.5
                for q in range(Q):
                    for r in range(Q):
                        result[q, r] += n * p * answer[q] * answer[r]
    return result


@njit
def best_policies(kernels: Array, rewards: Array, weights: Array) -> tuple[Array, Ints]:
    """(values [n, h, s], actions [n, h, s]) of the best policies for weights [n, h, i]; values[H] is left out."""
    S, A, T, d = kernels.shape
    N, H = len(weights), len(rewards)
    values, actions = np.zeros((N, H, S)), np.zeros((N, H, S), dtype=np.int64)
    phi = np.zeros(d)
    for n in range(N):
        for h in range(H - 1, -1, -1):
            for s in range(S):
                best = -np.inf
                for a in range(A):
                    q = rewards[h, s, a]
                    if h < H - 1:
                        for i in range(d):
                            phi[i] = 0.0
                        for t in range(T):
                            v = values[n, h + 1, t]
                            if v != 0.0:
                                for i in range(d):
                                    phi[i] += kernels[s, a, t, i] * v
                        for i in range(d):
                            q += weights[n, h, i] * phi[i]
                    if q > best:
                        best = q
                        actions[n, h, s] = a
                values[n, h, s] = best
    return values, actions


@njit
def hopeful(
    kernels: Array, rewards: Array, weights: Array, covariance: Array, width: float
) -> tuple[Array, Ints]:
    """The same for one vector of weights [h, i], with `width` sqrt(phi.C phi) on top, and no more than the best kernel gives."""
    S, A, T, d = kernels.shape
    H = len(rewards)
    values, actions = np.zeros((H, S)), np.zeros((H, S), dtype=np.int64)
    phi = np.zeros(d)
    for h in range(H - 1, -1, -1):
        for s in range(S):
            best = -np.inf
            for a in range(A):
                q = 0.0
                if h < H - 1:
                    for i in range(d):
                        phi[i] = 0.0
                    for t in range(T):
                        v = values[h + 1, t]
                        if v != 0.0:
                            for i in range(d):
                                phi[i] += kernels[s, a, t, i] * v
                    variance, most = 0.0, 0.0
                    for i in range(d):
                        q += weights[h, i] * phi[i]
                        most = max(most, phi[i])
                        for j in range(d):
                            variance += phi[i] * covariance[h, i, j] * phi[j]
                    q = min(q + width * np.sqrt(max(variance, 0.0)), most)
                q += rewards[h, s, a]
                if q > best:
                    best = q
                    actions[h, s] = a
            values[h, s] = best
    return values, actions


@njit
def gradients(kernels: Array, values: Array, actions: Ints, weights: Array, start: Array) -> Array:
    """How the value of policy n [n, h, s] changes with the weights of step h [n, h, i], at weights [n, h, i], with its values [n, h, s]."""
    S, _, T, d = kernels.shape
    N, H, _ = actions.shape
    result = np.zeros((N, weights.shape[1], d))
    for n in range(N):
        at = start.copy()
        for h in range(H - 1):
            later = np.zeros(S)
            for s in range(S):
                if at[s] <= 0.0:
                    continue
                a = actions[n, h, s]
                for t in range(T):
                    p, v = 0.0, at[s] * values[n, h + 1, t]
                    for i in range(d):
                        p += weights[n, h, i] * kernels[s, a, t, i]
                        result[n, h, i] += v * kernels[s, a, t, i]
                    later[t] += at[s] * p
            at = later
    return result


@njit
def greedy(
    covariance: Array, relevance: Array, rows: Array, steps: Ints, noise: Array, count: int
) -> tuple[Ints, float]:
    """`count` questions, one after the other by the fall of tr(B C), and that fall in all; rows [q, i] of all users, their noise [q]."""
    Q, d = rows.shape
    C, moved, score, spread = covariance.copy(), np.zeros((Q, d)), np.zeros(Q), np.ones(Q)
    picked, total, changed = np.zeros(count, dtype=np.int64), 0.0, -1
    for n in range(count):
        for q in range(Q):
            h = steps[q]
            if n > 0 and h != changed:
                continue
            score[q], spread[q] = 0.0, noise[q]
            for i in range(d):
                moved[q, i] = 0.0
                for j in range(d):
                    moved[q, i] += C[h, i, j] * rows[q, j]
                spread[q] += rows[q, i] * moved[q, i]
            for i in range(d):
                for j in range(d):
                    score[q] += moved[q, i] * relevance[h, i, j] * moved[q, j]
        best = 0
        for q in range(Q):
            if score[q] * spread[best] > score[best] * spread[q]:
                best = q
        picked[n], changed = best, steps[best]
        total += score[best] / spread[best]
        for i in range(d):
            for j in range(d):
                C[changed, i, j] -= moved[best, i] * moved[best, j] / spread[best]
    return picked, total
