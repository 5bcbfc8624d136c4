"""The inner loops of regularised least squares on released statistics."""

import numpy as np
import numpy.typing as npt

from confide._jit import njit

Array = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]


@njit
def _eigh(A: Array) -> tuple[Array, Array]:
    """Return eigenvalues [k] and vectors [i, k] of a symmetric matrix.

    Small matrices are solved by Jacobi rotations, because a call of LAPACK costs more than the
    arithmetic.
    """
    m = len(A)
    if m > 8:
        return np.linalg.eigh(A)
    D = A.copy()
    V = np.eye(m)
    size = (D * D).sum()
    # Sweeps. A handful is enough, because convergence is quadratic.
    for _ in range(50):
        left = 0.0
        for p in range(m):
            for q in range(p + 1, m):
                left += D[p, q] ** 2
        if not left > 1e-30 * size:
            break
        for p in range(m):
            for q in range(p + 1, m):
                _rotate(D, V, p, q)
    return np.diag(D).copy(), V


@njit
def _rotate(D: Array, V: Array, p: int, q: int) -> None:
    """Rotate the coordinates p and q so that D[p, q] becomes zero."""
    if D[p, q] == 0.0:
        return
    half = (D[q, q] - D[p, p]) / (2 * D[p, q])
    t = (1.0 if half >= 0.0 else -1.0) / (abs(half) + np.sqrt(half * half + 1.0))
    c = 1 / np.sqrt(t * t + 1.0)
    s = t * c
    D[p, p], D[q, q] = D[p, p] - t * D[p, q], D[q, q] + t * D[p, q]
    D[p, q] = D[q, p] = 0.0
    for k in range(len(D)):
        V[k, p], V[k, q] = c * V[k, p] - s * V[k, q], s * V[k, p] + c * V[k, q]
        if k not in (p, q):
            x = D[k, p]
            y = D[k, q]
            D[k, p] = D[p, k] = c * x - s * y
            D[k, q] = D[q, k] = s * x + c * y


@njit
def solve_repaired(Lambda: Array, u: Array, ridge: float) -> tuple[Array, Array]:
    """Return theta [n, m] = P^-1 u and P [n, m, m] = (Lambda)_+ + ridge I."""
    n, m = u.shape
    theta = np.zeros((n, m))
    precision = np.zeros((n, m, m))
    for b in range(n):
        eigenvalues, vectors = _eigh(Lambda[b])
        for k in range(m):
            repaired = max(eigenvalues[k], 0.0) + ridge
            along = 0.0
            for i in range(m):
                along += vectors[i, k] * u[b, i]
            for i in range(m):
                theta[b, i] += vectors[i, k] * (along / repaired)
                for j in range(m):
                    precision[b, i, j] += vectors[i, k] * repaired * vectors[j, k]
    return theta, precision


@njit
def optimistic_values(
    Lambda: Array, u: Array, ridge: float, rows: Array, sampling: float, noise: float
) -> tuple[Array, Array]:
    """Return x.theta and its standard error for every row x [n, m].

    theta = P^-1 u with P = (Lambda)_+ + ridge I. The standard error is
    sqrt(sampling x^T P^-1 x + noise ||P^-1 x||^2).
    """
    n, m = rows.shape
    eigenvalues, vectors = _eigh(Lambda)
    value = np.zeros(n)
    error = np.zeros(n)
    for k in range(m):
        positive = max(eigenvalues[k], 0.0) + ridge
        weight = 0.0
        for i in range(m):
            weight += vectors[i, k] * u[i]
        weight /= positive
        spread = sampling / positive + noise / positive**2
        for j in range(n):
            along = 0.0
            for i in range(m):
                along += vectors[i, k] * rows[j, i]
            value[j] += along * weight
            error[j] += along * along * spread
    return value, np.sqrt(error)


