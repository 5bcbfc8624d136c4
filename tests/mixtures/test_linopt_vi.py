"""Golden constants of [Zhou22], computed independently in high precision, and the agent at work."""

import math

import mpmath
import numpy as np
import pytest

import confide
from confide.audit.verify import taken_on_trust, verify
from confide.errors import InvalidParameter, PromiseBroken
from confide.mechanisms.sources import noise_source
from confide.mixtures.linopt_vi import LinOptVI
from confide.mixtures.printed import paper_constants
from confide.privacy import JointDP, LocalDP, NoPrivacy
from confide.privacy.certificate import certify
from confide.privatizers.schedule import one_tree
from confide.problems import LinearMixtureMDP, lock, lock_rewards
from confide.runs.runner import run

LOCK = lock_rewards(0)
KNOWN = lock(0)
JOINT = JointDP(1.0, 1e-5)
# K, H, d1, d2, epsilon, delta, alpha.
SETTINGS = [
    (100_000, 5, 5, 3, 1.0, 1e-5, 0.1),
    (1024, 3, 4, 9, 0.5, 1e-6, 0.05),
    (10**6, 10, 2, 2, 5.0, 1e-3, 0.01),
]


def zhou(setting, m, noises):
    """sigma_p1, sigma_p2, sigma_r, Sigma_p1, Sigma_r, nu_p, nu_r, beta_p, beta_r [Zhou22, Thm. 6.5,
    Lemma 3.1].
    """
    K, H, d1, d2, epsilon, delta, alpha = setting
    with mpmath.workdps(40):
        mp = mpmath.mpf
        sqrt = mpmath.sqrt
        ln = mpmath.log
        H = mp(H)
        epsilon = mp(epsilon)
        delta = mp(delta)
        alpha = mp(alpha)
        d = max(d1, d2)
        p1, p2, r = (
            H * D / epsilon * sqrt(32 * m * ln(4 * H / delta))
            for D in (d1 * H**2, sqrt(d1) * H**2, 1)
        )
        Sigma_p = p1 * sqrt(noises) * (4 * sqrt(d) + sqrt(8 * ln(8 * K * H / alpha)))
        Sigma_r = r * sqrt(noises) * (4 * sqrt(d2) + sqrt(8 * ln(8 * K * H / alpha)))
        nu_p = p2 * sqrt(noises / Sigma_p) * (sqrt(d1) + sqrt(2 * ln(4 * K * H / alpha)))
        nu_r = r * sqrt(noises / Sigma_r) * (sqrt(d2) + sqrt(2 * ln(4 * K * H / alpha)))
        beta_p = (
            H / 2 * sqrt(2 * ln(H / alpha) + d1 * ln(1 + K * H**2 / Sigma_p))
            + sqrt(3 * d1 * Sigma_p)
            + nu_p
        )
        beta_r = (
            sqrt(2 * ln(H / alpha) + d2 * ln(1 + K / (d2 * Sigma_r))) / 2
            + sqrt(3 * d2 * Sigma_r)
            + nu_r
        )
        return [float(x) for x in (p1, p2, r, Sigma_p, Sigma_r, nu_p, nu_r, beta_p, beta_r)]


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", [JointDP, LocalDP])
def test_theorem_6_5(setting, kind):
    K, H, d1, d2, epsilon, delta, alpha = setting
    c = paper_constants(
        kind(epsilon, delta),
        episodes=K,
        horizon=H,
        dimension=d1,
        reward_dimension=d2,
        failure=alpha,
    )
    m = 1 if kind is LocalDP else math.ceil(math.log2(K))
    collected = [
        c.sigma_p1,
        c.sigma_p2,
        c.sigma_r,
        c.transitions.lambda_min,
        c.rewards.lambda_min,
        c.transitions.nu,
        c.rewards.nu,
    ]
    assert c.levels == m
    assert [*collected, c.beta_p, c.beta_r] == pytest.approx(
        zhou(setting, m, K if kind is LocalDP else m), rel=1e-12
    )
    assert (
        c.transitions.lambda_max == 3 * c.transitions.lambda_min
        and c.rewards.lambda_max == 3 * c.rewards.lambda_min
    )


