"""Errors and coverage of linear and off-policy evaluation on the chain of [Balle16].

    python benchmarks/evaluation_features.py [--runs 200] [--write]

Coverage is how often 90 % intervals hold the truth. 40 states, stay with 1/2, discount .99, uniform
start, reward 1 in the last state. In off-policy rows to advance is an action that users take half
of the time, and the target policy with probability .55.
"""

import argparse
import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from record import record

from confide.evaluation import CountsAndSums
from confide.evaluation.importance_sampling import ImportanceSampling, WeightedImportanceSampling
from confide.evaluation.lstd import PrivateLSTD
from confide.evaluation.sufficient_statistics import SufficientStatistics
from confide.privacy import CentralDP, NoPrivacy
from confide.problems.zoo.tables import chain_values
from confide.release import DeltaWarning
from confide.trajectory import LoggedUsers

STATES = 40
DISCOUNT = 0.99
ADVANCE = 0.55
TIGHT = CentralDP(1.0, 1e-5)
LOOSE = CentralDP(0.1, 0.1)
FREE = NoPrivacy()
SIZES = (10**3, 10**4, 10**5)
TABLE = np.eye(STATES)
CUBIC = np.polynomial.legendre.legvander(np.linspace(-1, 1, STATES), 3)
TARGET = np.tile([1 - ADVANCE, ADVANCE], (STATES, 1))
# Both actions lead to the end.
TARGET[-1] = 0.5
VALUES = chain_values()
OTHER = np.array([chain_values(stay=1 - ADVANCE).mean()])


@dataclass(frozen=True)
class Log:
    """A log in memory, on this process alone."""

    users: LoggedUsers
    assumptions: tuple[str, ...] = ("simulated",)
    max_trajectories: int = 1

    def total(self, statistic: Any, *, progress: Any = None) -> Any:  # noqa: ARG002
        return statistic.contribution(self.users)


def chain_log(count: int, rng: np.random.Generator) -> Log:
    first = rng.integers(STATES, size=count)
    stays = rng.geometric(0.5, size=(count, STATES))
    stays[:, -1] = 1
    stays[np.arange(STATES) < first[:, None]] = 0
    states = np.repeat(np.tile(np.arange(STATES), count), stays.ravel())
    ends = np.append(0, np.cumsum(stays.sum(axis=1)))
    actions = np.zeros(len(states), np.int64)
    # the last step in a state leaves it
    actions[np.cumsum(stays.ravel()[stays.ravel() > 0]) - 1] = 1
    rewards = (states == STATES - 1).astype(float)
    actions[ends[1:] - 1] = rng.integers(2, size=count)
    return Log(
        LoggedUsers(
            states,
            rewards,
            ends,
            np.arange(count + 1),
            np.ones(count, bool),
            actions,
            np.full(len(states), 0.5),
        )
    )


@dataclass(frozen=True)
class Row:
    estimator: Any
    truth: np.ndarray
    # The share of the runs in which this row is measured.
    share: float = 1.0


ROWS = {
    "counts and sums (40 numbers), for comparison": Row(
        CountsAndSums(states=STATES, discount=DISCOUNT, return_bound=1.0),
        VALUES,
    ),
    "sufficient statistics, table": Row(
        SufficientStatistics(TABLE, DISCOUNT, visits=STATES, return_bound=1.0), VALUES
    ),
    "sufficient statistics, cubic": Row(
        SufficientStatistics(CUBIC, DISCOUNT, visits=STATES, return_bound=1.0), VALUES
    ),
    "LSTD, table": Row(PrivateLSTD(TABLE, DISCOUNT, visits=STATES, return_bound=1.0), VALUES, 0.1),
    "LSTD, cubic, norm=5": Row(PrivateLSTD(CUBIC, DISCOUNT, norm=5.0, return_bound=1.0), VALUES),
    "importance sampling, clip=8": Row(
        ImportanceSampling(TARGET, DISCOUNT, clip=8.0, return_bound=1.0), OTHER
    ),
    "per decision, clip=8": Row(
        ImportanceSampling(TARGET, DISCOUNT, clip=8.0, per_decision=True, return_bound=1.0), OTHER
    ),
    "weighted importance sampling, clip=8": Row(
        WeightedImportanceSampling(TARGET, DISCOUNT, clip=8.0, return_bound=1.0), OTHER
    ),
}


