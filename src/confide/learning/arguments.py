"""Checks of the arguments that learners share."""

from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arguments import choice, has, integers, kind, real, shown, whole
from confide.errors import AnotherRound, InvalidParameter, PrivacyError
from confide.privacy.request import CentralDP, DistributedDP, JointDP, LocalDP, NoPrivacy
from confide.privatizers import AtMost, Message, Schedule

CALIBRATIONS = ("tight", "paper")


# Contributions are whole multiples of 2^-24 of the largest one, so the sums of so many users are exact.
EXACT_USERS = 2**29 - 1


def check_exact(episodes: int) -> None:
    """Refuse more users than can be added up exactly: rounding could depend on one user more than the noise allows for."""
    whole("episodes", episodes, at_most=EXACT_USERS)


def check_choices(calibration: str, bonus_scale: float | None, failure: float = 0.1) -> None:
    choice("calibration", calibration, CALIBRATIONS)
    if bonus_scale is not None:
        real("bonus_scale", bonus_scale, at_least=0)
    real("failure", failure, above=0, below=1)


def check_asked(episodes: Any, privacy: Any, *, distributed: bool = False) -> None:
    """Check the arguments of every learner. `Learner` does; an agent that computes with them before that calls it first."""
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
    """What every learner is made from: an algorithm, and a schedule of releases."""
    kind("schedule", calibration.schedule, Schedule, AtMost)
    has(
        "algorithm",
        calibration.algorithm,
        ("bound",),
        "an algorithm: a bound, and a function from releases to rounds",
    )
    check_asked(calibration.schedule.users, privacy, distributed=distributed)


def check_policies(policies: Any) -> None:
    """The policies of one round, of which there is at least one."""
    if not isinstance(policies, tuple) or not policies:
        raise InvalidParameter(
            f"policies must be a tuple of at least one policy, got {shown(policies)}"
        )


def choose_schedule(schedule: Schedule | None, default: Schedule) -> Schedule:
    """The caller's schedule, if it covers as many users as the default."""
    if schedule is not None and not isinstance(schedule, Schedule):
        raise InvalidParameter(
            f"schedule must be a Schedule, got {type(schedule).__name__}: only lsvi-ucb takes plans of batches"
        )
    if schedule is not None and schedule.users != default.users:
        raise InvalidParameter(
            f"the schedule ends after {schedule.users} users, episodes={default.users}"
        )
    return schedule or default


def whole_steps(total: npt.ArrayLike) -> npt.NDArray[np.int64]:
    """A sum in whole steps of the grid. Sums of a service are 64-bit integers, which are taken whatever they are: see `clip_sum`."""
    if isinstance(total, np.ndarray) and total.dtype == np.int64:
        return total
    try:
        return integers("total", total)
    except InvalidParameter as error:
        # The sum is private, so an error says what is wrong with it without its numbers.
        raise InvalidParameter.of("total", error.problem) from None


def read_message(data: bytes | Message, generation: int, expected: bytes) -> Message:
    """A device's message. One to another round is refused: it would be decoded as an answer to another question."""
    message = data if isinstance(data, Message) else Message.from_bytes(data)
    if message.generation == generation and message.round != expected:
        raise AnotherRound(
            "the message answers another round than the one that this server planned from the same release: it was not counted. "
            "The device planned on another kind of processor, or with another version; confide serve publishes rounds as tables"
        )
    return message
