"""TabularPSRL without privacy beside a plain posterior sampling in NumPy.

By hand: python benchmarks/numpy_psrl.py [USERS]. The figures are in
benchmarks/results/large_tables.md.

The NumPy program serves one user after the other, in the same process. Only the time of confide
includes the evaluation of regret.
"""

import sys
import time

import numpy as np

import confide
from confide.policy import TabularPolicy
from confide.problems import garnet, riverswim


def numpy_psrl(problem, episodes, seed):
    """Return the policies of posterior sampling in NumPy, one for every user.

    For each user it draws a model from a Dirichlet posterior, plans the best policy by backward
    induction, and plays one episode.
    """
    rng = np.random.default_rng(seed)
    P = problem.transitions.dense()[0]
    r = problem.rewards
    H = problem.horizon
    S, A = P.shape[:2]
    counts = np.full((S, A, S), 1.0 / S)
    played = []
    for _ in range(episodes):
        draws = rng.standard_gamma(counts)
        model = draws / np.maximum(draws.sum(axis=2, keepdims=True), 1e-300)
        V = np.zeros(S)
        actions = np.zeros((H, S), dtype=int)
        for h in range(H - 1, -1, -1):
            Q = r[h] + model @ V
            actions[h] = Q.argmax(axis=1)
            V = Q.max(axis=1)
        played.append(actions)
        s = rng.choice(S, p=problem.start)
        for h in range(H):
            a = actions[h, s]
            after = rng.choice(S, p=P[s, a])
            counts[s, a, after] += 1
            s = after
    return played


def main():
    users = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    print(
        (
            "| problem | ours, users per CPU second | NumPy, users per CPU second | ratio | "
            "regret / uniform play: ours | NumPy |\n"
        )
        + "|---" * 6
        + "|"
    )
    for problem in (riverswim(), garnet()):
        many = 100_000

        def ours(episodes, seed, problem=problem):
            agent = confide.agents.TabularPSRL(
                problem.public, episodes=episodes, privacy=confide.NoPrivacy()
            )
            return confide.run(agent, problem, seed=seed).regret[-1]

        # The first call compiles.
        ours(200, 0)
        started = time.process_time()
        ours(many, 1)
        fast = many / (time.process_time() - started)
        started = time.process_time()
        played = numpy_psrl(problem, users, 1)
        slow = users / (time.process_time() - started)
        lost = sum(
            problem.optimal_value - problem.value(TabularPolicy(actions, problem.actions))
            for actions in played
        )
        uniform = users * (problem.optimal_value - problem.uniform_value)
        print(
            (
                f"| {problem.name} | {fast:,.0f} | {slow:,.0f} | {fast / slow:.0f} | "
                f"{ours(users, 1) / uniform:.4f} | {lost / uniform:.4f} |"
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
