"""confide learn, as an analyst sees it."""

import csv
import json
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from confide.errors import LogError
from confide.logs import simulate, write
from confide.offline import PrivateModel
from confide.policy import load_policy, uniform_policy
from confide.privacy.ledger import Ledger
from confide.problems import riverswim
from confide.trajectory import LoggedUsers

ENDS = ["--no-ends", "--reward-range", 0, 1]
ASK = ["--states", 4, "--actions", 2, "--epsilon", 2, "--delta", "1e-5", "--discount", 0.9, *ENDS]
FAST = ["--source", "fast", "--seed", 7]


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Riverswim with four states, its rewards in a file."""
    monkeypatch.chdir(tmp_path)
    world = riverswim(states=4, horizon=21)
    write(
        tmp_path / "log.parquet",
        simulate(world, uniform_policy(21, 4, 2), 2000, np.random.default_rng(0)),
    )
    np.savetxt(tmp_path / "rewards.csv", world.rewards[0], delimiter=",")
    np.savetxt(tmp_path / "zeros.csv", np.zeros(4))
    return "log.parquet"


def test_the_summary_says_what_was_learned_and_what_it_rests_on(log, call):
    shown = " ".join(call("learn", log, *ASK, "--rewards", "rewards.csv").split())
    for said in (
        "A policy for 4 states, learned from a log",
        "from 2,000 users: the logged policy is worth",
        "a value is the expected sum of rewards, discounted by 0.9 per step, of a trajectory",
        "epsilon = 2 at delta = 1e-05: if any one of the 2,000 users were replaced by somebody "
        "else",
        "rewards are public; a value is the expected sum",
        "the first 20 rows of a user count, over the trajectories in order",
        "a user with a state of 4 or more or an action of 2 or more contributes zero",
        "secure: discrete",
        "NOTHING WAS CHARGED: without --ledger",
    ):
        assert said in shown


def test_the_folder_has_everything_and_the_ledger_is_charged_once(log, call):
    Ledger.init("budget.sqlite", epsilon=2.2, delta=1e-5)
    ask = [
        "learn",
        log,
        *ASK,
        *FAST,
        "--rewards",
        "rewards.csv",
        "--ledger",
        "budget.sqlite",
        "--yes",
        "--out",
        "out",
    ]
    first, again = (json.loads(call(*ask, "--json")) for _ in range(2))
    assert (
        first["choices"] == again["choices"] == [1, 1, 1, 1] and first["logged"] == again["logged"]
    )
    assert [spend.released for spend in Ledger("budget.sqlite").spends] == [True]
    model = PrivateModel.load("out")
    gain = model.value(load_policy("out/policy.npz")) - model.behaviour_value
    assert first["learned"]["value"] - first["logged"]["value"] == pytest.approx(gain)
    assert first["logged"]["low"] < first["logged"]["value"] < first["logged"]["high"]
    assert first["learned"]["low"] < first["learned"]["value"] and first["learned"]["high"] is None
    held = json.loads(Path("out/policy.json").read_text())
    assert held["policy"]["3"] == "1" and held["logged"]["value"] < held["learned"]["value"]
    with open("out/policy.csv") as file:
        assert len(list(csv.reader(file))) == 5
    page = Path("out/report.html").read_text()
    assert (
        "From 2,000 users: the logged policy is worth" in page
        and "the probability of anything on this page would change by at most the factor" in page
        and "e<sup>ε</sup> = 7.39" in page
        and "--seed" not in page
    )
    assert "consistent" in call("verify", "out/certificate.json")
    assert "already contains a model" in call("learn", log, *ASK, *FAST, "--out", "out", code=2)
    assert "the budget does not cover" in call(
        "learn",
        log,
        *ASK,
        "--ledger",
        "budget.sqlite",
        "--yes",
        "--id",
        "more",
        "--out",
        "b",
        code=2,
    )


def test_a_failure_after_the_charge_is_made_good_for_nothing(log, call, monkeypatch):
    """As `evaluate`.

    The charge is on the disk before the log is read, and the same command goes on.
    """
    Ledger.init("budget.sqlite", epsilon=3.0, delta=1e-5)
    ask = [
        "learn",
        log,
        *ASK,
        "--rewards",
        "rewards.csv",
        "--ledger",
        "budget.sqlite",
        "--yes",
        "--out",
        "out",
    ]
    with monkeypatch.context() as broken:
        broken.setattr(
            "confide.logs.log.Logs.total",
            lambda *_, **__: (_ for _ in ()).throw(LogError("the disk is gone")),
        )
        assert "already charged for this release" in call(*ask, code=2)
    spent = Ledger("budget.sqlite").spent
    call(*ask)
    assert Ledger("budget.sqlite").spent == spent and len(Ledger("budget.sqlite").spends) == 1


def test_learned_rewards_and_no_privacy(log, call):
    found = json.loads(
        call(
            "learn",
            log,
            *ASK[:4],
            "--discount",
            0.9,
            "--no-privacy",
            "--ends",
            *ENDS[1:],
            "--max-steps",
            21,
            "--json",
            "--out",
            "open",
        )
    )
    assert found["choices"] == [1, 1, 1, 1] and found["guarantee"]["trust"] == "none"
    assert "NO PRIVACY" in Path("open/report.html").read_text()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--terminal", 4], "--terminal must be a state in 0..3"),
        (["--rewards", "nothing.csv"], "no such file"),
        (["--action", "dose"], "column 'dose' is missing"),
        (["--states", 0], "--states"),
        (["--pessimism", "nan"], "pessimism"),
        (["--support", "rewards.csv"], "support"),
        (["--holdout", 0.5, "--rewards", "zeros.csv"], "all returns are the same"),
        (["--seed", 3], "--seed needs --source fast"),
    ],
)
def test_errors_are_one_line_before_anything_is_charged(log, call, more, said):
    Ledger.init("budget.sqlite", epsilon=3.0, delta=1e-5)
    assert said in call("learn", log, *ASK, "--ledger", "budget.sqlite", "--yes", *more, code=2)
    assert Ledger("budget.sqlite").spends == ()


@pytest.fixture
def labelled(tmp_path, monkeypatch):
    """A log with declared labels of states and actions, as an import makes it."""
    monkeypatch.chdir(tmp_path)
    rows = [
        f"p{user},{step},{'ill' if (user + step) % 2 else 'well'},"
        f"{'rest' if user % 3 else 'drug'},1"
        for user in range(40)
        for step in range(4)
    ]
    Path("raw.csv").write_text("\n".join(["who,t,how,what,reward", *rows]))
    Path("states.txt").write_text("well\nill\n")
    Path("actions.txt").write_text("rest\ndrug\n")
    return [
        "logs",
        "import",
        "raw.csv",
        "--user",
        "who",
        "--time",
        "t",
        "--state",
        "how",
        "--action",
        "what",
    ]


def test_declared_labels_say_how_many_states_and_actions_there_are(labelled, call):
    call(
        *labelled,
        "--out",
        "log.parquet",
        "--states-file",
        "states.txt",
        "--actions-file",
        "actions.txt",
    )
    found = json.loads(
        call(
            "learn", "log.parquet", "--no-privacy", "--ends", *ENDS[1:], "--discount", 0.9, "--json"
        )
    )
    assert list(found["policy"]) == ["well", "ill"] and found["actions"] == ["rest", "drug"]
    ended = json.loads(
        call(
            "learn",
            "log.parquet",
            "--no-privacy",
            "--ends",
            *ENDS[1:],
            "--discount",
            0.9,
            "--terminal",
            "ill",
            "--json",
        )
    )
    # the reward of a terminal state counts, and what would follow does not
    assert ended["visits"][0] > 0 and ended["policy"]["ill"] == "as logged"
    assert "or a declared label, got 'dead'" in call(
        "learn", "log.parquet", "--no-privacy", "--terminal", "dead", code=2
    )
    assert json.loads(
        call(
            "evaluate",
            "log.parquet",
            "--no-privacy",
            "--return-bound",
            1,
            "--discount",
            0.9,
            "--json",
        )
    )["labels"] == ["well", "ill"]


def test_a_policy_of_clusters_says_what_to_do_for_each_label(labelled, call):
    """The number of states is that of the clusters, and the policy is lifted to the labels that are
    in them.
    """
    Path("clusters.csv").write_text("# public\nwell,at home\nill, in hospital\nshock,in hospital\n")
    more = ["--out", "log.parquet", "--actions-file", "actions.txt", "--state-clusters"]
    assert "clusters of 3 declared labels" in call(*labelled, *more, "clusters.csv")
    assert "clusters of 3 labels" in call(
        "learn",
        "log.parquet",
        "--no-privacy",
        "--ends",
        *ENDS[1:],
        "--discount",
        0.9,
        "--out",
        "out",
    ).replace("\n", " ")
    found = json.loads(Path("out/policy.json").read_text())
    assert list(found["policy"]) == ["at home", "in hospital"]
    done, lifted = found["policy"], found["policy_of_members"]
    assert lifted == {
        "well": done["at home"],
        "ill": done["in hospital"],
        "shock": done["in hospital"],
    }
    assert PrivateModel.load("out").labels.members == (("well",), ("ill", "shock"))
    assert "not both" in call(
        *labelled, *more, "clusters.csv", "--states-file", "states.txt", code=2
    )
    assert "a label and its cluster" in call(*labelled, *more, "states.txt", code=2)


def test_numbers_of_states_are_never_taken_from_the_data(labelled, call):
    call(*labelled, "--out", "log.parquet")
    for command in ("learn", "evaluate"):
        said = call(command, "log.parquet", "--no-privacy", code=2)
        assert (
            "--states is missing: the log declares no labels of states" in said
            and "--states-file" in said
        )
    assert "--actions is missing" in call(
        "learn", "log.parquet", "--states", 2, "--no-privacy", code=2
    )


def test_a_policy_that_changes_nothing_is_not_tested(log, call):
    """Noise would show one in twenty of them to be better."""
    Ledger.init("budget.sqlite", epsilon=2, delta=1e-5)
    Path("of_states.csv").write_text("0\n0\n0\n1\n")
    ask = [
        "--max-steps",
        21,
        "--holdout",
        0.5,
        "--probability",
        "probability",
        "--pessimism",
        1e6,
        "--ledger",
        "budget.sqlite",
        "--yes",
    ]
    found = json.loads(call("learn", log, *ASK, "--rewards", "of_states.csv", *ask, "--json"))
    assert found["improvement"] is None and set(found["choices"]) == {2}
    said = [line["text"] for line in found["said"] if line["about"] == "tested"]
    assert (
        len(said) == 1
        and "not tested, and no bound: the policy is the logged one in every state" in said[0]
    )
    assert [spend.part[1] for spend in Ledger("budget.sqlite").spends] == ["learn"]


def test_people_held_out_say_whether_it_is_better_at_no_further_cost(log, call):
    Ledger.init("budget.sqlite", epsilon=2, delta=1e-5)
    ask = [
        "learn",
        log,
        *ASK,
        *FAST,
        "--rewards",
        "rewards.csv",
        "--max-steps",
        21,
        "--holdout",
        0.5,
        "--probability",
        "probability",
    ]
    ask += ["--ledger", "budget.sqlite", "--yes", "--out", "out"]
    first, again = (json.loads(call(*ask, "--json")) for _ in range(2))
    assert (
        first["improvement"] == again["improvement"]
        and first["users"] + first["improvement"]["users"] == 2000
    )
    assert [spend.part[1] for spend in Ledger("budget.sqlite").spends] == ["learn", "test"]
    learned = first["learned"]
    assert learned == again["learned"] == first["improvement"]["learned"]
    assert learned["low"] < learned["value"] < learned["high"]
    saved = json.loads(Path("out/policy.json").read_text())
    assert saved["learned"] == (learned if first["guess"] is None else saved["logged"])
    about_values = next(line["text"] for line in first["said"] if line["about"] == "model")
    assert "come from transitions of the" in about_values
    assert (
        "tested on" in first["improvement"]["text"]
        and json.loads(Path("out/improvement.json").read_text())["level"] == 0.95
    )
    assert "consistent" in call("verify", "out/improvement_certificate.json")
    page = Path("out/report.html").read_text()
    assert "confide verify improvement_certificate.json" in page
    assert (
        f"The same holds for each of the {first['improvement']['users']:,} users it was tested on."
        in page
    )


KILLED = """
import os, signal, sys
from confide.logs.log import Logs
from confide.cli import main
after, total = int(sys.argv.pop(1)), Logs.total
def killing(*arguments, **options):
    global after
    found, after = total(*arguments, **options), after - 1
    return found if after else os.kill(os.getpid(), signal.SIGKILL)
