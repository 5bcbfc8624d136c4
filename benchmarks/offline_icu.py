"""ICU-Sepsis from a log: all 12.8 million cells (s, a, s') in one release, and none is public.

    python benchmarks/offline_icu.py [--people 1000000] [--seeds 3] [--epsilons 1 10] \\
        [--smaller] [--write]

716 states, 25 actions, discount 1; a patient survives (1) or dies (0). The behaviour takes a
clinician's action half of the time, and any action with the same probability otherwise. The first
10 transitions of a patient count; rewards and ends are public. The plan has pessimism 1, the
default, for every epsilon. Scores and the 20 targets are those of `offline.py`. delta = 1e-6,
replace. With --smaller, public knowledge makes the table smaller. Clusters: k-means of the states'
mean vital signs and laboratory values, which the ICU-Sepsis package has for each state (in a
hospital: of somebody else's patients); death, survival and the end are states of their own. The
plan is lifted to the states. Support: the transitions that have positive probability in the
package, 1.5 million cells, are public. The share of unseen visits from which on rows are projected
was set after another seed, the first one of `offline.py`. The machine was shared: seconds are an
upper bound.
"""

import argparse
import resource
import time
import warnings
from dataclasses import replace

import numpy as np
from record import record
from scipy.cluster.vq import kmeans2

from confide import CentralDP
from confide.errors import ConfideWarning
from confide.logs import in_memory
from confide.offline import ModelRelease
from confide.problems import icu_sepsis, icu_sepsis_expert
from confide.problems.zoo.icu_sepsis import DEATH, END, icu_sepsis_centres
from offline import DELTA, FIRST, LoggedProblem

HEADS = [
    "patients",
    "epsilon",
    "runs",
    "values",
    "V_b to V*",
    "RMSE, 20 policies",
    "V_b for all: RMSE",
    "learned, pessimism 1",
    "least",
]
HEADS += ["release, s", "plan, s", "peak, GB"]


def icu():
    table = icu_sepsis()
    S = table.states
    A = table.actions
    clinicians = icu_sepsis_expert(horizon=1).probabilities()[0]
    behaviour = 0.5 * clinicians + 0.5 / A
    P = table.transitions.dense().reshape(-1, S, A, S)[0]
    return LoggedProblem(
        "icu-sepsis", P, table.rewards[0], table.start, np.arange(S) >= DEATH, behaviour, 1.0, 10
    )


def measure_runs(problem, people, epsilons, seeds):
    """{epsilon: rows of (error, score, seconds of the release, seconds of the plan)}"""
    results = {epsilon: [] for epsilon in epsilons}
    for seed in range(FIRST + 1, FIRST + 1 + seeds):
        log = problem.log(people, seed)
        for epsilon in epsilons:
            began = time.perf_counter()
            model = problem.released(log, epsilon, seed)
            released = time.perf_counter()
            plan = model.plan(1.0)
            planned = time.perf_counter()
            error = np.sqrt(np.mean((model.values(problem.targets) - problem.truth) ** 2))
            row = (
                error,
                problem.score(plan.mixed(problem.behaviour)),
                released - began,
                planned - released,
            )
            print(
                (
                    f"seed {seed} epsilon {epsilon:g} {model.rows.method} missed "
                    f"{model.rows.missed:.2f}:"
                ),
                np.round(row, 4),
                flush=True,
            )
            results[epsilon].append(row)
            del model, plan
    return results


def cluster_states(number):
    """A cluster [s] for each state, of public centres."""
    _, clusters = kmeans2(icu_sepsis_centres()[:DEATH], number, minit="++", seed=0)
    clusters = np.unique(clusters, return_inverse=True)[1]
    return np.append(clusters, clusters.max() + 1 + np.arange(END + 1 - DEATH))


