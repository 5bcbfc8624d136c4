"""A mixture with many states and few successors fits into little memory.

`benchmarks/large_mixtures.py` measures 100,000 states.
"""

import tracemalloc

import numpy as np
import pytest

from confide.agents.estimate import estimate_resources
from confide.audit import verify
from confide.errors import InvalidParameter
from confide.learning.resources import COMPILED
from confide.mixtures.ucrl_vtr import UCRLVTR
from confide.privacy import JointDP
from confide.problems import FeatureMixtureMDP, SuccessorFeatures
from confide.problems.sizes import ProblemSizes
from confide.runs.runner import run

STATES = 20_000
HORIZON = 4
PRIVATE = JointDP(1.0, 1e-5)


def drift(state, action):
    """Up or down by one state, more often up for one of the actions."""
    sign = 1.0 if action else -1.0
    return [(state + 1) % STATES, (state - 1) % STATES], [[0.5, 0.4 * sign], [0.5, -0.4 * sign]]


@pytest.fixture(scope="module")
def problem():
    features = SuccessorFeatures.from_function(drift, states=STATES, actions=2, dimension=2)
    rewards = np.random.default_rng(0).random((STATES, 2))
    return FeatureMixtureMDP(
        features,
        np.tile([1.0, 0.7], (HORIZON, 1)),
        rewards,
        np.full(STATES, 1 / STATES),
        weight_bound=1.5,
    )


@pytest.mark.parametrize(("calibration", "users"), [("paper", 5), ("tight", 5_000)])
def test_memory_stays_near_the_estimate(problem, calibration, users):
    """Kernels would have 1.6e9 numbers.

    Measured are 8 and 10 MB; the estimate is 81 MB, of which 62 MB are compiled loops.
    """
    agent_of = UCRLVTR
    run(agent_of(problem.public, episodes=5, privacy=PRIVATE, calibration=calibration), problem)
    tracemalloc.start()
    try:
        agent = agent_of(problem.public, episodes=users, privacy=PRIVATE, calibration=calibration)
        done = run(agent, problem, seed=0)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    verify(done.certificate)
    estimated = estimate_resources(
        "ucrl-vtr", problem, episodes=users, privacy=PRIVATE, calibration=calibration
    )
    assert peak < estimated.memory - COMPILED < 40 * 2**20
    assert peak < 20 * 2**20


def test_it_learns_privately(problem):
    """5,000 users; the private learner was measured at 0.002 times the regret of uniform play."""
    agent = UCRLVTR(problem.public, episodes=5_000, privacy=PRIVATE)
    uniform = 5_000 * (problem.optimal_value - problem.uniform_value)
    assert run(agent, problem, seed=0).regret[-1] < 0.05 * uniform


def test_the_estimate_counts_successors_and_not_pairs_of_states(problem):
    sparse = estimate_resources("ucrl-vtr", problem, episodes=1_000, privacy=PRIVATE).memory
    dense = ProblemSizes(family="mixture", horizon=HORIZON, states=STATES, actions=2, dimension=2)
    assert (
        estimate_resources("ucrl-vtr", dense, episodes=1_000, privacy=PRIVATE).memory > 50 * sparse
    )


def test_a_table_of_features_of_that_size_is_refused_before_it_is_made():
    from confide.problems import riverswim

    with pytest.raises(InvalidParameter, match="are too large"):
        FeatureMixtureMDP.from_table(riverswim(states=400, horizon=3))
