"""A model from a log, released once: values of 20 policies, and what is learned from it.

    python benchmarks/offline.py [--quick] [--write]

Problems (discount .95, trajectories of 20 transitions, uniform behaviour unless it is narrow):
- grid: 6 x 6, four moves, which with probability .2 go in one of the other three directions
  instead; walls stop. Starts are uniform, a corner pays 1 and ends the trajectory. Rewards and the
  end are public.
- riverswim: 6 states. garnet: S = 50, A = 5, 3 successors, instances 0 to 4.
- narrow: grid, garnet and riverswim in which one action, chosen at random for each state, is taken
  94 % of the time. Constants of the library were chosen on the grid, riverswim, garnets 100 and 101
  and other narrow behaviours, with other seeds. Scores are (V - V_b) / (V* - V_b) of values without
  a horizon, V_b the behaviour's; where the plan says "as logged", the behaviour's actions are
  taken. Pessimism 0 is the best guess, whether or not it passes the test. Values of the 20 targets
  are those of 21 steps. The targets are mixtures of the behaviour with the optimal policy and with
  policies that are optimal in about 70 % of the states.
"""

import argparse
import warnings
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from record import record

from confide import CentralDP, NoPrivacy
from confide.errors import ConfideWarning
from confide.logs import in_memory, simulate
from confide.offline import ModelRelease
from confide.policy import StochasticPolicy
from confide.problems import TabularMDP, garnet, riverswim

DISCOUNT = 0.95
STEPS = 21
DELTA = 1e-6
GARNETS = range(5)
# The first seed.
FIRST = 5000


@dataclass(frozen=True)
class LoggedProblem:
    name: str
    P: np.ndarray  # [s, a, s']
    rewards: np.ndarray
    start: np.ndarray
    terminal: np.ndarray
    behaviour: np.ndarray  # [s, a]
    discount: float = DISCOUNT
    transitions: int = STEPS - 1

    def value(self, policy, steps=None):
        """Of so many steps, or of all."""
        mixed = np.einsum("sa,sat->st", policy, self.P) * ~self.terminal[:, None]
        paid = (policy * self.rewards).sum(axis=1)
        if steps is None:
            return float(
                self.start @ np.linalg.solve(np.eye(len(mixed)) - self.discount * mixed, paid)
            )
        V = np.zeros(len(mixed))
        for _ in range(steps):
            V = paid + self.discount * mixed @ V
        return float(self.start @ V)

    @cached_property
    def best(self):
        V = np.zeros(len(self.P))
        P = self.P * ~self.terminal[:, None, None]
        for _ in range(3000):
            Q = self.rewards + self.discount * P @ V
            before = V
            V = Q.max(axis=1)
            if np.abs(V - before).max() < 1e-12:
                break
        return np.eye(Q.shape[1])[Q.argmax(axis=1)]

    @cached_property
    def targets(self):
        rng, (S, A) = np.random.default_rng(5), self.rewards.shape
        others = [
            np.where(rng.random(S) < 0.7, self.best.argmax(axis=1), rng.integers(A, size=S))
            for _ in range(10)
        ]
        shares = np.arange(10)[:, None, None] / 9
        mixed = np.concatenate([np.repeat(self.best[None], 10, axis=0), np.eye(A)[others]])
        return (1 - np.tile(shares, (2, 1, 1))) * self.behaviour + np.tile(
            shares, (2, 1, 1)
        ) * mixed

    @cached_property
    def truth(self):
        return np.array([self.value(policy, self.transitions + 1) for policy in self.targets])

    @cached_property
    def gap(self):
        return self.value(self.behaviour), self.value(self.best)

    def score(self, policy):
        low, high = self.gap
        return (self.value(policy) - low) / (high - low)

    def log(self, people, seed):
        table = TabularMDP(self.P, self.rewards, self.start, horizon=self.transitions + 1)
        policy = StochasticPolicy(np.repeat(self.behaviour[None], self.transitions + 1, axis=0))
        users = simulate(
            table,
            policy,
            people,
            np.random.default_rng([seed, 1]),
            end=np.flatnonzero(self.terminal),
        )
        return in_memory(users, max_steps=self.transitions + 1)

    def release(self, people, epsilon, seed, *, learned=False):
        return self.released(self.log(people, seed), epsilon, seed, learned=learned)

    def released(self, log, epsilon, seed, *, learned=False):
        S, A = self.rewards.shape
        public_facts = {} if learned else {"rewards": self.rewards, "terminal": self.terminal}
        public_facts |= {"ends": learned, "reward_range": (0.0, 1.0)}
        estimator = ModelRelease(
            states=S,
            actions=A,
            discount=self.discount,
            transitions=self.transitions,
            **public_facts,
        )
        privacy = NoPrivacy() if epsilon is None else CentralDP(epsilon, DELTA)
        return estimator.release(log, privacy=privacy, rng=np.random.default_rng([seed, 2]))


