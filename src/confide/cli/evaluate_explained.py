"""confide evaluate --explain: which estimator to use for a log, and what each would release, from public numbers alone."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from confide.cli.options import print_json

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from confide.privacy.request import Request

# standard deviations of noise: a row with so many visits is told from noise, as `ModelRelease.warnings` says
_TOLD = 3.0
_TRANSITIONS = 20  # of a person, the default of `confide learn`


def read_behaviour(path: Path | None) -> "npt.NDArray[np.float64] | None":
    """Public probabilities [s, a] of a policy, of a table, or of a released model."""
    from confide.errors import InvalidParameter
    from confide.offline import PrivateModel
    from confide.policy import FinitePolicy, load_policy
    from confide.release.inputs import read_table

    if path is None:
        return None
    if path.is_dir() or path.name == "model.npz":
        return PrivateModel.load(path).behaviour
    if path.suffix != ".npz":
        return read_table(path, "behaviour")
    policy = load_policy(path)
    if not isinstance(policy, FinitePolicy):
        raise InvalidParameter(
            f"--behaviour must be a policy over finitely many states and actions, got {type(policy).__name__}"
        )
    steps: npt.NDArray[np.float64] = policy.probabilities()
    if (steps != steps[:1]).any():
        raise InvalidParameter("--behaviour must be the same at every step")
    first: npt.NDArray[np.float64] = steps[0]
    return first


def explained(
    files: list[str],
    layout: dict[str, Any],
    logged: tuple[str, str],
    states: int,
    options: dict[str, Any],
    privacy: "Request",
) -> dict[str, Any]:
    """What to use and why. The log's files are opened for the names of their columns; no row is read, and nothing is charged.

    `logged` are the columns of actions and of their probabilities, empty for their usual names; `options` those of `make_estimator`.
    """
    from confide.logs import open as open_logs
    from confide.privacy.loss import GaussianDP, loss_for
    from confide.privacy.request import NoPrivacy

    columns, action, probability = (
        _columns(open_logs(files, **layout)),
        logged[0] or "action",
        logged[1] or "probability",
    )
    known = {
        "actions": action in columns,
        "probabilities": probability in columns or options["behaviour"] is not None,
    }
    loss = None if isinstance(privacy, NoPrivacy) else loss_for(privacy)
    mu = loss.mu if isinstance(loss, GaussianDP) else None
    if options["target"] is None:
        use, why = (
            "counts-and-sums",
            "without --target the logged policy is evaluated, in every state",
        )
        return {"use": use, "why": why, **known, "methods": {use: _of_states(states)}}
    weights = options["target"]
    methods = {"model": _of_model(states, weights.shape[-1], mu, privacy)}
    methods["importance-sampling"] = _of_weights(weights, options["clip"], mu, privacy)
    if not known["actions"]:
        use, why = (
            "none",
            f"the log has no column {action!r}: the value of another policy cannot be estimated; name the column with --action",
        )
    elif not known["probabilities"]:
        use = "model"
        why = "the log has no probabilities of its actions: importance sampling needs them (--behaviour takes those of a released model)"
    else:
        use, why = "model", f"one release values every policy. {_rule(methods)}"
    return {"use": use, "why": why, **known, "methods": methods}


def _columns(logs: Any) -> set[str]:
    """The columns that every file has."""
    named = [set(part.source.schema().names) for part in logs.parts]
    return set.intersection(*named) if named else set()


def _rule(methods: dict[str, dict[str, Any]]) -> str:
    people = methods["model"].get("people")
    enough = f"with fewer than about {people:,} users, or " if people else ""
    return f"Use importance sampling instead {enough}if the next state depends on more than the recorded state and action"


def _of_states(states: int) -> dict[str, Any]:
    return {
        "releases": f"{2 * states:,} noisy numbers: a count and a sum of returns for each state",
        "numbers": 2 * states,
    }


def _of_model(states: int, actions: int, mu: float | None, privacy: "Request") -> dict[str, Any]:
    from confide.offline import ModelRelease
    from confide.privacy.request import Relation

    bound = (
        ModelRelease(
            states=states,
            actions=actions,
            discount=0.9,
            transitions=_TRANSITIONS,
            ends=True,
            reward_range=(0.0, 1.0),
        )
        .statistic()
        .bound
    )
    found: dict[str, Any] = {
        "command": "confide learn LOG --out learned, then confide.offline.PrivateModel.load('learned').value(policy)",
        "releases": (
            f"{bound.size:,} noisy numbers, once: counts of transitions, row totals, "
            "rows that were cut off, sums of rewards, first states"
        ),
        "numbers": bound.size,
        "assumes": "the next state and the reward depend only on the recorded state and action",
    }
    if mu is not None:
        std = bound.sensitivity(Relation(privacy.relation)) / mu
        visits = _TOLD * std / (bound.total_weight or 1.0)
        found |= {"noise": f"standard deviation {std:.3g} on a count", "noise_std": std}
        found["people"] = math.ceil(visits * states * actions / _TRANSITIONS)
    return found


def _of_weights(
    weights: "npt.NDArray[np.float64]", clip: float | None, mu: float | None, privacy: "Request"
) -> dict[str, Any]:
    from confide.evaluation import ImportanceSampling
    from confide.privacy.request import Relation

    asked = (
        ImportanceSampling(weights, return_bound=1.0)
        if clip is None
        else ImportanceSampling(weights, clip=clip, return_bound=1.0)
    )
    bound = asked.statistic().bound
    found: dict[str, Any] = {
        "command": "confide evaluate LOG --estimator importance-sampling --target POLICY",
        "releases": "a weighted mean return, and second moments for its interval; again for every policy",
        "assumes": "actions were taken with the stated probabilities; the interval covers what clipping removes",
    }
    if mu is not None:
        # A value is a sum of weights and of weighted returns, each of which has noise.
        per_sum = math.hypot(1 / bound.weight, 1 / bound.worth)
        std = (
            asked.clip
            * per_sum
            * bound.sensitivity(Relation(privacy.relation))
            / (mu * math.sqrt(1 - asked.interval_share))
        )
        found |= {
            "noise": f"standard deviation {std:.3g} / users, as a share of half the range of returns",
            "noise_std": std,
        }
    return found


def show_explained(found: dict[str, Any], as_json: bool) -> None:
    from confide.cli.log_release import print_summary

    if as_json:
        print_json(found)
        return
    has = ["no ", ""]
    columns = f"the log has {has[found['actions']]}actions, and {has[found['probabilities']]}probabilities of them"
    words = [("use", found["use"]), ("because", f"{found['why']}."), ("known", columns)]
    for name, method in found["methods"].items():
        words += [
            (name, f"{key}: {method[key]}")
            for key in ("releases", "noise", "assumes", "command")
            if key in method
        ]
    print_summary("Which estimator for this log? No row was read, and nothing was charged.", words)
    typer.echo('docs: evaluation.md and offline.md, "Model or importance sampling?"')
