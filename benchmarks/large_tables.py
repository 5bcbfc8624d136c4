"""TabularPSRL on large tables, delta = 1e-5: regret relative to uniform play, seconds and memory.

    python benchmarks/large_tables.py [--write] [ROW ...]

Each run is a process of its own. With --write the table goes to benchmarks/results/large_tables.md.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from typing import Any

import numpy as np
from record import record

import confide
from confide.problems import TabularMDP, icu_sepsis, make
from confide.problems.transitions import sparse_rows

# These seeds are held out: no constant was tuned on them.
SEEDS = (700, 701)
HEAD = (
    "| problem | cells | knows | epsilon | K | regret / uniform play | CPU seconds "
    "| peak memory, MB |\n" + "|---" * 8 + "|"
)
ROWS = {
    "taxi": ("Taxi-v4, H = 20", "", 1.0, 100_000),
    "taxi-rewards": ("Taxi-v4, H = 20", "rewards", 1.0, 100_000),
    "icu-1": ("ICU-Sepsis, H = 20", "rewards, support", 1.0, 100_000),
    "icu-10": ("ICU-Sepsis, H = 20", "rewards, support", 10.0, 100_000),
    "icu-none": ("ICU-Sepsis, H = 20", "rewards, support", None, 100_000),
    "sparse": ("ring of 10,000 states, H = 20", "rewards, support", 1.0, 100_000),
}


def ring(states: int = 10_000, near: int = 10) -> TabularMDP:
    """Return a ring in which two actions lead to ten states each, ahead or behind.

    Probabilities are random, and there are 200,000 successors. One state in ten pays 1.
    """
    rng = np.random.default_rng(0)
    steps = np.arange(1, near + 1)
    successors = (np.arange(states)[:, None, None] + np.stack([steps, -steps])[None]) % states
    chances = rng.dirichlet(np.ones(near), size=2 * states)
    P = sparse_rows(
        states,
        2,
        np.arange(0, 2 * states * near + 1, near),
        successors.reshape(-1),
        chances.reshape(-1),
    )
    rewards = np.repeat((rng.random(states) < 0.1).astype(float)[:, None], 2, axis=1)
    return TabularMDP(P, rewards, np.full(states, 1 / states), horizon=20, name="ring")


def make_problem(name: str, knows: str) -> tuple[Any, Any]:
    """The problem, and its support as a list of (s, a, s')."""
    if name.startswith("Taxi"):
        return make("gym:Taxi-v4", horizon=20, **({"rewards": "public"} if knows else {})), None
    problem = icu_sepsis(horizon=20) if name.startswith("ICU") else ring()
    P = problem.transitions
    row = np.repeat(np.arange(P.rows), np.diff(P.indptr))
    return problem, np.stack([row // P.actions, row % P.actions, P.successors], axis=1)


def one(row: str, seed: int) -> None:
    name, knows, epsilon, episodes = ROWS[row]
    problem, support = make_problem(name, knows)
    privacy = confide.JointDP(epsilon, 1e-5) if epsilon else confide.NoPrivacy()
    # compiles
    confide.run(
        confide.agents.TabularPSRL(problem.public, episodes=200, privacy=privacy, support=support),
        problem,
    )
    started = time.process_time()
    agent = confide.agents.TabularPSRL(
        problem.public, episodes=episodes, privacy=privacy, support=support
    )
    run = confide.run(agent, problem, seed=seed)
    lost = run.regret[-1] / (episodes * (run.optimal_value - run.uniform_value))
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps([lost, time.process_time() - started, memory, agent.algorithm.bound.cells]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", default=list(ROWS), help="rows of the table by name")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    parser.add_argument("--seed", type=int, help="the seed")
    options = parser.parse_args()
    if options.seed is not None:
        one(options.rows[0], options.seed)
        return
    table = []
    for key in options.rows:
        name, knows, epsilon, episodes = ROWS[key]
        runs = [
            json.loads(
                subprocess.run(
                    [sys.executable, __file__, key, "--seed", str(seed)],
                    capture_output=True,
                    text=True,
                    check=True,
                ).stdout
            )
            for seed in SEEDS
        ]
        lost, seconds, memory, cells = zip(*runs, strict=True)
        figures = (
            f"{', '.join(f'{each:.3f}' for each in lost)} | {max(seconds):.1f} | {max(memory):.0f}"
        )
        table.append(
            f"| {name} | {cells[0]:,} | {knows} | {epsilon or 'none'} | {episodes:,} | {figures} |"
        )
        print(table[-1], flush=True)
    about = (
        f"TabularPSRL with its defaults, delta = 1e-05, seeds {', '.join(map(str, SEEDS))}. "
        "Seconds and memory are the larger of both."
    )
    record("Large tables", "\n".join([about, "", HEAD, *table, ""]), write=options.write)


if __name__ == "__main__":
    main()
