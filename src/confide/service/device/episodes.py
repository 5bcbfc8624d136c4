"""What an episode contributes, computed from the plain tables of a round: the device's side.

It needs neither the compiler nor the planner. Tables that make no sense are refused (`checks.py`).
An episode that makes none contributes zero. Before noise is added, the result is checked again
(`belongs`), without relying on how it was computed. In a joint run the episode itself is sent
(`joint_body`), up to the run's horizon.

What leaves this file: a contribution (PRIVATE, until noise is added), and the bytes of reports. The
bytes are wire formats. A contribution has the same numbers as that of the learner
(`confide/tables/_contribution_kernels.py` and others) and of clients/typescript.

Guarantee: a contribution satisfies `belongs`, whatever the tables and the episode are.
`sensitivity` and `largest` are proved for all such numbers. Whoever changes `belongs` must prove
them again.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.service.device.checks import BUDGET, WHOLE_LIMIT, check_statistic
from confide.service.documents import canonical

Ints = npt.NDArray[np.int64]

# The bytes of a message, as `Message.to_bytes` writes them: magic, version, kind, generation,
# nonce, id of the channel, digest of the round, and how many values follow.
_HEADER = struct.Struct(">4sBBQ16s8s32sI")
_MAGIC = b"cfdm"
_VERSION = 3
_MESSAGE_KINDS = ("numbers", "index")
# JSON numbers of other languages are exact below this one.
_EXACT_LIMIT = 2**53
# If a table has at most so many different rows, the distances of all pairs are computed. If it has
# more, twice the largest row is used, which is never smaller. A matter of taste.
_MAX_ROWS_FOR_PAIRS = 4000

# Required for privacy: the same numbers as in confide/tables/_contribution_kernels.py. A cost times
# the first one is the square of a weight in steps of the grid. A reward of 1 has so many units, and
# a balance of 1 too.
STEPS_PER_COST = 2**8
REWARD_UNITS = 2**20
SCALE_UNITS = 2**8
# What the whole budget buys, in steps of the grid.
_UNIT = math.isqrt(BUDGET * STEPS_PER_COST)


def contribution(
    statistic: Mapping[str, Any] | None, channel: Mapping[str, Any], episode: Sequence[Any]
) -> Ints:
    """Return what an episode contributes, in whole steps of the grid. PRIVATE.

    An episode is (states, actions, rewards). If it makes no sense, it contributes zero.
    """
    checked = check_statistic(statistic, channel)
    compute = {
        "transitions": _transition_contribution,
        "answers": _answer_contribution,
        "budget": _budget_contribution,
    }[checked["kind"]]
    try:
        steps = compute(checked, float(channel["grid"]), episode)
        if belongs(checked, channel, steps):
            return steps
    except Exception:
        # An error would tell whoever misses the message something about the data.
        pass
    return np.zeros(int(channel["size"]), dtype=np.int64)


def belongs(statistic: Mapping[str, Any], channel: Mapping[str, Any], steps: Ints) -> bool:
    """Return whether these numbers are what some episode contributes.

    `sensitivity` and `largest` are about such numbers, so the noise was made for nothing else. This
    is asked before noise is added, and looks at the result alone.
    """
    size = int(channel["size"])
    if steps.shape != (size,) or steps.dtype.kind != "i":
        return False
    if np.abs(steps).max(initial=0) >= WHOLE_LIMIT:
        return False
    match statistic["kind"]:
        case "transitions":
            table_rows = {row.tobytes() for row in _different_rows(statistic)}
            rows = steps.astype(np.int64).reshape(int(statistic["steps"]), -1)
            return all(row.tobytes() in table_rows for row in rows)
        case "answers":
            return bool((np.abs(steps) * float(channel["grid"]) <= 0.5).all())
        case "budget":
            return _is_paid(statistic, steps)
    return False


def _is_paid(statistic: Mapping[str, Any], steps: Ints) -> bool:
    """Return whether a user's budget pays for these weighted visits and rewards.

    The squares of all visits sum to at most the budget, and those of the rewards to the share of it
    that `balance` states. At most so many pairs were visited as an episode has steps, which bounds
    the plain sums, too.
    """
    cells = len(statistic["successors"])
    balance = int(statistic["balance"])
    visits = steps[:cells].tolist()
    rewards = steps[cells:].tolist()
    pairs = min(int(statistic["steps"]), len(statistic["costs"]))
    budget = BUDGET * STEPS_PER_COST
    visits_paid = sum(visit**2 for visit in visits) <= budget
    rewards_paid = sum(reward**2 for reward in rewards) * SCALE_UNITS**2 <= budget * balance**2
    few_pairs = sum(visits) <= _UNIT * math.sqrt(pairs) + pairs
    rewards_fit_visits = sum(rewards) * SCALE_UNITS <= sum(visits) * balance
    is_positive = bool((steps >= 0).all())
    return visits_paid and rewards_paid and few_pairs and rewards_fit_visits and is_positive


def largest(statistic: Mapping[str, Any], grid: float) -> tuple[float, float]:
    """Return the largest coordinate and the largest L2 norm that a contribution can have."""
    if statistic["kind"] == "answers":
        return 0.5, math.sqrt(len(statistic["steps"])) / 2
    if statistic["kind"] == "budget":
        unit = _UNIT * grid
        reward_share = int(statistic["balance"]) / SCALE_UNITS
        return unit * max(1.0, reward_share), unit * math.hypot(1.0, reward_share)
    rows = _different_rows(statistic) * grid
    norm = float(np.linalg.norm(rows, axis=1).max())
    return float(np.abs(rows).max()), math.sqrt(int(statistic["steps"])) * norm


def sensitivity(statistic: Mapping[str, Any], grid: float) -> tuple[float, float]:
    """Return how far apart the contributions of two people can be, in L2 and in L1.

    A device computes this from the tables of the round, and relies on nobody else for it. Proved,
    and required for privacy.
    """
    if statistic["kind"] == "answers":
        # Two answers to one question are at most 1 apart.
        questions = len(statistic["steps"])
        return math.sqrt(questions), float(questions)
    steps = int(statistic["steps"])
    if statistic["kind"] == "budget":
        unit = _UNIT * grid
        reward_share = int(statistic["balance"]) / SCALE_UNITS
        pairs = min(steps, len(statistic["costs"]))
        # Contributions are not negative, so two of them are at most sqrt(2) norms apart.
        l2_distance = unit * math.sqrt(2) * math.hypot(1.0, reward_share)
        l1_distance = unit * 2 * (1 + reward_share) * math.sqrt(pairs)
        return l2_distance, l1_distance
    rows = _different_rows(statistic) * grid
    if len(rows) > _MAX_ROWS_FOR_PAIRS:
        l2_of_rows = 2 * np.linalg.norm(rows, axis=1).max()
        l1_of_rows = 2 * np.abs(rows).sum(axis=1).max()
    else:
        l2_of_rows = max(float(np.linalg.norm(rows - row, axis=1).max()) for row in rows)
        l1_of_rows = max(float(np.abs(rows - row).sum(axis=1).max()) for row in rows)
    return math.sqrt(steps) * float(l2_of_rows), steps * float(l1_of_rows)


def _different_rows(statistic: Mapping[str, Any]) -> Ints:
    """Return the different rows of a table of transitions, and zero.

    Zero is what an impossible transition adds.
    """
    table = np.asarray(statistic["table"], dtype=np.int64)
    codes = table.shape[-1]
    zero = np.zeros((1, codes), dtype=np.int64)
    return np.unique(np.vstack([table.reshape(-1, codes), zero]), axis=0)


def _transition_contribution(
    statistic: Mapping[str, Any], _: float, episode: Sequence[Any]
) -> Ints:
    """Return one row of the table for each step, side by side."""
    table = np.asarray(statistic["table"], dtype=np.int64)  # [state, action, next, :]
    horizon = int(statistic["steps"])
    states, actions, next_states, codes = table.shape
    sums = np.zeros((horizon, codes), dtype=np.int64)
    for step, state, action, next_state in _episode_steps(episode, horizon):
        exists = state in range(states) and action in range(actions)
        if exists and next_state in range(next_states):
            sums[step] += table[state, action, next_state]
    return sums.ravel()


def _answer_contribution(statistic: Mapping[str, Any], grid: float, episode: Sequence[Any]) -> Ints:
    """Return the answer to each question: a half with a sign, or a reward from -1/2 to 1/2.

    A question is about one step. Whoever was not in its state, or took another action, answers 0.
    """
    signs = np.asarray(statistic["signs"], dtype=np.int64)  # [question, state, action, next]
    questions, states, actions, next_states = signs.shape
    asked_steps = statistic["steps"]
    answers = np.zeros(questions, dtype=np.int64)
    transitions = {
        step: (state, action, next_state)
        for step, state, action, next_state in _episode_steps(episode, max(asked_steps) + 1)
    }
    for question in range(questions):
        asked_step = asked_steps[question]
        state, action, next_state = transitions.get(asked_step, (-1, -1, -1))
        if state not in range(states) or action not in range(actions):
            continue
        if not statistic["rewards"][question]:
            if next_state in range(next_states):
                sign = signs[question, state, action, next_state]
                answers[question] = round(sign / (2 * grid))
            continue
        reward = _number(episode[2][asked_step])
        if np.isfinite(reward):
            centred_reward = min(max(reward, 0.0), 1.0) - 0.5
            reward_steps = int(np.rint(centred_reward / grid))
            answers[question] = signs[question, state, action, 0] * reward_steps
    return answers


def _budget_contribution(statistic: Mapping[str, Any], _: float, episode: Sequence[Any]) -> Ints:
    """Return weighted visits, and rewards if there is a balance. Whole numbers throughout.

    A step counts if the budget can pay it. The c-th step of a pair adds sqrt(c) - sqrt(c - 1) times
    the square root of its cost.
    """
    layers = int(statistic["layers"])
    states = int(statistic["states"])
    actions = int(statistic["actions"])
    balance = int(statistic["balance"])
    indptr = statistic["indptr"]
    successors = statistic["successors"]
    costs = statistic["costs"]
    sums = np.zeros(len(successors) + (len(costs) if balance else 0), dtype=np.int64)
    spent = 0
    visits_of_pair: dict[int, int] = {}
    for step, state, action, next_state in _episode_steps(episode, int(statistic["steps"])):
        exists = state in range(states) and next_state in range(states)
        if not exists or action not in range(actions) or (layers > 1 and step >= layers):
            continue
        layer = step if layers > 1 else 0
        pair = (layer * states + state) * actions + action
        cost = costs[pair]
        next_states = successors[indptr[pair] : indptr[pair + 1]]
        if cost <= 0 or spent + cost > BUDGET or next_state not in next_states:
            continue
        reward = _number(episode[2][step]) if balance and step < len(episode[2]) else math.nan
        if balance and not math.isfinite(reward):
            continue
        spent += cost
        visits = visits_of_pair.get(pair, 0) + 1
        visits_of_pair[pair] = visits
        weight = math.isqrt(visits * cost * STEPS_PER_COST) - math.isqrt(
            (visits - 1) * cost * STEPS_PER_COST
        )
        sums[indptr[pair] + next_states.index(next_state)] += weight
        if balance:
            fine_reward = int(min(max(reward, 0.0), 1.0) * REWARD_UNITS)
            sums[len(successors) + pair] += (
                weight * balance * fine_reward // (REWARD_UNITS * SCALE_UNITS)
            )
    return sums


def _episode_steps(episode: Sequence[Any], most: int) -> list[tuple[int, int, int, int]]:
    """Return (step, state, action, next state) of the first `most` steps.

    -1 stands for what is missing, or is no whole number.
    """
    states = episode[0]
    actions = episode[1]
    steps: list[tuple[int, int, int, int]] = []
    for step in range(min(most, len(actions))):
        state = _index(states[step]) if step < len(states) else -1
        next_state = _index(states[step + 1]) if step + 1 < len(states) else -1
        steps.append((step, state, _index(actions[step]), next_state))
    return steps


def _index(value: Any) -> int:
    number = _number(value)
    return int(number) if np.isfinite(number) and number == int(number) else -1


def _number(value: Any) -> float:
    return float(value) if isinstance(value, bool | int | float | np.number) else float("nan")


def message_bytes(
    generation: int,
    answered: bytes,
    nonce: bytes,
    channel: bytes,
    kind: str,
    values: Sequence[float],
) -> bytes:
    """Return a message as `Message.to_bytes` writes it. `answered` is the digest of the round."""
    header = _HEADER.pack(
        _MAGIC,
        _VERSION,
        _MESSAGE_KINDS.index(kind),
        generation,
        nonce,
        channel,
        answered,
        len(values),
    )
    return header + struct.pack(f"<{len(values)}d", *values)


def joint_body(
    generation: int, subject: str, episode: Sequence[Any], answered: str, horizon: int = 0
) -> bytes:
    """Return a report of a joint run: the episode itself, and the digest of the round.

    The round is the one by which the person was served. The service counts no step after the
    horizon, and refuses a body that is too long, so these steps are left out. If the horizon is 0,
    it is not known, and the whole episode is sent.
    """
    names = ("states", "actions", "rewards")
    # The state after the last step is one more than the steps.
    lengths = (horizon + 1, horizon, horizon)
    trajectory = {
        name: _to_json(_first_entries(part, length) if horizon else part)
        for name, part, length in zip(names, episode, lengths, strict=True)
    }
    return canonical(
        {"subject": subject, "generation": generation, "round": answered, "trajectory": trajectory}
    )


def _first_entries(part: Any, length: int) -> Any:
    return part[:length] if isinstance(part, np.ndarray | list | tuple) else part


def _to_json(part: Any) -> Any:
    """Return a part of an episode as JSON. What is no number of JSON is null, as in JavaScript."""
    if isinstance(part, np.ndarray | np.generic):
        return _to_json(part.tolist())
    if isinstance(part, list | tuple):
        return [_to_json(entry) for entry in part]
    is_exact = isinstance(part, int | float) and abs(part) < _EXACT_LIMIT
    return part if is_exact else None
