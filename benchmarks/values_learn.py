"""How often the values, intervals and claims that `learn` prints are right.

    python benchmarks/values_learn.py [--logs 1000] [--write]
    python benchmarks/values_learn.py --held-out [--logs 200]

The second command prints the section about --holdout alone.

Settings (10,000 users each, one trajectory; delta = 1e-6; rewards are learned, and range from 0 to
1):
- grid, riverswim, garnet: those of [learning from logs](offline.md), discount .95, 21 steps,
  uniform behaviour.
- clinic: the hospital of `examples/messy_log.py`, discount .95, 12 steps, uniform behaviour;
  discharge ends a stay.
- trial: one step; two strata of users and three arms at random, whose success probabilities differ
  by .05 to .15. Of the settings where nothing is better than the logged policy, `equal trial` has
  arms that are alike, and in `equal garnet` all actions of a state are alike.

The truth of the logged and of the learned policy is computed, that of single states comes from
400,000 simulated users. States are those with at least 1 % of the visits. A width is a share of the
range of returns. With 1,000 logs a coverage of .9 has a standard error of .009.
"""

import argparse
import math
import warnings
from dataclasses import dataclass, replace

import numpy as np
from record import record

from confide import CentralDP, NoPrivacy
from confide.errors import ConfideWarning
from confide.logs import in_memory, simulate
from confide.offline import ModelRelease
from confide.offline.model import WIDER
from confide.policy import StochasticPolicy
from confide.problems import TabularMDP, garnet, riverswim
from confide.trajectory import LoggedUsers
from offline import LoggedProblem, grid, plain

USERS = 10_000
DELTA = 1e-6
LEAST_VISITS = 0.01
TRUTH_USERS = 400_000


@dataclass(frozen=True)
class Setting:
    logged_problem: LoggedProblem
    # Whether a short trajectory is over.
    ends: bool
    terminal: np.ndarray | None = None

    @property
    def steps(self):
        return self.logged_problem.transitions + 1

    def question(self):
        S, A = self.logged_problem.rewards.shape
        return ModelRelease(
            states=S,
            actions=A,
            discount=self.logged_problem.discount,
            reward_range=(0.0, 1.0),
            ends=self.ends if self.steps > 1 else None,
            terminal=self.terminal,
        )

    def users(self, people, seed):
        logged_problem = self.logged_problem
        H = self.steps
        # Rewards are drawn: success or not.
        problem = TabularMDP(
            logged_problem.P,
            logged_problem.rewards,
            logged_problem.start,
            horizon=H,
            stochastic_rewards=True,
        )
        policy = StochasticPolicy(np.repeat(logged_problem.behaviour[None], H, axis=0))
        ends = np.flatnonzero(logged_problem.terminal)
        return list(simulate(problem, policy, people, np.random.default_rng([seed, 1]), end=ends))

    def log(self, people, seed):
        return in_memory(self.users(people, seed), max_steps=self.steps)

    def release(self, log, epsilon, seed):
        privacy = NoPrivacy() if epsilon is None else CentralDP(epsilon, DELTA)
        return self.question().release(log, privacy=privacy, rng=np.random.default_rng([seed, 2]))

    def value(self, policy):
        return self.logged_problem.value(policy, self.steps)

    def best(self):
        """The best value over the steps of the log."""
        logged_problem = self.logged_problem
        V = np.zeros(len(logged_problem.P))
        for _ in range(self.steps):
            Q = (
                logged_problem.rewards
                + logged_problem.discount
                * (logged_problem.P @ V)
                * ~logged_problem.terminal[:, None]
            )
            V = Q.max(axis=1)
        return float(logged_problem.start @ V)


def clinic():
    better = (0.15, 0.35, 0.5)
    worse = (0.25, 0.15, 0.2)
    P = np.zeros((6, 3, 6))
    rewards = np.zeros((6, 3))
    for state in range(5):
        for action in range(3):
            up = better[action]
            down = worse[action] if state < 4 else 0.0
            P[state, action, 5 if state == 0 else state - 1] += up
            P[state, action, min(state + 1, 4)] += down
            P[state, action, state] += 1 - up - down
    P[5, :, 5] = 1.0
    rewards[5] = 1.0
    start = np.array([0, 0.3, 0.3, 0.3, 0.1, 0])
    return LoggedProblem(
        "clinic", P, rewards, start, np.arange(6) == 5, np.full((6, 3), 1 / 3), transitions=11
    )


