"""How often the values and intervals of `confide evaluate` are right.

    python benchmarks/values_evaluate.py [--logs 1000] [--parts right,coverage,environments] \\
        [--keep FOLDER] [--write] [--problems grid,garnet] [--first-log 10000]

Values must be right without noise, intervals must hold, and so must those of final policies in an
environment of the user.

- right: four simulated logs of 20,000 users, each estimator without noise beside the textbook's
  formula, written in NumPy, and the truth.
- coverage: simulated logs of 10,000 users at epsilon 1 and 10 and without privacy (delta = 1e-6).
  Values of the logged policy and of states are those of counts-and-sums, values of targets and
  differences those of weighted importance sampling. Truths are exact, by backward induction.
- environments: a run in three environments, the shown interval of the final policy, and 10,000
  rollouts of the saved policy.

Problems: the grid is 6 x 6 with slips, a corner pays 1 and ends. riverswim and garnet are those of
the library, the clinic is that of examples/messy_log.py. Users of these act uniformly, for at most
20 steps (the clinic 12), at discount 0.95. The target takes the optimal action in a twentieth of
the cases, and acts as users do otherwise; it is also compared with a policy that takes the first
action in a twentieth of the cases. The clip is 10. In the one-step trial there are three arms and
four strata, the target is one arm, it is compared with another one, and the clip is 10/3.
"""

import argparse
import sys
import tempfile
import warnings
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import gymnasium
import numpy as np
from gymnasium import spaces
from record import record

import confide
from confide.errors import ConfideWarning
from confide.evaluation import (
    DPLSW,
    CountsAndSums,
    ImportanceSampling,
    PrivateLSTD,
    SufficientStatistics,
    WeightedImportanceSampling,
)
from confide.logs import simulate
from confide.policy import StochasticPolicy
from confide.problems import TabularMDP, garnet, riverswim
from confide.release.value import Value
from confide.trajectory import LoggedUsers

sys.path.insert(0, str(Path(__file__).parent.parent / "examples"))
from messy_log import hospital

GAMMA = 0.95
LEVEL = 0.9
Z = 1.6449
USERS = 10_000
PRIVACY = {
    "1": confide.CentralDP(1.0, 1e-6),
    "10": confide.CentralDP(10.0, 1e-6),
    "none": confide.NoPrivacy(),
}


class Held:
    """A log in memory. Sums that do not depend on a release are taken once for all budgets."""

    assumptions = ()
    has_actions = True
    max_trajectories = 1

    def __init__(self, users, steps):
        self.users = users
        self.max_steps = steps
        self.sums = {}
        self.parts = ()

    def total(self, statistic, *, progress=None):  # noqa: ARG002
        named = getattr(statistic.bound, "identity", None)
        key = (type(statistic).__name__, repr(named()) if named is None else named().digest())
        if type(statistic).__name__ == "ResidualBands":
            return statistic.contribution(self.users)
        if key not in self.sums:
            self.sums[key] = statistic.contribution(self.users)
        return self.sums[key]


class WithActions(Held):
    """A log whose layout says that it has actions."""

    def __init__(self, users, steps):
        super().__init__(users, steps)
        column = type("Column", (), {"action": "action"})
        self.parts = (type("Part", (), {"layout": type("Layout", (), {"columns": column})}),)


# The textbook, in NumPy.


def pad_trajectories(users):
    """Return states, actions, rewards and probabilities [user, step], and a mask.

    The mask says which steps there were. Each user has one trajectory.
    """
    lengths = np.diff(users.trajectories)
    mask = np.arange(lengths.max()) < lengths[:, None]
    parts = []
    for column in (users.states, users.actions, users.rewards, users.probabilities):
        table = np.zeros(mask.shape, column.dtype)
        table[mask] = column
        parts.append(table)
    return *parts, mask


def returns_of(users, discount):
    *_, rewards, _, mask = pad_trajectories(users)
    return np.where(mask, rewards, 0.0) @ discount ** np.arange(mask.shape[1])


def weights_of(users, target):
    states, actions, _, probabilities, mask = pad_trajectories(users)
    ratio = np.where(mask, target[states, actions] / np.where(mask, probabilities, 1.0), 1.0)
    return np.cumprod(ratio, axis=1)


