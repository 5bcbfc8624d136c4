"""Counting the transitions of a logged garnet, beside the bare Parquet scan.

    python benchmarks/offline_speed.py [--rows 20000000] [--write]

S = 50, A = 5, K = 20. The scan reads the same columns. The page also has the time of what follows.
All in one run, by CPU time on one core, medians, so that ratios mean something on a noisy machine;
peak memory in a process of its own.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
from record import record

from confide import CentralDP
from confide.logs import open as open_logs
from confide.logs import simulate, write
from confide.offline import ModelRelease
from confide.policy import uniform_policy
from confide.problems import garnet

STATES = 50
ACTIONS = 5
STEPS = 21
COLUMNS = ["user", "trajectory", "step", "state", "reward", "action"]
KINDS = {"known rewards": np.zeros((STATES, ACTIONS)), "learned rewards": None}
MEMORY = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import offline_speed
offline_speed.count_transitions(sys.argv[1], None)
lines = Path("/proc/self/status").read_text().splitlines()
peak = next(line for line in lines if line.startswith("VmHWM"))
print(int(peak.split()[1]) / 1e6)
"""


def bare_scan(path):
    with pq.ParquetFile(path, buffer_size=1 << 20, pre_buffer=False) as file:
        return sum(
            batch.num_rows
            for batch in file.iter_batches(1 << 16, columns=COLUMNS, use_threads=False)
        )


def estimator_of(rewards):
    """Return the estimator. Rewards are learned if `rewards` is None."""
    return ModelRelease(
        states=STATES,
        actions=ACTIONS,
        discount=0.95,
        rewards=rewards,
        reward_range=(0.0, 1.0),
        ends=False,
    )


def count_transitions(path, rewards):
    return (
        open_logs(path, action="action")
        .on("local", workers=1)
        .total(estimator_of(rewards).statistic())
    )


def seconds(function, repeats):
    """CPU-seconds, by the median, and the last result."""
    times = []
    result = None
    for _ in range(repeats):
        start = time.process_time()
        result = function()
        times.append(time.process_time() - start)
    return statistics.median(times), result


def write_log(path, rows):
    problem = garnet(states=STATES, actions=ACTIONS, horizon=STEPS, seed=0)
    write(
        path,
        simulate(
            problem, uniform_policy(STEPS, STATES, ACTIONS), rows // STEPS, np.random.default_rng(0)
        ),
    )
    return pq.read_metadata(path).num_rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000, help="the number of rows")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/log.parquet"
        few = f"{folder}/few.parquet"
        rows = write_log(path, options.rows)
        write_log(few, 10_000)
        for rewards in KINDS.values():
            # The first call compiles.
            count_transitions(few, rewards)
        rates = {"bare Parquet scan": rows / seconds(lambda: bare_scan(path), 5)[0]}
        for name, rewards in KINDS.items():
            rates[name] = (
                rows / seconds(lambda rewards=rewards: count_transitions(path, rewards), 5)[0]
            )
        run = [sys.executable, "-c", MEMORY, path, str(Path(__file__).parent)]
        memory = float(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
        log = open_logs(few, action="action")
        policies = [np.full((STATES, ACTIONS), 1 / ACTIONS)] * 20
        steps = {
            "release of a small log": lambda: estimator_of(None).release(
                log, privacy=CentralDP(1.0, 1e-6), rng=rng()
            )
        }
        steps["release of a small log"]()
        time_of, model = seconds(steps["release of a small log"], 5)
        after = {
            "rows": time_of,
            "plan": seconds(model.plan, 5)[0],
            "20 policies": seconds(lambda: model.values(policies), 5)[0],
        }
    lines = ["| way | million rows per CPU-second | of the bare scan |", "|---|---|---|"]
    lines += [
        f"| {name} | {rate / 1e6:.1f} | {rate / rates['bare Parquet scan']:.2f} |"
        for name, rate in rates.items()
    ]
    times = ", ".join(f"{name} {1000 * spent:.0f} ms" for name, spent in after.items())
    lines += ["", f"{rows:,} rows; peak memory {memory:.2f} GB. After that: {times}.", ""]
    record("Counting transitions from logs", "\n".join(lines), write=options.write)


def rng():
    return np.random.default_rng(1)


if __name__ == "__main__":
    main()