def trial(equal=False):
    P = np.repeat(np.eye(2)[:, None], 3, axis=1)
    rewards = np.array([[0.3, 0.35, 0.45], [0.5, 0.4, 0.35]])
    if equal:
        rewards = np.repeat(rewards.mean(axis=1, keepdims=True), 3, axis=1)
    name = "equal trial" if equal else "trial"
    return LoggedProblem(
        name,
        P,
        rewards,
        np.array([0.6, 0.4]),
        np.zeros(2, bool),
        np.full((2, 3), 1 / 3),
        transitions=0,
    )


def settings():
    table = grid()
    stay = clinic()
    dense = plain(garnet(seed=0))
    alike = replace(
        dense,
        name="equal garnet",
        P=np.repeat(dense.P[:, :1], dense.P.shape[1], axis=1),
        rewards=np.repeat(dense.rewards[:, :1], dense.P.shape[1], axis=1),
    )
    return {
        "grid": Setting(table, False, table.terminal),
        "riverswim": Setting(plain(riverswim()), False),
        "garnet": Setting(dense, False),
        "clinic": Setting(stay, False, stay.terminal),
        "trial": Setting(trial(), True),
        "equal garnet": Setting(alike, False),
        "equal trial": Setting(trial(equal=True), True),
    }


def truth_of_states(setting):
    """Mean returns from first visits on [s], and the states with enough visits."""
    exact = setting.release(setting.log(TRUTH_USERS, 10**6), None, 0)
    counts = exact.state_returns.sums[0, 0]
    values = np.array([value.value for value in exact.logged_states])
    visits = exact.dynamics.visits.sum(axis=1)[: len(values)]
    return values, (visits >= LEAST_VISITS * visits.sum()) & (counts > 0)


def covers(value, truth):
    return value.low - 1e-12 <= truth <= value.high + 1e-12


class Simulated:
    """A log of simulated users that are in memory as they are.

    Sums are computed once for all releases of the same question.
    """

    assumptions = ()
    parts = ()

    def __init__(self, blocks, max_steps):
        self._blocks = blocks
        self.max_steps = max_steps
        self.max_trajectories = 1
        self._sums = []
        self._asked = 0

    def again(self):
        self._asked = 0
        return self

    def total(self, statistic, *, progress=None):  # noqa: ARG002
        if self._asked == len(self._sums):
            first, *others = [statistic.contribution(block) for block in self._blocks]
            for other in others:
                first = first + other
            self._sums.append(first)
        self._asked += 1
        return self._sums[self._asked - 1]


class Measured:
    """What the releases of one setting at one epsilon say, log by log."""

    def __init__(self, name, setting, epsilon):
        self.name = name
        self.setting = setting
        self.epsilon = epsilon
        self.logs = self.skipped = self.states_skipped = self.announced = self.wrong = 0
        self.hits = []
        self.widths = []
        self.state_widths = []
        self.bounds = []
        self.states = {}
        self.told = []
        self.true = []
        self.arms = []

    def add(self, model, logged, states):
        """Add the results of one log.

        `logged` is the true value of the logged policy. `states` are the true values of the states
        that are looked at.
        """
        setting = self.setting
        logged_problem = self.setting.logged_problem
        span = 2 * model.logged_returns.radius
        self.logs += 1
        if model.logged.estimated:
            self.hits.append(covers(model.logged, logged))
            self.widths.append((model.logged.high - model.logged.low) / span)
        else:
            self.skipped += 1
        logged_states = model.logged_states
        for s, truth in states.items():
            if logged_states[s].estimated:
                self.states.setdefault(s, []).append(covers(logged_states[s], truth))
                self.state_widths.append((logged_states[s].high - logged_states[s].low) / span)
            else:
                self.states_skipped += 1
        guess = model.plan(tested=False)
        value = setting.value(guess.mixed(logged_problem.behaviour))
        if guess.learned.low is not None:
            self.bounds.append(guess.learned.low <= value + 1e-12)
        if self.name == "trial":
            self.arms.append(
                guess.choices.tolist() == logged_problem.rewards.argmax(axis=1).tolist()
            )
        if guess.shown and guess.changed.any():
            self.announced += 1
            self.wrong += value - logged <= 1e-9
            self.told.append(guess.learned.value - guess.logged.value)
            self.true.append(value - logged)

    def coverage(self, textbook):
        pooled = [hit for each in self.states.values() for hit in each]
        worst = min((float(np.mean(each)) for each in self.states.values()), default=math.nan)
        looked = len(pooled) + self.states_skipped
        return [
            self.name,
            f"{self.epsilon:g}",
            f"{self.logs}",
            share(self.hits),
            median(self.widths, 4),
            f"{np.median(self.widths) / textbook:.2f}" if self.widths else "-",
            f"{self.skipped / self.logs:.2f}",
            share(pooled),
            f"{worst:.3f}",
            median(self.state_widths, 3),
            f"{self.states_skipped / max(looked, 1):.2f}",
            share(self.bounds),
            f"{len(self.bounds) / self.logs:.2f}",
        ]

    def claims(self, logged):
        return [
            self.name,
            f"{self.epsilon:g}",
            f"{self.logs}",
            f"{self.setting.best() - logged:.3f}",
            f"{self.announced}",
            f"{self.wrong}",
            f"{100 * self.wrong / self.logs:.1f} %",
            f"{np.mean(self.told):.3f}" if self.told else "-",
            f"{np.mean(self.true):.3f}" if self.true else "-",
            share(self.arms),
        ]


