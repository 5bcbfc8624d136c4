"""confide plan evaluate, as an analyst sees it."""

import json

import numpy as np
import pytest

SIZE = [
    "plan",
    "evaluate",
    "--states",
    "716",
    "--users",
    "50000",
    "--epsilon",
    "1",
    "--delta",
    "1e-6",
]
PLAN = [*SIZE, "--return-bound", "1"]
UNIT = ["--reward-range", "0", "1"]


def test_plan(call):
    shown = call(*PLAN)
    assert "Values of 716 states from 50,000 users at epsilon = 1, delta = 1e-06:" in shown
    assert "every state is visited by the same share of users" in shown
    assert "no budget was spent" in shown
    found = json.loads(call(*PLAN, "--json"))
    assert [row["epsilon"] for row in found["epsilons"]] == [0.25, 0.5, 1.0, 2.0, 4.0]
    errors = [row["rmse"] for row in found["epsilons"]]
    assert errors == sorted(errors, reverse=True)
    assert found["expected"]["epsilon"] == 1.0
    assert found["settings"]["visits"] == 20
    odd = json.loads(
        call(
            *SIZE[:-4],
            "--epsilon",
            0.7,
            "--delta",
            1e-6,
            "--reward-range",
            0,
            1,
            "--max-steps",
            1,
            "--json",
        )
    )
    assert [row["epsilon"] for row in odd["epsilons"]] == [0.25, 0.5, 0.7, 1.0, 2.0, 4.0]
    assert odd["expected"]["epsilon"] == 0.7


def test_options_of_the_estimator_change_the_plan(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = json.loads(call(*SIZE, "--discount", 1, "--max-steps", 10, *UNIT, "--json"))
    assert found["settings"]["return_bound"] == 10
    np.save("phi.npy", np.arange(716.0)[:, None])
    assert (
        json.loads(call(*PLAN, "--features", "phi.npy", "--json"))["settings"]["shrink"]
        == "empirical-bayes"
    )
    plain, fewer = (
        json.loads(call(*PLAN, *more, "--json"))["expected"]["noise_std"]
        for more in ([], ["--visits", 5])
    )
    assert plain > fewer


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--estimator", "dp-lsl"], "the error of dp-lsl cannot be predicted"),
        (["--reward-range", "0", "2"], "--reward-range needs --max-steps"),
        (
            ["--reward-range", "0", "2", "--max-steps", "9"],
            "give --reward-range or --return-bound, not both",
        ),
        (["--spread", "nan"], "--spread must be between 0 and return_bound = 1, got --spread nan"),
        (["--return-std", "-1"], "--return-std must be between 0 and"),
        (["--visit-shares", "none.npy"], "cannot read the visit shares"),
    ],
)
def test_plan_errors(call, more, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in call(*PLAN, *more, code=2)


def test_what_a_plan_needs_to_know(call):
    assert "the range of returns is not known" in call(*SIZE, code=2)
    assert "discount must be in [0, 1]" in call(*PLAN, "--discount", "2", code=2)


def test_plan_warns_of_delta(call):
    assert json.loads(call(*PLAN[:-4], "--delta", 1e-3, *PLAN[-2:], "--json"))["warnings"][
        0
    ].startswith("delta=0.001 is not below 1/50000")
