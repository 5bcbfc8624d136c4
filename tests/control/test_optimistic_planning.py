"""The optimistic search over linear systems: exact gradients, exact projections, and a lower bound
that nothing in the set goes below.
"""

import numpy as np
import pytest
from scipy.optimize import minimize

from confide.control.optimistic_planning import cost, cost_gradient, lagrangian_bound, optimistic
from confide.errors import InvalidParameter
from confide.planners import _optimistic_kernels as kernels
from confide.planners.riccati import riccati
from confide.problems.lq import LQSystem

SIZES = [(1, 1, 4), (2, 1, 5), (3, 2, 8), (2, 3, 12), (6, 2, 30)]


def system(seed, n, d, *, size=None):
    """theta [n + d, n] and general Q, R, from stable to unstable."""
    rng = np.random.default_rng(seed)
    theta, G, F = rng.normal(size=(n + d, n)), rng.normal(size=(n, n)), rng.normal(size=(d, d))
    theta *= (rng.uniform(0.2, 2.0) if size is None else size) / np.linalg.norm(theta)
    return theta, G @ G.T / n + 0.1 * np.eye(n), F @ F.T / d + 0.1 * np.eye(d)


def region(seed, p, *, decades=0.5):
    rng = np.random.default_rng(1000 + seed)
    U = np.linalg.qr(rng.normal(size=(p, p)))[0]
    V = U @ np.diag(10 ** rng.uniform(-decades, decades, p)) @ U.T
    return (V + V.T) / 2


def samples(theta, V, beta, count, rng, *, inner=0.0):
    """Points of the ellipsoid, most of them near its boundary."""
    moves = rng.normal(size=(count, *theta.shape))
    moves *= (
        beta
        * rng.uniform(inner, 1.0, (count, 1, 1))
        / np.linalg.norm(moves, axis=(1, 2), keepdims=True)
    )
    return theta + np.linalg.solve(np.linalg.cholesky(V).T, moves)


def distance(theta, centre, V):
    return np.sqrt(np.trace((theta - centre).T @ V @ (theta - centre)))


@pytest.mark.parametrize(("n", "d", "H"), SIZES)
def test_cost_is_the_value_of_the_system(n, d, H):
    for seed in range(10):
        theta, Q, R = system(seed, n, d)
        problem = LQSystem(theta[:n].T, theta[n:].T, Q, R, H, 0.3)
        assert cost(theta, Q, R, H, 0.3) == pytest.approx(-problem.optimal_value, rel=1e-10)


@pytest.mark.parametrize(("n", "d", "H"), [*SIZES, (3, 1, 1), (2, 2, 60)])
def test_gradient_is_that_of_differences(n, d, H):
    step = 1e-5
    for seed in range(8):
        theta, Q, R = system(seed, n, d)
        J, gradient = cost_gradient(theta, Q, R, H, 0.3)
        assert pytest.approx(cost(theta, Q, R, H, 0.3)) == J
        for i in np.ndindex(*theta.shape):
            up, down = theta.copy(), theta.copy()
            up[i] += step
            down[i] -= step
            slope = (cost(up, Q, R, H, 0.3) - cost(down, Q, R, H, 0.3)) / (2 * step)
            assert abs(gradient[i] - slope) <= 1e-7 * max(1.0, np.abs(gradient).max())


def test_horizons_that_outlast_the_transient_are_not_cut_short():
    """Where P and S stand still steps are counted, not computed: a slow system and a fast one,
    beside the recursion in full.
    """
    for size in (0.3, 0.999, 1.05):
        theta = np.array([[size, 0.0], [0.0, size], [0.0, 1e-3]])
        for H in (2, 50, 2000):
            P, _ = riccati(theta[:2].T, theta[2:].T, np.eye(2), np.eye(1), H)
            traces = np.trace(P, axis1=1, axis2=2)
            expected = traces[0] / 2 + 0.04 / 4 * traces[1:].sum()
            assert cost(theta, np.eye(2), np.eye(1), H, 0.2) == pytest.approx(expected, rel=1e-10)


def random_area(rng):
    """An ellipsoid and a ball that meet."""
    while True:
        p, n = int(rng.integers(2, 5)), int(rng.integers(1, 3))
        v, centre = 10 ** rng.uniform(-1, 1, p), rng.normal(size=(p, n)) * 0.6
        beta, bound = rng.uniform(0.5, 2.0), rng.uniform(0.7, 1.5)
        area = (centre, v, v + (beta / bound) ** 2, beta, bound)
        if kernels.meet(area, np.zeros((4, p))):
            return area


