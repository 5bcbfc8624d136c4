"""The constants printed for linear quadratic control, against 50 digits; what they really give; and
what one user really moves.
"""

import math

import mpmath
import numpy as np
import pytest

import confide
from confide.agents import OFULQ
from confide.control.contributions import ControlSums
from confide.control.optimistic_planning import printed_set
from confide.control.printed import printed_control
from confide.errors import InvalidParameter
from confide.mechanisms.counters import Tree
from confide.mechanisms.sources import noise_source
from confide.privacy.loss import GaussianDP
from confide.privacy.request import JointDP, LocalDP, NoPrivacy, Relation
from confide.privatizers.schedule import one_tree
from confide.problems import glucose, oscillator, thermal
from confide.trajectory import Trajectories

mp = mpmath.mpf


def printed_by_hand(n, d, H, gamma, K, epsilon, delta, alpha):
    """Section IV-A for m, Delta and sigma; the proof of Theorem 3 for Lambda, lambda_max and nu."""
    with mpmath.workdps(50):
        g, m = mp(gamma), mpmath.ceil(mpmath.log(K, 2))
        sigma = {
            i: mpmath.sqrt(8 * m * D**2 * mpmath.log(2 / mp(delta)) / mp(epsilon) ** 2)
            for i, D in ((1, H * (1 + g) ** 2), (2, H * (1 + g)))
        }
        Lambda = (
            sigma[1]
            * mpmath.sqrt(m)
            * (4 * mpmath.sqrt(n + d) + mpmath.sqrt(8 * mpmath.log(4 * K / mp(alpha))))
        )
        chi = mpmath.sqrt(mp(2) * n * (n + d)) + mpmath.sqrt(4 * mpmath.log(2 * K / mp(alpha)))
        return {
            "levels": m,
            "sigma_1": sigma[1],
            "sigma_2": sigma[2],
            "lambda_min": Lambda,
            "lambda_max": 3 * Lambda,
            "nu": sigma[2] * mpmath.sqrt(m / Lambda) * chi,
        }


@pytest.mark.parametrize(
    ("system", "K", "epsilon", "delta", "alpha"),
    [
        (oscillator(), 100_000, 1.0, 1e-5, 0.1),
        (thermal(), 1_000, 0.1, 1e-6, 0.05),
        (glucose(), 2**20, 5.0, 1e-3, 0.01),
    ],
    ids=["oscillator", "thermal", "glucose"],
)
def test_constants_are_the_printed_ones(system, K, epsilon, delta, alpha):
    public = system.public
    made = printed_control(JointDP(epsilon, delta), public, episodes=K, failure=alpha)
    expected = printed_by_hand(
        public.states, public.inputs, public.horizon, public.gain_bound, K, epsilon, delta, alpha
    )
    for name, value in expected.items():
        assert getattr(made, name) == pytest.approx(float(value), rel=1e-12), name


@pytest.mark.parametrize(("epsilon", "true"), [(0.1, 0.0407), (1.0, 0.5057), (5.0, 2.997)])
def test_the_printed_noise_gives_the_epsilon_of_an_accountant(epsilon, true):
    """At delta = 1e-5, gamma = 1.2, all releases of both counters together, a user replaced.

    By the printed ||z|| <= 1 + gamma instead of 1 + gamma^2 it would be .0634, .784 and 4.75. By
    dp-accounting, too.
    """
    from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

    agent = OFULQ(
        oscillator().public,
        episodes=1000,
        privacy=JointDP(epsilon, 1e-5),
        calibration="paper",
        noise=noise_source("fast", 0),
    )
    assert agent.guarantee.epsilon == pytest.approx(true, rel=1e-3)
    distribution = from_gaussian_mechanism(
        1 / agent.guarantee.loss.mu, value_discretization_interval=1e-3
    )
    assert agent.guarantee.epsilon == pytest.approx(
        distribution.get_epsilon_for_delta(1e-5), rel=0.02
    )