def measure_errors(size: int, privacy: Any, runs: int) -> dict[str, np.ndarray]:
    """Measure all rows on the same logs.

    The result for each row is [run, (RMSE, share of states covered, mean half width)].
    """
    errors: dict[str, list[tuple[float, float, float]]] = {name: [] for name in ROWS}
    for run in range(runs):
        log = chain_log(size, np.random.default_rng((size, run)))
        for name, row in ROWS.items():
            if run >= max(2, row.share * runs):
                continue
            estimate = row.estimator.release(
                log, privacy=privacy, rng=np.random.default_rng((size, run, 1))
            )
            low, high = estimate.interval(0.9)
            error = float(np.sqrt(np.mean((estimate.values - row.truth) ** 2)))
            errors[name].append(
                (
                    error,
                    float(((low <= row.truth) & (row.truth <= high)).mean()),
                    float((high - low).mean() / 2),
                )
            )
    return {name: np.array(rows) for name, rows in errors.items()}


def table(title: str, columns: dict[str, dict[str, np.ndarray]]) -> list[str]:
    lines = [f"| {title} | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name in ROWS:
        cells = []
        for column in columns.values():
            rows = column[name]
            error = rows[:, 0].mean()
            spread = rows[:, 0].std(ddof=1) / np.sqrt(len(rows))
            cells.append(
                f"{error:.3g} ± {spread:.1g}; **{100 * rows[:, 1].mean():.1f} %**; "
                f"{rows[:, 2].mean():.2g}"
            )
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return [*lines, ""]


def speed() -> str:
    """Rows per CPU-second of the statistics, both readings."""
    users = chain_log(50_000, np.random.default_rng(0)).users
    parts = []
    for name, row in ROWS.items():
        log = Log(users)
        row.estimator.release(log, privacy=FREE)
        start = time.process_time()
        row.estimator.release(log, privacy=FREE)
        parts.append(
            f"{name.split(',')[0]} {len(users.states) / (time.process_time() - start) / 1e6:.1f}"
        )
    return (
        "Million rows per CPU-second, including all passes over the log "
        f"({len(users.states):,} rows): {'; '.join(parts)}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200, help="the number of runs")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    warnings.simplefilter("ignore", DeltaWarning)
    private = {f"m = {m:,}": measure_errors(m, TIGHT, options.runs) for m in SIZES}
    others = {"(0.1, 0.1)": LOOSE, "no noise": FREE}
    at_ten = {
        f"{name}, m = 10,000": measure_errors(10**4, privacy, options.runs)
        for name, privacy in others.items()
    }
    best_cubic = CUBIC @ np.linalg.lstsq(CUBIC, VALUES, rcond=None)[0]
    approximation_error = np.sqrt(np.mean((VALUES - best_cubic) ** 2))
    explained = (
        f"There are {options.runs} runs (LSTD with table features: a tenth of them). "
        "Each cell shows the RMSE ± its standard error, the coverage of 90 % intervals, "
        "and their mean half width. "
        "Linear estimators estimate 40 states, off-policy estimators one value. "
        "All of them use 10 % of the budget for intervals. Cubic features cannot express the true "
        f"values exactly; their approximation error is at least {approximation_error:.1g}."
    )
    lines = [
        explained,
        "",
        *table("epsilon = 1, delta = 1e-5", private),
        *table("other noise", at_ten),
        speed(),
        "",
    ]
    record("Linear and off-policy evaluation", "\n".join(lines), write=options.write)


if __name__ == "__main__":
    main()
