"""The papers' agents for tabular MDPs beside TabularPSRL, K = 1e5: regret relative to uniform play.

By hand: python benchmarks/table_papers.py [AGENT ...] > table.md. The table is in
docs/agents/tabular.md.
"""

import math
import sys

import numpy as np

import confide
from confide.agents import DPUCBVI, LDPOBI, PUCB, UCBPO, UCBVI, TabularPSRL
from confide.problems import double_chain, garnet, riverswim, riverswim_stage

EPISODES = 100_000
SEEDS = range(500, 508)
PROBLEMS = {
    "riverswim": riverswim(),
    "double chain": double_chain(),
    "garnet": garnet(),
    "riverswim-stage": riverswim_stage(),
}
REQUESTS = {
    "eps = 1": confide.JointDP(1.0, 1e-5),
    "eps = 10": confide.JointDP(10.0, 1e-5),
    "none": confide.NoPrivacy(),
}


def lost(kind, problem, privacy):
    runs = [
        confide.run(
            kind(problem.public, episodes=EPISODES, privacy=privacy),
            problem,
            seed=seed,
            episodes=EPISODES,
        )
        for seed in SEEDS
    ]
    relative_regrets = [
        run.regret[-1] / (EPISODES * (run.optimal_value - run.uniform_value)) for run in runs
    ]
    standard_error = np.std(relative_regrets, ddof=1) / math.sqrt(len(relative_regrets))
    return f"{np.mean(relative_regrets):.4f} ± {standard_error:.4f}"


def measure_regrets():
    kinds = [
        kind
        for kind in (TabularPSRL, PUCB, UCBVI, UCBPO, LDPOBI, DPUCBVI)
        if not sys.argv[1:] or kind.name in sys.argv[1:]
    ]
    print(f"\nTight noise, {len(SEEDS)} seeds, mean ± standard error.\n")
    print(f"| agent | problem | {' | '.join(REQUESTS)} |\n|---|---|{'---|' * len(REQUESTS)}")
    for name, problem in PROBLEMS.items():
        for kind in kinds:
            print(
                (
                    f"| {kind.name} | {name} | "
                    f"{' | '.join(lost(kind, problem, each) for each in REQUESTS.values())} |"
                ),
                flush=True,
            )


if __name__ == "__main__":
    measure_regrets()
