"""A sweep: the same table wherever and however often it is run; nothing is computed twice.

What fails is said.
"""

import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import confide
from confide.cli import main
from confide.comparison.comparison import Comparison, compare
from confide.comparison.table import COLUMNS
from confide.errors import InvalidParameter
from confide.runs import cell as cell_module
from confide.runs.runner import run
from confide.runs.spec import read_value, write_value
from confide.runs.store import Store, key_of
from confide.runs.sweep import Sweep, make_problem

SMALL = Sweep(
    agents=["ucrl-vtr", "likelihood-vi", "uniform"],
    problems=["lock", {"problem": "lock", "seed": 1}],
    epsilons=[1.0, 10.0],
    seeds=2,
    episodes=300,
)
CELLS = 2 * (2 * 3 + 1) * 2


def same(first, second):
    return first.table.equals(second.table, check_metadata=True)


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    return tmp_path_factory.mktemp("store")


@pytest.fixture(scope="module")
def made(kept):
    return compare(SMALL, workers=1, store=kept)


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A folder to stand in, whose modules are forgotten afterwards.

    Other tests have some of the same name.
    """
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def test_a_cell_is_the_run_that_its_command_makes(made, capsys):
    cell = next(
        cell
        for cell in SMALL.cells()
        if cell.seed == 1 and cell.spec.agent == "likelihood-vi" and cell.problem.seed == 1
    )
    problem = make_problem(cell.problem)
    alone = run(cell.spec.ready(problem, 1), problem, episodes=300, seed=1)
    row = next(
        g
        for g in made.rows
        if (g.agent, g.problem, g.epsilon) == ("likelihood-vi", "lock seed=1", 1.0)
    )
    assert np.array_equal(row.curves["regret"][1], alone.regret)
    assert np.array_equal(row.curves["value"][1], alone.value)
    assert row.guarantee == alone.guarantee
    assert row.checkpoints.tolist() == alone.checkpoints.tolist()
    command = row.commands[1]
    assert command == (
        "confide run likelihood-vi lock --epsilon 1.0 --delta 1e-05 --episodes 300 --seed 1 "
        "--problem-seed 1"
    )
    with pytest.raises(SystemExit, match="0"):
        main([*command.split()[1:], "--json"])
    assert json.loads(capsys.readouterr().out)[0]["regret"] == row.curves["regret"][1, -1]


def test_the_table_is_tidy(made, tmp_path):
    assert tuple(made.table.column_names) == COLUMNS
    assert len(set(made.table.column("key").to_pylist())) == CELLS
    assert (
        len(made.rows) == 14 and all(row.seeds == (0, 1) for row in made.rows) and not made.failures
    )
    saved = Comparison.load(made.save(tmp_path / "results.parquet"))
    assert same(saved, made) and same(Comparison.load(tmp_path), made)
    (tmp_path / "other.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InvalidParameter, match="is not a comparison"):
        Comparison.load(tmp_path / "other.parquet")


def test_nothing_is_computed_twice(made, tmp_path, monkeypatch):
    first = compare(SMALL, workers=1, store=tmp_path)
    monkeypatch.setattr(cell_module, "serve", None)  # whoever computes now fails
    seen = []
    again = compare(SMALL, workers=1, store=tmp_path, progress=seen.append)
    assert same(again, first) and same(again, made)
    assert (seen[-1].cells, seen[-1].done, seen[-1].failed, seen[-1].stored) == (
        CELLS,
        CELLS,
        0,
        CELLS,
    )


def test_a_damaged_result_is_computed_again(tmp_path, made, kept):
    shutil.copytree(kept, tmp_path, dirs_exist_ok=True)
    key = key_of(next(iter(SMALL.cells())))
    (tmp_path / key[:2] / f"{key}.json").write_text('{"format": "confide-ce')
    assert Store(tmp_path).get(key) is None
    seen = []
    assert same(compare(SMALL, workers=1, store=tmp_path, progress=seen.append), made)
    assert seen[-1].stored == CELLS - 1


def test_whatever_decides_a_result_is_in_its_key():
    cell = next(iter(SMALL.cells()))
    others = [
        Sweep(agents=["ucrl-vtr"], problems=["lock"], episodes=301),
        Sweep(agents=["ucrl-vtr"], problems=["lock"], episodes=300, epsilons=[2.0]),
        Sweep(agents=["ucrl-vtr"], problems=["lock"], episodes=300, delta=1e-6),
        Sweep(agents=["ucrl-vtr"], problems=["lock"], episodes=300, trust="local"),
        Sweep(agents=["ucrl-vtr"], problems=["lock"], episodes=300, seeds=[5]),
        Sweep(agents=[{"agent": "ucrl-vtr", "bonus_scale": 0.3}], problems=["lock"], episodes=300),
        Sweep(agents=["ucrl-vtr"], problems=[{"problem": "lock", "seed": 3}], episodes=300),
    ]
    keys = [key_of(next(iter(other.cells()))) for other in others]
    assert len({key_of(cell), *keys}) == len(keys) + 1
    assert key_of(cell) == key_of(next(iter(SMALL.cells())))


def test_what_fails_is_a_row_and_stops_nothing(tmp_path):
    """LSVI-UCB needs a linear MDP, which lock is not."""
    mixed = Sweep(
        agents=["lsvi-ucb", "uniform"], problems=["lock"], seeds=2, episodes=50, no_privacy=False
    )
    found = compare(mixed, workers=2, store=tmp_path)
    assert [row.agent for row in found.rows] == ["uniform"]
    assert len(found.failures) == 2
    failure = found.failures[0]
    assert "is for linear MDP problems" in failure["error"] and failure["command"].startswith(
        "confide run lsvi-ucb lock --epsilon 1.0"
    )
    assert not list(tmp_path.rglob("*.part"))


def test_an_agent_of_ones_own_and_a_saved_problem(here):
    (here / "mine.py").write_text(
        "from confide.learning.reference import Uniform\n\n\nclass Lazy(Uniform):\n    name = "
        "'lazy'\n\n\n"
        "class Broken(Uniform):\n    def next_batch(self):\n        return 1 / 0\n"
    )
    confide.problems.lock(seed=4).save(here / "world.npz")
    sweep = Sweep(agents=["mine:Lazy", "mine:Broken"], problems=["world.npz"], seeds=1, episodes=20)
    found = compare(sweep, workers=2, store="kept")
    assert [row.agent for row in found.rows] == ["mine:Lazy"], [
        each["error"] for each in found.failures
    ]
    assert "ZeroDivisionError" in found.failures[0]["error"]
    before = key_of(next(iter(sweep.cells())))
    confide.problems.lock(seed=5).save(here / "world.npz")
    assert key_of(next(iter(sweep.cells()))) != before


@given(
    st.one_of(
        st.booleans(),
        st.integers(-(10**12), 10**12),
        st.floats(allow_nan=False),
        st.text(max_size=8),
    )
)
def test_options_survive_the_command_line(value):
    """A command makes the same run again.

    1, 1.0, true, "1" and "true" are five different values.
    """
    found = read_value(write_value(value))
    assert found == value and type(found) is type(value)


def test_two_agents_that_look_alike_are_told_apart_or_refused():
    told = Sweep(
        agents=[{"agent": "ucrl-vtr", "schedule": 10}, {"agent": "ucrl-vtr", "schedule": "10"}],
        problems=["lock"],
    )
    assert [cell.spec.title for cell in told.cells()][:: len(list(told.cells())) // 2] == [
        "ucrl-vtr schedule=10",
        'ucrl-vtr schedule="10"',
    ]
    with pytest.raises(InvalidParameter, match="must be different"):
        Sweep(agents=["ucrl-vtr", "ucrl-vtr"], problems=["lock"])


OWN = """
import os, sys
from confide.learning.reference import Uniform
from explorers import name


