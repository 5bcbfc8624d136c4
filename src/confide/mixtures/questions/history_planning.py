"""What was asked, why, and what was answered: a table of all questions so far, and its words. All post-processing.

The table is part of a round's memory, so it is published, saved and restored with it. A row is one question: the columns `COLUMNS`, then
its direction theta. What is not answered yet is NaN.
"""

import math

import numpy as np
import numpy.typing as npt

from confide.learning.question import Question
from confide.mixtures.questions.planning import SMALL, CandidateQuestions, WeightBelief
from confide.mixtures.questions.reward_planning import signs as reward_signs
from confide.planners.reward_features import RewardFeatures

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
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
_AT = {name: at for at, name in enumerate(COLUMNS)}
_PAIRS = 4  # of state and action that are listed for a question
_LEAST = 0.005  # of a direction, which is not worth naming


def removed(
    belief: WeightBelief, known: CandidateQuestions, asked: Ints, users: float, std: float
) -> Array:
    """The share of the uncertainty that matters, sum_h tr(relevance_h C_h), which each question is expected to remove, in this order."""
    C = belief.covariance.copy()
    total = float(np.einsum("hij,hji->", known.relevance, C))
    shares = np.zeros(len(asked))
    for at, q in enumerate(asked):
        h, m = known.steps[q], users * known.rows[q]
        Cm = C[h] @ m
        spread = float(m @ Cm) + std**2 + users / 8
        shares[at] = float(Cm @ known.relevance[h] @ Cm) / spread / total if total > 0 else 0.0
        C[h] -= np.outer(Cm, Cm) / spread
    return shares


def asked_now(
    before: Array,
    *,
    first: int,
    users: int,
    shares: Array,
    steps: Ints,
    thetas: Array,
    removes: Array,
    expected: Array,
) -> Array:
    """The table with the questions of a new round."""
    rows = np.full((len(steps), before.shape[1]), np.nan)
    number = int(before[:, 0].max(initial=0.0)) + 1
    facts = {
        "round": number,
        "first": first,
        "users": users,
        "sampled": shares[-2],
        "optimistic": shares[-1],
    }
    for name, value in (facts | {"step": steps, "removes": removes, "expected": expected}).items():
        rows[:, _AT[name]] = value
    rows[:, len(COLUMNS) :] = thetas
    return np.concatenate([before, rows])


def answered(table: Array, answers: Array, std: float, users: int) -> Array:
    """The table with the answers of its last round, to which so many users reported: a round may close before it is full."""
    done = table.copy()
    last = done[len(done) - len(answers) :]
    last[:, _AT["answer"]] = answers
    last[:, _AT["noise"]] = std
    last[:, _AT["expected"]] *= users / np.maximum(last[:, _AT["users"]], 1)
    last[:, _AT["users"]] = users
    return done


def in_words(
    table: Array, kernels: Array, steps: int, rewards: RewardFeatures | None
) -> list[Question]:
    """The questions of a table, in the order in which they were asked. kernels [s, a, s', i]; from number `steps` on about rewards."""
    return [_question(row, kernels, steps, rewards) for row in table]


def _question(row: Array, kernels: Array, steps: int, rewards: RewardFeatures | None) -> Question:
    facts, theta = dict(zip(COLUMNS, row.tolist(), strict=False)), row[len(COLUMNS) :]
    block = int(facts["step"])
    if rewards is None or block < steps:
        asked, yes, no = _about_transition(theta[: kernels.shape[-1]], block + 1, kernels)
    else:
        asked, yes, no = _about_reward(theta[: rewards.dimension], block - steps + 1, rewards)
    open_round = math.isnan(facts["answer"])
    return Question(
        round=int(facts["round"]),
        first=int(facts["first"]),
        users=int(facts["users"]),
        served=_served(facts["sampled"], facts["optimistic"]),
        asked=asked,
        yes=yes,
        no=no,
        removes=facts["removes"],
        expected=facts["expected"],
        answer=None if open_round else facts["answer"],
        noise=None if open_round else facts["noise"],
    )


