"""QuestionsVI: it learns, with and without privacy, and asks what it should."""

from dataclasses import replace

import numpy as np
import pytest

import confide
from confide.mixtures.questions import _kernels as kernels_of
from confide.mixtures.questions.contributions import AnswerSums
from confide.mixtures.questions.history_planning import COLUMNS, in_words
from confide.mixtures.questions.planning import (
    PRIOR_PRECISION,
    SIGN_TOLERANCE,
    AnswerEvidence,
    AskedRound,
    estimate_weights,
    policy_value,
)
from confide.mixtures.questions.reward_planning import (
    estimate_rewards,
    expected_reward_answer,
    predict_visits,
    reward_signs,
)
from confide.planners.reward_features import centred_rewards
from confide.problems import LinearMixtureMDP, lock, lock_rewards, rand

pytestmark = pytest.mark.kernels

LOCK = lock(0)
P = np.ascontiguousarray(np.moveaxis(LOCK.kernels, 0, -1))


def test_an_answer_is_the_sign_of_what_the_kernels_say():
    theta = np.array([1.0, -1.0, 0.0, 0.0, 0.0])
    signs = kernels_of.answer_signs(P, theta, SIGN_TOLERANCE)
    along_theta = P @ theta
    assert np.array_equal(
        signs,
        np.where(np.abs(along_theta) > SIGN_TOLERANCE * P.sum(axis=-1), np.sign(along_theta), 0),
    )
    visits = np.random.default_rng(0).random(P.shape[:2])
    means = kernels_of.mean_answers(P, theta[None], visits, SIGN_TOLERANCE)
    np.testing.assert_allclose(means[0], 0.5 * np.einsum("sa,sat,sati->i", visits, signs, P))
    weights = np.full(5, 0.2)
    expected = 0.25 * np.einsum("sa,sat,sat->", visits, signs.astype(float) ** 2, P @ weights)
    np.testing.assert_allclose(
        kernels_of.answer_moments(P, weights, theta[None], visits, SIGN_TOLERANCE), [[expected]]
    )


def test_best_policies_are_those_of_the_problem():
    values, actions = kernels_of.best_policies(P, LOCK.rewards, LOCK.weights[None])
    assert LOCK.start @ values[0, 0] == pytest.approx(LOCK.optimal_value)
    assert policy_value(P, LOCK.rewards, LOCK.start, actions[0], LOCK.weights) == pytest.approx(
        LOCK.optimal_value
    )
    hoped, _ = kernels_of.optimistic_policy(P, LOCK.rewards, LOCK.weights, np.zeros((4, 5, 5)), 1.0)
    assert LOCK.start @ hoped[0] == pytest.approx(LOCK.optimal_value)
    more, _ = kernels_of.optimistic_policy(
        P, LOCK.rewards, LOCK.weights, np.tile(np.eye(5), (4, 1, 1)), 1.0
    )
    assert (more >= hoped - 1e-12).all() and more[0].max() <= 5


def test_the_estimate_is_consistent():
    """Exact means instead of answers, from very many users, of questions that tell all directions:
    the weights come out.
    """
    d = 5
    rng = np.random.default_rng(0)
    policies = rng.integers(4, size=(40, 5, 20))
    thetas = np.concatenate([np.eye(d) - 0.2] * 4)
    steps = np.repeat(np.arange(4), d)
    answers = np.zeros(len(steps))
    at = np.tile(LOCK.start, (40, 1))
    users = np.full(40, 1e6)
    from confide.planners import _visit_kernels as walk

    for h in range(4):
        visits = walk.visits(policies[:, h], users, at, 4)
        here = steps == h
        answers[here] = (
            kernels_of.mean_answers(P, np.ascontiguousarray(thetas[here]), visits, SIGN_TOLERANCE)
            @ LOCK.weights[h]
        )
        at = walk.move(policies[:, h], at, P @ LOCK.weights[h])
    nothing = AnswerEvidence(np.zeros((4, d, d)), np.zeros((4, d)))
    belief, first = estimate_weights(
        [AskedRound(policies, users, steps, thetas, answers, 1.0)], nothing, P, LOCK.start
    )
    np.testing.assert_allclose(belief.weights, LOCK.weights[:4], atol=2e-3)
    # Folded, the evidence is the same.
    again, _ = estimate_weights([], first, P, LOCK.start)
    np.testing.assert_allclose(again.weights, belief.weights, atol=1e-6)
    drawn = belief.samples(50, 1.0, rng)
    assert (drawn >= 0).all() and np.allclose(drawn.sum(axis=-1), 1)


