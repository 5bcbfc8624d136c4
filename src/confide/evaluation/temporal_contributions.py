"""Temporal differences regressed with instruments: one user's steps, added up within a ball.

PRIVATE side. That a user's sum stays within the ball is required for privacy; see `TemporalSums`.
"""

import math
from dataclasses import dataclass, field

import numpy as np

from confide.errors import InvalidParameter
from confide.evaluation import _contribution_kernels as _kernels
from confide.evaluation.contributions import sum_users
from confide.privacy.bounded import Array, Bounded, L2Ball
from confide.trajectory import LoggedUsers

# How many pairs of states are held in memory at a time. A matter of taste.
_PAIRS_IN_MEMORY = 2**21
# For more states than this, not all pairs are looked at, but a bound is used. A matter of taste.
_MOST_STATES_FOR_PAIRS = 2**14


@dataclass(frozen=True, slots=True, eq=False)
class TemporalSums:
    """Turns whole users into (sum z (x - discount x')^T, kappa sum z y).

    x = x_s and z = z_s are rows of public tables, x' that of the next state (zero at the end of a
    trajectory), kappa = `balance`, and y = (r - c + discount c 1{not the end}) / R, so that x.theta
    stands for (V - c)/R. Returns within c +- R give |y| <= 1 at the end and |y| <= 1 + discount
    before. Larger rewards are clipped to that.

    Enforced: ||row||_2 <= radius of the ball. Steps are added one at a time, until the next one
    might leave the ball: the sum goes on from state s only while (norm so far) + reach(s) <=
    radius, where reach(s) = ||z_s|| max_s' sqrt(||x_s - discount x_s'||^2 + kappa^2 y_max^2) is how
    long the step can be at most. Rounding, half a grid step per coordinate, is taken off the radius
    beforehand.

    Whether a step counts is known before it is made, so that E[z (y + discount x'.theta - x.theta)]
    = 0 also over those that count. Scaling whole users would bias. Users who are not valid, or have
    a state that does not exist or a reward that is not finite, contribute zero.
    """

    bound: L2Ball
    instruments: Array = field(repr=False)  # z [s, d]
    table: Array = field(repr=False)  # x [s, d]
    reach: Array = field(repr=False)  # [s]
    balance: float
    discount: float
    centre: float
    radius: float

    def per_user(self, users: LoggedUsers) -> Array:
        """[user, coordinate], before rounding. PRIVATE."""
        # Required for privacy: room for rounding in the sums of the kernel and to the grid.
        norm = self.bound.radius * (1 - 1e-8) - math.sqrt(self.bound.size) * self.bound.grid
        return _kernels.temporal_sums(
            users.states,
            users.rewards,
            users.trajectories,
            users.users,
            users.valid,
            self.instruments,
            self.table,
            self.reach,
            norm,
            self.balance,
            self.discount,
            self.centre,
            self.radius,
        )

    def contribution(self, users: LoggedUsers) -> Bounded:
        return sum_users(self, users)

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """A released vector, or users' rows [..., size] -> (A [..., d, d], b [..., d]).

        kappa is divided out.
        """
        d = self.table.shape[1]
        A = values[..., : d * d].reshape(*values.shape[:-1], d, d)
        b = values[..., d * d :] / self.balance
        return A, b


def longest_steps(instruments: Array, table: Array, *, discount: float, balance: float) -> Array:
    """reach [s]: how long a step from each state can be, whatever comes next.

    For very many states it follows from the triangle inequality. Required for privacy: never too
    small.
    """
    norms = np.linalg.norm(table, axis=1)
    # The step is the last one of its trajectory.
    square_at_end = norms**2 + balance**2
    # Or it goes on to any state.
    if len(table) > _MOST_STATES_FOR_PAIRS:
        farthest = (norms + discount * norms.max()) ** 2
    else:
        farthest = np.empty(len(table))
        step = max(1, _PAIRS_IN_MEMORY // len(table))
        for first in range(0, len(table), step):
            rows = slice(first, first + step)
            cross = table[rows] @ table.T
            distances = norms[rows, None] ** 2 + discount**2 * norms**2 - 2 * discount * cross
            farthest[rows] = np.maximum(distances, 0.0).max(axis=1)
    square_before = farthest + balance**2 * (1 + discount) ** 2
    longest = np.sqrt(np.maximum(square_at_end, square_before))
    # A little more, for the rounding of the products above.
    reach: Array = np.linalg.norm(instruments, axis=1) * longest * (1 + 1e-12)
    return reach


def check_radius(radius: float, reach: Array) -> None:
    """Refuse a ball in which no step fits: the release would be nothing but noise."""
    if not radius > reach.max():
        raise InvalidParameter.of(
            "norm", f"must be more than the longest step, {reach.max():.4g}", got=f"{radius:g}"
        )
