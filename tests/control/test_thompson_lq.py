"""Thompson sampling and certainty equivalence for linear systems: they learn, privately, and do not
do harm.
"""

import dataclasses

import numpy as np
import pytest

import confide
from confide.agents import CertaintyEquivalentLQ, ThompsonLQ
from confide.control.identification_planning import (
    Costs,
    Scenarios,
    SystemEstimate,
    certainty_equivalent_gains,
    clipping_limits,
)
from confide.errors import InvalidParameter
from confide.mechanisms.sources import noise_source
from confide.planners.riccati import riccati
from confide.privacy.bounded import NoiseLevel
from confide.privatizers import Schedule, every_episode
from confide.problems import LQSystem, glucose, lock, oscillator, thermal

PRIVATE = confide.JointDP(1.0, 1e-5)
BOTH = pytest.mark.parametrize("kind", [ThompsonLQ, CertaintyEquivalentLQ])


def regret(kind, system, privacy, episodes=100_000, seeds=range(2)):
    done = [
        confide.run(kind(system.public, episodes=episodes, privacy=privacy), system, seed=seed)
        for seed in seeds
    ]
    return np.mean([run.regret[-1] for run in done])


@BOTH
@pytest.mark.parametrize(
    ("system", "most"), [(oscillator(), 314), (thermal(), 366)], ids=["oscillator", "thermal"]
)
def test_private_regret_is_far_below_that_of_doing_nothing(kind, system, most):
    """Measured: 75 to 110 (standard deviations about 25). Doing nothing costs 18 088 and 8 838."""
    assert regret(kind, system, PRIVATE) < most


def test_regret_without_privacy_is_as_measured():
    """Measured over 5 seeds: 7.0 +- .6 and 9.2 +- .5. One run deviates by 1.3 and 1.1."""
    assert regret(ThompsonLQ, oscillator(), confide.NoPrivacy(), seeds=[0]) < 11
    assert regret(ThompsonLQ, thermal(), confide.NoPrivacy(), seeds=[0]) < 16


@BOTH
def test_with_too_few_users_nothing_is_explored(kind):
    """The gate: where exploring would not pay, everybody plays u = 0, and regret is that of doing
    nothing.
    """
    for episodes in (1, 100, 3000):
        run = confide.run(
            kind(glucose().public, episodes=episodes, privacy=PRIVATE), glucose(), seed=0
        )
        assert run.regret[-1] == pytest.approx(episodes * (run.optimal_value - run.uniform_value))


def test_where_no_input_is_worth_anything_nobody_tries_one():
    for system in (oscillator(horizon=1), LQSystem([[0.5]], [[0.3]], [[0.0]], [[0.1]], 5, 0.1)):
        run = confide.run(
            CertaintyEquivalentLQ(system.public, episodes=20_000, privacy=PRIVATE), system, seed=0
        )
        assert run.regret[-1] == pytest.approx(0.0, abs=1e-9)


HARD = {
    "unstable for long": LQSystem(
        [[1.07, 0.3], [0.0, 0.9]], [[0.1], [0.3]], np.eye(2), [[0.1]], 25, 0.1
    ),
    "weak inputs": LQSystem(
        [[0.6, -0.3], [0.3, 0.6]], [[0.02], [0.05]], np.eye(2), [[0.1]], 8, 0.1
    ),
    "dear inputs": LQSystem([[0.6, -0.3], [0.3, 0.6]], [[0.1], [0.3]], np.eye(2), [[10.0]], 8, 0.1),
}


def worst_cost(kind, system, seed):
    """The largest cost so far, at any moment of a run, relative to that of doing nothing."""
    run = confide.run(kind(system.public, episodes=8_000, privacy=PRIVATE), system, seed=seed)
    open_loop, gained = -system.uniform_value, system.optimal_value - system.uniform_value
    return (1 + run.regret / run.checkpoints / open_loop - gained / open_loop).max()


@pytest.mark.filterwarnings("ignore::confide.errors.GainBoundWarning")
@BOTH
@pytest.mark.parametrize("system", ["weak inputs", "dear inputs"])
def test_no_harm_is_done_where_little_is_known_or_to_be_gained(kind, system):
    """At every moment the cost is at most 1.05 times that of doing nothing: with 20 seeds it was at
    most 1.006 times as much.
    """
    assert max(worst_cost(kind, HARD[system], seed) for seed in range(2)) <= 1.05


@pytest.mark.filterwarnings("ignore::confide.errors.GainBoundWarning")
@BOTH
def test_harm_is_rare_where_the_system_is_unstable(kind):
    """The check admits what costs at most 1.05 times as much in 95 % of the systems that the
    release allows: so 5 % of runs may cost more.

    With 60 seeds 3 (ThompsonLQ) and 4 (CertaintyEquivalentLQ) did: one and two of them 55 times as
    much and more, the others at most 1.12 times. More than 2 of 5 seeds have a probability of 0.3 %
    if the rate is 1 in 15.
    """
    assert sum(worst_cost(kind, HARD["unstable for long"], seed) > 1.05 for seed in range(5)) <= 2


@pytest.mark.filterwarnings("ignore::confide.errors.GainBoundWarning")
def test_without_the_safety_check_runs_cost_more_than_allowed(monkeypatch):
    """The twin that the test above must reject: 232 to 2310 times the cost of doing nothing."""
    monkeypatch.setattr(Scenarios, "is_safe", lambda *_: True)
    monkeypatch.setattr("confide.control.identification_planning.EXCESS_ALLOWED", 1e9)
    assert all(worst_cost(ThompsonLQ, HARD["unstable for long"], seed) > 1.05 for seed in range(3))