@njit
def solve_on_simplex(
    Lambda: Array, u: Array, ridge: float, origin: Array, basis: Array
) -> tuple[Array, Array]:
    """Do what `solve_repaired` does, and move theta.

    It is moved to where origin + basis theta is on the simplex, by `project`.
    """
    theta, precision = solve_repaired(Lambda, u, ridge)
    n, m = theta.shape
    d = origin.size
    goals = np.empty((n, d))
    norms = np.zeros((n, d, d))
    for b in range(n):
        for i in range(d):
            goals[b, i] = origin[i]
            for k in range(m):
                goals[b, i] += basis[i, k] * theta[b, k]
                along = 0.0
                for j in range(m):
                    along += precision[b, k, j] * basis[i, j]
                for j in range(d):
                    norms[b, j, i] += basis[j, k] * along
    weights = project(goals, norms)
    for b in range(n):
        for k in range(m):
            theta[b, k] = 0.0
            for i in range(d):
                theta[b, k] += (weights[b, i] - origin[i]) * basis[i, k]
    return theta, precision


@njit
def mean_diagonal(matrices: Array) -> float:
    n, m, _ = matrices.shape
    total = 0.0
    for b in range(n):
        for i in range(m):
            total += matrices[b, i, i]
    mean: float = total / (n * m)
    return mean


@njit
def project(targets: Array, precisions: Array) -> Array:
    """Return the closest point of the simplex to each target [n, d], by an active set.

    The distance is the norm of the target's precision [n, d, d]. On a face (the free coordinates)
    the minimum solves a linear system. On the way to it from inside the simplex, coordinates that
    reach zero leave the face. At the minimum of a face, the coordinate whose multiplier is most
    negative joins it. If there is none, the point is optimal. The minimum of each face is lower
    than that of the last one, so no face comes twice. The bound on the number of faces is for
    rounding errors.
    """
    n, d = targets.shape
    result = np.full((n, d), 1.0 / d)
    free = np.empty(d, np.bool_)
    barred = np.empty(d, np.bool_)
    L = np.empty((d, d))
    work = np.empty((3, d))
    for b in range(n):
        w = result[b]
        target = targets[b]
        P = precisions[b]
        free[:] = True
        barred[:] = False
        joined = d - 1
        for _ in range(100 * d):
            if _settle(w, free, joined, target, P, L, work):
                barred[:] = False
            else:
                # Its multiplier was negative by rounding only.
                barred[joined] = True
            joined = _most_violated(w, free, barred, target, P, work[0])
            if joined < 0:
                break
            free[joined] = True
        # The sum must be one to the last digit.
        w /= w.sum()
    return result


@njit
def _settle(
    w: Array, free: Flags, joined: int, target: Array, P: Array, L: Array, work: Array
) -> bool:
    """Move w to the minimum of its face, and drop the coordinates that block the way.

    Return whether it moved before `joined` was dropped.
    """
    moved = False
    while True:
        step = _face_step(w, free, target, P, L, work)
        length = 1.0
        block = -1
        for i in range(w.size):
            if free[i] and step[i] <= 0.0 and w[i] + step[i] <= 0.0:
                reach = w[i] / -step[i] if w[i] > 0.0 else 0.0
                if block < 0 or reach < length:
                    length = reach
                    block = i
        moved = moved or (free[joined] and length > 0.0)
        for i in range(w.size):
            if free[i]:
                w[i] = max(w[i] + length * step[i], 0.0)
        if block < 0:
            return moved
        w[block] = 0.0
        free[block] = False


@njit
def _face_step(w: Array, free: Flags, target: Array, P: Array, L: Array, work: Array) -> Array:
    """Find the step p from w to the minimum over {sum = 1, w_i = 0 off the face}.

    It solves P_FF p = nu - g_F and sum p = 0. L [d, d] and work [3, d] are memory to work in.
    """
    gradient: Array = work[0]
    step: Array = work[1]
    ones: Array = work[2]
    nu = _gradient(w, free, target, P, gradient)
    _face_factor(free, P, L)
    for i in range(w.size):
        # nu for now: a large multiplier would cost digits
        step[i], ones[i] = (nu - gradient[i], 1.0) if free[i] else (0.0, 0.0)
    _solve(L, step)
    _solve(L, ones)
    multiplier = step.sum() / ones.sum()
    for i in range(w.size):
        step[i] -= multiplier * ones[i]
    return step


