"""LSVI-UCB at work: it learns, what it keeps of users never leaves, and its changes of policy
depend on releases alone.
"""

import copy
import dataclasses
import math
from dataclasses import replace

import numpy as np
import pytest

from confide.agents.explain import explain
from confide.audit.verify import verify
from confide.errors import InvalidParameter, PrivacyError, PromiseBroken, StateError
from confide.linear_mdps.batches import adaptive, growing, one_by_one, static
from confide.linear_mdps.lsvi_ucb import LSVIUCB
from confide.linear_mdps.printed import LinearSetting, printed_linear
from confide.mechanisms.sources import noise_source
from confide.mechanisms.state import unpack
from confide.policy import TabularPolicy
from confide.privacy import JointDP, LocalDP, NoPrivacy, Relation, Trust
from confide.privacy.certificate import certify
from confide.privatizers import geometric
from confide.problems import latent, lock, one_hot
from confide.runs.runner import run
from confide.trajectory import Trajectories, TransitionCounts, counts_of_nobody

LATENT = latent(0)
ONE_HOT = one_hot()
SMALL = latent(0, states=6, actions=2, horizon=3, dimension=3)
PRIVATE = JointDP(1.0, 1e-5)
PURE = JointDP(1.0, delta=0.0)
PROMISES = [PRIVATE, PURE, NoPrivacy()]


def make_agent(world=SMALL, *, episodes=400, privacy=PRIVATE, seed=0, source="fast", **more):
    noise = noise_source(source, seed if source == "fast" else None)
    return LSVIUCB(world.public, episodes=episodes, privacy=privacy, noise=noise, **more)


def feed(agent, users):
    """These users, split where the agent changes its policy."""
    at = 0
    while at < users.users:
        size = min(agent.next_batch().users, users.users - at)
        agent.observe(users[at : at + size])
        at += size


def serve(agent, world=SMALL, seed=0):
    """Everybody, as transition counts; the numbers of users after which the policy changed."""
    rng = np.random.default_rng(seed)
    times = []
    while agent.users < agent.episodes:
        batch = agent.next_batch()
        before = agent.switches
        agent.observe(world.count(batch.policy, batch.users, rng))
        if agent.switches > before:
            times.append(agent.users)
    return times


def somebody(users, world=SMALL, seed=0):
    return world.sample(world.optimal_policy, users, np.random.default_rng(seed))


def nowhere(users, horizon=3):
    return Trajectories(
        np.full((users, horizon + 1), -1), np.full((users, horizon), -1), np.zeros((users, horizon))
    )


def regret(world, privacy, *, seeds=range(6), episodes=20_000, **more):
    """The mean, relative to playing at random."""
    runs = [
        run(LSVIUCB(world.public, episodes=episodes, privacy=privacy, **more), world, seed=seed)
        for seed in seeds
    ]
    gap = episodes * (world.optimal_value - world.uniform_value)
    return float(np.mean([one.regret[-1] for one in runs])) / gap, runs


# It learns.


def parts(agent):
    """Its counter, its budget and its stored rows."""
    return agent._privatizer._batch_noise


def stored_names(agent):
    """The arrays of stored rows in a saved state."""
    inner = unpack(agent.save(), "learner-2", released=0).arrays["privatizer"].tobytes()
    return [name for name in unpack(inner, "batches-1", released=0).arrays if ".rows." in name]


@pytest.mark.parametrize(
    ("world", "most"), [(LATENT, 0.2), (ONE_HOT, 0.55)], ids=["latent", "one-hot"]
)
def test_it_learns_privately(world, most):
    """20 000 users, 6 seeds: measured .10 (.08 to .12) on latent and .34 (.26 to .41) on one-hot;
    at 100 000 .034 and .109.
    """
    relative_regret, runs = regret(world, PRIVATE)
    assert relative_regret < most
    assert (
        str(runs[0].guarantee)
        == "JointDP(epsilon=1, delta=1e-05), replace one user, 20000 users, fast noise"
    )


