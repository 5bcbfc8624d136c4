"""How many users it takes until the learned policy beats the logged one.

    python benchmarks/plan_learn.py [--quick] [--write]

The number is predicted by `confide plan learn`, and measured.

Predicted and measured is the number of users from which on the plan (pessimism 1) is at least 10 %
of the way from what was done to the best policy, in half of the runs. delta = 1e-6, replace.
Problems are those of `offline.py`; garnets have 5 actions and 3 successors.
- `exact` predicts with the problem itself as the stand-in: its dynamics and behaviour are assumed
  to be known. Counts are drawn, not users.
- `sizes` predicts with a random table (garnet) as the stand-in, which has as many states, actions,
  successors and rewarded states, the same discount, and behaviour that is as narrow. Who knows
  these numbers only has such a stand-in.
- `measured`: logs of simulated users, other seeds. The share of 40 runs that learn is measured at
  .7, 1 and 1.3 times the exact prediction, then by bisection around one half; the number of users
  at one half is interpolated.
"""

import argparse
import math
import warnings

import numpy as np
from record import record

from confide import CentralDP
from confide.errors import ConfideWarning
from confide.offline import ModelRelease
from confide.offline.people_needed import people_needed, rehearsal
from confide.problems import TabularMDP, garnet, riverswim
from offline import DELTA, grid, narrow, plain

BETTER = 0.1
# The first seed.
FIRST = 90_000
# The instance of a stand-in of the same sizes.
OTHER = 200


def predict_users(problem, epsilon, runs=40):
    S, A = problem.rewards.shape
    public_facts = {"rewards": problem.rewards, "terminal": problem.terminal, "ends": False}
    estimator = ModelRelease(
        states=S,
        actions=A,
        discount=problem.discount,
        transitions=problem.transitions,
        **public_facts,
    )
    table = TabularMDP(problem.P, problem.rewards, problem.start, horizon=problem.transitions + 1)
    return people_needed(
        rehearsal(estimator, table, problem.behaviour),
        CentralDP(epsilon, DELTA),
        score=BETTER,
        runs=runs,
    )


def of_sizes(problem):
    """Return a garnet with as many states, actions, successors and rewarded states.

    Its behaviour is as narrow as that of the problem.
    """
    (S, A), successors = (
        problem.rewards.shape,
        round((problem.P > 0).sum(axis=2)[~problem.terminal].mean()),
    )
    rewarded = int((problem.rewards > 0).any(axis=1).sum())
    stand_in = plain(
        garnet(states=S, actions=A, branches=successors, rewarded=rewarded, seed=OTHER)
    )
    usual = problem.behaviour.max()
    return narrow(stand_in, OTHER, usual) if usual > 1 / A else stand_in


def share(problem, people, epsilon, runs):
    """Of the runs, those that learn; other users in every run and for every number of users."""
    seeds = range(FIRST + people, FIRST + people + runs)
    models = (problem.release(people, epsilon, seed) for seed in seeds)
    return float(
        np.mean(
            [problem.score(model.plan(1.0).mixed(problem.behaviour)) >= BETTER for model in models]
        )
    )


def measure_users(problem, epsilon, guess, runs):
    """Return the number of users at which half of the runs learn, and three shares.

    The shares of runs that learn are those at 0.7, 1 and 1.3 times the guess.
    """
    shares = {
        times: share(problem, round(times * guess), epsilon, runs) for times in (0.7, 1.0, 1.3)
    }
    shown = list(shares.values())
    while min(shares.values()) > 0.5:
        shares[min(shares) / 1.4] = share(problem, round(min(shares) / 1.4 * guess), epsilon, runs)
    while max(shares.values()) < 0.5:
        shares[max(shares) * 1.4] = share(problem, round(max(shares) * 1.4 * guess), epsilon, runs)
    for _ in range(2):
        low, high = bracket(shares)
        middle = math.sqrt(low * high)
        shares[middle] = share(problem, round(middle * guess), epsilon, runs)
    low, high = bracket(shares)
    part = (0.5 - shares[low]) / max(shares[high] - shares[low], 1e-9)
    return guess * low * (high / low) ** part, shown


def bracket(shares):
    """The largest factor up to which less than half of the runs learn, and the next one."""
    order = sorted(shares)
    low = max(times for times in order if shares[times] <= 0.5 and times < order[-1])
    return low, order[order.index(low) + 1]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    # With few users there are many warnings.
    warnings.simplefilter("ignore", ConfideWarning)
    settings = [
        ("grid", grid(), 1.0),
        ("grid", grid(), 4.0),
        ("riverswim", plain(riverswim()), 1.0),
        ("riverswim", plain(riverswim()), 4.0),
        ("narrow grid", narrow(grid(), 40), 1.0),
        ("garnet 20", plain(garnet(states=20, rewarded=2, seed=1)), 1.0),
        ("garnet 50", plain(garnet(seed=1)), 1.0),
        ("garnet 80", plain(garnet(states=80, rewarded=8, seed=1)), 1.0),
    ]
    heads = [
        "problem",
        "states",
        "actions",
        "epsilon",
        "exact",
        "measured",
        "ratio",
        "learn at .7 / 1 / 1.3",
        "sizes",
        "ratio",
    ]
    lines = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    print("\n".join(lines), flush=True)
    for name, problem, epsilon in settings[2:4] if options.quick else settings:
        guess = predict_users(problem, epsilon)
        other = predict_users(of_sizes(problem), epsilon, 15)
        true, shares = measure_users(problem, epsilon, guess, 20 if options.quick else 40)
        S, A = problem.rewards.shape
        cells = [
            name,
            str(S),
            str(A),
            f"{epsilon:g}",
            f"{guess:,}",
            f"{true:,.0f}",
            f"{guess / true:.2f}",
        ]
        cells += [" / ".join(f"{each:.2f}" for each in shares), f"{other:,}", f"{other / true:.2f}"]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    text = f"{__doc__.split(chr(10), 4)[4].strip()}\n\n" + "\n".join(lines) + "\n"
    record("Users needed to learn", text, write=options.write)


if __name__ == "__main__":
    main()
