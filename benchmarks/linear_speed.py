"""LSVI-UCB that replans after every episode: confide's, plain NumPy's and rlberry-scool's.

    python benchmarks/linear_speed.py [--rounds 5] [--write]

Only ratios count, because machines are noisy. All on one-hot (S = 5, A = 2, H = 5, d = 10), without
privacy. rlberry-scool's is measured if the environment variable PEER_PYTHON names an interpreter
that has it, on the same transitions and rewards, in a process of its own.
"""

import argparse
import json
import os
import subprocess
import time

import numpy as np
from record import record

from confide.agents import LSVIUCB
from confide.linear_mdps.batches import one_by_one
from confide.mechanisms.sources import noise_source
from confide.privacy.request import JointDP, NoPrivacy
from confide.problems import one_hot

PROBLEM = one_hot()
EPISODES = 50
PEER = """
import json, sys, time
import numpy as np, rlberry
rlberry.logger.setLevel("ERROR")
from rlberry_scool.agents.linear import LSVIUCBAgent
from rlberry_scool.agents.features import FeatureMap
from rlberry.envs.finite_mdp import FiniteMDP
world = json.loads(sys.stdin.read())
P, r = np.array(world["P"]), np.array(world["r"])
S, A = r.shape

class OneHot(FeatureMap):
    def __init__(self, env):
        self.shape = (S * A,)
    def map(self, state, action):
        row = np.zeros(S * A)
        row[state * A + action] = 1.0
        return row

def make_agent():
    problem = FiniteMDP(r, P, initial_state_distribution=np.array(world["start"]))
    return LSVIUCBAgent(problem, horizon=world["H"], feature_map_fn=OneHot)

make_agent().fit(5)
agent = make_agent()
n = world["n"]
start = time.process_time()
agent.fit(n)
print(n / (time.process_time() - start))
"""


class PlainLSVI:
    """LSVI-UCB as one would write it.

    It keeps every transition, and goes through all of them at each step of each plan.
    """

    def __init__(self, seed: int = 0) -> None:
        truth = PROBLEM.truth
        self.phi = PROBLEM.features
        self.H = PROBLEM.horizon
        self.P = truth.transitions.dense()
        self.r = truth.rewards
        self.start = truth.start
        self.S, self.A, self.d = self.phi.shape
        self.rng = np.random.default_rng(seed)
        self.seen = [[] for _ in range(self.H)]
        self.Lambda = np.tile(np.eye(self.d), (self.H, 1, 1))

    def plan(self) -> np.ndarray:
        V = np.zeros(self.S)
        actions = np.zeros((self.H, self.S), dtype=int)
        for h in reversed(range(self.H)):
            inverse = np.linalg.inv(self.Lambda[h])
            u = np.zeros(self.d)
            if self.seen[h]:
                rows = np.array(self.seen[h])
                s = rows[:, 0].astype(int)
                a = rows[:, 1].astype(int)
                reward = rows[:, 2]
                after = rows[:, 3].astype(int)
                u = self.phi[s, a].T @ (reward + V[after])
            bonus = np.sqrt(np.einsum("sai,ij,saj->sa", self.phi, inverse, self.phi))
            Q = np.clip(self.phi @ (inverse @ u) + 0.2 * bonus, 0, self.H - h)
            V, actions[h] = Q.max(axis=1), Q.argmax(axis=1)
        return actions

    def episodes(self, n: int) -> None:
        for _ in range(n):
            actions = self.plan()
            s = self.rng.choice(self.S, p=self.start)
            for h in range(self.H):
                a = actions[h, s]
                after = self.rng.choice(self.S, p=self.P[h, s, a])
                self.seen[h].append((s, a, self.r[h, s, a], after))
                self.Lambda[h] += np.outer(self.phi[s, a], self.phi[s, a])
                s = after


def rate(work, episodes: int) -> float:
    start = time.process_time()
    work()
    return episodes / (time.process_time() - start)


def serve(agent: LSVIUCB, rng: np.random.Generator) -> None:
    while agent.users < agent.episodes:
        batch = agent.next_batch()
        agent.observe(PROBLEM.sample(batch.policy, batch.users, rng))


