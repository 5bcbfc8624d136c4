"""confide evaluate, as an analyst sees it."""

import csv
import json
import os
import stat
import sys

import numpy as np
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from confide.errors import LogError
from confide.evaluation import ValueEstimate
from confide.evaluation.catalogue import estimator_class
from confide.logs import write
from confide.policy import uniform_policy
from confide.privacy.guarantee import Guarantee
from confide.privacy.ledger import Ledger
from confide.privacy.request import CentralDP
from confide.trajectory import LoggedUsers

STATES, USERS = 6, 200
ASK = ["--states", "6", "--epsilon", "2", "--delta", "1e-4", "--return-bound", "1"]
FAST = ["--source", "fast", "--seed", "7"]
ENDS = ["--ends", "--reward-range", "0", "1"]


def chain(users=USERS, seed=0):
    """Everybody walks up from a random state, and may drop out; who arrives is paid 1."""
    rng = np.random.default_rng(seed)
    states, rewards, ends = [], [], [0]
    for _ in range(users):
        for state in range(int(rng.integers(STATES)), STATES):
            states.append(state)
            rewards.append(float(state == STATES - 1))
            if rng.random() < 0.1:
                break
        ends.append(len(states))
    return LoggedUsers(
        np.array(states),
        np.array(rewards),
        np.array(ends),
        np.arange(users + 1),
        np.ones(users, np.bool_),
    )


@pytest.fixture
def log(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "log.parquet", chain())
    return "log.parquet"


def made(call, *arguments):
    return json.loads(call("evaluate", *arguments, "--json"))


def test_the_summary_says_what_was_done_and_what_it_rests_on(log, call):
    shown = " ".join(call("evaluate", log, *ASK).split())
    for said in (
        "The values of 6 states by counts-and-sums",
        "epsilon = 2 at delta = 0.0001: if any one of the 200 users were replaced by somebody else",
        "e^epsilon = 7.39",
        "with probability 90 %, including noise and sampling error",
        "each interval covers the expected return from its state, as counted below, with",
        "returns are clipped to [0, 1]; the first trajectory of each user is used, and its "
        "first 10,000 steps; all different",
        "a user with a state of 6 or more contributes zero (confide logs check --states shows "
        "the data holder how many).",
        "secure: discrete",
        "NOTHING WAS CHARGED: without --ledger",
        "The number of users in the log is public.",
        "visits (noisy)",
    ):
        assert said in shown
    assert "not shown" not in shown


def test_what_visits_leave_out_is_said(log, call):
    shown = " ".join(call("evaluate", log, *ASK, "--visits", 2).split())
    assert (
        "the first 2 different states of a trajectory count, and values and intervals refer to "
        "those visits" in shown
    )


def test_values_are_near_the_truth_and_the_same_for_the_same_seed(log, call):
    first, again = made(call, log, *ASK, *FAST), made(call, log, *ASK, *FAST)
    assert first["values"] == again["values"]
    given = Guarantee.from_json(first["guarantee"])
    assert given.epsilon == pytest.approx(2.0) == first["guarantee"]["epsilon"]
    assert (given.request, given.source) == (CentralDP(2.0, 1e-4), "fast")
    exact = made(call, log, "--states", 6, "--return-bound", 1, "--no-privacy")
    assert np.abs(np.array(first["values"]) - exact["values"])[1:].max() < 0.2
    assert all(
        low <= value <= high
        for low, value, high in zip(first["low"], first["values"], first["high"], strict=True)
    )


def test_out_has_everything(log, call):
    shown = call("evaluate", log, *ASK, *FAST, "--out", "out", "--level", 0.8)
    assert "report: out/report.html" in shown
    loaded = ValueEstimate.load("out")
    with open("out/values.csv") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["state"]) for row in rows] == list(range(STATES))
    assert [float(row["value"]) for row in rows] == loaded.values.tolist()
    assert [float(row["low"]) for row in rows] == loaded.interval(0.8)[0].tolist()
    assert "are consistent" in call("verify", "out/certificate.json")
    with open("out/report.html") as file:
        page = file.read()
    assert "80 % interval" in page and "--epsilon 2" in page
    assert "--seed" not in page  # whoever has the seed can take the noise off
    with open("out/figures/values.svg") as file:
        assert "<svg" in file.read()
    before = loaded.to_bytes()
    assert "already contains an estimate" in call("evaluate", log, *ASK, "--out", "out", code=2)
    assert ValueEstimate.load("out").to_bytes() == before