@pytest.mark.parametrize("world", [LATENT, ONE_HOT], ids=["latent", "one-hot"])
def test_without_privacy_it_learns_at_once(world):
    """20 000 users, 6 seeds: measured .008 on latent and .004 on one-hot."""
    relative_regret, runs = regret(world, NoPrivacy())
    assert relative_regret < 0.03
    assert str(runs[0].guarantee) == "NO PRIVACY, 20000 users"
    assert all(one.value[-1] > 0.99 * world.optimal_value for one in runs)


def test_pure_privacy_costs_more_and_learns_too():
    """epsilon = 10, 20 000 users, 3 seeds: measured .17 (.15 to .20)."""
    relative_regret, runs = regret(LATENT, JointDP(10.0, delta=0.0), seeds=range(3))
    assert relative_regret < 0.35
    assert "delta=0)" in str(runs[0].guarantee)


def test_the_printed_algorithm_learns_where_its_width_is_small():
    """Without noise, 2000 users, 1e-4 of beta, 3 seeds: measured .09.

    Units, clips and the order of steps are right.
    """
    more = {"calibration": "paper", "bonus_scale": 1e-4, "schedule": static(2000, 40)}
    relative_regret, _ = regret(LATENT, NoPrivacy(), seeds=range(3), episodes=2000, **more)
    assert relative_regret < 0.2


@pytest.mark.parametrize(
    "plan",
    [static(400, 9), growing(400, first=20), adaptive(400, first=20, ratio=1.15), geometric(400)],
    ids=lambda p: type(p).__name__,
)
@pytest.mark.parametrize("calibration", ["tight", "paper"])
@pytest.mark.parametrize("privacy", [PRIVATE, NoPrivacy()], ids=str)
def test_every_plan_runs(plan, calibration, privacy):
    agent = LSVIUCB(
        SMALL.public, episodes=400, privacy=privacy, calibration=calibration, schedule=plan
    )
    done = run(agent, SMALL, seed=0)
    assert done.complete
    verify(done.certificate)
    assert 1 <= agent.switches <= agent.batches.switches
    assert isinstance(done.policy, TabularPolicy)


def test_one_change_per_user_runs():
    """[Luyo21, Remark 7]: B = K = 300; the budget is divided between 299 x 2 questions."""
    agent = make_agent(episodes=300, schedule=one_by_one(300))
    assert serve(agent) == list(range(1, 300))
    assert len(parts(agent).budget) == 299 * 2
    assert agent.guarantee.epsilon <= 1 + 1e-9


@pytest.mark.parametrize("privacy", PROMISES, ids=str)
@pytest.mark.parametrize("episodes", [1, 2, 3, 7])
def test_a_handful_of_users_is_served(episodes, privacy):
    done = run(LSVIUCB(SMALL.public, episodes=episodes, privacy=privacy), SMALL, seed=0)
    assert done.complete
    verify(done.certificate)


@pytest.mark.parametrize("episodes", [1, 2, 5])
def test_a_handful_of_users_is_served_by_hand_too(episodes):
    """Without a runner around it, which reads the guarantee before the first user."""
    agent = make_agent(episodes=episodes)
    feed(agent, somebody(episodes))
    assert agent.guarantee.epsilon == pytest.approx(1.0)
    verify(certify(agent.guarantee, agent.mechanisms()))
    other = make_agent(episodes=episodes, seed=1)
    other.restore(agent.save(), released=0)
    assert other.users == episodes


@pytest.mark.parametrize("calibration", ["tight", "paper"])
@pytest.mark.parametrize("privacy", [PRIVATE, JointDP(10.0, delta=0.0), NoPrivacy()], ids=str)
def test_one_step_is_enough(calibration, privacy):
    """H = 1: there is no next value to ask about, and so nothing to pay for.

    E.3 holds at d = 2.
    """
    world = latent(0, states=6, actions=2, horizon=1, dimension=2)
    agent = LSVIUCB(world.public, episodes=500, privacy=privacy, calibration=calibration)
    done = run(agent, world, seed=0)
    assert done.complete
    verify(done.certificate)
    if calibration == "tight" and not isinstance(privacy, NoPrivacy):
        # all of it is spent on what there is to know
        assert agent.guarantee.epsilon == pytest.approx(privacy.epsilon)
    if isinstance(privacy, NoPrivacy) and calibration == "tight":
        assert done.value[-1] == pytest.approx(world.optimal_value)


