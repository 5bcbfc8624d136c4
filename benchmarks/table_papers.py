"""The papers' learners of tables beside TabularPSRL, K = 1e5: regret relative to uniform play, and what their printed bonus allows.

By hand: python benchmarks/table_papers.py [AGENT ...] > table.md. The tables are in docs/tables.md.
"""

import math
import sys

import numpy as np

import confide
from confide.agents import DPUCBVI, LDPOBI, PUCB, UCBPO, UCBVI, TabularPSRL
from confide.problems import double_chain, garnet, riverswim, riverswim_stage
from confide.tables.printed import (
    MOST,
    DPUCBVIRule,
    OBIRule,
    PUCBRule,
    TableSetting,
    UCBVIRule,
    bonus_of_one,
    starts,
)

EPISODES, SEEDS = 100_000, range(500, 508)
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
    found = [run.regret[-1] / (EPISODES * (run.optimal_value - run.uniform_value)) for run in runs]
    return f"{np.mean(found):.4f} ± {np.std(found, ddof=1) / math.sqrt(len(found)):.4f}"


def measured():
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
                f"| {kind.name} | {name} | {' | '.join(lost(kind, problem, each) for each in REQUESTS.values())} |",
                flush=True,
            )


def printed():
    river, users = riverswim().public, (20_000, 10**6, 10**8)

    def setting(K):
        return TableSetting(K, river.horizon, river.states, river.actions)

    rules = {
        "PUCB": lambda K: PUCBRule(setting(K), 1.0, learned=False),
        "UCB-VI, joint": lambda K: UCBVIRule(setting(K), 1.0, learned=False),
        "UCB-VI, local": lambda K: UCBVIRule(setting(K), 1.0, learned=False, local=True),
        "UCB-PO, joint": lambda K: UCBVIRule(setting(K), 1.0, learned=False, policies=True),
        "DP-UCBVI, joint": lambda K: DPUCBVIRule(setting(K), 1.0, learned=False),
        "DP-UCBVI, local": lambda K: DPUCBVIRule(setting(K), 1.0, learned=False, local=True),
        "LDP-OBI, local": lambda K: OBIRule(setting(K), 1.0, learned=False),
    }
    print(
        f"\n| printed bonus, eps = 1 | {' | '.join(f'K = {K:.0e}' for K in users)} | below H from | below 1 from |"
    )
    print("|---|" + "---|" * 5)
    for name, rule in rules.items():
        values = " | ".join(f"{bonus_of_one(rule(K)):.3g}" for K in users)
        first = [starts(rule(users[0]), below) for below in (None, 1.0)]
        print(
            f"| {name} | {values} | {' | '.join(f'{k:.2g}' if k <= MOST else f'above {MOST:.0e}' for k in first)} |"
        )


if __name__ == "__main__":
    printed()
    measured()
