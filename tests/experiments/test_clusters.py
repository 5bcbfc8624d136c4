"""The same table from Ray and from Dask; a machine that dies loses nothing. Each on a real cluster, in a process of its own."""

import subprocess
import sys

import pytest

COMMON = """
import os, signal, sys, time
from pathlib import Path

from confide.report.comparison import compare
from confide.experiments.sweep import Sweep

sweep = Sweep(agents=["likelihood-vi", "mine:Held"], problems=["lock"], seeds=4, episodes=200, epsilons=[1.0], no_privacy=False)
marks = Path("marks").resolve()


def killing(kill):
    '''A watcher that kills once somebody is held, and two are done.'''

    def watch(standing):
        if standing.done == 2:
            while not (marks / "held").exists():
                time.sleep(0.01)
            kill()
            (marks / "killed").touch()

    return watch


def check(backend, kill):
    compare(sweep, backend=backend, store="kept", progress=killing(kill)).save("there.parquet")
    assert (marks / "killed").exists()
    (marks / "alone").touch()  # nobody is held any more
    compare(sweep, workers=1, store="local").save("here.parquet")
    assert Path("there.parquet").read_bytes() == Path("here.parquet").read_bytes()
    print("same bits")
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
            (marks / "held").touch()
            time.sleep(600)
        while not ((marks / "killed").exists() or (marks / "alone").exists() or (marks / "held").exists()):
            time.sleep(0.01)  # whoever will die has a run, too
        return super().next_batch()
'''

RAY = """
import ray
from ray.cluster_utils import Cluster

little = {"num_cpus": 1, "object_store_memory": 80_000_000}
cluster = Cluster(initialize_head=True, head_node_args={**little, "include_dashboard": False})
node = cluster.add_node(**little)
ray.init(address=cluster.address, log_to_driver=False, logging_level="ERROR")
(marks / "victim").write_text(node.node_id)
check("ray", lambda: cluster.remove_node(node, allow_graceful=False))
ray.shutdown()
cluster.shutdown()
"""

DASK = """
from distributed import Client, LocalCluster

if __name__ == "__main__":
    local = LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    with local, Client(local) as client:
        victim = client.run(os.getpid).popitem()[1]
        (marks / "victim").write_text(str(victim))
        check("dask", lambda: os.kill(victim, signal.SIGKILL))
"""


@pytest.mark.parametrize(("name", "script"), [("ray", RAY), ("dask", DASK)])
def test_a_machine_dies_in_the_middle_of_a_sweep(tmp_path, name, script):
    pytest.importorskip({"ray": "ray", "dask": "distributed"}[name])
    (tmp_path / "marks").mkdir()
    (tmp_path / "mine.py").write_text(MINE)
    (tmp_path / "script.py").write_text(COMMON + script)
    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "same bits" in done.stdout