# What it promises.


@pytest.mark.parametrize("privacy", [PRIVATE, PURE, JointDP(1.0, 1e-5, Relation.NULL)], ids=str)
@pytest.mark.parametrize(
    "plan", [None, adaptive(400, first=20, ratio=1.15)], ids=["growing", "adaptive"]
)
def test_its_certificate_can_be_computed_again(privacy, plan):
    agent = make_agent(privacy=privacy, schedule=plan)
    serve(agent)
    certificate = certify(agent.guarantee, agent.mechanisms(), subject="by hand")
    checked = verify(certificate)
    assert 0.999 < checked.epsilon <= 1 + 1e-6
    assert certificate.epsilon <= 1 + 1e-9
    assert agent.guarantee.trust is Trust.JOINT
    assert agent.guarantee.users == 400
    counter, *questions = agent.mechanisms()
    assert sum(each.parameters["leaves"] for each in questions) == agent.batches.switches * 2
    assert {each.bound["name"] for each in questions} == {"l2-ball"}
    assert "simulated: 400 users" in counter.query


def test_secure_noise_keeps_the_same_promise():
    for privacy in (PRIVATE, PURE):
        agent = make_agent(privacy=privacy, episodes=60, source="secure", schedule=static(60, 3))
        feed(agent, somebody(60))
        assert agent.switches == 2
        assert verify(certify(agent.guarantee, agent.mechanisms())).epsilon <= 1 + 1e-6


def test_a_release_carries_the_promise_that_covers_it():
    """It holds answers as well as prefix sums: what is promised is about both."""
    agent = make_agent()
    serve(agent)
    assert agent.released().guarantee.epsilon == pytest.approx(agent.guarantee.epsilon)
    assert agent.loss.mu == pytest.approx(agent.guarantee.loss.mu)


def test_a_user_who_contributes_zero_needs_less_noise():
    """Tight noise follows the relation; printed noise is what it is, and the loss is less."""
    null = JointDP(1.0, 1e-5, Relation.NULL)

    def scales(privacy, calibration):
        agent = make_agent(
            privacy=privacy, calibration=calibration, schedule=adaptive(400, first=20, ratio=1.15)
        )
        return [each.scale for each in agent.mechanisms()], agent.guarantee.loss.mu

    (sums, answers), _ = scales(PRIVATE, "tight")
    (less, half), _ = scales(null, "tight")
    assert less < 0.75 * sums
    assert half == pytest.approx(answers / 2)
    printed, mu = scales(PRIVATE, "paper")
    same, smaller = scales(null, "paper")
    assert same == pytest.approx(printed)
    # that of responses is half, and there is little besides
    assert smaller == pytest.approx(mu / 2, rel=0.02)


def test_the_noise_is_on_every_number():
    """300 first releases of 2 users who were nowhere: all that is shown is noise, of the stated
    size; 5 standard errors (1 in 10^6).
    """
    shown = []
    rewards = []
    answers = []
    for seed in range(300):
        agent = make_agent(episodes=4, schedule=static(4, 2), seed=seed)
        feed(agent, nowhere(2))
        released = agent.released()
        size = agent.algorithm.bound.size
        assert agent.switches == released.values[-1] == 1
        shown.append(released.values[:size] / released.noise.std)
        sums = agent.algorithm.prefix_sums(released.values[:size], released.noise.std)
        rewards.append(sums.rewards / sums.reward_noise_std)
        answers.append(released.values[size:-1].reshape(2, 4))
    noise = np.stack(shown)
    assert noise.std() == pytest.approx(1, rel=5 / math.sqrt(2 * noise.size))
    # in each coordinate
    np.testing.assert_allclose(noise.std(axis=0), 1, rtol=5 / math.sqrt(2 * 300))
    # what planning takes it to be
    assert np.std(rewards) == pytest.approx(1, rel=5 / math.sqrt(2 * np.size(rewards)))
    draws = np.stack(answers)[..., :3]
    stds = np.stack(answers)[..., 3:]
    was_asked = stds[..., 0] > 0
    normal = draws[was_asked] / stds[was_asked]
    # Two steps are asked about, but where all values are the same.
    assert len(normal) > 500
    assert normal.std() == pytest.approx(1, rel=5 / math.sqrt(2 * normal.size))
    # sensitivity 2 over mu sqrt(.4 / 2): .4 of the budget for one change and two steps
    assert stds.max() == pytest.approx(2 / (0.268051 * math.sqrt(0.2)), rel=1e-5)