@pytest.mark.parametrize("size", [1e5, 1e7, 1e9])
def test_a_sharp_posterior_stays_one(size):
    """Rows that also say much along 1, where nothing is unknown: a pseudo-inverse took rounding
    errors for variances of 1e9.
    """
    d = 12
    rng = np.random.default_rng(0)
    kernels = np.ascontiguousarray(np.moveaxis(rng.dirichlet(np.ones(3), size=(d, 3, 2)), 0, -1))
    rows = np.sqrt(size) * (5 + rng.standard_normal((400, d)))
    precision = rows[:, :, None] * rows[:, None, :]
    belief, _ = estimate_weights(
        [], AnswerEvidence(precision, precision @ np.full(d, 1 / d)), kernels, np.full(3, 1 / 3)
    )
    variances = np.linalg.eigvalsh(belief.covariance)
    assert variances.min() > -1e-12 and variances.max() < 1 / PRIOR_PRECISION + 1e-12
    np.testing.assert_allclose(belief.weights, 1 / d, atol=1e-4)
    np.testing.assert_allclose(belief.covariance.sum(axis=-1), 0, atol=1e-12)


@pytest.mark.parametrize(("d", "horizon"), [(1, 3), (2, 1), (1, 1)])
def test_nothing_to_learn(d, horizon):
    rng = np.random.default_rng(0)
    kernels = rng.dirichlet(np.ones(4), size=(d, 4, 2))
    problem = LinearMixtureMDP(
        kernels, np.full((horizon, d), 1 / d), rng.random((horizon, 4, 2)), np.full(4, 0.25)
    )
    agent = confide.agents.QuestionsVI(
        problem.public, episodes=100, privacy=confide.JointDP(1.0, delta=0.0)
    )
    assert confide.run(agent, problem, seed=0).regret[-1] < 1e-3


@pytest.mark.parametrize(
    "privacy", [confide.NoPrivacy(), confide.JointDP(1.0, delta=0.0), confide.JointDP(1.0, 1e-5)]
)
@pytest.mark.parametrize("problem", [LOCK, rand(0)], ids=["lock", "rand"])
def test_it_learns(privacy, problem):
    """Uniform play loses more than 1,300 on either; 16 seeds of lock at epsilon = 1 lost 207 at
    most.
    """
    agent = confide.agents.QuestionsVI(problem.public, episodes=2_000, privacy=privacy)
    run = confide.run(agent, problem, seed=0)
    assert run.regret[-1] < (60 if isinstance(privacy, confide.NoPrivacy) else 250)
    assert isinstance(privacy, confide.NoPrivacy) or agent.guarantee.loss == confide.PureDP(1.0)
    assert problem.optimal_value - problem.value(run.policy) < 0.05


def test_more_noise_fewer_questions():
    sizes = {}
    for epsilon in (0.3, 100.0):
        agent = confide.agents.QuestionsVI(
            LOCK.public, episodes=500, privacy=confide.JointDP(epsilon, delta=0.0)
        )
        agent.noise = confide.mechanisms.noise_source("fast", 0)
        sizes[epsilon] = agent.current_round().statistic.bound.size
    assert sizes[0.3] < sizes[100.0]


