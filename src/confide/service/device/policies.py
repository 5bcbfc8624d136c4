"""How a device acts: a policy of a round, as the plain tables that a server sends.

The tables were checked (`checks.py`). A policy is a function of a release and of a number that the
device draws before it has data. The names of the kinds are a wire format.
"""

import random
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from confide.arguments import whole
from confide.errors import InvalidParameter

# A device draws a number with so many bits, which chooses its policy.
CHOICE_BITS = 128


def act(policy: Mapping[str, Any], step: int, state: Any) -> Any:
    """Return the action of a policy of a round.

    Where the policy is random, the system's entropy decides.
    """
    match policy["kind"]:
        case "tabular":
            actions = policy["actions"][_index("step", step, policy["actions"])]
            return actions[_index("state", state, actions)]
        case "stochastic":
            table = policy["weights"][_index("step", step, policy["weights"])]
            weights = table[_index("state", state, table)]
            return random.SystemRandom().choices(range(len(weights)), weights)[0]
        case "random":
            return secrets.randbelow(policy["choices"])
        case "linear":
            gains = policy["gains"][_index("step", step, policy["gains"])]
            return (np.asarray(gains) @ np.asarray(state, dtype=float)).tolist()
        case "context":
            # One row of features per action. The widths reward features that are not yet known.
            features = np.asarray(state, dtype=float)
            scores = features @ np.asarray(policy["weights"])
            if policy["widths"] is not None:
                scores = scores + np.linalg.norm(features @ np.asarray(policy["widths"]).T, axis=-1)
            return int(scores.argmax())
    raise InvalidParameter(f"this client knows no policy of kind {policy['kind']!r}")


def choose_policy(document: Mapping[str, Any], number: int) -> Mapping[str, Any]:
    """Return the policy of a device that drew `number`, as `Round.draw_policy` does.

    A policy with a larger share has more numbers.
    """
    edges = np.cumsum(document["shares"])
    point = number / 2.0**CHOICE_BITS * edges[-1]
    policy: Mapping[str, Any] = document["policies"][
        int(np.searchsorted(edges[:-1], point, side="right"))
    ]
    return policy


def _index(name: str, value: Any, rows: Sequence[Any]) -> int:
    """Return an index of `rows`. A negative one is refused: Python would count it from the end."""
    return whole(name, value, at_least=0, at_most=len(rows) - 1)