def test_answers_are_the_exact_responses_but_for_their_noise():
    """Without privacy they are the bits of the statistic."""
    agent = make_agent(privacy=NoPrivacy(), schedule=static(400, 2))
    collected = []
    ask = parts(agent).budget.release
    parts(agent).budget.release = lambda total: collected.append(total.values) or ask(total)
    feed(agent, somebody(200))
    answers = agent.released().values[agent.algorithm.bound.size : -1].reshape(2, 4)
    # asked from the last step to the first
    np.testing.assert_array_equal(answers[:, :3], collected[::-1])
    assert not answers[:, 3].any()


def test_what_cannot_be_local_is_refused_with_what_to_use_instead():
    with pytest.raises(PrivacyError, match=r"Remark 5\].*next-state-vi.*JointDP"):
        LSVIUCB(SMALL.public, episodes=10, privacy=LocalDP(1.0, 1e-5))


def test_other_problems_and_bad_choices_are_refused():
    with pytest.raises(InvalidParameter, match=r"needs a linear MDP .*, got LinearMixturePublic"):
        LSVIUCB(lock(0).public, episodes=10, privacy=PRIVATE)
    with pytest.raises(InvalidParameter, match="got LinearMDP"):
        LSVIUCB(SMALL, episodes=10, privacy=PRIVATE)
    for plan in (static(11, 2), geometric(9)):
        with pytest.raises(InvalidParameter, match="the schedule ends after"):
            make_agent(episodes=10, schedule=plan)
    with pytest.raises(InvalidParameter, match="calibration must be one of tight, paper"):
        make_agent(calibration="loose")
    with pytest.raises(InvalidParameter, match="bonus_scale must be non-negative and finite"):
        make_agent(bonus_scale=-1.0)
    with pytest.raises(InvalidParameter, match="no noise yet"):
        LSVIUCB(SMALL.public, episodes=10, privacy=PRIVATE).next_batch()
    with pytest.raises(InvalidParameter, match="call next_batch first"):
        make_agent().observe(somebody(1))


def test_a_schedule_that_is_none_is_refused_in_one_line():
    for wrong in (5, "geometric", (1, 10)):
        with pytest.raises(InvalidParameter, match="schedule must be"):
            make_agent(episodes=10, schedule=wrong)


# As printed.


def test_the_paper_runs_as_printed():
    """K = 1e5, H = d = 5, epsilon = 1: the guarantee is the true one, 1.3e-5 to 1.4e-5, and with
    that noise nothing is learned.
    """
    agent = LSVIUCB(LATENT.public, episodes=100_000, privacy=PRIVATE, calibration="paper")
    constants = printed_linear(PRIVATE, LinearSetting(100_000, 5, 5))
    done = run(agent, LATENT, seed=0)
    assert verify(done.certificate).epsilon == pytest.approx(agent.guarantee.epsilon)
    # 1.38e-5 if 28 responses are paid for, 1.30e-5 for 27
    assert agent.guarantee.epsilon == pytest.approx(1.35e-5, rel=0.05)
    assert agent.schedule.leaves == constants.batches == 28
    regularizer = agent.algorithm.rule.regularizer
    assert regularizer.shift == constants.regularizer
    assert regularizer.beta == constants.beta
    assert done.regret[-1] > 0.9 * 100_000 * (LATENT.optimal_value - LATENT.uniform_value)
    half = LSVIUCB(
        LATENT.public, episodes=100_000, privacy=PRIVATE, calibration="paper", bonus_scale=0.5
    )
    assert half.algorithm.rule.regularizer.beta == 0.5 * constants.beta


