"""The optimistic search: projection onto the confidence set, and spectral projected gradient.

Coordinates: Y = U^T Theta with V = U diag(v) U^T, so that the confidence ellipsoid and the ball of
the norm are both diagonal. Theta = [A B]^T has the shape (p, n), where p = n + d.
"""

import numpy as np
import numpy.typing as npt

from confide._jit import njit
from confide.planners._regression_kernels import _eigh
from confide.planners._riccati_kernels import (
    Model,
    Work,
    backward,
    copy,
    factor,
    forward,
    multiply,
    multiply_left,
    solve,
    workspace,
)

Array = npt.NDArray[np.float64]
# centre [p, n], v [p], m [p], beta, bound: see `project`
Region = tuple[Array, Array, Array, float, float]

# How many costs the line search remembers.
MEMORY = 4
# The first step, in units of the set. It is so long that only the direction of the gradient is left
# after the projection.
LONGEST = 100.0


@njit
def _rows(point: Array, centre: Array, scalars: Array) -> None:
    """Per row of a point Y: ||Y||^2, Y.C, ||C||^2, ||Y - C||^2."""
    p, n = point.shape
    scalars[:] = 0.0
    for i in range(p):
        for j in range(n):
            y = point[i, j]
            c = centre[i, j]
            scalars[0, i] += y * y
            scalars[1, i] += y * c
            scalars[2, i] += c * c
            scalars[3, i] += (y - c) ** 2


@njit
def _distance(scalars: Array, region: Region, lam: float, nu: float) -> tuple[float, float]:
    """Return sum v ||Y - C||^2 at the point of these multipliers, and minus half its derivative.

    The derivative is by lam.
    """
    _, v, m, _, _ = region
    value = 0.0
    slope = 0.0
    for i in range(len(v)):
        room = m[i] + nu + lam * v[i]
        gap = scalars[1, i] - scalars[2, i]
        far = (
            v[i]
            * (m[i] * m[i] * scalars[3, i] - 2 * m[i] * nu * gap + nu * nu * scalars[2, i])
            / (room * room)
        )
        value += far
        slope += far * v[i] / room
    return value, slope


@njit
def _inner(scalars: Array, region: Region, lam: float, nu: float) -> float:
    """Return the least lam >= 0 that brings the point into the ellipsoid.

    Newton's method solves the secular equation 1/beta = 1/distance(lam).

    The right side is concave in lam. So Newton's steps from below never pass the root, and a step
    from above falls below it.
    """
    beta = region[3]
    for _ in range(60):
        value, slope = _distance(scalars, region, lam, nu)
        if (value <= beta * beta and lam == 0.0) or not slope > 0.0:
            return lam
        step = (np.sqrt(value) / beta - 1.0) * value / slope
        lam = max(0.0, lam + step)
        if abs(step) <= 1e-13 * lam:
            return lam
    return lam


@njit
def _size(scalars: Array, region: Region, lam: float, nu: float) -> tuple[float, float]:
    """||Y||^2 of the point that belongs to nu and lam(nu), and minus half its derivative in nu."""
    _, v, m, _, _ = region
    size = 0.0
    along = 0.0
    cross = 0.0
    across = 0.0
    for i in range(len(v)):
        room = m[i] + nu + lam * v[i]
        a = m[i] / room
        b = lam * v[i] / room
        square = a * a * scalars[0, i] + 2 * a * b * scalars[1, i] + b * b * scalars[2, i]
        mixed = a * scalars[1, i] + b * scalars[2, i]
        size += square
        along += square / room
        if lam > 0.0:
            cross += v[i] * (mixed - square) / room
            across += v[i] * v[i] * (scalars[2, i] - 2 * mixed + square) / room
    if across > 0.0:
        along -= cross * cross / across
    return size, along


