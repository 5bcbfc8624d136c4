"""UCRL-VTR as one would write it in a notebook, beside confide's.

    python benchmarks/mixture_speed.py [--rounds 5] [--write]

Both run in one process and in interleaved rounds. Only ratios count, because machines are noisy. If
the environment variable PEER_PYTHON names an interpreter that has rlberry-scool, its UCBVI is
measured too, in its own grid world and in a process of its own.
"""

import argparse
import os
import subprocess
import time
import tracemalloc
from collections.abc import Callable

import numpy as np
from record import record
from scipy.optimize import nnls

from confide.agents import UCRLVTR, LikelihoodVI
from confide.privacy.accounting import gaussian_mu
from confide.privacy.request import JointDP
from confide.privatizers import every_episode
from confide.problems import lock
from confide.runs.runner import run

EPSILON = 1.0
DELTA = 1e-5
PRIVACY = JointDP(EPSILON, DELTA)
PROBLEM = lock(0)
PEER = """
import time, rlberry
rlberry.logger.setLevel("ERROR")
from rlberry_scool.agents import UCBVIAgent
from rlberry_scool.envs import GridWorld
env = GridWorld()
UCBVIAgent(env, horizon=5, stage_dependent=True).fit(20)  # compile
agent = UCBVIAgent(env, horizon=5, stage_dependent=True)
start = time.process_time()
agent.fit(1000)
print(1000 / (time.process_time() - start))
"""


class PlainTree:
    """A straightforward NumPy binary tree."""

    def __init__(self, leaves: int, size: int, sigma: float, rng: np.random.Generator) -> None:
        levels = leaves.bit_length()
        self.sigma = sigma * levels**0.5
        self.rng = rng
        self.t = 0
        self.exact = np.zeros((levels, size))
        self.noisy = np.zeros((levels, size))

    def absorb(self, values: np.ndarray) -> np.ndarray:
        self.t += 1
        i = (self.t & -self.t).bit_length() - 1
        node = values + self.exact[:i].sum(axis=0)
        self.exact[:i] = self.noisy[:i] = 0
        self.exact[i], self.noisy[i] = node, node + self.rng.normal(0.0, self.sigma, values.size)
        return self.noisy.sum(axis=0)


