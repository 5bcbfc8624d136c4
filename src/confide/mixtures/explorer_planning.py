"""Explorers: a small share of the users is served by a policy that is far more optimistic than the one that serves the others.

A small bonus has little regret where every policy shows something, but behind several apparently bad steps it never looks. A large bonus
always looks, and costs too much to be played by everybody while the noise is large. So both are planned from the same release, and few
users explore. Their share falls with the number of users who are still to come: after the last release nobody gains. All post-processing.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from confide.planners.regression import Width
from confide.policy import Policy

Array = npt.NDArray[np.float64]
SHARE = 0.02  # of the first users
# of the width; without noise the bonus starts at one standard deviation
FACTOR, SAMPLING = 0.5, 4.0
TIES = 1e-3
SAID = f"{SHARE:.0%} of the users explore, fewer towards the end"


def wider(width: Width) -> Width:
    """The width of an explorer: half a standard error of the noise, and one of the sampling, whatever the others have."""
    return replace(width, factor=FACTOR, sampling=SAMPLING * width.sampling)


def targets(values: Array, hoped: Array) -> Array:
    """The values [h, s] that users are regressed on: where the plan sees no difference between states, the explorer's values decide."""
    return values + TIES * hoped


def explored(times: Sequence[int], generation: int) -> float:
    """The share of explorers in the round after so many releases, where times[r] users have come when release r + 1 is made.

    Explorers are counted over all rounds: where each round has one user, most rounds have none.
    """
    last = min(generation, len(times) - 1)
    start, end = times[last - 1] if last else 0, times[last]
    due = math.ceil(SHARE * end) - math.ceil(SHARE * start)
    return math.ceil(due * (1 - end / times[-1])) / (end - start)


def served(
    policy: Policy, explorer: Policy, times: Sequence[int], generation: int
) -> tuple[tuple[Policy, ...], tuple[float, ...]]:
    """Policies and shares of that round."""
    share = explored(times, generation)
    if share == 0:
        return (policy,), (1.0,)
    return ((policy, explorer), (1 - share, share)) if share < 1 else ((explorer,), (1.0,))
