"""Checks of the arguments that learners share."""

from typing import Any

from confide.arguments import choice, real, whole
from confide.errors import InvalidParameter, PrivacyError
from confide.privacy.request import CentralDP, DistributedDP, JointDP, LocalDP, NoPrivacy
from confide.privatizers import Schedule

CALIBRATIONS = ("tight", "paper")


def check_choices(calibration: str, bonus_scale: float | None, failure: float = 0.1) -> None:
    choice("calibration", calibration, CALIBRATIONS)
    if bonus_scale is not None:
        real("bonus_scale", bonus_scale, at_least=0)
    real("failure", failure, above=0, below=1)


def check_asked(episodes: Any, privacy: Any, *, distributed: bool = False) -> None:
    """Check the arguments of every learner. `Learner` does; an agent that computes with them before that calls it first."""
    if isinstance(privacy, DistributedDP) and not distributed:
        raise PrivacyError("this agent does not support DistributedDP yet: use LikelihoodVI, or JointDP or LocalDP")
    if not isinstance(privacy, CentralDP | JointDP | LocalDP | DistributedDP | NoPrivacy):
        raise InvalidParameter(f"privacy must be JointDP, LocalDP or NoPrivacy, got {type(privacy).__name__}")
    whole("episodes", episodes, at_least=1)


def choose_schedule(schedule: Schedule | None, default: Schedule) -> Schedule:
    """The caller's schedule, if it covers as many users as the default."""
    if schedule is not None and not isinstance(schedule, Schedule):
        raise InvalidParameter(
            f"schedule must be a Schedule, got {type(schedule).__name__}: only lsvi-ucb takes plans of batches"
        )
    if schedule is not None and schedule.users != default.users:
        raise InvalidParameter(f"the schedule ends after {schedule.users} users, episodes={default.users}")
    return schedule or default
