"""LinUCB: printed and tight."""

import pytest

import confide
from confide.agents import LinUCB
from confide.errors import InvalidParameter
from confide.privatizers import every
from confide.problems import linear_bandit

WORLD = linear_bandit(5, 10, population=512)


def run_of(privacy, episodes=2_000, **more):
    return confide.run(
        LinUCB(WORLD.public, episodes=episodes, privacy=privacy, **more), WORLD, seed=0
    )


def test_tight_learns_and_its_bonus_explores():
    run = run_of(confide.JointDP(10.0, 1e-5))
    assert run.regret[-1] < 0.15 * 2_000 * (run.optimal_value - run.uniform_value)
    assert run.policy.widths is not None


def test_printed_constants_keep_far_less_epsilon_than_was_asked_for():
    run = run_of(
        confide.JointDP(1.0, 1e-5), episodes=400, calibration="paper", schedule=every(20, 400)
    )
    assert 0.01 < run.certificate.epsilon < 0.1
    local = LinUCB(
        WORLD.public, episodes=400, privacy=confide.LocalDP(1.0, 1e-5), calibration="paper"
    )
    assert 0.1 < confide.explain(local).agents[0].epsilon < 0.5


def test_printed_without_privacy_is_linucb():
    run = run_of(
        confide.NoPrivacy(), calibration="paper", schedule=every(20, 2_000), bonus_scale=0.1
    )
    assert run.regret[-1] < 0.15 * 2_000 * (run.optimal_value - run.uniform_value)


def test_there_is_no_print_for_pure_privacy():
    for privacy in (confide.JointDP(1.0, delta=0.0), confide.LocalDP(1.0, delta=0.0)):
        with pytest.raises(InvalidParameter, match="the papers print no constants"):
            LinUCB(WORLD.public, episodes=100, privacy=privacy, calibration="paper")
