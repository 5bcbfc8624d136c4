"""The noise of calibration="paper", measured in releases without data: every entry of every matrix
and vector.

Of each entry 400 first releases are drawn, so its standard deviation is known to 3.5 % (Gaussian
noise) or 5.6 % (Laplace noise). Entries are within 5 standard errors, which fails for one of 200
entries with probability 1.2e-4 if everything is right. All entries of a kind together are within 4
%, so a scale that is wrong by 20 %, or by sqrt(2) off the diagonal, is rejected.
"""

import math

import numpy as np
import pytest

from confide.mechanisms.sources import noise_source
from confide.mixtures.linopt_po import LinOptPO
from confide.mixtures.linopt_vi import LinOptVI
from confide.mixtures.printed import MixtureSetting, paper_constants, printed, printed_plus
from confide.mixtures.ucrl_vtr import UCRLVTR
from confide.mixtures.ucrl_vtr_plus import UCRLVTRPlus
from confide.privacy import JointDP
from confide.problems import lock, lock_rewards
from confide.trajectory import Trajectories

KNOWN = lock(0)
LEARNED = lock_rewards(0)
JOINT = JointDP(1.0, 1e-5)
PURE = JointDP(1.0, delta=0.0)
SILENT = Trajectories(np.full((1, 6), -1), np.full((1, 5), -1), np.zeros((1, 5)))
DRAWS = 400
# standard errors of a std, times sqrt(DRAWS)
GAUSSIAN = 1 / math.sqrt(2)
LAPLACE = math.sqrt(5) / 2


def first_releases(agent, problem, privacy, **more):
    """The values of the first release, of agents that differ in their noise only."""
    collected = []
    for seed in range(DRAWS):
        one = agent(
            problem.public,
            episodes=2,
            privacy=privacy,
            calibration="paper",
            noise=noise_source("fast", seed),
            **more,
        )
        while one.released().generation == 0:
            one.next_batch()
            one.observe(SILENT)
        collected.append(one.released().values)
    return one, np.stack(collected)


def unpack(bound, values):
    """Lambda [draw, problem, i, j] and u [draw, problem, i]."""
    both = [bound.unpack(each) for each in values]
    return np.stack([one for one, _ in both]), np.stack([one for _, one in both])


def check(entries, scale, error):
    """Entries [draw, ...] of noise with this standard deviation."""
    stds = entries.reshape(len(entries), -1).std(axis=0)
    assert np.abs(stds / scale - 1).max() < 5 * error / math.sqrt(len(entries))
    assert math.sqrt((stds**2).mean()) == pytest.approx(scale, rel=0.04)


def split(Lambda):
    """Entries on the diagonal, and above it."""
    d = Lambda.shape[-1]
    np.testing.assert_array_equal(Lambda, Lambda.swapaxes(-1, -2))
    above = np.triu_indices(d, 1)
    return np.einsum("...ii->...i", Lambda), Lambda[..., above[0], above[1]]


@pytest.mark.parametrize("agent", [LinOptVI, LinOptPO])
def test_linopt_has_the_printed_noise_on_every_entry(agent):
    """N(0, sigma^2) on each entry (i, j), i <= j [Zhou22, Sec. 6.1], for both regressions."""
    one, values = first_releases(agent, LEARNED, JOINT)
    printed_noise = paper_constants(JOINT, episodes=2, horizon=5, dimension=5, reward_dimension=3)
    bound = one.algorithm.bound
    parts = [bound.split(each) for each in values]
    Lambda_p, u_p = unpack(bound.first, [first for first, _ in parts])
    Lambda_r, u_r = unpack(bound.second, [second for _, second in parts])
    # (sqrt(d1) H)^2.
    unit = 5 * 25
    for entries in split(unit * Lambda_p):
        check(entries, printed_noise.sigma_p1, GAUSSIAN)
    check(unit * u_p, printed_noise.sigma_p2, GAUSSIAN)
    for entries in split(Lambda_r):
        check(entries, printed_noise.sigma_r, GAUSSIAN)
    check(u_r, printed_noise.sigma_r, GAUSSIAN)


def test_ucrl_vtr_has_the_printed_noise_on_every_entry():
    """(Z' + Z'^T)/sqrt(2) on Lambda and sigma_B on u [Luyo21, Cor. 5]."""
    one, values = first_releases(UCRLVTR, KNOWN, JOINT)
    sigma = printed(JOINT, MixtureSetting(2, 5, 5)).sigma
    Lambda, u = unpack(one.algorithm.bound, values)
    diagonal, above = split(Lambda)
    check(diagonal, math.sqrt(2) * sigma, GAUSSIAN)
    check(above, sigma, GAUSSIAN)
    check(u, sigma, GAUSSIAN)


def test_ucrl_vtr_plus_has_the_printed_noise_on_every_entry():
    """The same for both regressions, with sigma_{B,1} and sigma_{B,2} [Luyo21, Cor. 10]."""
    one, values = first_releases(UCRLVTRPlus, KNOWN, JOINT)
    sigmas = printed_plus(JOINT, MixtureSetting(2, 5, 5)).sigma
    Lambda, u = unpack(one.algorithm.bound, values)
    for part, unit, sigma in zip((slice(0, 4), slice(4, 8)), (1.0, 5**4 / 5), sigmas, strict=True):
        diagonal, above = split(unit * Lambda[:, part])
        check(diagonal, math.sqrt(2) * sigma, GAUSSIAN)
        check(above, sigma, GAUSSIAN)
        check(unit * u[:, part], sigma, GAUSSIAN)


def test_pure_noise_is_laplace_in_proportion_to_the_l1_sensitivity_of_each_statistic():
    """Lap(sigma_B) on every entry of Lambda, mirrored, and less on u, as its sensitivity is less
    [Luyo21, C.4, F.2, Claim 29].
    """
    one, values = first_releases(UCRLVTR, KNOWN, PURE)
    constants = printed(PURE, MixtureSetting(2, 5, 5))
    Lambda, u = unpack(one.algorithm.bound, values)
    for entries in split(Lambda):
        check(entries, math.sqrt(2) * constants.sigma, LAPLACE)
    # sqrt(2 d) H^2 against sqrt(d (d + 3) / 2) H^2
    check(u, math.sqrt(2) * constants.sigma / math.sqrt(2), LAPLACE)
    spread = np.abs(Lambda).mean() / Lambda.std()
    # a Gaussian has 0.80.
    assert spread == pytest.approx(1 / math.sqrt(2), abs=0.02)


def test_pure_noise_of_ucrl_vtr_plus_is_laplace_on_every_entry():
    one, values = first_releases(UCRLVTRPlus, KNOWN, PURE)
    sigmas = printed_plus(PURE, MixtureSetting(2, 5, 5)).sigma
    Lambda, u = unpack(one.algorithm.bound, values)
    for part, unit, sigma in zip((slice(0, 4), slice(4, 8)), (1.0, 5**4 / 5), sigmas, strict=True):
        for entries in split(unit * Lambda[:, part]):
            check(entries, math.sqrt(2) * sigma, LAPLACE)
        check(unit * u[:, part], sigma, LAPLACE)
