"""Estimated and measured peak memory of runs, small and large, each in a process of its own.

    python benchmarks/memory.py [--write] [ROW ...]

Measured is the largest resident set of the process (VmHWM) minus that after the imports: the
problem, the agent, its compiled loops and the run. (`resource.getrusage` would count what the
parent had before it started the process.) The compiled loops come from Numba's cache, so each row
runs twice and the second run counts. The estimate is that of `confide explain`. With --write the
table goes to benchmarks/results/memory.md.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from large_tables import ring
from record import record

import confide
from confide.agents.catalogue import agent_class, make_agent
from confide.agents.estimate import estimate_resources
from confide.problems import save_problem
from confide.problems.zoo.bandits import linear_bandit
from confide.problems.zoo.linear import latent
from confide.problems.zoo.mixtures import lock, rand
from confide.problems.zoo.tables import riverswim, riverswim_stage

HEAD = (
    "| agent | problem | knows | users | estimated, MB | measured, MB | ratio |\n"
    "|---|---|---|---|---|---|---|"
)
MEGABYTE = 10**6


def listed_support(problem: Any) -> Any:
    """The possible transitions as rows (s, a, s')."""
    transitions = problem.transitions
    rows = np.repeat(np.arange(transitions.rows), np.diff(transitions.indptr))
    return np.stack(
        [rows // transitions.actions, rows % transitions.actions, transitions.successors], axis=1
    )


# The agent, the problem in words, a function that makes it, the users, and whether its support is
# stated.
ROWS = {
    "psrl-small": ("tabular-psrl", "riverswim", riverswim, 20_000, False),
    "psrl-steps": (
        "tabular-psrl",
        "riverswim-stage, 50 states, H = 40",
        lambda: riverswim_stage(states=50, horizon=40),
        20_000,
        False,
    ),
    "psrl-dense": ("tabular-psrl", "ring of 2,000 states", lambda: ring(2_000), 20_000, False),
    "psrl-sparse": ("tabular-psrl", "ring of 10,000 states", lambda: ring(10_000), 20_000, True),
    "ucbvi-small": ("ucbvi", "riverswim", riverswim, 20_000, False),
    "ucbvi-large": ("ucbvi", "ring of 1,000 states", lambda: ring(1_000), 20_000, False),
    "likelihood-small": ("likelihood-vi", "lock", lock, 20_000, False),
    "likelihood-large": (
        "likelihood-vi",
        "lock, 300 states, 6 actions",
        lambda: lock(states=300, actions=6),
        20_000,
        False,
    ),
    "linopt-large": (
        "linopt-vi",
        "rand, 150 states, 10 kernels",
        lambda: rand(states=150, actions=6, dimension=10),
        5_000,
        False,
    ),
    "next-state": (
        "next-state-vi",
        "latent, 400 states",
        lambda: latent(states=400, dimension=10),
        5_000,
        False,
    ),
    "lsvi": (
        "lsvi-ucb",
        "latent, 100 states, 200 features",
        lambda: latent(states=100, dimension=200),
        20_000,
        False,
    ),
    "lin-ucb": (
        "lin-ucb",
        "linear-bandit, 200 numbers",
        lambda: linear_bandit(200, 20),
        5_000,
        False,
    ),
}


def estimate(row: str) -> int:
    """Return the estimate in bytes, from the sizes of the problem.

    The sizes are those of its file. `sizes_by_name` reads them without the problem.
    """
    agent, _, make, users, is_stated = ROWS[row]
    problem = make()
    path = Path(f"{row}.npz")
    save_problem(problem, path)
    options = {"support": listed_support(problem)} if is_stated else {}
    try:
        return estimate_resources(
            agent, str(path), episodes=users, privacy=confide.JointDP(1.0, 1e-5), **options
        ).memory
    finally:
        path.unlink()


def resident(name: str) -> int:
    """Bytes, from what the kernel says of this process."""
    line = next(
        line
        for line in Path("/proc/self/status").read_text().splitlines()
        if line.startswith(f"{name}:")
    )
    return 1024 * int(line.split()[1])


def measure(row: str) -> None:
    agent, _, make, users, is_stated = ROWS[row]
    agent_class(agent)
    before = resident("VmRSS")
    problem = make()
    options = {"support": listed_support(problem)} if is_stated else {}
    one = make_agent(agent, problem, episodes=users, privacy=confide.JointDP(1.0, 1e-5), **options)
    started = time.perf_counter()
    confide.run(one, problem, seed=0)
    seconds = time.perf_counter() - started
    print(json.dumps([resident("VmHWM") - before, seconds]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(ROWS), help="rows of the table by name")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    if options.measure:
        measure(options.rows[0])
        return
    table = []
    for row in options.rows:
        agent, problem, _, users, is_stated = ROWS[row]
        for _ in range(2):
            done = subprocess.run(
                [sys.executable, __file__, row, "--measure"],
                capture_output=True,
                text=True,
                check=True,
            )
        measured, _ = json.loads(done.stdout)
        estimated = estimate(row)
        knows = "support" if is_stated else ""
        figures = (
            f"{estimated / MEGABYTE:.0f} | {measured / MEGABYTE:.0f} | {estimated / measured:.2f}"
        )
        table.append(f"| {agent} | {problem} | {knows} | {users:,} | {figures} |")
        print(table[-1], flush=True)
    about = (
        "JointDP(1, 1e-5), default options. Peak of the process beyond its imports, "
        "compiled loops from the cache."
    )
    record("Memory", "\n".join([about, "", HEAD, *table, ""]), write=options.write)


if __name__ == "__main__":
    main()
