import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.policy import LinearPolicy, TabularPolicy
from confide.problems import LQSystem, glucose, oscillator, thermal

# One false alarm in 2.6e7.
Z = 5.5


def good():
    return {
        "A": 0.5 * np.eye(3),
        "B": np.ones((3, 2)) / 4,
        "Q": np.eye(3),
        "R": 0.1 * np.eye(2),
        "horizon": 4,
        "noise_radius": 0.1,
    }


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"A": np.ones((3, 2))}, r"A must be square, got shape \(3, 2\)"),
        ({"parameter_bound": 0.1}, r"above the public parameter_bound=0.1"),
        ({"B": np.ones((2, 2))}, r"B must have shape \(3, 2\) to fit A, got \(2, 2\)"),
        # a vector is one input
        ({"B": np.ones(3)}, r"R must have shape \(1, 1\) to fit A, got \(2, 2\)"),
        ({"Q": np.eye(2)}, r"Q must have shape \(3, 3\) to fit A, got \(2, 2\)"),
        ({"R": np.eye(3)}, r"R must have shape \(2, 2\) to fit A, got \(3, 3\)"),
        ({"A": np.diag([0.5, np.nan, 0.5])}, r"A\[1, 1\] must be finite"),
        ({"R": np.array([[1.0, 0.0], [np.inf, 1.0]])}, r"R\[1, 0\] must be finite"),
        (
            {"Q": np.diag([1.0, -0.5, 1.0])},
            "Q must be positive semidefinite, got the eigenvalue -0.5 from row 1 on",
        ),
        (
            {"Q": np.array([[1.0, 2.0, 0.0], [2.0, 1.0, 0.0], [0.0, 0.0, 1.0]])},
            "Q must be positive semidefinite, got the eigenvalue -1 from row 1",
        ),
        (
            {"Q": np.array([[1.0, 0.0, 0.2], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])},
            r"Q must be symmetric, got Q\[0, 2\]=0.2 and Q\[2, 0\]=0.0",
        ),
        (
            {"R": np.diag([1.0, 0.0])},
            "R must be positive definite, got the eigenvalue 0 from row 1 on",
        ),
        ({"horizon": 0}, "horizon must be at least 1"),
        ({"noise_radius": -0.1}, "noise_radius must be non-negative and finite"),
        ({"noise_radius": np.nan}, "noise_radius must be non-negative"),
        ({"gain_bound": np.inf}, "gain_bound must be non-negative"),
    ],
)
def test_bad_systems_are_refused(changed, message):
    with pytest.raises(InvalidParameter, match=message):
        LQSystem(**good() | changed)


def test_an_unstable_system_is_reported_not_refused():
    system = LQSystem(**good() | {"A": np.diag([1.5, 0.2, 0.2])})
    assert system.spectral_radius == pytest.approx(1.5)
    assert np.isfinite(system.optimal_value) and system.optimal_value > system.uniform_value
    assert LQSystem(**good()).spectral_radius == pytest.approx(0.5)
    # semidefinite is enough
    assert LQSystem(**good() | {"Q": np.diag([1.0, 0.0, 0.0])}).optimal_value < 0


def random_system(seed):
    rng = np.random.default_rng(seed)
    n = rng.integers(1, 5)
    d = rng.integers(1, 4)
    C = rng.normal(size=(n, n))
    D = rng.normal(size=(d, d))
    return LQSystem(
        rng.normal(size=(n, n)) / 2,
        rng.normal(size=(n, d)),
        C @ C.T,
        D @ D.T + 0.1 * np.eye(d),
        6,
        0.2,
    )


@pytest.mark.parametrize(
    ("size", "bound"), [(0.0, 1.0), (0.3, 1.0), (1.0, 1.0), (1.01, 2.0), (2.0, 2.0), (5.0, 8.0)]
)
def test_the_bound_on_the_dynamics_is_the_next_power_of_two(size, bound):
    assert LQSystem([[size]], [[0.0]], [[1.0]], [[1.0]], 2, 0.1).public.parameter_bound == bound
    given = LQSystem([[size]], [[0.0]], [[1.0]], [[1.0]], 2, 0.1, parameter_bound=7.5)
    assert given.parameter_bound == given.public.parameter_bound == 7.5


SYSTEMS = [oscillator(), thermal(), glucose(), *map(random_system, range(5))]