def test_golden_numbers():
    """sigma_p1, sigma_r, Sigma_p1, nu_p, beta_p, beta_r at K = 1e5, H = d1 = 5, d2 = 3, epsilon =
    1, delta = 1e-5, alpha = 0.1.
    """
    c = paper_constants(JOINT, episodes=100_000, horizon=5, dimension=5, reward_dimension=3)
    values = (c.sigma_p1, c.sigma_r, c.transitions.lambda_min, c.transitions.nu, c.beta_p, c.beta_r)
    assert values == pytest.approx(
        (55525.57761, 444.2046209, 4756850.703, 377.1679395, 8832.104559, 632.085881), rel=1e-9
    )


@pytest.mark.parametrize("episodes", [1, 2, 3, 64, 65, 100])
def test_the_tree_has_as_many_levels_as_the_paper_says(episodes):
    schedule = one_tree(episodes)
    assert schedule.users == episodes
    if episodes > 1:
        assert schedule.leaves == episodes - 1 and schedule.leaves.bit_length() == math.ceil(
            math.log2(episodes)
        )


def paper_agent(privacy, episodes=300, problem=LOCK, **more):
    return LinOptVI(
        problem.public,
        episodes=episodes,
        privacy=privacy,
        calibration="paper",
        noise=noise_source("fast", 0),
        **more,
    )


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-5), (5.0, 1e-2), (0.2, 1e-6)])
def test_the_certificate_states_the_true_epsilon_of_the_printed_noise(epsilon, delta):
    """mu = D sqrt(m) / c with D^2 = (H - 1) 2^2 + H 2^2, non-negative rows: D_step^2 = 2 L^4 + 2
    kappa^2 L^2 Y^2 = 4.
    """
    agent = paper_agent(JointDP(epsilon, delta))
    H = 5
    m = 9
    mu = math.sqrt(4 * (H - 1) + 4 * H) * epsilon / (H * math.sqrt(32 * math.log(4 * H / delta)))
    assert agent.guarantee.loss.mu == pytest.approx(mu, rel=1e-5)
    assert agent.guarantee.epsilon < 0.5 * epsilon
    mechanism = agent.mechanisms()[0]
    assert mechanism.scale == pytest.approx(
        H / epsilon * math.sqrt(32 * m * math.log(4 * H / delta)), rel=1e-9
    )
    certificate = certify(agent.guarantee, agent.mechanisms())
    assert verify(certificate).epsilon == pytest.approx(
        agent.guarantee.epsilon
    ) and not taken_on_trust(certificate)


def test_what_the_printed_constants_do_not_keep_is_refused_with_the_number():
    """ERRATUM: replace-one sensitivities are sqrt(2) and 2 times the printed ones; at delta = 0.1
    the slack ends near epsilon = 75.
    """
    short = lock_rewards(0, horizon=2)
    assert paper_agent(JointDP(60.0, 0.1), problem=short).guarantee.epsilon == pytest.approx(
        48.83, abs=0.01
    )
    with pytest.raises(
        PromiseBroken,
        match=r"gives epsilon=124.759 at delta=0.1, more than the requested epsilon=100",
    ):
        _ = paper_agent(JointDP(100.0, 0.1), problem=short).guarantee


def test_printed_shift_and_width_reach_the_planner():
    """In the paper's units: Lambda^1 = 2 Sigma I, bonus beta sqrt(phi^T Lambda^-1 phi)."""
    agent = paper_agent(JOINT)
    c = paper_constants(JOINT, episodes=300, horizon=5, dimension=5, reward_dimension=3)
    model = agent.algorithm.regressions
    estimates = model.read(agent.released())
    np.testing.assert_allclose(
        estimates.estimate.precision * (5 * 25),
        np.broadcast_to(2 * c.transitions.lambda_min * np.eye(5), (4, 5, 5)),
    )
    assert math.sqrt(estimates.width.sampling) * math.sqrt(5) * 5 == pytest.approx(c.beta_p)
    np.testing.assert_allclose(estimates.rewards, c.beta_r / math.sqrt(2 * c.rewards.lambda_min))


