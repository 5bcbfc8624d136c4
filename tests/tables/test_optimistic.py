"""The optimistic agents for tabular MDPs learn, and refuse constants that nobody has compared."""

import numpy as np
import pytest

import confide
from confide.agents import DPUCBVI, LDPOBI, PUCB, UCBPO, UCBVI
from confide.errors import InvalidParameter
from confide.problems import TabularMDP, double_chain, lock, riverswim, riverswim_stage

pytestmark = pytest.mark.kernels

RIVER = riverswim()
COINS = TabularMDP(
    RIVER.transitions, RIVER.rewards, RIVER.start, stochastic_rewards=True, name="coins"
)
PRIVATE = confide.JointDP(1.0, 1e-5)
MOVES = np.tile(np.eye(3)[:, None], (2, 1, 2, 1))
# what the second step does is worth nothing
MOVES[0, 0], MOVES[1, 0] = [[0.9, 0.1, 0.0], [0.8, 0.0, 0.2]], np.eye(3)[1:]
TWO_STEPS = TabularMDP(
    MOVES, np.array([np.zeros((3, 2)), [[0.0, 0.0], [1.0, 1.0], [0.6, 0.6]]]), [1, 0, 0]
)
ALL = pytest.mark.parametrize("kind", [PUCB, UCBVI, UCBPO, LDPOBI, DPUCBVI])


def lost(kind, problem, privacy, episodes=20_000, seeds=range(2), **more):
    """Regret relative to uniform play's."""
    done = [
        confide.run(
            kind(problem.public, episodes=episodes, privacy=privacy, **more), problem, seed=seed
        )
        for seed in seeds
    ]
    return np.mean(
        [run.regret[-1] / (episodes * (run.optimal_value - run.uniform_value)) for run in done]
    )


@ALL
@pytest.mark.parametrize(
    ("problem", "privacy", "most"),
    [
        (RIVER, confide.NoPrivacy(), 0.02),
        (RIVER, PRIVATE, 0.1),
        (RIVER, confide.LocalDP(10.0, delta=0.0), 0.3),
        (COINS, PRIVATE, 0.4),
        (double_chain(), confide.NoPrivacy(), 0.05),
        (riverswim_stage(), confide.JointDP(10.0, 1e-5), 0.3),
    ],
    ids=["none", "joint", "local", "rewards", "double chain", "stage"],
)
def test_it_learns_with_the_least_noise(kind, problem, privacy, most):
    assert lost(kind, problem, privacy) < most


@ALL
def test_without_a_source_there_are_no_constants_of_the_paper(kind):
    with pytest.raises(InvalidParameter, match="nobody has compared its constants"):
        kind(RIVER.public, episodes=10, privacy=PRIVATE, calibration="paper")
    assert kind.calibrations == ("tight",)


def test_the_step_of_policy_optimisation_is_an_option():
    agent = UCBPO(RIVER.public, episodes=10, privacy=PRIVATE, step=0.5)
    assert agent.describe().planning.endswith("softmax policies, step 0.5 per user")
    with pytest.raises(InvalidParameter, match="step must be"):
        UCBPO(RIVER.public, episodes=10, privacy=PRIVATE, step=0.0)


@ALL
def test_it_is_for_tables_and_its_arguments_are_checked(kind):
    with pytest.raises(InvalidParameter, match="public must be the public part of a tabular MDP"):
        kind(lock().public, episodes=10, privacy=PRIVATE)
    with pytest.raises(InvalidParameter, match="calibration must be one of"):
        kind(RIVER.public, episodes=10, privacy=PRIVATE, calibration="loose")
    with pytest.raises(InvalidParameter, match="bonus_scale"):
        kind(RIVER.public, episodes=10, privacy=PRIVATE, bonus_scale=-1.0)


@ALL
def test_a_known_end_is_not_explored(kind):
    """State 1 ends the episode, so it has no bonus, whatever was counted there.

    The agent therefore learns to stay in state 0, which earns a reward.
    """
    moves = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    problem = TabularMDP(
        moves, [[0.5, 0.6], [0.0, 0.0]], [1.0, 0.0], horizon=5, terminal=np.array([False, True])
    )
    run = confide.run(kind(problem.public, episodes=5_000, privacy=PRIVATE), problem, seed=0)
    assert (run.policy.probabilities()[:4, 0, 0] > 0.99).all()


@ALL
def test_what_the_end_earns_is_known(kind):
    """The end earns 1 at each step, and all other states 1/2, as where rewards are costs."""
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 0] = moves[0, 1, 1] = moves[1, 0, 0] = moves[1, 1, 2] = 1.0
    moves[2, :, 2] = 1.0
    rewards = np.array([[0.5] * 2, [0.5] * 2, [1.0] * 2])
    ends = [False, False, True]
    costs = TabularMDP(moves, rewards, [1, 0, 0], horizon=6, stochastic_rewards=True, terminal=ends)
    assert lost(kind, costs, confide.NoPrivacy(), seeds=[0]) < 0.1


@ALL
def test_two_steps_that_differ_are_not_taken_for_one(kind):
    assert lost(kind, TWO_STEPS, confide.NoPrivacy(), seeds=[0]) < 0.2
