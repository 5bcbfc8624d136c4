"""Commands on two neighbouring logs with the same releases: everything public must be the same
bytes.

One user of the log has other rows in the second run. The noise of the second run is chosen so
that its releases are
those of the first one (`confide.audit.tape`). DP-LSW and DP-LSL have a noise level that depends
on the data, so the
tape holds the values that they release. What is compared: exit code, standard output, standard
error, and the names,
sizes and bytes of all public files, down to the metadata of figures. The service has the same
test in
`tests/service/test_neighbours.py`. What may differ is listed in
`tests/conformance/allowed_differences.py`.
"""

import dataclasses
import datetime
import json
import os
import shutil
import types

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from confide.audit.tape import Tape, TapedSource
from confide.evaluation.catalogue import ESTIMATORS
from confide.mechanisms.smooth import SmoothGaussian
from confide.mechanisms.sources import FastSource
from confide.policy import uniform_policy
from confide.privacy import certificate, ledger
from confide.release import question
from confide.report import page
from confide.runs import loop, runner

STATES = 4
STEPS = 6
USERS = 60
TARGET = 17

PRIVATE = [
    "--states",
    STATES,
    "--epsilon",
    2,
    "--delta",
    1e-4,
    "--source",
    "fast",
    "--seed",
    3,
    "--max-steps",
    STEPS,
]
RANGE = ["--reward-range", 0, 1]
LEARN = [
    "learn",
    "log.parquet",
    *PRIVATE,
    "--actions",
    2,
    "--discount",
    0.9,
    "--transitions",
    STEPS,
]
EVALUATE = ["evaluate", "log.parquet", *PRIVATE, *RANGE, "--discount", 0.9]
TARGET_POLICY = ["--target", "policy.npz", "--clip", 3]
HELD_OUT = ["--holdout", 0.5, "--pessimism", 0.0]
COMMANDS = {
    "counts-and-sums": EVALUATE,
    "empirical Bayes": [*EVALUATE, "--shrink", "empirical-bayes"],
    "dp-lsw": [*EVALUATE, "--estimator", "dp-lsw"],
    "dp-lsl": [*EVALUATE, "--estimator", "dp-lsl", "--ridge", 50, "--features", "phi.npy"],
    "sufficient-statistics": [
        *EVALUATE,
        "--estimator",
        "sufficient-statistics",
        "--features",
        "phi.npy",
    ],
    "lstd": [*EVALUATE, "--estimator", "lstd", "--features", "phi.npy"],
    "importance-sampling": [*EVALUATE, "--estimator", "importance-sampling", *TARGET_POLICY],
    "per decision": [
        *EVALUATE,
        "--estimator",
        "importance-sampling",
        "--per-decision",
        *TARGET_POLICY,
    ],
    "two policies": [
        *EVALUATE,
        *["--target", "always 1", "--actions", 2, "--against", "policy.npz", "--clip", 3],
    ],
    "weighted": [*EVALUATE, "--estimator", "weighted-importance-sampling", *TARGET_POLICY],
    "learn": [*LEARN, "--ends", *RANGE],
    "learn with public rewards": [*LEARN, "--no-ends", "--rewards", "rewards.csv", "--terminal", 3],
    "learn --holdout by weights": [
        *LEARN,
        "--ends",
        *RANGE,
        *HELD_OUT,
        "--probability",
        "probability",
    ],
    "learn --holdout by a model": [*LEARN, "--ends", *RANGE, *HELD_OUT],
}


def rows_of_users():
    """Six steps of everybody, drawn once: by user, a list of rows."""
    rng = np.random.default_rng(0)
    return {
        user: [
            {
                "user": user,
                "trajectory": 0,
                "step": step,
                "state": int(rng.integers(STATES)),
                "action": int(rng.integers(2)),
                "probability": 0.5,
                "reward": float(rng.random()),
            }
            for step in range(STEPS)
        ]
        for user in range(USERS)
    }


def other(**cells):
    return lambda rows: [row | cells for row in rows]


