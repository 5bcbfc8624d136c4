"""The data holder's check: counts, and nothing else."""

import json
import math

import pyarrow as pa
import pytest

from confide.logs import open as open_logs


@pytest.fixture
def path(save, steps):
    rows = (
        steps(100001, 1, 2, 3)
        + steps(100002, 1, 2) + steps(100002, 3, trajectory=1)
        + steps(100003, 1, 2, 777)
        + [row | {"step": 2 * row["step"]} for row in steps(100004, 1, 1, 1)]
        + [row | {"step": 0} for row in steps(100005, 1, 1, 1)]
        + [row | {"step": -row["step"]} for row in steps(100006, 1, 1)]
        + steps(100007, None, 1) + steps(100008, 1, reward=None) + steps(100009, 1, reward=math.inf)
        + steps(100010, -4) + steps(100011, 1, 1, 1, -4)
    )  # fmt: skip
    return save(rows, group=4)


def test_counts(path, small):
    for part in (1, 3, 1000):
        small(2, part)
        check = open_logs(path, max_steps=3).check(states=40)
        assert check.to_dict() == {
            "label": "NOT PRIVATE: for the data holder only",
            "users": 11,
            "trajectories": 12,
            "rows": 26,
            "gaps": 2,
            "duplicates": 2,
            "disorder": 1,
            "nulls": 2,
            "non_finite": 1,
            "out_of_range": 3,
            "over_trajectories": 1,
            "over_steps": 1,
            "zero": 7,
            "single": 4,
            "assumptions": [],
            "warnings": [
                "MOST USERS CONTRIBUTE ZERO: a release of this log would be noise. "
                "Correct the columns that have missing values"
            ],
        }
        # who knows how many states there are?
        assert open_logs(path, max_steps=3).check().zero == 6
        # The last row of the last user is looked at.
        assert open_logs(path).check().zero == 7


def test_no_value_is_shown(path):
    check = open_logs(path).check()
    assert str(check).startswith("NOT PRIVATE: for the data holder only")
    for shown in (str(check), repr(check), json.dumps(check.to_dict())):
        assert "1000" not in shown and "777" not in shown


def test_actions_and_probabilities(save, steps):
    rows = [row | {"action": a, "p": p} for row in steps(1, 1) for a, p in [(0, 1.0)]]
    bad = [(-1, 0.5), (None, 0.5), (1, 0.0), (1, 2.0), (1, None), (1, math.nan)]
    rows += [
        row | {"action": a, "p": p} for user, (a, p) in enumerate(bad, 2) for row in steps(user, 1)
    ]
    check = open_logs(
        save(rows, action=pa.int64(), p=pa.float64()), action="action", probability="p"
    ).check()
    assert (check.users, check.zero, check.nulls, check.out_of_range, check.non_finite) == (
        7,
        6,
        2,
        3,
        1,
    )