def cells_of(users, state_count, discount):
    """The first-visit returns of each state, as a list of arrays."""
    states, _, rewards, _, mask = pad_trajectories(users)
    togo = np.zeros(rewards.shape)
    after = np.zeros(len(rewards))
    for step in range(rewards.shape[1] - 1, -1, -1):
        after = np.where(mask[:, step], rewards[:, step] + discount * after, 0.0)
        togo[:, step] = after
    cells = []
    for state in range(state_count):
        here = (states == state) & mask
        seen = here.any(axis=1)
        cells.append(togo[seen, here[seen].argmax(axis=1)])
    return cells


def width_of(residuals, denominator=None):
    """Of a 90 % interval: normal, with the standard deviation of users' residuals."""
    scale = len(residuals) if denominator is None else denominator
    return 2 * Z * float(np.sqrt((residuals**2).sum())) / scale


# The problems.


def grid(size=6, slip=0.2, horizon=20):
    """Return a grid with four moves.

    A move goes in one of the other directions with probability `slip`. The last corner pays 1, and
    ends the trajectory.
    """
    moves = [(-1, 0), (0, 1), (1, 0), (0, -1)]
    S = size * size
    P = np.zeros((S, 4, S))
    for s in range(S):
        x, y = divmod(s, size)
        reached = []
        for dx, dy in moves:
            nx = min(max(x + dx, 0), size - 1)
            ny = min(max(y + dy, 0), size - 1)
            reached.append(nx * size + ny)
        for a in range(4):
            for b in range(4):
                P[s, a, reached[b]] += 1 - slip if a == b else slip / 3
    P[-1] = 0.0
    P[-1, :, -1] = 1.0
    rewards = np.zeros((S, 4))
    rewards[-1] = 1.0
    start = np.append(np.full(S - 1, 1 / (S - 1)), 0.0)
    return TabularMDP(P, rewards, start, horizon=horizon, name="grid")


def trial():
    """Four strata, three arms, one step."""
    P = np.broadcast_to(np.eye(4)[:, None], (4, 3, 4)).copy()
    rates = np.array([[0.30, 0.36, 0.32], [0.2, 0.27, 0.2], [0.1, 0.12, 0.14], [0.5, 0.55, 0.5]])
    return TabularMDP(P, rates, np.full(4, 0.25), horizon=1, stochastic_rewards=True, name="trial")


@dataclass(frozen=True)
class SimulatedProblem:
    name: str
    problem: TabularMDP
    end: tuple = ()
    most: float = 1.0
    clip: float = 10.0

    @property
    def steps(self):
        return self.problem.horizon

    @cached_property
    def P(self):
        return self.problem.truth.transitions.dense()[0]

    @cached_property
    def behaviour(self):
        if self.name == "trial":
            return np.tile([0.3, 0.3, 0.4], (4, 1))
        return np.full((self.problem.states, self.problem.actions), 1 / self.problem.actions)

    @cached_property
    def targets(self):
        """The target, and the policy that it is compared with."""
        S, A = self.behaviour.shape
        if self.name == "trial":
            return np.tile(np.eye(3)[1], (S, 1)), np.tile(np.eye(3)[0], (S, 1))
        best = np.eye(A)[self.problem.optimal_policy.actions[0]]
        first = np.tile(np.eye(A)[0], (S, 1))
        return 0.95 * self.behaviour + 0.05 * best, 0.95 * self.behaviour + 0.05 * first

    def value(self, policy):
        """Return the exact expected discounted sum of rewards of a trajectory.

        The step in a state of `end` is the last one.
        """
        go = np.ones(self.problem.states)
        go[list(self.end)] = 0.0
        rewards = self.problem.truth.rewards[0]
        V = np.zeros(self.problem.states)
        for _ in range(self.steps):
            Q = rewards + GAMMA * go[:, None] * (self.P @ V)
            V = (policy * Q).sum(axis=1)
        return float(self.problem.truth.start @ V)

    def users(self, count, seed):
        policy = StochasticPolicy(np.tile(self.behaviour, (self.steps, 1, 1)))
        rng = np.random.default_rng([seed, 30])
        blocks = list(simulate(self.problem, policy, count, rng, end=self.end))
        return blocks[0] if len(blocks) == 1 else blocks

    @cached_property
    def state_truth(self):
        """Values of states as they are counted, and whether they have at least 1 % of the visits.

        Exact: a user counts for a state from the first visit on, and may have few steps left then.
        """
        go = np.ones(self.problem.states)
        go[list(self.end)] = 0.0
        P = np.einsum("sa,sap->sp", self.behaviour, self.P)
        rewards = (self.behaviour * self.problem.truth.rewards[0]).sum(axis=1)
        to_go = [np.zeros(self.problem.states)]  # [steps left][state]
        for _ in range(self.steps):
            to_go.append(rewards + GAMMA * go * (P @ to_go[-1]))
        visits = np.zeros(self.problem.states)
        returns = np.zeros(self.problem.states)
        for state in range(self.problem.states):
            without_visit = self.problem.truth.start.copy()
            for step in range(self.steps):
                visits[state] += without_visit[state]
                returns[state] += without_visit[state] * to_go[self.steps - step][state]
                without_visit[state] = 0.0
                without_visit = (without_visit * go) @ P
        return returns / np.maximum(visits, 1e-300), visits >= 0.01 * visits.sum()

    def of_states(self):
        return CountsAndSums(states=self.problem.states, discount=GAMMA, return_bound=self.most)