NEIGHBOURS = {
    "other states, actions and rewards": lambda rows: [
        row | {"state": 3, "action": 1, "reward": 1.0} for row in rows
    ],
    "a state that does not exist": other(state=10**6),
    "an action that does not exist": other(action=99),
    "missing states": other(state=None),
    "missing rewards": other(reward=None),
    "a huge reward": other(reward=1e300),
    "a reward that is no number": other(reward=float("nan")),
    "impossible probabilities": other(probability=7.0),
    "gaps": lambda rows: [row | {"step": 3 * row["step"]} for row in rows],
    "steps that repeat": other(step=0),
    "one row": lambda rows: rows[:1],
    "many rows": lambda rows: [rows[0] | {"step": step} for step in range(5000)],
    "many trajectories": lambda rows: [
        row | {"trajectory": place} for place in range(50) for row in rows
    ],
}
TYPES = {
    "user": pa.int64(),
    "trajectory": pa.int64(),
    "step": pa.int64(),
    "state": pa.int64(),
    "action": pa.int64(),
}
TYPES |= {"probability": pa.float64(), "reward": pa.float64()}


def write_inputs(folder, change=None):
    """The log, in which `change` gives the target other rows, and public files."""
    folder.mkdir()
    users = rows_of_users()
    if change is not None:
        users[TARGET] = change(users[TARGET])
    rows = [row for each in users.values() for row in each]
    columns = {name: pa.array([row[name] for row in rows], kind) for name, kind in TYPES.items()}
    pq.write_table(pa.table(columns), folder / "log.parquet")
    np.save(folder / "phi.npy", np.stack([np.ones(STATES), np.arange(STATES) / STATES], axis=1))
    np.savetxt(folder / "rewards.csv", np.arange(STATES) / STATES, delimiter=",")
    uniform_policy(1, STATES, 2).save(folder / "policy.npz")
    ledger.Ledger.init(folder / "budget.sqlite", epsilon=50.0, delta=1e-3)


PRIVATE_FILES = {"log.parquet", "budget.sqlite"}


def public_bytes(folder):
    """Names and bytes of everything in a folder, but for the log and the ledger."""
    files = [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name not in PRIVATE_FILES
    ]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


class Clock(datetime.datetime):
    """It always shows the same time."""

    @classmethod
    def now(cls, tz=None):
        return cls(2026, 1, 1, tzinfo=tz)


class Player:
    """Runs a command in one folder, which is made anew each time, later with the releases of the
    first run.
    """

    def __init__(self, confide, monkeypatch, tmp_path):
        self._confide, self._monkeypatch, self._root = confide, monkeypatch, tmp_path

    def play(self, name, change, original=None):
        """What anybody can see, and the tape of what was released."""
        # Names of questions in a ledger hold the path of the log, so it must be the same.
        folder = self._root / "here"
        shutil.rmtree(folder, ignore_errors=True)
        write_inputs(folder, change)
        tape = Recording(original)
        with self._monkeypatch.context() as patch:
            tape.install(patch)
            for module in (certificate, ledger, page):
                patch.setattr(module, "datetime", Clock)
            patch.chdir(folder)
            command = [*COMMANDS[name.partition("/")[2]], "--ledger", "budget.sqlite", "--yes"]
            seen = {}
            # the second time the ledger gives the answer that it has
            for time in ("first", "again"):
                done = self._confide(
                    *command, *(["--json"] if time == "again" else ["--out", "out"])
                )
                seen |= {
                    f"{time}: exit code": done.returncode,
                    f"{time}: stdout": done.stdout,
                    f"{time}: stderr": done.stderr,
                }
            for more in ([], ["--json"]):
                seen[f"ledger show {more}"] = self._confide(
                    "ledger", "show", "budget.sqlite", *more
                ).stdout
        return seen | public_bytes(folder), tape


class Recording:
    """A tape of all releases of one command.

    With an `original`, its releases take the place of new ones.
    """

    def __init__(self, original=None):
        self._original = original
        self.tape = Tape(None if original is None else original.tape)
        self.smooth = []
        self._sources = 0

    def install(self, patch):
        make_source = question.source_for
        smooth_release = SmoothGaussian.release

        def taped(*given, **named):
            source = make_source(*given, **named)
            self._sources += 1
            return TapedSource(source, self.tape, (self._sources,))

        def released(mechanism, *given, **named):
            value = smooth_release(mechanism, *given, **named)
            place = len(self.smooth)
            self.smooth.append(value if self._original is None else self._original.smooth[place])
            return self.smooth[-1].copy()

        patch.setattr(question, "source_for", taped)
        patch.setattr(SmoothGaussian, "release", released)


