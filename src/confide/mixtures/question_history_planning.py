"""What was asked, why, and what was answered: a table of all questions so far, and its words. All post-processing.

The table is part of a round's memory, so it is published, saved and restored with it. A row is one question: the columns `COLUMNS`, then
its direction theta. What is not answered yet is NaN.
"""

import math

import numpy as np
import numpy.typing as npt

from confide.learning.question import Question
from confide.mixtures.question_planning import Belief, Candidates

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
COLUMNS = ("round", "first", "users", "step", "sampled", "optimistic", "removes", "expected", "answer", "noise")
_AT = {name: at for at, name in enumerate(COLUMNS)}
_PAIRS = 4  # of state and action that are listed for a question
_LEAST = 0.005  # of a direction, which is not worth naming


def removed(belief: Belief, known: Candidates, asked: Ints, users: float, std: float) -> Array:
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
    before: Array, *, first: int, users: int, shares: Array, steps: Ints, thetas: Array, removes: Array, expected: Array
) -> Array:
    """The table with the questions of a new round."""
    rows = np.full((len(steps), before.shape[1]), np.nan)
    number = int(before[:, 0].max(initial=0.0)) + 1
    facts = {"round": number, "first": first, "users": users, "sampled": shares[-2], "optimistic": shares[-1]}
    for name, value in (facts | {"step": steps, "removes": removes, "expected": expected}).items():
        rows[:, _AT[name]] = value
    rows[:, len(COLUMNS) :] = thetas
    return np.concatenate([before, rows])


def answered(table: Array, answers: Array, std: float) -> Array:
    """The table with the answers of its last round."""
    done = table.copy()
    done[len(done) - len(answers) :, _AT["answer"]] = answers
    done[len(done) - len(answers) :, _AT["noise"]] = std
    return done


def nothing_asked(dimension: int) -> Array:
    return np.zeros((0, len(COLUMNS) + dimension))


def in_words(table: Array, kernels: Array, small: float) -> list[Question]:
    """The questions of a table, in the order in which they were asked. kernels [s, a, s', i]."""
    return [_question(row, kernels, small) for row in table]


def _question(row: Array, kernels: Array, small: float) -> Question:
    facts, theta = dict(zip(COLUMNS, row.tolist(), strict=False)), row[len(COLUMNS) :]
    said, total = kernels @ theta, kernels.sum(axis=-1)
    signs = np.where(np.abs(said) > small * total, np.sign(said), 0.0).astype(np.int8)
    step = int(facts["step"]) + 1
    ends = _by_next_state(signs, total > 0)
    if ends is None:
        asked = f"Was the transition of step {step} likelier under {_kernels_in(theta)} than under {_kernels_in(-theta)}?"
        yes, no = _transitions(signs == 1), _transitions(signs == -1)
    else:
        asked = f"Did step {step} end in one of the states {_ranges(np.flatnonzero(ends == 1))}? "
        asked += f"(They are likelier under {_kernels_in(theta)} than under {_kernels_in(-theta)}.)"
        yes, no = (f"any transition to {_ranges(np.flatnonzero(ends == sign)) or 'no state'}" for sign in (1, -1))
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


def _served(sampled: float, optimistic: float) -> str:
    plausible = max(1 - sampled - optimistic, 0.0)
    return (
        f"{plausible:.0%} of users: policies for plausible weights; {sampled:.0%}: the most valuable of 32 plausible ones; "
        f"{optimistic:.0%}: an optimistic policy"
    )


def _by_next_state(signs: npt.NDArray[np.int8], possible: npt.NDArray[np.bool_]) -> npt.NDArray[np.int8] | None:
    """The answer for each next state, if nothing but the next state decides it."""
    lowest, highest = (
        np.where(possible, signs, blank).min(axis=(0, 1)) if blank > 0 else np.where(possible, signs, blank).max(axis=(0, 1))
        for blank in (2, -2)
    )
    reached = possible.any(axis=(0, 1))
    return np.where(reached, lowest, 0).astype(np.int8) if (lowest == highest)[reached].all() else None


def _kernels_in(theta: Array) -> str:
    """The positive part of a direction, as shares of it."""
    part = np.maximum(theta, 0.0)
    part = part / part.sum() if part.sum() > 0 else part
    named = [f"{i + 1} ({share:.0%})" for i, share in enumerate(part) if share >= _LEAST]
    return f"kernel{'s' if len(named) > 1 else ''} {', '.join(named)}" if named else "no kernel"


def _transitions(chosen: npt.NDArray[np.bool_]) -> str:
    pairs = np.argwhere(chosen.any(axis=-1))
    said = [f"{s} by action {a} to {_ranges(np.flatnonzero(chosen[s, a]))}" for s, a in pairs[:_PAIRS].tolist()]
    more = len(pairs) - len(said)
    return (
        "from state " + "; ".join(said) + (f"; and from {more} more pairs of state and action" if more else "")
        if said
        else "nothing"
    )


def _ranges(numbers: Ints) -> str:
    """3, 5-9 for whole numbers in order."""
    starts = np.flatnonzero(np.diff(numbers, prepend=-2) > 1)
    runs = [run for run in np.split(numbers, starts) if len(run)]
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs)
