"""The next round of posterior sampling for tables: a posterior from all releases, tables drawn from it, and the best policy for each.

All post-processing.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.planners.history import History
from confide.planners.public_round import PublicRound
from confide.policy import TabularPolicy
from confide.privacy.bounded import Released
from confide.privatizers.schedule import divided
from confide.tables.model_planning import (
    LARGE,
    append_round,
    best_policy,
    drawn,
    estimate,
    expected_visits,
    folded,
    posterior,
    predicted,
    recall_rounds,
    untried,
)
from confide.tables.reward_planning import reward_posterior
from confide.tables.support_features import Support, payable_weights

if TYPE_CHECKING:
    from confide.problems.tabular import TabularPublic

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
POLICIES, FEWER = 17, 9  # per round, one of them for explorers; and for large tables
# users, until whom explorers are as many as the users of another policy; then they grow as the root of all users
EXPLORED = 500
# from and to: the share of the drawn model in each policy but the last; the rest is the mean
TEMPERS = 0.25, 1.0
SPENT = 0.7  # of the budget, by a typical user of a table where episodes may end early
RARE, FLAT = 0.02, 0.2  # there pairs of v visits weigh (v + RARE)^-FLAT
HEAVIEST = 0.49  # the largest squared weight: every user counts at least twice
TIES = 1e-9  # differences of value that are none
WINDOW, NUMBERS = 12, 2**22  # releases that are kept as they are, and their numbers together


def policies_of(cells: int) -> int:
    """How many policies a round has."""
    return FEWER if cells > LARGE else POLICIES


def window_of(released: int, planned: int) -> int:
    """How many releases are kept as they are, for so many released numbers and planned actions per round."""
    return max(3, min(WINDOW, NUMBERS // (released + planned)))


@dataclass(frozen=True, slots=True, eq=False)
class SamplingProblem:
    """All that is public before the first user."""

    public: "TabularPublic"
    support: Support
    balance: float  # of rewards against counts; 0: rewards are known
    released: int  # how many numbers a release has
    ratio: float  # of the releases; 0: rounds are differences of releases

    @property
    def policies(self) -> int:
        return policies_of(self.support.cells)

    @property
    def window(self) -> int:
        return window_of(self.released, self.policies * self.public.horizon * self.public.states)

    def shares(self, users: int) -> tuple[float, ...]:
        """Of each policy, after so many users. The last but one explores: its users grow as the root of all users."""
        return (*(1.0,) * (self.policies - 2), min(1.0, np.sqrt(EXPLORED / max(users, 1))), 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class TableRound:
    """A round, and the weights [pair] with which its users' visits count."""

    public: PublicRound
    weights: Array


def plan_round(problem: SamplingProblem, released: Released) -> TableRound:
    """Decide the next round from everything released so far: who is served how, and what visits count."""
    H, S, A = problem.public.horizon, problem.public.states, problem.public.actions
    history = recall_rounds(
        released, problem.support, policies=problem.policies, horizon=H, window=problem.window
    )
    rng = np.random.default_rng([int(history["seed"]), released.generation])
    signal = None
    if released.generation == 0:
        shown = rng.integers(A, size=(problem.policies, H, S))
    else:
        before = int(history["total"])
        users = np.array(divided(released.users - before, problem.shares(before)), dtype=float)
        history = append_round(history, released, users, differences=problem.ratio == 0)
        shown, history, signal = learn(problem, history, rng)
    shares = problem.shares(released.users)
    weights = visit_weights(problem, history["model"], shown, shares)
    history = history.replace(
        shown=shown, counted=payable_weights(weights), total=np.array(released.users)
    )
    policies = tuple(TabularPolicy(actions, A) for actions in shown)
    return TableRound(PublicRound(policies, history.arrays, signal, shares), weights)


def learn(
    problem: SamplingProblem, history: History, rng: np.random.Generator
) -> tuple[Ints, History, float]:
    """Actions [policy, h, s] for the next round, the history with the last one in it, and how large its counts are on average."""
    support, start = problem.support, problem.public.start
    # predictions of the last model, and of the one that follows from them
    for _ in range(1 if support.cells > LARGE else 2):
        history = predicted(history, support, start)
        known = posterior(estimate(history, support, problem.ratio, problem.balance), support)
        history = history.replace(model=known.mean)
    history = folded(history, support, problem.ratio, problem.window)
    earned = reward_posterior(known, support, problem.balance) if problem.balance else None
    shown = []
    for temper in (*np.linspace(*TEMPERS, problem.policies - 2), 0.0):
        model = temper * drawn(known, support, rng) + (1 - temper) * known.mean
        rewards = temper * earned.drawn(rng) + (1 - temper) * earned.mean if earned else None
        shown.append(best_policy(model, undecided_rewards(problem, rewards, rng), support))
    hopeful = untried(known, support)
    best = np.where(hopeful, 1.0, earned.mean) if earned else None
    # the mean stays last
    optimistic = undecided_rewards(problem, best, rng)
    shown.insert(-1, best_policy(known.mean, optimistic, support, hopeful))
    return np.stack(shown), history, float(history["means"][-1].mean())


def undecided_rewards(
    problem: SamplingProblem, learned: Array | None, rng: np.random.Generator
) -> Array:
    """[h, s, a]. Where actions are equally good, one of them at random: there, too, users can show something."""
    H, S, A = problem.public.horizon, problem.public.states, problem.public.actions
    known = problem.public.rewards
    if known is None:
        assert learned is not None
        earned = np.where(problem.support.open, learned, problem.public.terminal_reward)
        known = np.broadcast_to(earned.reshape(problem.support.layers, S, A), (H, S, A))
    rewards: Array = known + TIES * rng.random((H, S, A))
    return rewards


def visit_weights(
    problem: SamplingProblem, model: Array, shown: Ints, shares: tuple[float, ...]
) -> Array:
    """Where all episodes are equally long every step is paid for. Where they may end early, those of a typical user are."""
    open_ = problem.support.open
    if open_.all():
        layers = problem.support.layers
        steps = problem.public.horizon if layers == 1 else layers
        return np.full(open_.shape, np.sqrt(1 / steps))
    v = (
        np.average(
            expected_visits(shown, model, problem.support, problem.public.start),
            axis=0,
            weights=shares,
        )
        * open_
    )
    even = (v + RARE) ** -FLAT
    squared = np.minimum(SPENT * even / max(float(v @ even), 1e-12), HEAVIEST)
    return np.where(open_, np.sqrt(squared), 0.0)
