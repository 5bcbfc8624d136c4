"""confide plan evaluate, as an analyst sees it."""

import json

import numpy as np
import pytest

PLAN = ["plan", "evaluate", "--states", "716", "--users", "50000", "--epsilon", "1", "--delta", "1e-6"]


def test_plan(call):
    shown = call(*PLAN, "--return-bound", 1)
    assert "Values of 716 states from 50,000 users at epsilon = 1, delta = 1e-06:" in shown
    assert "every state is visited by the same share of users" in shown
    assert "no budget was spent" in shown
    found = json.loads(call(*PLAN, "--json"))
    assert [row["epsilon"] for row in found["epsilons"]] == [0.25, 0.5, 1.0, 2.0, 4.0]
    errors = [row["rmse"] for row in found["epsilons"]]
    assert errors == sorted(errors, reverse=True)
    assert found["expected"]["epsilon"] == 1.0
    assert found["settings"]["visits"] == 20
    odd = json.loads(call(*PLAN[:-4], "--epsilon", 0.7, "--delta", 1e-6, "--json"))
    assert [row["epsilon"] for row in odd["epsilons"]] == [0.25, 0.5, 0.7, 1.0, 2.0, 4.0]
    assert odd["expected"]["epsilon"] == 0.7


def test_plan_proposes(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = call(*PLAN, "--propose", "--once")
    assert "--return-bound 1 --visits 20 --shrink empirical-bayes" in shown
    assert "one reward per trajectory" in shown
    found = json.loads(call(*PLAN, "--propose", "--max-steps", 10, "--json"))
    assert found["settings"]["visits"] == 10
    assert found["settings"]["return_bound"] == 10
    assert len(found["proposal"]["reasons"]) == 3
    np.save("phi.npy", np.arange(716.0)[:, None])
    many = [*PLAN[:4], "--users", 10**7, *PLAN[6:], "--delta", 1e-9, "--propose", "--once", "--features", "phi.npy"]
    assert "--shrink empirical-bayes" in call(*many)
    plain, squares = (json.loads(call(*PLAN, *more, "--json"))["expected"]["noise_std"] for more in ([], ["--second-moments"]))
    assert plain != squares


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--propose", "--visits", "3"], "--propose sets --visits"),
        (["--estimator", "subsample"], "cannot be predicted"),
        (["--estimator", "dp-lsl"], "the error of dp-lsl cannot be predicted"),
        (["--propose"], "--propose needs --max-steps (every step may be rewarded) or --once"),
        (["--once"], "--once needs --propose"),
        (["--max-steps", "9"], "--max-steps needs --propose"),
        (["--reward-range", "0", "2"], "--reward-range needs --propose"),
        (["--propose", "--once", "--discount", "2"], "discount must be in [0, 1]"),
        (["--spread", "nan"], "--spread must be between 0 and return_bound = 1, got --spread nan"),
        (["--return-std", "-1"], "--return-std must be between 0 and"),
        (["--visit-shares", "none.npy"], "cannot read the visit shares"),
    ],
)
def test_plan_errors(call, more, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert message in call(*PLAN, *more, code=2)


def test_plan_warns_of_delta(call):
    assert json.loads(call(*PLAN[:-2], "--delta", 1e-3, "--json"))["warnings"][0].startswith("delta=0.001 is not below 1/50000")