def test_the_ledger_is_charged_once_for_one_question(log, call):
    ledger = Ledger.init("budget.sqlite", epsilon=2.5, delta=1e-4)
    pay = ["--ledger", "budget.sqlite", "--yes"]
    first = made(call, log, *ASK, *pay, "--out", "out")
    assert any("charged to budget.sqlite" in line["text"] for line in first["said"])
    spent = ledger.spent.mu
    again = made(call, log, *ASK, *pay, "--out", "out")
    assert again["values"] == first["values"]
    assert any(
        "already released at" in line["text"] and "at no further cost" in line["text"]
        for line in again["said"]
    )
    assert ledger.spent.mu == spent
    refused = call("evaluate", log, *ASK, *pay, "--id", "once more", code=2)
    assert "the budget does not cover this release" in refused
    assert "requested CentralDP(epsilon=2, delta=0.0001)" in refused
    fits = float(refused.rpartition("epsilon=")[2].split(" ")[0])
    assert 0 < fits < 2
    other = made(call, log, "--states", 6, "--epsilon", fits, "--delta", 1e-4, *ASK[6:], *pay)
    assert other["values"] != first["values"]


def test_too_little_left_is_refused_before_the_log_is_opened(log, call, monkeypatch):
    ledger = Ledger.init("budget.sqlite", epsilon=1.0, delta=1e-4)
    monkeypatch.setattr(
        "confide.release.files.open_logs", lambda *_, **__: pytest.fail("the log was opened")
    )
    assert "the budget does not cover" in call(
        "evaluate", log, *ASK, "--ledger", "budget.sqlite", "--yes", "--out", "out", code=2
    )
    assert ledger.spends == ()


@pytest.mark.parametrize(
    "wrong",
    [
        ["--backend", "spark"],
        ["--out", "log.parquet"],
        ["--reward", "r"],
        ["--level", "2"],
        ["--centre", "1e20"],
    ],
)
def test_what_is_wrong_is_not_paid_for(log, call, wrong):
    ledger = Ledger.init("budget.sqlite", epsilon=3.0, delta=1e-4)
    call(
        "evaluate",
        log,
        *ASK,
        "--ledger",
        "budget.sqlite",
        "--yes",
        "--out",
        "new/out",
        *wrong,
        code=2,
    )
    assert ledger.spends == ()
    assert not os.path.exists("new")


@pytest.mark.parametrize(
    "error",
    [
        LogError("log.parquet, row group 0: damaged"),
        OSError(28, "No space left"),
        KeyboardInterrupt(),
    ],
)
def test_an_error_after_the_charge_says_so_and_the_same_command_costs_nothing(
    log, call, monkeypatch, error
):
    def fail(*_, **__):
        raise error

    ledger = Ledger.init("budget.sqlite", epsilon=3.0, delta=1e-4)
    ask = [log, *ASK, "--ledger", "budget.sqlite", "--yes"]
    with monkeypatch.context() as broken:
        broken.setattr("confide.logs.log.Logs.total", fail)
        said = call(
            "evaluate",
            *ask,
            "--out",
            "out",
            code=130 if isinstance(error, KeyboardInterrupt) else 2,
        )
    assert (
        "the ledger was already charged for this release: fix the cause and run the same "
        "command again, at no further cost" in said
    )
    assert not os.path.exists("out")
    spent = ledger.spent
    made(call, *ask, "--out", "out")
    assert ledger.spent == spent


def test_an_estimate_that_was_cut_off_is_written_again(log, call):
    ledger = Ledger.init("budget.sqlite", epsilon=3.0, delta=1e-4)
    ask = [log, *ASK, "--ledger", "budget.sqlite", "--yes", "--out", "out"]
    first = made(call, *ask)
    for name in ("estimate.npz", "certificate.json"):
        with open(f"out/{name}", "r+b") as file:
            file.truncate(100)
    assert made(call, *ask)["values"] == first["values"]
    assert ValueEstimate.load("out").values.tolist() == first["values"]
    assert len(ledger.spends) == 1
    call("verify", "out/certificate.json")


def test_the_same_file_by_another_spelling_is_the_same_question(log, call):
    ledger = Ledger.init("budget.sqlite", epsilon=3.0, delta=1e-4)
    os.symlink(log, "link.parquet")
    os.mkdir("sub")
    for path in (log, "./sub/../log.parquet", os.path.abspath(log), "link.parquet"):
        made(call, path, *ASK, "--ledger", "budget.sqlite", "--yes")
    assert len(ledger.spends) == 1