@pytest.mark.parametrize("seed", range(30))
def test_projection_against_slsqp(seed):
    rng = np.random.default_rng(seed)
    area = centre, v, m, beta, bound = random_area(rng)
    p, n = centre.shape
    goal = rng.normal(size=(p, n)) * 3
    found = goal.copy()
    kernels.project(found, area, np.zeros((4, p)), np.zeros(2))
    cold = found.copy()
    kernels.project(cold, area, np.zeros((4, p)), np.zeros(2))
    np.testing.assert_allclose(cold, found, atol=1e-9)  # it stays where it is
    assert np.sum(v[:, None] * (found - centre) ** 2) <= beta**2 * (1 + 1e-10) and np.sum(
        found**2
    ) <= bound**2 * (1 + 1e-10)

    def far(y):
        return np.sum(m[:, None] * (y.reshape(p, n) - goal) ** 2)

    limits = [
        {
            "type": "ineq",
            "fun": lambda y: beta**2 - np.sum(v[:, None] * (y.reshape(p, n) - centre) ** 2),
        },
        {"type": "ineq", "fun": lambda y: bound**2 - np.sum(y**2)},
    ]
    other = minimize(
        far,
        centre.ravel() * 0.5,
        constraints=limits,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 500},
    )
    # feasible, and no worse than a general solver
    assert far(found) <= other.fun * (1 + 1e-6) + 1e-9
    np.testing.assert_allclose(found.ravel(), other.x, atol=2e-3)
    warm = rng.uniform(0, 10, 2)
    again = goal.copy()
    kernels.project(again, area, np.zeros((4, p)), warm)
    np.testing.assert_allclose(again, found, atol=1e-9)  # wherever the multipliers start


@pytest.mark.parametrize(("n", "d", "H"), SIZES)
@pytest.mark.parametrize("beta", [0.0, 0.02, 0.3, 2.0])
def test_nothing_in_the_set_is_below_the_bound(n, d, H, beta):
    for seed in range(6):
        theta, Q, R = system(seed, n, d)
        V = region(seed, n + d, decades=1.0)
        rng = np.random.default_rng(seed)
        bound = lagrangian_bound(theta, V, beta, Q, R, H, 0.3)
        found = optimistic(theta, V, beta, Q, R, H, 0.3, bound=10.0)
        assert not found.empty and bound.value <= found.cost <= cost(theta, Q, R, H, 0.3) * (
            1 + 1e-12
        )
        assert distance(found.theta, theta, V) <= beta * (1 + 1e-9) + 1e-12
        for point in samples(theta, V, beta, 50, rng, inner=0.5):
            assert bound.value <= cost(point, Q, R, H, 0.3)


def test_no_sampled_system_of_the_set_is_cheaper_than_the_one_of_the_search():
    """Random points, and short descents along the gradient's sign, of a set with both constraints
    active.
    """
    theta, Q, R = system(3, 2, 1, size=1.05)
    V, rng = region(3, 3), np.random.default_rng(0)
    found = optimistic(theta, V, 0.3, Q, R, 5, 0.1)
    bound = lagrangian_bound(theta, V, 0.3, Q, R, 5, 0.1).value
    assert not found.empty and np.linalg.norm(found.theta) <= 1 + 1e-9
    points = samples(theta, V, 0.3, 4000, rng)
    points = points[np.linalg.norm(points, axis=(1, 2)) <= 1]
    costs = np.array([cost(point, Q, R, 5, 0.1) for point in points])
    assert len(points) > 500 and costs.min() >= found.cost * (1 - 1e-4) and bound <= found.cost


@pytest.mark.parametrize("beta", [0.05, 0.2, 0.5])
def test_for_one_state_the_bound_certifies_the_search(beta):
    """n = 1: the relaxation is tight, so search and bound prove each other, to far below a
    thousandth.
    """
    gaps = []
    for seed in range(40):
        theta, Q, R = system(seed, 1, 1, size=0.9)
        V = region(seed, 2)
        bound = lagrangian_bound(theta, V, beta, Q, R, 6, 0.1).value
        gaps.append((optimistic(theta, V, beta, Q, R, 6, 0.1).cost - bound) / bound)
    assert min(gaps) >= 0 and np.median(gaps) <= 1e-5


