"""How many users a log needs until the learned policy improves on the logged one.

It is simulated on a public problem, without data. Nothing here is private, and nothing is saved:
all of it may be changed freely, as long as a rehearsal has the noise that a release has.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from confide.arguments import array, kind, real, whole
from confide.errors import InvalidParameter
from confide.logs.simulate import simulate
from confide.offline.model import PrivateModel
from confide.offline.model_release import ModelRelease
from confide.offline.policy_planning import checked_policy
from confide.policy import StochasticPolicy
from confide.privacy.bounded import Array
from confide.privacy.guarantee import no_guarantee
from confide.privacy.loss import GaussianDP, loss_for
from confide.privacy.request import NoPrivacy, Relation, Request
from confide.problems.finite import FiniteProblem
from confide.release.question import check_request

# The numbers here are matters of taste and of time.
# How many rows are simulated once, for the mean contribution of a person.
_SIMULATED_ROWS = 2_000_000
# The search begins with the least number of people, and gives up above the most.
_LEAST_PEOPLE = 100.0
_MOST_PEOPLE = 1e9
# The answer is exact up to this factor.
_PRECISION = 1.1
# The largest number of rounds of value iteration in the public problem.
_MAX_ROUNDS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class Rehearsal:
    """A public problem in place of the log, with the logged policy [s, a], from which the expected
    counts of a person are known.
    """

    question: ModelRelease
    world: FiniteProblem
    behaviour: Array = field(repr=False)
    # The mean contribution of a person, laid out as a release is.
    person: Array = field(repr=False)
    # The values of the behaviour and of the best policy.
    values: tuple[float, float]

    def sums(self, people: float, rng: np.random.Generator) -> Array:
        """The sums of so many people, without noise: cells and starts vary by chance, and the other
        parts agree with them.
        """
        statistic = self.question.statistic(self.world.horizon)
        bound = statistic.bound
        cells, cuts, totals, rewards, starts = (people * part for part in bound.unpack(self.person))
        # Counts have about the variance of Poisson numbers.
        sampled_cells, sampled_cuts, sampled_starts = (
            part + np.sqrt(part) * rng.standard_normal(part.size) for part in (cells, cuts, starts)
        )
        row = np.repeat(np.arange(bound.rows), np.diff(statistic.support.indptr))
        expected_visits = np.bincount(row, cells, bound.rows) + cuts
        visits = np.bincount(row, sampled_cells, bound.rows) + sampled_cuts
        reward_sums = rewards
        if rewards.size:
            reward_sums = rewards * visits / np.where(expected_visits > 0, expected_visits, 1.0)
        return np.concatenate(
            [
                sampled_cells,
                sampled_cuts,
                bound.total_weight * visits[: totals.size],
                bound.reward_weight * reward_sums,
                sampled_starts,
            ]
        )

    def score(
        self, people: float, noise_std: float, pessimism: float, rng: np.random.Generator
    ) -> float:
        """The share of the way from the behaviour to the best policy, of a plan from so many
        people.
        """
        bound = self.question.statistic(self.world.horizon).bound
        noisy = self.sums(people, rng) + noise_std * rng.standard_normal(bound.size)
        counts, cuts, totals, reward_sums, starts = bound.unpack(noisy)
        model = PrivateModel(
            table=self.question.table(),
            counts=counts,
            cuts=cuts,
            totals=totals,
            reward_sums=reward_sums,
            starts=starts,
            noise_std=noise_std,
            total_weight=bound.total_weight,
            reward_weight=bound.reward_weight,
            guarantee=no_guarantee(round(people)),
            certificate=None,
            steps=self.world.horizon,
        )
        policy = model.plan(pessimism).mixed(self.behaviour)
        behaviour_value, best_value = self.values
        gain = _value(self.world, self.question, policy) - behaviour_value
        return gain / (best_value - behaviour_value)


def rehearsal(
    question: ModelRelease, world: FiniteProblem, behaviour: Array | None = None, *, seed: int = 0
) -> Rehearsal:
    """Prepare the simulation on a finite problem, whose first step's table is used.

    Trajectories have its horizon. The logged policy `behaviour` [s, a] is uniform if it is None.
    """
    kind("question", question, ModelRelease)
    kind("world", world, FiniteProblem)
    S = question.states
    A = question.actions
    if (world.states, world.truth.rewards.shape[-1]) != (S, A):
        raise InvalidParameter(
            f"the public problem must have {S} states and {A} actions, got {world.states} states"
        )
    if behaviour is None:
        shares = np.full((S, A), 1 / A)
    else:
        shares = checked_policy("behaviour", array("behaviour", behaviour), S, A)
    policy = StochasticPolicy(np.repeat(shares[None], world.horizon, axis=0))
    terminal: Array = question.terminal  # type: ignore[assignment]
    ends = np.flatnonzero(terminal).tolist()
    statistic = question.statistic(world.horizon)
    rng = np.random.default_rng(whole("seed", seed, at_least=0))
    people = max(1000, _SIMULATED_ROWS // world.horizon)
    total = sum(
        statistic.contribution(block).values
        for block in simulate(world, policy, people, rng, end=ends)
    )
    behaviour_value = _value(world, question, shares)
    best_value = _value(world, question, _best(world, question))
    if not best_value > behaviour_value:
        raise InvalidParameter(
            "in the public problem no policy is better than the logged one: there is nothing to "
            "learn"
        )
    values = (behaviour_value, best_value)
    return Rehearsal(question, world, shares, np.asarray(total) / people, values)


def people_needed(
    rehearsed: Rehearsal,
    privacy: Request,
    *,
    pessimism: float = 1.0,
    score: float = 0.1,
    runs: int = 40,
) -> int:
    """The least number of people from which the plan is this share of the way to the best policy in
    at least half of the runs.

    By bisection: what is learned grows with people. For a log that is split, this many are needed
    in the part that learns.
    """
    check_request(privacy)
    kind("rehearsed", rehearsed, Rehearsal)
    whole("runs", runs, at_least=1, at_most=10_000)
    real("score", score, above=0, below=1)
    real("pessimism", pessimism, at_least=0, at_most=1e6)
    noise = _noise_of_release(rehearsed, privacy)

    def enough(people: float) -> bool:
        learned = 0
        failed = 0
        # Whichever reaches half of the runs first decides.
        while 2 * max(learned, failed) < runs:
            rng = np.random.default_rng([learned + failed, 1])
            better = rehearsed.score(people, noise, pessimism, rng) >= score
            learned = learned + better
            failed = failed + (not better)
        return 2 * learned >= runs

    low = _LEAST_PEOPLE
    high = _LEAST_PEOPLE
    while not enough(high):
        low = high
        high = 4 * high
        if high > _MOST_PEOPLE:
            raise InvalidParameter(
                f"more than {_MOST_PEOPLE:,.0f} people would be needed: use a larger epsilon, or "
                "fewer states and actions"
            )
    while high > _PRECISION * low and high > _LEAST_PEOPLE:
        middle = math.sqrt(low * high)
        if enough(middle):
            high = middle
        else:
            low = middle
    return math.ceil(math.sqrt(low * high))


def _noise_of_release(rehearsed: Rehearsal, privacy: Request) -> float:
    """The standard deviation of the noise on one number of a release."""
    if isinstance(privacy, NoPrivacy):
        return 0.0
    loss = loss_for(privacy)
    if not isinstance(loss, GaussianDP):
        raise InvalidParameter("a model is released with Gaussian noise: delta must be positive")
    bound = rehearsed.question.statistic(rehearsed.world.horizon).bound
    return bound.sensitivity(Relation(privacy.relation)) / loss.mu


def _dynamics(world: FiniteProblem, question: ModelRelease) -> tuple[Array, Array]:
    """Transitions that go on [s, a, s'] and rewards [s, a] of the first step."""
    terminal: Array = question.terminal  # type: ignore[assignment]
    P = world.truth.transitions.dense()[0] * ~np.asarray(terminal, bool)[:, None, None]
    return P, world.truth.rewards[0]


def _value(world: FiniteProblem, question: ModelRelease, policy: Array) -> float:
    """The value of a policy [s, a] in the public problem, discounted and without a horizon."""
    P, rewards = _dynamics(world, question)
    mixed = np.einsum("sa,sat->st", policy, P)
    V = np.linalg.solve(
        np.eye(len(mixed)) - question.discount * mixed, (policy * rewards).sum(axis=1)
    )
    return float(world.truth.start @ V)


def _best(world: FiniteProblem, question: ModelRelease) -> Array:
    """The best policy [s, a] of the public problem, by value iteration."""
    P, rewards = _dynamics(world, question)
    Q = rewards
    for _ in range(_MAX_ROUNDS):
        after = rewards + question.discount * P @ Q.max(axis=1)
        if np.abs(after - Q).max() <= 1e-10 * max(float(np.abs(after).max()), 1.0):
            break
        Q = after
    best: Array = np.eye(question.actions)[Q.argmax(axis=1)]
    return best