@pytest.fixture
def player(confide, monkeypatch, tmp_path):
    return Player(confide, monkeypatch, tmp_path)


def differences(one, two):
    """The names of what differs, and of what is there once only."""
    return sorted(name for name in {*one, *two} if one.get(name) != two.get(name))


@pytest.mark.parametrize("name", COMMANDS)
def test_nothing_public_depends_on_one_user_but_the_releases(player, name):
    first, tape = player.play(f"first/{name}", None)
    assert first["first: exit code"] == first["again: exit code"] == 0, first["first: stderr"]
    assert tape.tape.noised or tape.smooth
    # Every kind of neighbour is tried with two commands; the others share them out.
    kinds = (
        list(NEIGHBOURS)
        if name in ("counts-and-sums", "learn --holdout by a model")
        else kinds_for(name)
    )
    for kind in kinds:
        second, other_tape = player.play(f"{kind}/{name}", NEIGHBOURS[kind], tape)
        assert differences(first, second) == [], kind
        assert (
            len(other_tape.smooth) == len(tape.smooth)
            and other_tape.tape.kinds() == tape.tape.kinds()
        )


def test_every_estimator_has_a_command():
    """An estimator that is new cannot be forgotten."""
    said = {
        given[given.index("--estimator") + 1]
        for given in COMMANDS.values()
        if "--estimator" in given
    }
    assert said | {"counts-and-sums"} == set(ESTIMATORS)