@pytest.fixture(scope="module")
def asked_run():
    agent = confide.agents.QuestionsVI(
        LOCK.public, episodes=400, privacy=confide.JointDP(1.0, delta=0.0)
    )
    return agent, confide.run(agent, LOCK, seed=0)


def test_what_was_asked_is_told_in_words(asked_run):
    agent, run = asked_run
    questions = agent.questions()
    assert tuple(questions) == run.questions
    rounds = {q.round: [one for one in questions if one.round == q.round] for q in questions}
    assert list(rounds) == list(range(1, agent.released().generation + 1))
    first = 1
    for own in rounds.values():
        assert {(q.first, q.users) for q in own} == {(first, own[0].users)}
        assert all(q.removes >= 0 for q in own) and sum(q.removes for q in own) <= 1
        assert len({q.noise for q in own}) == 1 and own[0].noise > 0 and "more" in own[0].said
        first += own[0].users
    assert first == 401 and max(q.removes for q in questions) > 0.01
    assert [q.answer for q in list(rounds.values())[-1]] == agent.released().values.tolist()
    assert all(
        q.asked.startswith("Was the transition of step ") and "kernel" in q.asked for q in questions
    )


def test_the_questions_follow_from_releases_alone(asked_run):
    """A learner that has seen nobody tells the same from the same release; the open round's
    questions are told before they are answered.
    """
    agent, _ = asked_run
    stranger = confide.agents.QuestionsVI(
        LOCK.public, episodes=400, privacy=confide.JointDP(1.0, delta=0.0)
    )
    assert stranger.algorithm.questions(agent.released()) == agent.questions()
    stranger.noise = confide.mechanisms.noise_source("fast", 1)
    open_ones = stranger.questions()
    assert len(open_ones) == stranger.current_round().statistic.bound.size
    assert all(q.answer is None and q.said == "not answered yet" for q in open_ones)


def test_what_was_asked_is_saved_with_a_run_and_shown(asked_run, tmp_path):
    _, run = asked_run
    run.save(tmp_path / "run")
    assert confide.Run.load(tmp_path / "run").questions == run.questions
    file = tmp_path / "run" / "questions.json"
    for edited in (
        '{"round": 1}',
        '[{"round": 1}]',
        "[3]",
        file.read_text().replace('"users": 10', '"users": "ten"'),
    ):
        file.write_text(edited)
        with pytest.raises(confide.errors.InvalidParameter):
            confide.Run.load(tmp_path / "run")


def test_yes_and_no_are_those_of_the_answers():
    """Where the next state alone decides, states are named; elsewhere transitions are."""
    row = np.full((1, len(COLUMNS) + 2), 1.0)
    row[0, len(COLUMNS) :] = 1.0, -1.0
    kernels = np.zeros((4, 1, 4, 2))
    kernels[:, 0, :, 0] = (0.1, 0.3, 0.3, 0.3)
    kernels[:, 0, :, 1] = (0.7, 0.1, 0.1, 0.1)
    (question,) = in_words(row, kernels, 4, None)
    assert question.asked.startswith("Did step 2 end in one of the states 1-3? ")
    assert (question.yes, question.no) == ("any transition to 1-3", "any transition to 0")
    kernels[3, 0] = kernels[3, 0, :, ::-1]
    (question,) = in_words(row, kernels, 4, None)
    assert (
        question.asked
        == "Was the transition of step 2 likelier under kernel 1 (100%) than under kernel 2 (100%)?"
    )
    assert (
        question.yes
        == "from state 0 by action 0 to 1-3; 1 by action 0 to 1-3; 2 by action 0 to 1-3; "
        "3 by action 0 to 0"
    )


