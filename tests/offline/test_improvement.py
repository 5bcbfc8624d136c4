"""Improvement bounds: what is asked of held-out people, what is refused, and whether it is true."""

import json
import math
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import confide
from confide.audit.verify import verify
from confide.errors import BudgetExceeded, ConfideWarning, InvalidParameter, StateError
from confide.logs import in_memory, simulate
from confide.offline import Improvement, ModelRelease
from confide.offline.gain_contributions import Gains, Moments, Shortfalls
from confide.offline.gain_planning import LEVEL, MOST_EPSILON, MOST_MU, CandidatePolicy, lower_mean
from confide.offline.improvement_question import chosen_method
from confide.offline.reward_planning import lower_rewards
from confide.offline.row_planning import EstimatedRows
from confide.offline.table_features import LoggedTable, step_ranges
from confide.policy import StochasticPolicy, uniform_policy
from confide.privacy import Ledger
from confide.privacy.accounting import gaussian_mu
from confide.problems import riverswim
from confide.tables.support_features import support_of
from confide.trajectory import LoggedUsers

STATES, ACTIONS, STEPS, DISCOUNT = 4, 2, 12, 0.9
STRONG = confide.CentralDP(4.0, 1e-6)


@pytest.fixture(scope="module")
def world():
    return riverswim(states=STATES, horizon=STEPS)


@pytest.fixture(scope="module")
def asked(world):
    return ModelRelease(
        states=STATES, actions=ACTIONS, discount=DISCOUNT, rewards=world.rewards[0], ends=False
    )


def log_of(world, users, seed, policy=None):
    policy = uniform_policy(STEPS, STATES, ACTIONS) if policy is None else policy
    return in_memory(simulate(world, policy, users, np.random.default_rng(seed)), max_steps=STEPS)


@pytest.fixture(scope="module")
def halves(world):
    return log_of(world, 20_000, 0).split(0.5)


@pytest.fixture(scope="module")
def model(asked, halves):
    return asked.release(halves[0], privacy=STRONG, rng=np.random.default_rng(1))


def value(world, policy):
    P, V = world.transitions.dense()[0], np.zeros(STATES)
    for _ in range(STEPS):
        V = (policy * (world.rewards[0] + DISCOUNT * P @ V)).sum(axis=1)
    return float(world.start @ V)


def gain(world, found, policy):
    uniform = np.full((STATES, ACTIONS), 1 / ACTIONS)
    return value(world, (1 - found.share) * uniform + found.share * policy) - value(world, uniform)


@pytest.mark.parametrize("method", ["weights", "model"])
def test_a_better_policy_is_shown_to_be_better_and_by_not_more_than_it_is(
    world, model, halves, method
):
    policy = model.plan()
    found = model.improvement(policy, halves[1], method=method, rng=np.random.default_rng(2))
    assert 0 < found.bound < gain(world, found, policy.weights)
    assert (
        found.method == method
        and found.horizon == STEPS
        and found.users + model.guarantee.users == 20_000
    )
    assert (
        "95 % confidence" in str(found)
        and ("proved" in found.basis)
        and ("measured" in found.basis)
    )
    verified = verify(found.certificate)
    assert verified.epsilon == pytest.approx(4.0, rel=1e-5)


def test_auto_asks_one_question_of_the_two(model, halves):
    found = [
        model.improvement(model.plan(), halves[1], method=name, rng=np.random.default_rng(2))
        for name in ("auto", "weights", "model")
    ]
    assert found[0].bound in (found[1].bound, found[2].bound)


@pytest.mark.parametrize("method", ["weights", "model"])
def test_the_value_of_the_policy_has_an_interval_that_holds_it(world, model, halves, method):
    policy = model.plan()
    tested = model.improvement(
        policy, halves[1], method=method, with_value=True, rng=np.random.default_rng(2)
    )
    truth = value(world, policy.mixed(np.full((STATES, ACTIONS), 1 / ACTIONS)))
    learned = tested.learned
    assert learned.low < truth < learned.high
    assert learned.high - learned.low < 0.2 * step_ranges(model.table, STEPS)[1][-1]
    assert tested.to_json()["learned"] == learned.to_json()
    assert Improvement.from_bytes(tested.to_bytes()).learned == learned
    # The counts and the gains share one budget.
    assert verify(tested.certificate).epsilon == pytest.approx(4.0, rel=1e-5)
    stated = [assumption.text for assumption in tested.assumptions]
    assert any("recorded state is enough" in text for text in stated)