def _about_transition(theta: Array, step: int, kernels: Array) -> tuple[str, str, str]:
    """What is asked, and what is answered with yes and with no."""
    said, total = kernels @ theta, kernels.sum(axis=-1)
    signs = np.where(np.abs(said) > SMALL * total, np.sign(said), 0.0).astype(np.int8)
    ends, rather = (
        _by_next_state(signs, total > 0),
        f"likelier under {_kernels_in(theta)} than under {_kernels_in(-theta)}",
    )
    if ends is None:
        return (
            f"Was the transition of step {step} {rather}?",
            _transitions(signs == 1),
            _transitions(signs == -1),
        )
    yes, no = (_ranges(np.flatnonzero(ends == sign)) or "none" for sign in (1, -1))
    asked = f"Did step {step} end in one of the states {yes}? (They are {rather}.)"
    return asked, f"any transition to {yes}", f"any transition to {no}"


def _about_reward(direction: Array, step: int, rewards: RewardFeatures) -> tuple[str, str, str]:
    g = reward_signs(rewards, direction[None])[0]
    high, low = (_pairs(np.argwhere(g == sign)) for sign in (1, -1))
    if low == "nothing":
        return (
            f"Was the reward of step {step} high, {high}?",
            f"a reward of 1 {high}",
            f"a reward of 0 {high}",
        )
    asked = (
        f"Was the reward of step {step} high in some states and by some actions, or low in others?"
    )
    return (
        asked,
        f"a reward of 1 {high}; a reward of 0 {low}",
        f"a reward of 0 {high}; a reward of 1 {low}",
    )


def _pairs(pairs: Ints) -> str:
    """Pairs of state and action, by their actions: in states 0, 3-5 by action 1."""
    of: dict[str, list[int]] = {}
    for state in np.unique(pairs[:, 0]):
        of.setdefault(_ranges(pairs[pairs[:, 0] == state, 1]), []).append(int(state))
    return (
        " and ".join(
            f"in states {_ranges(np.array(states))} by actions {by}" for by, states in of.items()
        )
        or "nothing"
    )


def _served(sampled: float, optimistic: float) -> str:
    plausible = max(1 - sampled - optimistic, 0.0)
    return (
        f"{plausible:.0%} of users: policies for plausible weights; {sampled:.0%}: the most valuable of 32 plausible ones; "
        f"{optimistic:.0%}: an optimistic policy"
    )


def _by_next_state(
    signs: npt.NDArray[np.int8], possible: npt.NDArray[np.bool_]
) -> npt.NDArray[np.int8] | None:
    """The answer for each next state, if nothing but the next state decides it."""
    lowest, highest = (
        np.where(possible, signs, blank).min(axis=(0, 1))
        if blank > 0
        else np.where(possible, signs, blank).max(axis=(0, 1))
        for blank in (2, -2)
    )
    reached = possible.any(axis=(0, 1))
    return (
        np.where(reached, lowest, 0).astype(np.int8) if (lowest == highest)[reached].all() else None
    )


def _kernels_in(theta: Array) -> str:
    """The positive part of a direction, as shares of it."""
    part = np.maximum(theta, 0.0)
    part = part / part.sum() if part.sum() > 0 else part
    named = [f"{i + 1} ({share:.0%})" for i, share in enumerate(part) if share >= _LEAST]
    return f"kernel{'s' if len(named) > 1 else ''} {', '.join(named)}" if named else "no kernel"


def _transitions(chosen: npt.NDArray[np.bool_]) -> str:
    pairs = np.argwhere(chosen.any(axis=-1))
    said = [
        f"{s} by action {a} to {_ranges(np.flatnonzero(chosen[s, a]))}"
        for s, a in pairs[:_PAIRS].tolist()
    ]
    more = len(pairs) - len(said)
    return (
        "from state "
        + "; ".join(said)
        + (f"; and from {more} more pairs of state and action" if more else "")
        if said
        else "nothing"
    )


def _ranges(numbers: Ints) -> str:
    """3, 5-9 for whole numbers in order."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-2) > 1)
    runs = [run for run in np.split(numbers, starts) if len(run)]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
