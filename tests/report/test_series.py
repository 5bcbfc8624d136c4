import math

import numpy as np
import pytest
from scipy import stats

from confide.errors import InvalidParameter
from confide.experiments.run import Segment
from confide.privacy.certificate import Certificate
from confide.privacy.request import Relation, Trust
from confide.report.bands import band, regret_at, return_at, summary, value_at
from confide.report.promises import promise_of
from confide.report.series import worlds
from confide.report.words import headline, number, percent, plus_minus, times


def test_curves_at_a_runs_own_checkpoints_are_the_runs(made_up):
    run = made_up.learner()
    np.testing.assert_allclose(regret_at(run, run.checkpoints), run.regret)
    np.testing.assert_array_equal(value_at(run, run.checkpoints), run.value)


def test_returns_are_averages_of_the_users_in_between(made_up):
    run = made_up.fixed("uniform", 0.0, users=10, segments=(Segment(4, 0.0, 1.0), Segment(6, 0.0, 2.0)))
    np.testing.assert_allclose(return_at(run, np.array([2, 6, 10])), [1.0, 1.5, 2.0])


def test_the_band_is_students():
    curves = np.random.default_rng(0).normal(size=(5, 3))
    made = band(np.arange(3), list(curves))
    low, high = stats.t.interval(0.95, 4, loc=curves.mean(axis=0), scale=stats.sem(curves))
    np.testing.assert_allclose([made.low, made.high], [low, high])


def test_the_band_of_few_seeds_is_what_was_seen():
    curves = np.random.default_rng(0).normal(size=(3, 4))
    curves[:, 3] = 0.3
    made = band(np.arange(4), list(curves))
    np.testing.assert_array_equal(made.low[:3], curves.min(axis=0)[:3])
    np.testing.assert_array_equal(made.high[:3], curves.max(axis=0)[:3])
    assert made.low[3] == made.high[3]  # seeds that agree up to rounding have no band


def test_one_seed_has_no_band_and_no_error():
    made = band(np.arange(2), [np.array([1.0, 2.0])])
    np.testing.assert_array_equal(made.low, made.high)
    assert summary([3.0]).error is None


def test_rounding_is_not_regret(made_up):
    (world,) = worlds([made_up.fixed("oracle", made_up.OPTIMAL - 1e-13, seed=i) for i in range(3)])
    assert world.series[0].final_regret().mean == 0.0
    assert summary([0.1 + 0.2, 0.3, 0.3]).error == 0.0


def test_series_are_agents_under_a_guarantee(made_up):
    lock, cartpole = worlds(made_up.everything())
    assert (lock.name, cartpole.name) == ("lock", "cartpole")
    assert [s.label for s in lock.series] == [
        "ucrl-vtr, ε = 0.5",
        "ucrl-vtr, ε = 1",
        "ucrl-vtr, ε = 5",
        "ucrl-vtr, no privacy",
        "ucrl-vtr-local, ε = 4",
    ]
    assert [len(s.runs) for s in lock.series] == [4, 4, 4, 4, 4]
    assert not cartpole.exact and [s.reference for s in cartpole.series] == [False, True]


def test_labels_that_would_be_the_same_say_more(made_up):
    (world,) = worlds([made_up.learner(), made_up.learner(kind="central")])
    assert len({s.label for s in world.series}) == 2
    assert "CentralDP" in world.series[1].label


def test_instances_of_the_same_name_are_not_mixed(made_up):
    one, other = worlds([made_up.learner(), made_up.learner(optimal_value=2.0)])
    assert (one.name, other.name) == ("lock (instance 1)", "lock (instance 2)")


def test_an_interrupted_run_does_not_enter_means_with_complete_ones(made_up):
    whole, stopped = [made_up.learner(seed=i) for i in range(2)], made_up.learner(seed=2, stop=500)
    (world,) = worlds([*whole, stopped])
    assert world.series[0].runs == tuple(whole) and world.series[0].interrupted == (stopped,)


def test_interrupted_runs_alone_are_compared_where_all_of_them_were(made_up):
    stopped = [made_up.learner(seed=0, stop=500), made_up.learner(seed=1, stop=900)]
    (world,) = worlds(stopped)
    assert world.users == 500 and world.series[0].regret().users[-1] == 500
    expected = np.mean([stopped[0].regret[-1], regret_at(stopped[1], np.array([500]))[0]])
    assert world.series[0].final_regret().mean == pytest.approx(expected)


def test_nothing_cannot_be_reported(made_up):
    with pytest.raises(InvalidParameter, match="at least one run"):
        worlds([])
    with pytest.raises(InvalidParameter, match="before its first user"):
        worlds([made_up.learner(segments=())])
    (world,) = worlds([made_up.learner(segments=()), made_up.learner(kind="none")])
    assert [s.label for s in world.series] == ["ucrl-vtr, no privacy"]