def test_without_the_value_the_weights_have_the_whole_budget(model, halves):
    policy = model.plan()
    bound, with_value = (
        model.improvement(
            policy, halves[1], method="weights", with_value=asked, rng=np.random.default_rng(2)
        )
        for asked in (False, True)
    )
    assert bound.learned.value is None
    released = [each.certificate.document["mechanisms"] for each in (bound, with_value)]
    assert [len(mechanisms) for mechanisms in released] == [1, 2]


def test_the_interval_of_the_value_does_not_suffer_from_the_choice_of_the_policy(world):
    """Learned rewards, 30 small logs: at 90 % at most 8 of 30 intervals fail but for a chance of
    .002.
    """
    question = ModelRelease(
        states=STATES, actions=ACTIONS, discount=DISCOUNT, reward_range=(0.0, 1.0), ends=False
    )
    uniform = np.full((STATES, ACTIONS), 1 / ACTIONS)
    failed = 0
    for seed in range(30):
        learn, test = log_of(world, 3000, 100 + seed).split(0.5)
        model = question.release(learn, privacy=STRONG, rng=np.random.default_rng(seed))
        policy = model.plan(0.0, tested=False)
        learned = model.improvement(
            policy, test, method="model", rng=np.random.default_rng([seed, 1])
        ).learned
        truth = value(world, policy.mixed(uniform))
        failed += learned.estimated and not learned.low <= truth <= learned.high
    assert failed <= 8


def test_a_policy_that_changes_nothing_is_worth_what_the_logged_policy_is(model):
    unchanged = model.plan(pessimism=1e6)
    assert not unchanged.changed.any()
    assert unchanged.learned == unchanged.logged


def test_a_worse_policy_is_not_shown_to_be_better(model, halves):
    worse = 1 - np.eye(ACTIONS)[model.plan(0.0).choices]
    for method in ("weights", "model"):
        found = model.improvement(worse, halves[1], method=method, rng=np.random.default_rng(3))
        assert not found.shown and str(found).startswith("not shown")


def test_the_ledger_charges_the_larger_loss_of_the_two_parts(asked, halves, tmp_path):
    ledger = confide.Ledger.init(tmp_path / "budget.sqlite", epsilon=4.0, delta=1e-6)
    learned = asked.release(halves[0], privacy=STRONG, ledger=ledger, rng=np.random.default_rng(1))
    mu = ledger.spent.mu
    first, again = (
        learned.improvement(
            learned.plan(), halves[1], ledger=ledger, rng=np.random.default_rng(seed)
        )
        for seed in (1, 2)
    )
    assert ledger.spent.mu == mu and len(ledger.spends) == 2
    assert first.to_bytes() == again.to_bytes()  # the same question has the same answer
    with pytest.raises(BudgetExceeded):  # another question to the same people costs them again
        learned.improvement(
            np.zeros(STATES, int), halves[1], ledger=ledger, rng=np.random.default_rng(1)
        )


def test_replacing_a_person_changes_one_part(world):
    one = log_of(world, 300, 0)
    block = next(iter(one.blocks()))
    states = block.states.copy()
    states[: STEPS * 1] = STATES - 1
    other = LoggedUsers(
        states,
        block.rewards,
        block.trajectories,
        block.users,
        block.valid,
        block.actions,
        block.probabilities,
    )
    parts = [
        [np.concatenate([b.states for b in part.blocks()]) for part in log.split(0.5)]
        for log in (one, in_memory(other, max_steps=STEPS))
    ]
    same = [np.array_equal(a, b) for a, b in zip(*parts, strict=True)]
    assert sorted(same) == [False, True]


def test_what_does_not_hold_is_refused(world, asked, model, halves):
    learn, test = halves
    policy = model.plan()
    whole = log_of(world, 300, 0)
    exact = asked.release(learn, privacy=confide.NoPrivacy(), rng=np.random.default_rng(1))
    for wrong, said in (
        (lambda: model.improvement(policy, learn), "not learned from"),
        (lambda: model.improvement(policy, whole), "not learned from"),
        (lambda: model.improvement(policy, whole.split(0.5)[1]), "not learned from"),
        (lambda: exact.improvement(policy, test), "need privacy"),
        (lambda: model.improvement(policy, test, privacy=confide.NoPrivacy()), "need privacy"),
        (lambda: model.improvement(policy, test, method="guess"), "method"),
    ):
        with pytest.raises(InvalidParameter, match=said):
            wrong()


