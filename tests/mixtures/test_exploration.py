"""Problems on which learners of mixtures once got stuck, with and without privacy."""

import numpy as np
import pytest

import confide
from confide.mixtures.linopt_po import LinOptPO
from confide.mixtures.linopt_vi import LinOptVI
from confide.mixtures.ucrl_vtr import UCRLVTR
from confide.privacy import JointDP, NoPrivacy
from confide.problems import LinearMixtureMDP


@pytest.mark.parametrize("privacy", [NoPrivacy(), JointDP(10.0, 1e-5)], ids=str)
@pytest.mark.parametrize("agent", [UCRLVTR, LinOptVI, LinOptPO])
def test_states_where_all_kernels_agree_do_not_hide_the_others(agent, privacy):
    """Most users are in absorbing states most of the time; rows of rounding errors from there once outweighed all others."""
    rng, (d, S, A, H) = np.random.default_rng(3), (7, 8, 3, 6)
    kernels, ends = rng.dirichlet(np.full(S, 0.1), size=(d, S, A)), np.arange(S - 3, S)
    kernels[:, ends] = np.eye(S)[ends][:, None]
    weights, rewards = rng.dirichlet(np.full(d, 0.3), size=H), np.zeros((H, S, A))
    rewards[:, ends] = np.array([0.0, 0.5, 1.0])[:, None]
    problem = LinearMixtureMDP(kernels, weights, rewards, np.eye(S)[0])
    found = confide.run(agent(problem.public, episodes=20_000, privacy=privacy), problem)
    late = np.diff(found.curve("regret", np.array([15_000, 20_000])))[0] / 5000
    assert late < 0.02 * (problem.optimal_value - problem.uniform_value)
