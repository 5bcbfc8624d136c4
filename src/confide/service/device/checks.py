"""What a server sends, checked before anything else looks at it: the device's side.

A server may be hostile. Every value has its type, its range and its length, or the document is
refused with `InvalidDocument`. A number is a number of JSON that a double holds exactly: no text,
no truth value, no NaN and no infinity. `clients/typescript/src/checks.ts` checks the same, and
`clients/hostile.json` has documents that both must refuse.

What leaves this file are copies of documents with checked values only. A check may be made
stricter. Ranges are required for privacy where their comment says so: proofs of `episodes.py` rest
on them. The other limits bound time and memory, and are a matter of taste.
"""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from confide.errors import InvalidDocument

ROUND_FORMAT = "confide-round/2"
# The largest whole number that a double and JavaScript hold exactly, with all smaller ones.
_MAX_SAFE_INTEGER = 2**53 - 1
# Limits of time and memory: numbers in one table, coordinates of one contribution, and others.
_MAX_NUMBERS = 2**24
_MAX_COORDINATES = 2**22
_MAX_POLICIES = 2**14
_MAX_KEYS = 1000
_MAX_STEPS = 2**24
_MAX_REPORT_COORDINATES = 2**14
_MAX_VECTORS = 1024
_MAX_SIGNS = 10
_MAX_CHOICES = 2**31
_MAX_RUN_NAME = 200
# A contribution has smaller whole numbers than this one. Required for privacy: sums and distances
# of such numbers are exact.
WHOLE_LIMIT = 2**50
# The budget of a user, and the largest balance, which stands for 1. Required for privacy, and the
# same as in confide/tables/_contribution_kernels.py.
BUDGET = 2**40
_MAX_BALANCE = 2**8
# The grid of contributions, and how wide noise may be in steps of it. Required for privacy: within
# these ranges no number overflows or is rounded.
_MIN_GRID = 2.0**-80
_MAX_GRID = 2.0**40
_MIN_WIDTH = 2.0**-20
_MAX_WIDTH = 2.0**52
# All numbers of a policy, and all other real numbers, are smaller than these. A policy is about
# nobody's data, so its limit is a matter of taste.
_MAX_POLICY_NUMBER = 1e100
_MAX_REAL = 1.7e308
_MIN_POSITIVE = 5e-324
_MIN_RADIUS = 2.0**-80
_MAX_RADIUS = 2.0**80
_HEX_16 = re.compile("[0-9a-f]{16}")
_HEX_64 = re.compile("[0-9a-f]{64}")
_HEX_128 = re.compile("[0-9a-f]{128}")

Fields = Mapping[str, Any]


