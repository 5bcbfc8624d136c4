"""confide evaluate --explain: which estimator to use for a log, and what each would release.

Everything is computed from public numbers: no row of the log is read.
"""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from confide.cli.options import print_json

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from confide.privacy.request import Request

# A state and action needs visits of so many standard deviations of the noise to be distinguished
# from noise. A matter of taste, which `ModelRelease.warnings` shares.
_DISTINGUISHED_STDS = 3.0
# Transitions of each user that count: the default of `confide learn`.
_TRANSITIONS = 20


def read_behaviour(path: Path | None) -> "npt.NDArray[np.float64] | None":
    """Public probabilities [s, a] from the file of a policy, of a table or of a released model."""
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
            "--behaviour must be a policy over finitely many states and actions, "
            f"got {type(policy).__name__}"
        )
    # [step, state, action]
    probabilities: npt.NDArray[np.float64] = policy.probabilities()
    if (probabilities != probabilities[:1]).any():
        raise InvalidParameter("--behaviour must be the same at every step")
    first_step: npt.NDArray[np.float64] = probabilities[0]
    return first_step


def explain_estimators(
    files: list[str],
    layout: dict[str, Any],
    logged_columns: tuple[str, str],
    states: int,
    options: dict[str, Any],
    privacy: "Request",
) -> dict[str, Any]:
    """Which estimator to use and why, and what each would release.

    The log's files are opened for the names of their columns. No row is read, and nothing is
    charged. `logged_columns` names the columns of actions and of their probabilities. `options`
    are those of `make_estimator`.
    """
    from confide.logs import open as open_logs
    from confide.privacy.loss import GaussianDP, loss_for
    from confide.privacy.request import NoPrivacy

    columns = _columns(open_logs(files, **layout))
    action, probability = logged_columns
    has = {
        "actions": action in columns,
        "probabilities": probability in columns or options["behaviour"] is not None,
    }
    loss = None if isinstance(privacy, NoPrivacy) else loss_for(privacy)
    mu = loss.mu if isinstance(loss, GaussianDP) else None
    target = options["target"]
    if target is None:
        use = "counts-and-sums"
        why = "without --target the logged policy is evaluated, in every state"
        return {"use": use, "why": why, **has, "methods": {use: _explain_state_values(states)}}
    model = _explain_model(states, target.shape[-1], mu, privacy)
    methods = {
        "model": model,
        "importance-sampling": _explain_importance_sampling(target, options["clip"], mu, privacy),
    }
    if not has["actions"]:
        use = "none"
        why = (
            f"the log has no column {action!r}: the value of another policy cannot be estimated; "
            "name the column with --action"
        )
    elif not has["probabilities"]:
        use = "model"
        why = (
            "the log has no probabilities of its actions: importance sampling needs them "
            "(--behaviour takes those of a released model)"
        )
    else:
        use = "model"
        why = f"one release values every policy. {_when_importance_sampling(model)}"
    return {"use": use, "why": why, **has, "methods": methods}


def _columns(logs: Any) -> set[str]:
    """The columns that every file has."""
    by_file = [set(part.source.schema().names) for part in logs.parts]
    return set.intersection(*by_file) if by_file else set()


def _when_importance_sampling(model: dict[str, Any]) -> str:
    users = model.get("people")
    few_users = f"with fewer than about {users:,} users, or " if users else ""
    return (
        f"Use importance sampling instead {few_users}"
        "if the next state depends on more than the recorded state and action"
    )


def _explain_state_values(states: int) -> dict[str, Any]:
    numbers = 2 * states
    return {
        "releases": f"{numbers:,} noisy numbers: a count and a sum of returns for each state",
        "numbers": numbers,
    }


def _explain_model(
    states: int, actions: int, mu: float | None, privacy: "Request"
) -> dict[str, Any]:
    from confide.offline import ModelRelease
    from confide.privacy.request import Relation

    question = ModelRelease(
        states=states,
        actions=actions,
        # The bound depends on the numbers of states, actions and transitions alone.
        discount=0.9,
        transitions=_TRANSITIONS,
        ends=True,
        reward_range=(0.0, 1.0),
    )
    bound = question.statistic().bound
    facts: dict[str, Any] = {
        "command": "confide learn LOG --out learned, "
        "then confide.offline.PrivateModel.load('learned').value(policy)",
        "releases": f"{bound.size:,} noisy numbers, once: counts of transitions, row totals, "
        "rows that were cut off, sums of rewards, first states",
        "numbers": bound.size,
        "assumes": "the next state and the reward depend only on the recorded state and action",
    }
    if mu is not None:
        std = bound.sensitivity(Relation(privacy.relation)) / mu
        visits = _DISTINGUISHED_STDS * std / (bound.total_weight or 1.0)
        facts |= {
            "noise": f"standard deviation {std:.3g} on a count",
            "noise_std": std,
            "people": math.ceil(visits * states * actions / _TRANSITIONS),
        }
    return facts


def _explain_importance_sampling(
    target: "npt.NDArray[np.float64]", clip: float | None, mu: float | None, privacy: "Request"
) -> dict[str, Any]:
    from confide.evaluation import ImportanceSampling
    from confide.privacy.request import Relation

    options: dict[str, Any] = {} if clip is None else {"clip": clip}
    question = ImportanceSampling(target, **options, return_bound=1.0)
    bound = question.statistic().bound
    facts: dict[str, Any] = {
        "command": "confide evaluate LOG --estimator importance-sampling --target POLICY",
        "releases": "a weighted mean return, and second moments for its interval; "
        "again for every policy",
        "assumes": "actions were taken with the stated probabilities; "
        "the interval covers what clipping removes",
    }
    if mu is not None:
        # A value is a sum of weights and of weighted returns, each of which has noise.
        std_per_sum = math.hypot(1 / bound.weight, 1 / bound.worth)
        sensitivity = bound.sensitivity(Relation(privacy.relation))
        mu_of_value = mu * math.sqrt(1 - question.interval_share)
        std = question.clip * std_per_sum * sensitivity / mu_of_value
        facts |= {
            "noise": f"standard deviation {std:.3g} / users, "
            "as a share of half the range of returns",
            "noise_std": std,
        }
    return facts


def print_explanation(explanation: dict[str, Any], as_json: bool) -> None:
    from confide.cli.log_release import print_summary

    if as_json:
        print_json(explanation)
        return
    actions = "actions" if explanation["actions"] else "no actions"
    probabilities = "probabilities" if explanation["probabilities"] else "no probabilities"
    lines = [
        ("use", explanation["use"]),
        ("because", f"{explanation['why']}."),
        ("known", f"the log has {actions}, and {probabilities} of them"),
    ]
    for name, method in explanation["methods"].items():
        keys = [key for key in ("releases", "noise", "assumes", "command") if key in method]
        lines += [(name, f"{key}: {method[key]}") for key in keys]
    print_summary("Which estimator for this log? No row was read, and nothing was charged.", lines)
    typer.echo('docs: evaluation.md and offline.md, "Model or importance sampling?"')
