"""The inner loops over users' rows: clip, round, add up.

Each contribution is rounded to whole steps of the grid before it is added. So sums are exact, in
whatever order they are taken. The clips are required for privacy. They meet raw data, and no value
may raise an error or leave them unclipped.
"""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[Any]
# How far inside of the ball a scaled row ends: a norm in floating point is off by a few 1e-16.
# Required for privacy, together with the grid, whose rounding the sensitivities include.
_SAFE_SHARE = 1 - 1e-15


@njit
def clip_row(v: Array, radius: float) -> bool:
    """Scale v to a norm of at most `radius`, up to rounding, in place.

    False, and v unchanged, if v is zero or has a value that is not finite. v is divided by its
    largest absolute value before squaring, so a value of 1e300 neither overflows nor passes.
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
            v[i] = v[i] / largest * (radius * _SAFE_SHARE / norm)
    return True


@njit
def add_row(
    sums: Array, x: Array, ky: float, count: float, grid: float, off_diagonal: float
) -> None:
    """Add (svec(x x^T), x kappa y) `count` times onto `sums` [coordinate], in steps of the grid.

    `ky` is kappa y. The entries of x x^T off the diagonal are multiplied by `off_diagonal`.
    """
    m = x.size
    k = 0
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
    """Clip rows to the unit ball, and add them up problem by problem, in steps of the grid.

    A row is v = (X, kappa y / sqrt(2)), where `balance` is kappa. The sums [problem, coordinate]
    are those of `add_row`. Shapes: problem, y and counts [row], X [row, i].
    """
    n, m = X.shape
    sums = np.zeros((problems, m * (m + 1) // 2 + m))
    v = np.empty(m + 1)
    for r in range(n):
        v[:m] = X[r]
        v[m] = y[r] * (balance / np.sqrt(2.0))
        if clip_row(v, 1.0):
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
    """Clip rows to ||X|| <= row_norm and |y| <= target, and add them up as `weighted_sums` does.

    If `nonnegative`, entries of X and y below zero become zero. A row that is not finite is left
    out. Shapes: problem, y and counts [row], X [row, i].
    """
    n, m = X.shape
    sums = np.zeros((problems, m * (m + 1) // 2 + m))
    x = np.empty(m)
    lowest = 0.0 if nonnegative else -target
    for r in range(n):
        x[:] = X[r]
        finite = np.isfinite(y[r])
        for i in range(m):
            finite = finite and np.isfinite(x[i])
            if nonnegative and x[i] < 0.0:
                x[i] = 0.0
        if finite and clip_row(x, row_norm):
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
    """Whether each row (svec(M), c) of `values` [row, coordinate] is (X X^T, k X), up to rounding.

    It must hold that ||X|| <= row and |k| <= target or, if `unit`, that ||X||^2 + k^2 / 2 <= 1.
    With X = sqrt(s) u for a unit vector u, M = s u u^T and c = t u. So u is read off M or c, s and
    t are the components along it, and what remains must be rounding.
    """
    # A rounding error of an entry off the diagonal counts sqrt(2) / off_diagonal times.
    room = 4.0 * (1.0 + np.sqrt(m)) * grid * (np.sqrt(2.0) / off_diagonal)
    u = np.empty(m)
    for h in range(len(values)):
        M = values[h, : m * (m + 1) // 2]
        c = values[h, m * (m + 1) // 2 :]
        if not _read_direction(M, c, u, off_diagonal):
            return False
        s = 0.0
        t = 0.0
        k = 0
        for i in range(m):
            t += c[i] * u[i]
            for j in range(i, m):
                s += M[k] * u[i] * u[j] * (1.0 if i == j else 2.0 / off_diagonal)
                k += 1
        longest = 1.0 if unit else row * row
        # The largest s up to rounding, and the largest |t| = sqrt(s) |k| for it.
        most = min(max(s + room, 0.0), longest)
        limit = target * np.sqrt(most)
        if unit:
            # t^2 = s k^2 <= 2 s (1 - s), which is largest at s = 1/2.
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
def _read_direction(M: Array, c: Array, u: Array, off_diagonal: float) -> bool:
    """Write the unit vector of `is_rank_one` into u [i]. False if there is none.

    It is read off the longer one of M = s u u^T and c = t u, where rounding matters least. From M
    it is the row with the largest entry on the diagonal.
    """
    m = u.size
    trace = 0.0
    heaviest_row = 0
    heaviest = -1.0
    k = 0
    for i in range(m):
        trace += M[k]
        if M[k] > heaviest:
            heaviest = M[k]
            heaviest_row = i
        k += m - i
    length = np.sqrt((c * c).sum())
    if length > trace:
        u[:] = c / length
    elif trace > 0.0:
        for j in range(m):
            i = min(heaviest_row, j)
            other = max(heaviest_row, j)
            entry = M[i * m - i * (i - 1) // 2 + other - i]
            u[j] = entry if i == other else entry / off_diagonal
        norm = np.sqrt((u * u).sum())
        if norm == 0.0:
            return False
        u /= norm
    else:
        u[:] = 0.0
    return True


@njit
def one_row_per_step(problem: Ints, counts: Ints, problems: int, users: int) -> bool:
    """Whether the rows can be those of so many users, each with at most one row per problem.

    It also refuses problems that do not exist, so other loops can use them as indices.
    Shapes: problem and counts [row].
    """
    rows = np.zeros(problems, np.int64)
    for r in range(problem.size):
        exists = 0 <= problem[r] < problems
        if not exists or counts[r] < 0 or counts[r] > users - rows[problem[r]]:
            return False
        rows[problem[r]] += counts[r]
    return True


@njit
def unpack(values: Array, m: int, balance: float, off_diagonal: float) -> tuple[Array, Array]:
    """Turn released vectors into Lambda [problem, i, j] and u [problem, i].

    A vector of `values` [problem, coordinate] is (svec(Lambda), kappa u), where `balance` is kappa.
    """
    n = len(values)
    Lambda = np.empty((n, m, m))
    u = np.empty((n, m))
    for b in range(n):
        k = 0
        for i in range(m):
            for j in range(i, m):
                entry = values[b, k] / (1.0 if i == j else off_diagonal)
                Lambda[b, i, j] = entry
                Lambda[b, j, i] = entry
                k += 1
        for i in range(m):
            u[b, i] = values[b, k + i] / balance
    return Lambda, u


@njit
def transitions(states: Ints, actions: Ints, steps: int, S: int, A: int) -> Ints:
    """The transitions of each user's first steps, without those that do not exist.

    The rows of the result [4, transition] are step, state, action and next state. A transition
    exists if its states are below S and its action is below A. Shapes: states [user, step], with
    one more step than actions [user, step].
    """
    users, H = actions.shape
    result = np.empty((4, users * min(steps, H)), np.int64)
    n = 0
    for i in range(users):
        for h in range(min(steps, H)):
            state = states[i, h]
            action = actions[i, h]
            next_state = states[i, h + 1]
            if 0 <= state < S and 0 <= action < A and 0 <= next_state < S:
                result[0, n] = h
                result[1, n] = state
                result[2, n] = action
                result[3, n] = next_state
                n += 1
    return result[:, :n].copy()
