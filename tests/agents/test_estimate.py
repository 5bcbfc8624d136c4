"""The estimate of memory and planning time. `benchmarks/memory.py` compares it with what runs
really take.
"""

import time
import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest

import confide
from confide import _memory
from confide.agents.catalogue import (
    AGENTS,
    agent_class,
    fits,
    make_agent,
    private_agents,
)
from confide.agents.estimate import (
    estimate_agent,
    estimate_resources,
    refuse_above,
    refuse_what_does_not_fit,
)
from confide.errors import InvalidParameter
from confide.learning.resources import COMPILED
from confide.mechanisms.sources import noise_source
from confide.problems import make, riverswim
from confide.problems.catalogue import PROBLEMS
from confide.problems.observations import FeaturesPublic
from confide.problems.sizes import ProblemSizes, sizes_by_name, sizes_of
from confide.trajectory import Trajectories

PRIVACY = confide.JointDP(1.0, 1e-5)
LARGE_TABLE = ProblemSizes(family="table", horizon=20, states=10_000, actions=2)


def estimate(agent, problem, privacy=PRIVACY, **options):
    return estimate_resources(agent, problem, episodes=20_000, privacy=privacy, **options)


def listed_support(states, successors):
    """As many successors for each state and action, as rows (s, a, s')."""
    rows = np.indices((states, 2, successors)).reshape(3, -1).T
    rows[:, 2] = (rows[:, 0] + rows[:, 2]) % states
    return rows


def test_a_stated_support_needs_memory_in_proportion_to_it():
    full = estimate("tabular-psrl", LARGE_TABLE)
    sparse = estimate("tabular-psrl", LARGE_TABLE, support=listed_support(10_000, 10))
    assert full.memory > 20e9
    assert sparse.memory < 2e9
    wider = estimate("tabular-psrl", LARGE_TABLE, support=np.ones((10_000, 10_000), dtype=bool))
    assert wider == full


def test_an_agent_that_exists_needs_memory_in_proportion_to_its_stated_support(monkeypatch):
    """The same estimate decides before an agent is made and before it is run."""
    problem = riverswim(states=1000)
    support = problem.transitions.dense()[0] > 0
    agent = make_agent("tabular-psrl", problem, episodes=200, privacy=PRIVACY, support=support)
    stated = estimate_resources(
        "tabular-psrl", problem, episodes=200, privacy=PRIVACY, support=support
    )
    assert estimate_agent(agent, problem) == stated
    full = estimate_resources("tabular-psrl", problem, episodes=200, privacy=PRIVACY)
    assert stated.memory < full.memory / 2
    monkeypatch.setattr(_memory, "available_memory", lambda: full.memory / 1.6)
    assert confide.run(agent, problem, seed=0).complete


def test_an_estimate_allocates_nothing_of_the_problem_size():
    huge = ProblemSizes(family="table", horizon=100, states=10**6, actions=100)
    estimate("tabular-psrl", huge)
    tracemalloc.start()
    started = time.perf_counter()
    resources = estimate("tabular-psrl", huge)
    seconds = time.perf_counter() - started
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert resources.memory > 1e15
    assert peak < 10**6
    assert seconds < 1


@pytest.mark.parametrize("name", private_agents())
def test_every_learner_of_the_catalogue_has_an_estimate(name):
    family = AGENTS[name].profile.family
    problem = next(
        make(other)
        for other, builder in PROBLEMS.items()
        if builder.profile.family == family and fits(name, make(other).public)
    )
    privacy = confide.JointDP(1.0, 1e-5)
    agent = make_agent(name, problem, episodes=20_000, privacy=privacy)
    before = estimate(name, problem)
    assert before == estimate(agent_class(name), problem)
    assert 30e6 < before.memory < 300e6
    assert before.planning_seconds > 0
    assert estimate_agent(agent, problem).memory == pytest.approx(before.memory, rel=0.02)


