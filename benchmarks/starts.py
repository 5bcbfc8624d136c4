"""OFU-LQ with the paper's calibration and without privacy, on systems with a fixed start.

    python benchmarks/starts.py [--users 1000] [--seeds 4]

It is planned for this start, or for a random one. Line 5 of [Chowdhury21, Alg. 1] plans for the
state in which the episode starts. Prints a table in Markdown.
"""

import argparse
import math
from dataclasses import replace
from typing import Any

import numpy as np

import confide
from confide.agents import OFULQ
from confide.control.ofu_lq import OptimisticControl
from confide.control.optimistic_planning import plan_optimistically
from confide.learning.algorithm import Round


class PlannedForRandomStarts(OptimisticControl):
    """The confidence set of the paper, and gains for a random start."""

    def plan(self, released: Any) -> Round:
        planned = plan_optimistically(
            self.confidence(released),
            released,
            self._costs,
            bound=self.public.parameter_bound,
            gain_bound=self.public.gain_bound,
            warns=False,
        )
        return Round(planned.policies, self.statistic, planned.memory, planned.signal)


def regret(system: Any, users: int, seed: int, *, for_start: bool) -> float:
    agent = OFULQ(system.public, episodes=users, privacy=confide.NoPrivacy(), calibration="paper")
    if not for_start:
        algorithm: Any = agent.algorithm
        other = PlannedForRandomStarts(
            algorithm.public,
            algorithm.statistic,
            algorithm.releases,
            algorithm.failure,
            printed=algorithm.printed,
        )
        agent.calibration = replace(agent.calibration, algorithm=other)
    return float(confide.run(agent, system, seed=seed).regret[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--users", type=int, default=1_000, help="the number of users")
    parser.add_argument("--seeds", type=int, default=4, help="the number of seeds")
    options = parser.parse_args()
    print("| system, start | planned for the start | planned for a random start | doing nothing |")
    print("|---|---|---|---|")
    for system in (
        confide.problems.oscillator(),
        confide.problems.thermal(),
        confide.problems.glucose(),
    ):
        first = np.eye(len(system.A))[0]
        fixed = replace(system, start=first)
        cells = []
        for for_start in (True, False):
            regrets = [
                regret(fixed, options.users, seed, for_start=for_start)
                for seed in range(options.seeds)
            ]
            error = np.std(regrets, ddof=1) / math.sqrt(options.seeds)
            cells.append(f"{np.mean(regrets):.1f} ± {error:.1f}")
        nothing = options.users * (fixed.optimal_value - fixed.uniform_value)
        print(f"| {system.name}, e_1 | {cells[0]} | {cells[1]} | {nothing:.1f} |", flush=True)


if __name__ == "__main__":
    main()
