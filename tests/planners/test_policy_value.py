"""Values of policies in a model."""

import numpy as np
import pytest

from confide.planners.policy_value import FiniteModel, PlayedRound
from confide.policy import StochasticPolicy, TabularPolicy

pytestmark = pytest.mark.kernels

RNG = np.random.default_rng(3)
H = 4
S = 3
A = 2
MODEL = FiniteModel(
    RNG.dirichlet(np.ones(S), (H - 1, S, A)), RNG.random((H, S, A)), RNG.dirichlet(np.ones(S))
)
POLICIES = (
    TabularPolicy(RNG.integers(0, A, (H, S)), A),
    StochasticPolicy(RNG.dirichlet(np.ones(A), (H, S))),
)


def test_a_value_is_the_reward_at_expected_visits():
    for policy in POLICIES:
        value, _ = MODEL.value(policy)
        assert value == pytest.approx((MODEL.visits(policy) * MODEL.rewards).sum())
    played = PlayedRound(POLICIES, (3.0, 1.0), 0)
    assert MODEL.mean_value(played) == pytest.approx(
        0.75 * MODEL.value(POLICIES[0])[0] + 0.25 * MODEL.value(POLICIES[1])[0]
    )
    assert MODEL.mean_visits(played).sum(axis=(1, 2)) == pytest.approx(np.ones(H))


def test_slopes_are_the_derivative():
    played = PlayedRound(POLICIES, (0.5, 0.5), 0)
    step = 1e-6
    slopes = MODEL.slopes(played)
    for at in [(0, 1, 0, 2), (2, 0, 1, 1)]:
        more = MODEL.transitions.copy()
        more[at] += step
        moved = FiniteModel(more, MODEL.rewards, MODEL.start).mean_value(played)
        assert (moved - MODEL.mean_value(played)) / step == pytest.approx(slopes[at], rel=1e-4)


def test_nothing_is_better_than_the_best():
    best, uniform = MODEL.bounds()
    assert best > max(MODEL.value(policy)[0] for policy in POLICIES) and best > uniform
