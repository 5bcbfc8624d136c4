"""What every device does before anything leaves it: it plans, and bounds what its user did.

`LocalClient` and `ShareClient` call both functions. The first one protects the device from a server
that sends nonsense. The second one is required for privacy: whatever the user did, it returns a
contribution within the bound. It raises no error and no warning that depends on the data, because
somebody could see them, or miss the message.
"""

import numpy as np

from confide.errors import ConfideError, InvalidParameter
from confide.learning.algorithm import Algorithm, Round
from confide.privacy.bounded import Bound, Bounded, Released
from confide.privacy.guarantee import Guarantee
from confide.privatizers.wire import decode_release
from confide.trajectory import Trajectories

# Generations and numbers of users are 64-bit integers in messages and saved states.
_MAX_COUNT = 2**63 - 1


def plan_on_device(
    algorithm: Algorithm, released: Released | bytes, guarantee: Guarantee, size: int | None
) -> tuple[Round, int]:
    """Return the round that follows from what a server sent, and the generation of the release.

    `guarantee` is the one that the device knows. `size` is how many numbers a release has. None:
    the number changes from round to round.
    """
    if not isinstance(released, Released):
        released = decode_release(released, guarantee)
    _check_release(released, size)
    try:
        planned = algorithm.plan(released)
    except ConfideError:
        raise
    except Exception as error:
        # The error is about what the server sent. The user's data are not in it.
        raise InvalidParameter(
            f"the release does not fit this algorithm: {type(error).__name__}"
        ) from None
    return planned, released.generation


def _check_release(released: Released, size: int | None) -> None:
    if size is not None and released.values.shape != (size,):
        raise InvalidParameter(
            f"a release must have {size} numbers, got shape {released.values.shape}"
        )
    if not (np.isfinite(released.values).all() and 0 <= released.noise.std < np.inf):
        raise InvalidParameter("a release must be finite, and so must its noise")
    if not (0 <= released.generation <= _MAX_COUNT and 0 <= released.users <= _MAX_COUNT):
        raise InvalidParameter("a release must be of a whole number of users and generations")


def contribution_on_device(planned: Round, trajectory: Trajectories, bound: Bound) -> Bounded:
    """Return what one user contributes. PRIVATE.

    An episode that makes no sense contributes zero.
    """
    if not isinstance(trajectory, Trajectories) or trajectory.users != 1:
        raise InvalidParameter("a device reports the Trajectories of exactly one user")
    try:
        with np.errstate(all="ignore"):
            return planned.statistic.contribution(trajectory)
    except Exception:
        # Whatever it was, nobody may learn that it happened.
        return Bounded(np.zeros(bound.size), bound)
