"""How fast and how good the optimistic search over linear systems is.

The table also says what the Lagrangian bound leaves open. Problems: theta of Frobenius norm .9 with
bound 1, V a random Wishart matrix of mean I, so that beta is a radius in the units of theta; Q = I,
R = I/10, C_w = .1. `gap` is (found - best) / (estimate's cost - best) against the best of ten
random starts with a fine tolerance, `open` is (found - bound) / bound.
"""

import time

import numpy as np

from confide.control.optimistic_planning import cost, lagrangian_bound, optimistic

SIZES = ((1, 1, 5), (2, 1, 5), (3, 1, 8), (4, 2, 20), (10, 10, 50))
RADII = (0.05, 0.1, 0.3, 0.5)


def problem(seed, n, d):
    rng = np.random.default_rng(seed)
    theta = rng.normal(size=(n + d, n))
    Z = rng.normal(size=(3 * (n + d), n + d))
    return theta * 0.9 / np.linalg.norm(theta), Z.T @ Z / len(Z), np.eye(n), np.eye(d) / 10


def best_known(theta, V, beta, costs, rng, starts=10):
    L = np.linalg.cholesky(V)
    best = np.inf
    for _ in range(starts):
        move = rng.normal(size=theta.shape)
        start = theta + np.linalg.solve(L.T, beta * move / np.linalg.norm(move))
        best = min(
            best,
            optimistic(theta, V, beta, *costs, start=start, tolerance=1e-9, iterations=2000).cost,
        )
    return best


def main():
    print(
        "(n, d, H)        beta   median us  fastest us  steps   median gap  largest gap  median "
        "open"
    )
    for n, d, H in SIZES:
        for beta in RADII:
            times = []
            gaps = []
            opens = []
            steps = []
            for seed in range(40 if n < 10 else 5):
                theta, V, Q, R = problem(seed, n, d)
                costs = (Q, R, H, 0.1)
                optimistic(theta, V, beta, *costs)
                for _ in range(10):
                    began = time.perf_counter()
                    optimistic_cost = optimistic(theta, V, beta, *costs)
                    times.append(time.perf_counter() - began)
                best = min(
                    optimistic_cost.cost,
                    best_known(theta, V, beta, costs, np.random.default_rng(seed)),
                )
                gaps.append((optimistic_cost.cost - best) / max(cost(theta, *costs) - best, 1e-12))
                bound = lagrangian_bound(theta, V, beta, *costs).value
                opens.append((optimistic_cost.cost - bound) / bound)
                steps.append(optimistic_cost.iterations)
            quick = np.reshape(times, (-1, 10)).min(axis=1)
            print(
                f"{(n, d, H)!s:15} {beta:5}  {1e6 * np.median(times):9.1f}  "
                f"{1e6 * np.median(quick):9.1f}  {np.mean(steps):6.1f}"
                f"     {np.median(gaps):.1e}      {max(gaps):.1e}      {np.median(opens):.1e}"
            )


if __name__ == "__main__":
    main()
