"""UCRL-VTR at work, and its printed constants against values computed independently in high
precision; locators in [Luyo21].
"""

import itertools
import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest

import confide
from confide.audit import verify
from confide.errors import InvalidParameter, PromiseBroken
from confide.mechanisms.counters import Toeplitz, Tree
from confide.mechanisms.sources import noise_source
from confide.mixtures.printed import MixtureSetting, paper_noise, printed, tight_noise
from confide.mixtures.ucrl_vtr import UCRLVTR
from confide.privacy import JointDP, LocalDP, NoPrivacy, PureDP, Relation
from confide.privatizers import geometric
from confide.problems import lock, rand
from confide.runs.runner import run
from confide.trajectory import Trajectories

pytestmark = pytest.mark.kernels

SETTINGS = [
    (100_000, 5, 5, 1.0, 1e-5, 0.1),
    (1000, 3, 8, 0.5, 1e-6, 0.05),
    (10**6, 10, 2, 5.0, 1e-3, 0.01),
]


def exact_delta(epsilon, mu):
    """delta(epsilon) of mu-GDP, in the precision of the context."""
    return mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(
        -mu / 2 - epsilon / mu
    )


def beta(K, H, d, p, upsilon):
    """Printed in Cor. 5 and Cor. 6, with C_w = sqrt(d) and lambda = H^2."""
    inside = mpmath.log(3 * H * mpmath.mpf(1 + K * H) ** (mpmath.mpf(d) / 2) / p)
    return 3 * (mpmath.sqrt(d) + 1) * mpmath.sqrt(H**2 + upsilon) + mpmath.sqrt(2 * H**2 * inside)


def check(constants, sigma, upsilon, width):
    assert constants.sigma == pytest.approx(float(sigma), rel=1e-12)
    assert constants.upsilon == pytest.approx(float(upsilon), rel=1e-12)
    assert constants.beta == pytest.approx(float(width), rel=1e-12)


