"""The inner loops over users' rows: clip, round, add up. Each contribution is rounded before it is added: whole numbers, so exact."""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]


@njit
def clipped(v: Array, radius: float) -> bool:
    """Scale v to norm at most `radius` (up to rounding), in place; False if it is not finite, or zero.

    The scale is taken out before squaring, so that 1e300 neither overflows nor passes.
    """
    largest = 0.0
    for value in v:
        if not np.isfinite(value):
            return False
        largest = max(largest, abs(value))
    if largest == 0.0:
        return False
    square = 0.0
    for value in v:
        square += (value / largest) ** 2
    norm = np.sqrt(square)
    if norm > radius / largest:
        for i in range(v.size):
            v[i] = v[i] / largest * (radius * (1 - 1e-15) / norm)
    return True


@njit
def add_row(
    sums: Array, x: Array, ky: float, count: float, grid: float, off_diagonal: float
) -> None:
    """(svec(x x^T), x kappa y) in steps of the grid, `count` times, onto `sums`; entries off the diagonal times `off_diagonal`."""
    m, k = x.size, 0
    for i in range(m):
        for j in range(i, m):
            product = x[i] * x[j] * (1.0 if i == j else off_diagonal)
            sums[k] += np.rint(product / grid) * count
            k += 1
    for i in range(m):
        sums[k + i] += np.rint(x[i] * ky / grid) * count


@njit
def weighted_sums(
    problem: Ints, X: Array, y: Array, counts: Ints, problems: int, balance: float, grid: float
) -> Array:
    """Rows (X, kappa y / sqrt(2)) clipped to the unit ball, added up problem by problem [problem, coordinate], in steps of the grid."""
    n, m = X.shape
    sums, v = np.zeros((problems, m * (m + 1) // 2 + m)), np.empty(m + 1)
    for r in range(n):
        v[:m], v[m] = X[r], y[r] * (balance / np.sqrt(2.0))
        if clipped(v, 1.0):
            add_row(sums[problem[r]], v[:m], v[m] * np.sqrt(2.0), counts[r], grid, np.sqrt(2.0))
    return sums


@njit
def regression_sums(
    problem: Ints,
    X: Array,
    y: Array,
    counts: Ints,
    problems: int,
    balance: float,
    grid: float,
    row_norm: float,
    target: float,
    nonnegative: bool,
    off_diagonal: float,
) -> Array:
    """Rows clipped to ||X|| <= row_norm and |y| <= target (`nonnegative`: from below at zero, too), added up as in `weighted_sums`."""
    n, m = X.shape
    sums, x = np.zeros((problems, m * (m + 1) // 2 + m)), np.empty(m)
    lowest = 0.0 if nonnegative else -target
    for r in range(n):
        x[:] = X[r]
        finite = np.isfinite(y[r])
        for i in range(m):
            finite = finite and np.isfinite(x[i])
            if nonnegative and x[i] < 0.0:
                x[i] = 0.0
        if finite and clipped(x, row_norm):
            ky = balance * min(max(y[r], lowest), target)
            add_row(sums[problem[r]], x, ky, counts[r], grid, off_diagonal)
    return sums


@njit
def is_rank_one(
    values: Array,
    m: int,
    grid: float,
    row: float,
    target: float,
    unit: bool,
    off_diagonal: float,
) -> bool:
    """Whether each row (svec(M), c) of `values` is (X X^T, k X) up to rounding, with ||X|| <= row and |k| <= target, or with
    ||X||^2 + k^2 / 2 <= 1 (`unit`).

    With X = sqrt(s) u, M = s u u^T and c = t u. The direction u is read off the longer of the two, where rounding matters least.
    """
    # A rounding error of an entry off the diagonal counts sqrt(2) / off_diagonal times.
    room = 4.0 * (1.0 + np.sqrt(m)) * grid * (np.sqrt(2.0) / off_diagonal)
    u = np.empty(m)
    for h in range(len(values)):
        M, c = values[h, : m * (m + 1) // 2], values[h, m * (m + 1) // 2 :]
        trace, best, k = 0.0, 0, 0
        heaviest = -1.0
        for i in range(m):
            trace += M[k]
            if M[k] > heaviest:
                heaviest, best = M[k], i
            k += m - i
        length = np.sqrt((c * c).sum())
        if length > trace:
            u[:] = c / length
        elif trace > 0.0:
            for j in range(m):
                i, other = min(best, j), max(best, j)
                entry = M[i * m - i * (i - 1) // 2 + other - i]
                u[j] = entry if i == other else entry / off_diagonal
            norm = np.sqrt((u * u).sum())
            if norm == 0.0:
                return False
            u /= norm
        else:
            u[:] = 0.0
        s, t, k = 0.0, 0.0, 0
        for i in range(m):
            t += c[i] * u[i]
            for j in range(i, m):
                s += M[k] * u[i] * u[j] * (1.0 if i == j else 2.0 / off_diagonal)
                k += 1
        longest = 1.0 if unit else row * row
        most = min(max(s + room, 0.0), longest)
        limit = target * np.sqrt(most)
        if unit:  # t^2 = s k^2 <= 2 s (1 - s), which is largest at s = 1/2
            most = max(min(most, 0.5), min(s - room, 1.0))
            limit = np.sqrt(2.0 * most * (1.0 - most))
        if s > longest + room or abs(t) > limit + room:
            return False
        k = 0
        for i in range(m):
            if abs(c[i] - t * u[i]) > room:
                return False
            for j in range(i, m):
                if abs(M[k] - s * u[i] * u[j] * (1.0 if i == j else off_diagonal)) > room:
                    return False
                k += 1
    return True


@njit
def one_row_per_step(problem: Ints, counts: Ints, problems: int, users: int) -> bool:
    """Whether the rows can come from so many users, each with at most one row per problem."""
    rows = np.zeros(problems, np.int64)
    for r in range(problem.size):
        if (
            problem[r] < 0
            or problem[r] >= problems
            or counts[r] < 0
            or counts[r] > users - rows[problem[r]]
        ):
            return False
        rows[problem[r]] += counts[r]
    return True


@njit
def unpack(values: Array, m: int, balance: float, off_diagonal: float) -> tuple[Array, Array]:
    """(svec(Lambda), kappa u) of each problem [problem, coordinate] -> Lambda [problem, m, m] and u [problem, m]."""
    n = len(values)
    Lambda, u = np.empty((n, m, m)), np.empty((n, m))
    for b in range(n):
        k = 0
        for i in range(m):
            for j in range(i, m):
                Lambda[b, i, j] = Lambda[b, j, i] = values[b, k] / (1.0 if i == j else off_diagonal)
                k += 1
        for i in range(m):
            u[b, i] = values[b, k + i] / balance
    return Lambda, u


@njit
def transitions(states: Ints, actions: Ints, steps: int, S: int, A: int) -> Ints:
    """(step, state, action, next state) of each user's first steps [4, row], without those that do not exist."""
    users, H = actions.shape
    found, n = np.empty((4, users * min(steps, H)), np.int64), 0
    for i in range(users):
        for h in range(min(steps, H)):
            s, a, t = states[i, h], actions[i, h], states[i, h + 1]
            if 0 <= s < S and 0 <= a < A and 0 <= t < S:
                found[0, n], found[1, n], found[2, n], found[3, n] = h, s, a, t
                n += 1
    return found[:, :n].copy()