def test_delta_that_promises_nothing(log, call):
    found = made(call, log, "--states", 6, "--epsilon", 1, "--delta", 0.01, "--return-bound", 1)
    assert found["warnings"] == [
        "delta=0.01 is not below 1/200, one over the number of users: publishing 2 records "
        "unchanged "
        "would satisfy the same guarantee; use a smaller delta"
    ]


def test_no_privacy_only_when_asked_for(log, call):
    assert "--epsilon and --delta" in call("evaluate", log, "--states", 6, code=2)
    assert "--delta missing" in call("evaluate", log, "--states", 6, "--epsilon", 1, code=2)
    assert "--no-privacy cannot be combined with --epsilon or --delta" in call(
        "evaluate", log, *ASK, "--no-privacy", code=2
    )
    shown = call(
        "evaluate", log, "--states", 6, "--return-bound", 1, "--no-privacy", "--out", "open"
    )
    assert "NONE: no noise was added, and users are not protected. For the data holder" in " ".join(
        shown.split()
    )
    assert "visits (exact)" in shown
    assert stat.S_IMODE(os.stat("open/estimate.npz").st_mode) == 0o600


@pytest.mark.parametrize("name", ["dp-lsw", "dp-lsl", "sufficient-statistics", "lstd"])
def test_every_estimator(log, call, name):
    np.save("phi.npy", np.stack([np.ones(STATES), np.arange(STATES)], axis=1))
    more = {
        "dp-lsl": ["--ridge", 5],
        "sufficient-statistics": ["--features", "phi.npy"],
        "lstd": ["--features", "phi.npy"],
    }
    found = made(call, log, *ASK, "--estimator", name, *more.get(name, []), "--out", "out")
    assert len(found["values"]) == STATES
    said = {line["about"]: line["text"] for line in found["said"]}
    assert found["guarantee"]["source"] == "secure"
    if name in ("dp-lsw", "dp-lsl"):
        assert said["noise"].startswith("secure: normal, to 120 digits")
        assert said["intervals"].startswith("none: the scale of this noise depends on the data")
    about = {
        "sufficient-statistics": "the best linear fit",
        "lstd": "the projected Bellman equation",
    }
    assert about.get(name, "") in said["intervals"]
    assert (found["low"] is None) == (not estimator_class(name).lattice)


def test_without_opendp_nothing_is_released_with_fast_noise_unless_asked_for(
    log, call, monkeypatch
):
    """And nothing is charged.

    DP-LSW and DP-LSL need no OpenDP: their secure noise is not on a lattice.
    """
    call("ledger", "init", "budget.sqlite", "--epsilon", 9, "--delta", 1e-3)
    with monkeypatch.context() as without:
        without.setitem(sys.modules, "opendp", None)
        without.setattr("confide.release.noise.find_spec", lambda _name: None)
        said = call("evaluate", log, *ASK, "--ledger", "budget.sqlite", "--yes", code=2)
        assert "secure noise needs OpenDP" in said and "--source fast" in said
        assert not Ledger("budget.sqlite").spends
        assert made(call, log, *ASK, *FAST)["guarantee"]["source"] == "fast"
        assert made(call, log, *ASK, "--estimator", "dp-lsw")["guarantee"]["source"] == "secure"


def test_features_are_components_of_counts_and_sums(log, call):
    with open("phi.csv", "w") as file:
        file.write("\n".join(map(str, range(STATES))))
    assert made(call, log, *ASK, "--features", "phi.csv")["values"]
    assert "a table of 7 rows" in call(
        "evaluate", log, "--states", 7, *ASK[2:], "--features", "phi.csv", code=2
    )


