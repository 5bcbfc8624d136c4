"""What the learners for mixtures of known kernels share: what they need to know, and the arguments that all of them take."""

import math

from confide.errors import InvalidParameter
from confide.privatizers import Schedule, every_episode, geometric
from confide.problems.linear_mixture import LinearMixturePublic

BALANCE = 1.05  # kappa for rows and targets of about the same size: how tight bounds split the noise between Lambda and u
CALIBRATIONS = ("tight", "paper")


def known_mixture(public: LinearMixturePublic, name: str, *, rewards: bool = True) -> None:
    if not isinstance(public, LinearMixturePublic):
        raise InvalidParameter(f"{name} needs a mixture of known kernels (LinearMixtureMDP.public), got {type(public).__name__}")
    if rewards and public.rewards is None:
        raise InvalidParameter(f"{name} needs known rewards; linopt-vi and linopt-po learn them")


def check_choices(calibration: str, bonus_scale: float | None, failure: float = 0.1) -> None:
    if calibration not in CALIBRATIONS:
        raise InvalidParameter(f"calibration must be one of {', '.join(CALIBRATIONS)}, got calibration={calibration!r}")
    if bonus_scale is not None and not 0 <= bonus_scale < math.inf:
        raise InvalidParameter(f"bonus_scale must be finite and not negative, got bonus_scale={bonus_scale}")
    if not 0 < failure < 1:
        raise InvalidParameter(f"failure must be in (0, 1), got failure={failure}")


def default_schedule(calibration: str, episodes: int) -> Schedule:
    """A release per episode, as printed; or as few as learning needs."""
    return geometric(episodes) if calibration == "tight" else every_episode(episodes)


def value_steps(horizon: int) -> int:
    """How many steps have something to learn: the value after the last step is zero, so its regression is empty."""
    return max(horizon - 1, 1)
