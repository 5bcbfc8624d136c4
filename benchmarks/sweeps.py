"""How long sweeps take, beside bare calls of the library.

    python benchmarks/sweeps.py [--quick] [--write]

The page also says what a second process brings. Times are of this machine; the ratios are what
matters. With --write the tables go to benchmarks/results/sweeps.md.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from record import record

from confide.comparison.comparison import compare
from confide.runs.cell import run_cell
from confide.runs.runner import run
from confide.runs.store import Store, key_of
from confide.runs.sweep import Cell, Sweep, make_problem

SWEEP = {
    "agents": ["ucrl-vtr", "linopt-vi", "likelihood-vi"],
    "problems": ["lock", {"problem": "rand", "seed": 1}],
    "epsilons": [0.5, 1.0, 5.0, 10.0],
    "no_privacy": False,
}


def measure_time(
    work: Callable[[], object], clock: Callable[[], float] = time.perf_counter
) -> float:
    started = clock()
    work()
    return clock() - started


def whole(episodes: int, seeds: int, repeats: int) -> list[str]:
    """Cold: with the start of the processes.

    Warm: processes that have compiled and loaded everything.
    """
    sweep = Sweep(**SWEEP, episodes=episodes, seeds=seeds)
    cells = len(list(sweep.cells()))

    def once(workers: int) -> float:
        with tempfile.TemporaryDirectory() as folder:
            return measure_time(lambda: compare(sweep, workers=workers, store=folder))

    cold = once(2)
    once(1)
    pairs = [(once(1), once(2)) for _ in range(repeats)]
    ratios = [one / two for one, two in pairs]
    lines = [
        f"| 3 agents x 2 problems x 4 epsilons x {seeds} seeds, K = {episodes:,} | seconds |",
        "|---|---|",
    ]
    lines.append(f"| {cells} runs on 2 processes, including their start | {cold:.1f} |")
    lines.append(
        f"| on 2 warm processes, median of {repeats} | {median(two for _, two in pairs):.1f} |"
    )
    lines.append(
        f"| on 1 warm process, median of {repeats} | {median(one for one, _ in pairs):.1f} |"
    )
    lines.append(
        f"| ratio of 1 to 2 processes, median (min, max) | {median(ratios):.2f} "
        f"({min(ratios):.2f}, {max(ratios):.2f}) |"
    )
    return lines


def overhead(episodes: int, repeats: int) -> list[str]:
    """Compare a cell with `confide.run` of the same agent.

    The cell includes its key and its place in the store. Both run one after the other in one
    process.
    """
    lines = [
        (
            f"| K = {episodes:,}, eps = 1 | `confide.run`, CPU s | `confide.compare`, CPU s | "
            "overhead |"
        ),
        "|---|---|---|---|",
    ]
    for agent, problem in (
        ("ucrl-vtr", "lock"),
        ("likelihood-vi", "lock"),
        ("certainty-equivalent-lq", "oscillator"),
        ("lsvi-ucb", "latent"),
    ):
        cell = next(
            iter(
                Sweep(
                    agents=[agent], problems=[problem], episodes=episodes, no_privacy=False, seeds=1
                ).cells()
            )
        )
        pairs = both(cell, repeats)
        alone = median(a for a, _ in pairs)
        inside = median(b for _, b in pairs)
        ratio = median(b / a for a, b in pairs)
        lines.append(
            f"| {agent} on {problem} | {alone:.3f} | {inside:.3f} | {100 * (ratio - 1):+.1f} % |"
        )
    return lines


def both(cell: Cell, repeats: int) -> list[tuple[float, float]]:
    """CPU seconds of the bare call and of the cell, in turn."""
    problem = make_problem(cell.problem)

    def bare() -> None:
        run(cell.spec.ready(problem, 0), problem, episodes=cell.spec.episodes, seed=0)

    with tempfile.TemporaryDirectory() as folder:
        store = Store(folder)

        def bench() -> None:
            store.put(key_of(cell), run_cell(cell))

        bare()
        bench()
        return [
            (measure_time(bare, time.process_time), measure_time(bench, time.process_time))
            for _ in range(repeats)
        ]


def kills(times: int, workers: int) -> list[str]:
    """Kill the driver of a sweep at random moments, again and again.

    The sweep runs on several processes. Its table is compared with that of a sweep that was left
    alone.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        chance = random.Random(1)
        (place / "sweep.toml").write_text(
            'agents = ["ucrl-vtr", "likelihood-vi"]\nproblems = ["lock", "rand"]\n'
            "episodes = 100_000\nseeds = 20\n[privacy]\nepsilons = [1, 5]\n"
        )
        command = [
            sys.executable,
            "-m",
            "confide",
            "compare",
            "sweep.toml",
            "--workers",
            str(workers),
        ]
        done = 0
        quiet = {"cwd": place, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        while done < times:
            driver = subprocess.Popen([*command, "--out", "resumed"], **quiet)
            time.sleep(chance.uniform(1.0, 2.5))
            if driver.poll() is not None:
                break
            os.kill(driver.pid, signal.SIGKILL)
            driver.wait()
            done += 1
        kept = len(list(place.glob(".confide-store/*/*.json")))
        subprocess.run([*command, "--out", "resumed"], check=True, **quiet)
        subprocess.run([*command, "--out", "alone", "--store", "fresh"], check=True, **quiet)
        same = (place / "resumed/results.parquet").read_bytes() == (
            place / "alone/results.parquet"
        ).read_bytes()
    lines = [
        "| driver killed (kill -9) at random times | |",
        "|---|---|",
        f"| number of kills | {done} |",
    ]
    return [
        *lines,
        f"| stored runs after the last kill | {kept} of 240 |",
        f"| table bit-identical to an uninterrupted sweep | {'yes' if same else 'NO'} |",
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    if options.quick:
        sections = [whole(5_000, 2, 2), overhead(20_000, 3), kills(2, 2)]
    else:
        sections = [whole(100_000, 8, 5), overhead(1_000_000, 25), kills(10, 2)]
    record(
        "Sweeps", "\n\n".join("\n".join(lines) for lines in sections) + "\n", write=options.write
    )


if __name__ == "__main__":
    main()