def narrow(problem, seed, share=0.94):
    S, A = problem.rewards.shape
    usual = np.random.default_rng([seed, 3]).integers(A, size=S)
    behaviour = np.full((S, A), (1 - share) / (A - 1))
    behaviour[np.arange(S), usual] = share
    return LoggedProblem(
        f"narrow {problem.name}",
        problem.P,
        problem.rewards,
        problem.start,
        problem.terminal,
        behaviour,
    )


def grid(size=6, slip=0.2):
    S = size * size
    moves = ((-1, 0), (1, 0), (0, -1), (0, 1))
    P = np.zeros((S, 4, S))
    for s in range(S):
        i, j = divmod(s, size)
        for b, (down, right) in enumerate(moves):
            x = i + down
            y = j + right
            there = x * size + y if 0 <= x < size and 0 <= y < size else s
            for a in range(4):
                P[s, a, there] += 1 - slip if a == b else slip / 3
    goal = np.arange(S) == S - 1
    P[goal] = np.eye(S)[goal]
    start = np.where(goal, 0.0, 1 / (S - 1))
    return LoggedProblem(
        "grid",
        P,
        np.repeat(goal[:, None], 4, axis=1).astype(float),
        start,
        goal,
        np.full((S, 4), 0.25),
    )


def plain(problem):
    r = problem.rewards[0]
    return LoggedProblem(
        problem.name,
        problem.transitions.dense()[0],
        r,
        problem.start,
        np.zeros(len(r), bool),
        np.full(r.shape, 1 / r.shape[1]),
    )


def measure_runs(problems, people, epsilon, runs, *, learned=False):
    """(error over the targets, score at pessimism 1, at 0) of each run, of the problems in turn."""
    results = []
    for seed in range(FIRST, FIRST + runs):
        problem = problems[seed % len(problems)]
        model = problem.release(people, epsilon, seed, learned=learned)
        error = np.sqrt(np.mean((model.values(problem.targets) - problem.truth) ** 2))
        scores = [
            problem.score(model.plan(pessimism, tested=pessimism > 0).mixed(problem.behaviour))
            for pessimism in (1.0, 0.0)
        ]
        results.append((error, *scores))
    return np.array(results)


def line(name, problems, people, epsilon, runs, **more):
    results = measure_runs(problems, people, epsilon, runs, **more)
    error, scores, plain_scores = results.T
    low = min(problem.truth.min() for problem in problems)
    high = max(problem.truth.max() for problem in problems)
    spread = results.std(axis=0, ddof=1) / np.sqrt(len(results))
    below = int((scores < -0.01).sum())
    cells = [
        name,
        f"{people:,}",
        "none" if epsilon is None else f"{epsilon:g}",
        str(len(results)),
        f"{low:.2f} to {high:.2f}",
    ]
    cells += [
        f"{error.mean():.3f} ± {spread[0]:.3f}",
        f"{scores.mean():.3f} ± {spread[1]:.3f}",
        f"{scores.min():.3f}",
    ]
    cells += [
        f"{below}",
        f"{plain_scores.mean():.3f} ± {spread[2]:.3f}",
        f"{plain_scores.min():.3f}",
    ]
    text = f"| {' | '.join(cells)} |"
    print(text, flush=True)
    return text


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument(
        "--quick", action="store_true", help="measure only a small part, to try the script"
    )
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    options = parser.parse_args()
    few = options.quick
    # With few users there are many warnings.
    warnings.simplefilter("ignore", ConfideWarning)
    table = grid()
    river = plain(riverswim())
    garnets = [plain(garnet(seed=seed)) for seed in GARNETS]
    wide = {"grid": [table], "riverswim": [river], "garnet": garnets}
    tight = {
        "narrow grid": [narrow(table, seed) for seed in range(40, 50)],
        "narrow garnet": [narrow(problem, 40 + seed) for seed, problem in enumerate(garnets)],
        "narrow riverswim": [narrow(river, seed) for seed in range(40, 44)],
    }
    lines = []
    for people, runs in ((10**3, 10), (10**4, 20), (10**5, 10)):
        lines += [
            line(name, problems, people, 1.0, runs // 2 if few else runs)
            for name, problems in wide.items()
        ]
    for people, runs in ((10**3, 100), (10**4, 100), (10**5, 20)):
        lines += [
            line(name, problems, people, 1.0, runs // 10 if few else runs)
            for name, problems in tight.items()
        ]
    if not few:
        for epsilon in (10.0, None):
            lines += [line(name, problems, 10**4, epsilon, 10) for name, problems in wide.items()]
        for people in (10**4, 10**5):
            lines += [
                line(f"{name}, learned rewards", problems, people, 1.0, 10, learned=True)
                for name, problems in wide.items()
            ]
    heads = [
        "problem",
        "users",
        "epsilon",
        "runs",
        "values",
        "RMSE, 20 policies",
        "learned, pessimism 1",
        "least",
        "below -.01",
    ]
    heads += ["learned, pessimism 0", "least"]
    top = [f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}"]
    record(
        "Learning from logs",
        "\n".join([__doc__.split("\n\n", 2)[2], *top, *lines]) + "\n",
        write=options.write,
    )


if __name__ == "__main__":
    main()
