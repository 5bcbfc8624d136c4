"""What an episode contributes, computed from the plain tables of a round: the device's side, without the compiler and the planner.

Tables that make no sense are refused (`checks`). An episode that makes none contributes zero. Before noise is added, the result is checked
again (`belongs`), without relying on how it was computed.

In a joint run the episode itself is sent (`joint_body`), up to the run's horizon.
"""

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.service.device.checks import BUDGET, MOST_WHOLE, check_statistic
from confide.service.documents import canonical

Ints = npt.NDArray[np.int64]
_HEADER = struct.Struct(">4sBBQ16s8s32sI")
_MAGIC, _VERSION = b"cfdm", 3
_KINDS = ("numbers", "index")
_PAIRS = 4000  # rows of a table: up to here all pairs are measured
SHIFT, FINE, PART = 2**8, 2**20, 2**8  # as in confide/tables/_contribution_kernels.py


def contribution(
    statistic: Mapping[str, Any] | None, channel: Mapping[str, Any], episode: Sequence[Any]
) -> Ints:
    """In whole steps of the grid."""
    checked = check_statistic(statistic, channel)
    kinds = {"transitions": _transitions, "answers": _answers, "budget": _budget}
    try:
        steps = kinds[checked["kind"]](checked, float(channel["grid"]), episode)
        if belongs(checked, channel, steps):
            return steps
    except Exception:  # an error would tell whoever misses the message something about the data
        pass
    return np.zeros(int(channel["size"]), dtype=np.int64)


def belongs(statistic: Mapping[str, Any], channel: Mapping[str, Any], steps: Ints) -> bool:
    """Whether these numbers are what some episode contributes.

    `sensitivity` and `largest` are about such numbers, so the noise was made for nothing else. This is asked before noise is added, and
    looks at the result alone.
    """
    size = int(channel["size"])
    if (
        steps.shape != (size,)
        or steps.dtype.kind != "i"
        or np.abs(steps).max(initial=0) >= MOST_WHOLE
    ):
        return False
    match statistic["kind"]:
        case "transitions":
            rows = {row.tobytes() for row in _rows(statistic)}
            return all(
                part.tobytes() in rows
                for part in steps.astype(np.int64).reshape(int(statistic["steps"]), -1)
            )
        case "answers":
            return bool((np.abs(steps) * float(channel["grid"]) <= 0.5).all())
        case "budget":
            cells, balance = len(statistic["successors"]), int(statistic["balance"])
            visits, rewards = steps[:cells].tolist(), steps[cells:].tolist()
            pairs = min(int(statistic["steps"]), len(statistic["costs"]))
            paid = sum(each**2 for each in visits) <= BUDGET * SHIFT
            paid = (
                paid and sum(each**2 for each in rewards) * PART**2 <= BUDGET * SHIFT * balance**2
            )
            paid = paid and sum(visits) <= math.isqrt(BUDGET * SHIFT) * math.sqrt(pairs) + pairs
            return bool(
                paid and sum(rewards) * PART <= sum(visits) * balance and (steps >= 0).all()
            )
    return False


def largest(statistic: Mapping[str, Any], grid: float) -> tuple[float, float]:
    """The largest coordinate and the largest L2 norm that a contribution can have."""
    if statistic["kind"] == "answers":
        return 0.5, math.sqrt(len(statistic["steps"])) / 2
    if statistic["kind"] == "budget":
        unit, part = math.isqrt(BUDGET * SHIFT) * grid, int(statistic["balance"]) / PART
        return unit * max(1.0, part), unit * math.hypot(1.0, part)
    rows = _rows(statistic) * grid
    norm = float(np.linalg.norm(rows, axis=1).max())
    return float(np.abs(rows).max()), math.sqrt(int(statistic["steps"])) * norm


