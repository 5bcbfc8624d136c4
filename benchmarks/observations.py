"""LSVI-UCB on continuous observations: what it learns with and without privacy.

    python benchmarks/observations.py [--quick] [--write] [--keep FILE] [--seconds 15]

--quick takes two seeds and a tenth of the users. With --write the table goes to
benchmarks/results/observations.md. --keep stores the value of each run in a file, and takes those
that are there. After --seconds no further run begins.
"""

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from record import record

from confide.agents import LSVIUCB, Uniform
from confide.policy import Policy
from confide.privacy.request import JointDP, NoPrivacy, Request
from confide.problems import GymProblem
from confide.runs.runner import run

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from corridor import HORIZON, Corridor, features

SEEDS = range(8)
REQUESTS = {
    "none": NoPrivacy(),
    "epsilon = 1": JointDP(1.0, 1e-5),
}
# Episodes that estimate the value of the last policy of a run.
TESTED = 200


def cart_features(observation: np.ndarray) -> np.ndarray:
    """Return the features of a cart for each action.

    They are a constant, the four numbers in units of the largest ones, and three products.
    """
    position = observation[0] / 2.4
    speed = np.tanh(observation[1])
    angle = observation[2] / 0.21
    turning = np.tanh(observation[3])
    shape = [1.0, position, speed, angle, turning, angle * turning, angle**2, turning**2]
    return np.kron(np.eye(2), np.array(shape) / 3)


def corridor() -> GymProblem:
    return GymProblem(Corridor(), features, HORIZON)


def cart_pole() -> GymProblem:
    return GymProblem("CartPole-v1", cart_features, 30)


@dataclass(frozen=True)
class ObservedProblem:
    """An environment, and the runs of its rows: (users, privacy, calibration)."""

    make: Callable[[], GymProblem]
    # What the best fixed action earns, or the largest return there can be.
    scale: str
    cases: tuple[tuple[int, str, str], ...]


PROBLEMS = {
    "corridor (H = 6, d = 12)": ObservedProblem(
        corridor,
        "going right at every step earns 2.8",
        (
            (1_000, "none", "tight"),
            (1_000, "epsilon = 1", "tight"),
            (10_000, "none", "tight"),
            (10_000, "epsilon = 1", "tight"),
            # The bonus is above H everywhere, with any of these numbers of users.
            (1_000, "epsilon = 1", "paper"),
        ),
    ),
    "CartPole-v1 (H = 30, d = 16)": ObservedProblem(
        cart_pole,
        "the largest return is 30",
        (
            (2_000, "none", "tight"),
            (2_000, "epsilon = 1", "tight"),
            (10_000, "epsilon = 1", "tight"),
        ),
    ),
}


def value_of(problem: GymProblem, policy: Policy, seed: int) -> float:
    """The average return of new users."""
    rng = np.random.default_rng([99, seed])
    return float(problem.sample(policy, TESTED, rng).rewards.sum(axis=1).mean())


def learn_and_evaluate(
    problem: GymProblem, users: int, privacy: Request, calibration: str, seed: int
) -> float:
    agent = LSVIUCB(problem.public, episodes=users, privacy=privacy, calibration=calibration)
    return value_of(problem, run(agent, problem, seed=seed).policy, seed)


class Kept:
    """The values of runs, kept in a file if there is one, until the time is over."""

    def __init__(self, path: Path | None, seconds: float) -> None:
        self.path = path
        self.end = time.monotonic() + seconds
        self.values: dict[str, float] = {}
        if path is not None and path.exists():
            self.values = json.loads(path.read_text())

    def value(self, name: str, compute: Callable[[], float]) -> float:
        if name not in self.values:
            if time.monotonic() > self.end:
                raise SystemExit(f"the time is over: {len(self.values)} runs are kept")
            self.values[name] = compute()
            if self.path is not None:
                self.path.write_text(json.dumps(self.values, indent=1))
        return self.values[name]


def cell(values: list[float]) -> str:
    return f"{np.mean(values):.2f} ± {np.std(values, ddof=1) / np.sqrt(len(values)):.2f}"


def rows(seeds: range, share: float, kept: Kept) -> list[str]:
    lines = [
        "| environment | users | privacy | calibration | return of the last policy | worst seed |",
        "|---|---|---|---|---|---|",
    ]
    for name, observed_problem in PROBLEMS.items():
        problem = observed_problem.make()
        random = run(Uniform(problem.public, episodes=1), problem).policy
        uniform = [
            kept.value(f"{name}, uniform play, {seed}", partial(value_of, problem, random, seed))
            for seed in seeds
        ]
        lines.append(f"| {name} | | uniform play | | {cell(uniform)} | {min(uniform):.2f} |")
        for users, request, calibration in observed_problem.cases:
            number = max(10, int(users * share))
            values = []
            for seed in seeds:
                case = problem, number, REQUESTS[request], calibration, seed
                label = f"{name}, {number}, {request}, {calibration}, {seed}"
                values.append(kept.value(label, partial(learn_and_evaluate, *case)))
            row = (
                f"| {name} | {number:,} | {request} | {calibration} | {cell(values)} | "
                f"{min(values):.2f} |"
            )
            print(row, flush=True)
            lines.append(row)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    parser.add_argument("--keep", type=Path, help="the file of finished runs")
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    seeds, share = (SEEDS[:2], 0.1) if options.quick else (SEEDS, 1.0)
    kept = Kept(options.keep, options.seconds)
    scales = "; ".join(
        f"{name}: {observed_problem.scale}" for name, observed_problem in PROBLEMS.items()
    )
    about = (
        f"Seeds {seeds[0]} to {seeds[-1]}, mean ± standard error over seeds. "
        "The return is an average "
        f"over {TESTED} new users of the last policy. delta = 1e-5. {scales}."
    )
    text = "\n\n".join([about, "\n".join(rows(seeds, share, kept))]) + "\n"
    record("Continuous observations", text, write=options.write)


if __name__ == "__main__":
    main()