def measure_setting(name, setting, logs):
    """(coverage, claims), one line for each epsilon."""
    logged = setting.value(setting.logged_problem.behaviour)
    values, often = truth_of_states(setting)
    states = {int(s): values[s] for s in np.flatnonzero(often)}
    measurements = [Measured(name, setting, epsilon) for epsilon in (1.0, 10.0)]
    textbook = []
    for seed in range(logs):
        log = Simulated(setting.users(USERS, seed), setting.steps)
        if seed < 10:
            exact = setting.release(Simulated(setting.users(USERS, seed), setting.steps), None, 0)
            width = exact.logged.high - exact.logged.low
            # without the allowance for variances that are estimated
            textbook.append(width / 2 / exact.logged_returns.radius / WIDER)
        for each in measurements:
            each.add(setting.release(log.again(), each.epsilon, seed), logged, states)
    return [
        (print_line(each.coverage(np.median(textbook))), print_line(each.claims(logged)))
        for each in measurements
    ]


def held_out(name, setting, logs):
    """Return intervals of the learned value, one line for each epsilon.

    They come from the half of the users that was held out.
    """
    return [print_line(held_out_line(name, setting, epsilon, logs)) for epsilon in (1.0, 10.0)]


def held_out_line(name, setting, epsilon, logs):
    hits = []
    widths = []
    unchanged = not_estimated = by_weights = 0
    for seed in range(logs):
        learn, test = setting.log(USERS, seed).split(0.5)
        model = setting.release(learn, epsilon, seed)
        guess = model.plan(tested=False)
        if not guess.changed.any():
            unchanged += 1
            continue
        tested = model.improvement(
            guess, test, with_value=True, rng=np.random.default_rng([seed, 3])
        )
        by_weights += tested.method == "weights"
        learned = tested.learned
        if not learned.estimated:
            not_estimated += 1
            continue
        truth = setting.value(guess.mixed(setting.logged_problem.behaviour))
        hits.append(covers(learned, truth))
        widths.append((learned.high - learned.low) / (2 * model.logged_returns.radius))
    return [
        name,
        f"{epsilon:g}",
        f"{logs}",
        f"{unchanged}",
        f"{by_weights}",
        f"{not_estimated}",
        share(hits),
        median(widths, 4),
    ]


def held_out_section(logs):
    lines = [line for name, setting in settings().items() for line in held_out(name, setting, logs)]
    return f"{ABOUT_HELD_OUT}\n\n{table(HELD_OUT_HEADS, lines)}"


ABOUT_HELD_OUT = """Half of the 10,000 users are held out. The policy is the best guess of the
other half, whether or not it was announced. A guess that changes nothing is not tested. With the
method "weights", half of the budget of the held-out users goes to the counts from which the value
is computed; with "model" it is nine tenths. The constants of the interval were chosen on other
seeds."""


HELD_OUT_HEADS = [
    "setting",
    "epsilon",
    "logs",
    "nothing changed",
    "method weights",
    "not estimated",
    "learned value covered",
    "median width",
]


def median(widths, digits):
    return f"{np.median(widths):.{digits}f}" if widths else "-"


def share(hits):
    return f"{np.mean(hits):.3f}" if len(hits) else "-"


COVERAGE_HEADS = [
    "setting",
    "epsilon",
    "logs",
    "logged value covered",
    "median width",
    "over textbook",
    "not estimated",
    "states covered",
    "worst state",
    "median width",
    "not estimated",
    "bound on learned value true",
    "told",
]