@pytest.mark.parametrize(("n", "d", "H"), [(2, 1, 5), (3, 2, 8)])
@pytest.mark.parametrize("beta", [0.05, 0.2, 0.5])
def test_the_search_comes_within_a_thousandth_of_the_best_known_system(n, d, H, beta):
    """Of what optimism can gain on the estimate, a thousandth at most is left; the best known is
    that of a fine search from many starts.
    """
    gaps = []
    for seed in range(25):
        theta, Q, R = system(seed, n, d, size=0.9)
        V, rng = region(seed, n + d), np.random.default_rng(seed)
        found = optimistic(theta, V, beta, Q, R, H, 0.1).cost
        fine = [
            optimistic(
                theta, V, beta, Q, R, H, 0.1, start=start, tolerance=1e-9, iterations=1000
            ).cost
            for start in samples(theta, V, beta, 8, rng)
        ]
        best = min(found, *fine)
        gaps.append((found - best) / max(cost(theta, Q, R, H, 0.1) - best, 1e-9))
    assert np.median(gaps) <= 1e-3 and np.quantile(gaps, 0.9) <= 5e-3


@pytest.mark.parametrize("seed", range(4))
def test_a_general_solver_finds_nothing_better(seed):
    theta, Q, R = system(seed, 2, 1, size=0.95)
    V, rng, beta = region(seed, 3), np.random.default_rng(seed), 0.3
    found = optimistic(theta, V, beta, Q, R, 5, 0.1, tolerance=1e-7)

    def value(flat):
        J, gradient = cost_gradient(flat.reshape(3, 2), Q, R, 5, 0.1)
        return J, gradient.ravel()

    limits = [
        {"type": "ineq", "fun": lambda y: beta**2 - distance(y.reshape(3, 2), theta, V) ** 2},
        {"type": "ineq", "fun": lambda y: 1 - np.sum(y**2)},
    ]
    for start in samples(theta, V, beta, 5, rng):
        other = minimize(
            value,
            start.ravel(),
            jac=True,
            constraints=limits,
            method="SLSQP",
            options={"ftol": 1e-12, "maxiter": 300},
        )
        if min(limit["fun"](other.x) for limit in limits) > -1e-8:
            assert found.cost <= other.fun * (1 + 1e-6)


def test_gains_and_cost_belong_to_the_model():
    theta, Q, R = system(1, 3, 2, size=0.9)
    found = optimistic(theta, region(1, 5), 0.3, Q, R, 40, 0.1)
    _, policy = riccati(found.theta[:3].T, found.theta[3:].T, Q, R, 40)
    np.testing.assert_allclose(found.gains, policy.gains, atol=1e-10)
    assert found.iterations > 0 and found.cost == pytest.approx(
        cost(found.theta, Q, R, 40, 0.1), rel=1e-12
    )
    assert found.gains.shape == (40, 2, 3)


def test_same_question_same_answer_and_warm_starts():
    theta, Q, R = system(2, 3, 2, size=0.9)
    V = region(2, 5)
    first, second = (optimistic(theta, V, 0.2, Q, R, 8, 0.1) for _ in range(2))
    np.testing.assert_array_equal(first.theta, second.theta)
    warm = optimistic(theta, V, 0.2, Q, R, 8, 0.1, start=first.theta)
    assert warm.iterations <= first.iterations and warm.cost <= first.cost * (1 + 1e-9)
    # a start outside is projected first
    far = optimistic(theta, V, 0.2, Q, R, 8, 0.1, start=100 * first.theta)
    assert far.cost == pytest.approx(first.cost, rel=1e-3)


def test_an_input_that_seems_useless_is_tried():
    """B = 0 is a stationary point in B; optimism must leave it."""
    theta = np.array([[0.9], [0.0]])
    found = optimistic(theta, np.diag([1e4, 1.0]), 0.3, np.eye(1), 0.01 * np.eye(1), 8, 0.1)
    assert abs(found.theta[1, 0]) > 0.25 and found.cost < 0.8 * cost(
        theta, np.eye(1), 0.01 * np.eye(1), 8, 0.1
    )


def test_an_estimate_outside_of_the_bound_gives_an_empty_set():
    theta, Q, R = system(4, 2, 1, size=5.0)
    found = optimistic(theta, np.eye(3), 0.1, Q, R, 5, 0.1)
    assert found.empty and found.iterations == 0
    np.testing.assert_allclose(found.theta, theta / 5.0, rtol=1e-12)
    touching = optimistic(theta, np.eye(3), 4.0, Q, R, 5, 0.1)
    np.testing.assert_allclose(touching.theta, theta / 5.0, atol=1e-6)
    just = optimistic(theta, np.eye(3), 4.05, Q, R, 5, 0.1)
    assert (
        not just.empty
        and np.linalg.norm(just.theta) <= 1 + 1e-9
        and distance(just.theta, theta, np.eye(3)) <= 4.05 * (1 + 1e-9)
    )


