"""Changing regularizers of one's own: the general procedure of the paper, of which Private-OFU-RL
is one case.
"""

import numpy as np
import pytest

import confide
from confide.agents import OFULQ
from confide.control.printed import printed_control
from confide.control.regularizers import AddedIdentity
from confide.errors import InvalidParameter
from confide.mechanisms.sources import noise_source
from confide.planners.regularity import Regularity
from confide.privacy.request import JointDP, NoPrivacy
from confide.problems import oscillator

PRIVATE = JointDP(20.0, 1e-5)


class Changing:
    """H_k = (1 + ln k) I, which needs no noise: Assumption 2 holds with equality."""

    def __init__(self, public):
        self.dimension = public.states + public.inputs
        self.episodes = []

    def regularize(self, S, C, *, noise_std, episode):
        assert noise_std >= 0
        self.episodes.append(episode)
        ridge = 1 + np.log(episode)
        return S + ridge * np.eye(self.dimension), C, Regularity(ridge, ridge, 0.0)

    def describe(self):
        return "a growing ridge"


def agent(privacy=PRIVATE, calibration="paper", episodes=60, **options):
    source = noise_source("fast", 0)
    return OFULQ(
        oscillator().public,
        episodes=episodes,
        privacy=privacy,
        calibration=calibration,
        noise=source,
        **options,
    )


@pytest.mark.parametrize("privacy", [PRIVATE, NoPrivacy()], ids=["private", "exact"])
def test_the_papers_regularizer_gives_the_papers_agent(privacy):
    """Private-OFU-RL is the general procedure with H_k = N_k + 2 Lambda I and L_k = the noise: the
    same sets and policies.
    """

    def papers(public):
        made = printed_control(privacy, public, episodes=60)
        return AddedIdentity(made.shift, Regularity(made.lambda_min, made.lambda_max, made.nu))

    one, other = agent(privacy), agent(privacy, regularizer=papers)
    rng, system = np.random.default_rng(0), oscillator()
    for _ in range(20):
        policies = [each.next_batch().policy for each in (one, other)]
        for mine, others in zip(*(policy.tables() for policy in policies), strict=True):
            np.testing.assert_array_equal(mine, others)
        seen = system.sample(policies[0], 1, rng)
        one.observe(seen)
        other.observe(seen)
    assert one.settings != other.settings and one.guarantee == other.guarantee


@pytest.mark.parametrize("calibration", ["paper", "tight"])
def test_regularizers_change_from_episode_to_episode_and_the_set_holds_the_truth(calibration):
    made = []

    def make(public):
        made.append(Changing(public))
        return made[-1]

    system = oscillator()
    theta = np.concatenate([system.A, system.B], axis=1).T
    changing = agent(NoPrivacy(), calibration, episodes=400, regularizer=make)
    rng, outside = np.random.default_rng(0), 0
    while changing.users < 390:
        batch = changing.next_batch()
        known = changing.algorithm.confidence(changing.released())
        error = known.theta - theta
        outside += np.sqrt(np.trace(error.T @ known.V @ error)) > known.beta
        changing.observe(system.sample(batch.policy, min(batch.users, 390 - changing.users), rng))
    assert outside == 0
    assert made[0].episodes[0] == 1 and len(set(made[0].episodes)) > 5
    assert "a growing ridge" in changing.describe().planning
    learned = confide.run(
        agent(NoPrivacy(), calibration, 2_000, regularizer=Changing), system, seed=0
    )
    assert learned.value[-1] > system.uniform_value


def test_what_is_no_regularizer_is_refused():
    with pytest.raises(InvalidParameter, match="regularizer must be a function"):
        agent(regularizer=3)
    with pytest.raises(InvalidParameter, match="what a regularizer of a linear system has"):
        agent(regularizer=lambda public: public)

    class Wrong(Changing):
        answer = None

        def regularize(self, S, C, **_known):
            return self.answer(S, C)

    fine = Regularity(1.0, 1.0, 0.0)
    for answer, message in (
        (lambda S, C: (S, C), "must return V, U and a Regularity"),
        (lambda S, C: (S[:1], C, fine), r"finite V of shape \(3, 3\)"),
        (lambda S, C: (S, C * np.nan, fine), r"finite U of shape \(3, 2\)"),
        (lambda S, C: (S + np.triu(np.ones((3, 3)), 1), C, fine), "symmetric V"),
    ):
        Wrong.answer = staticmethod(answer)
        with pytest.raises(InvalidParameter, match=message):
            agent(regularizer=Wrong).next_batch()