def ours(privacy, episodes: int, *, each: bool = True) -> float:
    """Run confide's LSVI-UCB, one trajectory after the other.

    With `each` there is a plan after every trajectory. Otherwise there are as many as the default
    plan of batches makes.
    """
    plan = one_by_one(episodes) if each else None
    agent = LSVIUCB(
        PROBLEM.public,
        episodes=episodes,
        privacy=privacy,
        schedule=plan,
        noise=noise_source("fast", 0),
    )
    return rate(lambda: serve(agent, np.random.default_rng(0)), episodes)


def peer() -> float | None:
    python = os.environ.get("PEER_PYTHON")
    if not python:
        return None
    truth = PROBLEM.truth
    problem = {
        "P": truth.transitions.dense()[0].tolist(),
        "r": truth.rewards[0].tolist(),
        "start": truth.start.tolist(),
        "H": PROBLEM.horizon,
        "n": EPISODES,
    }
    completed = subprocess.run(
        [python, "-c", PEER], input=json.dumps(problem), capture_output=True, text=True, check=True
    )
    return float(completed.stdout.split()[-1])


def throughput(rounds: int) -> list[str]:
    # The first call compiles.
    ours(NoPrivacy(), 20)
    ours(NoPrivacy(), EPISODES, each=False)
    rows: dict[str, list[float]] = {
        "confide, its own batches": [],
        "confide": [],
        "confide, eps = 1": [],
        "plain NumPy": [],
        "rlberry-scool": [],
    }
    for _ in range(rounds):
        rows["confide, its own batches"].append(ours(NoPrivacy(), EPISODES, each=False))
        rows["confide"].append(ours(NoPrivacy(), EPISODES))
        rows["confide, eps = 1"].append(ours(JointDP(1.0, 1e-5), EPISODES))
        plain = PlainLSVI()
        rows["plain NumPy"].append(rate(lambda plain=plain: plain.episodes(EPISODES), EPISODES))
        peer_rate = peer()
        if peer_rate is not None:
            rows["rlberry-scool"].append(peer_rate)
    middle = {name: float(np.median(values)) for name, values in rows.items() if values}
    lazy = middle["confide, its own batches"]
    best = middle["confide"]
    title = (
        f"| a plan after each of {EPISODES} episodes | episodes per CPU-second | "
        "speedup of confide | with its own batches |"
    )
    lines = [title, "|---|---|---|---|"]
    lines += [
        f"| {name} | {value:,.0f} | {best / value:.3g} | {lazy / value:.3g} |"
        for name, value in middle.items()
    ]
    return (
        lines
        if rows["rlberry-scool"]
        else [*lines, "", "rlberry-scool was not measured: PEER_PYTHON is not set."]
    )


def replanning() -> list[str]:
    lines = [
        "| users so far | microseconds to query and plan again | plain NumPy |",
        "|---|---|---|",
    ]
    for users in (100, 1_000, 10_000, 1_000_000):
        agent = LSVIUCB(
            PROBLEM.public,
            episodes=users + 200,
            privacy=NoPrivacy(),
            schedule=one_by_one(users + 200),
            noise=noise_source("fast", 0),
        )
        agent.next_batch()
        agent._stored.add(PROBLEM.count(PROBLEM.optimal_policy, users, np.random.default_rng(0)))
        times = []
        for _ in range(200):
            start = time.process_time()
            agent._change_policy()
            agent.algorithm.plan(agent.released())
            times.append(time.process_time() - start)
        twin = "-"
        if users <= 10_000:
            plain = PlainLSVI()
            world = PROBLEM.sample(PROBLEM.optimal_policy, users, np.random.default_rng(0))
            for h in range(PROBLEM.horizon):
                plain.seen[h] = list(
                    zip(
                        world.states[:, h],
                        world.actions[:, h],
                        world.rewards[:, h],
                        world.states[:, h + 1],
                        strict=True,
                    )
                )
            start = time.process_time()
            plain.plan()
            twin = f"{1e6 * (time.process_time() - start):,.0f}"
        lines.append(f"| {users:,} | {1e6 * np.median(times):,.0f} | {twin} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5, help="the number of rounds")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    sections = [throughput(options.rounds), replanning()]
    record(
        "Speed on linear MDPs",
        "\n\n".join("\n".join(lines) for lines in sections) + "\n",
        write=options.write,
    )


if __name__ == "__main__":
    main()
