"""Problems on which learners of mixtures once got stuck, with and without privacy."""

import numpy as np
import pytest

import confide
from confide.mixtures.likelihood_vi import LikelihoodVI
from confide.mixtures.linopt_po import LinOptPO
from confide.mixtures.linopt_vi import LinOptVI
from confide.mixtures.questions.questions_vi import QuestionsVI
from confide.mixtures.ucrl_vtr import UCRLVTR
from confide.mixtures.ucrl_vtr_plus import UCRLVTRPlus
from confide.privacy import JointDP, NoPrivacy
from confide.problems import LinearMixtureMDP


def late_loss(agent, problem, privacy):
    """The regret of the last quarter of 20 000 users, against that of uniform play."""
    run = confide.run(agent(problem.public, episodes=20_000, privacy=privacy), problem)
    late = np.diff(run.curve("regret", np.array([15_000, 20_000])))[0] / 5000
    return late / (problem.optimal_value - problem.uniform_value)


@pytest.mark.parametrize("privacy", [NoPrivacy(), JointDP(10.0, 1e-5)], ids=str)
@pytest.mark.parametrize("agent", [UCRLVTR, UCRLVTRPlus, LinOptVI, LinOptPO])
def test_states_where_all_kernels_agree_do_not_hide_the_others(agent, privacy):
    """Most users are in absorbing states most of the time; rows of rounding errors from there once
    outweighed all others.
    """
    rng = np.random.default_rng(3)
    d = 7
    S = 8
    A = 3
    H = 6
    kernels = rng.dirichlet(np.full(S, 0.1), size=(d, S, A))
    ends = np.arange(S - 3, S)
    kernels[:, ends] = np.eye(S)[ends][:, None]
    weights = rng.dirichlet(np.full(d, 0.3), size=H)
    rewards = np.zeros((H, S, A))
    rewards[:, ends] = np.array([0.0, 0.5, 1.0])[:, None]
    assert (
        late_loss(agent, LinearMixtureMDP(kernels, weights, rewards, np.eye(S)[0]), privacy) < 0.02
    )


@pytest.mark.parametrize("privacy", [NoPrivacy(), JointDP(10.0, 1e-5)], ids=str)
@pytest.mark.parametrize(
    "agent", [UCRLVTR, UCRLVTRPlus, LinOptVI, LinOptPO, LikelihoodVI, QuestionsVI]
)
def test_what_lies_behind_several_apparently_bad_steps_is_found(agent, privacy):
    """Action 0 is safe and pays 0.25 for ever.

    Three hidden actions in a row lead to a state that pays 1; all others lead back.
    """
    d = 3
    H = 8
    goal = 3
    safe = 4
    S = 5
    A = d + 1
    kernels = np.zeros((d, S, A, S))
    kernels[:, [goal, safe], :, [goal, safe]] = 1.0
    for s in range(goal):
        kernels[:, s, 0, safe] = 1.0
        for i in range(d):
            kernels[i, s, 1:, 0] = 1.0
            kernels[i, s, 1 + i] = np.eye(S)[s + 1]
    weights = np.full((H, d), 0.02)
    rewards = np.zeros((H, S, A))
    weights[np.arange(H), (2 + 2 * np.arange(H)) % d] = 0.96
    rewards[:, safe] = 0.25
    rewards[:, goal] = 1.0
    assert (
        late_loss(agent, LinearMixtureMDP(kernels, weights, rewards, np.eye(S)[0]), privacy) < 0.02
    )