def test_the_printed_noise_is_the_noise():
    """[Luyo21, E.1]: sigma_Lambda in each node of the tree, and sigma_u on each response, which is
    asked for in units of H + 1.
    """
    constants = printed_linear(PRIVATE, LinearSetting(400, 3, 3))
    tree, questions = make_agent(calibration="paper").mechanisms()
    assert tree.scale == pytest.approx(constants.sigma_gram, rel=1e-6)
    assert 4 * questions.scale == pytest.approx(constants.sigma_response, rel=1e-6)


def test_the_printed_batches_may_be_given():
    """It is the same plan, so it is the same agent."""
    plan = static(400, printed_linear(PRIVATE, LinearSetting(400, 3, 3)).batches)
    assert (
        make_agent(calibration="paper", schedule=plan).settings
        == make_agent(calibration="paper").settings
    )


@pytest.fixture
def too_little_noise(monkeypatch):
    """A quarter of the noise of the responses: constants that break the promise."""

    def weaker(privacy, setting):
        constants = printed_linear(privacy, setting)
        return replace(constants, sigma_response=constants.sigma_response / 4)

    monkeypatch.setattr("confide.linear_mdps.lsvi_ucb.printed_linear", weaker)


@pytest.mark.usefixtures("too_little_noise")
def test_constants_that_break_the_promise_are_refused_with_the_true_number():
    agent = LSVIUCB(LATENT.public, episodes=3000, privacy=PURE, calibration="paper")
    with pytest.raises(
        PromiseBroken, match=r"epsilon=1\.\d* at delta=0, more than the requested epsilon=1"
    ):
        run(agent, LATENT, seed=0)


@pytest.mark.usefixtures("too_little_noise")
def test_they_are_refused_before_the_first_user_is_served():
    """Also where nobody asks for the guarantee."""
    agent = make_agent(LATENT, episodes=3000, privacy=PURE, calibration="paper")
    with pytest.raises(PromiseBroken, match="more than the requested epsilon=1"):
        serve(agent, LATENT)


@pytest.mark.parametrize("world", [LATENT, ONE_HOT], ids=["latent", "one-hot"])
def test_the_pure_variant_runs_with_the_papers_calibration(world):
    done = run(
        LSVIUCB(world.public, episodes=3000, privacy=PURE, calibration="paper"), world, seed=0
    )
    assert 0.5 < verify(done.certificate).epsilon <= 1.0
    assert done.guarantee.delta == 0.0
    assert (
        "constants of noise, shift and width are confide's" in done.certificate.document["subject"]
    )


def test_explain_says_whose_the_constants_are():
    """E.3 prints orders only. E.1 prints constants, and the tight form has none."""
    pure, printed = (
        str(explain(make_agent(privacy=privacy, calibration="paper")))
        for privacy in (PURE, PRIVATE)
    )
    words = "the paper prints orders of growth only"
    assert words in " ".join(pure.replace("│", " ").split())
    assert words not in " ".join(printed.replace("│", " ").split())
    assert (
        "constants" in explain(make_agent(privacy=PURE, calibration="paper")).to_json()["agents"][0]
    )


def test_pure_constants_hold_where_there_is_one_feature():
    world = latent(0, states=6, actions=2, horizon=3, dimension=1)
    done = run(
        LSVIUCB(world.public, episodes=300, privacy=PURE, calibration="paper"), world, seed=0
    )
    assert verify(done.certificate).epsilon < 0.9


# What it keeps of users.


@pytest.mark.parametrize(
    "plan",
    [
        growing(400, first=20),
        adaptive(400, first=20, ratio=1.15, switches=3, growth=1.01),
        static(400, 1),
    ],
    ids=str,
)
def test_what_is_kept_is_dropped_after_the_last_change(plan):
    agent = make_agent(schedule=plan, privacy=NoPrivacy())
    rng = np.random.default_rng(0)
    while agent.users < 400:
        open_ends = agent.users < 400 and agent.switches < plan.switches
        assert (parts(agent).rows is not None) == open_ends
        assert bool(stored_names(agent)) == open_ends
        batch = agent.next_batch()
        agent.observe(SMALL.count(batch.policy, batch.users, rng))
    assert parts(agent).rows is None
    assert not stored_names(agent)


