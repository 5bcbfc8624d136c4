"""Statistics that are one bounded row of numbers per logged user, and their residuals.

PRIVATE side: users go in, bounded sums come out. The bounds here are what noise is calibrated to,
so a change needs a proof, and a case in tests/conformance/test_bounds.py.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

import numpy as np

from confide.errors import InvalidParameter
from confide.evaluation import _contribution_kernels as _kernels
from confide.identity import Identity
from confide.mechanisms.symmetric import smat, svec_size
from confide.privacy.bounded import Array, Bound, Bounded, grid_for
from confide.privacy.request import Relation
from confide.trajectory import LoggedUsers

# How many numbers of users' rows are held in memory at a time. A matter of taste.
_NUMBERS_IN_MEMORY = 2**21
# The level of a band, as a share of the level of the band above it. A matter of taste.
RATIO = 0.5
# A band counts as not empty if its trace is so many standard deviations of noise above zero.
# A matter of taste: noise alone passes for a filled band with probability 3e-5.
_CLEARLY_NOT_NOISE = 4.0


class PerUser(Protocol):
    """A statistic whose contribution is a sum over users of rows within the bound."""

    @property
    def bound(self) -> Bound: ...

    def per_user(self, users: LoggedUsers) -> Array:
        """[user, coordinate], before rounding; zero for users whose data make no sense. PRIVATE."""


def sum_users(statistic: PerUser, users: LoggedUsers) -> Bounded:
    """The sum of users' rows.

    Each row is rounded to the grid before it is added. The sum consists of whole numbers, and has
    the same bits however users are spread over processes.
    """
    bound = statistic.bound
    sums = np.zeros(bound.size)
    for some_users in chunks(users, bound.size):
        sums += _kernels.rounded_sum(statistic.per_user(some_users), bound.grid)
    return Bounded(sums * bound.grid, bound, users.count)


def chunks(users: LoggedUsers, size: int) -> Iterator[LoggedUsers]:
    """Whole users, so many at a time that `size` numbers for each of them fit into memory."""
    step = max(1, _NUMBERS_IN_MEMORY // size)
    for first in range(0, users.count, step):
        last = min(first + step, users.count)
        first_trajectory = users.users[first]
        last_trajectory = users.users[last]
        trajectories = users.trajectories[first_trajectory : last_trajectory + 1]
        rows = slice(trajectories[0], trajectories[-1])
        yield LoggedUsers(
            users.states[rows],
            users.rewards[rows],
            trajectories - rows.start,
            users.users[first : last + 1] - first_trajectory,
            users.valid[first:last],
            None if users.actions is None else users.actions[rows],
            None if users.probabilities is None else users.probabilities[rows],
        )


@dataclass(frozen=True, slots=True)
class Bands:
    """g g^T / level^2 of one vector g per user, in the band of its norm.

    There are `bands` matrices, of which a user touches one. The right clip need not be known in
    advance.

    Enforced: g is scaled to norm at most the first band's level, and a band holds norms up to its
    level only, so the user's matrix is PSD of trace at most 1. A vector that is not finite
    contributes zero.

    Sensitivity: two users touch the same band, where PSD matrices of trace at most 1 are sqrt(2)
    apart at most, or two different ones: sqrt(1 + 1). So replace is sqrt(2), however many bands
    there are. null is the same: a user who contributes zero to the first question has the residual
    g = offset here, which is a vector like any other. L1: a user's matrix has at most 1 + (d -
    1)/sqrt(2) (`svec`), twice that for two. Rounding to the grid is added: half a step for each
    coordinate that either user touches.
    """

    bands: int
    dimension: int
    absent_is_zero: ClassVar[bool] = False

    def __post_init__(self) -> None:
        for name in ("bands", "dimension"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InvalidParameter.of(
                    name, "must be a whole number, at least 1", got=f"{value}"
                )

    def identity(self) -> Identity:
        return Identity("bands", 1, bands=self.bands, dimension=self.dimension)

    @property
    def about(self) -> str:
        return "second moments of residuals, in bands"

    @property
    def size(self) -> int:
        return self.bands * svec_size(self.dimension)

    @property
    def largest(self) -> float:
        return 1.0

    @property
    def grid(self) -> float:
        return grid_for(1.0)

    def sensitivity(self, relation: Relation) -> float:  # noqa: ARG002 - the same for both
        return math.sqrt(2) + math.sqrt(svec_size(self.dimension)) * self.grid

    def l1_sensitivity(self, relation: Relation) -> float:  # noqa: ARG002 - the same for both
        of_one_user = 1 + (self.dimension - 1) / math.sqrt(2)
        rounding = svec_size(self.dimension) * self.grid / 2
        return 2 * (of_one_user + rounding)

    def contains(self, values: Array) -> bool:
        stacked = values.reshape(self.bands, -1)
        touched = np.flatnonzero(stacked.any(axis=1))
        if len(touched) > 1:
            return False
        matrices = smat(stacked[touched], self.dimension)
        rounding = self.dimension * self.grid
        return all(
            np.trace(M) <= 1 + rounding and np.linalg.eigvalsh(M)[0] >= -rounding for M in matrices
        )


@dataclass(frozen=True, slots=True, eq=False)
class ResidualBands:
    """Second moments of residuals g = offset + row gain of users' rows, in bands of their norms.

    `gain` [size, d] and `offset` [d] are public: they are functions of an earlier release. `top` is
    a public bound on ||g||: a longer g is scaled down to it.

    What sampling adds to an estimate follows from sum g g^T, the matrix of a sandwich estimator
    with one cluster per user. A user whose data make no sense has a row of zeros, and so the public
    g = offset.
    """

    statistic: PerUser
    gain: Array = field(repr=False)
    offset: Array = field(repr=False)
    top: float
    bound: Bands

    def contribution(self, users: LoggedUsers) -> Bounded:
        sums = np.zeros((self.bound.bands, svec_size(self.bound.dimension)))
        for some_users in chunks(users, len(self.gain)):
            rows = self.statistic.per_user(some_users)
            sums += _kernels.band_sums(
                rows, self.gain, self.offset, self.top, RATIO, self.bound.bands, self.bound.grid
            )
        return Bounded((sums * self.bound.grid).ravel(), self.bound, users.count)

    def sum_all_bands(self, values: Array, noise_std: float) -> Array:
        """The released bands -> an estimate of sum g g^T [d, d], with room for noise.

        In every direction one standard deviation of the noise is added. Rare residuals that are
        large may stand in a band whose trace is not clearly above the noise, and may be what an
        estimate varies by. So no band is taken to be empty. For few dimensions this costs little.
        """
        matrices = smat(values.reshape(self.bound.bands, -1), self.bound.dimension)
        squared_levels = self._squared_levels
        total = (matrices * squared_levels[:, None, None]).sum(axis=0)
        allowed = noise_std * float(np.linalg.norm(squared_levels))
        second_moments: Array = total + allowed * np.eye(self.bound.dimension)
        return second_moments

    def sum_filled_bands(self, values: Array, noise_std: float) -> Array:
        """The released bands -> an estimate of sum g g^T [d, d], PSD.

        It is rather too large than too small. A band's noise counts level^2 times, and that of the
        highest band would cover everything. So bands are taken to be empty from the second one on
        above the highest whose trace is clearly not noise. What is left in has noise of standard
        deviation sigma = noise_std |level^2|_2 in every direction, and sigma I is added. Without
        the one band more and without sigma, intervals of states whose returns vary little would
        hold the truth in 76 % of all cases instead of 90.
        """
        dimension = self.bound.dimension
        matrices = smat(values.reshape(self.bound.bands, -1), dimension)
        squared_levels = self._squared_levels
        traces = np.trace(matrices, axis1=1, axis2=2)
        filled = np.flatnonzero(traces > _CLEARLY_NOT_NOISE * noise_std * math.sqrt(dimension))
        first = max(int(filled[0]) - 1, 0) if len(filled) else self.bound.bands
        total = (matrices[first:] * squared_levels[first:, None, None]).sum(axis=0)
        eigenvalues, vectors = np.linalg.eigh(total)
        allowed = noise_std * float(np.linalg.norm(squared_levels[first:]))
        second_moments: Array = (vectors * (np.maximum(eigenvalues, 0.0) + allowed)) @ vectors.T
        return second_moments

    @property
    def _squared_levels(self) -> Array:
        """level^2 of each band [band], the highest first."""
        levels = self.top * RATIO ** np.arange(self.bound.bands)
        return np.asarray(levels**2, dtype=np.float64)