@njit
def project(point: Array, region: Region, scalars: Array, warm: Array) -> None:
    """Replace `point` by the nearest point of the confidence set.

    The set is {Y: sum_i v_i ||Y_i - C_i||^2 <= beta^2, ||Y||^2 <= bound^2} with rows Y_i. The
    distance is the norm sum_i m_i ||Y_i||^2. With multipliers lam, nu >= 0 the nearest point of Y0
    is Y_i = (m_i Y0_i + lam v_i C_i) / (m_i + lam v_i + nu). For every nu the best lam is the root
    of a secular equation. Along these roots ||Y||^2 is minus twice the derivative of the concave
    dual function, so it falls in nu. Newton's steps inside of a bracket therefore find nu. `warm`
    keeps the multipliers for the next call.
    """
    centre, v, m, beta, bound = region
    _rows(point, centre, scalars)
    lam = _inner(scalars, region, warm[0], 0.0) if beta > 0.0 else 0.0
    nu = 0.0
    low = 0.0
    high = np.inf
    size, slope = _size(scalars, region, lam, 0.0)
    if size > bound * bound:
        nu = warm[1]
        for _ in range(200):
            if nu > 0.0:
                lam = _inner(scalars, region, lam, nu)
                size, slope = _size(scalars, region, lam, nu)
            if size > bound * bound:
                low = nu
            else:
                high = nu
            if (
                abs(size - bound * bound) <= 1e-13 * bound * bound
                or (high < np.inf and high - low <= 1e-15 * high)
                or nu > 1e30
            ):
                break
            step = (np.sqrt(size) / bound - 1.0) * size / slope if slope > 0.0 else np.inf
            nu += step
            if not low < nu < high:
                nu = 0.5 * (low + high) if high < np.inf else 10 * low + m[0]
    warm[0] = lam
    warm[1] = nu
    if lam == 0.0 and nu == 0.0:
        return
    for i in range(len(v)):
        a = m[i]
        b = lam * v[i]
        for j in range(point.shape[1]):
            point[i, j] = (a * point[i, j] + b * centre[i, j]) / (a + b + nu)


@njit
def _gradient(
    theta: Array, U: Array, model: Model, first: int, work: Work, room: Array, G: Array
) -> None:
    """The gradient in the coordinates Y, U^T dJ/dTheta."""
    forward(theta, model, first, work, room[0])
    multiply_left(U, room[0], G)


@njit
def _jitter(Y: Array, region: Region) -> None:
    """Return a small fixed displacement.

    dJ/dB = 0 at B = 0, and no descent leaves such a point by itself.
    """
    p, n = Y.shape
    for i in range(p):
        size = 0.1 * region[3] / np.sqrt(region[2][i] * p * n)
        for j in range(n):
            Y[i, j] += size * np.cos(1.0 + 2.4 * (i * n + j))