def test_it_learns_from_messages():
    """Uniform play loses 21,000 on the first of them; 16 seeds lost 410 on average, and 1,609 at
    most.
    """
    agent = confide.agents.QuestionsVI(
        LOCK.public, episodes=20_000, privacy=confide.LocalDP(1.0, delta=0.0)
    )
    run = confide.run(agent, LOCK, seed=0)
    assert run.regret[-1] < 2_500 and agent.guarantee.loss == confide.PureDP(1.0)
    few = confide.agents.QuestionsVI(
        LOCK.public, episodes=60, privacy=confide.LocalDP(1.0, delta=0.0)
    )
    few_run = confide.run(few, LOCK, seed=0)
    assert few.users == 60 and not any(
        each.kind == "simulated" for each in few_run.certificate.assumptions
    )
    assert all(q.noise > 1 for q in few_run.questions if q.answer is not None)


HOSTILE = {
    "an action that does not exist": {"shown": np.full((6, 5, 20), 4)},
    "another type": {"shown": np.zeros((6, 5, 20))},
    "another shape": {"shown": np.zeros((6, 5, 19), dtype=np.int64)},
    "more policies than a round has": {
        "shown": np.zeros((10, 5, 20), dtype=np.int64),
        "shares": np.full(10, 0.1),
    },
    "a step that does not exist": {"open_steps": np.array([4])},
    "no number": {"open_thetas": np.full((1, 5), np.nan)},
    "more answers than questions": {
        "open_steps": np.array([0, 1]),
        "open_thetas": np.zeros((2, 5)),
    },
    "users who are not there yet": {"total": np.array(31)},
    "shares of nothing": {"shares": np.zeros(6)},
    "evidence of another problem": {"precision": np.zeros((4, 4, 4))},
    "a table of nothing": {"table": np.zeros((0, 15))},
    "a table without numbers": {"table": np.full((1, 15), np.inf)},
    "an earlier round of nobody": {"stds": np.array([1.0])},
    "a question of no round": {
        "rounds": np.array([0]),
        "steps": np.array([0]),
        "thetas": np.ones((1, 5)),
        "answers": np.ones(1),
    },
}


