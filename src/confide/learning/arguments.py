"""Checks of the arguments that learners share."""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arguments import choice, has, integers, kind, real, shown, whole
from confide.errors import InvalidParameter, PrivacyError
from confide.privacy.request import CentralDP, DistributedDP, JointDP, LocalDP, NoPrivacy
from confide.privatizers import AtMost, Schedule

CALIBRATIONS = ("tight", "paper")
# The sums of so many users are exact, because contributions are whole multiples of 2^-24 of the
# largest one. Required for privacy: otherwise rounding could depend on one user by more than the
# noise allows for.
EXACT_USERS = 2**29 - 1


def check_exact(episodes: int) -> None:
    """Raise an error if there are more users than can be added up exactly."""
    whole("episodes", episodes, at_most=EXACT_USERS)


def check_choices(calibration: str, bonus_scale: float | None, failure: float = 0.1) -> None:
    choice("calibration", calibration, CALIBRATIONS)
    if bonus_scale is not None:
        real("bonus_scale", bonus_scale, at_least=0)
    real("failure", failure, above=0, below=1)


def check_episodes_and_privacy(episodes: Any, privacy: Any, *, distributed: bool = False) -> None:
    """Check the arguments that every learner has.

    `Learner` calls this. An agent that computes with the arguments before that calls it first.
    """
    if isinstance(privacy, DistributedDP) and not distributed:
        raise PrivacyError(
            "this agent does not support DistributedDP yet: use LikelihoodVI, or JointDP or LocalDP"
        )
    if not isinstance(privacy, CentralDP | JointDP | LocalDP | DistributedDP | NoPrivacy):
        raise InvalidParameter(
            f"privacy must be JointDP, LocalDP or NoPrivacy, got {type(privacy).__name__}"
        )
    whole("episodes", episodes, at_least=1)


def check_calibration(calibration: Any, privacy: Any, *, distributed: bool) -> None:
    """Check what every learner is made from: an algorithm and a schedule of releases."""
    kind("schedule", calibration.schedule, Schedule, AtMost)
    has(
        "algorithm",
        calibration.algorithm,
        ("bound",),
        "an algorithm: a bound, and a function from releases to rounds",
    )
    check_episodes_and_privacy(calibration.schedule.users, privacy, distributed=distributed)


def check_policies(policies: Any) -> None:
    """Check the policies of one round: there must be at least one."""
    if not isinstance(policies, tuple) or not policies:
        raise InvalidParameter(
            f"policies must be a tuple of at least one policy, got {shown(policies)}"
        )


def choose_schedule(schedule: Schedule | None, default: Schedule) -> Schedule:
    """Return the caller's schedule, if it covers as many users as the default, or the default."""
    if schedule is not None and not isinstance(schedule, Schedule):
        raise InvalidParameter(
            f"schedule must be a Schedule, got {type(schedule).__name__}: "
            "only lsvi-ucb takes plans of batches"
        )
    if schedule is not None and schedule.users != default.users:
        raise InvalidParameter(
            f"the schedule ends after {schedule.users} users, episodes={default.users}"
        )
    return schedule or default


def whole_steps(total: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """Return a sum in whole steps of the grid.

    Sums of a service are 64-bit integers. They are taken whatever they are (see `clip_sum`).
    """
    if isinstance(total, np.ndarray) and total.dtype == np.int64:
        return total
    try:
        return integers("total", total)
    except InvalidParameter as error:
        # The sum is private, so an error says what is wrong with it without its numbers.
        raise InvalidParameter.of("total", error.problem) from None