@pytest.mark.parametrize(("epsilon", "true"), [(0.1, 0.0634), (1.0, 0.784), (7.0, 7.07)])
def test_with_the_printed_norm_of_z_the_promise_fails_from_seven_on(epsilon, true):
    """sqrt(2) H (b + s^2) with b = (1 + gamma)^2: what could be proved of the printed noise without
    b = 1 + gamma^2.
    """
    mu = math.sqrt(2) * 1.5 / math.sqrt(8 * math.log(2 / 1e-5)) * epsilon
    assert GaussianDP(mu).epsilon_at(1e-5) == pytest.approx(true, rel=2e-3)


def test_constants_that_break_the_promise_are_refused():
    from confide.runs.spec import RunSpec

    system = oscillator()
    spec = RunSpec(
        agent="ofu-lq",
        problem="oscillator",
        episodes=100,
        privacy=JointDP(45.0, 1e-5),
        options=(("calibration", "paper"),),
    )
    with pytest.raises(confide.PrivacyError, match="more than the requested epsilon=45"):
        spec.ready(system, 0)


@pytest.mark.parametrize(
    "privacy", [JointDP(1.0, delta=0.0), LocalDP(1.0, 1e-5)], ids=["pure", "local"]
)
def test_what_the_paper_has_no_constants_for_is_refused(privacy):
    with pytest.raises(InvalidParameter, match="has no constants for"):
        OFULQ(oscillator().public, episodes=100, privacy=privacy, calibration="paper")


def moved(system, first, second):
    """How far apart the contributions of two users are, through the clip of the paper's
    calibration.
    """
    made = printed_control(JointDP(1.0, 1e-5), system.public, episodes=100)
    statistic = ControlSums(made.bound, 0.0, 1.0)

    def sent(states, inputs):
        users = Trajectories(states[None], inputs[None], np.zeros((1, len(inputs))))
        return statistic.contribution(users).values

    return float(np.linalg.norm(sent(*first) - sent(*second))), made.bound


def test_the_sensitivity_is_attained():
    """sqrt(2) H (b + s^2) by two users far outside of Assumption 1, each with states along one
    axis. The clip allows them.
    """
    system = thermal()
    H, gamma = system.horizon, system.gain_bound
    s2, b = (1 + gamma) ** 2 / 2, 1 + gamma**2

    def along(axis):
        return np.tile(1e4 * np.eye(3)[axis], (H + 1, 1)), np.zeros((H, 2))

    found, bound = moved(system, along(0), along(1))
    assert found == pytest.approx(math.sqrt(2) * H * (b + s2), rel=1e-6)
    assert found <= bound.sensitivity(Relation.REPLACE)


def test_every_entry_of_both_matrices_has_the_printed_noise():
    """2,000 releases of users who contribute zero. 6 standard errors of a standard deviation are
    9.5 %, and sigma / sqrt(2) is refused.
    """
    system, privacy = thermal(), JointDP(1.0, 1e-5)
    made, size = printed_control(privacy, system.public, episodes=3), 2_000
    at_rest = Trajectories(np.zeros((1, 11, 3)), np.zeros((1, 10, 2)), np.zeros((1, 10)))
    matrices, responses = np.empty((size, 5, 5)), np.empty((size, 5, 3))
    for seed in range(size):
        agent = OFULQ(
            system.public,
            episodes=3,
            privacy=privacy,
            calibration="paper",
            noise=noise_source("fast", seed),
        )
        agent.next_batch()
        agent.observe(at_rest)
        matrices[seed], responses[seed] = made.bound.unpack(agent.released().values)
    np.testing.assert_array_equal(matrices, matrices.swapaxes(1, 2))
    spread = matrices.std(axis=0) / made.sigma_1
    np.testing.assert_allclose(spread, 1.0, rtol=0.095)
    np.testing.assert_allclose(responses.std(axis=0) / made.sigma_2, 1.0, rtol=0.095)
    # Entries are independent of each other: 6 standard errors of a correlation are 0.134.
    rows, columns = np.triu_indices(5)
    entries = np.hstack([matrices[:, rows, columns], responses.reshape(size, -1)])
    correlations = np.corrcoef(entries.T) - np.eye(entries.shape[1])
    assert abs(correlations).max() < 0.134