CLAIM_HEADS = [
    "setting",
    "epsilon",
    "logs",
    "best gain",
    "announced",
    "not better",
    "share of logs",
    "announced gain",
    "true gain",
    "best arms found",
]


ABOUT_RIGHT = (
    "Estimates of `learn --no-privacy` beside those of a few lines of NumPy, and the truth. "
    "There are 20,000 users."
)


def right_without_noise():
    """Return the lines of the table that ABOUT_RIGHT describes."""
    rng = np.random.default_rng(7)
    lines = []
    for name, steps, leave, chances in (
        ("one step", 1, 0.0, (0.30, 0.34)),
        ("four steps, users leave", 4, 0.13, (0.30, 0.34)),
        ("rare rewards", 1, 0.0, (0.004, 0.006)),
        ("missing outcomes", 1, 0.07, (0.35, 0.42)),
    ):
        people = 20_000
        chance = np.array(chances)
        if name == "missing outcomes":
            # Rows without an outcome are lost at the import.
            lengths = (rng.random(people) >= leave).astype(int)
        else:
            lengths = (
                np.minimum(rng.geometric(leave, people), steps) if leave else np.ones(people, int)
            )
        lengths = lengths[lengths > 0]
        step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        arms = rng.integers(2, size=lengths.sum())
        paid = (rng.random(lengths.sum()) < chance[arms] * (1 + 0.1 * step)).astype(float)
        first = np.append(0, np.cumsum(lengths))
        users = LoggedUsers(
            step,
            paid,
            first,
            np.arange(len(lengths) + 1),
            np.ones(len(lengths), bool),
            arms,
        )
        question = ModelRelease(
            states=steps,
            actions=2,
            discount=1.0,
            reward_range=(0.0, 1.0),
            ends=False if steps > 1 else None,
        )
        model = question.release(in_memory(users, max_steps=steps), privacy=NoPrivacy())
        cells = np.array(
            [[paid[(step == s) & (arms == a)].mean() for a in range(2)] for s in range(steps)]
        )
        shares = np.array([[np.mean(arms[step == s] == a) for a in range(2)] for s in range(steps)])
        textbook = float((cells * shares).sum())
        truth = sum(float(chance.mean()) * (1 + 0.1 * s) for s in range(steps))
        better = sum(chances[1] * (1 + 0.1 * s) for s in range(steps))
        plan = model.plan(tested=False)
        lines.append(
            [
                name,
                f"{np.abs(model.rewards - cells).max():.1e}",
                f"{model.behaviour_value:.4f}",
                f"{textbook:.4f}",
                f"{truth:.4f}",
                f"{model.value(np.ones(steps, int)):.4f}",
                f"{cells[:, 1].sum():.4f}",
                f"{better:.4f}",
                "yes" if plan.choices.tolist() == [1] * steps else "no",
            ]
        )
    return lines


RIGHT_HEADS = [
    "log",
    "largest difference of a cell mean",
    "logged policy",
    "textbook",
    "truth",
    "second arm",
    "textbook",
    "truth",
    "second arm found",
]


def table(heads, lines):
    rows = [heads, ["---"] * len(heads), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def print_line(line):
    print(f"| {' | '.join(line)} |", flush=True)
    return line


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--logs", type=int, default=1000, help="the number of logs")
    parser.add_argument("--write", action="store_true", help="write the page in benchmarks/results")
    parser.add_argument("--held-out", action="store_true", help="only the section about --holdout")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConfideWarning)
    if options.held_out:
        print(held_out_section(options.logs))
        return
    right = [print_line(line) for line in right_without_noise()]
    lines = [
        line
        for name, setting in settings().items()
        for line in measure_setting(name, setting, options.logs)
    ]
    covering, claimed = ([line[part] for line in lines] for part in (0, 1))
    text = [
        __doc__.split("\n\n", 2)[2],
        "## Right without noise",
        f"{ABOUT_RIGHT}\n\n{table(RIGHT_HEADS, right)}",
        "## Coverage of 90 % intervals, and of the bound on the learned value",
        table(COVERAGE_HEADS, covering),
        "## 90 % intervals of the learned value with --holdout",
        held_out_section(options.logs),
        "## Claims",
        (
            "A policy that is announced as better and is not counts as wrong, "
            "also if it is exactly as good as the logged one."
        ),
        table(CLAIM_HEADS, claimed),
    ]
    record("Values of learn", "\n\n".join(text) + "\n", write=options.write)


if __name__ == "__main__":
    main()
