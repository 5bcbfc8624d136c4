"""Checks of the arguments that learners share."""

import math
from numbers import Integral
from typing import Any

from confide.errors import InvalidParameter
from confide.privacy.request import CentralDP, JointDP, LocalDP, NoPrivacy
from confide.privatizers import Schedule

CALIBRATIONS = ("tight", "paper")


def check_choices(calibration: str, bonus_scale: float | None, failure: float = 0.1) -> None:
    if calibration not in CALIBRATIONS:
        raise InvalidParameter(f"calibration must be one of {', '.join(CALIBRATIONS)}, got calibration={calibration!r}")
    if bonus_scale is not None and not 0 <= bonus_scale < math.inf:
        raise InvalidParameter(f"bonus_scale must be finite and not negative, got bonus_scale={bonus_scale}")
    if not 0 < failure < 1:
        raise InvalidParameter(f"failure must be in (0, 1), got failure={failure}")


def check_asked(episodes: Any, privacy: Any) -> None:
    """Check the arguments of every learner. `Learner` does; an agent that computes with them before that calls it first."""
    if not isinstance(privacy, CentralDP | JointDP | LocalDP | NoPrivacy):
        raise InvalidParameter(f"privacy must be JointDP, LocalDP or NoPrivacy, got {type(privacy).__name__}")
    if isinstance(episodes, bool) or not isinstance(episodes, Integral) or episodes < 1:
        raise InvalidParameter(f"episodes must be a whole number, at least 1, got episodes={episodes!r}")


def choose_schedule(schedule: Schedule | None, default: Schedule) -> Schedule:
    """The caller's schedule, if it covers as many users as the default."""
    if schedule is not None and not isinstance(schedule, Schedule):
        raise InvalidParameter(
            f"schedule must be a Schedule, got {type(schedule).__name__}: only lsvi-ucb takes plans of batches"
        )
    if schedule is not None and schedule.users != default.users:
        raise InvalidParameter(f"the schedule ends after {schedule.users} users, episodes={default.users}")
    return schedule or default