def test_no_user_moves_more():
    """Hill climbing from 30 pairs of users, and users far outside Assumption 1 (scales of .1 to
    1e4).
    """
    system, rng = thermal(), np.random.default_rng(7)
    n, d, H = 3, 2, 4
    system = type(system)(system.A, system.B, system.Q, system.R, H, system.noise_radius)

    def draw(scale):
        return rng.normal(size=(H + 1, n)) * scale, rng.normal(size=(H, d)) * scale

    for _ in range(30):
        pair = draw(10.0 ** rng.uniform(-1, 4)), draw(10.0 ** rng.uniform(-1, 1))
        most, bound = moved(system, *pair)
        for _ in range(200):
            step = 10.0 ** rng.uniform(-3, 0)
            other = tuple(
                tuple(part + step * rng.normal(size=part.shape) for part in user) for user in pair
            )
            far, _ = moved(system, *other)
            if far > most:
                most, pair = far, other
        assert most <= bound.sensitivity(Relation.REPLACE)


def test_the_mended_width_is_public_and_not_below_the_printed_one():
    """ln det(V / lambda_min) of the release is at least ln det(I + Z^T Z / lambda_min) while ||N||
    <= Lambda; the set holds the truth.
    """
    system, rng = oscillator(), np.random.default_rng(3)
    made = printed_control(JointDP(1.0, 1e-5), system.public, episodes=1000)
    theta = np.concatenate([system.A, system.B], axis=1).T
    for _ in range(50):
        Z = rng.normal(size=(5000, 3)) * 0.5
        W = rng.uniform(-0.05, 0.05, size=(5000, 2))
        G = rng.normal(size=(3, 3))
        N = (G + G.T) / 2
        N *= made.lambda_min / np.linalg.norm(N, 2) * rng.uniform(0, 1)
        L = rng.normal(size=(3, 2))
        L *= made.nu * math.sqrt(made.lambda_min) / np.linalg.norm(L)
        known = printed_set(
            Z.T @ Z + N,
            Z.T @ (Z @ theta + W) + L,
            lambda_min=made.lambda_min,
            lambda_max=made.lambda_max,
            nu=made.nu,
            noise_radius=0.1,
            failure=0.1,
        )
        inner = np.linalg.slogdet(np.eye(3) + Z.T @ Z / made.lambda_min)[1]
        leaking = (
            0.1 * math.sqrt(2 * math.log(20) + 2 * inner) + math.sqrt(made.lambda_max) + made.nu
        )
        assert known.beta >= leaking
        error = known.theta - theta
        assert np.sqrt(np.trace(error.T @ known.V @ error)) <= known.beta


def test_as_printed_nothing_is_learned_and_without_noise_much_is():
    system = oscillator()
    nothing = 2_000 * (system.optimal_value - system.uniform_value)
    for privacy, least, most in ((JointDP(1.0, 1e-5), 0.95, 1.05), (NoPrivacy(), 0.0, 0.2)):
        agent = OFULQ(system.public, episodes=2_000, privacy=privacy, calibration="paper")
        run = confide.run(agent, system, seed=0)
        assert least * nothing <= run.regret[-1] <= most * nothing
        assert agent.schedule == one_tree(2_000)
        if privacy.epsilon == 1.0:
            assert agent.guarantee.loss.mu == pytest.approx(
                printed_control(privacy, system.public, episodes=2_000)
                .loss(privacy, Tree(1_999).column_norm(2))
                .mu
            )