@pytest.mark.parametrize("name", [name for name in PROBLEMS if name != "icu-sepsis"])
def test_sizes_by_name_are_those_of_the_problem(name):
    horizon = (
        7
        if PROBLEMS[name].profile.family != "linear bandit"
        and name not in ("deep-sea", "lock-rewards")
        else None
    )
    by_name = sizes_by_name(name, horizon)
    sizes = sizes_of(make(name, horizon=horizon))
    assert (
        by_name.memory > 0 or sizes.states == 0 or PROBLEMS[name].profile.family == "linear control"
    )
    assert (by_name.horizon, by_name.states, by_name.actions) == (
        sizes.horizon,
        sizes.states,
        sizes.actions,
    )
    assert (by_name.dimension, by_name.stationary, by_name.known_rewards) == (
        sizes.dimension,
        sizes.stationary,
        sizes.known_rewards,
    )


@pytest.mark.parametrize(
    "name", ["lock-rewards", "garnet", "latent", "linear-bandit", "oscillator"]
)
def test_sizes_of_a_file_are_read_from_its_headers(name, tmp_path, monkeypatch):
    problem = make(name)
    problem.save(tmp_path / "problem.npz")
    monkeypatch.setattr("confide.problems.sizes.make", None)  # the problem itself is not read
    by_file = sizes_by_name(str(tmp_path / "problem.npz"))
    sizes = sizes_of(problem)
    for field in (
        "family",
        "horizon",
        "states",
        "actions",
        "dimension",
        "reward_dimension",
        "stationary",
        "known_rewards",
    ):
        assert getattr(by_file, field) == getattr(sizes, field), field


def test_a_problem_that_is_too_large_is_estimated_by_name():
    resources = estimate("likelihood-vi", "lock", horizon=10**6)
    assert resources.problem > 10e9
    with pytest.raises(
        InvalidParameter,
        match=r"tabular-psrl needs about 37 GB.*at most 1 GB: choose a problem with fewer states",
    ):
        refuse_above(estimate("tabular-psrl", LARGE_TABLE), 10**9, "tabular-psrl", LARGE_TABLE)


def test_what_needs_more_than_the_available_memory_is_refused(monkeypatch):
    resources = estimate("tabular-psrl", LARGE_TABLE)
    monkeypatch.setattr(_memory, "available_memory", lambda: resources.memory / 0.81)
    with pytest.raises(
        InvalidParameter,
        match=r"80% of the available memory are .*: choose a problem with fewer states, or state",
    ):
        refuse_what_does_not_fit(resources, "tabular-psrl", LARGE_TABLE)
    monkeypatch.setattr(_memory, "available_memory", lambda: resources.memory / 0.79)
    refuse_what_does_not_fit(resources, "tabular-psrl", LARGE_TABLE)
    monkeypatch.setattr(_memory, "available_memory", lambda: None)
    refuse_what_does_not_fit(resources, "tabular-psrl", LARGE_TABLE)


def test_stored_features_are_estimated():
    """Rows of users who are stored and shown: measured against the estimate, without the compiled
    loops.
    """
    public = FeaturesPublic(lambda _: np.zeros((2, 30)), 5, 2, 30)
    users = 40_000
    chunk = 2**23 // (6 * 2 * 30)
    stated = estimate_resources("lsvi-ucb", public, episodes=users, privacy=PRIVACY)
    agent = make_agent(
        "lsvi-ucb", SimpleNamespace(public=public, name="x"), episodes=users, privacy=PRIVACY
    )
    agent.noise = noise_source("fast", 0)
    shown = np.random.default_rng(0).normal(size=(chunk, 6, 2, 30))
    tracemalloc.start()
    while agent.users < users:
        size = min(agent.next_batch().users, chunk)
        agent.observe(Trajectories(shown[:size], np.zeros((size, 5)), np.zeros((size, 5))))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert 0.5 < peak / (stated.agent - COMPILED) < 1.1
    # The agent's own schedule has larger batches at the end than the usual one, or smaller ones.
    assert estimate_agent(agent, public).agent == pytest.approx(stated.agent, rel=0.3)


def test_more_stored_features_than_fit_are_refused_before_a_run():
    public = FeaturesPublic(lambda _: np.zeros((4, 500)), 50, 4, 500)
    needed = estimate_resources("lsvi-ucb", public, episodes=10**6, privacy=PRIVACY)
    assert needed.memory > 1e6 * 50 * 4 * 500 * 4
    with pytest.raises(InvalidParameter, match="fewer users or features"):
        refuse_what_does_not_fit(needed, "lsvi-ucb", public)
