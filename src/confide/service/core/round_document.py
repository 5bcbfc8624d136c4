"""A round as plain tables, for clients that cannot plan. Public.

The tables say how users are served, what they contribute, and how devices send it. The document is
a wire format: its keys are read by `device/checks.py` and by clients/typescript, and its bytes are
signed. It is a function of releases alone, so a restart gives the same bytes.
"""

import json
from typing import Any

import numpy as np

from confide.errors import InvalidParameter
from confide.learning.learner import Learner
from confide.mechanisms.codebook import Codebook, SignReport
from confide.policy import (
    ContextPolicy,
    FeaturePolicy,
    LinearPolicy,
    Policy,
    RandomPolicy,
    StochasticPolicy,
    TabularPolicy,
)
from confide.privatizers import Channel
from confide.service.device.checks import ROUND_FORMAT


def round_document(run: str, learner: Learner) -> bytes:
    """Return the document of the open batch's round."""
    current = learner.current_round()
    policies = current.policies
    shares = current.shares or (1.0 / len(policies),) * len(policies)
    document: dict[str, Any] = {
        "format": ROUND_FORMAT,
        "run": run,
        "generation": learner.released().generation,
        "policies": [plain_policy(policy) for policy in policies],
        "shares": list(shares),
        "round": current.digest.hex(),
    }
    if learner.guarantee.trust.devices:
        describe_statistic = getattr(current.statistic, "plain", None)
        document["statistic"] = None if describe_statistic is None else describe_statistic()
        document["channel"] = plain_channel(learner.channel())
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def plain_policy(policy: Policy) -> dict[str, Any]:
    """Return a policy as JSON: clients act by it."""
    match policy:
        case TabularPolicy():
            return {
                "kind": "tabular",
                "actions": policy.actions.tolist(),
                "choices": policy.choices,
            }
        case StochasticPolicy():
            return {"kind": "stochastic", "weights": policy.weights.tolist()}
        case LinearPolicy():
            return {"kind": "linear", "gains": policy.gains.tolist()}
        case ContextPolicy():
            widths = None if policy.widths is None else policy.widths.tolist()
            return {"kind": "context", "weights": policy.weights.tolist(), "widths": widths}
        case RandomPolicy():
            return {"kind": "random", "choices": policy.choices}
        case FeaturePolicy():
            raise InvalidParameter(
                "a policy on features of observations cannot be served: "
                "devices would need its function"
            )
        case _:
            # `ServiceRunSpec.make_learner` refuses agents that plan for each person's start.
            raise InvalidParameter(f"devices cannot act by a {type(policy).__name__}")


def plain_channel(channel: Channel) -> dict[str, Any]:
    """Return how a device makes its message: the id that it names, and the noise."""
    noise = channel.noise
    if isinstance(noise, Codebook | SignReport):
        parameters: dict[str, Any] = {"radius": noise.radius, **noise.parameters}
    else:
        parameters = {
            "scale": noise.scale,
            "step": noise.step,
            "sensitivity": noise.sensitivity,
            "norm": noise.norm,
        }
    return {
        "id": channel.id.hex(),
        "kind": channel.kind,
        "size": channel.bound.size,
        "grid": channel.bound.grid,
        "source": channel.guarantee.source,
        "noise": {"distribution": noise.distribution, **parameters},
    }


def shapes(learner: Learner, public: Any) -> tuple[int, tuple[int, ...], tuple[int, ...]]:
    """Return the horizon of an episode, and the shapes of a state and of an action.

    They are public, and nobody's data decide them.
    """
    policy = learner.current_round().policies[0]
    horizon = int(getattr(public, "horizon", 1))
    if isinstance(policy, LinearPolicy):
        _, inputs, states = policy.gains.shape
        return horizon, (int(states),), (int(inputs),)
    if isinstance(policy, ContextPolicy):
        return horizon, (int(public.actions), int(np.size(policy.weights))), ()
    return horizon, (), ()
