"""What every device does before anything leaves it: it plans from a release, and bounds what its user did."""

from typing import TYPE_CHECKING

import numpy as np

from confide.errors import ConfideError, InvalidParameter
from confide.privacy.bounded import Bound, Bounded, Released
from confide.privacy.guarantee import Guarantee
from confide.privatizers.wire import decode_release
from confide.trajectory import Trajectories

if TYPE_CHECKING:
    from confide.learning.algorithm import Algorithm, Round


def plan_on_device(
    algorithm: "Algorithm", released: Released | bytes, guarantee: Guarantee, size: int | None
) -> "tuple[Round, int]":
    """The round that follows from what a server sent, and the generation of the release. Both are checked.

    `size` says how many numbers a release has; None if that changes from round to round.
    """
    if not isinstance(released, Released):
        released = decode_release(released, guarantee)
    if size is not None and released.values.shape != (size,):
        raise InvalidParameter(
            f"a release must have {size} numbers, got shape {released.values.shape}"
        )
    if not (np.isfinite(released.values).all() and 0 <= released.noise.std < np.inf):
        raise InvalidParameter("a release must be finite, and so must its noise")
    if not (0 <= released.generation < 2**63 and 0 <= released.users < 2**63):
        raise InvalidParameter("a release must be of a whole number of users and generations")
    try:
        planned = algorithm.plan(released)
    except ConfideError:
        raise
    except Exception as error:  # of what a server sent: the user's data are not in it
        raise InvalidParameter(
            f"the release does not fit this algorithm: {type(error).__name__}"
        ) from None
    return planned, released.generation


def contribution_on_device(planned: "Round", trajectory: Trajectories, bound: Bound) -> Bounded:
    """What one user contributes. An episode that makes no sense contributes zero, without an error that somebody could see."""
    if not isinstance(trajectory, Trajectories) or trajectory.users != 1:
        raise InvalidParameter("a device reports the Trajectories of exactly one user")
    try:
        with np.errstate(all="ignore"):  # neither may a warning depend on the data
            return planned.statistic.contribution(trajectory)
    # an error tells whoever sees it, or misses the message, something about the data
    except Exception:
        return Bounded(np.zeros(bound.size), bound)