def test_weights_and_the_share_of_the_error_bars(log, call):
    np.savetxt("phi.csv", np.stack([np.ones(STATES), np.arange(STATES)], axis=1), delimiter=",")
    np.savetxt("weights.csv", np.arange(1, STATES + 1))
    linear = [log, *ASK, *FAST, "--estimator", "sufficient-statistics", "--features", "phi.csv"]
    plain, weighted, bare = (
        made(call, *linear, *more)
        for more in ([], ["--weights", "weights.csv"], ["--interval-share", 0])
    )
    assert (
        plain["values"] != weighted["values"] and plain["low"] is not None and bare["low"] is None
    )
    assert "dp-lsw has no option --interval-share" in call(
        "evaluate", log, *ASK, "--estimator", "dp-lsw", "--interval-share", 0, code=2
    )


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--estimator", "dp-lws"], "unknown estimator 'dp-lws'; did you mean dp-lsw?"),
        (["--estimator", "dp-lsl"], "dp-lsl needs --ridge"),
        (["--estimator", "lstd"], "lstd needs --features"),
        (["--estimator", "importance-sampling"], "importance-sampling needs --target"),
        (["--estimator", "dp-lsw", "--visits", "3"], "dp-lsw has no option --visits"),
        (["--source", "quantum"], "source must be fast or secure, got 'quantum'"),
        (["--seed", "1"], "--seed needs --source fast"),
        (["--features", "log.parquet"], "must be a table of numbers"),
        (["--features", "none.npy"], "cannot read the features: no such file: none.npy"),
        (["--features", "none.csv"], "cannot read the features: no such file: none.csv"),
        (
            ["--features", "nan.csv"],
            "the features in nan.csv must be finite, and some are NaN or infinite",
        ),
        (
            ["--return-bound", "0"],
            "--return-bound must be positive and finite, got --return-bound 0.0",
        ),
        (
            ["--estimator", "importance-sampling", "--target", "eye.npy"],
            '--target must be "always ACTION", a .csv file with the columns state, action, '
            "probability, or a saved policy",
        ),
        (["--estimator", "importance-sampling", "--target", "none.npz"], "none.npz does not exist"),
        (
            ["--trajectory", "stay"],
            'if there is none, say trajectory=None (--trajectory "" on the command line)',
        ),
        (
            ["--estimator", "counts-and-sums", "--target", "always 0", "--actions", 2],
            "counts-and-sums has no option --target; it is an option of --estimator "
            "importance-sampling, weighted-importance-sampling",
        ),
        (
            ["--estimator", "importance-sampling", "--target", "log.parquet"],
            "or a saved policy (.npz, or policy.json of confide learn), got 'log.parquet'",
        ),
        (["--visits", "0"], "'--visits': Input should be greater"),
        (["--ledger", "none.sqlite"], "confide ledger init"),
        (["--relation", "cousin"], 'relation must be "null" or "replace"'),
        (["--state", "cluster"], "log.parquet: column 'cluster' is missing"),
    ],
)
def test_errors_are_one_line(log, call, more, message):
    np.save("eye.npy", np.eye(STATES))
    np.savetxt("nan.csv", np.full(STATES, np.nan))
    said = call("evaluate", log, *ASK, *more, code=2)
    assert message in said and "pickle" not in said


