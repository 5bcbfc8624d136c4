"""What an episode contributes, computed from the plain tables of a round: the device's side, without the compiler and the planner.

Whatever is in an episode, and whatever tables a server sent, the result is a vector of the announced size; what makes no sense adds zero.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter

Ints = npt.NDArray[np.int64]
_HEADER = struct.Struct(">4sBBQ16s8sI")
_MAGIC, _VERSION = b"cfdm", 2
_KINDS = ("numbers", "index")
_MOST = 2**50
_PAIRS = 4000  # rows of a table: up to here all pairs are measured
BUDGET, SHIFT, FINE, PART = 2**40, 2**8, 2**20, 2**8  # as in confide/tables/_contribution_kernels.py


def contribution(statistic: Mapping[str, Any] | None, channel: Mapping[str, Any], episode: Sequence[Any]) -> Ints:
    """In whole steps of the grid."""
    size = int(channel["size"])
    kinds = {"transitions": _transitions, "answers": _answers, "budget": _budget}
    if statistic is None or statistic["kind"] not in kinds:
        raise InvalidParameter("this client cannot compute what this run's users contribute: use confide.agents.LocalClient")
    try:
        made = kinds[statistic["kind"]](statistic, float(channel["grid"]), episode)
        if made.shape == (size,) and np.abs(made).max(initial=0) < _MOST:
            return made
    except Exception:  # an error would tell whoever misses the message something about the data
        pass
    return np.zeros(size, dtype=np.int64)


def _transitions(statistic: Mapping[str, Any], _: float, episode: Sequence[Any]) -> Ints:
    table = np.asarray(statistic["table"], dtype=np.int64)
    steps, (states, actions, after, codes) = int(statistic["steps"]), table.shape
    sums = np.zeros((steps, codes), dtype=np.int64)
    for h, s, a, t in _steps(episode, steps):
        if s in range(states) and a in range(actions) and t in range(after):
            sums[h] += table[s, a, t]
    return sums.ravel()


def _answers(statistic: Mapping[str, Any], grid: float, episode: Sequence[Any]) -> Ints:
    signs = np.asarray(statistic["signs"], dtype=np.int64)
    questions, states, actions, after = signs.shape
    asked, about_rewards = statistic["steps"], statistic["rewards"]
    found = np.zeros(questions, dtype=np.int64)
    steps = {h: (s, a, t) for h, s, a, t in _steps(episode, max(asked) + 1)}
    for q in range(questions):
        s, a, t = steps.get(asked[q], (-1, -1, -1))
        if s not in range(states) or a not in range(actions):
            continue
        if not about_rewards[q]:
            found[q] = round(signs[q, s, a, t] / (2 * grid)) if t in range(after) else 0
            continue
        reward = _number(episode[2][asked[q]])
        if np.isfinite(reward):
            found[q] = signs[q, s, a, 0] * int(np.rint((min(max(reward, 0.0), 1.0) - 0.5) / grid))
    return found


def _budget(statistic: Mapping[str, Any], _: float, episode: Sequence[Any]) -> Ints:
    """In whole numbers throughout: a step counts if the budget can pay it, the c-th step of a pair adds sqrt(c) - sqrt(c - 1) of it."""
    layers, states, actions, balance = (int(statistic[name]) for name in ("layers", "states", "actions", "balance"))
    indptr, successors, costs = (statistic[name] for name in ("indptr", "successors", "costs"))
    sums = np.zeros(len(successors) + (len(costs) if balance else 0), dtype=np.int64)
    spent, often = 0, dict[int, int]()
    for h, s, a, t in _steps(episode, int(statistic["steps"])):
        if s not in range(states) or a not in range(actions) or t not in range(states) or (layers > 1 and h >= layers):
            continue
        pair = ((h if layers > 1 else 0) * states + s) * actions + a
        cost, row = costs[pair], successors[indptr[pair] : indptr[pair + 1]]
        reward = _number(episode[2][h]) if balance and h < len(episode[2]) else math.nan
        if cost <= 0 or spent + cost > BUDGET or t not in row or (balance and not math.isfinite(reward)):
            continue
        spent, c = spent + cost, often.get(pair, 0) + 1
        often[pair] = c
        weight = math.isqrt(c * cost * SHIFT) - math.isqrt((c - 1) * cost * SHIFT)
        sums[indptr[pair] + row.index(t)] += weight
        if balance:
            sums[len(successors) + pair] += weight * balance * int(min(max(reward, 0.0), 1.0) * FINE) // (FINE * PART)
    return sums


def _steps(episode: Sequence[Any], most: int) -> list[tuple[int, int, int, int]]:
    """(step, state, action, next state) of the first `most` steps; -1 for what is no whole number."""
    states, actions = episode[0], episode[1]
    found = []
    for h in range(min(most, len(actions))):
        after = _index(states[h + 1]) if h + 1 < len(states) else -1
        found.append((h, _index(states[h]) if h < len(states) else -1, _index(actions[h]), after))
    return found


def _index(value: Any) -> int:
    number = _number(value)
    return int(number) if np.isfinite(number) and number == int(number) else -1


def _number(value: Any) -> float:
    return float(value) if isinstance(value, bool | int | float | np.number) else float("nan")


def sensitivity(statistic: Mapping[str, Any], grid: float) -> tuple[float, float]:
    """How far apart the contributions of two people can be, in L2 and in L1, for these tables: a device relies on nobody else for it."""
    if statistic["kind"] == "budget":
        steps, part, pairs = int(statistic["steps"]), int(statistic["balance"]) / PART, len(statistic["costs"])
        edges = [0, *statistic["indptr"], len(statistic["successors"])]
        if len(edges) != pairs + 3 or any(a > b for a, b in pairwise(edges)) or part < 0:
            raise InvalidParameter("the pairs of a budget must have places of their own")  # else what they add would add up
        unit = math.isqrt(BUDGET * SHIFT) * grid  # what the whole budget buys
        return unit * math.sqrt(2) * math.hypot(1.0, part), unit * 2 * (1 + part) * math.sqrt(min(steps, pairs))
    if statistic["kind"] != "transitions":
        raise InvalidParameter(
            "this client knows no sensitivity of what this run's users contribute: use confide.agents.LocalClient"
        )
    table, steps = np.asarray(statistic["table"], dtype=np.float64), int(statistic["steps"])
    rows = np.unique(np.vstack([table.reshape(-1, table.shape[-1]), np.zeros(table.shape[-1])]), axis=0) * grid
    if len(rows) > _PAIRS:
        apart, apart_l1 = 2 * np.linalg.norm(rows, axis=1).max(), 2 * np.abs(rows).sum(axis=1).max()
    else:
        apart = max(float(np.linalg.norm(rows - row, axis=1).max()) for row in rows)
        apart_l1 = max(float(np.abs(rows - row).sum(axis=1).max()) for row in rows)
    return math.sqrt(steps) * float(apart), steps * float(apart_l1)


def message_bytes(generation: int, nonce: bytes, channel: bytes, kind: str, values: Sequence[float]) -> bytes:
    """A message as `Message.to_bytes` writes it."""
    header = _HEADER.pack(_MAGIC, _VERSION, _KINDS.index(kind), generation, nonce, channel, len(values))
    return header + struct.pack(f"<{len(values)}d", *values)
