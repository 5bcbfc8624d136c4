"""Plans the next round of posterior sampling for tabular MDPs.

This is the public side of `TabularPSRL`. It estimates a posterior from all releases, draws models
from it, and computes the best policy for each. Everything here is post-processing. Constants and
formulas may therefore be changed without any effect on privacy.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.planners.history import History
from confide.planners.public_round import PublicRound
from confide.policy import TabularPolicy
from confide.privacy.bounded import Released
from confide.privatizers.schedule import divide_users
from confide.tables.model_planning import (
    LARGE_TABLE_CELLS,
    Posterior,
    append_round,
    best_policy,
    draw_model,
    estimate_counts,
    expected_visits,
    fold_old_releases,
    model_posterior,
    predict_contributions,
    recall_rounds,
    untried_pairs,
)
from confide.tables.reward_planning import RewardPosterior, reward_posterior
from confide.tables.support_features import Support, payable_weights

if TYPE_CHECKING:
    from confide.problems.tabular import TabularPublic

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

# All constants below were chosen by measurement on the problems of benchmarks/results/tables.md.

# Policies per round, one of them for explorers.
POLICIES = 17
# Policies per round in large tables, where each takes long to plan.
LARGE_TABLE_POLICIES = 9
# Until so many users, each policy gets as many of them as any other. After that, the number of
# explorers grows as the square root of all users.
USERS_WITH_EQUAL_EXPLORERS = 500
# A policy is planned for a mixture of a drawn model and the mean. The share of the drawn model
# grows from the first number to the second from policy to policy.
DRAWN_SHARES = (0.25, 1.0)
# If episodes may end early, a typical user spends this share of the budget. The rest is left for
# users who stay longer.
TYPICAL_BUDGET_SHARE = 0.7
# A pair with v expected visits has the weight (v + VISIT_OFFSET) ** -VISIT_EXPONENT, so rare pairs
# count a little more.
VISIT_OFFSET = 0.02
VISIT_EXPONENT = 0.2
# One visit uses at most this share of the budget, so at least two visits of every user count.
MAX_VISIT_COST = 0.49
# Random rewards of this size choose among actions that are equally good.
TIE_BREAKER = 1e-9
# So many releases are kept as they are, ...
KEPT_RELEASES = 12
# ... unless they and their policies have more numbers than this. Then fewer are kept, but at least
# MIN_KEPT_RELEASES.
MAX_KEPT_NUMBERS = 2**22
MIN_KEPT_RELEASES = 3


def policies_per_round(cells: int) -> int:
    return LARGE_TABLE_POLICIES if cells > LARGE_TABLE_CELLS else POLICIES


def kept_releases(released_numbers: int, planned_actions: int) -> int:
    """Return how many releases are kept as they are, for the sizes of a release and of a round."""
    affordable = MAX_KEPT_NUMBERS // (released_numbers + planned_actions)
    return max(MIN_KEPT_RELEASES, min(KEPT_RELEASES, affordable))


@dataclass(frozen=True, slots=True, eq=False)
class SamplingProblem:
    """All that planning knows before the first user. It is public."""

    public: "TabularPublic"
    support: Support
    # The factor of rewards in the released sums. Zero means that rewards are known.
    reward_scale: float
    # How many numbers a release has.
    released_numbers: int
    # The factor by which the counter discounts a round from release to release. Zero means that
    # rounds are differences of releases.
    discount_ratio: float

    @property
    def policies(self) -> int:
        return policies_per_round(self.support.cells)

    @property
    def window(self) -> int:
        planned_actions = self.policies * self.public.horizon * self.public.states
        return kept_releases(self.released_numbers, planned_actions)

    def policy_shares(self, users: int) -> tuple[float, ...]:
        """Return the share of each policy in the round after so many users.

        The last policy but one explores. The number of its users grows as the root of all users.
        """
        explorer_share = min(1.0, np.sqrt(USERS_WITH_EQUAL_EXPLORERS / max(users, 1)))
        return (*(1.0,) * (self.policies - 2), explorer_share, 1.0)


@dataclass(frozen=True, slots=True, eq=False)
class TableRound:
    """A round, and the weights [pair] with which its users' visits count."""

    public: PublicRound
    weights: Array


def plan_round(problem: SamplingProblem, released: Released) -> TableRound:
    """Decide the next round from everything released so far.

    The round says who is served by which policy, and which visits count.
    """
    horizon = problem.public.horizon
    states = problem.public.states
    actions = problem.public.actions
    history = recall_rounds(
        released,
        problem.support,
        policies=problem.policies,
        horizon=horizon,
        window=problem.window,
    )
    rng = np.random.default_rng([int(history["seed"]), released.generation])
    if released.generation == 0:
        batch_policies = rng.integers(actions, size=(problem.policies, horizon, states))
        signal = None
    else:
        history = _append_closed_round(problem, history, released)
        history, posterior = update_model(problem, history)
        batch_policies = draw_policies(problem, posterior, rng)
        signal = float(history["means"][-1].mean())
    shares = problem.policy_shares(released.users)
    weights = visit_weights(problem, history["model"], batch_policies, shares)
    history = history.replace(
        shown=batch_policies, counted=payable_weights(weights), total=np.array(released.users)
    )
    policies = tuple(TabularPolicy(policy, actions) for policy in batch_policies)
    return TableRound(PublicRound(policies, history.arrays, signal, shares), weights)


