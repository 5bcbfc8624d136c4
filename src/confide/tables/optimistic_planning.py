"""Plans an optimistic round from noisy counts of a tabular MDP.

This is the public side of the optimistic agents. The backward induction is the same for all papers,
and each paper has its own bonus. Everything here is post-processing, so constants and formulas may
be changed without any effect on privacy.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.planners.mirror_descent import improve, softmax
from confide.planners.public_round import PublicRound
from confide.policy import StochasticPolicy, TabularPolicy
from confide.privacy.bounded import Memory, Released
from confide.tables import _optimistic_kernels as _kernels
from confide.tables.bonus_planning import Bonus, BonusFormula, TableShape, Widths
from confide.tables.model_planning import Counts, model_posterior
from confide.tables.reward_planning import reward_posterior
from confide.tables.support_features import Support

if TYPE_CHECKING:
    from confide.problems.tabular import TabularPublic

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
# Values that differ by less count as equal.
VALUE_TOLERANCE = 1e-9
# Releases are prefix sums, so what was learned long ago counts in every step of mirror descent.
# An agent that improves its policy therefore forgets most of its old logits, as `LinOptPO` does.
KEPT_POLICY_SHARE = 0.25


@dataclass(frozen=True, slots=True, eq=False)
class TableEstimate:
    """What one release says about a tabular MDP."""

    # Transition probabilities [pair, s'].
    probabilities: Array
    # Mean rewards [h, s, a].
    rewards: Array
    # The two parts of the bonus [pair].
    bonus: Bonus
    # The mean number of samples of a pair, in the unit of the release.
    mean_samples: float

    def q_values(self, public: "TabularPublic", policy: Array | None = None) -> Array:
        """Optimistic values [h, s, a] of the greedy policy, or of the given one [h, s, a]."""
        steps_left = np.arange(public.horizon, 0, -1.0)
        learned = public.rewards is None
        return optimistic_values(
            self.probabilities,
            self.rewards,
            self.bonus,
            # Where rewards are known, the bonus is for the steps that follow.
            bonus_steps=steps_left if learned else steps_left - 1,
            ceiling=steps_left,
            terminal=_terminal(public),
            policy=policy,
        )


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticPlanner:
    """Estimates the table by the mean of its posterior, and adds the bonus of one paper."""

    public: "TabularPublic"
    support: Support
    # The factor of rewards against counts. Zero means that rewards are known.
    reward_scale: float
    formula: BonusFormula
    # The factor of the bonus.
    factor: float
    # A constant that replaces the paper's logarithm.
    log: float

    def visit_weight(self) -> float:
        """The weight of each visit, with which a user can pay for every step of an episode."""
        support = self.support
        return math.sqrt(1 / (self.public.horizon if support.layers == 1 else support.layers))

    def visit_weights(self) -> Array:
        """Return the weight of a visit to each pair [pair]."""
        return np.full(self.support.pairs, self.visit_weight())

    def estimate(self, moves: Array, rewards: Array, noise_std: float) -> TableEstimate:
        """Estimate the table from released counts [cell] and released sums of rewards [pair].

        `rewards` is empty where rewards are known. `noise_std` is the noise of one released number.
        """
        public = self.public
        support = self.support
        weight = self.visit_weight()
        noise = noise_std / weight
        counts = Counts(moves / weight, rewards / weight, np.full(support.pairs, noise))
        model = model_posterior(counts, support)
        learned_rewards = None
        if self.reward_scale:
            learned_rewards = reward_posterior(model, support, self.reward_scale).mean
        widths = Widths(noise, noise, noise / (self.reward_scale or 1.0), self.log)
        shape = TableShape(public.horizon, public.states, public.rewards is None)
        bonus = self.formula(model.totals, widths, shape)
        return TableEstimate(
            _dense(model.mean, support),
            _rewards(public, learned_rewards),
            Bonus(self.factor * bonus.per_step, self.factor * bonus.spread),
            float(model.totals.mean()) * weight,
        )


def optimistic_values(
    probabilities: Array,
    rewards: Array,
    bonus: Bonus,
    *,
    bonus_steps: Array,
    ceiling: Array,
    terminal: Bools,
    policy: Array | None = None,
) -> Array:
    """Return Q [h, s, a] for probabilities [pair, s'] and rewards [h, s, a].

    The values are those of the greedy policy, or of the given one [h, s, a]. `bonus_steps` and
    `ceiling` are by step [h].
    """
    # The kernel reads an empty array as the greedy policy.
    action_probabilities = np.zeros((0, 0, 0)) if policy is None else policy
    return _kernels.optimistic_q_values(
        np.ascontiguousarray(probabilities, dtype=float),
        np.ascontiguousarray(rewards, dtype=float),
        bonus.per_step,
        bonus.spread,
        bonus_steps,
        ceiling,
        terminal,
        action_probabilities,
    )


def greedy_actions(values: Array, rng: np.random.Generator) -> Ints:
    """Return the best actions [h, s] for values [h, s, a]. Ties are broken at random."""
    undecided_values = values + VALUE_TOLERANCE * rng.random(values.shape)
    return np.asarray(undecided_values.argmax(axis=2))


def plan_round(
    planner: OptimisticPlanner,
    moves: Array,
    rewards: Array,
    released: Released,
    step: float | None,
) -> PublicRound:
    """Return the next round after released counts [cell] and sums of rewards [pair].

    `step` is the step of mirror descent per user, or None for the greedy policy. The random choice
    among equally good actions follows from public numbers.
    """
    public = planner.public
    memory = released.memory
    generation = released.generation
    estimate = planner.estimate(moves, rewards, released.noise.std)
    signal = estimate.mean_samples if generation else None
    if step is None:
        rng = np.random.default_rng([int(memory["seed"]), generation])
        actions = greedy_actions(estimate.q_values(public), rng)
        policy = TabularPolicy(actions, public.actions)
        return PublicRound((policy,), {"seed": memory["seed"]}, signal)
    probabilities, memory = improve_policy(
        public,
        estimate,
        memory,
        generation,
        released.users,
        step=step,
        kept_share=KEPT_POLICY_SHARE,
    )
    return PublicRound((StochasticPolicy(probabilities),), memory, signal)


def improve_policy(
    public: "TabularPublic",
    estimate: TableEstimate,
    memory: Memory,
    release: int,
    users: int,
    *,
    step: float,
    kept_share: float,
) -> tuple[Array, Memory]:
    """Return probabilities [h, s, a] after one step of mirror descent, and the memory of it.

    A round of n users is n episodes of [ChowdhuryZhou21] with the same Q: the new policy is
    proportional to policy^kept_share exp(n step Q), where the paper has kept_share = 1.
    """
    shape = (public.horizon, public.states, public.actions)
    logits = np.zeros(shape)
    if release > 0:
        logits = memory["logits"]
        users_before = int(memory["total"])
        if logits.shape != shape or not np.isfinite(logits).all() or not 0 <= users_before <= users:
            raise InvalidParameter(
                "the memory of earlier rounds does not fit this problem: "
                f"logits must be finite and have shape {shape}, and total must be at most {users}"
            )
        logits = kept_share * logits
        values = estimate.q_values(public, softmax(logits))
        logits = improve(logits, values, step * (users - users_before))
    return softmax(logits), {"logits": logits, "total": np.array(users)}


def _terminal(public: "TabularPublic") -> Bools:
    if public.terminal is None:
        return np.zeros(public.states, dtype=bool)
    return public.terminal


def _rewards(public: "TabularPublic", learned: Array | None) -> Array:
    """Return the known rewards [h, s, a], or the learned ones [pair] in this shape."""
    if public.rewards is not None:
        return public.rewards
    assert learned is not None
    rewards = np.clip(learned, 0.0, 1.0).reshape(-1, public.states, public.actions)
    if public.terminal is not None:
        rewards = np.where(public.terminal[None, :, None], public.terminal_reward, rewards)
    shape = (public.horizon, public.states, public.actions)
    return np.asarray(np.broadcast_to(rewards, shape))


def _dense(model: Array, support: Support) -> Array:
    """Return probabilities [pair, s'] from probabilities [cell]."""
    table = np.zeros((support.pairs, support.states))
    table[support.pair_of_cell, support.successors] = model
    return table