@pytest.mark.parametrize("wrong", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_server_cannot_reach_into_a_device(wrong):
    """Compiled loops do not check indices: what a device is told about earlier rounds is checked
    before.
    """
    server = confide.agents.QuestionsVI(
        LOCK.public, episodes=100, privacy=confide.LocalDP(1.0, delta=0.0)
    )
    client = server.client()
    released = server.released()
    memory = {
        **server.current_round().memory,
        "open_steps": np.array([0]),
        "open_thetas": np.ones((1, 5)),
        "table": np.zeros((1, 15)),
    }
    sent = replace(released, values=np.zeros(1), users=30, generation=1)
    client.plan(replace(sent, memory=memory))
    with pytest.raises(confide.errors.InvalidParameter, match="does not fit"):
        client.plan(replace(sent, memory=memory | wrong))


REWARDS = lock_rewards(0)
FEATURES = centred_rewards(REWARDS.public.reward_features)


def test_an_answer_about_a_reward_is_its_sign():
    """r - 1/2 where the direction is positive, 1/2 - r where it is negative; clipped, and 0 where
    there is no reward.
    """
    g = reward_signs(FEATURES, np.array([[1.0, -1.0, 0.0]]))[0]
    assert g[0].tolist() == [1.0] * 4 and g[19].tolist() == [-1.0] * 4 and not g[1:19].any()
    table = np.repeat(g[None, :, :, None], 20, axis=3).astype(np.int8)
    statistic = AnswerSums(np.array([4]), table, np.array([True]))
    for state, reward, answer in [
        (0, 1.0, 0.5),
        (0, 0.25, -0.25),
        (19, 1.0, -0.5),
        (19, -7.0, 0.5),
        (3, 1.0, 0.0),
        (0, np.nan, 0.0),
    ]:
        rewards = np.array([[0.0, 0.0, 0.0, 0.0, reward]])
        user = confide.trajectory.Trajectories(
            np.full((1, 6), state), np.zeros((1, 5), dtype=np.int64), rewards
        )
        assert statistic.contribution(user).values.tolist() == [answer]


def test_the_estimate_of_rewards_is_consistent():
    """Exact means instead of answers, from very many users: the rewards come out, folded or not."""
    rng = np.random.default_rng(0)
    policies = rng.integers(4, size=(40, 5, 20))
    users = np.full(40, 1e6)
    belief, _ = estimate_weights(
        [], AnswerEvidence(np.zeros((4, 5, 5)), np.zeros((4, 5))), P, LOCK.start
    )
    belief = replace(belief, weights=LOCK.weights[:4])
    visits = predict_visits(policies, users, belief.weights, P, LOCK.start)
    thetas = np.tile(np.pad(np.eye(3), ((0, 0), (0, 2))), (5, 1))
    steps = np.repeat(np.arange(4, 9), 3)
    g = reward_signs(FEATURES, thetas[:, :3])
    answers = np.array(
        [(g[q] * visits[h - 4] * (REWARDS.rewards[h - 4] - 0.5)).sum() for q, h in enumerate(steps)]
    )
    nothing = AnswerEvidence(np.zeros((5, 3, 3)), np.zeros((5, 3)))
    past_round = AskedRound(policies, users, steps, thetas, answers, 1.0)
    learned, first = estimate_rewards([past_round], nothing, FEATURES, belief, P, LOCK.start)
    mean_rewards = learned.mean_rewards()
    np.testing.assert_allclose(mean_rewards[2:], REWARDS.rewards[2:], atol=2e-3)
    # Nobody is there so early.
    assert mean_rewards[1, 19] == pytest.approx(0.5)
    again, _ = estimate_rewards([], first, FEATURES, belief, P, LOCK.start)
    np.testing.assert_allclose(again.weights, learned.weights, atol=1e-6)
    assert expected_reward_answer(learned, thetas[4, :3], 1, visits) == pytest.approx(
        answers[4], rel=1e-2, abs=20
    )
    assert (
        learned.optimistic_rewards() >= learned.mean_rewards()
    ).all() and learned.optimistic_rewards().max() <= 1
    drawn = learned.sample_rewards(20, 1.0, rng)
    assert drawn.shape == (20, 5, 20, 4) and drawn.min() >= 0 and drawn.max() <= 1


@pytest.mark.parametrize("privacy", [confide.NoPrivacy(), confide.JointDP(1.0, delta=0.0)])
def test_it_learns_rewards_too(privacy):
    """Uniform play loses 3,171 of these users."""
    agent = confide.agents.QuestionsVI(REWARDS.public, episodes=3_000, privacy=privacy)
    run = confide.run(agent, REWARDS, seed=0)
    assert run.regret[-1] < (400 if isinstance(privacy, confide.NoPrivacy) else 900)
    about_rewards = [q for q in run.questions if "reward" in q.asked]
    assert about_rewards and {q.asked for q in about_rewards} < {q.asked for q in run.questions}
    assert all(
        q.yes.startswith("a reward of ") and q.no.startswith("a reward of ") for q in about_rewards
    )


def test_a_question_about_a_reward_in_words():
    row = np.full((1, len(COLUMNS) + 5), 8.0)
    row[0, len(COLUMNS) :] = 1.0, 0.0, 0.0, 0.0, 0.0
    (question,) = in_words(row, P, 4, FEATURES)
    assert question.asked == "Was the reward of step 5 high, in states 0 by actions 0-3?"
    row[0, len(COLUMNS) + 1] = -1.0
    (question,) = in_words(row, P, 4, FEATURES)
    assert (
        question.yes
        == "a reward of 1 in states 0 by actions 0-3; a reward of 0 in states 19 by actions 0-3"
    )
    assert (
        question.no
        == "a reward of 0 in states 0 by actions 0-3; a reward of 1 in states 19 by actions 0-3"
    )


def test_rewards_are_known_or_have_features():
    with pytest.raises(confide.errors.InvalidParameter, match="features in which they are linear"):
        confide.agents.QuestionsVI(
            replace(REWARDS.public, reward_features=None), episodes=10, privacy=confide.NoPrivacy()
        )