@njit
def _descend(
    Y: Array,
    region: Region,
    U: Array,
    model: Model,
    work: Work,
    room: Array,
    small: Array,
    reference: float,
    best: float,
    best_point: Array,
    tolerance: float,
    limit: int,
) -> tuple[float, int]:
    """Descend from Y, in place, by spectral projected gradient (Birgin et al. 2000, SPG2).

    Return J and the number of steps. The descent ends when a step promises less than `tolerance` of
    what was gained on the cost `reference` of the estimate. It also ends when it comes close to
    `best_point`, of cost `best`, without being better.
    """
    p, n = Y.shape
    m = region[2]
    beta = region[3]
    theta = room[1]
    G = room[2]
    step = room[3]
    trial = room[4]
    other = room[5]
    scalars = small[:4]
    warm = small[4]
    multiply(U, Y, theta)
    J, first = backward(theta, model, work)
    _gradient(theta, U, model, first, work, room, G)
    recent = np.full(MEMORY, J)
    size = 0.0
    for i in range(p):
        for j in range(n):
            size += G[i, j] ** 2 / m[i]
    longest = LONGEST * beta / np.sqrt(size) if size > 0.0 else 1.0
    alpha = longest
    count = 0
    if not np.isfinite(J):
        return np.inf, 0
    if not np.isfinite(reference):
        reference = J
    while count < limit:
        for i in range(p):
            for j in range(n):
                step[i, j] = Y[i, j] - alpha * G[i, j] / m[i]
        project(step, region, scalars, warm)
        slope = 0.0
        apart = 0.0
        for i in range(p):
            for j in range(n):
                step[i, j] -= Y[i, j]
                slope += G[i, j] * step[i, j]
                apart += m[i] * (Y[i, j] - best_point[i, j]) ** 2
        if not -slope > tolerance * abs(reference - J) + 1e-14 * J or (
            best <= J and apart < 1e-2 * beta * beta
        ):
            break
        count += 1
        t, value, first = _line(Y, step, slope, J, recent.max(), U, model, work, theta, trial)
        if t == 0.0:
            break
        _gradient(theta, U, model, first, work, room, other)
        long = 0.0
        bend = 0.0
        for i in range(p):
            for j in range(n):
                moved = t * step[i, j]
                long += m[i] * moved * moved
                bend += moved * (other[i, j] - G[i, j])
                G[i, j] = other[i, j]
                Y[i, j] = trial[i, j]
        alpha = min(long / bend, longest) if bend > 0.0 else longest
        J = value
        recent[count % MEMORY] = J
    return J, count


@njit
def _line(
    Y: Array,
    step: Array,
    slope: float,
    J: float,
    ceiling: float,
    U: Array,
    model: Model,
    work: Work,
    theta: Array,
    trial: Array,
) -> tuple[float, float, int]:
    """Find a fraction t of the step with J <= ceiling + 1e-4 t slope, by quadratic interpolation.

    Return t, J and the index of `backward`. t = 0 says that there is none.
    """
    p, n = Y.shape
    t = 1.0
    for _ in range(30):
        for i in range(p):
            for j in range(n):
                trial[i, j] = Y[i, j] + t * step[i, j]
        multiply(U, trial, theta)
        value, first = backward(theta, model, work)
        if value <= ceiling + 1e-4 * t * slope:
            return t, value, first
        bent = value - J - t * slope
        t *= min(0.5, max(0.1, -0.5 * t * slope / bent)) if bent < np.inf else 0.1
    return 0.0, J, 0


@njit
def _memoryless(hat: Array, V: Array, bound: float, M: Array, point: Array) -> None:
    """Return the point with A = 0 that is nearest in the norm of V, drawn into the ball of `bound`.

    It is B + V_uu^-1 V_ux A.
    """
    p, n = hat.shape
    for i in range(n, p):
        for j in range(n, p):
            M[i, j] = V[i, j]
        for j in range(n):
            point[i, j] = 0.0
            for k in range(n):
                point[i, j] += V[i, k] * hat[k, j]
    factor(M, n)
    solve(M, n, point[n:])
    size = 0.0
    for i in range(p):
        for j in range(n):
            point[i, j] = point[i, j] + hat[i, j] if i >= n else 0.0
            size += point[i, j] ** 2
    shrink = bound / np.sqrt(size) if size > bound * bound else 1.0
    for i in range(n, p):
        for j in range(n):
            point[i, j] *= shrink


@njit
def _within(point: Array, hat: Array, V: Array, beta: float) -> bool:
    """||V^{1/2} (point - hat)||_F <= beta."""
    p, n = hat.shape
    total = 0.0
    for i in range(p):
        for k in range(p):
            along = 0.0
            for j in range(n):
                along += (point[i, j] - hat[i, j]) * (point[k, j] - hat[k, j])
            total += V[i, k] * along
    return total <= beta * beta


