"""confide run, show and list, as a user sees them."""

import json
import os
import pty
import sys
from pathlib import Path

import numpy as np
import pytest

from confide._durable import output
from confide.comparison.comparison import Comparison
from confide.errors import InvalidParameter
from confide.learning.learner import Learner
from confide.mechanisms.counters.counter import Counter
from confide.mechanisms.state import StateFile
from confide.privacy import JointDP, LocalDP
from confide.privatizers.batches import Batches
from confide.problems import TabularMDP, lock, rand
from confide.problems.transitions import sparse_rows
from confide.runs.run import Run
from confide.runs.spec import RunSpec, run_seeds
from confide.tables.support_features import Support

EXPERIMENTS = Path(__file__).parent.parent / "runs"
PRIVATE = ["visits_agent:Visits", "lock", "--epsilon", "1", "--episodes", "2000"]


@pytest.fixture(autouse=True)
def visits_agent(monkeypatch):
    """An agent of somebody's own, which can be imported."""
    monkeypatch.syspath_prepend(EXPERIMENTS)


@pytest.fixture
def without_figures(monkeypatch):
    """Most of the time of a short run: for tests that look at something else."""
    monkeypatch.setattr("confide.comparison.comparison.Comparison.save_figures", lambda *_: [])


def test_run_writes_results_figures_and_a_report(confide, tmp_path):
    done = confide(
        "run",
        *PRIVATE,
        "--seeds",
        2,
        "--compare-with",
        "no-privacy",
        "--compare-with",
        "uniform",
        "--out",
        "out",
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "report: out/report.html" in done.stdout
    assert (
        "JointDP(epsilon=1, delta=1e-05), replace one user, 2000 users, fast noise" in done.stdout
    )
    assert done.stderr == ""  # quiet where it is not a terminal
    folders = sorted(
        path.relative_to(tmp_path / "out") for path in (tmp_path / "out").rglob("run.json")
    )
    assert len(folders) == 6
    report = (tmp_path / "out/report.html").read_text()
    assert "visits_agent:Visits" in report
    assert "--epsilon" in report
    assert len(list((tmp_path / "out/figures").glob("*.svg"))) >= 2
    assert not (tmp_path / "out.private").exists()  # nothing is left to be taken up
    shown = confide("show", "out", "--json", cwd=tmp_path)
    rows = json.loads(shown.stdout)
    assert len(rows) == 6
    assert all(row["complete"] for row in rows)


@pytest.mark.usefixtures("without_figures")
def test_run_again_loads_what_is_there(confide, tmp_path):
    first = confide("run", *PRIVATE, "--out", "out", "--json", cwd=tmp_path)
    again = confide("run", *PRIVATE, "--out", "out", "--json", cwd=tmp_path)
    assert json.loads(first.stdout) == json.loads(again.stdout)


@pytest.mark.parametrize(
    "change",
    [
        ["--problem-seed", "7"],
        ["--source", "secure"],
        ["--episodes", "1999"],
        ["--delta", "1.0000001e-5"],
    ],
)
@pytest.mark.usefixtures("without_figures")
def test_a_folder_of_another_experiment_is_not_taken_for_this_one(confide, tmp_path, change):
    assert confide("run", *PRIVATE, "--out", "out", cwd=tmp_path).returncode == 0
    other = confide("run", *PRIVATE, *change, "--out", "out", cwd=tmp_path)
    assert other.returncode == 2
    assert "contains another run" in other.stderr


def test_beside_paper(confide, tmp_path):
    small = ["ucrl-vtr", "lock", "--epsilon", "1", "--episodes", "300", "--json"]
    rows = json.loads(
        confide(
            "run",
            *small,
            "--bonus-scale",
            1,
            "--compare-with",
            "paper",
            "--compare-with",
            "uniform",
            cwd=tmp_path,
        ).stdout
    )
    assert [row["agent"] for row in rows] == [
        "ucrl-vtr bonus_scale=1.0",
        "ucrl-vtr paper bonus_scale=1.0",
        "uniform",
    ]
    assert rows[0]["epsilon"] == pytest.approx(1.0)
    assert rows[1]["epsilon"] < 0.01  # what the printed constants really give


def test_a_mistake_beside_is_found_before_the_first_run(confide, tmp_path):
    for first, promise, message in [
        ("likelihood-vi", [], "likelihood-vi paper: LikelihoodVI is in no paper"),
        ("linopt-vi", ["--delta", "0"], "linopt-vi paper: [Zhou22] has no constants for delta = 0"),
    ]:
        done = confide(
            "run",
            first,
            *PRIVATE[1:],
            *promise,
            "--compare-with",
            "paper",
            "--out",
            "out",
            cwd=tmp_path,
        )
        assert done.returncode == 2
        assert message in done.stderr and done.stderr.count("\n") == 1
        assert not (tmp_path / "out").exists()


def test_a_schedule_that_releases_when_everybody_is_gone_is_warned_of(confide, tmp_path):
    small = ["ucrl-vtr", "lock", "--epsilon", "1", "--episodes", "100", "--json"]
    done = confide("run", *small, "--schedule", "5000", cwd=tmp_path)
    assert done.returncode == 0 and json.loads(done.stdout)
    late = "the first release comes after all 100 users, so that no user benefits from it"
    late += "; change --schedule"
    assert done.stderr == f"warning: ucrl-vtr schedule=5000: {late}\n"
    assert confide("run", *small, cwd=tmp_path).stderr == ""


def test_the_table_fits_80_columns_and_explains_itself(confide, tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    besides = [
        "--compare-with",
        "paper",
        "--compare-with",
        "ucrl-vtr-plus",
        "--compare-with",
        "uniform",
    ]
    done = confide(
        "run", "ucrl-vtr", "lock", "--epsilon", "1", "--episodes", "300", *besides, cwd=tmp_path
    )
    table, notes = done.stdout.split("% of optimal:")
    lines = table.splitlines()
    assert all(len(line) <= 80 for line in lines)
    # no name breaks in the middle
    assert sum(line.strip().startswith("ucrl-vtr") for line in lines) == 3
    assert (
        "on lock" in table
        and all(head in table for head in ("% of", "users", "regret (95 %)"))
        and "way" not in table
    )
    assert "ucrl-vtr paper: JointDP(epsilon=0.0009" in notes and "(requested epsilon=1)" in notes
    assert "uniform: reference policy, does not learn" in notes and "NO PRIVACY" not in notes


def test_a_table_in_which_nobody_learned_says_so(call):
    said = call("run", "ucrl-vtr", "lock", "--epsilon", "0.1", "--episodes", 100, "--seeds", 2)
    assert "lock: no agent learned: none is significantly better than uniform play" in said


@pytest.mark.usefixtures("without_figures")
def test_the_same_seeds_have_the_same_interval_in_run_show_and_compare(tmp_path, call, monkeypatch):
    """A run, its folder shown again, its report, and the same agents and seeds as a sweep."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    Path("sweep.toml").write_text(
        'agents = ["ucrl-vtr"]\nproblems = ["lock"]\nepisodes = 300\nseeds = '
        "3\n[privacy]\nepsilons = [5]\n"
    )
    options = [
        "--epsilon",
        5,
        "--episodes",
        300,
        "--seeds",
        3,
        "--compare-with",
        "no-privacy",
        "--out",
        "out",
    ]
    ran, shown = call("run", "ucrl-vtr", "lock", *options), call("show", "out")
    compared = call("compare", "sweep.toml", "--workers", 1)
    lines = [
        next(line for line in said.splitlines() if line.split()[:2] == ["ucrl-vtr", "5"])
        for said in (ran, shown, compared)
    ]
    assert " to " in lines[0] and len({" ".join(line.split()) for line in lines}) == 1
    row = Comparison.load("sweep").summary()[0]
    report = Path("out/report.html").read_text()
    assert all(repr(row[f"regret{end}"]) in report for end in ("", "_low", "_high"))


@pytest.mark.usefixtures("without_figures")
def test_the_report_is_about_what_was_asked_for_first(confide, tmp_path):
    small = ["ucrl-vtr", "lock", "--epsilon", "1", "--episodes", "300", "--out", "out"]
    assert (
        confide(
            "run",
            *small,
            "--compare-with",
            "paper",
            "--compare-with",
            "likelihood-vi",
            cwd=tmp_path,
        ).returncode
        == 0
    )
    report = (tmp_path / "out/report.html").read_text()
    assert "<title>ucrl-vtr on lock</title>" in report
    assert "Requested ε\u00a0=\u00a01; the noise gives ε\u00a0=\u00a00.000" in report


def test_options_of_an_agent_are_part_of_its_name_and_its_folder(tmp_path):
    """Runs that differ in calibration, schedule or bonus never share a folder, and are found again
    under their own name.
    """
    from confide.cli.options import AgentOptions

    def runs(calibration, bonus_scale, schedule, counts=None):
        given = AgentOptions(
            calibration=calibration, bonus_scale=bonus_scale, schedule=schedule, episodes=300
        )
        spec = RunSpec(
            agent="ucrl-vtr",
            problem="lock",
            episodes=300,
            options=given.for_spec(),
            counts=counts,
        )
        (found,) = run_seeds(spec, lock(0), range(1), out=tmp_path / "out")
        return spec.label, found.agent, found.segments

    chosen = [
        (None, None, None),
        ("tight", None, None),
        ("paper", None, None),
        (None, 0.2, "every"),
        (None, None, "20"),
    ]
    made = [runs(*options) for options in chosen]
    assert [name for _, name, _ in made] == [
        "ucrl-vtr",
        "ucrl-vtr tight",
        "ucrl-vtr paper",
        "ucrl-vtr bonus_scale=0.2 schedule=every",
        "ucrl-vtr schedule=20",
    ]
    assert {path.parents[1].name for path in (tmp_path / "out").rglob("run.json")} == {
        label for label, _, _ in made
    }
    assert made[0][2] == made[1][2] != made[2][2]
    assert [runs(*options) for options in chosen] == made  # loaded
    with pytest.raises(InvalidParameter, match=r"contains another run .* counts=False"):
        runs(None, None, None, counts=False)


@pytest.mark.parametrize("counts", [False, True])
def test_local_users_one_by_one_or_at_once(tmp_path, counts):
    spec = RunSpec(
        agent="ucrl-vtr", problem="lock", episodes=60, privacy=LocalDP(4.0, 1e-5), counts=counts
    )
    (made,) = run_seeds(spec, lock(0), range(1), out=tmp_path / "out")
    (again,) = run_seeds(spec, lock(0), range(1), out=tmp_path / "out")
    assert made.segments == again.segments
    assert any(each.kind == "simulated" for each in made.certificate.assumptions) is counts


def test_an_agent_of_the_current_folder(confide, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from confide.agents import Uniform\nclass Mine(Uniform):\n    pass\n"
    )
    assert confide("run", "mine:Mine", "lock", "--episodes", 10, cwd=tmp_path).returncode == 0


def test_the_same_agent_twice_is_run_once(confide, tmp_path):
    rows = json.loads(
        confide(
            "run",
            "uniform",
            "lock",
            "--compare-with",
            "no-privacy",
            "--episodes",
            10,
            "--json",
            cwd=tmp_path,
        ).stdout
    )
    assert len(rows) == 1


@pytest.mark.usefixtures("without_figures")
def test_a_report_can_be_checked_by_its_certificate(confide, tmp_path):
    confide("run", *PRIVATE, "--out", "out", cwd=tmp_path)
    (certificate,) = (tmp_path / "out").rglob("certificate.json")
    assert confide("verify", certificate, cwd=tmp_path).returncode == 0


def test_the_command_line_takes_a_saved_problem(confide, tmp_path):
    rand(3).save(tmp_path / "mine.npz")
    done = confide("run", "oracle", "mine.npz", "--episodes", 100, "--json", cwd=tmp_path)
    assert json.loads(done.stdout)[0]["share"] == pytest.approx(1.0)


def test_it_runs_linear_systems(confide, tmp_path):
    rows = json.loads(
        confide(
            "run",
            "uniform",
            "oscillator",
            "--compare-with",
            "oracle",
            "--episodes",
            1000,
            "--json",
            cwd=tmp_path,
        ).stdout
    )
    assert rows[0]["regret"] == pytest.approx(180.875, abs=0.01)
    assert rows[1]["regret"] == pytest.approx(0.0, abs=1e-9)


def test_list(confide, tmp_path):
    listed = json.loads(confide("list", "--json", cwd=tmp_path).stdout)
    assert {"uniform", "oracle", "no-data"} <= set(listed["agents"])
    assert {"lock", "rand", "riverswim", "icu-sepsis", "thermal"} <= set(listed["problems"])
    assert all(entry["about"] for kind in listed.values() for entry in kind.values())
    assert "confide[icu]" in confide("list", cwd=tmp_path).stdout.replace("\n", "")


def test_progress_is_shown_on_a_terminal(tmp_path):
    """On a pseudo-terminal there is a bar with the number of users and the regret so far."""
    seen = bytearray()

    def read(descriptor):
        data = os.read(descriptor, 4096)
        seen.extend(data)
        return data

    before = os.getcwd()
    os.chdir(tmp_path)
    try:
        command = [
            sys.executable,
            "-c",
            "from confide.cli import main; main()",
            "run",
            "uniform",
            "lock",
            "--episodes",
            "5000",
        ]
        status = pty.spawn(command, read)
    finally:
        os.chdir(before)
    assert status == 0
    assert b"5k/5k" in seen
    assert b"regret 5.28k" in seen


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "unifrom", "lock"], "unknown agent 'unifrom'; did you mean uniform?"),
        (["run", "uniform", "lok"], "lock"),
        (
            ["run", "uniform", "lock", "--epsilon", "1"],
            "uniform is not private and accepts no epsilon",
        ),
        (["run", "uniform", "lock", "--episodes", "0"], "episodes must be at least 1"),
        (["run", "uniform", "lock", "--seeds", "0"], "seeds must be at least 1"),
        (["run", "uniform", "lock", "--seed", "-1"], "--seed"),
        (["run", "ucrl-vtr", "riverswim"], "is for mixture problems"),
        (["run", "ucrl-vtr", "oscillator"], "is for mixture problems"),
        (["run", "json:loads", "lock"], "cannot make the agent json:loads"),
        (["run", "uniform", "gym:CliffWalking-v1"], "horizon"),
        (["run", "uniform", "gym:Blackjack-v1", "--horizon", "5"], "--reward-range"),
        (["run", "uniform", "lock", "--rewards", "public"], "are for environments"),
        (["run", "nowhere:Agent", "lock"], "cannot import the agent nowhere:Agent"),
        (["run", "no-data", "riverswim"], "is for mixture problems"),
        (["run", "uniform", "lock", "--epsilon", "-1"], "epsilon must be positive"),
        (
            ["run", "uniform", "lock", "--trust", "blind"],
            "trust must be joint, local or distributed, got 'blind'",
        ),
        (["run", "ucrl-vtr", "lock", "--trust", "local"], "--trust needs --epsilon: add --epsilon"),
        (["run", "ucrl-vtr", "lock", "--delta", "1e-5"], "--delta needs --epsilon: add --epsilon"),
        (
            ["run", "likelihood-vi", "lock", "--dropouts", "0.2"],
            "--dropouts needs --epsilon: add --epsilon",
        ),
        (
            ["run", "likelihood-vi", "lock", "--epsilon", "1", "--dropouts", "0.2"],
            "--dropouts is for --trust distributed",
        ),
        (
            [
                "run",
                "likelihood-vi",
                "lock",
                "--epsilon",
                "1",
                "--trust",
                "distributed",
                "--dropouts",
                "1.5",
            ],
            "dropouts must be",
        ),
        (["run", "uniform", "lock", "--calibration", "paper"], "uniform has no option calibration"),
        (
            ["run", "ucrl-vtr", "lock", "--calibration", "printed"],
            "calibration must be one of tight, paper",
        ),
        (["run", "ucrl-vtr", "lock", "--schedule", "0"], "interval must be at least 1"),
        (["show", "nowhere"], "no saved run in nowhere"),
    ],
)
def test_errors_are_one_line(confide, arguments, message, tmp_path):
    done = confide(*arguments, cwd=tmp_path)
    assert done.returncode == 2
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_interrupted_runs_go_on(tmp_path):
    """A run that was saved as incomplete is taken up by the same command, from the private state
    beside the results.
    """
    spec = RunSpec(
        agent="visits_agent:Visits", problem="lock", episodes=3000, privacy=JointDP(1.0, 1e-5)
    )

    def interrupt(_seed):
        def advance(served, _regret):
            if served > 500:
                raise KeyboardInterrupt

        return advance

    (part,) = run_seeds(spec, lock(0), range(4, 6), out=tmp_path / "out", progress=interrupt)
    assert not part.complete
    assert oct(os.stat(tmp_path / "out.private").st_mode & 0o777) == "0o700"
    assert not list((tmp_path / "out").rglob("*.state"))
    resumed = list(run_seeds(spec, lock(0), range(4, 6), out=tmp_path / "out"))
    whole = list(run_seeds(spec, lock(0), range(4, 6), out=None))
    assert [one.segments for one in resumed] == [one.segments for one in whole]
    assert not (tmp_path / "out.private").exists()
    np.testing.assert_array_equal(
        Run.load(tmp_path / "out" / spec.label / "seed-4").regret, whole[0].regret
    )


def test_the_state_of_a_run_that_was_killed_when_it_had_saved_its_result_is_removed(
    tmp_path, monkeypatch
):
    spec = RunSpec(
        agent="visits_agent:Visits", problem="lock", episodes=300, privacy=JointDP(1.0, 1e-5)
    )
    with monkeypatch.context() as patch:
        patch.setattr(StateFile, "remove", lambda _: sys.exit("killed"))
        with pytest.raises(SystemExit):
            list(run_seeds(spec, lock(0), range(1), out=tmp_path / "out"))
    (folder,) = (path.parent for path in (tmp_path / "out").rglob("run.json"))
    (folder / "result.0123456789abcdef.part").mkdir()
    (folder / ".lock").touch()
    assert list((tmp_path / "out.private").glob("*.state"))
    (again,) = run_seeds(spec, lock(0), range(1), out=tmp_path / "out")
    assert again.complete
    assert not (tmp_path / "out.private").exists()
    assert {path.name for path in folder.iterdir()} == {
        "certificate.json",
        "curve.csv",
        "policy.npz",
        "run.json",
    }


def test_the_output_folder_is_checked_and_locked_before_the_work(confide, tmp_path, monkeypatch):
    monkeypatch.setattr(
        "confide.runs.spec.run_seeds", lambda *_, **__: pytest.fail("the work began")
    )
    (tmp_path / "file").write_text("mine")
    done = confide("run", *PRIVATE, "--out", tmp_path / "file")
    assert done.returncode == 2 and "a file has this name; choose another folder" in done.stderr
    with output(tmp_path / "out"):
        done = confide("run", *PRIVATE, "--out", tmp_path / "out")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert "another process is writing to" in done.stderr


@pytest.mark.usefixtures("without_figures")
def test_show_prints_what_users_were_asked(confide, tmp_path):
    done = confide(
        "run",
        "questions-vi",
        "lock",
        "--epsilon",
        1,
        "--episodes",
        60,
        "--out",
        "out",
        cwd=tmp_path,
    )
    assert done.returncode == 0 and '<section id="questions">' in (
        tmp_path / "out" / "report.html"
    ).read_text(encoding="utf-8")
    told = confide("show", "out", "--questions", cwd=tmp_path).stdout
    assert "round 1: 10 users from number 1 on." in told and "expected to remove" in told
    (facts,) = json.loads(confide("show", "out", "--questions", "--json", cwd=tmp_path).stdout)
    assert facts["agent"] == "questions-vi" and len(facts["questions"]) == told.count(
        "expected to remove"
    )
    confide("run", "uniform", "lock", "--episodes", 60, "--out", "none", cwd=tmp_path)
    assert "no user was asked" in confide("show", "none", "--questions", cwd=tmp_path).stdout


def test_returns_are_shown_with_the_epsilon_of_their_run(call):
    pytest.importorskip("gymnasium")
    asked = (
        "tabular-psrl",
        "gym:Blackjack-v1",
        "--horizon",
        "3",
        "--reward-range",
        "-1",
        "1",
        "--epsilon",
        "2",
        "--delta",
        "1e-5",
    )
    said = call("run", *asked, "--episodes", "20", "--compare-with", "no-privacy")
    assert "tabular-psrl, epsilon 2, seed 0: the final policy earns" in said
    assert "tabular-psrl, no privacy, seed 0: the final policy earns" in said
    assert "uniform play earns" in said and "by 1,000 rollouts of each policy" in said
    # The run without privacy was asked for, so there is no baseline to leave out.
    assert "--no-baseline" not in said
    plain = call("run", *asked, "--episodes", "20", "--rollouts", "0")
    assert "tabular-psrl, epsilon 2, seed 0: the last policy earned" in plain
    assert (
        "per user, averaged over the last" in plain
        and "of 20 users, whom this policy served" in plain
    )
    assert (
        "units of the table: sums over an episode of rewards that were mapped to [0, 1]: (r +1) / 2"
        in " ".join(said.split())
    )
    found = json.loads(call("run", *asked, "--episodes", "20", "--json"))
    assert (
        1 < found[0]["users_averaged"] <= 20
        and "where r is the environment's reward" in found[0]["units"]
    )
    # In the environment's own units: a game is won or lost.
    for played in found[0]["rollouts"].values():
        assert -1 <= played["low"] < played["mean"] < played["high"] <= 1
        assert played["episodes"] == 1000


def test_an_environment_is_also_learned_without_privacy_unless_that_is_left_out(call, tmp_path):
    pytest.importorskip("gymnasium")
    environment = ("tabular-psrl", "gym:FrozenLake-v1", "--horizon", "12")
    private = (*environment, "--epsilon", "1", "--episodes", "200", "--seed", "3", "--seeds", "2")
    runs = json.loads(call("run", *private, "--out", tmp_path / "out", "--json"))
    assert [(one["epsilon"] is None, one["seed"]) for one in runs] == [
        (False, 3),
        (False, 4),
        (True, 3),
    ]
    assert all(one["rollouts"]["final"]["episodes"] == 1000 for one in runs)
    # The runs are resumed, and the table says how to leave the baseline out.
    printed = call("run", *private, "--out", tmp_path / "out")
    assert "tabular-psrl, no privacy, seed 3: the final policy earns" in printed
    assert "tabular-psrl also ran without privacy, with seed 3; --no-baseline" in printed

    runs = json.loads(call("run", *private, "--no-baseline", "--json"))
    assert [one["seed"] for one in runs] == [3, 4]
    # Without rollouts there is no value to print beside the private one.
    runs = json.loads(call("run", *private, "--rollouts", "0", "--json"))
    assert [one["seed"] for one in runs] == [3, 4]
    # The agent runs once if privacy was not asked for.
    (run,) = json.loads(call("run", *environment, "--episodes", "50", "--json"))
    assert run["epsilon"] is None


def test_the_baseline_of_one_seed_is_not_run_beside_runs_without_privacy(call):
    pytest.importorskip("gymnasium")
    options = ("--epsilon", "1", "--episodes", "50", "--seeds", "2", "--json")
    compared = call(
        "run",
        *("tabular-psrl", "gym:FrozenLake-v1", "--horizon", "5", "--compare-with", "no-privacy"),
        *options,
    )
    runs = json.loads(compared)
    assert [(one["epsilon"] is None, one["seed"]) for one in runs] == [
        (False, 0),
        (False, 1),
        (True, 0),
        (True, 1),
    ]
    # A problem of the library has exact values and gets no baseline.
    (run,) = json.loads(
        call("run", "ucrl-vtr", "lock", "--epsilon", "1", "--episodes", 50, "--json")
    )
    assert run["rollouts"] is None


def ring(states):
    """Two actions that lead to the next state or the one after it."""
    state = np.arange(states)[:, None]
    successors = np.concatenate([state + 1, state + 2], axis=1).ravel() % states
    transitions = sparse_rows(states, 2, np.arange(2 * states + 1), successors, np.ones(2 * states))
    return TabularMDP(
        transitions, np.zeros((states, 2)), np.full(states, 1 / states), horizon=5, name="ring"
    )


def test_what_needs_too_much_memory_is_refused_at_once_and_leaves_no_folder(call, tmp_path):
    ring(20_000).save(tmp_path / "ring.npz")
    said = call(
        "run",
        "tabular-psrl",
        tmp_path / "ring.npz",
        "--epsilon",
        "1",
        "--out",
        tmp_path / "out",
        code=2,
    )
    assert "tabular-psrl needs about 1" in said
    assert (
        "choose a problem with fewer states, or state in Python which transitions are possible"
        in said
    )
    assert [path.name for path in tmp_path.iterdir()] == ["ring.npz"]
    assert "needs about" in call("explain", "tabular-psrl", "--on", tmp_path / "ring.npz", code=2)


@pytest.mark.parametrize(
    ("agent", "problem", "more"),
    [("ucrl-vtr", "lock", []), ("ucbvi", "riverswim", ["Support"])],
)
def test_an_agent_is_built_once(call, monkeypatch, agent, problem, more):
    """With its noise, which is the larger part of the work where a problem is large."""
    built = []
    for cls in (Learner, Batches, Counter, Support):
        original = cls.__init__

        def counted(self, *given, cls=cls, original=original, **options):
            built.append(cls.__name__)
            original(self, *given, **options)

        monkeypatch.setattr(cls, "__init__", counted)
    call("run", agent, problem, "--epsilon", "1", "--episodes", "200")
    assert sorted(built) == sorted(["Batches", "Counter", "Learner", *more])


def test_a_long_horizon_is_refused_before_the_problem_is_made(call):
    said = call("run", "likelihood-vi", "lock", "--horizon", "1000000", "--epsilon", "1", code=2)
    assert "do not fit into memory" in said
