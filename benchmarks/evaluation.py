"""Private policy evaluation on the chain of [Balle16] and ICU-Sepsis, on the same logs for all.

    python benchmarks/evaluation.py [--quick] [--write]

Logs are simulated trajectory by trajectory; of a log only the estimators' own statistics are kept.
With --write the tables go to benchmarks/results/evaluation.md and the picture beside it.
"""

import argparse
import sys
import time
import warnings
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numba
import numpy as np
from record import RESULTS, record

from confide.evaluation import DPLSL, DPLSW, LSW, CountsAndSums
from confide.mechanisms.smooth import smooth_alpha
from confide.privacy import CentralDP, NoPrivacy
from confide.problems.zoo.icu_sepsis import (
    DEATH,
    SURVIVAL,
    icu_sepsis,
    icu_sepsis_centres,
    icu_sepsis_expert,
)
from confide.problems.zoo.tables import chain_values
from confide.release import DeltaWarning
from confide.trajectory import LoggedUsers

sys.path.append(str(Path(__file__).parent.parent))

from papers.balle16.subsample import Subsample

BLOCK = 100_000
LOOSE = CentralDP(0.1, 0.1)
TIGHT = CentralDP(1.0, 1e-5)
SIZES = (10**3, 10**4, 10**5, 10**6)
PATIENTS = (1_000, 3_000, 5_000, 7_000, 10_000, 20_000, 50_000, 100_000, 1_000_000)
RIDGES = np.geomspace(1.5, 3e6, 30)


@numba.njit(cache=True)
def walk(start, rows, live, paying, users, cap, rng):
    """Simulate trajectories of a chain with cumulative rows for the `live` states.

    A trajectory earns 1 when it arrives at or is in state `paying`.
    """
    states = np.empty(users * cap, np.int64)
    rewards = np.zeros(users * cap)
    ends = np.zeros(users + 1, np.int64)
    n = 0
    for u in range(users):
        s = np.searchsorted(start, rng.random(), side="right")
        for _ in range(cap):
            states[n] = s
            n += 1
            s = np.searchsorted(rows[s], rng.random(), side="right")
            if s >= live:
                break
        rewards[n - 1] = 1.0 if s == paying else 0.0
        ends[u + 1] = n
    return states[:n].copy(), rewards[:n].copy(), ends


@dataclass(frozen=True)
class LoggedChain:
    """A Markov chain whose states from `live` on end a trajectory.

    A trajectory that ends in state `paying` earns 1.
    """

    start: np.ndarray
    # Cumulative transition probabilities.
    rows: np.ndarray
    live: int
    paying: int
    values: np.ndarray
    # The weights of states in the error.
    weights: np.ndarray
    cap: int = 250

    def users(self, count: int, rng: np.random.Generator) -> LoggedUsers:
        states, rewards, ends = walk(
            self.start, self.rows, self.live, self.paying, count, self.cap, rng
        )
        return LoggedUsers(states, rewards, ends, np.arange(count + 1), np.ones(count, dtype=bool))

    def error(self, values: np.ndarray) -> float:
        return float(np.sqrt(self.weights @ (values - self.values) ** 2))


@dataclass
class Log:
    """A simulated log, of which only the requested statistics are kept.

    `blocks` simulates the same trajectories again.
    """

    problem: LoggedChain
    size: int
    seed: tuple[int, ...]
    held: dict[Any, Any] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ("simulated",)
    max_trajectories: int = 1

    def blocks(self):
        rng = np.random.default_rng(self.seed)
        for first in range(0, self.size, BLOCK):
            yield self.problem.users(min(BLOCK, self.size - first), rng)

    def hold(self, *statistics: Any) -> "Log":
        for block in self.blocks():
            for statistic in statistics:
                some = statistic.contribution(block)
                self.held[statistic] = (
                    self.held[statistic] + some if statistic in self.held else some
                )
        return self

    def total(self, statistic: Any, *, progress: Any = None) -> Any:  # noqa: ARG002
        if statistic not in self.held:
            self.hold(statistic)
        return self.held[statistic]


def cumulative(table: np.ndarray) -> np.ndarray:
    sums = np.cumsum(table, axis=-1)
    # The last state that can follow takes what rounding leaves.
    last = table.shape[-1] - 1 - (table[..., ::-1] > 0).argmax(axis=-1)
    sums[np.arange(table.shape[-1]) >= last[..., None]] = 2.0
    return sums


