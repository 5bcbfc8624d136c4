"""What a server sends, checked before anything else looks at it: the device's side.

A server may be hostile. Every value has its type, its range and its length, or the document is refused with `InvalidDocument`. A number is
a number of JSON that a double holds exactly: no text, no truth value, no NaN and no infinity. `clients/typescript` checks the same.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from confide.errors import InvalidDocument

ROUND_FORMAT = "confide-round/2"
# Numbers in one table, and in one message.
_MOST_NUMBERS = 2**24
_MOST_COORDINATES = 2**22
_MOST_POLICIES = 2**14
_MOST_KEYS = 1000
_MOST_STEPS = 2**24
_MOST_REPORT_COORDINATES = 2**14
_MOST_VECTORS = 1024
_MOST_SIGNS = 10
_MOST_SAFE = 2**53 - 1
# A contribution has smaller numbers, so that sums and distances are exact.
MOST_WHOLE = 2**50
# As in confide/tables/_contribution_kernels.py: the budget of a user, and the largest balance, which is one.
BUDGET = 2**40
_MOST_BALANCE = 2**8
# The grid of contributions, and how wide noise may be in steps of it.
_LEAST_GRID, _MOST_GRID = 2.0**-80, 2.0**40
_LEAST_WIDTH, _MOST_WIDTH = 2.0**-20, 2.0**52
_HEX_16, _HEX_64, _HEX_128 = (re.compile(f"[0-9a-f]{{{digits}}}") for digits in (16, 64, 128))

Fields = Mapping[str, Any]


def parse_json(name: str, body: bytes) -> Any:
    """Bytes as JSON."""
    try:
        return json.loads(body.decode(), parse_constant=_no_number)
    except (ValueError, RecursionError):
        raise InvalidDocument(f"{name} is not JSON") from None


def _no_number(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def check_manifest(value: Any) -> dict[str, Any]:
    given = fields("the manifest", value)
    promise, key = fields("promise", given.get("promise")), fields("key", given.get("key"))
    problem = fields("problem", given.get("problem", {}))
    if not isinstance(given.get("simulation"), bool):
        raise InvalidDocument("simulation must be true or false")
    run = given.get("run")
    if not isinstance(run, str) or not 1 <= len(run) <= 200:
        raise InvalidDocument("run must be a text")
    checked_promise = {
        "trust": one_of("trust", promise.get("trust"), ("joint", "local")),
        "epsilon": real("epsilon", promise.get("epsilon"), 0.0, 1.7e308),
        "delta": real("delta", promise.get("delta"), 0.0, 1.0),
        "relation": one_of("relation", promise.get("relation"), ("replace", "null")),
    }
    public = hexadecimal("public", key.get("public"), _HEX_64)
    return {
        **given,
        "promise": {**promise, **checked_promise},
        "key": {**key, "public": public},
        # If the horizon is 0, the manifest does not state it.
        "problem": {
            **problem,
            "horizon": whole("horizon", problem.get("horizon", 0), 0, _MOST_STEPS),
        },
    }


def check_keys(value: Any) -> list[dict[str, str]]:
    keys = listed("keys", fields("the keys", value).get("keys"), 0, _MOST_KEYS)
    return [_checked_key(fields("a key", key)) for key in keys]


def _checked_key(key: Fields) -> dict[str, str]:
    return {
        "id": hexadecimal("id", key.get("id"), _HEX_16),
        "public": hexadecimal("public", key.get("public"), _HEX_64),
        "endorsed_by": hexadecimal("endorsed_by", key.get("endorsed_by") or "0" * 16, _HEX_16),
        "endorsement": hexadecimal("endorsement", key.get("endorsement") or "0" * 128, _HEX_128),
    }


def check_round(value: Any, run: str, generation: int, *, local: bool) -> dict[str, Any]:
    """The round of this run and this generation. Under local privacy it says how messages are made; otherwise that part is left out."""
    given = fields("the round", value)
    one_of("format", given.get("format"), (ROUND_FORMAT,))
    if (
        given.get("run") != run
        or whole("generation", given.get("generation"), 0, _MOST_SAFE) != generation
    ):
        raise InvalidDocument("the round is of another run or another release")
    policies = [
        _check_policy(policy)
        for policy in listed("policies", given.get("policies"), 1, _MOST_POLICIES)
    ]
    shares = [
        real("a share", share, 0.0, 1.0)
        for share in listed("shares", given.get("shares"), len(policies), len(policies))
    ]
    if not sum(shares) > 0:
        raise InvalidDocument("the shares of the policies must have a positive sum")
    named = hexadecimal("round", given.get("round"), _HEX_64)
    checked = {"format": ROUND_FORMAT, "run": run, "generation": generation, "round": named}
    checked |= {"policies": policies, "shares": shares}
    if not local:
        return checked
    channel = check_channel(given.get("channel"))
    return {
        **checked,
        "channel": channel,
        "statistic": check_statistic(given.get("statistic"), channel),
    }


def _check_policy(value: Any) -> dict[str, Any]:
    given = fields("a policy", value)

    def weight(number: Any) -> float:
        return real("a number of a policy", number, -1e100, 1e100)

    match kind := given.get("kind"):
        case "tabular":
            choices = whole("choices", given.get("choices"), 1, 2**31)
            actions = rectangle(
                "actions",
                given.get("actions"),
                2,
                lambda each: whole("an action", each, 0, choices - 1),
            )
            return {"kind": kind, "choices": choices, "actions": actions}
        case "stochastic":
            weights = rectangle(
                "weights",
                given.get("weights"),
                3,
                lambda each: real("a probability", each, 0.0, 1.0),
            )
            if not all(sum(row) > 0 for step in weights for row in step):
                raise InvalidDocument("the probabilities of actions must have a positive sum")
            return {"kind": kind, "weights": weights}
        case "linear":
            return {"kind": kind, "gains": rectangle("gains", given.get("gains"), 3, weight)}
        case "context":
            weights, widths = (
                rectangle("weights", given.get("weights"), 1, weight),
                given.get("widths"),
            )
            if widths is not None:
                widths = rectangle("widths", widths, 2, weight)
                if len(widths[0]) != len(weights):
                    raise InvalidDocument("widths must fit the weights")
            return {"kind": kind, "weights": weights, "widths": widths}
        case "random":
            return {"kind": kind, "choices": whole("choices", given.get("choices"), 1, 2**31)}
    raise InvalidDocument("this client does not know the kind of a policy of the round")


def check_channel(value: Any) -> dict[str, Any]:
    """How messages are made. What the noise is worth is not checked here: see `messages.mechanism_of`."""
    given = fields("the channel", value)
    noise = fields("noise", given.get("noise"))
    grid = real("grid", given.get("grid"), _LEAST_GRID, _MOST_GRID)
    if math.frexp(grid)[0] != 0.5:
        raise InvalidDocument("grid must be a power of two")
    size = whole("size", given.get("size"), 1, _MOST_COORDINATES)
    channel = {
        "id": hexadecimal("id", given.get("id"), _HEX_16),
        "size": size,
        "grid": grid,
        "source": one_of("source", given.get("source"), ("secure", "fast")),
    }
    match distribution := noise.get("distribution"):
        case "codebook" | "signs":
            one_of("kind", given.get("kind"), ("index",))
            return {**channel, "kind": "index", "noise": _check_report(noise, distribution, size)}
        case "gaussian" | "laplace":
            one_of("kind", given.get("kind"), ("numbers",))
            step = noise.get("step")
            # Only simulations have noise on the reals. A real person's device draws on the grid of the contributions.
            simulated = step is None and channel["source"] == "fast"
            if not simulated and (isinstance(step, bool) or step != grid):
                raise InvalidDocument(
                    "the lattice of the noise must be the grid of the contributions"
                )
            scale = real("scale", noise.get("scale"), _LEAST_WIDTH * grid, _MOST_WIDTH * grid)
            drawn = {
                "distribution": distribution,
                "scale": scale,
                "step": None if step is None else grid,
            }
            return {**channel, "kind": "numbers", "noise": drawn}
    raise InvalidDocument(
        "this client knows no noise of this distribution: use confide.agents.LocalClient"
    )


def _check_report(noise: Fields, distribution: str, size: int) -> dict[str, Any]:
    """What a report counts must be true for every contribution, because its epsilon rests on nothing else."""
    whole("size", size, 1, _MOST_REPORT_COORDINATES)
    radius = real("radius", noise.get("radius"), 2.0**-80, 2.0**80)
    epsilon = real("epsilon", noise.get("epsilon"), 5e-324, 1.7e308)
    report = {"distribution": distribution, "radius": radius, "epsilon": epsilon}
    if distribution == "codebook":
        vectors = whole("vectors", noise.get("vectors"), 2, _MOST_VECTORS)
        return {
            **report,
            "vectors": vectors,
            "nearest": whole("nearest", noise.get("nearest"), 1, vectors - 1),
        }
    asked = whole("asked", noise.get("asked"), 1, min(size, _MOST_SIGNS))
    nearest = whole("nearest", noise.get("nearest"), 1, 2**asked - 1)
    if nearest not in (
        sum(math.comb(asked, wrong) for wrong in range(reach + 1)) for reach in range(asked)
    ):
        raise InvalidDocument("nearest must count all patterns that differ in few places")
    return {**report, "asked": asked, "nearest": nearest}


def check_statistic(value: Any, channel: Fields) -> dict[str, Any]:
    """The tables from which a contribution is computed. All lengths fit each other and the channel."""
    kind = None if value is None else fields("the statistic", value).get("kind")
    match kind:
        case "transitions":
            return _check_transitions(value, channel)
        case "answers":
            return _check_answers(value, channel)
        case "budget":
            return _check_budget(value, channel)
    raise InvalidDocument(
        "this client cannot compute what this run's users contribute: use confide.agents.LocalClient"
    )


def _check_transitions(given: Fields, channel: Fields) -> dict[str, Any]:
    steps = whole("steps", given.get("steps"), 1, _MOST_STEPS)
    most = MOST_WHOLE // steps - 1
    table = rectangle(
        "table",
        given.get("table"),
        4,
        lambda each: whole("a number of the table", each, -most, most),
    )
    _fit(steps * len(table[0][0][0]), channel)
    return {"kind": "transitions", "steps": steps, "table": table}


def _check_answers(given: Fields, channel: Fields) -> dict[str, Any]:
    questions = channel["size"]
    if not 1 / MOST_WHOLE < channel["grid"] <= 0.5:
        raise InvalidDocument("the grid is too coarse or too fine for answers")
    steps = [
        whole("a step", each, 0, _MOST_STEPS)
        for each in listed("steps", given.get("steps"), questions, questions)
    ]
    rewards = listed("rewards", given.get("rewards"), questions, questions)
    if not all(isinstance(each, bool) for each in rewards):
        raise InvalidDocument("rewards must be true or false")
    signs = rectangle("signs", given.get("signs"), 4, lambda each: whole("a sign", each, -1, 1))
    _fit(len(signs), channel)
    return {"kind": "answers", "steps": steps, "signs": signs, "rewards": list(rewards)}


def _check_budget(given: Fields, channel: Fields) -> dict[str, Any]:
    layers = whole("layers", given.get("layers"), 1, _MOST_STEPS)
    states = whole("states", given.get("states"), 1, _MOST_NUMBERS)
    actions = whole("actions", given.get("actions"), 1, _MOST_NUMBERS)
    steps = whole("steps", given.get("steps"), 1, _MOST_STEPS)
    balance = whole("balance", given.get("balance"), 0, _MOST_BALANCE)
    pairs = layers * states * actions
    if pairs > _MOST_NUMBERS:
        raise InvalidDocument("the round has too many pairs of a state and an action")
    costs = [
        whole("a cost", each, 0, BUDGET)
        for each in listed("costs", given.get("costs"), pairs, pairs)
    ]
    places = listed("successors", given.get("successors"), 1, _MOST_NUMBERS)
    successors = [whole("a successor", each, 0, states - 1) for each in places]
    edges = listed("indptr", given.get("indptr"), pairs + 1, pairs + 1)
    indptr = [whole("a place", each, 0, len(successors)) for each in edges]
    if (
        indptr[0] != 0
        or indptr[-1] != len(successors)
        or any(low > high for low, high in pairwise(indptr))
    ):
        # Otherwise what the pairs add would add up.
        raise InvalidDocument("the pairs of a budget must have places of their own")
    _fit(len(successors) + (pairs if balance else 0), channel)
    sizes = {
        "layers": layers,
        "states": states,
        "actions": actions,
        "steps": steps,
        "balance": balance,
    }
    return {"kind": "budget", **sizes, "indptr": indptr, "successors": successors, "costs": costs}


def _fit(numbers: int, channel: Fields) -> None:
    if numbers != channel["size"]:
        raise InvalidDocument(
            f"the statistic has {numbers} numbers, and the channel {channel['size']}"
        )


# values


def fields(name: str, value: Any) -> Fields:
    if not isinstance(value, dict):
        raise InvalidDocument(f"{name} must be an object")
    return value


def whole(name: str, value: Any, least: int, most: int) -> int:
    """JSON has one kind of number: 2.0 is the whole number 2, as in JavaScript."""
    if type(value) is float and value.is_integer() and abs(value) <= _MOST_SAFE:
        value = int(value)
    if type(value) is not int or not least <= value <= most:
        raise InvalidDocument(f"{name} must be a whole number from {least} to {most}")
    return value


def real(name: str, value: Any, least: float, most: float) -> float:
    if type(value) not in (int, float) or not least <= value <= most:
        raise InvalidDocument(f"{name} must be a number from {least:g} to {most:g}")
    return float(value)


def hexadecimal(name: str, value: Any, pattern: re.Pattern[str]) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InvalidDocument(f"{name} is not the text that it must be")
    return value


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    if not isinstance(value, str) or value not in choices:
        raise InvalidDocument(f"{name} must be {' or '.join(choices)}")
    return value


def listed(name: str, value: Any, least: int, most: int) -> list[Any]:
    if not isinstance(value, list) or not least <= len(value) <= most:
        expected = least if least == most else f"{least} to {most}"
        raise InvalidDocument(f"{name} must be a list with {expected} entries")
    return value


def rectangle(name: str, value: Any, depth: int, check: Callable[[Any], Any]) -> list[Any]:
    """Lists of lists of numbers, of which all on one level are equally long. The depth is the caller's, never the server's."""
    shape, level, numbers = list[int](), value, 1
    for _ in range(depth):
        shape.append(len(listed(name, level, 1, _MOST_NUMBERS)))
        numbers, level = numbers * shape[-1], level[0]
    if numbers > _MOST_NUMBERS:
        raise InvalidDocument(f"{name} has more than {_MOST_NUMBERS} numbers")

    def copied(part: Any, done: int) -> Any:
        if done == depth:
            return check(part)
        return [copied(each, done + 1) for each in listed(name, part, shape[done], shape[done])]

    checked: list[Any] = copied(value, 0)
    return checked
