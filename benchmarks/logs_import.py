"""`confide logs import` of a messy file, beside Polars on the same file.

python benchmarks/logs_import.py [--rows 10000000] [--folder DIR] [--write]

Polars reads, sorts and writes the file. The page has time, CPU time and peak memory, each in a
process of its own, in one run.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from pyarrow import csv
from record import record

ROOT = Path(__file__).parent.parent
# The mean number of rows of a person in the example's file.
ROWS_OF_A_PERSON = 14.4

CONFIDE = """
import confide
columns = {"user": "patient_id", "stay": "stay_id", "time": "charttime"}
columns |= {"state": "condition", "action": "treatment", "reward": "reward"}
imported = confide.logs.import_log(RAW, OUT, **columns, states=STATES, actions=ACTIONS)
rows = imported.counts["steps"]
"""
POLARS = """
import polars as pl
columns = ["patient_id", "stay_id", "charttime", "condition", "treatment", "reward"]
options = {"try_parse_dates": True, "infer_schema_length": 10_000}
frame = pl.read_csv(RAW, columns=columns, schema_overrides={"charttime": pl.String}, **options)
frame = frame.with_columns(pl.col("charttime").str.to_datetime("%Y-%m-%d %H:%M:%S", strict=False))
frame = frame.sort(["patient_id", "stay_id", "charttime"])
frame.write_parquet(OUT)
rows = len(frame)
"""
UNIQUE = POLARS.replace("frame = frame.sort", "frame = frame.unique().sort")
CALL = """
import json, sys, time
RAW, OUT, STATES, ACTIONS = json.loads(sys.argv[1])
wall, cpu = time.perf_counter(), time.process_time()
{work}
peak_line = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
peak = int(peak_line.split()[1]) / 1e6
print(json.dumps([time.perf_counter() - wall, time.process_time() - cpu, peak, rows]))
"""


def write_messy_log(path: Path, rows: int) -> int:
    """Write the messy file of the example, a million people at a time.

    Each of these parts is shuffled as a whole.
    """
    sys.path.insert(0, str(ROOT / "examples"))
    import messy_log

    written = people = 0
    with path.open("wb") as file:
        while written < rows:
            some = min(300_000, max(1, round((rows - written) / ROWS_OF_A_PERSON)))
            rng = np.random.default_rng(people)
            clean = messy_log.clean_rows(some, rng)
            clean["patient"], clean["stay"] = clean["patient"] + people, clean["stay"] + 2 * people
            table = messy_log.messy_table(clean, rng)
            csv.write_csv(table, file, csv.WriteOptions(include_header=not people))
            written, people = written + len(table), people + some
    return written


def measure(work: str, raw: Path, out: Path) -> list[float]:
    import messy_log

    given = json.dumps([str(raw), str(out), messy_log.STATES, messy_log.ACTIONS])
    done = subprocess.run(
        [sys.executable, "-c", CALL.format(work=work), given], capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    out.unlink()
    return json.loads(done.stdout)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=10_000_000, help="the number of rows")
    parser.add_argument("--folder")
    parser.add_argument(
        "--without-polars", action="store_true", help="where the file is too large for its memory"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    ways = {"confide logs import": CONFIDE}
    if not options.without_polars:
        ways |= {
            "Polars: read, sort, write": POLARS,
            "Polars: read, remove duplicates, sort, write": UNIQUE,
        }
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        raw = Path(folder) / "raw.csv"
        out = Path(folder) / "log.parquet"
        few = Path(folder) / "few.csv"
        write_messy_log(few, 1000)
        # The first call compiles.
        measure(CONFIDE, few, out)
        rows = write_messy_log(raw, options.rows)
        size = raw.stat().st_size / 1e9
        figures = {name: measure(work, raw, out) for name, work in ways.items()}
    ours = figures["confide logs import"]
    lines = [
        (
            "| way | seconds | CPU seconds | peak memory, GB | rows written | "
            "confide takes so many times as long |"
        ),
        "|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {name} | {wall:.1f} | {cpu:.1f} | {peak:.2f} | {int(kept):,} | {ours[0] / wall:.2f} |"
        for name, (wall, cpu, peak, kept) in figures.items()
    ]
    lines += ["", f"{rows:,} rows, {size:.2f} GB of CSV.", ""]
    record("Importing a raw table", "\n".join(lines), write=options.write)


if __name__ == "__main__":
    main()