class Dies(Uniform):
    def next_batch(self):
        if "worker" in os.environ.get("HERE", "worker"):
            os._exit(3)
        return super().next_batch()


class Leaves(Uniform):
    def next_batch(self):
        sys.exit("bye")


class Prints(Uniform):
    def next_batch(self):
        print("hello")
        return super().next_batch()
"""


def test_a_run_that_kills_its_process_stops_nobody_else(here, capsys):
    (here / "killers.py").write_text(OWN)
    (here / "explorers.py").write_text("name = 'a'\n")
    sweep = Sweep(
        agents=["killers:Dies", "killers:Leaves", "killers:Prints", "uniform"],
        problems=["lock"],
        seeds=1,
        episodes=20,
    )
    found = compare(sweep, workers=2, store="kept")
    assert sorted(row.agent for row in found.rows) == ["killers:Prints", "uniform"]
    errors = {failure["agent"]: failure["error"] for failure in found.failures}
    assert (
        "its process was killed" in errors["killers:Dies"]
        and "SystemExit: bye" in errors["killers:Leaves"]
    )
    assert len(found.failures) == 2 and "hello" not in capsys.readouterr().out


def test_results_of_ones_own_code_are_not_kept(here):
    """Nobody knows which files they depend on, so a stored result could be that of other code."""
    (here / "mine_too.py").write_text(OWN.replace("explorers", "explorers_too"))
    (here / "explorers_too.py").write_text("name = 'a'\n")
    sweep = Sweep(agents=["mine_too:Prints", "uniform"], problems=["lock"], seeds=1, episodes=20)
    first = compare(sweep, workers=1, store="kept")
    assert len(list((here / "kept").glob("*/*.json"))) == 1
    standings = []
    assert same(compare(sweep, workers=1, store="kept", progress=standings.append), first)
    assert standings[-1].done == 2 and standings[-1].stored == 1


KILLED = """
import os, random, signal, time
from pathlib import Path

from confide.comparison.comparison import compare
from confide.runs.sweep import Sweep

sweep = Sweep(
    agents=["ucrl-vtr", "likelihood-vi"],
    problems=["lock"],
    epsilons=[1.0, 5.0],
    seeds=4,
    episodes=2_000,
)
compare(sweep, workers=1, store="fresh").save("fresh.parquet")
chance, kept = random.Random(5), lambda: len(list(Path().glob("store/*/*.json")))
for _ in range(3):
    goal = kept() + chance.randint(1, 3)
    driver = os.fork()
    if driver == 0:
        compare(sweep, workers=1, store="store")
        os._exit(0)
    while kept() < goal:
        time.sleep(0.001)
    time.sleep(chance.uniform(0, 0.05))
    os.kill(driver, signal.SIGKILL)
    assert os.waitpid(driver, 0)[1] == signal.SIGKILL, "the sweep ended before it was killed"
print(kept())
compare(sweep, workers=1, store="store").save("resumed.parquet")
"""


def test_the_driver_is_killed_again_and_again(tmp_path):
    """Three times kill -9, at a random moment of the work each.

    Then the table is bit for bit that of a sweep that was left alone.
    """
    done = subprocess.run(
        [sys.executable, "-c", KILLED],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert 3 <= int(done.stdout) < 24
    assert (tmp_path / "resumed.parquet").read_bytes() == (tmp_path / "fresh.parquet").read_bytes()