def _append_closed_round(problem: SamplingProblem, history: History, released: Released) -> History:
    users_before = int(history["total"])
    users_of_round = released.users - users_before
    users = np.array(divide_users(users_of_round, problem.policy_shares(users_before)), dtype=float)
    return append_round(history, released, users, differences=problem.discount_ratio == 0)


def update_model(problem: SamplingProblem, history: History) -> tuple[History, Posterior]:
    """Return the history with the new model, and its posterior.

    The last model predicts what users contributed. In tables that are not large, the model that
    follows from these predictions predicts once more.
    """
    support = problem.support
    passes = 1 if support.cells > LARGE_TABLE_CELLS else 2
    for _ in range(passes):
        history = predict_contributions(history, support, problem.public.start)
        counts = estimate_counts(history, support, problem.discount_ratio, problem.reward_scale)
        posterior = model_posterior(counts, support)
        history = history.replace(model=posterior.mean)
    history = fold_old_releases(history, support, problem.discount_ratio, problem.window)
    return history, posterior


def draw_policies(problem: SamplingProblem, posterior: Posterior, rng: np.random.Generator) -> Ints:
    """Return actions [policy, h, s]: for drawn models, for explorers, and for the mean model."""
    support = problem.support
    rewards = None
    if problem.reward_scale:
        rewards = reward_posterior(posterior, support, problem.reward_scale)
    policies = []
    for drawn_share in (*np.linspace(*DRAWN_SHARES, problem.policies - 2), 0.0):
        drawn_model = draw_model(posterior, support, rng)
        model = drawn_share * drawn_model + (1 - drawn_share) * posterior.mean
        tempered_rewards = None
        if rewards is not None:
            drawn_rewards = rewards.draw(rng)
            tempered_rewards = drawn_share * drawn_rewards + (1 - drawn_share) * rewards.mean
        step_rewards = undecided_rewards(problem, tempered_rewards, rng)
        policies.append(best_policy(model, step_rewards, support))
    # The explorers come last but one, and the policy of the mean last, as `policy_shares` says.
    policies.insert(-1, _explorer_policy(problem, posterior, rewards, rng))
    return np.stack(policies)


def _explorer_policy(
    problem: SamplingProblem,
    posterior: Posterior,
    rewards: RewardPosterior | None,
    rng: np.random.Generator,
) -> Ints:
    """Return actions [h, s] that are optimistic about untried pairs.

    Explorers assume that such a pair earns the largest reward and leads to the best state that may
    follow. So every pair that could matter is tried sooner or later.
    """
    untried = untried_pairs(posterior, problem.support)
    optimistic_rewards = None
    if rewards is not None:
        optimistic_rewards = np.where(untried, 1.0, rewards.mean)
    step_rewards = undecided_rewards(problem, optimistic_rewards, rng)
    return best_policy(posterior.mean, step_rewards, problem.support, untried)


def undecided_rewards(
    problem: SamplingProblem, learned: Array | None, rng: np.random.Generator
) -> Array:
    """Return rewards [h, s, a] with a tiny random part.

    Where actions are equally good, one of them is chosen at random. So users contribute something
    also where the estimates do not tell actions apart. `learned` rewards [pair] are used where
    the problem's rewards are not known.
    """
    horizon = problem.public.horizon
    states = problem.public.states
    actions = problem.public.actions
    shape = (horizon, states, actions)
    mean_rewards = problem.public.rewards
    if mean_rewards is None:
        assert learned is not None
        pair_rewards = np.where(problem.support.open, learned, problem.public.terminal_reward)
        by_layer = pair_rewards.reshape(problem.support.layers, states, actions)
        mean_rewards = np.broadcast_to(by_layer, shape)
    rewards: Array = mean_rewards + TIE_BREAKER * rng.random(shape)
    return rewards


def visit_weights(
    problem: SamplingProblem, model: Array, policies: Ints, policy_shares: tuple[float, ...]
) -> Array:
    """Return the weight of one visit to each pair [pair].

    A user's visits are counted with these weights until the user's budget is spent. The budget is
    spent when the squared weights sum to one. `BudgetedCounts` enforces this for any weights.
    """
    open_pairs = problem.support.open
    if open_pairs.all():
        # Every episode has the same length, so all steps can be counted and get the same weight.
        layers = problem.support.layers
        steps = problem.public.horizon if layers == 1 else layers
        return np.full(open_pairs.shape, np.sqrt(1 / steps))
    visits = expected_visits(policies, model, problem.support, problem.public.start)
    mean_visits = np.average(visits, axis=0, weights=policy_shares) * open_pairs
    relative_cost = (mean_visits + VISIT_OFFSET) ** -VISIT_EXPONENT
    typical_use = max(float(mean_visits @ relative_cost), 1e-12)
    squared_weights = np.minimum(TYPICAL_BUDGET_SHARE * relative_cost / typical_use, MAX_VISIT_COST)
    return np.where(open_pairs, np.sqrt(squared_weights), 0.0)
