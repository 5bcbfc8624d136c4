"""OFU-LQ with the paper's calibration plans for the state in which each user starts, and publishes
the rule and nobody's gains.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize

import confide
from confide.agents import OFULQ, Oracle, Uniform
from confide.audit.replay import replay
from confide.control.ofu_lq import OptimisticControl
from confide.control.optimistic_planning import (
    cost,
    cost_gradient,
    lagrangian_bound,
    optimistic,
    plan_optimistically,
)
from confide.errors import InvalidParameter
from confide.learning.algorithm import Round
from confide.mechanisms.sources import noise_source
from confide.planners.optimistic_policy import OptimisticPolicy
from confide.planners.riccati import riccati
from confide.policy import LinearPolicy, load_policy
from confide.privacy.request import JointDP, NoPrivacy
from confide.privatizers import every
from confide.problems import LQSystem, load_problem, oscillator, thermal
from confide.problems.environments import LinearEnv
from confide.trajectory import Trajectories

PRIVATE = JointDP(1.0, 1e-5)
CORNERS = np.array([[1.0, 0.0], [0.0, 1.0], [-0.6, 0.8]])


def random_set(seed, n, d):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n + d, n))
    theta *= 0.9 / np.linalg.norm(theta)
    U = np.linalg.qr(rng.normal(size=(n + d, n + d)))[0]
    V = U @ np.diag(10 ** rng.uniform(-0.5, 0.5, n + d)) @ U.T
    x = rng.normal(size=n)
    return theta, (V + V.T) / 2, x / np.linalg.norm(x)


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 1), (3, 2)])
def test_the_cost_from_a_start_is_that_of_the_recursion_and_has_the_right_gradient(n, d):
    for seed in range(5):
        theta, _, x = random_set(seed, n, d)
        Q, R, H = np.eye(n), 0.1 * np.eye(d), 6
        P, _ = riccati(theta[:n].T, theta[n:].T, Q, R, H)
        later = 0.09 / (n + 2) * np.trace(P[1:], axis1=1, axis2=2).sum()
        assert cost(theta, Q, R, H, 0.3, x) == pytest.approx(x @ P[0] @ x + later, rel=1e-10)
        _, gradient = cost_gradient(theta, Q, R, H, 0.3, x)
        for i in np.ndindex(*theta.shape):
            step = np.zeros_like(theta)
            step[i] = 1e-5
            slope = (
                cost(theta + step, Q, R, H, 0.3, x) - cost(theta - step, Q, R, H, 0.3, x)
            ) / 2e-5
            assert abs(gradient[i] - slope) <= 1e-7 * max(1.0, np.abs(gradient).max())


@pytest.mark.parametrize(("n", "d"), [(1, 1), (2, 1), (3, 2)])
def test_no_system_of_the_set_is_cheaper_from_this_start_than_the_bound_says(n, d):
    for seed in range(5):
        theta, V, x = random_set(seed, n, d)
        Q, R = np.eye(n), 0.1 * np.eye(d)
        found = optimistic(theta, V, 0.3, Q, R, 6, 0.1, bound=10.0, first=x)
        below = lagrangian_bound(theta, V, 0.3, Q, R, 6, 0.1, x)
        assert below.value <= found.cost <= cost(theta, Q, R, 6, 0.1, x)
        # The system that is cheapest for a random start is at most as cheap from here.
        at_random = optimistic(theta, V, 0.3, Q, R, 6, 0.1, bound=10.0)
        assert found.cost <= cost(at_random.theta, Q, R, 6, 0.1, x) * (1 + 1e-3)


def test_gains_are_those_of_the_cheapest_system_from_the_start():
    system = oscillator()
    theta, V, x = random_set(3, 2, 1)
    rule = OptimisticPolicy(theta, V, 0.3, system.Q, system.R, 5, 0.1, 1.0, 1.2)
    found = optimistic(theta, V, 0.3, system.Q, system.R, 5, 0.1, first=x)
    np.testing.assert_array_equal(rule.for_start(x).gains, found.gains)
    np.testing.assert_array_equal(rule.gains_of_all(np.stack([x, -x, x]))[2], found.gains)
    assert not np.allclose(rule.for_start([1.0, 0.0]).gains, rule.for_start([0.0, 1.0]).gains)
    with pytest.raises(InvalidParameter, match="call for_start"):
        rule.act(0, x, np.random.default_rng(0))
    with pytest.raises(InvalidParameter, match=r"start must have shape \(2,\)"):
        rule.for_start([1.0, 0.0, 0.0])


def test_a_saved_rule_is_the_same_rule_and_holds_no_start(tmp_path):
    agent = OFULQ(oscillator().public, episodes=50, privacy=NoPrivacy(), calibration="paper")
    run = confide.run(agent, oscillator(), seed=0)
    run.save(tmp_path / "run")
    saved = load_policy(tmp_path / "run" / "policy.npz")
    assert isinstance(saved, OptimisticPolicy)
    for mine, loaded in zip(run.policy.tables(), saved.tables(), strict=True):
        np.testing.assert_array_equal(mine, loaded)
    for start in CORNERS:
        np.testing.assert_array_equal(
            saved.for_start(start).gains, run.policy.for_start(start).gains
        )
    assert isinstance(confide.Run.load(tmp_path / "run").policy, OptimisticPolicy)


# An independent transcription of the algorithm without privacy, in plain NumPy and with a general
# solver.
def printed_episode(system, Z, X, start, found):
    """Lines 3 to 5 of Algorithm 1 without noise, H_k = I: the width, the set, and the least cost
    from this start that SLSQP finds.
    """
    n, d = len(system.A), len(system.R)
    V = Z.T @ Z + np.eye(n + d)
    theta = np.linalg.solve(V, Z.T @ X)
    log_det = np.linalg.slogdet(V)[1]
    beta = system.noise_radius * np.sqrt(2 * np.log(2 / 0.1) + n * log_det) + 1.0

    def J(flat):
        A, B = flat.reshape(n + d, n)[:n].T, flat.reshape(n + d, n)[n:].T
        P, total = system.Q, 0.0
        gains = np.zeros((system.horizon, d, n))
        for h in reversed(range(system.horizon - 1)):
            total += system.noise_radius**2 / (n + 2) * np.trace(P)
            K = -np.linalg.solve(system.R + B.T @ P @ B, B.T @ P @ A)
            P = system.Q + K.T @ system.R @ K + (A + B @ K).T @ P @ (A + B @ K)
            gains[h] = K
        return total + start @ P @ start, gains

    limits = [
        {"type": "ineq", "fun": lambda y: 1 - y @ y},
        {
            "type": "ineq",
            "fun": lambda y: (
                beta**2
                - np.trace((y.reshape(n + d, n) - theta).T @ V @ (y.reshape(n + d, n) - theta))
            ),
        },
    ]
    inside = theta * min(1.0, 0.999 / max(np.linalg.norm(theta), 1e-12))
    best = min(
        (
            minimize(lambda y: J(y)[0], first, constraints=limits, method="SLSQP").x
            for first in (inside.ravel(), 0.9 * found.ravel() + 0.1 * inside.ravel())
        ),
        key=lambda y: J(y)[0],
    )
    return theta, V, beta, J(best)[0], J(best)[1], J


@pytest.mark.parametrize(
    "system", [LQSystem([[0.7]], [[0.4]], [[1.0]], [[0.1]], 6, 0.1), oscillator()]
)
def test_an_independent_implementation_plans_the_same_episodes(system):
    """Same data, same set in every episode, and the same policies.

    The search is local in both, so costs are compared, and gains where both found the same system.
    """
    agent = OFULQ(
        system.public,
        episodes=60,
        privacy=NoPrivacy(),
        calibration="paper",
        noise=noise_source("fast", 0),
    )
    rng, n = np.random.default_rng(0), len(system.A)
    Z, X = np.zeros((0, n + len(system.R))), np.zeros((0, n))
    same = 0
    for _ in range(59):
        rule = agent.next_batch().policy
        seen = system.sample(rule, 1, rng)
        start = seen.states[0, 0]
        mine = optimistic(
            rule.estimate,
            rule.precision,
            rule.width,
            system.Q,
            system.R,
            system.horizon,
            0.1,
            first=start,
        )
        theta, V, beta, least, gains, J = printed_episode(system, Z, X, start, mine.theta)
        np.testing.assert_allclose(rule.estimate, theta, atol=1e-5)
        np.testing.assert_allclose(rule.precision, V, atol=1e-4)
        assert rule.width == pytest.approx(beta, rel=1e-6)
        assert J(mine.theta.ravel())[0] == pytest.approx(least, rel=2e-3)
        played = rule.for_start(start).gains
        np.testing.assert_allclose(
            seen.actions[0], np.einsum("hdn,hn->hd", played, seen.states[0, :-1]), atol=1e-12
        )
        same += np.allclose(played, gains, atol=0.05)
        agent.observe(seen)
        Z = np.vstack([Z, np.hstack([seen.states[0, :-1], seen.actions[0]])])
        X = np.vstack([X, seen.states[0, 1:]])
    # Where a set holds many systems that cost the same, two searches end in different ones.
    assert same >= 40, same


@pytest.mark.parametrize(
    ("start", "users"),
    [([0.6, -0.8], 400), (CORNERS, 399), (None, 400)],
    ids=["fixed", "listed", "random"],
)
def test_systems_start_where_they_are_told(start, users):
    system = replace(oscillator(), start=start)
    rule = OptimisticPolicy(*random_set(0, 2, 1)[:2], 0.3, system.Q, system.R, 5, 0.1, 1.0, 1.2)
    for policy in (system.optimal_policy, rule):
        seen = system.sample(policy, users, np.random.default_rng(1), first=2)
        starts = seen.states[:, 0]
        if start is None:
            np.testing.assert_allclose(np.linalg.norm(starts, axis=1), 1.0)
        else:
            expected = np.resize(np.roll(np.atleast_2d(start), -2, axis=0), (users, 2))
            np.testing.assert_array_equal(starts, expected)
        costs = -seen.rewards.sum(axis=1)
        own = system.regrets(policy, starts)
        assert own.min() >= -1e-12
        if policy is rule:
            assert own.max() > 0
        for i in (0, 1, users - 1):
            gains = rule.for_start(starts[i]).gains if policy is rule else policy.gains
            np.testing.assert_allclose(
                seen.actions[i], np.einsum("hdn,hn->hd", gains, seen.states[i, :-1]), atol=1e-12
            )
        # The expected cost is optimal value + regret: over users, within 5 standard errors.
        best = system.regrets(LinearPolicy(np.zeros((5, 1, 2))), starts)
        assert best.min() > 0
        if start is not None:
            error = costs.std(ddof=1) / np.sqrt(users)
            assert abs(costs.mean() - (own.mean() - system.optimal_value)) < 5 * error + 1e-9
            assert system.cost(policy) == pytest.approx(own.mean() - system.optimal_value, rel=1e-9)


def test_the_value_of_a_random_start_is_the_average_over_starts():
    system, rng = thermal(), np.random.default_rng(0)
    starts = rng.normal(size=(200_000, 3))
    starts /= np.linalg.norm(starts, axis=1, keepdims=True)
    nothing = LinearPolicy(np.zeros((10, 2, 3)))
    expected = system.optimal_value - system.uniform_value
    assert system.regrets(nothing, starts).mean() == pytest.approx(expected, rel=0.01)
    listed = replace(system, start=starts[:300])
    assert -listed.cost(nothing) == pytest.approx(listed.uniform_value)
    assert listed.optimal_value - listed.uniform_value == pytest.approx(
        system.regrets(nothing, starts[:300]).mean()
    )


@pytest.mark.parametrize("start", [[0.6, -0.8], CORNERS, None], ids=["fixed", "listed", "random"])
@pytest.mark.parametrize("calibration", ["paper", "tight"])
def test_regret_counts_the_starts_that_occurred(start, calibration):
    """By hand from what the agent was shown.

    Only linear gains on random starts are counted by their expectation.
    """

    class Watched(OFULQ):
        def observe(self, users, **options):
            self.watched.append((self.next_batch().policy, users))
            super().observe(users, **options)

    system = replace(oscillator(), start=start)
    agent = Watched(system.public, episodes=120, privacy=PRIVATE, calibration=calibration)
    agent.watched = []
    run = confide.run(agent, system, seed=0)
    assert sum(users.users for _, users in agent.watched) == 120
    if start is None and calibration == "tight":
        expected = sum(
            users.users * (system.optimal_value - system.value(policy))
            for policy, users in agent.watched
        )
    else:
        expected = sum(
            system.regrets(policy, users.states[:, 0]).sum() for policy, users in agent.watched
        )
    assert run.regret[-1] == pytest.approx(float(expected), rel=1e-9)


def test_a_list_goes_on_where_it_was_and_fixed_policies_are_counted_from_it():
    system = replace(oscillator(), start=CORNERS)
    nothing = LinearPolicy(np.zeros((5, 1, 2)))
    run = confide.run(Uniform(system.public, episodes=100), system, seed=0)
    expected = system.regrets(nothing, system.starts_of(0, 100)).sum()
    assert run.regret[-1] == pytest.approx(float(expected))
    assert confide.run(Oracle(system, episodes=100), system, seed=0).regret[-1] == pytest.approx(
        0.0, abs=1e-9
    )
    np.testing.assert_array_equal(system.starts_of(4, 3), CORNERS[[1, 2, 0]])


def test_bad_starts_are_refused_and_good_ones_are_saved(tmp_path):
    with pytest.raises(
        InvalidParameter,
        match=r"start must hold states of length at most 1, got one of length 1\.5",
    ):
        replace(oscillator(), start=[1.5, 0.0])
    with pytest.raises(
        InvalidParameter, match=r"start must have shape \(2,\) or \(users, 2\), got \(3,\)"
    ):
        replace(oscillator(), start=[0.0, 0.0, 0.0])
    with pytest.raises(InvalidParameter, match="start"):
        replace(oscillator(), start=[np.nan, 0.0])
    with pytest.raises(InvalidParameter, match="depends on where users start"):
        oscillator().cost(
            OptimisticPolicy(*random_set(0, 2, 1)[:2], 0.3, np.eye(2), np.eye(1), 5, 0.1, 1.0, 1.2)
        )
    for start in ([0.6, 0.8], CORNERS):
        system = replace(oscillator(), start=start)
        system.save(tmp_path / "system.npz")
        back = load_problem(tmp_path / "system.npz")
        assert back.identity().digest() == system.identity().digest()
        assert system.identity().digest() != oscillator().identity().digest()
        env = LinearEnv(system)
        firsts = [env.reset()[0] for _ in range(4)]
        np.testing.assert_array_equal(firsts, np.resize(np.atleast_2d(start), (4, 2)))


def make(kind=OFULQ):
    def made(noise):
        return kind(
            oscillator().public,
            episodes=24,
            privacy=PRIVATE,
            calibration="paper",
            schedule=every(6, 24),
            noise=noise,
        )

    return made


class Telling(OFULQ):
    """Deliberately broken: it publishes the gains of the last user whom it served."""

    last = None

    def observe(self, users, **options):
        rule = self.next_batch().policy
        self.last = rule.for_start(users.states[-1, 0]).gains.tolist()
        super().observe(users, **options)


def test_neighbours_see_the_same_and_an_agent_that_tells_gains_is_refuted():
    """Two runs with the same releases. In one of them a user is somebody else, who starts
    elsewhere."""
    assert not replay(make(), oscillator(), neighbours=24).differences
    assert replay(make(Telling), oscillator(), neighbours=24).differences


def public_bytes(agent, folder):
    """Everything that an agent publishes."""
    policy = agent.current_round().policies[0]
    policy.save(folder / "policy.npz")
    load_policy(folder / "policy.npz")
    arrays = [np.asarray(table, dtype=float) for table in policy.tables()]
    released = agent.released()
    return b"".join(
        [
            agent.publish(),
            agent.current_round().digest,
            repr((policy, released, agent.guarantee, agent.describe(), agent.signal)).encode(),
            *(array.tobytes() for array in arrays),
            *(np.asarray(value).tobytes() for value in released.memory.values()),
            released.values.tobytes(),
        ]
    )


def test_no_gains_of_a_user_are_in_any_public_byte(tmp_path):
    """Each number of the gains of each user, as eight bytes and as text, is searched for in all
    that the agent publishes.
    """
    system = replace(oscillator(), start=CORNERS)
    agent = OFULQ(
        system.public,
        episodes=40,
        privacy=NoPrivacy(),
        calibration="paper",
        noise=noise_source("fast", 0),
    )
    rng, numbers, published = np.random.default_rng(0), set(), b""
    while agent.users < 38:
        batch = agent.next_batch()
        seen = system.sample(batch.policy, batch.users, rng, first=agent.users)
        for start in seen.states[:, 0]:
            gains = batch.policy.for_start(start).gains
            numbers |= {float(number) for number in gains.ravel() if number}
        published += public_bytes(agent, tmp_path)
        agent.observe(seen)
    assert len(numbers) > 100
    for number in numbers:
        assert np.float64(number).tobytes() not in published
        assert repr(number).encode() not in published
    # The search finds what is there: a number of the rule.
    found = agent.current_round().policies[0].estimate[0, 0]
    assert np.float64(found).tobytes() in public_bytes(agent, tmp_path)


def test_the_service_refuses_it_and_the_description_warns():
    from confide.service.core.spec import ServiceRunSpec

    spec = ServiceRunSpec(
        name="run",
        agent="ofu-lq",
        problem="oscillator",
        epsilon=1.0,
        delta=1e-5,
        users=30,
        noise="fast",
        options=(("calibration", "paper"),),
    )
    with pytest.raises(
        InvalidParameter,
        match="cannot be served: it plans for the state in which each person starts",
    ):
        spec.make_learner(noise_source("fast", 0))
    agent = OFULQ(oscillator().public, episodes=30, privacy=PRIVATE, calibration="paper")
    assert "must not be published" in agent.describe().planning
    tight = OFULQ(oscillator().public, episodes=30, privacy=PRIVATE)
    assert "for a random start" in tight.describe().planning
    run = confide.run(agent, oscillator(), seed=0)
    assert any(
        "must not be published" in str(each) for each in run.certificate.document["assumptions"]
    )


class PlannedForRandomStarts(OptimisticControl):
    """The paper's set, and gains for a random start: what the tight form does, to compare."""

    def plan(self, released):
        planned = plan_optimistically(
            self.confidence(released), released, self._costs, bound=1.0, gain_bound=1.2, warns=False
        )
        return Round(planned.policies, self.statistic, planned.memory, planned.signal)