REFUSED = {
    "too little budget": [*EVALUATE, "--epsilon", 60, "--ledger", "budget.sqlite", "--yes"],
    "no answer to the question": [*EVALUATE, "--ledger", "budget.sqlite"],
    "no question about ends": [*LEARN, *RANGE, "--ledger", "budget.sqlite", "--yes"],
    "a column that is not there": [
        *EVALUATE,
        "--reward",
        "pay",
        "--ledger",
        "budget.sqlite",
        "--yes",
    ],
    "probabilities that are not there": [
        *LEARN,
        "--ends",
        *RANGE,
        *HELD_OUT,
        "--probability",
        "chance",
        "--ledger",
        "budget.sqlite",
        "--yes",
    ],
    "too few states": [*EVALUATE, "--states", 0, "--ledger", "budget.sqlite", "--yes"],
    "a folder that is there": [*LEARN, "--ends", *RANGE, "--out", "phi.npy"],
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_does_not_depend_on_one_user(confide, monkeypatch, tmp_path, name):
    """Without noise: nothing may be released, charged or said about the data."""
    seen = {}
    for kind in (None, *NEIGHBOURS):
        monkeypatch.chdir(tmp_path)
        folder = tmp_path / "here"
        shutil.rmtree(folder, ignore_errors=True)
        write_inputs(folder, None if kind is None else NEIGHBOURS[kind])
        charged = ledger.Ledger(folder / "budget.sqlite").spent
        monkeypatch.chdir(folder)
        done = confide(*REFUSED[name])
        assert done.returncode == 2, done.stdout
        assert ledger.Ledger(folder / "budget.sqlite").spent == charged
        seen[kind] = (done.stdout, done.stderr, public_bytes(folder))
    assert all(each == seen[None] for each in seen.values())


def kinds_for(name):
    """Two kinds of neighbours, others for each command."""
    place = list(COMMANDS).index(name)
    names = list(NEIGHBOURS)
    return [names[0], names[1 + place % 12]]


def test_the_two_runs_really_have_other_data(player):
    """Without the tape the releases would differ, and so would nearly every public file."""
    first, _ = player.play("first/learn", None)
    second, _ = player.play("second/learn", NEIGHBOURS["other states, actions and rewards"])
    assert {"out/model.npz", "out/report.html", "again: stdout"} <= set(differences(first, second))


def leak_size_of_file(patch):
    """The certificate names the log by a digest that contains its size, as it once named a
    split."""
    from confide.release import sums

    log_assumptions = sums.log_assumptions
    patch.setattr(
        sums,
        "log_assumptions",
        lambda logs, privacy: [
            *log_assumptions(logs, privacy),
            str(os.path.getsize("log.parquet")),
        ],
    )


def leak_refusal(patch):
    """A command that looks at the data and stops if somebody would contribute zero."""
    from confide.errors import LogError
    from confide.release.files import FileRelease

    open_log = FileRelease.open

    def refusing(asked):
        logs, test = open_log(asked)
        if logs.people is None and logs.check(states=STATES).zero:
            raise LogError("somebody would contribute zero")
        return logs, test

    patch.setattr(FileRelease, "open", refusing)


def leak_file_name(patch):
    """A public file is named by the number of rows."""
    from confide.report import values

    write_values = values.write_values

    def named(shown, folder, **more):
        page = write_values(shown, folder, **more)
        rows = pq.read_metadata("log.parquet").num_rows
        (page.parent / f"rows_{rows}.txt").write_text("")
        return page

    patch.setattr(values, "write_values", named)


@pytest.mark.parametrize(
    ("leak", "kind", "place"),
    [
        (leak_size_of_file, "many rows", "out/certificate.json"),
        (leak_refusal, "missing states", "first: exit code"),
        (leak_file_name, "one row", "out/rows_355.txt"),
    ],
)
def test_a_command_that_leaks_is_caught(player, monkeypatch, leak, kind, place):
    leak(monkeypatch)
    first, tape = player.play("first/counts-and-sums", None)
    second, _ = player.play("second/counts-and-sums", NEIGHBOURS[kind], tape)
    assert place in differences(first, second)
    assert json.loads(first["again: stdout"])["users"] == USERS


AGENTS = [
    ("tabular-psrl", "riverswim"),
    ("likelihood-vi", "lock"),
    ("thompson-lq", "oscillator"),
    # Its batches end when its policy changes, and it asks users again.
    ("lsvi-ucb", "one-hot"),
    ("lin-ts", "linear-bandit"),
]


def run_once(confide, monkeypatch, folder, agent_and_problem, tape, change):
    """A run in which `change` replaces the first user."""
    folder.mkdir(parents=True)
    agent, problem = agent_and_problem
    batches = []
    observe = loop.Loop._observe

    def observe_others(self, policy, users):
        batches.append(users)
        if len(batches) != 1 or change is None:
            return observe(self, policy, users)
        sample = type(self.problem).sample
        with monkeypatch.context() as patch:
            patch.setattr(
                type(self.problem), "sample", lambda *given, **more: change(sample(*given, **more))
            )
            return observe(self, policy, users)

    with monkeypatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(loop.Loop, "_observe", observe_others)
        patch.setattr(runner, "FastSource", lambda rng: TapedSource(FastSource(rng), tape))
        for module in (certificate, page):
            patch.setattr(module, "datetime", Clock)
        for module in (loop, runner):
            patch.setattr(module, "time", types.SimpleNamespace(monotonic=lambda: 0.0))
        command = [
            "run",
            agent,
            problem,
            "--epsilon",
            2,
            "--episodes",
            60,
            "--one-by-one",
            "--out",
            "out",
        ]
        done = confide(*command)
    assert done.returncode == 0, done.stderr
    return {
        "exit code": done.returncode,
        "stdout": done.stdout,
        "stderr": done.stderr,
    } | public_bytes(folder)


def extreme(trajectories):
    """The first user has other states and actions, and gets the largest rewards."""
    states, actions, rewards = (
        trajectories.states.copy(),
        trajectories.actions.copy(),
        trajectories.rewards.copy(),
    )
    states[0] = states[0][::-1]
    actions[0] = actions[0][::-1]
    rewards[0] = 1.0
    return dataclasses.replace(trajectories, states=states, actions=actions, rewards=rewards)


@pytest.mark.parametrize("case", AGENTS, ids=lambda case: case[0])
def test_a_run_is_the_same_for_neighbouring_users(confide, monkeypatch, tmp_path, case):
    first_tape = Tape()
    first = run_once(confide, monkeypatch, tmp_path / "first", case, first_tape, None)
    second_tape = Tape(first_tape)
    second = run_once(confide, monkeypatch, tmp_path / "second", case, second_tape, extreme)
    assert not first_tape.same(second_tape)
    assert differences(first, second) == []