Logs.total = killing
main(sys.argv[1:])
"""


@pytest.mark.parametrize(
    ("reads", "parts", "done"), [(1, ["learn"], [False]), (6, ["learn", "test"], [True, False])]
)
def test_kill_9_with_people_held_out_charges_each_part_once(log, call, reads, parts, done):
    """Killed when the first part was read, or the second.

    The same command goes on, and each part has been charged once.
    """
    Ledger.init("budget.sqlite", epsilon=2, delta=1e-5)
    ask = ["learn", log, *ASK, "--rewards", "rewards.csv", "--max-steps", "21", "--holdout", "0.5"]
    ask += ["--ledger", "budget.sqlite", "--yes", "--out", "out"]
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(reads), *map(str, ask)], check=False, capture_output=True
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    before = Ledger("budget.sqlite")
    assert [spend.part[1] for spend in before.spends] == parts and [
        spend.released for spend in before.spends
    ] == done
    first, again = (json.loads(call(*ask, "--json")) for _ in range(2))
    after = Ledger("budget.sqlite")
    assert [spend.part[1] for spend in after.spends] == ["learn", "test"] and all(
        spend.released for spend in after.spends
    )
    # the larger loss of the two, which was charged before the kill
    assert after.spent == before.spent
    assert first["improvement"] == again["improvement"] and first["logged"] == again["logged"]
    shown = " ".join(call("ledger", "show", "budget.sqlite").split())
    assert (
        "the learning part: the policy is learned from these users" in shown
        and "the test part: held-out users, on whom it is tested" in shown
    )
    assert "the largest of their losses counts, not the sum" in shown
    listed = json.loads(call("ledger", "show", "budget.sqlite", "--json"))["spends"]
    assert [each["part"]["name"] for each in listed] == ["learn", "test"]


@pytest.mark.parametrize(
    ("given", "said"), [(ENDS[1:], "--no-ends"), (["--ends"], "--reward-range LOW HIGH")]
)
def test_what_a_short_trajectory_means_is_asked_before_a_charge(log, call, given, said):
    """Learned rewards made short trajectories end, and were clipped to [0, 1].

    Both without a word.
    """
    Ledger.init("budget.sqlite", epsilon=3.0, delta=1e-5)
    assert said in call(
        "learn", log, *ASK[:10], *given, "--ledger", "budget.sqlite", "--yes", code=2
    )
    assert Ledger("budget.sqlite").spends == ()


def test_the_answer_decides_what_follows_a_short_trajectory(tmp_path, call, monkeypatch):
    """Everybody earns .4 a step for three steps and is discharged, or only the record stops.

    The values are three steps of 0.4, or nine.
    """
    monkeypatch.chdir(tmp_path)
    users, rows = 200, 600
    steps = np.arange(rows) % 3
    parts = (
        np.arange(0, rows + 1, 3),
        np.arange(users + 1),
        np.ones(users, bool),
        np.zeros(rows, np.int64),
    )
    write(
        "short.parquet",
        LoggedUsers(
            np.zeros(rows, np.int64) + 0 * steps, np.full(rows, 0.4), *parts, np.ones(rows)
        ),
    )
    ask = [
        "learn",
        "short.parquet",
        "--states",
        1,
        "--actions",
        1,
        "--no-privacy",
        "--discount",
        0.9,
        "--max-steps",
        9,
    ]
    worth = [
        json.loads(call(*ask, "--reward-range", 0, 1, each, "--json"))["logged"]["value"]
        for each in ("--ends", "--no-ends")
    ]
    assert worth == pytest.approx([4 * (1 - 0.9**3), 4 * (1 - 0.9**9)], abs=0.01)


def test_values_of_single_states_have_intervals(log, call):
    ask = ["learn", log, *ASK, *FAST, "--rewards", "rewards.csv", "--max-steps", 21]
    found = json.loads(call(*ask, "--out", "out", "--json"))
    assert all(each["low"] <= each["value"] <= each["high"] for each in found["states"])
    with open("out/policy.csv") as file:
        head, *rows = csv.reader(file)
    assert head[5] == "logged value (90 %)" and all(" to " in row[5] for row in rows)


def test_a_guess_that_is_not_shown_is_printed_and_not_exported(log, call):
    """Few users: the plan may be good, and the test does not say so."""
    weak = ["learn", log, "--states", 4, "--actions", 2, "--epsilon", 0.05, "--delta", 1e-5]
    weak += ["--no-ends", "--discount", 0.9, *FAST, "--rewards", "rewards.csv"]
    found = json.loads(call(*weak, "--pessimism", 0, "--max-steps", 21, "--out", "out", "--json"))
    assert not found["shown"] and set(found["policy"].values()) == {"as logged"}
    assert set(found["guess"].values()) != {"as logged"}
    assert "It was not shown to be better: keep the logged policy" in found["said"][0]["text"]
    held = json.loads(Path("out/policy.json").read_text())
    assert set(held["policy"].values()) == {"as logged"}


def test_the_table_breaks_no_word_on_a_terminal_of_80_columns(log, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    shown = call("learn", log, *ASK, *FAST, "--rewards", "rewards.csv", "--max-steps", 21)
    # Four states of at most two lines, and a head of at most three.
    table = shown.splitlines()[-13:]
    assert all(len(line) <= 80 for line in table)
    for word in ("before", "positive", "logged", "visits", "(noisy)"):
        assert word in " ".join(table).split()