def test_planning_for_the_start_can_be_compared_with_planning_for_a_random_one():
    system = replace(oscillator(), start=[1.0, 0.0])
    agent = OFULQ(system.public, episodes=300, privacy=NoPrivacy(), calibration="paper")
    other = OFULQ(system.public, episodes=300, privacy=NoPrivacy(), calibration="paper")
    known = other.algorithm
    other.calibration = replace(
        other.calibration,
        algorithm=PlannedForRandomStarts(
            known.public, known.statistic, known.releases, known.failure, printed=known.printed
        ),
    )
    regrets = [confide.run(each, system, seed=0).regret[-1] for each in (agent, other)]
    nothing = 300 * (system.optimal_value - system.uniform_value)
    assert all(0 < regret < nothing for regret in regrets) and regrets[0] != regrets[1]


def test_trajectories_of_a_user_are_clipped_as_before():
    """The statistic does not know the rule: a user contributes the same sums."""
    agent = OFULQ(
        oscillator().public,
        episodes=30,
        privacy=PRIVATE,
        calibration="paper",
        noise=noise_source("fast", 0),
    )
    agent.next_batch()
    states = np.zeros((1, 6, 2))
    states[0, 0] = [1.0, 0.0]
    seen = Trajectories(states, np.zeros((1, 5, 1)), np.zeros((1, 5)))
    S, _ = agent.algorithm.bound.unpack(agent.contribution(seen).values)
    np.testing.assert_allclose(S, np.diag([1.0, 0.0, 0.0]), atol=1e-6)