def logged_problems():
    earned = (1 - GAMMA**20) / (1 - GAMMA)
    return [
        SimulatedProblem("grid", grid(), end=(35,)),
        SimulatedProblem("garnet", garnet(states=50, actions=5, horizon=20, seed=0), most=earned),
        SimulatedProblem("riverswim", riverswim(horizon=20), most=earned),
        SimulatedProblem("clinic", hospital(), end=(5,)),
        SimulatedProblem("trial", trial(), clip=10 / 3),
    ]


# Coverage.


# So many logs are one block.
BLOCK = 50


def coverage(logs, keep, names, first_log):
    lines = [
        "## Coverage of 90 % intervals and their widths",
        f"{logs:,} simulated logs of {USERS:,} users per problem. "
        "*share* is the median width as a share of the range of returns (of twice the "
        "range for differences), *x textbook* the same as a multiple of the median width of the "
        "textbook's interval on the same logs without noise. *none* "
        "counts intervals that are shown as not estimated; they count as hits, "
        "and with the whole range as width. States are those with at least 1 % of the visits.",
        "",
        "| problem | value | epsilon | coverage | share | x textbook | none |",
        "|---|---|---|---|---|---|---|",
    ]
    first = first_log // BLOCK
    for problem in logged_problems():
        if names and problem.name not in names:
            continue
        blocks = [measure_block(problem, first + number, keep) for number in range(logs // BLOCK)]
        results = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
        lines += summary(problem, results)
        print("\n".join(lines[-15:]), flush=True)
    return lines


def measure_block(problem, number, keep):
    """The hits and widths on `BLOCK` logs; from the folder `keep` if they are there."""
    path = None if keep is None else Path(keep) / f"{problem.name}-{number}.npz"
    if path is not None and path.exists():
        with np.load(path) as file:
            return dict(file)
    blocks = {}
    for seed in range(number * BLOCK, (number + 1) * BLOCK):
        for name, value in on_one_log(problem, seed).items():
            blocks.setdefault(name, []).append(value)
    arrays = {name: np.array(values) for name, values in blocks.items()}
    if path is not None:
        np.savez(path, **arrays)
    return arrays


def on_one_log(problem, seed):
    """Return (hit, width) of each value and budget, and the textbook's widths.

    The width is NaN where there is no interval.
    """
    behaviour, (target, other) = problem.behaviour, problem.targets
    truths = {
        "logged": problem.value(behaviour),
        "target": problem.value(target),
        "target minus logged": problem.value(target) - problem.value(behaviour),
        "target minus another": problem.value(target) - problem.value(other),
    }
    values, often = problem.state_truth
    common = {"clip": problem.clip, "return_bound": problem.most}
    questions = {
        "states": problem.of_states(),
        "weighted": WeightedImportanceSampling(target, GAMMA, **common),
        "against": WeightedImportanceSampling(target, GAMMA, against=other, **common),
    }
    users = problem.users(USERS, seed)
    log = WithActions(users, problem.steps)
    results = {f"textbook {name}": width for name, width in textbook_widths(problem, users).items()}
    for number, (eps, privacy) in enumerate(PRIVACY.items()):
        estimates = {
            name: question.release(log, privacy=privacy, rng=np.random.default_rng([seed, number]))
            for name, question in questions.items()
        }
        shown = {
            "logged": estimates["states"].logged_value(),
            "target minus logged": estimates["weighted"].difference(),
            "target minus another": estimates["against"].difference(),
        }
        low, high = (float(part[0]) for part in estimates["weighted"].interval())
        whole = low <= 0 and high >= problem.most
        shown["target"] = Value(0.0) if whole else Value(0.0, low, high)
        for name, value in shown.items():
            has_interval = value.low is not None
            hit = not has_interval or value.low <= truths[name] <= value.high
            results[f"{eps} {name}"] = [hit, value.high - value.low if has_interval else np.nan]
        low, high = (part[often] for part in estimates["states"].interval())
        none = (low <= 0) & (high >= problem.most)
        hits = (low <= values[often]) & (values[often] <= high)
        results[f"{eps} states"] = [hits, np.where(none, np.nan, high - low)]
    return results


def summary(problem, results):
    lines = []
    for name in ("logged", "target", "target minus logged", "target minus another"):
        span = 2 * problem.most if "minus" in name else problem.most
        for eps in PRIVACY:
            hits, widths = results[f"{eps} {name}"].T
            width = float(np.median(np.nan_to_num(widths, nan=span)))
            ratio = width / float(np.median(results[f"textbook {name}"]))
            none = int(np.isnan(widths).sum())
            lines.append(
                f"| {problem.name} | {name} | {eps} | {hits.mean():.3f} | {width / span:.4f} | "
                f"{ratio:.2f} | {none} |"
            )
    usual = np.median(results["textbook states"], axis=0)
    for eps in PRIVACY:
        hits = results[f"{eps} states"][:, 0]
        widths = results[f"{eps} states"][:, 1]
        none = int(np.isnan(widths).sum())
        widths = np.nan_to_num(widths, nan=problem.most)
        ratio = float(np.median(np.median(widths, axis=0) / np.maximum(usual, 1e-12)))
        share = float(np.median(widths)) / problem.most
        by_state = hits.mean(axis=0)
        lines.append(
            f"| {problem.name} | {hits.shape[1]} states, pooled (worst) | {eps} | "
            f"{hits.mean():.3f} ({by_state.min():.3f}) | {share:.4f} | {ratio:.2f} | {none} |"
        )
    return lines


def textbook_widths(problem, users):
    returns = returns_of(users, GAMMA)
    own = returns - returns.mean()
    residuals = []
    for policy in problem.targets:
        weight = weights_of(users, policy)[:, -1]
        value = (weight * returns).sum() / weight.sum()
        residuals.append(weight * (returns - value) / weight.mean())
    widths_by_name = {
        "logged": width_of(own),
        "target": width_of(residuals[0]),
        "target minus logged": width_of(residuals[0] - own),
        "target minus another": width_of(residuals[0] - residuals[1]),
    }
    cells = cells_of(users, problem.problem.states, GAMMA)
    widths = [width_of(cell - cell.mean()) if len(cell) else np.nan for cell in cells]
    widths_by_name["states"] = np.array(widths)[problem.state_truth[1]]
    return widths_by_name


# Right without noise.


def four_logs(count=20_000):
    """(name, users, target, behaviour's value, target's value, largest return, discount, states)"""
    rng = np.random.default_rng(1)
    one = np.arange(count + 1)
    logs = []
    for name, rates, missing in (
        ("one step per user", (0.3, 0.36), 0.0),
        ("rare rewards", (0.004, 0.006), 0.0),
        ("missing outcomes", (0.35, 0.41), 0.07),
    ):
        actions = rng.integers(2, size=count)
        rewards = (rng.random(count) < np.array(rates)[actions]).astype(float)
        rewards[rng.random(count) < missing] = np.nan
        strata = rng.integers(3, size=count)
        users = LoggedUsers(
            strata, rewards, one, one, np.ones(count, bool), actions, np.full(count, 0.5)
        )
        target = np.tile([0.0, 1.0], (3, 1))
        logs.append((name, users, target, float(np.mean(rates)), rates[1], 1.0, 1.0, 3))
    # Four steps; after each a user leaves with probability 0.15. An action pays with its own rate,
    # in the state of the step.
    rates = np.array([[0.20, 0.26], [0.30, 0.33], [0.25, 0.25], [0.40, 0.48]])
    stay = 0.85
    left = rng.random((count, 3)) >= stay
    lengths = np.where(left.any(axis=1), left.argmax(axis=1) + 1, 4)
    mask = np.arange(4) < lengths[:, None]
    states = np.broadcast_to(np.arange(4), (count, 4))
    actions = rng.integers(2, size=(count, 4))
    rewards = (rng.random((count, 4)) < rates[states, actions]).astype(float)
    users = LoggedUsers(
        states[mask].astype(np.int64),
        rewards[mask],
        np.append(0, np.cumsum(lengths)),
        one,
        np.ones(count, bool),
        actions[mask],
        np.full(int(mask.sum()), 0.5),
    )
    reach = (GAMMA * stay) ** np.arange(4)
    truth = float(reach @ rates.mean(axis=1)), float(reach @ rates[:, 1])
    target = np.tile([0.0, 1.0], (4, 1))
    logs.insert(1, ("four steps, users leave", users, target, *truth, 4.0, GAMMA, 4))
    return logs


def right():
    lines = [
        "## Right without noise",
        "20,000 users, no privacy. Missing outcomes are left out by the textbook, too. "
        "Of estimators for states the largest difference over states is given, against cell "
        "means of first visits or, for lstd, against the solution of the empirical Bellman "
        "equation.",
        "",
        "| log | estimator | confide | textbook | truth |",
        "|---|---|---|---|---|",
    ]
    for name, users, target, logged, value, most, discount, states in four_logs():
        complete = kept(users)
        returns = returns_of(complete, discount)
        running = weights_of(complete, target)
        weight = running[:, -1]
        *_, rewards, _, mask = pad_trajectories(complete)
        decided = (np.where(mask, rewards, 0.0) * running) @ discount ** np.arange(mask.shape[1])
        log = WithActions(users, int(np.diff(users.trajectories).max()))
        common = {"discount": discount, "clip": 16.0, "return_bound": most}
        rows = [
            (
                "importance-sampling",
                ImportanceSampling(target, **common),
                (weight * returns).mean(),
            ),
            (
                "importance-sampling, per decision",
                ImportanceSampling(target, per_decision=True, **common),
                decided.mean(),
            ),
            (
                "weighted-importance-sampling",
                WeightedImportanceSampling(target, **common),
                (weight * returns).sum() / weight.sum(),
            ),
        ]
        for estimator, question, want in rows:
            release = question.release(log, privacy=confide.NoPrivacy())
            lines.append(
                f"| {name} | {estimator} | {release.values[0]:.6f} | {want:.6f} | {value:.6f} |"
            )
        cells = np.array([cell.mean() for cell in cells_of(complete, states, discount)])
        table = {"states": states, "discount": discount, "return_bound": most}
        features = {"features": np.eye(states), "discount": discount, "return_bound": most}
        estimators = {
            "counts-and-sums": (CountsAndSums(**table, visits=None), cells),
            "counts-and-sums, empirical-bayes": (
                CountsAndSums(**table, visits=None, shrink="empirical-bayes"),
                cells,
            ),
            "dp-lsw": (DPLSW(**table), cells),
            "sufficient-statistics": (SufficientStatistics(**features, visits=states), cells),
            "lstd": (
                PrivateLSTD(**features, visits=states, norm=100.0),
                bellman(complete, states, discount),
            ),
        }
        for estimator, (question, want) in estimators.items():
            release = question.release(log, privacy=confide.NoPrivacy())
            apart = float(np.abs(release.values - want).max())
            lines.append(f"| {name} | {estimator} | differs by {apart:.1e} | | |")
            if estimator == "counts-and-sums":
                own = release.logged.value
                lines.append(
                    f"| {name} | logged policy | {own:.6f} | {returns.mean():.6f} | {logged:.6f} |"
                )
    return lines


def kept(users):
    """The users whose rows are complete; one trajectory each."""
    lengths = np.diff(users.trajectories)
    owner = np.repeat(np.arange(users.count), lengths)
    whole = np.bincount(owner, weights=~np.isfinite(users.rewards), minlength=users.count) == 0
    rows = whole[owner]
    ends = np.append(0, np.cumsum(lengths[whole]))
    people = np.arange(int(whole.sum()) + 1)
    return LoggedUsers(
        users.states[rows],
        users.rewards[rows],
        ends,
        people,
        np.ones(int(whole.sum()), bool),
        users.actions[rows],
        users.probabilities[rows],
    )


def bellman(users, state_count, discount):
    """V = r + discount P V of the transitions that there were; nothing follows the last row."""
    states, _, rewards, _, mask = pad_trajectories(users)
    counts = np.zeros(state_count)
    paid = np.zeros(state_count)
    P = np.zeros((state_count, state_count))
    for step in range(mask.shape[1]):
        here = mask[:, step]
        counts += np.bincount(states[here, step], minlength=state_count)
        paid += np.bincount(states[here, step], rewards[here, step], minlength=state_count)
        if step + 1 < mask.shape[1]:
            follows = mask[:, step + 1]
            np.add.at(P, (states[follows, step], states[follows, step + 1]), 1)
    return np.linalg.solve(np.eye(state_count) - discount * P / counts[:, None], paid / counts)


# One's own environment.


class Queue(gymnasium.Env):
    """Up to nine customers wait.

    A fast server costs 2 a step, a slow one nothing, and every customer who waits costs 1.
    """

    observation_space = spaces.Discrete(10)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        super().reset(seed=seed)
        self.waiting = 3
        return self.waiting, {}

    def step(self, action):
        served = self.np_random.random() < (0.9 if action else 0.4)
        came = self.np_random.random() < 0.6
        self.waiting = min(max(self.waiting - served, 0) + came, 9)
        return self.waiting, -float(self.waiting) - 2.0 * action, False, False, {}


def environments(keep):
    lines = [
        "## One's own environment",
        "`tabular-psrl`, 3,000 users, epsilon 5, delta 1e-5. *shown* is the interval of "
        "`confide run` (1,000 rollouts) in the environment's units; beside it are 10,000 "
        "rollouts of the saved policy, which was read from its file. "
        "*held* counts intervals of 100 rollouts, of 100 other seeds, "
        "that hold the mean of the 10,000 rollouts.",
        "",
        "| environment | shown | 10,000 rollouts | uniform play | without privacy | held |",
        "|---|---|---|---|---|---|",
    ]
    queue = confide.problems.environment(Queue(), 25, reward_range=(-11.0, 0.0))
    slippery = gymnasium.make("CliffWalking-v1", is_slippery=True)
    for name, env, problem, horizon in (
        (
            "FrozenLake-v1",
            "FrozenLake-v1",
            confide.problems.from_gymnasium("FrozenLake-v1", 40),
            40,
        ),
        ("CliffWalking-v1, slippery", slippery, confide.problems.from_gymnasium(slippery, 60), 60),
        ("queue (own class)", Queue(), queue, 25),
    ):
        path = None if keep is None else Path(keep) / f"{name.split()[0].strip(',')}.txt"
        if path is None or not path.exists():
            line = play(name, env, problem, horizon)
            if path is not None:
                path.write_text(line)
        lines.append(line if path is None else path.read_text())
        print(lines[-1], flush=True)
    return lines


def play(name, env, problem, horizon):
    private = confide.JointDP(epsilon=5.0, delta=1e-5)
    values = []
    for privacy in (private, confide.NoPrivacy()):
        agent = confide.agents.TabularPSRL(problem.public, episodes=3000, privacy=privacy)
        run = confide.run(agent, problem, seed=0)
        values.append(confide.evaluate_policy(run.policy, env, 1000, seed=1))
        if privacy is private:
            saved = run.policy
    with tempfile.TemporaryDirectory() as folder:
        saved.save(Path(folder) / "policy.npz")
        policy = confide.load_policy(Path(folder) / "policy.npz")
    many = confide.evaluate_policy(policy, env, 10_000, seed=99)
    uniform = confide.evaluate_policy(
        confide.policy.RandomPolicy(problem.actions), env, 1000, horizon=horizon
    )
    held = 0
    for seed in range(100):
        again = confide.evaluate_policy(policy, env, 100, seed=1000 + seed)
        held += again.low <= many.mean <= again.high
    return f"| {name} | {values[0]} | {many} | {uniform} | {values[1]} | {held} |"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=int, default=1000, help="the number of logs")
    parser.add_argument("--parts", default="right,coverage,environments")
    parser.add_argument("--problems", default="", help="of coverage, with commas; all by default")
    parser.add_argument("--first-log", type=int, default=0, help="of coverage: its seed")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    parser.add_argument(
        "--keep",
        help="folder for the hits and widths of blocks of logs, so that the command can go on",
    )
    parser.add_argument(
        "--block", nargs=2, metavar=("PROBLEM", "NUMBER"), help="measure one block only"
    )
    options = parser.parse_args()
    if options.block is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConfideWarning)
            (problem,) = (each for each in logged_problems() if each.name == options.block[0])
            measure_block(problem, int(options.block[1]), options.keep)
        return
    parts = {
        "right": right,
        "coverage": lambda: coverage(
            options.logs,
            options.keep,
            options.problems.split(",") if options.problems else [],
            options.first_log,
        ),
        "environments": lambda: environments(options.keep),
    }
    lines = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConfideWarning)
        for name in options.parts.split(","):
            lines += [*parts[name](), ""]
    record("Values of logged and other policies", "\n".join(lines), write=options.write)


if __name__ == "__main__":
    main()
