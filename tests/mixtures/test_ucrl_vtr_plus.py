"""UCRL-VTR+ at work, and its printed constants against values computed independently in high
precision; locators in [Luyo21].
"""

import math

import mpmath
import numpy as np
import pytest

from confide.audit import verify
from confide.errors import InvalidParameter, PromiseBroken
from confide.mechanisms.sources import noise_source
from confide.mixtures.printed import MixtureSetting, printed_plus
from confide.mixtures.ucrl_vtr_plus import UCRLVTRPlus
from confide.mixtures.variance_planning import estimate_moment, largest_plausible
from confide.planners.regression import NO_BONUS
from confide.privacy import JointDP, LocalDP, NoPrivacy, Relation
from confide.problems import lock, rand
from confide.runs.runner import run
from confide.statistics.transitions import valid_transitions
from confide.trajectory import Trajectories

SETTINGS = [
    (100_000, 5, 5, 1.0, 1e-5, 0.1),
    (1000, 3, 8, 0.5, 1e-6, 0.05),
    (10**6, 10, 2, 5.0, 1e-3, 0.01),
]
LOCK = lock(0)
RAND = rand(0)
PRIVATE = JointDP(1.0, 1e-5)
SILENT = Trajectories(np.full((1, 6), -1), np.full((1, 5), -1), np.zeros((1, 5)))


def check(constants, setting, sigmas, upsilons):
    """Noise, norms, and the three widths of (6) and (7), with lambda = 1 and C_w = sqrt(d)."""
    K, H, d, _, _, p = setting
    mp = mpmath.mpf
    assert constants.sigma == pytest.approx([float(one) for one in sigmas], rel=1e-12)
    assert constants.upsilon == pytest.approx([float(one) for one in upsilons], rel=1e-12)
    for k in (1, 17, K):
        noise = [3 * (mpmath.sqrt(d) + 1) * mpmath.sqrt(1 + one) for one in upsilons]
        union = mpmath.log(24 * mp(k) ** 2 * H / mp(p))
        bernstein = mpmath.sqrt(mpmath.log(1 + mp(K)) * union)
        check = noise[0] + 8 * d * bernstein + 4 * mpmath.sqrt(d) * union
        hat = noise[0] + 8 * mpmath.sqrt(d) * bernstein + 4 * mpmath.sqrt(d) * union
        tilde = (
            noise[1]
            + 8 * mpmath.sqrt(d * mp(H) ** 4 * mpmath.log(1 + K * mp(H) ** 4 / d) * union)
            + 4 * H**2 * union
        )
        assert constants.widths(k) == pytest.approx(
            [float(one) for one in (check, hat, tilde)], rel=1e-12
        )


@pytest.mark.parametrize("setting", SETTINGS)
def test_corollary_10(setting):
    K, H, d, epsilon, delta, p = setting
    with mpmath.workdps(40):
        mp = mpmath.mpf
        K0 = mpmath.ceil(mpmath.log(K, 2) + 1)
        logs = (
            mpmath.log(16 * H / mp(delta))
            * mpmath.log(8 / mp(delta))
            * mpmath.log(32 * H * K0 / mp(delta))
        )
        root = mpmath.sqrt(2 * H * K0 * logs)
        sigmas = 64 * d / mp(epsilon) * root, 64 * mp(H) ** 4 / mp(epsilon) * root
        size = mpmath.sqrt(K0) * (4 * mpmath.sqrt(d) + 2 * mpmath.log(24 * K * H / mp(p)))
        constants = printed_plus(JointDP(epsilon, delta), MixtureSetting(K, H, d, p))
        check(constants, setting, sigmas, [one * size for one in sigmas])
        # both regressions and H - 1 steps: sqrt(6) d each (rows of norm sqrt(d), the second one's
        # scaled to that)
        levels = mpmath.floor(mpmath.log(K, 2)) + 1
        mu = mpmath.sqrt(2 * (H - 1) * 6 * levels) * d / (mpmath.sqrt(2) * sigmas[0])
        assert constants.loss.mu == pytest.approx(float(mu), rel=1e-6)


