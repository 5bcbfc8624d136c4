"""Machines die in the middle of the work, and nothing is lost: logs add up to the same bits, and
sweeps give the same table.

On a real cluster of Ray and one of Dask, each started once, in a process of its own.
"""

import os
import subprocess
import sys

import numpy as np
import pytest

from confide.logs import write
from confide.trajectory import LoggedUsers

pytestmark = pytest.mark.long

COMMON = """
import os, signal, sys, time, uuid
from pathlib import Path

from confide.comparison.comparison import compare
from confide.runs.sweep import Sweep
from confide.logs import open as open_logs, reader
from confide.evaluation.visit_contributions import FirstVisitReturns, FirstVisits

marks = Path("marks").resolve()
statistic = FirstVisitReturns(FirstVisits(9, 3), discount=0.9, centre=1.0, radius=3.0)
sweep = Sweep(
    agents=["likelihood-vi", "mine:Held"],
    problems=["lock"],
    seeds=4,
    episodes=200,
    epsilons=[1.0],
    no_privacy=False,
)


class Slow:
    '''The worker that will die is held in its first part.

    The other one does two parts, and then waits until the first one is dead. So there is no race,
    whichever is slower.
    '''

    def __init__(self, statistic, who, victim):
        self.bound, self.statistic, self.who, self.victim = statistic.bound, statistic, who, victim

    def contribution(self, users):
        if str(self.who()) == self.victim:
            (marks / "held").touch()
            time.sleep(600)
        while not (marks / "killed").exists() and ended() >= 2:
            time.sleep(0.01)
        some = self.statistic.contribution(users)
        (marks / f"end {uuid.uuid4()}").touch()
        return some


class Fails(Slow):
    def contribution(self, users):
        raise ValueError("secret")


def ended():
    return len(list(marks.glob("end *")))


def once(kill, done, begun):
    '''Kill, once somebody is held and so many are done.'''
    if done == 2:
        while not (marks / begun).exists():
            time.sleep(0.01)
        kill()
        (marks / begun.replace("held", "killed")).touch()


def add_up(backend, who_am_i, who, kill):
    reader.PART = 1
    logs = open_logs("log.parquet")
    assert len(logs.parts) == 10
    expected = logs.on("local", workers=1).total(statistic)
    slow = Slow(statistic, who_am_i, who)
    total = logs.on(backend).total(slow, progress=lambda done, _: once(kill, done, "held"))
    assert total.values.tobytes() == expected.values.tobytes() and total.users == expected.users
    assert (marks / "killed").exists() and ended() >= 10  # what was held was begun again
    try:
        logs.on(backend).total(Fails(statistic, who_am_i, who))
    except Exception as error:
        assert type(error).__name__ == "LogError", repr(error)
        assert "secret" not in str(error) and "ValueError" in str(error), repr(error)
    else:
        raise AssertionError("no error")
    print("same sums")


def run_all(backend, kill):
    kill_once = lambda standing: once(kill, standing.done, "held run")
    compare(sweep, backend=backend, store="kept", progress=kill_once).save("there.parquet")
    assert (marks / "killed run").exists()
    (marks / "alone").touch()  # nobody is held any more
    compare(sweep, workers=1, store="local").save("here.parquet")
    assert Path("there.parquet").read_bytes() == Path("here.parquet").read_bytes()
    print("same table")
"""

MINE = '''
"""An agent that is held in its first run, so that its machine dies there."""

import os, time
from pathlib import Path

from confide.learning.reference import Uniform

marks = Path("marks").resolve()


def me():
    import ray

    return ray.get_runtime_context().get_node_id() if ray.is_initialized() else str(os.getpid())


class Held(Uniform):
    def next_batch(self):
        victim = (marks / "victim").read_text()
        if not (marks / "alone").exists() and me() == victim:
            (marks / "held run").touch()
            time.sleep(600)
        while not any((marks / name).exists() for name in ("killed run", "alone", "held run")):
            time.sleep(0.01)  # whoever will die has a run, too
        return super().next_batch()
'''

RAY = """
import ray
from ray.cluster_utils import Cluster

little = {"num_cpus": 1, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args={**little, "include_dashboard": False})
first = cluster.add_node(**little)
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")


def node_id():
    import ray

    return ray.get_runtime_context().get_node_id()


add_up("ray", node_id, first.node_id, lambda: cluster.remove_node(first, allow_graceful=False))
second = cluster.add_node(**little)
(marks / "victim").write_text(second.node_id)
run_all("ray", lambda: cluster.remove_node(second, allow_graceful=False))
ray.shutdown()
cluster.shutdown()
"""

DASK = """
from distributed import Client, LocalCluster


def pid():
    import os

    return os.getpid()


if __name__ == "__main__":
    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with local, Client(local) as client:
        first = client.run(pid).popitem()[1]
        add_up("dask", pid, str(first), lambda: os.kill(first, signal.SIGKILL))
        client.wait_for_workers(2)
        second = client.run(pid).popitem()[1]
        (marks / "victim").write_text(str(second))
        run_all("dask", lambda: os.kill(second, signal.SIGKILL))
"""


# Ray takes a machine for dead after five checks, one every three seconds; here after two, five in a
# second.
SOON_DEAD = {
    "RAY_health_check_period_ms": "200",
    "RAY_health_check_failure_threshold": "2",
    "RAY_health_check_initial_delay_ms": "0",
}


@pytest.mark.parametrize(("name", "script"), [("ray", RAY), ("dask", DASK)], ids=["ray", "dask"])
def test_machines_die_in_the_middle(tmp_path, name, script):
    pytest.importorskip({"ray": "ray", "dask": "distributed"}[name])
    rng, count = np.random.default_rng(0), 50
    rows = 10 * count
    offsets = np.arange(0, rows + 1, 10), np.arange(count + 1)
    blocks = [
        LoggedUsers(rng.integers(0, 9, rows), rng.random(rows), *offsets, np.ones(count, np.bool_))
        for _ in range(10)
    ]
    write(tmp_path / "log.parquet", blocks, rows=1)
    (tmp_path / "marks").mkdir()
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "script.py").write_text(COMMON + script)
    done = subprocess.run(
        [sys.executable, "script.py"],
        capture_output=True,
        text=True,
        timeout=200,
        cwd=tmp_path,
        env=os.environ | SOON_DEAD,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "same sums" in done.stdout and "same table" in done.stdout
