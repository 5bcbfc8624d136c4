"""The samplers beside a plain NumPy one, in one run. Ratios only: machines are noisy.

python benchmarks/samplers.py [--write]
"""

import argparse
import time

import numpy as np
from record import record

from confide.learning.reference import Uniform
from confide.policy import uniform_policy
from confide.problems import lock
from confide.runs.runner import run


def numpy_episode(P, rewards, start, weights, rng):
    """One episode, as one would write it in a notebook."""
    H, S, A = rewards.shape
    s = rng.choice(S, p=start)
    total = 0.0
    for h in range(H):
        a = rng.choice(A, p=weights[h, s])
        total += rewards[h, s, a]
        s = rng.choice(S, p=P[h, s, a])
    return total


def numpy_batch(P, rewards, start, weights, users, rng):
    """Simulate all users at once, one step at a time.

    Successors come from cumulative probabilities and comparisons, without a Python loop over users.
    """
    H, S, A = rewards.shape
    s = np.searchsorted(np.cumsum(start), rng.random(users), side="right").clip(0, S - 1)
    total = np.zeros(users)
    for h in range(H):
        a = (
            (rng.random(users)[:, None] >= np.cumsum(weights[h], axis=1)[s])
            .sum(axis=1)
            .clip(0, A - 1)
        )
        total += rewards[h, s, a]
        s = (rng.random(users)[:, None] >= np.cumsum(P[h], axis=2)[s, a]).sum(axis=1).clip(0, S - 1)
    return total


def rate(function, users, steps):
    start = time.process_time()
    function()
    return users * steps / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    problem = lock(0)
    rng = np.random.default_rng(0)
    policy = uniform_policy(problem.horizon, problem.states, problem.actions)
    truth = problem.truth
    P = truth.transitions.dense()
    weights = policy.probabilities()
    H = problem.horizon
    # The first call compiles.
    problem.sample(policy, 10, rng)
    rates = {
        "plain NumPy, one user at a time": rate(
            lambda: [
                numpy_episode(P, truth.rewards, truth.start, weights, rng) for _ in range(3000)
            ],
            3000,
            H,
        ),
        "NumPy, all users at once": rate(
            lambda: numpy_batch(P, truth.rewards, truth.start, weights, 10**6, rng), 10**6, H
        ),
        "confide, episodes": rate(
            lambda: [problem.sample(policy, 65_536, rng) for _ in range(30)], 30 * 65_536, H
        ),
        "confide, exact transition counts": rate(
            lambda: [problem.count(policy, 10**8, rng) for _ in range(200)], 200 * 10**8, H
        ),
    }
    plain = next(iter(rates.values()))
    lines = [
        "| sampler, lock, uniform play | user-steps per CPU-second | speedup over plain NumPy |",
        "|---|---|---|",
    ]
    lines += [f"| {name} | {value:.3g} | {value / plain:.3g} |" for name, value in rates.items()]
    start = time.process_time()
    run(Uniform(problem.public, episodes=10**6), problem)
    lines += [
        "",
        (
            f"A run of the uniform agent for 1e6 episodes: {time.process_time() - start:.3f} "
            "CPU-seconds."
        ),
    ]
    text = "\n".join(lines) + "\n"
    record("Samplers", text, write=options.write)


if __name__ == "__main__":
    main()
