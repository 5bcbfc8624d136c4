"""First-visit counts and sums of a logged chain, beside the scan, DuckDB and Polars.

The scan is the bare scan of the Parquet file. DuckDB and Polars use window queries. All in one run,
by CPU time, so that ratios mean something on a noisy machine; confide's peak memory in a process of
its own.

python benchmarks/logs.py [--rows 20000000] [--write]
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

from confide.evaluation.visit_contributions import FirstVisitReturns, FirstVisits
from confide.logs import open as open_logs
from confide.logs import simulate, write
from confide.policy import uniform_policy
from confide.problems import chain

STATES = 40
DISCOUNT = 0.99
COLUMNS = ["user", "trajectory", "step", "state", "reward"]
RETURNS = FirstVisitReturns(FirstVisits(STATES, STATES), discount=DISCOUNT, centre=0.5, radius=0.5)

SQL = f"""
WITH returns AS (
    SELECT state, row_number() OVER (PARTITION BY "user", trajectory, state ORDER BY step) AS visit,
           sum(reward * pow({DISCOUNT}, step))
               OVER (PARTITION BY "user", trajectory ORDER BY step DESC) / pow({DISCOUNT}, step)
               AS total
    FROM read_parquet('PATH'))
SELECT state, count(*), sum(total) FROM returns WHERE visit = 1 GROUP BY state ORDER BY state
"""

MEMORY = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import logs
logs.confide_sums(sys.argv[1])
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


def confide_sums(path):
    total = open_logs(path).on("local", workers=1).total(RETURNS)
    counts, sums, _ = RETURNS.bound.unpack(total.values)
    return counts, sums * RETURNS.radius + counts * RETURNS.centre


def duckdb_sums(path):
    import duckdb

    columns = duckdb.sql(SQL.replace("PATH", path)).fetchnumpy()
    _, counts, sums = columns.values()
    return counts, sums


def polars_sums(path):
    import polars as pl

    weight = pl.lit(DISCOUNT).pow(pl.col("step"))
    one = ["user", "trajectory"]
    returns = (pl.col("reward") * weight).reverse().cum_sum().reverse().over(one) / weight
    first = pl.int_range(pl.len()).over([*one, "state"]) == 0
    frame = (
        pl.scan_parquet(path)
        .select(*COLUMNS)
        .with_columns(returns.alias("total"), first.alias("first"))
    )
    sums = (
        frame.filter("first")
        .group_by("state")
        .agg(pl.len(), pl.col("total").sum())
        .sort("state")
        .collect()
    )
    return sums["len"].to_numpy(), sums["total"].to_numpy()


def rate(function, path, rows, repeats):
    """Rows per CPU-second, by the median."""
    times = []
    result = None
    for _ in range(repeats):
        start = time.process_time()
        result = function(path)
        times.append(time.process_time() - start)
    return rows / statistics.median(times), result


def write_log(path, rows):
    problem = chain(states=STATES)
    policy = uniform_policy(problem.horizon, problem.states, problem.actions)
    write(path, simulate(problem, policy, rows // 40, np.random.default_rng(0), end={STATES - 1}))
    return pq.read_metadata(path).num_rows


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=20_000_000, help="the number of rows")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/chain.parquet"
        rows = write_log(path, options.rows)
        write_log(f"{folder}/few.parquet", 1000)
        # The first call compiles.
        confide_sums(f"{folder}/few.parquet")
        ways = {
            "bare Parquet scan": (bare_scan, 3),
            "confide": (confide_sums, 3),
            "DuckDB": (duckdb_sums, 1),
            "Polars": (polars_sums, 1),
        }
        rates = {}
        results = {}
        for name, (function, repeats) in ways.items():
            rates[name], results[name] = rate(function, path, rows, repeats)
        run = [sys.executable, "-c", MEMORY, path, str(Path(__file__).parent)]
        memory = float(subprocess.run(run, capture_output=True, text=True, check=True).stdout)
    # Counts must be equal, and sums equal up to the grid.
    for name in ("DuckDB", "Polars"):
        assert (results[name][0] == results["confide"][0]).all()
        np.testing.assert_allclose(results[name][1], results["confide"][1], rtol=1e-6)
    lines = [
        "| way | million rows per CPU-second | confide is so many times as fast |",
        "|---|---|---|",
    ]
    lines += [
        f"| {name} | {rows_per_second / 1e6:.1f} | {rates['confide'] / rows_per_second:.2f} |"
        for name, rows_per_second in rates.items()
    ]
    lines += ["", f"{rows:,} rows; confide's peak memory {memory:.2f} GB.", ""]
    record("First visits from logs", "\n".join(lines), write=options.write)


if __name__ == "__main__":
    main()