def regret(privacy, problem, episodes=20_000, seeds=range(4), **more):
    runs = [
        run(
            LinOptVI(problem.public, episodes=episodes, privacy=privacy, **more), problem, seed=seed
        )
        for seed in seeds
    ]
    return float(np.mean([one.regret[-1] for one in runs])), runs


def test_it_learns_transitions_and_rewards_privately():
    """lock-rewards, 20 000 users, 4 seeds.

    Uniform play loses 21 136; the private learner was measured at 300 to 900.
    """
    private, runs = regret(JOINT, LOCK)
    assert private < 1500
    assert all(one.value[-1] > 0.9 * LOCK.optimal_value for one in runs)
    assert regret(NoPrivacy(), LOCK)[0] < 150


def test_with_known_rewards_it_is_ucrl_vtr():
    other = confide.agents.UCRLVTR(KNOWN.public, episodes=3000, privacy=JOINT)
    assert regret(JOINT, KNOWN, episodes=3000, seeds=[0])[0] == run(other, KNOWN, seed=0).regret[-1]


def test_pure_and_local_privacy_learn_too():
    assert regret(JointDP(10.0, delta=0.0), LOCK, episodes=100_000, seeds=range(2))[0] < 5_000
    assert regret(LocalDP(5.0, 1e-5), LOCK, episodes=400_000, seeds=range(2))[0] < 0.1 * 422_000


def test_rewards_in_general_position_are_learned():
    """Features with signs, whose span has no constant: nothing is one-hot.

    Uniform play loses 0.26 per user.
    """
    rng = np.random.default_rng(3)
    features = rng.normal(size=(8, 3, 4))
    features /= 1.01 * np.linalg.norm(features, axis=2, keepdims=True)
    theta = rng.normal(size=(4, 4))
    means = np.einsum("saj,hj->hsa", features, theta)
    features *= np.sign(means[0])[..., None]
    rewards = np.einsum("saj,j->sa", features, theta[0])
    kernels = rng.dirichlet(np.full(8, 0.1), size=(3, 8, 3))
    weights = rng.dirichlet(np.ones(3), size=4)
    problem = LinearMixtureMDP(
        kernels, weights, np.tile(rewards / rewards.max(), (4, 1, 1)), np.full(8, 1 / 8), features
    )
    learned, _ = regret(JointDP(2.0, 1e-5), problem, episodes=20_000, seeds=range(2))
    assert learned < 0.2 * 20_000 * (problem.optimal_value - problem.uniform_value)


def feed(agent, users):
    at = 0
    while at < users.users:
        size = min(agent.next_batch().users, users.users - at)
        agent.observe(users[at : at + size])
        at += size


def test_a_regularizer_of_ones_own_is_made_for_each_regression():
    collected = []

    class Timid:
        def __init__(self, regression):
            self.standard = confide.planners.regression.Repair(
                regression.balance, 0.0, ridge=2.0, simplex=regression.simplex
            )
            collected.append(regression)

        def estimate(self, Lambda, u, *, noise_std):
            return self.standard.estimate(Lambda, u, noise_std=noise_std)

        def width(self, *, noise_std):
            return self.standard.width(noise_std=noise_std)

    learned, _ = regret(JointDP(5.0, 1e-5), LOCK, episodes=5000, seeds=[0], regularizer=Timid)
    assert learned < 1500 and [one.name for one in collected] == ["transitions", "rewards"]
    assert [one.dimension for one in collected] == [4, 3] and collected[1].balance == pytest.approx(
        2.1
    )


def test_what_it_cannot_serve_is_refused():
    for wrong, message in (
        ({"calibration": "loose"}, "calibration must be one of tight, paper"),
        ({"bonus_scale": -1.0}, "bonus_scale must be non-negative and finite"),
        ({"calibration": "paper", "failure": 1.5}, "failure must be in"),
        ({"schedule": one_tree(7)}, "ends after 7 users"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            LinOptVI(LOCK.public, **({"episodes": 10, "privacy": JOINT} | wrong))
    with pytest.raises(InvalidParameter, match="mixture of known kernels"):
        LinOptVI(confide.problems.latent().public, episodes=10, privacy=JOINT)