def check_gaussian(constants, delta, mu):
    """The loss is mu, and its epsilon the one that the exact profile gives, to 1e-6 (the bound's
    rounding is in the seventh digit).
    """
    assert constants.loss.mu == pytest.approx(float(mu), rel=1e-6)
    assert float(
        exact_delta(mpmath.mpf(constants.loss.epsilon_at(delta)), mpmath.mpf(constants.loss.mu))
    ) == pytest.approx(delta, rel=1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_corollary_5(setting):
    K, H, d, epsilon, delta, p = setting
    with mpmath.workdps(40):
        mp = mpmath.mpf
        K0 = mpmath.ceil(mpmath.log(K, 2) + 1)
        logs = (
            mpmath.log(8 * H / mp(delta))
            * mpmath.log(4 / mp(delta))
            * mpmath.log(16 * H * K0 / mp(delta))
        )
        sigma = 32 * mp(H) ** 2 / mp(epsilon) * mpmath.sqrt(2 * H * K0 * logs)
        upsilon = sigma * mpmath.sqrt(K0) * (4 * mpmath.sqrt(d) + 2 * mpmath.log(6 * K * H / mp(p)))
        of_row = MixtureSetting(K, H, d, p)
        constants = printed(JointDP(epsilon, delta), of_row)
        assert of_row.levels == int(K0)
        check(constants, sigma, upsilon, beta(K, H, d, mp(p), upsilon))
        # X, y >= 0: sqrt(2 L^4 + 2 kappa^2 L^2 Y^2) with L = Y = H, kappa = sqrt(2), through
        # floor(log2 K) + 1 levels, H - 1 steps
        levels = mpmath.floor(mpmath.log(K, 2)) + 1
        check_gaussian(
            constants, delta, mpmath.sqrt(6 * (H - 1) * levels) * H**2 / (mpmath.sqrt(2) * sigma)
        )


@pytest.mark.parametrize("setting", SETTINGS)
def test_corollary_6(setting):
    K, H, d, epsilon, delta, p = setting
    with mpmath.workdps(40):
        mp = mpmath.mpf
        sigma = 4 * mp(H) ** 3 / mp(epsilon) * mpmath.sqrt(2 * mpmath.log(4 * H / mp(delta)))
        upsilon = sigma * mpmath.sqrt(K) * (4 * mpmath.sqrt(d) + 2 * mpmath.log(6 * K * H / mp(p)))
        constants = printed(LocalDP(epsilon, delta), MixtureSetting(K, H, d, p))
        check(constants, sigma, upsilon, beta(K, H, d, mp(p), upsilon))
        check_gaussian(constants, delta, mpmath.sqrt(3 * (H - 1)) * H**2 / sigma)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", [JointDP, LocalDP])
def test_pure_privacy_c4(setting, kind):
    """Laplace noise by L1 sensitivities, simple composition over 2 H queries (and K_0 levels),
    Claim 29 with the factor of E.3.

    For nonnegative rows of norm H, and values up to H, replace: on the upper triangle of Lambda
    sqrt(d (d + 3) / 2) H^2, because d coordinates of the norm sqrt(2) H^2 have the weight 1 and d
    (d - 1) / 2 others 1 / sqrt(2); on u sqrt(2 d) H^2.
    """
    K, H, d, epsilon, _, p = setting
    with mpmath.workdps(40):
        mp = mpmath.mpf
        K0 = mpmath.ceil(mpmath.log(K, 2) + 1) if kind is JointDP else 1
        log = mpmath.log(6 * K * H * d / mp(p))
        of_matrix = mpmath.sqrt(mp(d) * (d + 3) / 2) * mp(H) ** 2
        of_vector = mpmath.sqrt(2 * mp(d)) * mp(H) ** 2
        sigma = of_matrix * 2 * H * K0 / mp(epsilon)
        many = K0 if kind is JointDP else mpmath.sqrt(K)
        upsilon = sigma * many * (2 * d + 2 * mpmath.sqrt(d * log) + log)
        constants = printed(kind(epsilon, delta=0.0), MixtureSetting(K, H, d, p))
        check(constants, sigma, upsilon, beta(K, H, d, mp(p), upsilon))
        # Claim 28: the noise on u, of scale sigma of_vector / of_matrix, is bounded by Upsilon,
        # too.
        assert sigma * of_vector / of_matrix * many * mpmath.sqrt(d) * log <= upsilon
        assert constants.bound.balance == pytest.approx(float(of_matrix / of_vector))
        # All queries together: both parts of H - 1 steps, through floor(log2 K) + 1 levels; or by
        # way of the joint L2 sensitivity.
        M = constants.bound.balance**2
        joint = mpmath.sqrt(mp(d) * (d + 3) / 4 + d) * mpmath.sqrt(2 * (1 + M)) * mp(H) ** 2
        levels = mpmath.floor(mpmath.log(K, 2)) + 1 if kind is JointDP else 1
        expected = (H - 1) * min(2 * of_matrix, joint) * levels / sigma
        assert constants.loss.epsilon == pytest.approx(float(expected), rel=1e-5)
        assert constants.loss.epsilon <= epsilon


def test_pure_constants_keep_the_request_in_every_setting():
    for K, H, d, relation, nonnegative in itertools.product(
        (1, 2, 7, 300, 4096, 100_000),
        (1, 2, 5, 12),
        (1, 2, 5, 30),
        list(Relation),
        (True, False),
    ):
        setting = MixtureSetting(K, H, d, nonnegative=nonnegative)
        privacies = [JointDP(0.7, delta=0.0, relation=relation.value)]
        if relation is Relation.REPLACE:
            privacies.append(LocalDP(0.7, delta=0.0))
        for privacy in privacies:
            loss = printed(privacy, setting).loss
            assert loss.epsilon <= 0.7 * (1 + 1e-12)
            assert isinstance(loss, PureDP)


def test_the_printed_constants_really_give_a_thousandth_of_the_epsilon():
    """ERRATUM: at nominal epsilon = 1 Cor. 5 adds about a thousand times too much noise, and Cor. 6
    ten times.
    """
    constants = printed(JointDP(1.0, 1e-5), MixtureSetting(100_000, 5, 5))
    assert constants.loss.epsilon_at(1e-5) == pytest.approx(9.3e-4, rel=0.01)
    constants = printed(LocalDP(1.0, 1e-5), MixtureSetting(100_000, 5, 5))
    assert constants.loss.epsilon_at(1e-5) == pytest.approx(0.0988, rel=0.01)


def test_two_users_exist_whom_pure_noise_tells_apart_almost_as_much_as_is_stated():
    """At H = d = 5: rows of norm H with nothing in common; the stated epsilon is 22 % above what
    they lose.
    """
    setting = MixtureSetting(100_000, 5, 5)
    for privacy, seen in ((JointDP(1.0, delta=0.0), 17), (LocalDP(1.0, delta=0.0), 1)):
        constants = printed(privacy, setting)
        one, other = np.zeros((2, 1, 4, 5))
        one[..., :3] = 5 / math.sqrt(3)
        other[..., 3:] = 5 / math.sqrt(2)
        sent = [constants.bound.contribution(X, np.full((1, 4), 5.0)).values for X in (one, other)]
        apart = float(np.abs(sent[0] - sent[1]).sum()) * seen / constants.sigma
        assert 0.75 * constants.loss.epsilon < apart < constants.loss.epsilon <= 1


def test_tight_noise_is_sensitivity_over_mu_times_the_counter():
    setting = MixtureSetting(100_000, 5, 5)
    noise = tight_noise(JointDP(1.0, 1e-5), Toeplitz(32), setting)
    # sqrt(4 steps) x sqrt(2 + 2) = 4
    assert noise.noise == pytest.approx(4 / 0.268051 * 2.16698, rel=1e-4)
    assert noise.users() == 512
    assert tight_noise(JointDP(1.0, 1e-5), Tree(32), setting).noise > 2 * noise.noise
    assert paper_noise(JointDP(1.0, 1e-5), setting).noise / noise.noise == pytest.approx(
        4604, rel=0.02
    )


def test_bad_settings_are_refused():
    for noise in (paper_noise, lambda privacy, setting: tight_noise(privacy, Tree(3), setting)):
        with pytest.raises(InvalidParameter, match="delta must be positive"):
            noise(JointDP(1.0, delta=0.0), MixtureSetting(10, 2, 2))
    with pytest.raises(InvalidParameter, match=r"failure must be in \(0, 1\), got failure=1.5"):
        MixtureSetting(10, 2, 2, failure=1.5)
    with pytest.raises(
        InvalidParameter, match="calibration must be one of tight, paper, got calibration='loose'"
    ):
        UCRLVTR(LOCK.public, episodes=10, privacy=NoPrivacy(), calibration="loose")
    for scale in (-1.0, math.nan):
        with pytest.raises(InvalidParameter, match="bonus_scale must be non-negative and finite"):
            UCRLVTR(
                LOCK.public,
                episodes=10,
                privacy=NoPrivacy(),
                calibration="paper",
                bonus_scale=scale,
            )


LOCK = lock(0)


def regret(privacy, seeds=range(4), problem=LOCK, episodes=20_000, **more):
    runs = [
        run(UCRLVTR(problem.public, episodes=episodes, privacy=privacy, **more), problem, seed=seed)
        for seed in seeds
    ]
    return float(np.mean([one.regret[-1] for one in runs])), runs


def test_it_learns_privately():
    """lock, 20 000 users, 4 seeds.

    Uniform play loses 21 136; the private learner was measured at 200 to 600.
    """
    private, runs = regret(confide.JointDP(1.0, 1e-5))
    assert private < 1500
    assert (
        str(runs[0].guarantee)
        == "JointDP(epsilon=1, delta=1e-05), replace one user, 20000 users, fast noise"
    )
    assert all(one.value[-1] > 0.9 * LOCK.optimal_value for one in runs)
    exact, _ = regret(confide.NoPrivacy())
    assert exact < 150


def test_pure_privacy_costs_more_and_learns_too():
    pure, runs = regret(confide.JointDP(10.0, delta=0.0), episodes=100_000, seeds=range(2))
    assert pure < 0.3 * 105_700
    assert "delta=0)" in str(runs[0].guarantee)


PROMISES = [JointDP(1.0, 1e-5), LocalDP(1.0, 1e-5), NoPrivacy()]


@pytest.mark.parametrize("privacy", PROMISES, ids=str)
def test_the_paper_runs_as_printed(privacy):
    """The noise is the printed one, the guarantee is the true one, and the certificate can be
    checked.
    """
    agent = UCRLVTR(LOCK.public, episodes=40, privacy=privacy, calibration="paper")
    constants = printed(privacy, MixtureSetting(40, 5, 5))
    done = run(agent, LOCK, seed=0)
    assert len(done.checkpoints) == 40
    verify(done.certificate)
    assert agent.guarantee.epsilon == pytest.approx(constants.loss.epsilon_at(privacy.delta))
    draws = {"joint": (40).bit_count(), "local": 40, "none": 0}[privacy.trust.value]
    assert agent.noise_level.std == pytest.approx(math.sqrt(2 * draws) * constants.sigma)
    regularizer = agent.algorithm.regressions.planner.regularizer
    assert regularizer.shift == pytest.approx(25 + 2 * constants.upsilon)
    assert regularizer.beta == constants.beta
    half = UCRLVTR(
        LOCK.public, episodes=40, privacy=privacy, calibration="paper", bonus_scale=0.5
    ).algorithm.regressions.planner.regularizer
    assert half.beta == 0.5 * constants.beta


def test_the_printed_noise_is_on_every_entry():
    """200 first releases without data: (Z' + Z'^T)/sqrt(2) on Lambda, sigma_B on u; within 6 % (5
    standard errors of 4000 draws).
    """
    collected = []
    for seed in range(200):
        agent = UCRLVTR(
            LOCK.public,
            episodes=1,
            privacy=PROMISES[0],
            calibration="paper",
            noise=noise_source("fast", seed),
        )
        agent.next_batch()
        agent.observe(Trajectories(np.full((1, 6), -1), np.full((1, 5), -1), np.zeros((1, 5))))
        collected.append(agent.algorithm.bound.unpack(agent.released().values))
    Lambda = np.stack([one for one, _ in collected])
    u = np.stack([one for _, one in collected])
    sigma = printed(PROMISES[0], MixtureSetting(1, 5, 5)).sigma
    diagonal = np.einsum("khii->khi", Lambda)
    above = Lambda[..., *np.triu_indices(5, 1)]
    for part, scale in ((diagonal, math.sqrt(2) * sigma), (above, sigma), (u, sigma)):
        assert part.std() == pytest.approx(scale, rel=0.06)
    np.testing.assert_array_equal(Lambda, Lambda.swapaxes(-1, -2))


def test_printed_constants_that_break_the_promise_are_refused_with_the_true_number():
    agent = UCRLVTR(
        LOCK.public,
        episodes=300,
        privacy=LocalDP(5000.0, 1e-5),
        calibration="paper",
        noise=noise_source("fast", 0),
    )
    with pytest.raises(PromiseBroken, match="epsilon=13608"):
        agent.next_batch()


@pytest.mark.parametrize("problem", [LOCK, rand(0)], ids=["lock", "rand"])
@pytest.mark.parametrize("kind", [JointDP, LocalDP])
def test_the_pure_variant_runs_and_says_whose_the_constants_are(problem, kind):
    privacy = kind(1.0, delta=0.0)
    agent = UCRLVTR(problem.public, episodes=50, privacy=privacy, calibration="paper")
    explained = str(confide.explain(agent))
    assert "the paper prints orders of growth only" in " ".join(explained.split())
    done = run(agent, problem, seed=0)
    verify(done.certificate)
    assert 0.5 < done.guarantee.epsilon <= 1
    assert done.guarantee.delta == 0
    assert (
        "constants of noise, shift and width are confide's" in done.certificate.document["subject"]
    )
    tight = UCRLVTR(problem.public, episodes=50, privacy=privacy)
    assert "orders of growth" not in " ".join(str(confide.explain(tight)).split())


def test_the_paper_on_fewer_releases_has_a_smaller_tree():
    privacy = PROMISES[0]
    few = geometric(1000)
    agent = UCRLVTR(
        LOCK.public,
        episodes=1000,
        privacy=privacy,
        calibration="paper",
        schedule=few,
        noise=noise_source("fast", 0),
    )
    assert (
        printed(privacy, MixtureSetting(1000, 5, 5, leaves=few.leaves)).sigma
        < 0.75 * printed(privacy, MixtureSetting(1000, 5, 5)).sigma
    )
    assert agent.mechanisms()[0].parameters == {"leaves": few.leaves}
    assert agent.guarantee.epsilon < 1e-3


def test_the_printed_algorithm_learns_where_its_width_is_small():
    """Without noise, 1000 users, a tenth of beta: uniform play loses 1057; measured 41 to 68.

    Features, units and clips are right.
    """
    done = run(
        UCRLVTR(
            LOCK.public, episodes=1000, privacy=NoPrivacy(), calibration="paper", bonus_scale=0.1
        ),
        LOCK,
        seed=0,
    )
    assert done.regret[-1] < 200


def test_values_stay_where_the_sensitivity_needs_them():
    agent = UCRLVTR(
        LOCK.public,
        episodes=5,
        privacy=PROMISES[0],
        calibration="paper",
        noise=noise_source("fast", 3),
    )
    while agent.users < 5:
        agent.next_batch()
        later = agent.current_round().statistic._next_values
        assert later.min() >= 0
        assert later.max() <= 5
        agent.observe(LOCK.sample(LOCK.optimal_policy, 1, np.random.default_rng(0)))


def test_counts_and_trajectories_make_the_same_learner():
    """Both are exact: with the same world only the sampling differs, so the first release differs
    but the law does not.
    """
    agent = UCRLVTR(LOCK.public, episodes=3000, privacy=confide.JointDP(1.0, 1e-5))
    agent.abilities = replace(agent.abilities, counts=False)
    by_trajectories = run(agent, LOCK, seed=0)
    assert by_trajectories.complete
    assert "Simulated" not in str(by_trajectories.certificate.document["assumptions"])


def test_what_it_cannot_serve_is_refused():
    with pytest.raises(InvalidParameter, match="no noise yet"):
        UCRLVTR(LOCK.public, episodes=10, privacy=confide.NoPrivacy()).next_batch()
    agent = UCRLVTR(
        LOCK.public, episodes=10, privacy=confide.NoPrivacy(), noise=noise_source("fast", 0)
    )
    with pytest.raises(InvalidParameter, match="call next_batch first"):
        agent.observe(LOCK.sample(LOCK.optimal_policy, 1, np.random.default_rng(0)))