@pytest.mark.parametrize("kind", ["joint", "central", "local", "none"])
@pytest.mark.parametrize("source", ["fast", "secure"])
def test_a_promise_is_read_from_the_guarantee_where_there_is_no_certificate(made_up, kind, source):
    given = made_up.guarantee_of(kind, 0.7, 1234, source)
    found = promise_of(made_up.learner(certificate=None, guarantee=str(given)))
    assert (found.trust, found.relation, found.users, found.source) == (given.trust, given.relation, 1234, given.source)
    assert found.epsilon == pytest.approx(given.epsilon, rel=1e-5) and found.delta == given.delta
    assert found.private is (kind != "none")


def test_the_null_relation_is_read(made_up):
    given = made_up.guarantee_of("joint", relation="null")
    assert promise_of(made_up.learner(certificate=None, guarantee=str(given))).relation is Relation.NULL


def test_a_guarantee_in_other_words_is_not_guessed_at(made_up):
    found = promise_of(made_up.learner(certificate=None, guarantee="my own privacy"))
    assert found.trust is None and not found.private
    assert promise_of(made_up.learner(kind="none")).trust is Trust.NONE


def test_a_learner_that_calls_itself_uniform_is_no_reference(made_up):
    (world,) = worlds([made_up.learner(kind="none", agent="uniform")])
    assert not world.series[0].reference


def test_the_headline(made_up):
    (world,) = worlds(made_up.study())
    private, plain = world.learners
    said = headline(world)
    assert said.startswith("After 100\u202f000 users, the private learner ucrl-vtr (ε = 1) is more than 99.9\u202f% of the way")
    ratio = private.final_regret().mean / plain.final_regret().mean
    assert times(world, private) == pytest.approx(ratio)
    assert f"Privacy cost {number(ratio, 2)} times the regret of the same learner without privacy" in said


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (lambda m: [m.learner(half=1e12)], "plays no better than uniform play"),
        (lambda m: [m.learner(segments=(Segment(100_000, 0.0, 0.0),))], "plays worse than uniform play"),
        (lambda m: [m.learner(kind="none")], "ucrl-vtr (no privacy) is"),
        (lambda m: [m.learner(exact=False)], "What optimal play earns here is not known"),
        (lambda m: [m.fixed("uniform", m.UNIFORM)], "No learner took part"),
        (lambda m: [m.learner(), m.learner(kind="none")], "is no larger than"),
        (lambda m: [m.learner(epsilon=5.0), m.learner(epsilon=0.5)], "the private learner ucrl-vtr (ε = 5) is"),
        (
            lambda m: [m.fixed("uniform", m.UNIFORM), m.learner(agent="b"), m.learner(agent="a")],
            "the private learner b (ε = 1) is",
        ),
        (lambda m: [m.learner(optimal_value=1.0, uniform_value=1.0)], "plays a policy of value"),
    ],
)
def test_headlines_say_what_happened(made_up, runs, words):
    assert words in headline(worlds(runs(made_up))[0])


def test_only_the_same_agent_without_privacy_says_what_privacy_cost(made_up):
    (world,) = worlds([made_up.learner(), made_up.learner(kind="none", agent="another", half=35.0)])
    assert times(world, world.learners[0]) is None
    assert "without privacy" not in headline(world)


def test_a_promise_that_is_stricter_than_asked_for_says_so(made_up):
    document = made_up.learner().certificate.document
    asked = {**document, "request": {**document["request"], "epsilon": 50.0}}
    assert promise_of(made_up.learner()).stricter == ""
    assert promise_of(made_up.learner(kind="none")).stricter == ""
    assert promise_of(made_up.learner(certificate=Certificate(asked))).stricter == "asked for ε = 50, really gives ε = 1"


def test_numbers_are_read_by_people():
    assert [number(x) for x in (371.4, 105_700.0, 0.1234, 1.0, 0.0, -2500.0, 1e-7)] == [
        "371", "106\u202f000", "0.123", "1", "0", "-2\u202f500", "1e-07",
    ]  # fmt: skip
    assert number(9.96, 2) == "10" and number(371.4, 2) == "370" and number(math.nan) == "unknown"
    assert [percent(x) for x in (1.0, 0.99996, 0.5, 0.0102, 1e-6, 1e-12, 25.0)] == [
        "100\u202f%", ">\u202f99.9\u202f%", "50\u202f%", "1\u202f%", "<\u202f0.01\u202f%", "0\u202f%", "2\u202f500\u202f%",
    ]  # fmt: skip


def test_a_mean_has_the_digits_that_its_error_leaves():
    assert plus_minus(summary([1.16, 1.1606, 1.1603])) == "1.1603 ± 0.00017"
    assert plus_minus(summary([300.0, 400.0, 350.0])) == "350 ± 29"
