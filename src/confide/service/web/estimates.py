"""What the planner's model says about the policies that were served: a function of a manifest and its releases alone.

The learner is made anew from the manifest, and is the right one if it has the settings that the manifest names. It plans from each release,
as every device does, and draws no noise. Of the service's own modules this one imports those that are public (tests/test_architecture.py).
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from confide.errors import ConfideError
from confide.learning.algorithm import Round
from confide.learning.learner import Learner
from confide.mechanisms.sources import noise_source
from confide.planners.policy_value import Played, Valued
from confide.policy import StochasticPolicy, TabularPolicy
from confide.privatizers import Schedule
from confide.privatizers.wire import decode_release
from confide.service.core.spec import Batching, ServiceRunSpec
from confide.service.documents import ReleaseRow

MOST = 64  # rounds that are looked at; of more of them, these stand for their neighbours
LARGEST = 20_000  # steps times states times actions of a problem that a page plans for
TOO_LARGE = "The problem is large. This page does not plan for it, so the value of the policy is not estimated here."
NO_MODEL = (
    "The value of the policy is not estimated here. That needs a model of the whole problem with standard errors, from releases alone; "
    "the planner of this agent works with bounds or with samples, which give none."
)
NOT_MADE = "This page could not make the learner that the manifest names, so the value of its policy is not estimated here."


@dataclass(frozen=True, slots=True)
class Estimates:
    """`valued` belongs to `generations`; without one `reason` says why. `signals` are by generation, in the units of the noise."""

    generations: tuple[int, ...]
    signals: dict[int, float]
    valued: Valued | None
    reason: str
    # how many users the open batch has at most, where the schedule says so
    next_batch: int | None = None


def estimates(manifest: bytes, releases: Sequence[ReleaseRow]) -> Estimates:
    """From the releases in the order of their generations, release 0 first."""
    problem = json.loads(manifest)["problem"]
    if math.prod(problem.get(name, 1) for name in ("horizon", "states", "actions")) > LARGEST:
        return Estimates((), {}, None, TOO_LARGE)
    try:
        learner = learner_of(manifest)
    except (ConfideError, ImportError):
        return Estimates((), {}, None, NOT_MADE)
    chosen = np.unique(
        np.linspace(0, len(releases) - 1, min(MOST, len(releases))).astype(int)
    ).tolist()
    rows = [releases[i] for i in chosen]
    rounds = [_planned(manifest, row) for row in rows]
    generations = tuple(row.generation for row in rows)
    signals = {
        row.generation: made.signal
        for row, made in zip(rows, rounds, strict=True)
        if made and made.signal is not None
    }
    weigh = getattr(learner.algorithm, "valued", None)
    size = _next_batch(learner, rows[-1])
    if weigh is None:
        return Estimates(generations, signals, None, NO_MODEL, size)
    users = np.diff([_users(row) for row in rows], append=_users(rows[-1])).tolist()
    played = [_played(made, count) for made, count in zip(rounds, users, strict=True)]
    if not all(played):
        return Estimates(generations, signals, None, NO_MODEL, size)
    try:
        found = weigh(_released(learner, rows[-1]), played)
    except (ConfideError, np.linalg.LinAlgError):
        return Estimates(generations, signals, None, NOT_MADE, size)
    return Estimates(generations, signals, found, "", size)


@lru_cache(maxsize=32)
def learner_of(manifest: bytes) -> Learner:
    """The learner that a manifest names; it draws no noise."""
    told = json.loads(manifest)
    made = spec_of(told).learner(noise_source("fast"))  # no noise is drawn here
    if made.settings != told["agent"]["settings"]:
        raise ConfideError("the learner has other settings than the manifest names")
    return made


def spec_of(manifest: dict[str, Any]) -> ServiceRunSpec:
    """What decides the learner of a run."""
    promise, problem = manifest["promise"], manifest["problem"]
    return ServiceRunSpec(
        name=manifest["run"],
        agent=manifest["agent"]["name"],
        problem=problem["name"],
        problem_seed=problem["seed"],
        horizon=problem["asked_horizon"],
        epsilon=promise["epsilon"],
        delta=promise["delta"],
        relation=promise["relation"],
        trust=promise["trust"],
        local_noise=manifest["local_noise"],
        users=manifest["users"],
        batch=Batching(schedule=manifest["batch"]["schedule"]),
        options=tuple(sorted(manifest["agent"]["options"].items())),
    )


@lru_cache(maxsize=512)
def _planned(manifest: bytes, row: ReleaseRow) -> Round | None:
    """None where there is nothing to plan: after the last release of some learners."""
    learner = learner_of(manifest)
    try:
        return learner.algorithm.plan(_released(learner, row))
    except ConfideError:
        return None


def _next_batch(learner: Learner, row: ReleaseRow) -> int | None:
    schedule = learner.schedule
    if not isinstance(schedule, Schedule) or row.generation >= schedule.leaves:
        return None
    return schedule.times[row.generation] - (
        schedule.times[row.generation - 1] if row.generation else 0
    )


def _released(learner: Learner, row: ReleaseRow) -> Any:
    return decode_release(row.body, learner.guarantee, run=row.run, settings=learner.settings)


def _users(row: ReleaseRow) -> int:
    from confide.mechanisms.state import unpack

    return int(unpack(row.body, "release", released=0).facts["users"])


def _played(made: Round | None, users: int) -> Played | None:
    if made is None:
        return None
    finite = tuple(
        policy for policy in made.policies if isinstance(policy, TabularPolicy | StochasticPolicy)
    )
    if len(finite) < len(made.policies):
        return None
    return Played(finite, made.shares or (1.0,) * len(finite), users)