@pytest.mark.parametrize("setting", SETTINGS)
def test_corollary_11(setting):
    K, H, d, epsilon, delta, p = setting
    with mpmath.workdps(40):
        mp = mpmath.mpf
        root = mpmath.sqrt(2 * mpmath.log(8 * H / mp(delta)))
        sigmas = 8 * d * H / mp(epsilon) * root, 8 * mp(H) ** 5 / mp(epsilon) * root
        size = mpmath.sqrt(K) * (4 * mpmath.sqrt(d) + 2 * mpmath.log(24 * K * H / mp(p)))
        constants = printed_plus(LocalDP(epsilon, delta), MixtureSetting(K, H, d, p))
        check(constants, setting, sigmas, [one * size for one in sigmas])
        assert constants.loss.mu == pytest.approx(
            float(mpmath.sqrt(6 * (H - 1)) * d / sigmas[0]), rel=1e-6
        )


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("kind", [JointDP, LocalDP])
def test_pure_privacy_remark_6(setting, kind):
    K, H, d, epsilon, _, p = setting
    with mpmath.workdps(40):
        mp = mpmath.mpf
        K0 = mpmath.ceil(mpmath.log(K, 2) + 1) if kind is JointDP else 1
        log = mpmath.log(24 * K * H * d / mp(p))
        # by L1 sensitivities, for nonnegative rows of norm sqrt(d), and the second regression's in
        # units of H^4 / d
        of_matrix = mpmath.sqrt(mp(d) * (d + 3) / 2) * d
        sigmas = [of_matrix * 4 * H * K0 / mp(epsilon) * unit for unit in (1, mp(H) ** 4 / d)]
        size = (K0 if kind is JointDP else mpmath.sqrt(K)) * (
            2 * d + 2 * mpmath.sqrt(d * log) + log
        )
        constants = printed_plus(kind(epsilon, delta=0.0), MixtureSetting(K, H, d, p))
        check(constants, setting, sigmas, [one * size for one in sigmas])
        M = mp(d + 3) / 4
        joint = mpmath.sqrt(mp(d) * (d + 3) / 4 + d) * mpmath.sqrt(2 * (1 + M)) * d
        l1 = 2 * (H - 1) * min(2 * of_matrix, joint)
        levels = mpmath.floor(mpmath.log(K, 2)) + 1 if kind is JointDP else 1
        assert constants.loss.epsilon == pytest.approx(float(l1 * levels / sigmas[0]), rel=1e-5)


def test_what_the_printed_constants_really_give():
    for privacy, true in ((PRIVATE, 5.54e-4), (LocalDP(1.0, 1e-5), 0.0658)):
        assert printed_plus(privacy, MixtureSetting(100_000, 5, 5)).loss.epsilon_at(
            1e-5
        ) == pytest.approx(true, rel=0.01)
    agent = UCRLVTRPlus(
        LOCK.public,
        episodes=300,
        privacy=LocalDP(5000.0, 1e-5),
        calibration="paper",
        noise=noise_source("fast", 0),
    )
    with pytest.raises(PromiseBroken, match="epsilon=6639"):
        agent.next_batch()


@pytest.mark.parametrize("problem", [LOCK, RAND], ids=["lock", "rand"])
@pytest.mark.parametrize("kind", [JointDP, LocalDP])
def test_the_pure_variant_runs_and_says_whose_the_constants_are(problem, kind):
    agent = UCRLVTRPlus(
        problem.public, episodes=50, privacy=kind(1.0, delta=0.0), calibration="paper"
    )
    done = run(agent, problem, seed=0)
    verify(done.certificate)
    assert 0.5 < done.guarantee.epsilon <= 1
    assert "orders of growth only" in agent.calibration.constants
    assert (
        "constants of noise, shift and width are confide's" in done.certificate.document["subject"]
    )


@pytest.mark.parametrize("privacy", [PRIVATE, LocalDP(1.0, 1e-5), NoPrivacy()], ids=str)
def test_the_paper_runs_as_printed(privacy):
    agent = UCRLVTRPlus(LOCK.public, episodes=20, privacy=privacy, calibration="paper")
    done = run(agent, LOCK, seed=0)
    verify(done.certificate)
    assert len(done.checkpoints) == 20
    assert agent.guarantee.epsilon == pytest.approx(
        agent.algorithm.constants.loss.epsilon_at(privacy.delta)
    )