def test_weights_are_refused_where_their_level_was_not_shown_before_anything_is_charged(
    model, halves, tmp_path
):
    """At epsilon = 30 the worst law of gains makes 7 % of the bounds of 95 % confidence false, at
    50 more than 9 %.
    """
    policy, test = model.plan(), halves[1]
    with Ledger.init(tmp_path / "budget.sqlite", epsilon=100.0, delta=1e-5) as ledger:
        for privacy, most in (
            (confide.CentralDP(30.0, 1e-6), "8.42"),
            (confide.CentralDP(3.0, 0.0), "2.75"),
        ):
            message = (
                rf"confidence of 95 % was shown to hold for epsilon up to {most} .*"
                "choose a smaller epsilon, or use method"
            )
            with pytest.raises(InvalidParameter, match=message):
                model.improvement(
                    policy,
                    test,
                    method="weights",
                    privacy=privacy,
                    ledger=ledger,
                    rng=np.random.default_rng(2),
                )
            assert (
                chosen_method(model, CandidatePolicy(policy.weights, policy.changed), test, privacy)
                == "model"
            )
        assert ledger.spends == ()
    allowed = model.improvement(
        policy,
        test,
        method="weights",
        privacy=confide.CentralDP(8.0, 1e-6),
        rng=np.random.default_rng(2),
    )
    assert allowed.method == "weights"


def test_the_level_of_weights_holds_up_to_the_largest_loss_that_is_allowed(monkeypatch):
    """Computed at the clip and the number of users that are worst; the benchmark goes through all
    of them.
    """
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    import improvement_level

    monkeypatch.setattr(improvement_level, "COMMON_GAINS", (0.0, 0.0003))
    few = {"clips": (1.1,), "users": (100_000,)}
    assert improvement_level.worst("gaussian", MOST_MU, **few)[0] <= 1 - LEVEL
    assert improvement_level.worst("laplace", MOST_EPSILON, **few)[0] <= 1 - LEVEL
    at_30, at_50 = (
        improvement_level.worst("gaussian", gaussian_mu(epsilon, 1e-6), **few)[0]
        for epsilon in (30.0, 50.0)
    )
    assert at_30 > 0.062 and at_50 > 0.087


@pytest.mark.parametrize("method", ["weights", "model"])
def test_a_bound_states_what_it_assumes_of_the_log(model, halves, method, tmp_path):
    """In the object, in its JSON, and in the certificate: the words are for those who know where
    the log comes from.
    """
    found = model.improvement(model.plan(), halves[1], method=method, rng=np.random.default_rng(2))
    found.save(tmp_path)
    stored = json.loads((tmp_path / "improvement.json").read_text())
    document = json.loads((tmp_path / "improvement_certificate.json").read_text())
    certified = [assumption["text"] for assumption in document["assumptions"]]
    for stated in (
        [assumption.text for assumption in found.assumptions],
        stored["assumptions"],
        found.to_json()["assumptions"],
        certified,
    ):
        assert any(
            "Nothing that the log does not record influenced both" in each for each in stated
        )
        assert any("recorded state is enough" in each for each in stated) == (method == "model")
        assert any("probabilities in the log are those" in each for each in stated) == (
            method == "weights"
        )


def test_weights_are_refused_without_probabilities_or_with_losses(world, asked, tmp_path):
    confide.logs.write(
        tmp_path / "log.parquet",
        simulate(world, uniform_policy(STEPS, STATES, ACTIONS), 2000, np.random.default_rng(0)),
    )
    learn, test = confide.logs.open(
        tmp_path / "log.parquet", action="action", max_steps=STEPS
    ).split(0.5)
    half = asked.release(learn, privacy=STRONG, rng=np.random.default_rng(1))
    with pytest.raises(InvalidParameter, match="probabilities"):
        half.improvement(half.plan(), test, method="weights")
    assert half.improvement(half.plan(), test, rng=np.random.default_rng(1)).method == "model"
    log = log_of(world, 2000, 0)
    losses = ModelRelease(
        states=STATES,
        actions=ACTIONS,
        discount=DISCOUNT,
        rewards=world.rewards[0] - 0.5,
        ends=False,
    )
    half = losses.release(log.split()[0], privacy=STRONG, rng=np.random.default_rng(1))
    with pytest.raises(InvalidParameter, match="negative"):
        half.improvement(half.plan(), log.split()[1], method="weights")


