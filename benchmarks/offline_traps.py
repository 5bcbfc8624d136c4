"""How often plans from logs of narrow behaviour are worse than this behaviour.

    python benchmarks/offline_traps.py [--quick] [--write]

The problems are small, and have bad states that are rarely entered. trap: three states. One action
is worth less than it looks: with probability .05 or .02 it leads to a state without rewards for
ever. random: 4 to 8 states, 2 to 4 actions, each row with 1 to 3 successors, one state that is
never left and pays nothing; a third of the rows lead there with probability .01 to .1. One action,
the best one in half of the states, is taken 90 to 97 % of the time. Each run has a new problem.
Discount .95, 21 steps, delta = 1e-6, replace, pessimism 1. Worse: by more than .01 of the gap
between behaviour and best policy.
"""

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from record import record

from confide.errors import ConfideWarning
from offline import LoggedProblem

# Seeds from here on are held out: no constant was tuned on them.
FIRST = 4000
SETTINGS = ((300, 1.0), (3_000, 0.1), (3_000, 1.0), (30_000, 0.1), (30_000, 1.0))


def trap(_):
    P = np.zeros((3, 2, 3))
    P[0], P[1], P[2, :, 2] = (
        [[0.9, 0.1, 0], [0.5, 0.45, 0.05]],
        [[0.5, 0.5, 0], [0.2, 0.78, 0.02]],
        1,
    )
    rewards = np.array([[0.2, 0.2], [0.5, 0.6], [0.0, 0.0]])
    behaviour = np.array([[0.95, 0.05], [0.9, 0.1], [0.5, 0.5]])
    return LoggedProblem("trap", P, rewards, np.eye(3)[0], np.zeros(3, bool), behaviour)


def any_world(seed):
    rng = np.random.default_rng([seed, 4])
    S = rng.integers(4, 9)
    A = rng.integers(2, 5)
    P = np.zeros((S, A, S))
    for s in range(S - 1):
        for a in range(A):
            after = rng.choice(S - 1, size=rng.integers(1, 4), replace=False)
            P[s, a, after] = rng.dirichlet(np.ones(len(after)))
            if rng.random() < 1 / 3:
                leak = rng.uniform(0.01, 0.1)
                P[s, a] *= 1 - leak
                P[s, a, S - 1] = leak
    P[S - 1, :, S - 1] = 1
    rewards = rng.random((S, A))
    rewards[S - 1] = 0
    problem = LoggedProblem(
        "random",
        P,
        rewards,
        np.append(np.full(S - 1, 1 / (S - 1)), 0.0),
        np.zeros(S, bool),
        np.full((S, A), 1 / A),
    )
    usual = np.where(rng.random(S) < 0.5, problem.best.argmax(axis=1), rng.integers(A, size=S))
    share = rng.uniform(0.9, 0.97)
    behaviour = np.full((S, A), (1 - share) / (A - 1))
    behaviour[np.arange(S), usual] = share
    return LoggedProblem("random", P, rewards, problem.start, problem.terminal, behaviour)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConfideWarning)
    runs = 10 if options.quick else 100
    lines = [
        "| problem | users | epsilon | runs | learned | least | changed | worse |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for make in (trap, any_world):
        for people, epsilon in SETTINGS:
            scores = []
            changed = 0
            for seed in range(FIRST, FIRST + runs):
                problem = make(seed)
                plan = problem.release(people, epsilon, seed).plan()
                scores.append(problem.score(plan.mixed(problem.behaviour)))
                changed += bool(plan.changed.any())
            worse = sum(score < -0.01 for score in scores)
            cells = [
                problem.name,
                f"{people:,}",
                f"{epsilon:g}",
                str(runs),
                f"{np.mean(scores):.3f}",
                f"{min(scores):.3f}",
            ]
            lines.append(f"| {' | '.join([*cells, str(changed), str(worse)])} |")
            print(lines[-1], flush=True)
    record(
        "Learning from logs, traps",
        f"{__doc__.split('[--write]')[1].strip()}\n\n" + "\n".join(lines) + "\n",
        write=options.write,
    )


if __name__ == "__main__":
    main()
