"""Explorers: few users are served by a policy that is far more optimistic than that of the others.

PUBLIC: everything here is post-processing of releases, and the shares are decided in advance.

A small bonus has little regret where every policy shows something, but it never looks behind
several apparently bad steps. A large bonus always looks, and costs too much to be played by
everybody while the noise is large. So both are planned from the same release, and few users
explore. Their share falls with the number of users who are still to come, because after the last
release nobody gains.
"""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from confide.planners.regression import Width
from confide.policy import Policy

Array = npt.NDArray[np.float64]
# The share of the first users who explore. This number and the next two were chosen for a small
# regret on lock and rand.
EXPLORER_SHARE = 0.02
# An explorer's bonus is this factor times its width, in which sampling counts more than it does
# for others. So the bonus has half a standard error of the noise, and one of the sampling.
WIDTH_FACTOR = 0.5
SAMPLING_FACTOR = 4.0
# An explorer's values count so much in what users are regressed on.
EXPLORER_VALUE_WEIGHT = 1e-3
EXPLORERS_IN_WORDS = f"{EXPLORER_SHARE:.0%} of the users explore, fewer towards the end"


def explorer_width(width: Width) -> Width:
    """The width of an explorer, whatever the others' factor is."""
    return replace(width, factor=WIDTH_FACTOR, sampling=SAMPLING_FACTOR * width.sampling)


def regression_values(values: Array, explorer_values: Array) -> Array:
    """The values [h, s] that users are regressed on.

    Where the plan sees no difference between states, the explorer's values decide.
    """
    return values + EXPLORER_VALUE_WEIGHT * explorer_values


def explorer_share(release_times: Sequence[int], generation: int) -> float:
    """The share of explorers in the round after `generation` releases.

    release_times[r] users have come when release r + 1 is made. Explorers are counted over all
    rounds. So where each round has one user, most rounds have none.
    """
    last = min(generation, len(release_times) - 1)
    first_user = release_times[last - 1] if last else 0
    last_user = release_times[last]
    explorers = math.ceil(EXPLORER_SHARE * last_user) - math.ceil(EXPLORER_SHARE * first_user)
    still_useful = 1 - last_user / release_times[-1]
    return math.ceil(explorers * still_useful) / (last_user - first_user)


def with_explorer(
    policy: Policy, explorer: Policy, release_times: Sequence[int], generation: int
) -> tuple[tuple[Policy, ...], tuple[float, ...]]:
    """The policies of the round after `generation` releases, and their shares."""
    share = explorer_share(release_times, generation)
    if share == 0:
        return (policy,), (1.0,)
    if share < 1:
        return (policy, explorer), (1 - share, share)
    return (explorer,), (1.0,)