@njit
def _gradient(w: Array, free: Flags, target: Array, P: Array, gradient: Array) -> float:
    """g = P (w - target) into `gradient`; its mean nu over the face."""
    total = 0.0
    count = 0
    for i in range(w.size):
        along = 0.0
        for j in range(w.size):
            along += P[i, j] * (w[j] - target[j])
        gradient[i] = along
        if free[i]:
            total += along
            count += 1
    return total / count


@njit
def _face_factor(free: Flags, P: Array, L: Array) -> None:
    """Write the Cholesky factor of P_FF + c 1 1^T into the lower half of L.

    Off the face it is completed by the identity.

    Steps sum to zero, so c changes none of them; without it P may be singular along 1.
    """
    d = free.size
    c = np.trace(P) / d**2
    for j in range(d):
        for i in range(j, d):
            L[i, j] = 1.0 if i == j else 0.0
        if free[j]:
            pivot = P[j, j] + c
            least = 1e-16 * pivot
            for k in range(j):
                pivot -= L[j, k] * L[j, k]
            L[j, j] = np.sqrt(max(pivot, least))
            for i in range(j + 1, d):
                if free[i]:
                    value = P[i, j] + c
                    for k in range(j):
                        value -= L[i, k] * L[j, k]
                    L[i, j] = value / L[j, j]


@njit
def _solve(L: Array, x: Array) -> None:
    """x <- (L L^T)^-1 x."""
    for i in range(x.size):
        for k in range(i):
            x[i] -= L[i, k] * x[k]
        x[i] /= L[i, i]
    for i in range(x.size - 1, -1, -1):
        for k in range(i + 1, x.size):
            x[i] -= L[k, i] * x[k]
        x[i] /= L[i, i]


@njit
def _most_violated(
    w: Array, free: Flags, barred: Flags, target: Array, P: Array, gradient: Array
) -> int:
    """Return the coordinate off the face with the most negative multiplier g_i - nu.

    Return -1 if none is below the rounding error of g.
    """
    d = w.size
    nu = _gradient(w, free, target, P, gradient)
    rounding = 0.0
    for i in range(d):
        size = 0.0
        for j in range(d):
            size += abs(P[i, j]) * (w[j] + abs(target[j]))
        rounding = max(rounding, size)
    worst = -1
    lowest = -4.0 * d * 2.3e-16 * rounding
    for i in range(d):
        if not free[i] and not barred[i] and gradient[i] - nu < lowest:
            worst = i
            lowest = gradient[i] - nu
    return worst


@njit
def ellipsoid(S: Array, C: Array, shift: float, least: float) -> tuple[Array, Array, float, float]:
    """Return V^-1 C, ln det(V / least), and the smallest eigenvalue of V.

    V is S + shift I with eigenvalues raised to `least`.
    """
    p, n = C.shape
    theta = np.zeros((p, n))
    V = np.zeros((p, p))
    moved = S.copy()
    for i in range(p):
        moved[i, i] += shift
    values, vectors = _eigh(moved)
    log_det = 0.0
    smallest = np.inf
    for k in range(p):
        value = max(values[k], least)
        log_det += np.log(value / least)
        smallest = min(smallest, value)
        for j in range(n):
            along = 0.0
            for i in range(p):
                along += vectors[i, k] * C[i, j]
            for i in range(p):
                theta[i, j] += vectors[i, k] * along / value
        for i in range(p):
            for j in range(i + 1):
                V[i, j] += vectors[i, k] * value * vectors[j, k]
                V[j, i] = V[i, j]
    return theta, V, log_det, smallest


@njit
def bonus(
    X: Array, inverse: Array, scale: float, width: tuple[float, float, float, float]
) -> Array:
    """factor scale min(cap, sqrt(sampling x^T L^-1 x + noise ||L^-1 x||^2)) of each row x."""
    sampling, noise, factor, cap = width
    n, m = X.shape
    result = np.empty(n)
    for r in range(n):
        square = 0.0
        length = 0.0
        for i in range(m):
            solved = 0.0
            for k in range(m):
                solved += inverse[i, k] * X[r, k]
            square += X[r, i] * solved
            length += solved * solved
        result[r] = factor * scale * min(cap, np.sqrt(max(sampling * square + noise * length, 0.0)))
    return result