def test_rewards_that_are_all_zero_are_refused(world):
    log = log_of(world, 300, 0)
    nothing = ModelRelease(
        states=STATES, actions=ACTIONS, discount=DISCOUNT, rewards=np.zeros(STATES), ends=False
    )
    learn, test = log.split()
    half = nothing.release(
        learn, privacy=confide.CentralDP(200.0, 1e-6), rng=np.random.default_rng(1)
    )
    with pytest.raises(InvalidParameter, match="all returns are the same"):
        half.improvement(np.zeros(STATES, int), test)


def test_gains_are_importance_sampling_and_clipping_only_lowers_them(world, model):
    """The exact mean gain without a clip is that of the mixture; false alarms: 6e-5 (four standard
    errors).
    """
    policy = np.eye(ACTIONS)[model.plan().choices.clip(0, ACTIONS - 1)]
    rest = step_ranges(model.table, STEPS)[1]
    highest = float(rest[-1])
    block = next(iter(log_of(world, 20_000, 5).blocks()))
    means = {}
    for clip in (1.5, 3.0, 1e3):
        statistic = Gains(
            Moments(-1 / clip, 1 - 1 / clip),
            model.table,
            policy,
            np.ones(STATES, bool),
            rest,
            0.3,
            clip,
        )
        total, square = statistic.contribution(block).values
        mean = total / block.count * clip * highest
        means[clip] = (
            mean,
            math.sqrt(square * 3 / block.count) * clip * highest / math.sqrt(block.count),
        )
    uniform = np.full((STATES, ACTIONS), 0.5)
    true = value(world, 0.7 * uniform + 0.3 * policy) - value(world, uniform)
    assert abs(means[1e3][0] - true) < 4 * means[1e3][1]
    assert means[1.5][0] <= means[3.0][0] <= means[1e3][0] + 1e-6


def test_a_record_that_stops_early_counts_as_the_most_that_could_have_followed(model):
    low, high = step_ranges(model.table, STEPS)
    short = LoggedUsers(
        np.zeros(3, np.int64),
        np.zeros(3),
        np.array([0, 3]),
        np.array([0, 1]),
        np.ones(1, bool),
        np.zeros(3, np.int64),
        np.full(3, 0.5),
    )
    short_of = (
        Shortfalls(Moments(0.0, 1.0), model.table, high, float(low[-1]))
        .contribution(short)
        .values[0]
    )
    paid = sum(DISCOUNT**t * model.table.rewards[0, 0] for t in range(3))
    assert (1 - short_of) * high[-1] == pytest.approx(
        paid + DISCOUNT**3 * high[STEPS - 3], abs=1e-5
    )


@pytest.mark.parametrize("ends", [False, True])
def test_a_record_that_stops_early_shows_no_gain(ends):
    """The second action pays 1, then nothing; the first one pays .5 for ever.

    One step is recorded: only an end tells that this is all.
    """
    n = 4000
    actions = np.arange(n) % 2
    one_row = LoggedUsers(
        np.zeros(n, np.int64),
        np.zeros(n),
        np.arange(n + 1),
        np.arange(n + 1),
        np.ones(n, bool),
        actions,
        np.full(n, 0.5),
    )
    learn, test = in_memory(one_row, max_steps=20).split(0.5)
    rewards = np.array([[0.5, 1.0], [0.0, 0.0]])
    asked = ModelRelease(states=2, actions=2, discount=DISCOUNT, rewards=rewards, ends=ends)
    with warnings.catch_warnings():
        # few pairs of state and action are told from noise
        warnings.simplefilter("ignore", ConfideWarning)
        half = asked.release(learn, privacy=STRONG, rng=np.random.default_rng(1))
    found = half.improvement(np.ones(2, int), test, method="weights", rng=np.random.default_rng(2))
    assert found.shown == ends


def test_a_probability_that_is_almost_zero_does_not_hide_a_loss():
    """A weight that is huge, then zero, is zero: what is paid after it is lost."""
    support = support_of(None, layers=1, states=1, actions=2, terminal=None)
    table = LoggedTable(
        1, 2, 1.0, support, np.zeros(1, bool), np.array([[0.0, 1.0]]), 0.0, 1.0, 0.0, 2.0
    )
    user = LoggedUsers(
        np.zeros(2, np.int64),
        np.zeros(2),
        np.array([0, 2]),
        np.array([0, 1]),
        np.ones(1, bool),
        np.array([0, 1]),
        np.array([5e-324, 0.5]),
    )
    first = np.array([[1.0, 0.0]])
    rest = step_ranges(table, 2)[1]
    total = (
        Gains(Moments(-1 / 2, 1 / 2), table, first, np.ones(1, bool), rest, 1.0, 2.0)
        .contribution(user)
        .values[0]
    )
    assert total * 2 * rest[-1] == pytest.approx(-1, abs=1e-5)