def test_both_printed_noises_are_there():
    """200 first releases without data: sqrt(2) sigma_{B,i} on the diagonals, sigma_{B,i} on u;
    within 6 % (5 standard errors).
    """
    collected = []
    for seed in range(200):
        agent = UCRLVTRPlus(
            LOCK.public,
            episodes=1,
            privacy=PRIVATE,
            calibration="paper",
            noise=noise_source("fast", seed),
        )
        agent.next_batch()
        agent.observe(SILENT)
        collected.append(agent.algorithm.bound.unpack(agent.released().values))
    Lambda = np.stack([one for one, _ in collected])
    u = np.stack([one for _, one in collected])
    for i, unit in enumerate((1.0, 5**4 / 5)):
        part = slice(4 * i, 4 * i + 4)
        sigma = agent.algorithm.constants.sigma[i]
        assert unit * np.einsum("khii->khi", Lambda[:, part]).std() == pytest.approx(
            math.sqrt(2) * sigma, rel=0.06
        )
        assert unit * u[:, part].std() == pytest.approx(sigma, rel=0.06)


def test_the_printed_weights_by_hand():
    """sbar of Alg. 3, number by number, after 30 users without noise and a width that leaves
    something of it.
    """
    agent = UCRLVTRPlus(
        RAND.public,
        episodes=60,
        privacy=NoPrivacy(),
        calibration="paper",
        noise=noise_source("fast", 0),
    )
    for i in range(30):
        agent.next_batch()
        agent.observe(RAND.sample(RAND.optimal_policy, 1, np.random.default_rng(i)))
    planning = agent.algorithm
    released = agent.released()
    Lambda, u = planning.bound.unpack(released.values)
    check, _, tilde = planning.constants.widths(31)
    statistic = planning.plan(released).statistic
    V = statistic.first._next_values
    H = 5
    d = 5
    phi = RAND.kernels / math.sqrt(5)
    for h, s, a in [(0, 3, 1), (3, 11, 0), (2, 7, 2)]:
        x = phi[:, s, a] @ V[h]
        x2 = phi[:, s, a] @ V[h] ** 2
        hat = np.eye(d) + Lambda[h]
        unit = H**4 / d
        squares = np.eye(d) + unit * Lambda[4 + h]
        mean = np.clip(x @ np.linalg.solve(hat, u[h]), 0, H)
        second = np.clip(x2 @ np.linalg.solve(squares, unit * u[4 + h]), 0, H**2)
        E = min(H**2, 2 * H * check * math.sqrt(x @ np.linalg.solve(hat, x)))
        E += min(H**2, tilde * math.sqrt(x2 @ np.linalg.solve(squares, x2)))
        assert statistic.first._weights[h, s, a] == pytest.approx(
            max(H**2 / d, second - mean**2 + E) ** -0.5, rel=1e-6
        )
        assert statistic.second._weights[h, s, a] == pytest.approx(math.sqrt(d) / H**2)


def test_the_printed_algorithm_learns_without_a_bonus():
    """Without noise, 1000 users, no width: uniform play loses 685; measured 77 to 136.

    Features, units and clips are right.
    """
    done = run(
        UCRLVTRPlus(
            RAND.public, episodes=1000, privacy=NoPrivacy(), calibration="paper", bonus_scale=0.0
        ),
        RAND,
        seed=0,
    )
    assert done.regret[-1] < 250


@pytest.mark.parametrize("problem", [LOCK, RAND], ids=["lock", "rand"])
def test_it_learns_privately(problem):
    """20 000 users, 4 seeds; measured at 200 to 600 (lock) and 300 to 500 (rand), without privacy
    at about 50.
    """
    for privacy, most in ((PRIVATE, 1500), (NoPrivacy(), 150)):
        runs = [
            run(UCRLVTRPlus(problem.public, episodes=20_000, privacy=privacy), problem, seed=seed)
            for seed in range(4)
        ]
        assert np.mean([one.regret[-1] for one in runs]) < most
        assert all(one.value[-1] > 0.9 * problem.optimal_value for one in runs)
    verify(runs[0].certificate)


def test_it_learns_under_local_and_pure_privacy():
    """lock, 200 000 users; uniform play loses 211 000."""
    for privacy in (LocalDP(10.0, 1e-5), JointDP(10.0, delta=0.0)):
        done = run(UCRLVTRPlus(LOCK.public, episodes=200_000, privacy=privacy), LOCK, seed=0)
        assert done.regret[-1] < 20_000
        verify(done.certificate)


