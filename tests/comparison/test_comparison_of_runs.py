"""Runs become rows, and rows a compared: the same numbers for tables, figures and pages."""

from dataclasses import replace

import numpy as np
import pytest

from confide.comparison.comparison import Comparison
from confide.comparison.promise import Promise
from confide.errors import InvalidParameter
from confide.runs.run import Segment


def rows_of(runs):
    return Comparison.of_runs(runs).rows


def test_curves_at_a_runs_own_checkpoints_are_the_runs(made_up):
    run = made_up.learner()
    (row,) = rows_of([run])
    np.testing.assert_array_equal(row.curves["regret"][0], run.regret)
    np.testing.assert_array_equal(row.curves["value"][0], run.value)


def test_returns_are_averages_of_the_users_in_between(made_up):
    run = made_up.fixed(
        "uniform", 0.0, users=10, segments=(Segment(4, 0.0, 1.0), Segment(6, 0.0, 2.0))
    )
    np.testing.assert_allclose(run.curve("mean_return", np.array([2, 6, 10])), [1.0, 1.5, 2.0])


def test_rounding_is_not_regret(made_up):
    compared = Comparison.of_runs(
        [made_up.fixed("oracle", made_up.OPTIMAL - 1e-13, seed=i) for i in range(3)]
    )
    assert compared.rows[0].regret.estimate == 0.0


def test_groups_are_agents_under_a_guarantee(made_up):
    compared = Comparison.of_runs(made_up.everything())
    assert compared.problems == ["lock", "cartpole"]
    lock, cartpole = compared.on("lock"), compared.on("cartpole")
    assert [row.label for row in lock] == [
        "ucrl-vtr, ε = 0.5",
        "ucrl-vtr, ε = 1",
        "ucrl-vtr, ε = 5",
        "ucrl-vtr, no privacy",
        "ucrl-vtr-local, ε = 4",
    ]
    assert [len(row.seeds) for row in lock] == [4, 4, 4, 4, 4]
    assert not compared.known("cartpole") and [row.reference for row in cartpole] == [
        False,
        True,
    ]
    assert [*map(str, compared.promises)] == [
        "ε = 0.5",
        "ε = 1",
        "ε = 4",
        "ε = 5",
        "no privacy",
    ] and compared.chosen == Promise(1.0)


def test_promises_that_would_be_the_same_say_more(made_up):
    rows = rows_of([made_up.learner(), made_up.learner(kind="central")])
    assert [str(row.promise) for row in rows] == [
        "joint ε = 1, δ = 1e-05",
        "central ε = 1, δ = 1e-05",
    ]
    null = made_up.guarantee_of("joint", relation="null")
    rows = rows_of([made_up.learner(), made_up.learner(certificate=None, guarantee=null)])
    assert len({row.promise for row in rows}) == 2 and "one user contributes zero" in str(
        rows[1].promise
    )


def test_instances_of_the_same_name_are_not_mixed(made_up):
    rows = rows_of([made_up.learner(), made_up.learner(optimal_value=2.0)])
    assert [row.problem for row in rows] == ["lock (instance 1)", "lock (instance 2)"]


def test_an_interrupted_run_does_not_enter_means_with_complete_ones(made_up):
    whole, stopped = [made_up.learner(seed=i) for i in range(2)], made_up.learner(seed=2, stop=500)
    (row,) = rows_of([*whole, stopped])
    assert row.seeds == (0, 1) and [(one.seed, one.users) for one in row.stopped] == [(2, 500)]


def test_interrupted_runs_alone_are_compared_where_all_of_them_were(made_up):
    stopped = [made_up.learner(seed=0, stop=500), made_up.learner(seed=1, stop=900)]
    (row,) = Comparison.of_runs(stopped).rows
    assert row.users == 500
    expected = np.mean([stopped[0].regret[-1], stopped[1].curve("regret", np.array([500]))[0]])
    assert row.regret.estimate == pytest.approx(expected)


def test_nothing_cannot_be_reported(made_up):
    with pytest.raises(InvalidParameter, match="at least one run"):
        rows_of([])
    with pytest.raises(InvalidParameter, match="before its first user"):
        rows_of([made_up.learner(segments=())])
    (row,) = rows_of([made_up.learner(segments=()), made_up.learner(kind="none")])
    assert row.label == "ucrl-vtr, no privacy"


@pytest.mark.parametrize("kind", ["joint", "central", "local", "none"])
@pytest.mark.parametrize("source", ["fast", "secure"])
def test_a_guarantee_needs_no_certificate(made_up, kind, source):
    given = made_up.guarantee_of(kind, 0.7, 1234, source)
    (found,) = rows_of([made_up.learner(certificate=None, guarantee=given)])
    assert found.trust == given.trust.value and found.private is (kind != "none")
    if found.private:
        assert found.guarantee is given
        assert (found.epsilon, found.delta) == (given.request.epsilon, given.delta)
        assert found.true_epsilon == given.epsilon


def test_the_null_relation_is_read(made_up):
    given = made_up.guarantee_of("joint", relation="null")
    assert (
        rows_of([made_up.learner(certificate=None, guarantee=given)])[0].guarantee.relation
        == "null"
    )


def test_a_learner_that_calls_itself_uniform_is_no_reference(made_up):
    assert not rows_of([made_up.learner(kind="none", agent="uniform")])[0].reference


def test_a_guarantee_that_is_stricter_than_asked_for_says_so(made_up):
    given = made_up.guarantee_of("joint")
    asked = replace(given, request=replace(given.request, epsilon=50.0))
    (row,) = rows_of([made_up.learner(guarantee=asked)])
    assert row.stricter and (row.epsilon, row.true_epsilon) == (50.0, pytest.approx(1.0))
    assert (
        not rows_of([made_up.learner()])[0].stricter
        and not rows_of([made_up.learner(kind="none")])[0].stricter
    )


def test_only_the_same_agent_without_privacy_says_what_privacy_cost(made_up):
    compared = Comparison.of_runs(
        [made_up.learner(), made_up.learner(kind="none", agent="another", half=35.0)]
    )
    assert all(row.of_no_privacy is None for row in compared.rows)
    compared = Comparison.of_runs(made_up.study())
    private, plain = compared.rows[:2]
    assert private.of_no_privacy.estimate == pytest.approx(
        private.regret.estimate / plain.regret.estimate
    )


def test_runs_that_share_a_seed_are_not_paired(made_up):
    """Secure noise has no seed: two runs of one seed may differ."""
    same = [
        made_up.learner(agent=agent, seed=0, half=half)
        for agent in ("a", "b")
        for half in (300.0, 400.0)
    ]
    compared = Comparison.of_runs(same)
    assert [len(row.seeds) for row in compared.rows] == [2, 2] and len(compared.pairs) == 1


def test_a_study_in_which_nobody_learned_has_no_winner(made_up):
    idle = [
        made_up.learner(seed=i, half=1e12, agent=agent) for i in range(3) for agent in ("a", "b")
    ]
    assert Comparison.of_runs(idle).nobody_learned("lock")
    assert not Comparison.of_runs(
        [*idle, *(made_up.learner(seed=i) for i in range(3))]
    ).nobody_learned("lock")
    # nobody tried
    assert not Comparison.of_runs([made_up.fixed("uniform", made_up.UNIFORM)]).nobody_learned(
        "lock"
    )
    assert not Comparison.of_runs([made_up.learner(exact=False)]).nobody_learned(
        "cartpole"
    )  # not known