def test_a_trajectory_counts_up_to_the_first_missing_step(model):
    """What follows is not known, as if the record stopped there.

    Two users, who have two rows before the gap, and one.
    """
    rng = np.random.default_rng(0)
    rows = 2 * STEPS
    gaps = np.zeros(rows, bool)
    gaps[[2, STEPS + 1, STEPS + 5]] = True
    columns = rng.integers(STATES, size=rows), rng.random(rows)
    actions = rng.integers(ACTIONS, size=rows)
    halves = np.full(rows, 0.5)
    both = np.ones(2, bool)
    block = LoggedUsers(
        *columns, np.array([0, STEPS, rows]), np.arange(3), both, actions, halves, gaps
    )
    kept = np.array([0, 1, STEPS])
    states, rewards = (column[kept] for column in columns)
    cut = LoggedUsers(
        states, rewards, np.array([0, 2, 3]), np.arange(3), both, actions[kept], halves[kept]
    )
    table = model.table
    low, high = step_ranges(table, STEPS)
    clip, greedy = 2.0, np.eye(ACTIONS)[np.zeros(STATES, int)]
    gains = Gains(
        Moments(-1 / clip, 1 - 1 / clip), table, greedy, np.ones(STATES, bool), high, 0.3, clip
    )
    short = Shortfalls(Moments(0.0, 1.0), table, high, float(low[-1]))
    for statistic in (gains, short):
        assert np.array_equal(
            statistic.contribution(block).values, statistic.contribution(cut).values
        )
        assert not np.array_equal(
            statistic.contribution(block).values,
            statistic.contribution(replace(block, gaps=None)).values,
        )


def without_some_steps(block, rng):
    """Each step but the first is missing with probability 4 %."""
    kept = rng.random(len(block.states)) > 0.04
    starts = block.trajectories[:-1]
    kept[starts] = True
    rows = np.flatnonzero(kept)
    gaps = np.diff(rows, prepend=0) > 1
    ends = np.append(np.cumsum(kept)[starts] - 1, len(rows))
    logged = block.actions[kept], block.probabilities[kept]
    return LoggedUsers(
        block.states[kept], block.rewards[kept], ends, block.users, block.valid, *logged, gaps
    )


def test_a_few_missing_steps_do_not_destroy_a_bound(world, asked):
    """Four in ten trajectories have a gap.

    Counting them as the worst case from the first step on gave -1.33; without gaps it is 1.06.

    Up to the gap they count now. Where a missing state is a state of its own, there are no gaps.
    """
    rng = np.random.default_rng(7)
    blocks = list(
        simulate(world, uniform_policy(STEPS, STATES, ACTIONS), 40_000, np.random.default_rng(0))
    )
    cut = [without_some_steps(block, rng) for block in blocks]
    filled = [
        replace(block, states=np.where(rng.random(len(block.states)) < 0.04, STATES, block.states))
        for block in blocks
    ]
    learned = ModelRelease(
        states=STATES + 1, actions=ACTIONS, discount=DISCOUNT, reward_range=(0.0, 1.0), ends=False
    )
    for release, log, least in ((asked, cut, -0.2), (learned, filled, 0.7)):
        learn, test = in_memory(log, max_steps=STEPS).split(0.5)
        model = release.release(learn, privacy=STRONG, rng=np.random.default_rng(1))
        found = model.improvement(model.plan(), test, method="model", rng=np.random.default_rng(2))
        assert found.bound > least
        assert (
            f"{found.bound:.3g}" in str(found)
            and "up to the first step that is missing" in found.basis
        )