def _rows(statistic: Mapping[str, Any]) -> Ints:
    """The different rows of a table of transitions, and zero, which is what an impossible transition adds."""
    table = np.asarray(statistic["table"], dtype=np.int64)
    return np.unique(
        np.vstack(
            [table.reshape(-1, table.shape[-1]), np.zeros((1, table.shape[-1]), dtype=np.int64)]
        ),
        axis=0,
    )


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
    layers, states, actions, balance = (
        int(statistic[name]) for name in ("layers", "states", "actions", "balance")
    )
    indptr, successors, costs = (statistic[name] for name in ("indptr", "successors", "costs"))
    sums = np.zeros(len(successors) + (len(costs) if balance else 0), dtype=np.int64)
    spent, often = 0, dict[int, int]()
    for h, s, a, t in _steps(episode, int(statistic["steps"])):
        if (
            s not in range(states)
            or a not in range(actions)
            or t not in range(states)
            or (layers > 1 and h >= layers)
        ):
            continue
        pair = ((h if layers > 1 else 0) * states + s) * actions + a
        cost, row = costs[pair], successors[indptr[pair] : indptr[pair + 1]]
        reward = _number(episode[2][h]) if balance and h < len(episode[2]) else math.nan
        if (
            cost <= 0
            or spent + cost > BUDGET
            or t not in row
            or (balance and not math.isfinite(reward))
        ):
            continue
        spent, c = spent + cost, often.get(pair, 0) + 1
        often[pair] = c
        weight = math.isqrt(c * cost * SHIFT) - math.isqrt((c - 1) * cost * SHIFT)
        sums[indptr[pair] + row.index(t)] += weight
        if balance:
            sums[len(successors) + pair] += (
                weight * balance * int(min(max(reward, 0.0), 1.0) * FINE) // (FINE * PART)
            )
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
    steps = len(statistic["steps"]) if statistic["kind"] == "answers" else int(statistic["steps"])
    if statistic["kind"] == "answers":
        return math.sqrt(steps), float(steps)
    if statistic["kind"] == "budget":
        part, pairs = int(statistic["balance"]) / PART, len(statistic["costs"])
        unit = math.isqrt(BUDGET * SHIFT) * grid  # what the whole budget buys
        return unit * math.sqrt(2) * math.hypot(1.0, part), unit * 2 * (1 + part) * math.sqrt(
            min(steps, pairs)
        )
    rows = _rows(statistic) * grid
    if len(rows) > _PAIRS:
        apart, apart_l1 = 2 * np.linalg.norm(rows, axis=1).max(), 2 * np.abs(rows).sum(axis=1).max()
    else:
        apart = max(float(np.linalg.norm(rows - row, axis=1).max()) for row in rows)
        apart_l1 = max(float(np.abs(rows - row).sum(axis=1).max()) for row in rows)
    return math.sqrt(steps) * float(apart), steps * float(apart_l1)


def message_bytes(
    generation: int,
    answered: bytes,
    nonce: bytes,
    channel: bytes,
    kind: str,
    values: Sequence[float],
) -> bytes:
    """A message as `Message.to_bytes` writes it. `answered`: the digest of the round."""
    header = _HEADER.pack(
        _MAGIC, _VERSION, _KINDS.index(kind), generation, nonce, channel, answered, len(values)
    )
    return header + struct.pack(f"<{len(values)}d", *values)


def joint_body(
    generation: int, subject: str, episode: Sequence[Any], answered: str, horizon: int = 0
) -> bytes:
    """A report of a joint run: the episode itself, and the digest of the round by which the person was served.

    The service counts no step after the horizon, and refuses a body that is too long, so these steps are left out.
    If the horizon is 0, it is not known, and the whole episode is sent.
    """
    names = ("states", "actions", "rewards")
    # The state after the last step is one more than the steps.
    lengths = (horizon + 1, horizon, horizon)
    trajectory = {
        name: _plain(_first(part, length) if horizon else part)
        for name, part, length in zip(names, episode, lengths, strict=True)
    }
    return canonical(
        {"subject": subject, "generation": generation, "round": answered, "trajectory": trajectory}
    )


def _first(part: Any, length: int) -> Any:
    return part[:length] if isinstance(part, np.ndarray | list | tuple) else part


def _plain(part: Any) -> Any:
    """As JSON; what is no number of JSON is null, as in other languages."""
    if isinstance(part, np.ndarray | np.generic):
        return _plain(part.tolist())
    if isinstance(part, list | tuple):
        return [_plain(each) for each in part]
    fits = isinstance(part, int | float) and abs(part) < 2**53
    return part if fits else None
