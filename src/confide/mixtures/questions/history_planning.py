"""What was asked, why, and what was answered: a table of all questions so far, and its words.

PUBLIC: everything here is post-processing of releases. The table is part of a round's memory, so it
is published, saved and restored with it: the order of `COLUMNS` is a format. The words leave in the
`Question` that an agent tells, and in the questions.json of a run; they may be changed freely.

A row is one question: the columns `COLUMNS`, then its direction theta. What is not answered yet is
NaN. Rounds and users count from 1, and steps from 0.
"""

import math

import numpy as np
import numpy.typing as npt

from confide.learning.question import Question
from confide.mixtures.questions.planning import (
    EXPLORER_SAMPLES,
    SIGN_TOLERANCE,
    TYPICAL_ANSWER_VARIANCE,
    CandidateQuestions,
    WeightBelief,
)
from confide.mixtures.questions.reward_planning import reward_signs
from confide.planners.reward_features import RewardFeatures

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Signs = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]
COLUMNS = (
    "round",
    "first",
    "users",
    "step",
    "sampled",
    "optimistic",
    "removes",
    "expected",
    "answer",
    "noise",
)
_COLUMN = {name: number for number, name in enumerate(COLUMNS)}
# So many pairs of state and action are listed for a question. A matter of taste.
LISTED_PAIRS = 4
# A smaller share of a direction is not worth naming. A matter of taste.
LEAST_NAMED_SHARE = 0.005


def removed_uncertainty(
    belief: WeightBelief,
    candidates: CandidateQuestions,
    chosen: Ints,
    users: float,
    noise_std: float,
) -> Array:
    """The share of the uncertainty that each chosen question is expected to remove, in this order.

    Uncertainty that matters is sum_h tr(B_h C_h), with B the relevance and C the covariance.
    """
    C = belief.covariance.copy()
    total = float(np.einsum("hij,hji->", candidates.relevance, C))
    shares = np.zeros(len(chosen))
    for place, q in enumerate(chosen):
        h = candidates.steps[q]
        row = users * candidates.rows[q]
        moved = C[h] @ row
        variance = float(row @ moved) + noise_std**2 + users * TYPICAL_ANSWER_VARIANCE
        removed = float(moved @ candidates.relevance[h] @ moved) / variance
        shares[place] = removed / total if total > 0 else 0.0
        C[h] -= np.outer(moved, moved) / variance
    return shares


def with_new_questions(
    table: Array,
    *,
    first: int,
    users: int,
    shares: Array,
    steps: Ints,
    thetas: Array,
    removes: Array,
    expected: Array,
) -> Array:
    """The table with the questions of a new round, whose first user has the number `first`.

    The last two `shares` of its users are those of the two explorers.
    """
    rows = np.full((len(steps), table.shape[1]), np.nan)
    columns = {
        "round": int(table[:, _COLUMN["round"]].max(initial=0.0)) + 1,
        "first": first,
        "users": users,
        "sampled": shares[-2],
        "optimistic": shares[-1],
        "step": steps,
        "removes": removes,
        "expected": expected,
    }
    for name, value in columns.items():
        rows[:, _COLUMN[name]] = value
    rows[:, len(COLUMNS) :] = thetas
    return np.concatenate([table, rows])


def with_answers(table: Array, answers: Array, noise_std: float, reported: int) -> Array:
    """The table with the answers of its last round, to which `reported` users reported.

    A round may close before it is full. Then fewer users answered than were expected to.
    """
    answered = table.copy()
    last_round = answered[len(answered) - len(answers) :]
    last_round[:, _COLUMN["answer"]] = answers
    last_round[:, _COLUMN["noise"]] = noise_std
    planned_users = np.maximum(last_round[:, _COLUMN["users"]], 1)
    last_round[:, _COLUMN["expected"]] *= reported / planned_users
    last_round[:, _COLUMN["users"]] = reported
    return answered


def in_words(
    table: Array, kernels: Array, steps: int, rewards: RewardFeatures | None
) -> list[Question]:
    """The questions of a table, in the order in which they were asked.

    Kernels are P [s, a, s', i]. Blocks from number `steps` on are about rewards.
    """
    return [_question(row, kernels, steps, rewards) for row in table]


def _question(row: Array, kernels: Array, steps: int, rewards: RewardFeatures | None) -> Question:
    columns = dict(zip(COLUMNS, row.tolist(), strict=False))
    theta = row[len(COLUMNS) :]
    block = int(columns["step"])
    if rewards is None or block < steps:
        question, yes, no = _about_transition(theta[: kernels.shape[-1]], block + 1, kernels)
    else:
        question, yes, no = _about_reward(theta[: rewards.dimension], block - steps + 1, rewards)
    is_open = math.isnan(columns["answer"])
    return Question(
        round=int(columns["round"]),
        first=int(columns["first"]),
        users=int(columns["users"]),
        served=_policies_in_words(columns["sampled"], columns["optimistic"]),
        asked=question,
        yes=yes,
        no=no,
        removes=columns["removes"],
        expected=columns["expected"],
        answer=None if is_open else columns["answer"],
        noise=None if is_open else columns["noise"],
    )