def test_hostile_logs(log, call):
    with open(log, "rb") as file:
        whole = file.read()
    for name, content in {
        "cut.parquet": whole[: len(whole) // 2],
        "text.parquet": b"hello",
        "zero.parquet": b"",
    }.items():
        with open(name, "wb") as file:
            file.write(content)
        assert name in call("evaluate", name, *ASK, code=2)
    write("nobody.parquet", [])
    assert "the log is empty" in call("evaluate", "nobody.parquet", *ASK, code=2)
    assert "no file matches" in call("evaluate", "patients/*.parquet", *ASK, code=2)
    assert "given twice" in call("evaluate", log, "l*.parquet", *ASK, code=2)
    secret = 987654321
    users = LoggedUsers(
        np.array([secret]),
        np.array([float(secret)]),
        np.arange(2),
        np.arange(2),
        np.ones(1, np.bool_),
    )
    write("odd.parquet", users)
    # a state that does not exist is clipped, not told
    shown = call("evaluate", "odd.parquet", *ASK, "--json")
    assert str(secret) not in shown


def test_several_files_on_a_backend(log, call, monkeypatch):
    table = pq.read_table(log)
    for place in range(2):
        users = pc.add(table["user"], 1000 * place)
        pq.write_table(
            table.set_column(table.schema.get_field_index("user"), "user", users),
            f"part{place}.parquet",
        )
    both = ["part0.parquet", "part1.parquet", *ASK, *FAST]
    alone = made(call, *both)
    assert alone["users"] == 2 * USERS
    asked = []
    monkeypatch.setattr(
        "confide.logs.log.each",
        lambda task, parts, **where: asked.append(where) or map(task, parts),
    )
    assert made(call, *both, "--workers", 2, "--backend", "ray")["values"] == alone["values"]
    assert asked == 2 * [{"backend": "ray", "workers": 2}]


@pytest.mark.parametrize("name", ["importance-sampling", "weighted-importance-sampling"])
def test_another_policy_than_the_logged_one(log, call, name):
    """Actions were thrown, and mean nothing: any target is worth what the log is worth."""
    users = chain()
    actions = np.random.default_rng(1).integers(2, size=len(users.states))
    halves = np.full(len(actions), 0.5)
    logged = LoggedUsers(
        users.states, users.rewards, users.trajectories, users.users, users.valid, actions, halves
    )
    write("thrown.parquet", logged)
    uniform_policy(1, STATES, 2).save("policy.npz")
    ask = ["thrown.parquet", *ASK, "--estimator", name, "--target", "policy.npz", "--clip", 2]
    shown = " ".join(call("evaluate", *ask).split())
    assert f"The value of a policy by {name}" in shown
    assert "weights above 2 are clipped to 2, and the intervals cover the resulting bias" in shown
    assert (
        "each interval covers the policy's value, whatever was clipped" in shown
        and "an action of 2 or more, outside the" in shown
    )
    found = made(call, *ask, "--out", "out")
    assert len(found["values"]) == 1
    assert found["target"]["value"] == found["values"][0]
    assert found["logged"]["low"] < found["logged"]["value"] < found["logged"]["high"]
    difference = found["target"]["value"] - found["logged"]["value"]
    assert found["difference"]["value"] == pytest.approx(difference)
    always = made(
        call, *ask[:-4], "--target", "always 1", "--against", "policy.npz", "--actions", 2
    )
    assert always["target"]["value"] == always["values"][0]
    assert any("always 1" in line["text"] for line in always["said"])
    with open("out/values.csv") as file:
        assert file.readline() == "value,low,high,noise_std\n"
    assert found["low"][0] <= found["values"][0] <= found["high"][0]
    uniform_policy(3, STATES, 2).save("short.npz")
    assert "(--max-steps 3)" in call("evaluate", *ask, "--target", "short.npz", code=2)
    assert "column 'action' is missing" in call("evaluate", log, *ask[1:], code=2)
    assert "the policy of --target has 6 states, and the log 7" in call(
        "evaluate", log, "--states", 7, *ask[3:], code=2
    )


def acted(probabilities):
    """Actions were thrown, with a logged probability or without one."""
    users = chain()
    actions = np.random.default_rng(1).integers(2, size=len(users.states))
    halves = np.full(len(actions), 0.5) if probabilities else None
    return LoggedUsers(
        users.states, users.rewards, users.trajectories, users.users, users.valid, actions, halves
    )


@pytest.mark.usefixtures("log")
def test_explain_says_which_estimator_and_reads_no_row(call, monkeypatch):
    write("thrown.parquet", acted(True))
    write("bare.parquet", acted(False))
    uniform_policy(1, STATES, 2).save("policy.npz")
    monkeypatch.setattr("confide.logs.log.Logs.total", None)
    monkeypatch.setattr("confide.logs.log.Logs.blocks", None)
    found = {
        name: made(call, f"{name}.parquet", *ASK, "--explain", "--target", "policy.npz")
        for name in ("log", "bare", "thrown")
    }
    assert [each["use"] for each in found.values()] == ["none", "model", "model"]
    assert "no column 'action'" in found["log"]["why"] and "--behaviour" in found["bare"]["why"]
    model = found["thrown"]["methods"]["model"]
    assert (
        "importance sampling instead with fewer than about" in found["thrown"]["why"]
        and model["people"] > 1
    )
    # cells with an end; totals, rewards and cuts of rows; first states
    assert model["numbers"] == 6 * 2 * 7 + 3 * 14 + 6
    assert made(call, "log.parquet", *ASK, "--explain")["use"] == "counts-and-sums"
    shown = " ".join(
        call("evaluate", "thrown.parquet", *ASK, "--explain", "--target", "policy.npz").split()
    )
    assert "No row was read, and nothing was charged" in shown and "confide learn LOG" in shown


@pytest.mark.usefixtures("log")
def test_known_or_privately_estimated_propensities(call):
    """Without logged probabilities.

    Those of a file, of a policy, or of a released model's folder, give the same as logged ones.
    """
    write("thrown.parquet", acted(True))
    write("bare.parquet", acted(False))
    uniform_policy(1, STATES, 2).save("policy.npz")
    np.savetxt("halves.csv", np.full((STATES, 2), 0.5), delimiter=",")
    ask = [*ASK, "--estimator", "importance-sampling", "--target", "policy.npz", "--clip", 2, *FAST]
    logged = made(call, "thrown.parquet", *ask)["values"]
    assert "column 'probability' is missing" in call("evaluate", "bare.parquet", *ask, code=2)
    assert made(call, "bare.parquet", *ask, "--behaviour", "policy.npz")["values"] == pytest.approx(
        logged, abs=0.2
    )
    bare, open_ = ask[6:14], ["--states", 6, "--no-privacy"]
    listed = made(call, "bare.parquet", *open_, *bare, "--behaviour", "halves.csv")
    assert listed["values"] == pytest.approx(made(call, "thrown.parquet", *open_, *bare)["values"])
    call(
        "learn",
        "bare.parquet",
        "--states",
        6,
        "--actions",
        2,
        "--epsilon",
        50,
        "--delta",
        "1e-4",
        *FAST,
        *ENDS,
        "--out",
        "learned",
    )
    estimated = made(call, "bare.parquet", *ask, "--behaviour", "learned")
    assert estimated["values"] == pytest.approx(logged, abs=0.3)
    assert "if actions were taken with the stated probabilities" in json.dumps(estimated)
    np.savetxt("wrong.csv", np.full((STATES, 2), 0.7), delimiter=",")
    assert "behaviour must be probabilities" in call(
        "evaluate", "bare.parquet", *ask, "--behaviour", "wrong.csv", code=2
    )


def rewarded(world_steps=12, reward=0.5):
    """Everybody earns `reward` in each of so many steps, in one state."""
    count = 50
    rows = count * world_steps
    starts = np.arange(0, rows + 1, world_steps)
    return LoggedUsers(
        np.zeros(rows, np.int64),
        np.full(rows, reward),
        starts,
        np.arange(count + 1),
        np.ones(count, bool),
    )


@pytest.mark.usefixtures("log")
@pytest.mark.parametrize("estimator", ["counts-and-sums", "dp-lsw"])
def test_no_default_clips_returns(call, estimator):
    """Everybody earns 6. A default range [0, 1] made it 1, without a word."""
    write("paid.parquet", rewarded())
    private = ["--epsilon", 500, "--delta", 0.5, "--source", "fast", "--seed", 0]
    ask = ["paid.parquet", "--states", 1, *private, "--max-steps", 12, "--estimator", estimator]
    ask += ["--discount", 1]
    refused = call("evaluate", *ask, code=2)
    assert (
        "the range of returns is not known" in refused
        and "--reward-range" in refused
        and "--return-bound" in refused
    )
    found = made(call, *ask, "--reward-range", 0, 1)
    assert found["values"][0] == pytest.approx(6, abs=0.5)
    said = {line["about"]: line["text"] for line in found["said"]}
    assert (
        "up to 12 rewards in [0, 1] at discount 1" in said["returns"]
        and "returns are in [0, 12]" in said["returns"]
    )
    clipped = made(call, *ask, "--return-bound", 2)
    assert clipped["values"][0] < 3
    said = {line["about"]: line["text"] for line in clipped["said"]}
    assert (
        "returns outside [0, 2] are clipped to this range, which --return-bound gave"
        in said["returns"]
    )
    assert "not both" in call("evaluate", *ask, "--reward-range", 0, 1, "--return-bound", 2, code=2)


@pytest.mark.usefixtures("log")
def test_the_range_of_returns_is_known_before_a_charge(call):
    write("paid.parquet", rewarded(reward=-0.5))
    ledger = Ledger.init("budget.sqlite", epsilon=3.0, delta=1e-4)
    ask = [
        "paid.parquet",
        "--states",
        1,
        "--epsilon",
        1,
        "--delta",
        1e-5,
        "--max-steps",
        12,
        "--ledger",
        "budget.sqlite",
        "--yes",
    ]
    assert "the range of returns is not known" in call("evaluate", *ask, code=2)
    refused = call("evaluate", *ask, "--reward-range", -1, 1, "--estimator", "dp-lsw", code=2)
    assert "rewards may be negative" in refused
    assert ledger.spends == ()
    exact = ["--no-privacy", "--reward-range", -1, 0, "--max-steps", 12, "--discount", 1]
    assert made(call, "paid.parquet", "--states", 1, *exact)["values"][0] == pytest.approx(
        -6, abs=0.5
    )