@pytest.mark.parametrize("beta", [1.0, 1e6])
def test_a_wide_set_contains_the_cheapest_system_of_all(beta):
    theta, Q, R = system(5, 2, 1, size=0.5)
    found = optimistic(theta, np.eye(3), beta, Q, R, 7, 0.2)
    floor = np.trace(Q) / 2 + 6 * 0.04 / 4 * np.trace(Q)
    assert (
        found.cost == pytest.approx(floor, rel=1e-12)
        and not found.theta[:2].any()
        and not found.gains.any()
    )
    assert lagrangian_bound(theta, np.eye(3), beta, Q, R, 7, 0.2).value <= floor


@pytest.mark.parametrize("size", [0.9, 3.0])
def test_the_search_stays_in_sets_of_extreme_shapes(size):
    """Directions that nothing is known about, unstable systems, and norms that only one of the two
    sets bounds.
    """
    for seed in range(10):
        theta, Q, R = system(seed, 3, 2, size=size)
        V = region(seed, 5, decades=6.0)
        for bound in (4.0, np.inf):
            found = optimistic(theta, V, 0.5, Q, R, 20, 0.3, bound=bound)
            assert np.isfinite(found.theta).all() and not found.empty
            assert np.linalg.norm(found.theta) <= bound * (1 + 1e-9) and distance(
                found.theta, theta, V
            ) <= 0.5 * (1 + 1e-6)
            assert (
                lagrangian_bound(theta, V, 0.5, Q, R, 20, 0.3).value
                <= found.cost
                <= cost(theta, Q, R, 20, 0.3)
            )


def test_one_step_leaves_nothing_to_learn():
    theta, Q, R = system(6, 2, 1, size=0.8)
    found = optimistic(theta, np.eye(3), 0.3, Q, R, 1, 0.2)
    np.testing.assert_allclose(found.theta, theta, rtol=1e-12)
    assert (
        found.cost == pytest.approx(np.trace(Q) / 2)
        and not found.gains.any()
        and found.gains.shape == (1, 1, 2)
    )
    assert lagrangian_bound(theta, np.eye(3), 0.3, Q, R, 1, 0.2).value == pytest.approx(
        np.trace(Q) / 2
    )


def test_no_width_is_certainty_equivalence():
    theta, Q, R = system(7, 2, 1, size=0.8)
    J = cost(theta, Q, R, 6, 0.2)
    assert optimistic(theta, np.eye(3), 0.0, Q, R, 6, 0.2).cost == pytest.approx(J, rel=1e-12)
    assert lagrangian_bound(theta, np.eye(3), 0.0, Q, R, 6, 0.2).value == pytest.approx(J, rel=1e-9)


def test_arguments_that_do_not_fit_are_refused():
    theta, Q, R = system(8, 2, 1, size=0.8)
    for wrong in (np.zeros((3, 3)), np.diag([1.0, 1.0, -1.0]), np.full((3, 3), np.nan)):
        for ask in (optimistic, lagrangian_bound):
            with pytest.raises(InvalidParameter, match="positive definite"):
                ask(theta, wrong, 0.1, Q, R, 5, 0.1)
    with pytest.raises(InvalidParameter, match="finite"):
        optimistic(np.full((3, 2), np.nan), np.eye(3), 0.1, Q, R, 5, 0.1)
    with pytest.raises(InvalidParameter, match="shape"):
        optimistic(theta.T, np.eye(3), 0.1, Q, R, 5, 0.1)
    with pytest.raises(InvalidParameter, match="shape"):
        optimistic(theta, np.eye(2), 0.1, Q, R, 5, 0.1)
    with pytest.raises(InvalidParameter, match="start"):
        optimistic(theta, np.eye(3), 0.1, Q, R, 5, 0.1, start=np.zeros((2, 2)))
    for bad in ({"beta": -1.0}, {"beta": np.inf}, {"beta": 0.1, "bound": 0.0}):
        with pytest.raises(InvalidParameter, match="beta"):
            optimistic(theta, np.eye(3), Q=Q, R=R, horizon=5, noise_radius=0.1, **bad)
    with pytest.raises(InvalidParameter, match="horizon"):
        cost(theta, Q, R, 0, 0.1)