@BOTH
def test_a_schedule_of_ones_own_has_the_gate_too(kind):
    system = glucose()
    agent = kind(
        system.public, episodes=1_000, privacy=PRIVATE, schedule=Schedule((50, 100, 500, 1_000))
    )
    run = confide.run(agent, system, seed=0)
    assert run.regret[-1] == pytest.approx(1_000 * (run.optimal_value - run.uniform_value))


def test_certain_beliefs_give_the_optimal_gains_and_uncertain_ones_are_careful():
    system = oscillator()
    costs = Costs(system.Q, system.R, system.horizon, system.noise_radius, 1.0, 5.0)
    theta = np.ascontiguousarray(np.concatenate([system.A, system.B], axis=1).T)
    optimal = riccati(system.A, system.B, system.Q, system.R, system.horizon)[1].gains
    np.testing.assert_allclose(
        certainty_equivalent_gains(SystemEstimate(theta, np.zeros((3, 3))), costs),
        optimal,
        atol=1e-12,
    )
    careful = certainty_equivalent_gains(SystemEstimate(theta, np.diag([0.0, 0.0, 1.0])), costs)
    assert np.linalg.norm(careful) < 0.3 * np.linalg.norm(optimal)
    assert not certainty_equivalent_gains(SystemEstimate(np.zeros((3, 2)), np.eye(3)), costs).any()


def test_clips_shrink_with_what_is_not_known():
    system, rng = oscillator(), np.random.default_rng(0)
    costs = Costs(system.Q, system.R, system.horizon, system.noise_radius, 1.0, 1.2)
    theta = np.ascontiguousarray(np.concatenate([system.A, system.B], axis=1).T)
    still = np.zeros((1, system.horizon, 1, 2))
    vague, sure = (
        clipping_limits(SystemEstimate(theta, scale * np.eye(3)), still, np.ones(3), costs, rng)[0]
        for scale in (0.1, 1e-6)
    )
    assert sure < 0.3 * vague


@BOTH
def test_problems_that_are_no_linear_systems_are_refused(kind):
    with pytest.raises(InvalidParameter, match="needs a linear system"):
        kind(lock(0).public, episodes=100, privacy=PRIVATE)


HOSTILE = {
    "another shape": {"open_guess": np.zeros((7, 2))},
    "gains of another system": {"open_gains": np.zeros((6, 5, 4, 9))},
    "no numbers": {"open_covariance": np.full((3, 3), np.nan)},
    "whole numbers": {"last": np.zeros(12, dtype=np.int64)},
    "too many leaves": {"std": np.zeros(500)},
    "a limit of nothing": {"open_clip": np.array(0.0)},
    "a scale of nothing": {"open_scales": np.array([1.0, 1.0, 0.0])},
    "users who are not there yet": {"total": np.array(10**9)},
}


@pytest.mark.parametrize("wrong", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_server_cannot_reach_into_a_device(wrong):
    system, privacy = oscillator(), confide.LocalDP(10.0, 1e-5)
    server = ThompsonLQ(
        system.public, episodes=200_000, privacy=privacy, noise=noise_source("fast", 0)
    )
    client, released = server.client(), server.released()
    memory = dict(server.current_round().memory)
    later = {"users": 500, "generation": 1, "noise": NoiseLevel(1.0, "gaussian")}
    client.plan(dataclasses.replace(released, memory=memory, **later))
    with pytest.raises(InvalidParameter, match="does not fit this problem"):
        client.plan(dataclasses.replace(released, memory=memory | wrong, **later))


def test_too_many_releases_and_memories_of_another_version_are_refused():
    """A schedule of thousands of leaves would never end, and a memory of another version fits
    nothing.
    """
    with pytest.raises(InvalidParameter, match="takes at most 128 releases, got 500"):
        CertaintyEquivalentLQ(
            oscillator().public, episodes=500, privacy=PRIVATE, schedule=every_episode(500)
        )
    agent = CertaintyEquivalentLQ(
        oscillator().public, episodes=500, privacy=PRIVATE, noise=noise_source("fast", 0)
    )
    older = dataclasses.replace(
        agent.released(), memory={"seed": np.array(0), "stds": np.zeros((0, 5))}
    )
    with pytest.raises(InvalidParameter, match="does not fit this problem"):
        agent.algorithm.plan(older)


def spring(gain_bound):
    """A mass on a spring, whose best gain is about 5."""
    A = 0.97 * np.array([[1.0, 0.1], [-0.4, 0.99]])
    return LQSystem(
        A,
        [[0.0], [0.1]],
        np.eye(2),
        [[0.01]],
        10,
        0.05,
        parameter_bound=3.0,
        gain_bound=gain_bound,
        name="spring",
    )


@pytest.mark.parametrize("controller", [ThompsonLQ, CertaintyEquivalentLQ, confide.agents.OFULQ])
def test_a_gain_bound_that_holds_the_controller_back_is_said(controller):
    """Without privacy: at 1.2 it loses 40 % of what could be saved, and says so; at 8 it learns,
    without a word.
    """
    world = spring(1.2)
    with pytest.warns(
        confide.errors.GainBoundWarning, match=r"gain_bound=1\.2 limits the controller"
    ):
        held = confide.run(
            controller(world.public, episodes=1000, privacy=confide.NoPrivacy()), world
        )
    world = spring(8.0)
    # warnings are errors here
    free = confide.run(controller(world.public, episodes=1000, privacy=confide.NoPrivacy()), world)
    gap = world.optimal_value - world.uniform_value
    assert world.optimal_value - held.value[-1] > 0.3 * gap
    assert world.optimal_value - free.value[-1] < 0.05 * gap
