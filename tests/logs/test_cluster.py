"""A machine dies while it works on a part: the total has the same bits. On real clusters, each in a process of its own."""

import subprocess
import sys

import numpy as np
import pytest

from confide.logs import write
from confide.trajectory import LoggedUsers

COMMON = """
import os, sys, time, uuid
from pathlib import Path

from confide.logs import open as open_logs, reader
from confide.evaluation.visit_contributions import FirstVisitReturns, FirstVisits

marks = Path(sys.argv[2])
statistic = FirstVisitReturns(FirstVisits(9, 3), discount=0.9, centre=1.0, radius=3.0)


class Slow:
    '''The one who will die is held in its first part; the other does two, then waits until it is dead. No race, whoever is slow.'''

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


def killing(kill):
    '''A progress that kills in the middle of the work.'''

    def progress(done, total):
        if done == 2:
            while not (marks / "held").exists():
                time.sleep(0.01)
            kill()
            (marks / "killed").touch()

    return progress


def run(backend, who_am_i, who, kill):
    reader.PART = 1
    logs = open_logs(sys.argv[1])
    assert len(logs.parts) == 10
    expected = logs.on("local", workers=1).total(statistic)
    total = logs.on(backend).total(Slow(statistic, who_am_i, who), progress=killing(kill))
    assert total.values.tobytes() == expected.values.tobytes() and total.users == expected.users
    assert (marks / "killed").exists() and ended() >= 10  # what was held was begun again
    try:
        logs.on(backend).total(Fails(statistic, who_am_i, who))
    except Exception as error:
        assert type(error).__name__ == "LogError" and "secret" not in str(error) and "ValueError" in str(error), repr(error)
    else:
        raise AssertionError("no error")
    print("same bits")
"""

RAY = """
import ray
from ray.cluster_utils import Cluster

little = {"num_cpus": 1, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args={**little, "include_dashboard": False})
node = cluster.add_node(**little)
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")


def node_id():
    import ray

    return ray.get_runtime_context().get_node_id()


run("ray", node_id, node.node_id, lambda: cluster.remove_node(node, allow_graceful=False))
ray.shutdown()
cluster.shutdown()
"""

DASK = """
import signal
from distributed import Client, LocalCluster


def pid():
    import os

    return os.getpid()


if __name__ == "__main__":
    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with local, Client(local) as client:
        victim = client.run(pid).popitem()[1]
        run("dask", pid, str(victim), lambda: os.kill(victim, signal.SIGKILL))
"""


@pytest.mark.parametrize(("name", "script"), [("ray", RAY), ("dask", DASK)])
def test_a_worker_dies_in_the_middle(tmp_path, name, script):
    pytest.importorskip({"ray": "ray", "dask": "distributed"}[name])
    rng, count = np.random.default_rng(0), 50
    rows = 10 * count
    offsets = np.arange(0, rows + 1, 10), np.arange(count + 1)
    blocks = [LoggedUsers(rng.integers(0, 9, rows), rng.random(rows), *offsets, np.ones(count, np.bool_)) for _ in range(10)]
    write(tmp_path / "log.parquet", blocks, rows=1)
    (tmp_path / "marks").mkdir()
    (tmp_path / "script.py").write_text(COMMON + script)
    run = [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "log.parquet"), str(tmp_path / "marks")]
    done = subprocess.run(run, capture_output=True, text=True, timeout=200, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "same bits" in done.stdout
