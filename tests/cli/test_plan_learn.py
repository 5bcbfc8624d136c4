"""confide plan learn: people needed, without data."""

import json

from confide.problems import riverswim


def test_people_needed_for_several_epsilons(call):
    asked = [
        "plan",
        "learn",
        "--on",
        "riverswim",
        "--epsilon",
        4,
        "--delta",
        "1e-6",
        "--discount",
        0.9,
        "--runs",
        1,
    ]
    rows = json.loads(call(*asked, "--json"))["people"]
    people = [row["people"] for row in rows]
    assert people == sorted(people, reverse=True) and rows[1]["epsilon"] == 4
    assert "No data were read" in call(*asked)


def test_a_problem_that_is_no_tabular_mdp_is_refused(call):
    assert "is not a tabular MDP" in call(
        "plan", "learn", "--on", "lock", "--epsilon", 1, "--delta", "1e-6", code=2
    )


def test_a_saved_table_has_its_own_steps(call, tmp_path):
    riverswim(states=4, horizon=15).save(tmp_path / "mine.npz")
    asked = [
        "plan",
        "learn",
        "--on",
        tmp_path / "mine.npz",
        "--epsilon",
        4,
        "--delta",
        "1e-6",
        "--runs",
        1,
        "--json",
    ]
    assert "4 states, 2 actions, trajectories of 15 steps" in json.loads(call(*asked))["assumed"]


def test_sizes_alone_mean_a_random_tabular_mdp(call):
    asked = [
        "plan",
        "learn",
        "--states",
        5,
        "--actions",
        2,
        "--epsilon",
        4,
        "--delta",
        "1e-6",
        "--runs",
        1,
    ]
    found = json.loads(call(*asked, "--json"))
    assert (
        found["people"]
        and "a random tabular MDP: 5 states, 2 actions, trajectories of 21 steps. In an MDP"
        in found["assumed"]
    )
    assert "give --on" in call(
        "plan", "learn", "--states", 5, "--epsilon", 4, "--delta", "1e-6", code=2
    )
    assert "omit --states" in call(*asked, "--on", "riverswim", code=2)