@pytest.mark.parametrize("system", SYSTEMS)
def test_riccati_residual(system):
    """P_h = Q + A'PA - A'PB (R + B'PB)^-1 B'PA with P = P_{h+1}, P_H = Q: the closed form, not the
    one that is computed.
    """
    A, B, Q, R = system.A, system.B, system.Q, system.R
    P, policy = system._optimum
    assert np.abs(P[-1] - Q).max() < 1e-10 and not policy.gains[-1].any()
    for h in range(system.horizon - 1):
        later = P[h + 1]
        gain = -np.linalg.inv(R + B.T @ later @ B) @ B.T @ later @ A
        scale = max(1.0, np.abs(P[h]).max())
        assert np.abs(Q + A.T @ later @ A + A.T @ later @ B @ gain - P[h]).max() / scale < 1e-10
        assert np.abs(gain - policy.gains[h]).max() < 1e-10


@pytest.mark.parametrize("system", SYSTEMS)
def test_costs_by_carrying_the_covariance_forward(system):
    n = len(system.A)
    d = len(system.R)
    H = system.horizon
    policy = LinearPolicy(0.3 * np.random.default_rng(1).normal(size=(H, d, n)))
    covariance = np.eye(n) / n
    cost = 0.0
    for K in policy.gains:
        cost += np.trace((system.Q + K.T @ system.R @ K) @ covariance)
        closed = system.A + system.B @ K
        covariance = closed @ covariance @ closed.T + system.noise_radius**2 / (n + 2) * np.eye(n)
    assert system.cost(policy) == pytest.approx(cost, rel=1e-10)
    assert system.value(policy) == -system.cost(policy) < system.optimal_value


@pytest.mark.parametrize("system", SYSTEMS[:4])
def test_no_gain_nearby_is_better(system):
    best = system.optimal_policy.gains
    rng = np.random.default_rng(2)
    assert system.value(system.optimal_policy) == pytest.approx(system.optimal_value, abs=1e-10)
    for size in (1e-3, 1e-1, 1.0):
        assert (
            system.value(LinearPolicy(best + size * rng.normal(size=best.shape)))
            < system.optimal_value
        )


@pytest.mark.parametrize("which", ["optimal", "nothing"])
def test_sampled_costs_agree_with_exact_ones(which):
    """2e5 users, |z| < 5.5; a value wrong by 20 % is noticed."""
    system = thermal()
    policy = system.optimal_policy if which == "optimal" else LinearPolicy(np.zeros((10, 2, 3)))
    users = system.sample(policy, 200_000, np.random.default_rng(3))
    returns = users.rewards.sum(axis=1)
    spread = returns.std() / np.sqrt(len(returns))
    assert abs(returns.mean() - system.value(policy)) < Z * spread < abs(0.2 * system.value(policy))


def test_starts_on_the_sphere_and_noise_in_the_ball():
    system = thermal()
    users = system.sample(system.optimal_policy, 20_000, np.random.default_rng(4))
    x = users.states[:, :-1]
    u = users.actions
    assert np.abs(np.linalg.norm(x[:, 0], axis=1) - 1).max() < 1e-12
    assert np.abs(np.einsum("hdn,uhn->uhd", system.optimal_policy.gains, x) - u).max() < 1e-12
    noise = (users.states[:, 1:] - x @ system.A.T - u @ system.B.T).reshape(-1, 3)
    radii = np.linalg.norm(noise, axis=1) / system.noise_radius
    assert radii.max() <= 1 + 1e-9
    # radius^n is uniform in the ball
    assert abs(np.mean(radii**3) - 0.5) < Z * np.sqrt(1 / 12 / len(radii))
    # 8 standard deviations.
    assert np.abs(np.cov(noise.T) - 0.1**2 / 5 * np.eye(3)).max() < 3e-5
    costs = np.einsum("uhi,ij,uhj->uh", x, system.Q, x) + np.einsum(
        "uhi,ij,uhj->uh", u, system.R, u
    )
    assert np.abs(costs + users.rewards).max() < 1e-12


def test_policies_of_another_system_are_refused():
    for policy in (
        LinearPolicy(np.zeros((4, 2, 3))),
        TabularPolicy(np.zeros((10, 3), dtype=int), 2),
    ):
        with pytest.raises(InvalidParameter, match=r"gains of shape \(10, 2, 3\)"):
            thermal().value(policy)


def test_what_agents_may_know():
    public = glucose().public
    assert (public.states, public.inputs, public.horizon, public.noise_radius) == (3, 1, 8, 0.05)
    assert not hasattr(public, "A") and not hasattr(public, "B")