def _about_transition(theta: Array, step: int, kernels: Array) -> tuple[str, str, str]:
    """The question about the step with this number, from 1, and what its yes and its no mean."""
    along_theta = kernels @ theta
    total = kernels.sum(axis=-1)
    is_answered = np.abs(along_theta) > SIGN_TOLERANCE * total
    signs = np.where(is_answered, np.sign(along_theta), 0.0).astype(np.int8)
    likelier = f"likelier under {_kernels_in(theta)} than under {_kernels_in(-theta)}"
    end_signs = _signs_of_next_states(signs, total > 0)
    if end_signs is None:
        return (
            f"Was the transition of step {step} {likelier}?",
            _transitions(signs == 1),
            _transitions(signs == -1),
        )
    yes = _ranges(np.flatnonzero(end_signs == 1)) or "none"
    no = _ranges(np.flatnonzero(end_signs == -1)) or "none"
    question = f"Did step {step} end in one of the states {yes}? (They are {likelier}.)"
    return question, f"any transition to {yes}", f"any transition to {no}"


def _about_reward(direction: Array, step: int, rewards: RewardFeatures) -> tuple[str, str, str]:
    """The question about the step with this number, from 1, and what its yes and its no mean."""
    signs = reward_signs(rewards, direction[None])[0]
    high = _pairs(np.argwhere(signs == 1))
    low = _pairs(np.argwhere(signs == -1))
    if low == "nothing":
        return (
            f"Was the reward of step {step} high, {high}?",
            f"a reward of 1 {high}",
            f"a reward of 0 {high}",
        )
    question = (
        f"Was the reward of step {step} high in some states and by some actions, or low in others?"
    )
    yes = f"a reward of 1 {high}; a reward of 0 {low}"
    no = f"a reward of 0 {high}; a reward of 1 {low}"
    return question, yes, no


def _pairs(pairs: Ints) -> str:
    """Pairs (state, action) in words, such as: in states 0, 3-5 by actions 1."""
    states_by_actions: dict[str, list[int]] = {}
    for state in np.unique(pairs[:, 0]):
        actions = _ranges(pairs[pairs[:, 0] == state, 1])
        states_by_actions.setdefault(actions, []).append(int(state))
    phrases = [
        f"in states {_ranges(np.array(states))} by actions {actions}"
        for actions, states in states_by_actions.items()
    ]
    return " and ".join(phrases) or "nothing"


def _policies_in_words(sampled: float, optimistic: float) -> str:
    plausible = max(1 - sampled - optimistic, 0.0)
    return (
        f"{plausible:.0%} of users: policies for plausible weights; "
        f"{sampled:.0%}: the most valuable of {EXPLORER_SAMPLES} plausible ones; "
        f"{optimistic:.0%}: an optimistic policy"
    )


def _signs_of_next_states(signs: Signs, is_possible: Mask) -> Signs | None:
    """The answer [s'] for each next state, or None if something else decides it, too.

    Impossible transitions are not looked at: a sign is replaced by one that is never extreme.
    """
    lowest = np.where(is_possible, signs, 2).min(axis=(0, 1))
    highest = np.where(is_possible, signs, -2).max(axis=(0, 1))
    is_reached = is_possible.any(axis=(0, 1))
    if not (lowest == highest)[is_reached].all():
        return None
    return np.where(is_reached, lowest, 0).astype(np.int8)


def _kernels_in(theta: Array) -> str:
    """The positive part of a direction, as shares of the kernels, which count from 1."""
    part = np.maximum(theta, 0.0)
    if part.sum() > 0:
        part = part / part.sum()
    named = [f"{i + 1} ({share:.0%})" for i, share in enumerate(part) if share >= LEAST_NAMED_SHARE]
    if not named:
        return "no kernel"
    return f"kernel{'s' if len(named) > 1 else ''} {', '.join(named)}"


def _transitions(is_listed: Mask) -> str:
    """Transitions [s, a, s'] in words, those of the first few pairs of state and action."""
    pairs = np.argwhere(is_listed.any(axis=-1))
    phrases = [
        f"{s} by action {a} to {_ranges(np.flatnonzero(is_listed[s, a]))}"
        for s, a in pairs[:LISTED_PAIRS].tolist()
    ]
    if not phrases:
        return "nothing"
    unlisted = len(pairs) - len(phrases)
    more = f"; and from {unlisted} more pairs of state and action" if unlisted else ""
    return "from state " + "; ".join(phrases) + more


def _ranges(numbers: Ints) -> str:
    """Whole numbers in ascending order as ranges, such as 3, 5-9."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-2) > 1)
    runs = [run for run in np.split(numbers, starts) if len(run)]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