def test_nothing_that_is_published_holds_what_is_kept():
    """477 users alike, then a release: their counts, their sums and the exact responses are in
    nothing that can be read.
    """
    agent = make_agent(episodes=1000, schedule=static(1000, 2))
    zeros = np.zeros(3, dtype=np.int64)
    alike = TransitionCounts(
        np.arange(3), zeros, zeros, zeros, np.full(3, 0.625), np.full(3, 477), 477, 3
    )
    agent.next_batch()
    sums = agent.contribution(alike).values
    agent.observe(alike)
    collected = []
    ask = parts(agent).budget.release
    parts(agent).budget.release = lambda total: collected.append(total.values) or ask(total)
    agent.observe(counts_of_nobody(23, 3))
    assert agent.switches == 1
    released = agent.released()
    bound = agent.algorithm.bound
    assert released.values.size == bound.size + 2 * (3 + 1) + 1
    assert set(released.memory) == {"seed"}
    exact = np.concatenate([*collected, sums, bound.unpack(sums)[0].ravel(), [477.0, 477 * 0.625]])
    exact = exact[exact != 0]
    assert len(collected) == 2
    assert not np.isin(released.values, exact).any()
    published = agent.publish()
    assert not any(np.float64(number).tobytes() in published for number in exact)
    assert np.int64(477).tobytes() not in published
    shown = (
        agent,
        agent.algorithm,
        parts(agent).budget,
        agent.batches,
        agent.current_round(),
        agent.guarantee,
        agent.mechanisms(),
        released,
    )
    for each in shown:
        assert "477" not in repr(each)
        assert "0.625" not in repr(each)


def test_it_cannot_be_copied_with_what_it_keeps():
    agent = make_agent()
    feed(agent, somebody(5))
    with pytest.raises(PrivacyError):
        copy.deepcopy(agent)


def test_users_who_could_not_be_kept_are_not_absorbed_twice(monkeypatch):
    agent = make_agent()
    agent.next_batch()
    monkeypatch.setattr(parts(agent).rows, "add", lambda _: (_ for _ in ()).throw(MemoryError()))
    with pytest.raises(MemoryError):
        agent.observe(somebody(1))
    monkeypatch.undo()
    for attempt in (agent.released, agent.save, agent.publish, lambda: agent.observe(somebody(1))):
        with pytest.raises(StateError, match="must not be published"):
            attempt()


@pytest.mark.parametrize("where", ["is_due", "ask"])
def test_an_interrupted_change_of_policy_is_not_tried_again(monkeypatch, where):
    agent = make_agent()
    while agent.users < agent.schedule.times[0] - 1:
        agent.next_batch()
        agent.observe(somebody(1))
    monkeypatch.setattr(
        type(agent.algorithm), where, lambda *_: (_ for _ in ()).throw(KeyboardInterrupt())
    )
    agent.next_batch()
    with pytest.raises(KeyboardInterrupt):
        agent.observe(somebody(1))
    monkeypatch.undo()
    with pytest.raises(StateError, match="must not be published"):
        agent.observe(somebody(1))


def test_users_who_are_refused_may_come_again():
    """Nothing of them is in the sums: neither where the seam refuses them nor where they could not
    be kept.
    """
    agent = make_agent()
    agent.next_batch()
    with pytest.raises(InvalidParameter):
        agent.observe(somebody(agent.episodes + 1))
    zeros = np.zeros(2, dtype=np.int64)
    two_rows_in_one_step = TransitionCounts(
        zeros, zeros, zeros, zeros, np.zeros(2), np.ones(2, dtype=np.int64), 1, 2
    )
    with pytest.raises(InvalidParameter, match="at most one"):
        agent.observe(two_rows_in_one_step)
    agent.observe(somebody(1))
    assert agent.users == parts(agent).rows.users == 1


# Changes of policy, and questions.


def test_policies_change_at_the_times_of_the_plan():
    for plan in (static(400, 7), growing(400, first=11), geometric(400)):
        agent = make_agent(schedule=plan)
        assert serve(agent) == list(agent.schedule.times[:-1])