def parse_json(name: str, body: bytes) -> Any:
    """Return what JSON bytes hold. `name` is for the error."""
    try:
        return json.loads(body.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        raise InvalidDocument(f"{name} is not JSON") from None


def _refuse_constant(constant: str) -> NoReturn:
    """Refuse NaN and infinities, which Python reads and JSON does not have."""
    raise ValueError(f"{constant} is not JSON")


def check_manifest(value: Any) -> dict[str, Any]:
    """Return a manifest of which everything that a device uses was checked."""
    document = fields("the manifest", value)
    promise = fields("promise", document.get("promise"))
    key = fields("key", document.get("key"))
    problem = fields("problem", document.get("problem", {}))
    if not isinstance(document.get("simulation"), bool):
        raise InvalidDocument("simulation must be true or false")
    run = document.get("run")
    if not isinstance(run, str) or not 1 <= len(run) <= _MAX_RUN_NAME:
        raise InvalidDocument(f"run must be a text of 1 to {_MAX_RUN_NAME} characters")
    checked_promise = {
        "trust": one_of("trust", promise.get("trust"), ("joint", "local")),
        "epsilon": real("epsilon", promise.get("epsilon"), 0.0, _MAX_REAL),
        "delta": real("delta", promise.get("delta"), 0.0, 1.0),
        "relation": one_of("relation", promise.get("relation"), ("replace", "null")),
    }
    public = hexadecimal("public", key.get("public"), _HEX_64)
    # If the horizon is 0, the manifest does not state it.
    horizon = whole("horizon", problem.get("horizon", 0), 0, _MAX_STEPS)
    return {
        **document,
        "promise": {**promise, **checked_promise},
        "key": {**key, "public": public},
        "problem": {**problem, "horizon": horizon},
    }


def check_keys(value: Any) -> list[dict[str, str]]:
    """Return the list of a run's signing keys."""
    keys = entries("keys", fields("the keys", value).get("keys"), 0, _MAX_KEYS)
    return [_check_key(fields("a key", key)) for key in keys]


def _check_key(key: Fields) -> dict[str, str]:
    return {
        "id": hexadecimal("id", key.get("id"), _HEX_16),
        "public": hexadecimal("public", key.get("public"), _HEX_64),
        "endorsed_by": hexadecimal("endorsed_by", key.get("endorsed_by") or "0" * 16, _HEX_16),
        "endorsement": hexadecimal("endorsement", key.get("endorsement") or "0" * 128, _HEX_128),
    }


def check_round(value: Any, run: str, generation: int, *, local: bool) -> dict[str, Any]:
    """Return the round of this run and this generation.

    Under local privacy it says how messages are made. Otherwise that part is left out.
    """
    document = fields("the round", value)
    one_of("format", document.get("format"), (ROUND_FORMAT,))
    stated_generation = whole("generation", document.get("generation"), 0, _MAX_SAFE_INTEGER)
    if document.get("run") != run or stated_generation != generation:
        raise InvalidDocument("the round is of another run or another release")
    policies = entries("policies", document.get("policies"), 1, _MAX_POLICIES)
    shares = entries("shares", document.get("shares"), len(policies), len(policies))
    checked: dict[str, Any] = {
        "format": ROUND_FORMAT,
        "run": run,
        "generation": generation,
        "round": hexadecimal("round", document.get("round"), _HEX_64),
        "policies": [_check_policy(policy) for policy in policies],
        "shares": [real("a share", share, 0.0, 1.0) for share in shares],
    }
    if not sum(checked["shares"]) > 0:
        raise InvalidDocument("the shares of the policies must have a positive sum")
    if local:
        channel = check_channel(document.get("channel"))
        checked["channel"] = channel
        checked["statistic"] = check_statistic(document.get("statistic"), channel)
    return checked


def _check_policy(value: Any) -> dict[str, Any]:
    policy = fields("a policy", value)
    match policy.get("kind"):
        case "tabular":
            return _check_tabular(policy)
        case "stochastic":
            return _check_stochastic(policy)
        case "linear":
            gains = rectangle("gains", policy.get("gains"), 3, _check_policy_number)
            return {"kind": "linear", "gains": gains}
        case "context":
            return _check_context(policy)
        case "random":
            choices = whole("choices", policy.get("choices"), 1, _MAX_CHOICES)
            return {"kind": "random", "choices": choices}
    raise InvalidDocument("this client does not know the kind of a policy of the round")


def _check_policy_number(value: Any) -> float:
    return real("a number of a policy", value, -_MAX_POLICY_NUMBER, _MAX_POLICY_NUMBER)


def _check_tabular(policy: Fields) -> dict[str, Any]:
    choices = whole("choices", policy.get("choices"), 1, _MAX_CHOICES)

    def check_action(value: Any) -> int:
        return whole("an action", value, 0, choices - 1)

    actions = rectangle("actions", policy.get("actions"), 2, check_action)
    return {"kind": "tabular", "choices": choices, "actions": actions}


def _check_stochastic(policy: Fields) -> dict[str, Any]:
    def check_probability(value: Any) -> float:
        return real("a probability", value, 0.0, 1.0)

    weights = rectangle("weights", policy.get("weights"), 3, check_probability)
    if not all(sum(row) > 0 for step in weights for row in step):
        raise InvalidDocument("the probabilities of actions must have a positive sum")
    return {"kind": "stochastic", "weights": weights}


def _check_context(policy: Fields) -> dict[str, Any]:
    weights = rectangle("weights", policy.get("weights"), 1, _check_policy_number)
    widths = policy.get("widths")
    if widths is not None:
        widths = rectangle("widths", widths, 2, _check_policy_number)
        if len(widths[0]) != len(weights):
            raise InvalidDocument("widths must fit the weights")
    return {"kind": "context", "weights": weights, "widths": widths}


def check_channel(value: Any) -> dict[str, Any]:
    """Return how messages are made.

    What the noise is worth is not checked here: see `messages.mechanism_of`.
    """
    document = fields("the channel", value)
    noise = fields("noise", document.get("noise"))
    grid = real("grid", document.get("grid"), _MIN_GRID, _MAX_GRID)
    # The mantissa of a power of two is 0.5.
    if math.frexp(grid)[0] != 0.5:
        raise InvalidDocument("grid must be a power of two")
    channel: dict[str, Any] = {
        "size": whole("size", document.get("size"), 1, _MAX_COORDINATES),
        "id": hexadecimal("id", document.get("id"), _HEX_16),
        "grid": grid,
        "source": one_of("source", document.get("source"), ("secure", "fast")),
    }
    match noise.get("distribution"):
        case "codebook" | "signs":
            kind = one_of("kind", document.get("kind"), ("index",))
            return {**channel, "kind": kind, "noise": _check_report(noise, channel["size"])}
        case "gaussian" | "laplace":
            kind = one_of("kind", document.get("kind"), ("numbers",))
            return {**channel, "kind": kind, "noise": _check_additive(noise, channel)}
    raise InvalidDocument(
        "this client knows no noise of this distribution: use confide.agents.LocalClient"
    )


def _check_additive(noise: Fields, channel: Fields) -> dict[str, Any]:
    """Return noise that is added to a contribution.

    Only simulations have noise on the reals, without a step. A real person's device draws on the
    grid of the contributions.
    """
    step = noise.get("step")
    grid = channel["grid"]
    is_on_reals = step is None and channel["source"] == "fast"
    if not is_on_reals and (isinstance(step, bool) or step != grid):
        raise InvalidDocument("the lattice of the noise must be the grid of the contributions")
    return {
        "distribution": noise["distribution"],
        "scale": real("scale", noise.get("scale"), _MIN_WIDTH * grid, _MAX_WIDTH * grid),
        "step": None if step is None else grid,
    }


def _check_report(noise: Fields, size: int) -> dict[str, Any]:
    """Return how an index is drawn.

    Required for privacy: what a report counts must be true for every contribution, because its
    epsilon rests on nothing else.
    """
    whole("size", size, 1, _MAX_REPORT_COORDINATES)
    report = {
        "distribution": noise["distribution"],
        "radius": real("radius", noise.get("radius"), _MIN_RADIUS, _MAX_RADIUS),
        "epsilon": real("epsilon", noise.get("epsilon"), _MIN_POSITIVE, _MAX_REAL),
    }
    if noise["distribution"] == "codebook":
        vectors = whole("vectors", noise.get("vectors"), 2, _MAX_VECTORS)
        nearest = whole("nearest", noise.get("nearest"), 1, vectors - 1)
        return {**report, "vectors": vectors, "nearest": nearest}
    asked_signs = whole("asked", noise.get("asked"), 1, min(size, _MAX_SIGNS))
    nearest = whole("nearest", noise.get("nearest"), 1, 2**asked_signs - 1)
    # How many patterns of signs differ from one of them in at most so many places.
    counts = [
        sum(math.comb(asked_signs, places) for places in range(most_places + 1))
        for most_places in range(asked_signs)
    ]
    if nearest not in counts:
        raise InvalidDocument("nearest must count all patterns that differ in few places")
    return {**report, "asked": asked_signs, "nearest": nearest}


def check_statistic(value: Any, channel: Fields) -> dict[str, Any]:
    """Return the tables from which a contribution is computed.

    All lengths fit each other and the channel.
    """
    kind = None if value is None else fields("the statistic", value).get("kind")
    match kind:
        case "transitions":
            return _check_transitions(value, channel)
        case "answers":
            return _check_answers(value, channel)
        case "budget":
            return _check_budget(value, channel)
    raise InvalidDocument(
        "this client cannot compute what this run's users contribute: "
        "use confide.agents.LocalClient"
    )


def _check_transitions(statistic: Fields, channel: Fields) -> dict[str, Any]:
    """Return a table of rows, one for each (state, action, next state): [state, action, next, :].

    A contribution has one row for each step, so its numbers stay below `WHOLE_LIMIT`.
    """
    steps = whole("steps", statistic.get("steps"), 1, _MAX_STEPS)
    most = WHOLE_LIMIT // steps - 1

    def check_number(value: Any) -> int:
        return whole("a number of the table", value, -most, most)

    table = rectangle("table", statistic.get("table"), 4, check_number)
    _check_size(steps * len(table[0][0][0]), channel)
    return {"kind": "transitions", "steps": steps, "table": table}


def _check_answers(statistic: Fields, channel: Fields) -> dict[str, Any]:
    """Return questions: `signs` of the answers [question, state, action, next], steps, rewards."""
    questions = channel["size"]
    # Half an answer is a whole number of steps of such a grid, and smaller than `WHOLE_LIMIT`.
    if not 1 / WHOLE_LIMIT < channel["grid"] <= 0.5:
        raise InvalidDocument("the grid is too coarse or too fine for answers")
    steps = entries("steps", statistic.get("steps"), questions, questions)
    rewards = entries("rewards", statistic.get("rewards"), questions, questions)
    if not all(isinstance(about_reward, bool) for about_reward in rewards):
        raise InvalidDocument("rewards must be true or false")

    def check_sign(value: Any) -> int:
        return whole("a sign", value, -1, 1)

    signs = rectangle("signs", statistic.get("signs"), 4, check_sign)
    _check_size(len(signs), channel)
    return {
        "kind": "answers",
        "steps": [whole("a step", step, 0, _MAX_STEPS) for step in steps],
        "signs": signs,
        "rewards": list(rewards),
    }


def _check_budget(statistic: Fields, channel: Fields) -> dict[str, Any]:
    """Return how visits of pairs of a state and an action are paid from a user's budget.

    Pair p has the cost `costs[p]` and the next states `successors[indptr[p]:indptr[p + 1]]`. A
    contribution has a number for each of these, and one for the rewards of each pair if `balance`
    is not 0.
    """
    layers = whole("layers", statistic.get("layers"), 1, _MAX_STEPS)
    states = whole("states", statistic.get("states"), 1, _MAX_NUMBERS)
    actions = whole("actions", statistic.get("actions"), 1, _MAX_NUMBERS)
    steps = whole("steps", statistic.get("steps"), 1, _MAX_STEPS)
    balance = whole("balance", statistic.get("balance"), 0, _MAX_BALANCE)
    pairs = layers * states * actions
    if pairs > _MAX_NUMBERS:
        raise InvalidDocument("the round has too many pairs of a state and an action")
    costs = entries("costs", statistic.get("costs"), pairs, pairs)
    successors = entries("successors", statistic.get("successors"), 1, _MAX_NUMBERS)
    edges = entries("indptr", statistic.get("indptr"), pairs + 1, pairs + 1)
    indptr = [whole("a place", edge, 0, len(successors)) for edge in edges]
    covers_all = indptr[0] == 0 and indptr[-1] == len(successors)
    if not covers_all or any(low > high for low, high in pairwise(indptr)):
        # Required for privacy: if two pairs shared a place, what they add would add up.
        raise InvalidDocument("the pairs of a budget must have places of their own")
    _check_size(len(successors) + (pairs if balance else 0), channel)
    return {
        "kind": "budget",
        "layers": layers,
        "states": states,
        "actions": actions,
        "steps": steps,
        "balance": balance,
        "indptr": indptr,
        "successors": [whole("a successor", state, 0, states - 1) for state in successors],
        "costs": [whole("a cost", cost, 0, BUDGET) for cost in costs],
    }


def _check_size(numbers: int, channel: Fields) -> None:
    if numbers != channel["size"]:
        raise InvalidDocument(
            f"the statistic has {numbers} numbers, and the channel {channel['size']}"
        )


# values


def fields(name: str, value: Any) -> Fields:
    """Return an object of JSON. `name` is for the error, here and below."""
    if not isinstance(value, dict):
        raise InvalidDocument(f"{name} must be an object")
    return value


def whole(name: str, value: Any, least: int, most: int) -> int:
    """Return a whole number.

    JSON has one kind of number: 2.0 is the whole number 2, as in JavaScript.
    """
    if type(value) is float and value.is_integer() and abs(value) <= _MAX_SAFE_INTEGER:
        value = int(value)
    if type(value) is not int or not least <= value <= most:
        raise InvalidDocument(f"{name} must be a whole number from {least} to {most}")
    return value


def real(name: str, value: Any, least: float, most: float) -> float:
    """Return a number in a range."""
    if type(value) not in (int, float) or not least <= value <= most:
        raise InvalidDocument(f"{name} must be a number from {least:g} to {most:g}")
    return float(value)


def hexadecimal(name: str, value: Any, pattern: re.Pattern[str]) -> str:
    """Return a text of hexadecimal digits."""
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise InvalidDocument(f"{name} is not the text that it must be")
    return value


def one_of(name: str, value: Any, choices: Sequence[str]) -> str:
    """Return one of a few texts."""
    if not isinstance(value, str) or value not in choices:
        raise InvalidDocument(f"{name} must be {' or '.join(choices)}")
    return value


def entries(name: str, value: Any, least: int, most: int) -> list[Any]:
    """Return a list with `least` to `most` entries, which are not checked yet."""
    if not isinstance(value, list) or not least <= len(value) <= most:
        expected = least if least == most else f"{least} to {most}"
        raise InvalidDocument(f"{name} must be a list with {expected} entries")
    return value


def rectangle(name: str, value: Any, depth: int, check: Callable[[Any], Any]) -> list[Any]:
    """Return lists of lists of checked numbers, of which all on one level are equally long.

    The depth is the caller's, never the server's.
    """
    shape: list[int] = []
    first_part = value
    numbers = 1
    for _ in range(depth):
        length = len(entries(name, first_part, 1, _MAX_NUMBERS))
        shape.append(length)
        numbers *= length
        first_part = first_part[0]
    if numbers > _MAX_NUMBERS:
        raise InvalidDocument(f"{name} has more than {_MAX_NUMBERS} numbers")

    def copy(part: Any, level: int) -> Any:
        if level == depth:
            return check(part)
        length = shape[level]
        return [copy(entry, level + 1) for entry in entries(name, part, length, length)]

    checked: list[Any] = copy(value, 0)
    return checked