def chain_problem(states: int = 40) -> LoggedChain:
    """Stay with 1/2, else advance; the step in the last state pays and ends the trajectory.

    Uniform start.
    """
    P = np.zeros((states, states + 1))
    for s in range(states - 1):
        P[s, s] = P[s, s + 1] = 0.5
    P[-1, -1] = 1.0
    equal = np.full(states, 1 / states)
    return LoggedChain(
        cumulative(equal), cumulative(P), states, states, chain_values(states=states), equal
    )


def icu_problem() -> LoggedChain:
    """Clinicians' policy; the step before survival pays.

    Errors are weighted by how often a state is visited.
    """
    truth = icu_sepsis().truth
    policy = icu_sepsis_expert().weights[0]
    P = truth.transitions
    S, A = policy.shape
    table = np.zeros((S, S))
    for row in range(S * A):
        entries = slice(P.indptr[row], P.indptr[row + 1])
        table[row // A, P.successors[entries]] += (
            policy[row // A, row % A] * P.probabilities[entries]
        )
    live = table[:DEATH, :DEATH]
    values = np.zeros(S)
    values[:DEATH] = np.linalg.solve(np.eye(DEATH) - live, table[:DEATH, SURVIVAL])
    bare = LoggedChain(
        cumulative(truth.start), cumulative(table), DEATH, SURVIVAL, values, np.full(S, 1 / S), 400
    )
    visits = CountsAndSums(states=S, visits=None, return_bound=1.0).statistic()
    counts = visits.bound.unpack(Log(bare, 200_000, (99,)).total(visits).values)[0]
    return LoggedChain(bare.start, bare.rows, DEATH, SURVIVAL, values, counts / counts.sum(), 400)


def principal(table: np.ndarray, components: int) -> np.ndarray:
    centred = table - table.mean(axis=0)
    left, scales, _ = np.linalg.svd(centred, full_matrices=False)
    return left[:, :components] * scales[:components]


def short(errors: list[float]) -> str:
    mean = np.mean(errors)
    error = np.std(errors, ddof=1) / np.sqrt(len(errors)) if len(errors) > 1 else 0.0
    return f"{mean:.3g} ± {error:.1g}"


def chain_table(runs: int, sizes: tuple[int, ...]) -> tuple[list[str], dict[str, dict[int, float]]]:
    problem = chain_problem()
    common = {"states": 40, "discount": 0.99, "return_bound": 1.0}
    estimators = {
        "LSW, no privacy": (LSW(**common), NoPrivacy()),
        "DP-LSW with the paper's constants": (DPLSW(**common, calibration="paper"), LOOSE),
        "DP-LSW, exact calibration": (DPLSW(**common), LOOSE),
        "counts and sums": (CountsAndSums(**common), LOOSE),
        "subsample": (Subsample(**common), LOOSE),
        ("DP-LSW with the paper's constants, (1, 1e-5)"): (
            DPLSW(**common, calibration="paper"),
            TIGHT,
        ),
        "DP-LSW, exact calibration, (1, 1e-5)": (DPLSW(**common), TIGHT),
        "counts and sums, (1, 1e-5)": (CountsAndSums(**common), TIGHT),
        "counts and sums, all states, (1, 1e-5)": (CountsAndSums(**common, visits=None), TIGHT),
        "counts and sums, visits=10, (1, 1e-5)": (CountsAndSums(**common, visits=10), TIGHT),
    }
    errors_by_name: dict[str, dict[int, list[float]]] = {
        name: {m: [] for m in sizes}
        for name in (*estimators, ("DP-LSL with the paper's constants"), "DP-LSL exact")
    }
    best: dict[tuple[str, int], np.ndarray] = {}
    kept = [
        estimator.statistic()
        for estimator, _ in estimators.values()
        if isinstance(estimator, CountsAndSums)
    ][1:]
    for m in sizes:
        ridges = {"DP-LSL with the paper's constants": [], "DP-LSL exact": []}
        for run in range(runs):
            log = Log(problem, m, (m, run))
            log.hold(*kept, LSW_STATISTIC)
            rng = np.random.default_rng((m, run, 1))
            for name, (estimator, privacy) in estimators.items():
                if isinstance(estimator, Subsample) and m > 10**5:
                    continue
                given = {} if isinstance(estimator, LSW) else {"rng": rng}
                errors_by_name[name][m].append(
                    problem.error(estimator.release(log, privacy=privacy, **given).values)
                )
            for name, calibration in (
                (("DP-LSL with the paper's constants"), "paper"),
                ("DP-LSL exact", "tight"),
            ):
                make = partial(DPLSL, **common, calibration=calibration)
                ridges[name].append(
                    [
                        problem.error(make(ridge=ridge).release(log, privacy=LOOSE, rng=rng).values)
                        for ridge in RIDGES
                    ]
                )
        for name, errors in ridges.items():
            table = np.array(errors)
            at = int(table.mean(axis=0).argmin())
            errors_by_name[name][m], best[name, m] = list(table[:, at]), RIDGES[at]
    lines = [
        "| chain, RMSE over states | " + " | ".join(f"m = {m:,}" for m in sizes) + " |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    for name, row in errors_by_name.items():
        label = name if "1e-5" in name or "no privacy" in name else f"{name}, (0.1, 0.1)"
        extra = [f" (lambda {best[name, m]:.3g})" if (name, m) in best else "" for m in sizes]
        lines.append(
            f"| {label} | "
            + " | ".join(
                (short(row[m]) if row[m] else "-") + e for m, e in zip(sizes, extra, strict=True)
            )
            + " |"
        )
    constant = problem.error(np.full(40, 0.5))
    lines.append("| constant 1/2 | " + " | ".join(f"{constant:.3f}" for _ in sizes) + " |")
    return lines, {
        name: {m: float(np.mean(row[m])) for m in sizes if row[m]}
        for name, row in errors_by_name.items()
    }


CHAIN_KNOWN = {"return_std": 0.05, "spread": 0.25}
# h = 1, as DP-LSW has it.
LSW_STATISTIC = CountsAndSums(states=40, discount=0.99, return_bound=1.0, visits=None).statistic(
    pure=True
)


def icu_table(runs: int, sizes: tuple[int, ...]) -> list[str]:
    problem = icu_problem()
    centres = icu_sepsis_centres()
    eb = partial(CountsAndSums, states=716, shrink="empirical-bayes")
    estimators = {
        "LSW, no privacy": (LSW(states=716, return_bound=1.0), NoPrivacy()),
        "counts and sums, visits=20": (
            CountsAndSums(states=716, visits=20, return_bound=1.0),
            TIGHT,
        ),
        "shrunk to their mean, visits=20": (eb(visits=20), TIGHT),
        "shrunk to 10 public components, visits=20": (
            eb(visits=20, components=principal(centres, 10)),
            TIGHT,
        ),
        "shrunk to 10 public components, visits=10": (
            eb(visits=10, components=principal(centres, 10)),
            TIGHT,
        ),
        "shrunk to 2 public components, visits=10": (
            eb(visits=10, components=principal(centres, 2)),
            TIGHT,
        ),
        "DP-LSW, exact calibration": (DPLSW(states=716, return_bound=1.0), TIGHT),
    }
    kept = {
        estimator.statistic()
        for estimator, _ in estimators.values()
        if isinstance(estimator, CountsAndSums)
    }
    errors: dict[str, dict[int, list[float]]] = {
        name: {m: [] for m in sizes} for name in estimators
    }
    for m in sizes:
        for run in range(runs):
            log = Log(problem, m, (m, run, 7)).hold(
                *kept, CountsAndSums(states=716, visits=None, return_bound=1.0).statistic(pure=True)
            )
            rng = np.random.default_rng((m, run, 8))
            for name, (estimator, privacy) in estimators.items():
                given = {} if isinstance(estimator, LSW) else {"rng": rng}
                errors[name][m].append(
                    problem.error(estimator.release(log, privacy=privacy, **given).values)
                )
    lines = [
        "| ICU-Sepsis, (1, 1e-5), RMSE weighted by visits | "
        + " | ".join(f"{m:,}" for m in sizes)
        + " |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    lines += [
        f"| {name} | " + " | ".join(short(row[m]) for m in sizes) + " |"
        for name, row in errors.items()
    ]
    mean = float(problem.weights @ problem.values)
    lines.append(
        "| best constant | "
        + " | ".join(f"{problem.error(np.full(716, mean)):.4f}" for _ in sizes)
        + " |"
    )
    return lines


def plan_table(runs: int, sizes: tuple[int, ...]) -> list[str]:
    """Predicted against measured.

    Public: visit shares; on the chain that returns of a state vary by about .05 and values are
    about 1/4 from 1/2; where values are shrunk to their mean, that they are about .054 from it.
    """
    chain = chain_problem()
    icu = icu_problem()
    cases = [
        (
            "chain, all states",
            chain,
            CountsAndSums(states=40, discount=0.99, visits=None, return_bound=1.0),
            CHAIN_KNOWN,
        ),
        ("chain", chain, CountsAndSums(states=40, discount=0.99, return_bound=1.0), CHAIN_KNOWN),
        (
            "ICU-Sepsis, visits=20",
            icu,
            CountsAndSums(states=716, visits=20, return_bound=1.0),
            {"weights": icu.weights},
        ),
        (
            "ICU-Sepsis, shrunk to their mean",
            icu,
            CountsAndSums(states=716, visits=20, shrink="empirical-bayes", return_bound=1.0),
            {"weights": icu.weights, "spread": 0.054},
        ),
    ]
    lines = [
        "| planned / measured, (1, 1e-5) | " + " | ".join(f"{m:,}" for m in sizes) + " |",
        "|---" * (len(sizes) + 1) + "|",
    ]
    for name, problem, estimator, public_facts in cases:
        statistic = estimator.statistic()
        cells = []
        shares = (
            statistic.bound.unpack(Log(problem, 200_000, (98,)).total(statistic).values)[0]
            / 200_000
        )
        for m in sizes:
            rng = np.random.default_rng(m)
            errors = []
            for run in range(runs):
                log = Log(problem, m, (m, run, 9))
                errors += [
                    problem.error(estimator.release(log, privacy=TIGHT, rng=rng).values)
                    for _ in range(3)
                ]
            planned = estimator.plan(m, TIGHT, shares, **public_facts).rmse
            measured = float(np.mean(errors))
            cells.append(
                f"{planned:.3g} / {measured:.3g} ({100 * (planned / measured - 1):+.0f} %)"
            )
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def coverage(runs: int, users: int = 10_000) -> list[str]:
    chain = chain_problem()
    icu = icu_problem()
    lines = [
        f"| 90 % intervals, {users:,} users, {runs} runs | covered | mean width |",
        "|---|---|---|",
    ]
    for name, problem, states, discount, visits in (
        ("chain", chain, 40, 0.99, 10),
        ("ICU-Sepsis", icu, 716, 1.0, 20),
    ):
        estimator = CountsAndSums(states=states, discount=discount, visits=visits, return_bound=1.0)
        hits = []
        widths = []
        for run in range(runs):
            estimate = estimator.release(
                Log(problem, users, (run, 11)),
                privacy=TIGHT,
                rng=np.random.default_rng((run, 12)),
            )
            low, high = estimate.interval(0.9)
            hits.append(problem.weights @ ((low <= problem.values) & (problem.values <= high)))
            widths.append(problem.weights @ (high - low))
        lines.append(f"| {name} | {100 * np.mean(hits):.1f} % | {np.mean(widths):.3g} |")
    return lines


def picture(errors: dict[str, dict[int, float]]) -> None:
    """Like [Balle16, Fig. 1]: error against the size of the batch, tabular."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams["svg.hashsalt"] = "confide"
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    for axis, tight in zip(axes, (False, True), strict=True):
        for name, row in errors.items():
            if ("1e-5" in name) is tight or "no privacy" in name:
                axis.plot(
                    list(row),
                    list(row.values()),
                    marker="o",
                    markersize=3,
                    label=name.removesuffix(", (1, 1e-5)"),
                )
        axis.axhline(0.252, color="grey", linewidth=0.8, linestyle=":")
        axis.set(
            xscale="log",
            yscale="log",
            xlabel="trajectories",
            title="epsilon = 1, delta = 1e-5" if tight else "epsilon = delta = 0.1",
        )
    axes[0].set_ylabel("RMSE over states (dotted: constant)")
    axes[0].legend(fontsize=6)
    axes[1].legend(fontsize=6)
    figure.tight_layout()
    figure.savefig(RESULTS / "evaluation.svg", metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeltaWarning)
    start = time.perf_counter()
    runs, sizes, patients = (
        (4, SIZES[:3], PATIENTS[:7:3]) if options.quick else (20, SIZES, PATIENTS)
    )
    chain, errors = chain_table(runs, sizes)
    alpha = smooth_alpha(0.1, 0.1, 5.815e-4, 40)
    parts = [
        [
            (
                f"Each value is a mean over {runs} runs ± standard error. "
                "All estimators use the same trajectories."
            )
        ],
        chain,
        [
            (
                "alpha at epsilon = delta = 0.1, d = 40, beta = 5.815e-4: "
                f"{alpha:.4f} (the paper's: "
                f"{5 * np.sqrt(2 * np.log(20)) / 0.1:.1f})."
            )
        ],
        icu_table(runs, patients),
        plan_table(
            max(2, runs // 2), (1_000, 10_000, 100_000) if not options.quick else (1_000, 10_000)
        ),
        coverage(20 if options.quick else 200),
        ["![RMSE against the number of trajectories](evaluation.svg)"] if options.write else [],
    ]
    if options.write:
        picture(errors)
    record(
        "Private policy evaluation",
        "\n\n".join("\n".join(part) for part in parts if part) + "\n",
        write=options.write,
    )
    print(f"{time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