@pytest.mark.parametrize("switches", [1, 4, 20])
def test_no_more_is_asked_than_the_cap(switches):
    """A rule that is always true, without noise: the cap alone stops it."""
    plan = adaptive(400, first=20, ratio=1.15, switches=switches, growth=1 + 1e-9)
    agent = make_agent(schedule=plan, privacy=NoPrivacy())
    serve(agent)
    assert agent.switches == plan.switches <= switches
    assert parts(agent).budget.asked <= len(parts(agent).budget) == 2 * plan.switches
    private = make_agent(schedule=plan)
    serve(private)
    assert private.switches <= switches
    assert parts(private).budget.asked <= len(parts(private).budget)


@pytest.mark.parametrize("privacy", [PRIVATE, NoPrivacy()], ids=str)
def test_each_question_is_asked_on_the_share_of_its_place(privacy):
    """Of users who were nowhere noise makes values that differ, and nothing makes values that do
    not: then there is nothing to ask. What is not asked is not saved up: after each change as
    many were taken as a change may ask.
    """
    agent = make_agent(schedule=static(400, 8), privacy=privacy, bonus_scale=0.0)
    taken = []
    answered = []
    skip = parts(agent).budget.skip
    ask = parts(agent).budget.release
    parts(agent).budget.skip = lambda left: (skip(left), taken.append(parts(agent).budget.asked))
    parts(agent).budget.release = lambda total: answered.append(total) or ask(total)
    feed(agent, nowhere(400))
    assert taken == [2, 4, 6, 8, 10, 12, 14]
    assert len(answered) == (0 if isinstance(privacy, NoPrivacy) else 14)


def record_answers(users, plan):
    """What the counter releases of a stream, after each generation."""
    agent = make_agent(privacy=NoPrivacy(), schedule=plan)
    script = [agent._privatizer.release_sums()]
    at = 0
    for time in plan.schedule.times:
        feed(agent, users[at:time])
        script.append(agent._privatizer.release_sums())
        at = time
    return script


def script_answers(users, plan, script, answers):
    """An agent whose counter shows `script`, and whose questions are answered by `answers`: (times
    of change, everything published).
    """
    agent = make_agent(schedule=plan)
    at = 0
    times = []
    published = []
    counter = parts(agent).sums.counter
    counter.release = lambda: script[counter.generation]
    ask = parts(agent).budget.release

    def answer(total):
        place = parts(agent).budget.asked
        return dataclasses.replace(ask(total), values=answers[place])

    parts(agent).budget.release = answer
    for time in plan.schedule.times:
        before = agent.switches
        feed(agent, users[at:time])
        times += [time] * (agent.switches - before)
        published.append(
            (agent.publish(), agent.current_round().policies[0].probabilities().tobytes())
        )
        at = time
    return times, published


def test_the_schedule_depends_on_releases_only():
    """Two neighbours, and a stream of nothing but nonsense: with the same releases all change at
    the same times, and publish the same bytes. With other releases they change at other times.
    """
    plan = adaptive(400, first=10, switches=6, growth=2.0, ratio=1.3)
    users = somebody(400)
    rng = np.random.default_rng(1)
    neighbour = Trajectories(users.states.copy(), users.actions.copy(), users.rewards.copy())
    neighbour.states[3] = [5, 5, 5, 5]
    neighbour.actions[3] = [1, 1, 1]
    neighbour.rewards[3] = [np.nan, 1e9, -1.0]
    assert (users.states[3] != neighbour.states[3]).any()
    answers = rng.normal(size=(12, 3)) * 50
    script = record_answers(users, plan)
    times, published = script_answers(users, plan, script, answers)
    assert 2 <= len(times) <= 6
    for other in (neighbour, nowhere(400)):
        same_times, same_published = script_answers(other, plan, script, answers)
        assert same_times == times
        assert same_published == published
    still = [
        *script[:3],
        *(dataclasses.replace(each, values=script[2].values) for each in script[3:]),
    ]
    # nothing is seen to grow after the first change
    assert script_answers(users, plan, still, answers)[0] == times[:1]
    late = [*still[:-1], dataclasses.replace(still[-1], values=100 * still[-1].values)]
    # and nobody comes after the last release
    assert script_answers(users, plan, late, answers)[0] == times[:1]
    faster = [
        dataclasses.replace(each, values=each.values * 3.0**i) for i, each in enumerate(script)
    ]
    # until the cap
    assert script_answers(users, plan, faster, answers)[0] == list(plan.schedule.times[:6])


