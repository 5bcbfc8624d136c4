"""The tight form on mixtures of any features: which coordinates it learns, that it learns, and that
its bounds hold.
"""

import math

import numpy as np
import pytest
from feature_mixtures import signed_mixture

from confide.audit import verify
from confide.errors import InvalidParameter
from confide.mechanisms.sources import noise_source
from confide.mixtures.linopt_po import LinOptPO
from confide.mixtures.linopt_vi import LinOptVI
from confide.mixtures.requirements import learned_coordinates
from confide.mixtures.ucrl_vtr import UCRLVTR
from confide.mixtures.ucrl_vtr_plus import UCRLVTRPlus
from confide.mixtures.value_features import (
    fitted_features,
    known_features,
    reduced,
    summing_to_one,
    value_features,
)
from confide.privacy import JointDP, LocalDP, NoPrivacy, Relation
from confide.problems import FeatureMixtureMDP, SuccessorFeatures, TabularMDP, rand, riverswim
from confide.runs.runner import run
from confide.trajectory import Trajectories

SIGNED = signed_mixture(0, states=12, actions=4, horizon=6, length=0.5)
RAND = rand(0)
AGENTS = [UCRLVTR, UCRLVTRPlus, LinOptVI, LinOptPO]
PRIVATE = JointDP(1.0, 1e-5)


def as_features(problem):
    """The kernels of a mixture as features, so that agents do not know that weights are on the
    simplex.
    """
    features = SuccessorFeatures.from_dense(np.moveaxis(problem.kernels, 0, -1))
    return FeatureMixtureMDP(
        features, problem.weights, problem.rewards, problem.start, weight_bound=1.0
    )


def test_the_true_weights_have_coordinates_and_predict_the_true_values():
    for problem in (SIGNED, as_features(RAND), FeatureMixtureMDP.from_table(riverswim(states=4))):
        public = problem.public
        coordinates = learned_coordinates(public)
        scaled = coordinates.unit * problem.weights
        theta = coordinates.feature_map.coordinates(scaled)
        np.testing.assert_allclose(coordinates.feature_map.mixture(theta), scaled, atol=1e-9)
        assert np.linalg.norm(theta, axis=1).max() <= coordinates.largest_norm * (1 + 1e-9)
        assert coordinates.simplex is None
        values = np.random.default_rng(0).uniform(0, 3, size=(1, public.states))
        seen = value_features(
            coordinates.feature_map, known_features(public, coordinates.unit), values
        )
        expected = seen.offset[0] + seen.scale[0] * seen.rows[0] @ theta[0]
        exact = problem.truth.transitions.expect(0, values[0])
        np.testing.assert_allclose(expected, exact, atol=1e-9)


def test_kernels_leave_the_same_space_open_as_the_reduced_map():
    features = SuccessorFeatures.from_dense(np.moveaxis(RAND.kernels, 0, -1))
    feature_map = summing_to_one(features)
    usual = reduced(5)
    np.testing.assert_allclose(feature_map.origin, usual.origin, atol=1e-12)
    projections = [each.basis @ each.basis.T for each in (feature_map, usual)]
    np.testing.assert_allclose(*projections, atol=1e-12)


def test_a_table_has_one_equation_for_each_pair():
    problem = FeatureMixtureMDP.from_table(riverswim(states=4))
    assert learned_coordinates(problem.public).feature_map.dimension == 4 * 4 * 2 - 4 * 2


def test_features_without_possible_weights_or_without_choice_are_refused():
    impossible = SuccessorFeatures(2, 1, [0, 1, 2], [0, 1], [[1.0, 0.0], [2.0, 0.0]])
    with pytest.raises(InvalidParameter, match="no weights make the probabilities"):
        summing_to_one(impossible)
    certain = SuccessorFeatures(2, 1, [0, 1, 2], [0, 1], [[1.0, 0.0], [0.0, 1.0]])
    with pytest.raises(InvalidParameter, match="leave nothing to learn"):
        summing_to_one(certain)


def test_no_possible_row_is_clipped():
    coordinates = learned_coordinates(SIGNED.public)
    values = np.random.default_rng(1).uniform(0, 6, size=(1, SIGNED.states))
    features = known_features(SIGNED.public, coordinates.unit)
    seen, weights = fitted_features(coordinates.feature_map, features, values, balance=1.05)
    scaled = (values[0] - values.min()) / np.ptp(values)
    for row in range(SIGNED.states * SIGNED.actions):
        s, a = divmod(row, SIGNED.actions)
        after = features.successors[features.indptr[row] : features.indptr[row + 1]]
        offset = (seen.offset[0, s, a] - values.min()) / np.ptp(values)
        y = np.abs(scaled[after] - offset).max() * 1.05 / math.sqrt(2)
        longest = weights[0, s, a] * math.hypot(np.linalg.norm(seen.rows[0, s, a]), y)
        assert longest == pytest.approx(1.0)