class PlainAgent:
    """UCRL-VTR in plain NumPy, replanned after every user.

    Noise comes from a tree over all users. Eigenvalues are repaired, and the bonus is small. Rows
    are in [0, 1]^d and targets in [0, 1], because values are in units of the horizon [Luyo21, Alg.
    1].
    """

    def __init__(self, episodes: int, seed: int = 0) -> None:
        public = PROBLEM.public
        truth = PROBLEM.truth
        self.kernels = public.kernels
        self.rewards = public.rewards
        self.rng = np.random.default_rng(seed)
        (self.H, self.S, self.A), self.d = self.rewards.shape, len(self.kernels)
        self.P = truth.transitions.dense()
        self.start = truth.start
        self.n = self.H - 1
        self.first = np.cumsum(truth.start)
        self.moves = np.cumsum(self.P, axis=-1)
        self.m, sensitivity = self.sizes()
        self.sigma = sensitivity / gaussian_mu(EPSILON, DELTA)
        size = self.n * (self.m**2 + self.m)
        self.tree = PlainTree(episodes, size, self.sigma, self.rng)
        self.total = np.zeros(size)
        self.regret = 0.0

    def sizes(self) -> tuple[int, float]:
        return self.d, np.sqrt(2 * self.n * self.d * (self.d + 1))

    def features(self, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Rows X [s, a, m], offset [s, a] and scale with E[V(s')] = offset + scale X.theta."""
        return (
            np.moveaxis(self.kernels @ (V / self.H), 0, -1),
            np.zeros((self.S, self.A)),
            float(self.H),
        )

    def weights(
        self, _X: np.ndarray, _offset: np.ndarray, _scale: float, _V: np.ndarray
    ) -> np.ndarray | float:
        return 1.0

    def estimate(self, theta: np.ndarray, _precision: np.ndarray) -> np.ndarray:
        return theta

    def evaluate(self, _policy: np.ndarray) -> None:
        pass

    def plan(self) -> tuple[np.ndarray, np.ndarray, list]:
        n = self.n
        m = self.m
        Lambda = np.triu(self.total[: n * m * m].reshape(n, m, m))
        u = self.total[n * m * m :].reshape(n, m)
        eigenvalues, vectors = np.linalg.eigh(Lambda + np.triu(Lambda, 1).swapaxes(1, 2))
        repaired = np.maximum(eigenvalues, 0) + max(1.0, self.sigma)
        transposed = vectors.swapaxes(1, 2)
        inverse = vectors / repaired[:, None] @ transposed
        precision = vectors * repaired[:, None] @ transposed
        theta = self.estimate((inverse @ u[:, :, None])[..., 0], precision)
        V = np.zeros((self.H + 1, self.S))
        policy = np.zeros((self.H, self.S), dtype=int)
        rows = [None] * n
        for h in range(self.H - 1, -1, -1):
            Q = self.rewards[h]
            if h < n:
                X, offset, scale = rows[h] = self.features(V[h + 1])
                bonus = 0.1 * scale * np.minimum(1, np.sqrt(((X @ inverse[h]) * X).sum(-1)))
                Q = np.clip(Q + offset + scale * X @ theta[h] + bonus, 0, self.H - h)
            policy[h], V[h] = Q.argmax(axis=1), Q.max(axis=1)
        return V, policy, rows

    def serve(self) -> None:
        """Plan, play one episode, and add what it shows to the tree."""
        V, policy, rows = self.plan()
        self.evaluate(policy)
        n = self.n
        m = self.m
        Lambda = np.zeros((n, m, m))
        u = np.zeros((n, m))
        s = min(np.searchsorted(self.first, self.rng.random(), side="right"), self.S - 1)
        for h in range(self.H):
            a = policy[h, s]
            after = min(
                np.searchsorted(self.moves[h, s, a], self.rng.random(), side="right"), self.S - 1
            )
            if h < n:
                X, offset, scale = rows[h]
                weight = self.weights(X[s, a], offset[s, a], scale, V[h + 1])
                x = X[s, a] * weight
                y = (V[h + 1, after] - offset[s, a]) / scale * weight
                Lambda[h], u[h] = np.outer(x, x), x * y
            s = after
        self.total = self.tree.absorb(np.concatenate([Lambda.ravel(), u.ravel()]))


class PlainTight(PlainAgent):
    """UCRL-VTR in plain NumPy with what confide does by default.

    Values are centred, rows have d - 1 dimensions, there are weights and the simplex (by scipy's
    nnls), and regret is exact.
    """

    def __init__(self, episodes: int) -> None:
        d = len(PROBLEM.public.kernels)
        self.U = np.linalg.svd(np.eye(d) - 1 / d)[0][:, : d - 1]
        super().__init__(episodes)

    def sizes(self) -> tuple[int, float]:
        return self.d - 1, np.sqrt(2 * self.n)

    def features(self, V: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        low = V.min()
        scale = max(np.ptp(V), 1e-12)
        phi = np.moveaxis(self.kernels @ ((V - low) / scale), 0, -1)
        return phi @ self.U, low + scale * phi.mean(axis=-1), scale

    def weights(self, X: np.ndarray, offset: np.ndarray, scale: float, V: np.ndarray) -> float:
        largest = max(V.max() - offset, offset - V.min()) / scale
        return 1 / np.sqrt(X @ X + largest**2 / 2)

    def estimate(self, theta: np.ndarray, precision: np.ndarray) -> np.ndarray:
        for h in range(self.n):
            half = np.linalg.cholesky(precision[h]).T @ self.U.T
            much = 1e3 * np.sqrt(np.trace(precision[h]))
            w, _ = nnls(
                np.vstack([half, np.full(self.d, much)]),
                np.append(half @ (1 / self.d + self.U @ theta[h]), much),
            )
            theta[h] = self.U.T @ w
        return theta

    def evaluate(self, policy: np.ndarray) -> None:
        value = np.zeros(self.S)
        states = np.arange(self.S)
        for h in range(self.H - 1, -1, -1):
            value = self.rewards[h, states, policy[h]] + self.P[h, states, policy[h]] @ value
        self.regret += PROBLEM.optimal_value - self.start @ value


def plain(learner: PlainAgent, users: int) -> None:
    for _ in range(users):
        learner.serve()


def count_episodes(agent=UCRLVTR, **options) -> Callable[[int], None]:
    return lambda episodes: run(
        agent(PROBLEM.public, episodes=episodes, privacy=PRIVACY), PROBLEM, **options
    )


def each_user(episodes: int, users: int) -> None:
    agent = UCRLVTR(
        PROBLEM.public, episodes=episodes, privacy=PRIVACY, schedule=every_episode(episodes)
    )
    run(agent, PROBLEM, episodes=users)


SUBJECTS: dict[str, tuple[int, Callable[[], object]]] = {
    "plain NumPy, Alg. 1, replanned after every user": (
        500,
        lambda: plain(PlainAgent(20_000), 500),
    ),
    "plain NumPy, the same algorithm and exact regret, replanned after every user": (
        500,
        lambda: plain(PlainTight(20_000), 500),
    ),
    "ucrl-vtr, replanned after every user": (2_000, lambda: each_user(20_000, 2_000)),
    "ucrl-vtr, users one by one (trajectories)": (
        10**6,
        lambda: count_episodes(counts=False)(10**6),
    ),
    "ucrl-vtr": (10**6, lambda: count_episodes()(10**6)),
    "likelihood-vi": (10**6, lambda: count_episodes(LikelihoodVI)(10**6)),
}


def seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def throughput(rounds: int) -> list[str]:
    for _, call in SUBJECTS.values():
        # The first call compiles.
        call()
    times = np.array([[seconds(call) for _, call in SUBJECTS.values()] for _ in range(rounds)])
    rates = np.array([users for users, _ in SUBJECTS.values()]) / times
    lines = [
        (
            "| lock, eps = 1 | episodes per CPU-second | over NumPy, Alg. 1: median, range | "
            "over NumPy, same algorithm: median, range |"
        ),
        "|---|---|---|---|",
    ]
    against = [rates / rates[:, [base]] for base in (0, 1)]
    for i, name in enumerate(SUBJECTS):
        shown = [
            f"{np.median(r[:, i]):,.3g}, {r[:, i].min():,.3g} to {r[:, i].max():,.3g}"
            for r in against
        ]
        lines.append(f"| {name} | {np.median(rates[:, i]):,.0f} | {' | '.join(shown)} |")
    lines += [
        "",
        "Agents that replan after every user are configured for 20,000 users. "
        "The others serve 1,000,000 users with the default release "
        "schedule; they use exact transition counts unless the row says trajectories. "
        "The time includes the construction of agents and "
        "the verification of certificates.",
        "",
        (
            "| required speedup, median over rounds | over NumPy, Alg. 1 | met | over NumPy, "
            "same algorithm | met |"
        ),
        "|---|---|---|---|---|",
    ]
    for text, i, figure in (
        ("default schedule: at least 1000", 4, 1000),
        ("replanned after every user: at least 10", 2, 10),
    ):
        medians = [float(np.median(r[:, i])) for r in against]
        lines.append(
            f"| {text} | "
            + " | ".join(f"{x:,.3g} | {'yes' if x >= figure else 'NO'}" for x in medians)
            + " |"
        )
    return lines


def memory() -> list[str]:
    sizes = (10**5, 10**6, 10**7)
    lines = [
        "| peak memory allocated during a run, MB | K = 1e5 | 1e6 | 1e7 |",
        "|---|---|---|---|",
    ]
    for name, call in (
        ("ucrl-vtr", count_episodes()),
        ("ucrl-vtr, trajectories", count_episodes(counts=False)),
        ("likelihood-vi", count_episodes(LikelihoodVI)),
    ):
        lines.append(
            f"| {name} | "
            + " | ".join(f"{peak(lambda K=K, call=call: call(K)):.2f}" for K in sizes)
            + " |"
        )
    return [
        *lines,
        "",
        (
            "At most 65,536 trajectories are sampled at a time; the largest batch of K = 1e5 is "
            "smaller than that."
        ),
    ]


def peak(call: Callable[[], object]) -> float:
    call()
    tracemalloc.start()
    call()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return most / 1e6


def peer() -> list[str]:
    python = os.environ.get("PEER_PYTHON")
    if not python:
        return ["rlberry-scool was not measured: PEER_PYTHON is not set."]
    completed = subprocess.run([python, "-c", PEER], capture_output=True, text=True, check=True)
    rate = float(completed.stdout.split()[-1])
    return [
        (
            "rlberry-scool's UCBVI, without privacy, its default grid world, horizon 5, "
            f"stage-dependent: {rate:,.0f} episodes per CPU-second."
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5, help="the number of rounds")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    sections = [throughput(options.rounds), memory(), peer()]
    record(
        "Speed on mixtures",
        "\n\n".join("\n".join(lines) for lines in sections) + "\n",
        write=options.write,
    )


if __name__ == "__main__":
    main()
