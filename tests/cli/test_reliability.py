"""What a command does when its output is closed, when it is stopped, and when files are not what it
expects.
"""

import os
import signal
import subprocess
import sys
import time

import pytest

import confide as library
from confide.cli import CLOSED_PIPE, TERMINATED
from confide.problems import lock
from confide.runs import loop
from confide.runs.run import Run

COMMAND = [sys.executable, "-m", "confide"]


@pytest.mark.process
def test_a_closed_standard_output_is_no_error():
    done = subprocess.run(
        [*COMMAND, "list"],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        preexec_fn=lambda: os.close(1),
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
def test_a_reader_that_ends_early_gets_no_traceback():
    with subprocess.Popen(
        [*COMMAND, "list", "--json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert said == ""
    assert process.returncode in (1, CLOSED_PIPE)


@pytest.mark.process
def test_sigterm_ends_a_run_with_a_message_and_whole_files(tmp_path):
    options = [
        "run",
        "ucrl-vtr",
        "lock",
        "--epsilon",
        "1",
        "--trust",
        "local",
        "--one-by-one",
        "--episodes",
        "3000",
    ]
    with subprocess.Popen(
        [*COMMAND, *options, "--out", tmp_path / "out"], stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 60
        while (
            not (tmp_path / "out.private").exists()
            and process.poll() is None
            and time.monotonic() < deadline
        ):
            time.sleep(0.01)
        process.send_signal(signal.SIGTERM)
        said = process.stderr.read()
    assert process.returncode == TERMINATED
    assert said.splitlines()[-1] == "stopped by SIGTERM"
    assert not list(tmp_path.rglob("*.part"))
    for path in tmp_path.rglob("run.json"):
        assert Run.load(path.parent).episodes < 3000


class SlowLock:
    """A problem of which one chunk takes longer than anybody waits, in which Ctrl-C is pressed."""

    def __init__(self, problem):
        self._problem = problem

    def __getattr__(self, name):
        if name == "count":
            raise AttributeError(name)
        return getattr(self._problem, name)

    def sample(self, *_):
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)


def test_ctrl_c_does_not_wait_for_a_long_chunk(monkeypatch):
    monkeypatch.setattr(loop, "GRACE", 0.1)
    world = lock()
    agent = library.agents.UCRLVTR(world.public, episodes=100, privacy=library.JointDP(1.0, 1e-5))
    started = time.perf_counter()
    done = library.run(agent, SlowLock(world))
    assert time.perf_counter() - started < 10
    assert not done.complete
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    assert signal.getsignal(signal.SIGALRM) == signal.SIG_DFL


def test_sigterm_outside_of_a_run_has_the_effect_of_ctrl_c(confide, monkeypatch):
    monkeypatch.setattr(
        "confide.problems.catalogue.make", lambda *_, **__: os.kill(os.getpid(), signal.SIGTERM)
    )
    before = signal.getsignal(signal.SIGTERM)
    done = confide("run", "ucrl-vtr", "lock")
    assert (done.returncode, done.stderr) == (TERMINATED, "stopped by SIGTERM\n")
    assert signal.getsignal(signal.SIGTERM) == before


def test_another_experiment_in_the_folder_leaves_no_private_folder(confide, tmp_path):
    options = [
        "run",
        "ucrl-vtr",
        "lock",
        "--epsilon",
        "1",
        "--episodes",
        "50",
        "--out",
        tmp_path / "out",
    ]
    assert confide(*options).returncode == 0
    done = confide(*options, "--problem-seed", "1")
    assert done.returncode == 2
    assert "contains another run" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["logs", "check", "loop"],
        ["learn", "loop", "--states", "3"],
        ["evaluate", "loop", "--states", "3"],
        ["run", "ucrl-vtr", "./loop"],
        ["serve", "loop"],
        ["serve", "binary.toml"],
        ["compare", "binary.toml"],
        ["logs", "check", "binary.toml"],
        ["verify", "binary.toml"],
    ],
    ids=" ".join,
)
def test_a_loop_of_links_and_a_binary_file_are_errors_of_one_line(
    call, tmp_path, monkeypatch, arguments
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "binary.toml").write_bytes(bytes(range(256)))
    call(*arguments, code=2)


@pytest.mark.parametrize(
    "agent",
    [["tabular-psrl", "riverswim"], ["likelihood-vi", "lock"], ["lsvi-ucb", "latent"]],
    ids=" ".join,
)
def test_more_users_than_can_be_added_up_exactly_are_refused_before_the_run(call, agent):
    said = call("run", *agent, "--epsilon", "1", "--episodes", str(10**15), code=2)
    assert "--episodes must be at most 536870911" in said


def test_explain_and_help_are_as_narrow_as_the_terminal(call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    assert max(map(len, call("explain", "ucrl-vtr", "--episodes", "100").splitlines())) <= 20
    narrow = call("--help")
    monkeypatch.setenv("COLUMNS", "80")
    assert max(map(len, narrow.splitlines())) < 50 <= max(map(len, call("--help").splitlines()))