@pytest.mark.parametrize("agent", AGENTS)
def test_it_learns_signed_features_privately(agent):
    """20,000 users, seeds 0 and 1. Uniform play loses 29,972; measured 30 to 109 at epsilon = 1."""
    for seed in (0, 1):
        done = run(agent(SIGNED.public, episodes=20_000, privacy=PRIVATE), SIGNED, seed=seed)
        assert done.regret[-1] < 1_000
        verify(done.certificate)


@pytest.mark.parametrize("agent", AGENTS)
def test_it_learns_without_knowing_the_simplex(agent):
    """rand, 20,000 users, two seeds.

    Uniform play loses 13,697; measured 558 to 619 at epsilon = 1, and 34 to 85 without privacy.
    """
    problem = as_features(RAND)
    for privacy, most in ((PRIVATE, 1500), (NoPrivacy(), 200)):
        done = run(agent(problem.public, episodes=20_000, privacy=privacy), problem, seed=0)
        assert done.regret[-1] < most


def test_linopt_learns_a_table_with_unknown_rewards():
    """riverswim with 5 states, 20,000 users, no privacy.

    Uniform play loses 17,546; measured 501 and 619 (VI), 339 and 353 (PO).
    """
    problem = FeatureMixtureMDP.from_table(riverswim(states=5, horizon=10))
    for agent in (LinOptVI, LinOptPO):
        done = run(agent(problem.public, episodes=20_000, privacy=NoPrivacy()), problem, seed=0)
        assert done.regret[-1] < 2_000


def test_it_runs_on_devices_and_with_a_proved_width():
    for candidate in (
        UCRLVTR(SIGNED.public, episodes=200, privacy=LocalDP(1.0, 1e-5)),
        UCRLVTR(SIGNED.public, episodes=200, privacy=PRIVATE, exploration="proven"),
    ):
        verify(run(candidate, SIGNED, seed=0).certificate)


@pytest.mark.parametrize("agent", [UCRLVTR, UCRLVTRPlus])
@pytest.mark.parametrize("calibration", ["tight", "paper"])
@pytest.mark.parametrize("relation", list(Relation))
def test_no_pair_of_users_exceeds_the_sensitivity(agent, calibration, relation):
    """Possible and impossible trajectories, and states and actions that do not exist, on the rows
    of a round.
    """
    paper_agent = agent(
        SIGNED.public,
        episodes=500,
        privacy=JointDP(1.0, 1e-5, relation=relation.value),
        calibration=calibration,
        noise=noise_source("fast", 0),
    )
    while paper_agent.users < 40:
        batch = paper_agent.next_batch()
        users = min(batch.users, 40 - paper_agent.users)
        paper_agent.observe(
            SIGNED.sample(batch.policy, users, np.random.default_rng(paper_agent.users))
        )
    paper_agent.next_batch()
    rng = np.random.default_rng(1)
    users = np.stack([paper_agent.contribution(hostile(rng)).values for _ in range(300)])
    others = users if relation is Relation.REPLACE else np.zeros_like(users[:1])
    apart = users[:, None] - others[None]
    bound = paper_agent.algorithm.bound
    assert bound.contains(users[0])
    distance = np.linalg.norm(apart, axis=2).max()
    stated = bound.sensitivity(relation)
    assert 0.02 * stated < distance <= stated
    assert np.abs(apart).sum(axis=2).max() <= bound.l1_sensitivity(relation)


def hostile(rng):
    shape = SIGNED.horizon
    return Trajectories(
        rng.integers(-1, SIGNED.states + 1, size=(1, shape + 1)),
        rng.integers(-1, SIGNED.actions + 1, size=(1, shape)),
        np.full((1, shape), np.nan),
    )


def test_rewards_may_be_learned_on_signed_features():
    hidden = FeatureMixtureMDP(
        SIGNED.features,
        SIGNED.weights,
        SIGNED.rewards,
        SIGNED.start,
        weight_bound=SIGNED.weight_bound,
        value_bound=1.0,
        reward_features=np.eye(48).reshape(12, 4, 48),
    )
    assert hidden.public.rewards is None
    done = run(LinOptVI(hidden.public, episodes=20_000, privacy=NoPrivacy()), hidden, seed=0)
    assert done.regret[-1] < 0.1 * 20_000 * (hidden.optimal_value - hidden.uniform_value)
    assert isinstance(hidden.truth, TabularMDP)