def test_variances_come_near_the_truth():
    """After 70 000 users without privacy: on average within 0.01 of the true ones (which are at
    most 1/4), from both regressions.
    """
    agent = UCRLVTRPlus(
        RAND.public,
        episodes=100_000,
        privacy=NoPrivacy(),
        bonus_scale=0.0,
        noise=noise_source("fast", 0),
    )
    while agent.users < 70_000:
        batch = agent.next_batch()
        agent.observe(RAND.count(batch.policy, batch.users, np.random.default_rng(agent.users)))
    planning = agent.algorithm
    V = agent.current_round().statistic.first._next_values
    features = planning.problem.features.feature_map
    parts = zip(
        (planning.bound.first, planning.bound.second),
        planning.bound.split(agent.released().values),
        strict=True,
    )
    estimates = [
        planning.problem.regularizer.estimate(*part.unpack(values), noise_std=0.0)
        for part, values in parts
    ]
    moments = [
        estimate_moment(features, RAND.kernels, f, one, NO_BONUS)
        for f, one in zip((V, V**2), estimates, strict=True)
    ]
    P = np.einsum("hi,isat->hsat", RAND.weights[:4], RAND.kernels)
    exact = np.einsum("hsat,ht->hsa", P, V**2) - np.einsum("hsat,ht->hsa", P, V) ** 2
    assert np.abs(largest_plausible(*moments, 1.0) - exact).mean() < 0.01
    assert exact.mean() > 0.02


def worst(agent):
    """What two users contribute who are as far apart as the bounds of both regressions allow, in
    all steps.
    """
    bound = agent.algorithm.bound
    parts = [
        one.clip_and_add(np.arange(4), rows, np.zeros(4), np.ones(4, int), users=1)
        for rows in _far(bound.first.dimension)
        for one in (bound.first, bound.second)
    ]
    return bound.contribution(*parts[:2]).values, bound.contribution(*parts[2:]).values


def _far(dimension):
    return np.tile(1e9 * np.eye(dimension)[0], (4, 1)), np.tile(1e9 * np.eye(dimension)[1], (4, 1))


@pytest.mark.parametrize("relation", list(Relation))
def test_no_pair_of_users_exceeds_the_sensitivity_and_the_worst_attains_it(relation):
    agent = UCRLVTRPlus(LOCK.public, episodes=500, privacy=PRIVATE, noise=noise_source("fast", 0))
    agent.observe(LOCK.count(agent.next_batch().policy, 30, np.random.default_rng(0)))
    agent.next_batch()
    bound = agent.algorithm.bound
    rng = np.random.default_rng(1)
    stated = bound.sensitivity(relation)
    users = np.stack([agent.contribution(hostile(rng)).values for _ in range(300)])
    others = users if relation is Relation.REPLACE else np.zeros_like(users[:1])
    apart = users[:, None] - others[None]
    assert 0.5 * stated < np.linalg.norm(apart, axis=2).max() <= stated
    assert np.abs(apart).sum(axis=2).max() <= bound.l1_sensitivity(relation)
    one, other = worst(agent)
    distance = np.linalg.norm(one - (other if relation is Relation.REPLACE else 0.0))
    assert stated * (1 - 1e-3) <= distance <= stated
    assert stated == pytest.approx(
        math.sqrt(4 * (1 + 1 / 64) * (2 if relation is Relation.REPLACE else 1)), rel=1e-5
    )


def hostile(rng):
    """Possible and impossible trajectories, states and actions that do not exist, NaN rewards."""
    return Trajectories(
        rng.integers(-1, 21, size=(1, 6)), rng.integers(-1, 5, size=(1, 5)), np.full((1, 5), np.nan)
    )


def test_counts_and_trajectories_are_the_same_bits():
    users = LOCK.sample(LOCK.optimal_policy, 1, np.random.default_rng(0))
    for calibration in ("tight", "paper"):
        agent = UCRLVTRPlus(
            LOCK.public,
            episodes=100,
            privacy=PRIVATE,
            calibration=calibration,
            noise=noise_source("fast", 0),
        )
        agent.next_batch()
        counted = agent.contribution(valid_transitions(users, 5, 20, 4))
        np.testing.assert_array_equal(counted.values, agent.contribution(users).values)


def test_bad_settings_are_refused():
    for wrong, message in (
        ({"calibration": "loose"}, "tight, paper"),
        ({"bonus_scale": -1.0}, "bonus_scale"),
        ({"failure": 2.0}, "failure"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            UCRLVTRPlus(
                LOCK.public, episodes=10, privacy=PRIVATE, **({"calibration": "paper"} | wrong)
            )
