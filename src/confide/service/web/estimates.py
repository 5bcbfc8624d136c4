"""What the planner's model says about the policies that were served.

It is a function of a manifest and its releases alone. The learner is made anew from the manifest,
and is the right one if it has the settings that the manifest names. It plans from each release, as
every device does, and draws no noise. Required for privacy: of the service's own modules this one
imports those that are public (tests/test_architecture.py).
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
from confide.planners.policy_value import PlayedRound, RoundValues
from confide.policy import StochasticPolicy, TabularPolicy
from confide.privatizers import Schedule
from confide.privatizers.wire import decode_release
from confide.service.core.spec import Batching, ServiceRunSpec
from confide.service.documents import ReleaseRow

# At most so many rounds are planned again. If there are more releases, these stand for their
# neighbours. A matter of taste: a page must be made within seconds.
MAX_ROUNDS = 64
# A page plans for problems with at most so many steps times states times actions. A matter of
# taste.
MAX_PROBLEM_SIZE = 20_000
TOO_LARGE = (
    "The problem is large. This page does not plan for it, so the value of the policy is not "
    "estimated here."
)
NO_MODEL = (
    "The value of the policy is not estimated here. That needs a model of the whole problem with "
    "standard errors, from releases alone; the planner of this agent works with bounds or with "
    "samples, which give none."
)
NOT_MADE = (
    "This page could not make the learner that the manifest names, so the value of its policy is "
    "not estimated here."
)


@dataclass(frozen=True, slots=True)
class Estimates:
    """The values of the policies that were served, and the signal that the planners saw.

    `valued` belongs to `generations`. Without it, `reason` says why. `signals` are by generation,
    in the units of the noise. `next_batch` is how many users the open batch has, where the schedule
    says so.
    """

    generations: tuple[int, ...]
    signals: dict[int, float]
    valued: RoundValues | None
    reason: str
    next_batch: int | None = None


def estimates(manifest: bytes, releases: Sequence[ReleaseRow]) -> Estimates:
    """Return the estimates. Releases are in the order of their generations, release 0 first."""
    problem = json.loads(manifest)["problem"]
    problem_size = math.prod(problem.get(name, 1) for name in ("horizon", "states", "actions"))
    if problem_size > MAX_PROBLEM_SIZE:
        return Estimates((), {}, None, TOO_LARGE)
    try:
        learner = learner_of(manifest)
    except (ConfideError, ImportError):
        return Estimates((), {}, None, NOT_MADE)
    count = min(MAX_ROUNDS, len(releases))
    positions = np.unique(np.linspace(0, len(releases) - 1, count).astype(int)).tolist()
    rows = [releases[position] for position in positions]
    rounds = [_plan_round(manifest, row) for row in rows]
    valued, reason = _estimate_values(learner, rows, rounds)
    return Estimates(
        generations=tuple(row.generation for row in rows),
        signals={
            row.generation: planned.signal
            for row, planned in zip(rows, rounds, strict=True)
            if planned is not None and planned.signal is not None
        },
        valued=valued,
        reason=reason,
        next_batch=_next_batch_size(learner, rows[-1]),
    )


def _estimate_values(
    learner: Learner, rows: Sequence[ReleaseRow], rounds: Sequence[Round | None]
) -> tuple[RoundValues | None, str]:
    """Return the values of the policies of these rounds, or why there are none."""
    estimate_values = getattr(learner.algorithm, "valued", None)
    if estimate_values is None:
        return None, NO_MODEL
    # A release says how many users it and all before it have. Nobody was served the newest round.
    users = np.diff([_users(row) for row in rows], append=_users(rows[-1])).tolist()
    played: list[PlayedRound] = []
    for planned, users_of_round in zip(rounds, users, strict=True):
        policies = _played_policies(planned, users_of_round)
        if policies is None:
            return None, NO_MODEL
        played.append(policies)
    try:
        return estimate_values(_decode_release(learner, rows[-1]), played), ""
    except (ConfideError, np.linalg.LinAlgError):
        return None, NOT_MADE


@lru_cache(maxsize=32)
def learner_of(manifest: bytes) -> Learner:
    """Make the learner that a manifest names. It draws no noise, so any source will do."""
    document = json.loads(manifest)
    learner = spec_of(document).make_learner(noise_source("fast"))
    if learner.settings != document["agent"]["settings"]:
        raise ConfideError("the learner has other settings than the manifest names")
    return learner


def spec_of(manifest: dict[str, Any]) -> ServiceRunSpec:
    """Return the settings of a run that decide about its learner."""
    promise = manifest["promise"]
    problem = manifest["problem"]
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
def _plan_round(manifest: bytes, row: ReleaseRow) -> Round | None:
    """Return the round that follows from a release.

    There is none where nothing is left to plan: after the last release of some learners.
    """
    learner = learner_of(manifest)
    try:
        return learner.algorithm.plan(_decode_release(learner, row))
    except ConfideError:
        return None


def _next_batch_size(learner: Learner, row: ReleaseRow) -> int | None:
    schedule = learner.schedule
    if not isinstance(schedule, Schedule) or row.generation >= schedule.leaves:
        return None
    users_before = schedule.times[row.generation - 1] if row.generation else 0
    return schedule.times[row.generation] - users_before


def _decode_release(learner: Learner, row: ReleaseRow) -> Any:
    return decode_release(row.body, learner.guarantee, run=row.run, settings=learner.settings)


def _users(row: ReleaseRow) -> int:
    from confide.mechanisms.state import unpack

    return int(unpack(row.body, "release", released=0).facts["users"])


def _played_policies(planned: Round | None, users: int) -> PlayedRound | None:
    """Return how users were served in a round, if all of its policies are for finite problems."""
    if planned is None:
        return None
    finite_policies = tuple(
        policy
        for policy in planned.policies
        if isinstance(policy, TabularPolicy | StochasticPolicy)
    )
    if len(finite_policies) < len(planned.policies):
        return None
    shares = planned.shares or (1.0,) * len(finite_policies)
    return PlayedRound(finite_policies, shares, users)
