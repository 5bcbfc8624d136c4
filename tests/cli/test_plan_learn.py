"""confide plan learn: people needed, without data."""

import json


def test_people_needed_for_several_epsilons(call):
    asked = ["plan", "learn", "--on", "riverswim", "--epsilon", 4, "--delta", "1e-6", "--discount", 0.9, "--runs", 1]
    rows = json.loads(call(*asked, "--json"))["people"]
    people = [row["people"] for row in rows]
    assert people == sorted(people, reverse=True) and rows[1]["epsilon"] == 4
    assert "No data were read" in call(*asked)


def test_what_is_no_table_is_refused(call):
    assert "is no table" in call("plan", "learn", "--on", "lock", "--epsilon", 1, "--delta", "1e-6", code=2)