def test_adaptive_batches_learn_on_a_grid_that_was_fixed_before():
    """20 000 users: measured 10 to 13 changes on a grid of 48 times, and a regret of .14 of uniform
    play.
    """
    plan = adaptive(20_000, first=30, switches=20, growth=2.0, ratio=1.15)
    agent = LSVIUCB(LATENT.public, episodes=20_000, privacy=PRIVATE, schedule=plan)
    done = run(agent, LATENT, seed=0)
    assert done.regret[-1] < 0.3 * 20_000 * (LATENT.optimal_value - LATENT.uniform_value)
    times = serve(make_agent(LATENT, episodes=20_000, schedule=plan), LATENT)
    assert times[0] == 30
    assert 3 <= len(times) < 20
    assert set(times) < set(agent.schedule.times)


# Hostile users, and stopping in the middle.


def test_a_store_has_every_release_before_it_can_be_read(tmp_path):
    users = somebody(400)
    plan = static(400, 8)
    agent = make_agent(schedule=plan)
    agent.keep(tmp_path / "state")
    feed(agent, users[:120])
    other = make_agent(seed=1, schedule=plan)
    other.keep(tmp_path / "state")
    np.testing.assert_array_equal(other.released().values, agent.released().values)
    # The users of the open batch are not in it.
    assert (other.users, other.switches) == (100, 2)
    feed(other, users[100:400])
    # and nobody else goes on from the same state
    with pytest.raises(StateError, match="already written"):
        feed(agent, users[120:400])
    with pytest.raises(StateError, match="must not be published"):
        agent.released()
    whole = make_agent(schedule=plan)
    feed(whole, users)
    np.testing.assert_array_equal(other.released().values, whole.released().values)


GRID = {"first": 20, "switches": 5, "growth": 2.0}
OTHERS = {
    "other batches": ({}, {"schedule": static(400, 5)}),
    "another growth": (
        {"schedule": adaptive(400, **GRID)},
        {"schedule": adaptive(400, **GRID | {"growth": 3.0})},
    ),
    "another cap": (
        {"schedule": adaptive(400, **GRID)},
        {"schedule": adaptive(400, **GRID | {"switches": 6})},
    ),
    "another bonus": ({}, {"bonus_scale": 0.3}),
    "another calibration": (
        {"schedule": static(400, 5)},
        {"schedule": static(400, 5), "calibration": "paper"},
    ),
    "another promise": ({}, {"privacy": JointDP(2.0, 1e-5)}),
    "other neighbours": (
        {"schedule": static(400, 5)},
        {"schedule": static(400, 5), "privacy": JointDP(1.0, 1e-5, Relation.NULL)},
    ),
    "another number of users": ({}, {"episodes": 401}),
    "another problem": ({}, {"world": latent(1, states=6, actions=2, horizon=3, dimension=3)}),
}


@pytest.mark.parametrize(("this", "other"), OTHERS.values(), ids=OTHERS)
def test_a_state_of_another_setting_is_refused(this, other):
    agent = make_agent(**this)
    same = make_agent(seed=1, **this)
    stranger = make_agent(**other)
    feed(agent, somebody(50))
    with pytest.raises(StateError):
        stranger.restore(agent.save(), released=0)
    assert stranger.users == 0
    same.restore(agent.save(), released=0)
    assert same.users == 50


def test_trajectories_and_counts_make_the_same_learner():
    agent = LSVIUCB(SMALL.public, episodes=400, privacy=PRIVATE)
    agent.abilities = replace(agent.abilities, counts=False)
    done = run(agent, SMALL, seed=0)
    assert done.complete
    assert "Simulated" not in str(done.certificate.document["assumptions"])
    again = LSVIUCB(SMALL.public, episodes=400, privacy=PRIVATE)
    again.abilities = replace(again.abilities, counts=False)
    np.testing.assert_array_equal(run(again, SMALL, seed=0).regret, done.regret)
