"""Distributed noise against a curator with the same releases: LikelihoodVI, K = 1e5, delta = 1e-5.

    python benchmarks/distributed.py [--quick] [--write]

Regret is exact, and counts every user who was served, those included whose devices stayed away.
Instance seed 0; run seeds 400..463, held out: no constant was tuned on them. --quick takes two of
them. With --write the table goes to benchmarks/results/distributed.md.
"""

import argparse
import dataclasses
import math

import numpy as np
from record import record

from confide import DistributedDP, JointDP
from confide.agents import LikelihoodVI
from confide.mechanisms.counters import Leaves
from confide.problems import make
from confide.runs.runner import prepare, seed_streams

EPISODES = 100_000
DELTA = 1e-5
SEEDS = range(400, 464)
DROPOUTS = 0.1
ABOUT = """LikelihoodVI on instance 0, K = 1e5, delta = 1e-5, seeds 400..463, users as exact
counts. Under `DistributedDP` noise is added to each batch, by its devices, and prefix sums add it
up: the right comparison is a curator with separate leaves. If nobody stays away, the noise is
larger by the shares for drop-outs (1.05 times for a tenth). If every tenth device stays away,
there is a tenth less data. The conversion of the proved bound costs nothing on this lattice.
"""
ROWS = {
    "joint, square-root Toeplitz (the default)": lambda epsilon: (
        JointDP(epsilon, DELTA),
        False,
        0.0,
    ),
    "joint, separate leaves": lambda epsilon: (JointDP(epsilon, DELTA), True, 0.0),
    "distributed, dropouts = 0.1, nobody stays away": lambda epsilon: (
        DistributedDP(epsilon, DELTA, dropouts=DROPOUTS),
        False,
        0.0,
    ),
    "distributed, dropouts = 0.1, every tenth device stays away": lambda epsilon: (
        DistributedDP(epsilon, DELTA, dropouts=DROPOUTS),
        False,
        DROPOUTS,
    ),
}


def regret(problem, privacy, leaves: bool, away: float, seed: int) -> float:
    """Of one run, with this share of every batch staying away, spread evenly over its policies."""
    agent = LikelihoodVI(problem.public, episodes=EPISODES, privacy=privacy)
    if leaves:
        agent.calibration = dataclasses.replace(
            agent.calibration, counter=Leaves(agent.schedule.leaves)
        )
    prepare(agent, seed)
    rng = np.random.default_rng(seed_streams(seed)[0])
    lost = 0.0
    generation = 0
    begun = 0
    while agent.users < EPISODES:
        batch = agent.next_batch()
        before = agent.users
        if agent.released().generation > generation:
            generation = agent.released().generation
            begun = before
        lost += batch.users * (problem.optimal_value - problem.value(batch.policy))
        absent = math.floor(away * (before + batch.users - begun) + 1e-9) - math.floor(
            away * (before - begun) + 1e-9
        )
        agent.observe(problem.count(batch.policy, batch.users - absent, rng))
        if absent:
            agent.shares.stay_away(absent)
    return lost


def measure_regrets(name: str, problem, epsilon: float, seeds) -> np.ndarray:
    return np.array([regret(problem, *ROWS[name](epsilon), seed) for seed in seeds])


def lines(seeds) -> list[str]:
    rows = []
    for problem in ("lock", "rand"):
        for epsilon in (1.0,):
            problem_instance = make(problem)
            reference = 0.0
            rows += [
                f"## {problem}, epsilon = {epsilon:g}",
                "",
                "| | regret: mean ± s.e. | median | worst | against separate leaves |",
            ]
            rows.append("|---|---|---|---|---|")
            samples = {
                name: measure_regrets(name, problem_instance, epsilon, seeds) for name in ROWS
            }
            reference = samples["joint, separate leaves"].mean()
            for name, values in samples.items():
                error = values.std(ddof=1) / math.sqrt(len(values))
                numbers = (
                    f"{values.mean():.0f} ± {error:.0f} | {np.median(values):.0f} | "
                    f"{values.max():.0f}"
                )
                rows.append(f"| {name} | {numbers} | {values.mean() / reference:.2f} |")
            rows.append("")
    return [*rows, ABOUT]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    record(
        "Distributed noise",
        "\n".join(lines(SEEDS[:2] if options.quick else SEEDS)),
        write=options.write,
    )