def test_the_level_holds_for_rare_gains_under_noise():
    """Two-point laws: the error is at most .05 plus four standard errors of 4000 runs; without the
    noise it is not.
    """
    rng, users, clip, mu = np.random.default_rng(0), 5000, 3.0, 0.2367
    bound = Moments(-1 / clip, 1 - 1 / clip)
    std = bound.sensitivity("replace") / mu
    errors = {}
    for rare in (3 / users, 30 / users, 0.1):
        low = -rare * bound.high / (1 - rare)  # so that the mean is zero
        often = rng.binomial(users, rare, size=4000)
        total = often * bound.high + (users - often) * low
        squares = often * bound.high**2 + (users - often) * low**2
        noisy = zip(
            total + rng.normal(0, std, 4000), squares + rng.normal(0, 3 * std, 4000), strict=True
        )
        errors[rare] = np.mean([lower_mean(a, b, std, 3 * std, users) > 0 for a, b in noisy])
    assert max(errors.values()) < 0.05 + 4 * math.sqrt(0.05 * 0.95 / 4000)
    missed = rng.binomial(users, 3 / users, size=4000)  # rare losses that nobody has
    total = -missed * bound.high + (users - missed) * 3 / users * bound.high / (1 - 3 / users)
    exact = [
        lower_mean(a, b, 0.0, 0.0, users) > 0
        for a, b in zip(total, missed * bound.high**2, strict=True)
    ]
    assert np.mean(exact) > 0.05


def test_bytes_are_read_back_and_damage_is_refused(model, halves, tmp_path):
    found = model.improvement(model.plan(), halves[1], rng=np.random.default_rng(2))
    assert Improvement.from_bytes(found.to_bytes()).to_bytes() == found.to_bytes()
    found.save(tmp_path / "out")
    assert (tmp_path / "out" / "improvement.json").read_bytes() == found.to_bytes()
    swapped = json.loads(found.to_bytes())
    swapped["learned"] = {"value": 0.0, "low": 1.0, "high": 2.0}
    for damaged in (
        b"",
        b"{}",
        json.dumps(swapped).encode(),
        found.to_bytes()[:-5],
        found.to_bytes().replace(b"confide-improvement/4", b"confide-improvement/9"),
    ):
        with pytest.raises(StateError):
            Improvement.from_bytes(damaged)


def test_a_stochastic_policy_is_tested_as_it_is(world, model, halves):
    good = StochasticPolicy(np.tile([0.2, 0.8], (STEPS, STATES, 1)))
    found = model.improvement(good, halves[1], method="model", rng=np.random.default_rng(4))
    assert found.bound < gain(world, found, np.tile([0.2, 0.8], (STATES, 1)))


def test_noise_on_learned_rewards_does_not_raise_a_lower_value():
    """Nothing pays.

    A lower value that is cut at zero is above zero on average, over many rows by much: rows are
    chosen by other people.
    """
    made = ModelRelease(
        states=STATES, actions=ACTIONS, discount=DISCOUNT, ends=True, reward_range=(0.0, 1.0)
    )
    table = made.table()
    size = table.support.pairs
    rng, visits = np.random.default_rng(0), np.full(size, 100.0)
    rows = EstimatedRows(
        np.zeros(table.support.cells),
        np.zeros(table.support.cells),
        visits,
        np.full(size, 5.0),
        np.zeros(size),
        0.0,
        "projection",
        visits,
    )
    shape = table.support.states, ACTIONS
    # sums of rewards of zero, which is -1 in units of the range
    drawn = [rng.normal(-100.0, 30.0, size) for _ in range(200)]
    none, every = (
        np.mean(
            [lower_rewards(table, np.full(shape, chosen), rows, sums, 30.0, 2.0) for sums in drawn]
        )
        for chosen in (False, True)
    )
    # one standard deviation below: 0.01 and more in every step
    assert none == 0.0 and every < 0.003
    sums = np.full(size, 100.0)  # everything pays one
    paid = lower_rewards(table, np.ones(shape, bool), rows, sums, 30.0, 2.0)[:STATES]
    assert ((paid > 0.5) & (paid < 1.0)).all()


def test_learned_rewards_of_the_null_are_not_shown(world):
    """A policy that is as good as the behaviour, eight releases: with rewards of few people nothing
    is shown.
    """
    made = ModelRelease(
        states=STATES, actions=ACTIONS, discount=DISCOUNT, ends=True, reward_range=(0.0, 1.0)
    )
    for seed in range(8):
        learn, test = log_of(world, 2000, seed).split(0.5)
        model = made.release(learn, privacy=STRONG, rng=np.random.default_rng(seed))
        found = model.improvement(
            np.full((STATES, ACTIONS), 0.5),
            test,
            method="model",
            rng=np.random.default_rng([seed, 1]),
        )
        assert not found.shown