@njit
def meet(region: Region, scalars: Array) -> bool:
    """Whether the ellipsoid and the ball meet.

    The point of the ellipsoid nearest to zero is the projection of zero in the plain norm.
    """
    centre, v, _, beta, bound = region
    _rows(centre, centre, scalars)
    size = 0.0
    for i in range(len(v)):
        size += scalars[0, i]
        # The rows of zero.
        scalars[3, i] = scalars[2, i]
        scalars[0, i] = scalars[1, i] = 0.0
    if size > bound * bound and beta > 0.0:
        plain = (centre, v, np.ones(len(v)), beta, bound)
        size, _ = _size(scalars, plain, _inner(scalars, plain, 0.0, 0.0), 0.0)
    return size <= bound * bound * (1 + 1e-12)


@njit
def _explore(
    theta: Array,
    hat: Array,
    V: Array,
    start: Array,
    region: Region,
    U: Array,
    model: Model,
    work: Work,
    room: Array,
    small: Array,
    tolerance: float,
    limit: int,
) -> int:
    """Return the better end of two descents, and the number of steps of both.

    One begins at the estimate (or at `start`, if it is not empty), the other one where A = 0.
    """
    Y = room[7]
    best_point = room[8]
    point = room[9]
    copy(region[0], Y)
    project(Y, region, small[:4], small[4])
    multiply(U, Y, theta)
    if model[2] == 1 or region[3] == 0.0:
        # There is nothing to gain.
        return 0
    _memoryless(hat, V, region[4], work[3], point)
    if _within(point, hat, V, region[3]):
        copy(point, theta)
        return 0
    reference, _ = backward(theta, model, work)
    best = np.inf
    steps = 0
    best_point[:] = np.inf
    for turn in range(2):
        if turn == 1:
            multiply_left(U, point, Y)
        elif start.size > 0:
            multiply_left(U, start, Y)
        if turn == 1 or start.size == 0:
            _jitter(Y, region)
        project(Y, region, small[:4], small[4])
        J, count = _descend(
            Y, region, U, model, work, room, small, reference, best, best_point, tolerance, limit
        )
        steps += count
        if best > J:
            best = J
            copy(Y, best_point)
    if best < reference:
        multiply(U, best_point, theta)
    return steps


@njit
def search(
    hat: Array,
    V: Array,
    beta: float,
    model: Model,
    bound: float,
    start: Array,
    tolerance: float,
    limit: int,
) -> tuple[Array, float, Array, int, int]:
    """Return Theta, J, gains [h, d, n], the number of steps, and a flag.

    The flag is 0 if a point was found, 1 if the set is empty, and 2 if V is not positive definite
    or a number is not finite. Y is measured in the norm m = v + beta^2 / bound^2. In this norm both
    sets are balls of radius at most beta around their centres, and their intersection is about
    round, whichever of the two binds.
    """
    p, n = hat.shape
    work = workspace(p, n, model[2])
    room = np.zeros((10, p, n))
    small = np.zeros((5, p))
    theta = np.empty((p, n))
    total = 0.0
    size = 0.0
    for i in range(p):
        for j in range(p):
            total += V[i, j]
        for j in range(n):
            theta[i, j] = hat[i, j]
            size += hat[i, j] ** 2
    if not np.isfinite(total + size):
        return theta, np.inf, work[1], 0, 2
    v, axes = _eigh(V)
    m = v + (beta / bound) ** 2
    for i in range(p):
        if not v[i] > 0.0:
            return theta, np.inf, work[1], 0, 2
    U = np.ascontiguousarray(axes)
    region = (room[6], v, m, beta, bound)
    multiply_left(U, hat, region[0])
    flag = 0
    steps = 0
    if meet(region, small[:4]):
        steps = _explore(
            theta, hat, V, start, region, U, model, work, room, small, tolerance, limit
        )
    else:
        flag = 1
        for i in range(p):
            for j in range(n):
                theta[i, j] *= bound / np.sqrt(size)
    J, first = backward(theta, model, work)
    for h in range(first):
        for i in range(p - n):
            for j in range(n):
                work[1][h, i, j] = work[1][first, i, j]
    return theta, J, work[1], steps, flag