def smaller(problem, people, epsilons, seeds):
    """Lines: what is learned with public clusters, and with a public support."""
    kinds = {f"{number} clusters": cluster_states(number) for number in (30, 100)} | {
        "support": None
    }
    scores_by_kind = {(kind, epsilon): [] for kind in kinds for epsilon in epsilons}
    for seed in range(FIRST + 1, FIRST + 1 + seeds):
        log = problem.log(people, seed)
        for kind, clusters in kinds.items():
            part = log
            support = {"support": problem.P > 0} if clusters is None else {}
            states = np.arange(END + 1) if clusters is None else clusters
            if clusters is not None:
                part = in_memory(
                    (replace(block, states=clusters[block.states]) for block in log.blocks()),
                    max_steps=11,
                )
            first = np.unique(states, return_index=True)[1]
            public_facts = {
                "rewards": problem.rewards[first],
                "terminal": problem.terminal[first],
                "discount": 1.0,
                "transitions": 10,
                "ends": False,
            }
            estimator = ModelRelease(
                states=len(first), actions=problem.rewards.shape[1], **public_facts, **support
            )
            for epsilon in epsilons:
                rng = np.random.default_rng([seed, 2])
                plan = estimator.release(part, privacy=CentralDP(epsilon, DELTA), rng=rng).plan(1.0)
                lifted = replace(plan, choices=plan.choices[states])
                scores_by_kind[kind, epsilon].append(problem.score(lifted.mixed(problem.behaviour)))
                print(seed, kind, epsilon, f"{scores_by_kind[kind, epsilon][-1]:.4f}", flush=True)
    lines = [
        "| table | patients | epsilon | runs | learned, pessimism 1 | least |",
        f"|{'---|' * 6}",
    ]
    for (kind, epsilon), scores in scores_by_kind.items():
        mean = f"{np.mean(scores):.3f} ± {np.std(scores, ddof=1) / np.sqrt(len(scores)):.3f}"
        lines.append(
            f"| {kind} | {people:,} | {epsilon:g} | {len(scores)} | {mean} | {min(scores):.3f} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--people", type=int, default=1_000_000, help="the number of users")
    parser.add_argument("--seeds", type=int, default=3, help="the number of seeds")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 10.0])
    parser.add_argument("--smaller", action="store_true", help="with public clusters or support")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConfideWarning)
    problem = icu()
    low, high = problem.gap
    constant = np.sqrt(np.mean((problem.truth - low) ** 2))
    print(f"V_b {low:.4f}, V* {high:.4f}, V_b as the answer: RMSE {constant:.4f}", flush=True)
    if options.smaller:
        print("\n".join(smaller(problem, options.people, options.epsilons, options.seeds)))
        return
    lines = [f"| {' | '.join(HEADS)} |", f"|{'---|' * len(HEADS)}"]
    for epsilon, rows in measure_runs(
        problem, options.people, options.epsilons, options.seeds
    ).items():
        error, score, release, plan = np.array(rows).T
        spread = (
            np.std(np.array(rows), axis=0, ddof=1) / np.sqrt(len(rows))
            if len(rows) > 1
            else np.full(4, np.nan)
        )
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        cells = [
            f"{options.people:,}",
            f"{epsilon:g}",
            str(len(rows)),
            f"{problem.truth.min():.3f} to {problem.truth.max():.3f}",
        ]
        cells += [
            f"{low:.4f} to {high:.4f}",
            f"{error.mean():.4f} ± {spread[0]:.4f}",
            f"{constant:.4f}",
        ]
        cells += [f"{score.mean():.3f} ± {spread[1]:.3f}", f"{score.min():.3f}"]
        cells += [f"{np.median(release):.0f}", f"{np.median(plan):.0f}", f"{peak:.1f}"]
        lines.append(f"| {' | '.join(cells)} |")
    text = f"{__doc__.split(chr(10), 4)[4].strip()}\n\n" + "\n".join(lines) + "\n"
    record("ICU-Sepsis from a log", text, write=options.write)


if __name__ == "__main__":
    main()
