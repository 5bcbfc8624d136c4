"""The inner loops of planning with questions. PUBLIC: they see kernels and releases, and no user.

Kernels come as P [s, a, s', i], so what all kernels i say of one transition stands together. An
answer is a yes (1/2), a no (-1/2) or none (0). The letters S, A, T, d are the numbers of states,
actions, next states and kernels; Q is the number of questions, and H the horizon.

The order of the loops and of the operations decides the last bits of what is computed. A device
computes the same policies as its server, so both must have the same version of this file.
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Signs = npt.NDArray[np.int8]


@njit
def answer_signs(kernels: Array, theta: Array, tolerance: float) -> Signs:
    """The answer to "does theta.P(s'|s, a) speak for yes?" for each transition [s, a, s'].

    It is 1 for yes, -1 for no, and 0 where |theta.P| is at most `tolerance` times sum_i P_i.
    """
    S, A, T, d = kernels.shape
    signs = np.zeros((S, A, T), dtype=np.int8)
    for s in range(S):
        for a in range(A):
            for t in range(T):
                total = 0.0
                along_theta = 0.0
                for i in range(d):
                    total += kernels[s, a, t, i]
                    along_theta += theta[i] * kernels[s, a, t, i]
                if abs(along_theta) > tolerance * total:
                    signs[s, a, t] = 1 if along_theta > 0.0 else -1
    return signs


@njit
def mean_answers(kernels: Array, thetas: Array, visits: Array, tolerance: float) -> Array:
    """What the answers of users with these visits [s, a] add up to under each kernel [q, i]."""
    S, A, T, d = kernels.shape
    Q = len(thetas)
    means = np.zeros((Q, d))
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
                    along_theta = 0.0
                    for i in range(d):
                        along_theta += thetas[q, i] * kernels[s, a, t, i]
                    if abs(along_theta) > tolerance * total:
                        answer = 0.5 * n if along_theta > 0.0 else -0.5 * n
                        for i in range(d):
                            means[q, i] += answer * kernels[s, a, t, i]
    return means


@njit
def answer_moments(
    kernels: Array, weights: Array, thetas: Array, visits: Array, tolerance: float
) -> Array:
    """The expected products of two answers [q, q], added up over these visits [s, a].

    Transitions follow the mixture with these `weights` [i].
    """
    S, A, T, d = kernels.shape
    Q = len(thetas)
    products = np.zeros((Q, Q))
    answer = np.zeros(Q)
    for s in range(S):
        for a in range(A):
            n = visits[s, a]
            if n <= 0.0:
                continue
            for t in range(T):
                total = 0.0
                probability = 0.0
                for i in range(d):
                    total += kernels[s, a, t, i]
                    probability += weights[i] * kernels[s, a, t, i]
                if probability <= 0.0:
                    continue
                for q in range(Q):
                    along_theta = 0.0
                    for i in range(d):
                        along_theta += thetas[q, i] * kernels[s, a, t, i]
                    answer[q] = 0.0
                    if abs(along_theta) > tolerance * total:
                        answer[q] = 0.5 if along_theta > 0.0 else -0.5
                for q in range(Q):
                    for r in range(Q):
                        products[q, r] += n * probability * answer[q] * answer[r]
    return products


@njit
def best_policies(kernels: Array, rewards: Array, weights: Array) -> tuple[Array, Ints]:
    """(values [n, h, s], actions [n, h, s]) of the best policies for weights [n, h, i].

    All of them have the same rewards [h, s, a]. The values after the last step, which are zero,
    are left out.
    """
    S, A, T, d = kernels.shape
    N = len(weights)
    H = len(rewards)
    values = np.zeros((N, H, S))
    actions = np.zeros((N, H, S), dtype=np.int64)
    # phi_i = sum_s' P_i(s'|s, a) V(s')
    phi = np.zeros(d)
    for n in range(N):
        for h in range(H - 1, -1, -1):
            for s in range(S):
                best = -np.inf
                for a in range(A):
                    q_value = rewards[h, s, a]
                    if h < H - 1:
                        for i in range(d):
                            phi[i] = 0.0
                        for t in range(T):
                            v = values[n, h + 1, t]
                            if v != 0.0:
                                for i in range(d):
                                    phi[i] += kernels[s, a, t, i] * v
                        for i in range(d):
                            q_value += weights[n, h, i] * phi[i]
                    if q_value > best:
                        best = q_value
                        actions[n, h, s] = a
                values[n, h, s] = best
    return values, actions


@njit
def optimistic_policy(
    kernels: Array, rewards: Array, weights: Array, covariance: Array, width: float
) -> tuple[Array, Ints]:
    """(values [h, s], actions [h, s]) of the policy that is optimistic about the weights [h, i].

    The expected next value phi.w is raised by `width` sqrt(phi^T C phi), but to no more than the
    best kernel alone gives. C is the `covariance` [h, i, i] of the weights.
    """
    S, A, T, d = kernels.shape
    H = len(rewards)
    values = np.zeros((H, S))
    actions = np.zeros((H, S), dtype=np.int64)
    # phi_i = sum_s' P_i(s'|s, a) V(s')
    phi = np.zeros(d)
    for h in range(H - 1, -1, -1):
        for s in range(S):
            best = -np.inf
            for a in range(A):
                q_value = 0.0
                if h < H - 1:
                    for i in range(d):
                        phi[i] = 0.0
                    for t in range(T):
                        v = values[h + 1, t]
                        if v != 0.0:
                            for i in range(d):
                                phi[i] += kernels[s, a, t, i] * v
                    variance = 0.0
                    best_kernel = 0.0
                    for i in range(d):
                        q_value += weights[h, i] * phi[i]
                        best_kernel = max(best_kernel, phi[i])
                        for j in range(d):
                            variance += phi[i] * covariance[h, i, j] * phi[j]
                    q_value = min(q_value + width * np.sqrt(max(variance, 0.0)), best_kernel)
                q_value += rewards[h, s, a]
                if q_value > best:
                    best = q_value
                    actions[h, s] = a
            values[h, s] = best
    return values, actions


@njit
def value_gradients(
    kernels: Array, values: Array, actions: Ints, weights: Array, start: Array
) -> Array:
    """How the value of each policy n changes with the weights of each step h [n, h, i].

    Policy n has these actions [n, h, s] and these values [n, h, s] under the weights [n, h, i].
    """
    S, _, T, d = kernels.shape
    N, H, _ = actions.shape
    gradients = np.zeros((N, weights.shape[1], d))
    for n in range(N):
        at = start.copy()
        for h in range(H - 1):
            later = np.zeros(S)
            for s in range(S):
                if at[s] <= 0.0:
                    continue
                a = actions[n, h, s]
                for t in range(T):
                    probability = 0.0
                    v = at[s] * values[n, h + 1, t]
                    for i in range(d):
                        probability += weights[n, h, i] * kernels[s, a, t, i]
                        gradients[n, h, i] += v * kernels[s, a, t, i]
                    later[t] += at[s] * probability
            at = later
    return gradients


@njit
def choose_greedily(
    covariance: Array, relevance: Array, rows: Array, steps: Ints, noise: Array, count: int
) -> tuple[Ints, float]:
    """Choose `count` questions, each as the one that lowers sum_h tr(B_h C_h) most.

    B_h is `relevance` [h, i, i], and C_h is what the questions chosen before leave of `covariance`
    [h, i, i]. Question q is about steps[q]; rows [q, i] are its mean answers of all users under
    each kernel, and `noise` [q] is the variance of its answer beside C. Returned are the questions
    in this order, and by how much the sum falls in all.
    """
    Q, d = rows.shape
    C = covariance.copy()
    # For question q: C_h m with its row m, the fall of tr(B C) times the variance, the variance.
    moved = np.zeros((Q, d))
    score = np.zeros(Q)
    variance = np.ones(Q)
    chosen = np.zeros(count, dtype=np.int64)
    total = 0.0
    changed_step = -1
    for n in range(count):
        for q in range(Q):
            h = steps[q]
            # The numbers of a question change only with the covariance of its own step.
            if n > 0 and h != changed_step:
                continue
            score[q] = 0.0
            variance[q] = noise[q]
            for i in range(d):
                moved[q, i] = 0.0
                for j in range(d):
                    moved[q, i] += C[h, i, j] * rows[q, j]
                variance[q] += rows[q, i] * moved[q, i]
            for i in range(d):
                for j in range(d):
                    score[q] += moved[q, i] * relevance[h, i, j] * moved[q, j]
        best = 0
        for q in range(Q):
            if score[q] * variance[best] > score[best] * variance[q]:
                best = q
        chosen[n] = best
        changed_step = steps[best]
        total += score[best] / variance[best]
        for i in range(d):
            for j in range(d):
                C[changed_step, i, j] -= moved[best, i] * moved[best, j] / variance[best]
    return chosen, total
