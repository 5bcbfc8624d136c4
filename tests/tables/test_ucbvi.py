"""The papers' learners of tables: with tight noise they learn, with printed noise they play at random, and they say so beforehand."""

import numpy as np
import pytest

import confide
from confide.agents import DPUCBVI, LDPOBI, PUCB, UCBPO, UCBVI
from confide.errors import InvalidParameter
from confide.privatizers import every
from confide.problems import TabularMDP, double_chain, lock, riverswim, riverswim_stage

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


@pytest.mark.parametrize(
    ("kind", "privacy"),
    [
        (PUCB, confide.JointDP(1.0, 1e-5, relation="null")),
        (UCBVI, confide.JointDP(1.0, 1e-5, relation="null")),
        (LDPOBI, confide.LocalDP(1.0, delta=0.0)),
        (DPUCBVI, confide.JointDP(1.0, 1e-5, relation="null")),
    ],
    ids=["pucb", "ucb-vi", "ldp-obi", "dp-ucbvi"],
)
def test_as_printed_it_plays_at_random(kind, privacy):
    """Every Q is at its ceiling, so that actions are equally good; uniform play has 1. Another bonus scale is another algorithm."""
    assert lost(
        kind, RIVER, privacy, episodes=500, seeds=[0], calibration="paper"
    ) == pytest.approx(1, abs=0.02)


@ALL
def test_as_printed_without_privacy_it_learns_a_small_table(kind):
    """The printed bonus for sampling alone takes this long: a bandit with two arms, whose rewards are always 0 and always 1."""
    arms = TabularMDP(
        np.ones((1, 2, 1)), np.array([[0.0, 1.0]]), [1.0], horizon=1, stochastic_rewards=True
    )
    made = {"calibration": "paper", "schedule": every(10, 5_000)}
    assert lost(kind, arms, confide.NoPrivacy(), episodes=5_000, seeds=[0], **made) < 0.6


def test_an_explanation_says_when_learning_can_start():
    agent = PUCB(RIVER.public, episodes=20_000, privacy=PRIVATE, calibration="paper")
    said = str(confide.explain(agent, PUCB(RIVER.public, episodes=20_000, privacy=PRIVATE)))
    words = " ".join(said.replace("│", " ").split())
    assert "A run is refused" in words and "epsilon = 1.33" in words
    assert (
        "3.43e+04" in agent.describe().planning
        and "from 15,140,383 users on" in agent.describe().planning
    )


@ALL
def test_it_is_for_tables_and_its_arguments_are_checked(kind):
    with pytest.raises(InvalidParameter, match="needs a table"):
        kind(lock().public, episodes=10, privacy=PRIVATE)
    with pytest.raises(InvalidParameter, match="calibration must be one of"):
        kind(RIVER.public, episodes=10, privacy=PRIVATE, calibration="loose")
    with pytest.raises(InvalidParameter, match="bonus_scale"):
        kind(RIVER.public, episodes=10, privacy=PRIVATE, bonus_scale=-1.0)


@ALL
def test_a_known_end_is_not_explored(kind):
    """State 1 ends the episode: no bonus there, whatever was counted, so that staying in state 0, which earns, is found."""
    moves = np.array([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 1.0], [0.0, 1.0]]])
    problem = TabularMDP(
        moves, [[0.5, 0.6], [0.0, 0.0]], [1.0, 0.0], horizon=5, terminal=np.array([False, True])
    )
    run = confide.run(kind(problem.public, episodes=5_000, privacy=PRIVATE), problem, seed=0)
    assert (run.policy.probabilities()[:4, 0, 0] > 0.99).all()


@ALL
def test_what_the_end_earns_is_known(kind):
    """As in an environment whose rewards are costs: its end earns 1 at each step, all other states 1/2."""
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 0] = moves[0, 1, 1] = moves[1, 0, 0] = moves[1, 1, 2] = 1.0
    moves[2, :, 2] = 1.0
    rewards, ends = np.array([[0.5] * 2, [0.5] * 2, [1.0] * 2]), [False, False, True]
    costs = TabularMDP(moves, rewards, [1, 0, 0], horizon=6, stochastic_rewards=True, terminal=ends)
    assert lost(kind, costs, confide.NoPrivacy(), seeds=[0]) < 0.1


@ALL
def test_two_steps_that_differ_are_not_taken_for_one(kind):
    assert lost(kind, TWO_STEPS, confide.NoPrivacy(), seeds=[0]) < 0.2
