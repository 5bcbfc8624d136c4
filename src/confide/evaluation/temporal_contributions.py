"""Temporal differences regressed with instruments: one user's steps, added up within a ball."""

import math
from dataclasses import dataclass, field

import numpy as np

from confide.errors import InvalidParameter
from confide.evaluation import _contribution_kernels as _kernels
from confide.evaluation.contributions import added_up
from confide.privacy.bounded import Array, Bounded, L2Ball
from confide.trajectory import LoggedUsers

_CHUNK = 2**21  # pairs of states held at a time
_MOST_PAIRS = 2**14  # states up to which all pairs are looked at


@dataclass(frozen=True, slots=True, eq=False)
class TemporalSums:
    """Turns whole users into (sum z (x - discount x')^T, kappa sum z y), a step at a time until the next one might leave the ball.

    x = x_s and z = z_s are rows of public tables, x' that of the next state (zero at the end of a trajectory), and
    y = (r - c + discount c 1{not the end}) / R, so that x.theta stands for (V - c)/R. Returns within c +- R give |y| <= 1 at the end and
    |y| <= 1 + discount before; larger rewards are clipped to that.

    Enforced: ||row||_2 <= radius of the ball, by going on from state s only while (norm so far) + reach(s) <= radius, reach(s) = ||z_s||
    max_s' sqrt(||x_s - discount x_s'||^2 + kappa^2 y_max^2) being how long the step can be at most. Whether a step counts is known before
    it is made, so that E[z (y + discount x'.theta - x.theta)] = 0 also over those that count: scaling whole users would bias. The
    rounding, half a grid step per coordinate, is taken off the radius beforehand. Users who are not valid, or have a state that does
    not exist or a reward that is not finite, contribute zero.
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
        norm = self.bound.radius * (1 - 1e-8) - math.sqrt(self.bound.size) * self.bound.grid
        logged = users.states, users.rewards, users.trajectories, users.users, users.valid
        limits = norm, self.balance, self.discount, self.centre, self.radius
        return _kernels.temporal_sums(*logged, self.instruments, self.table, self.reach, *limits)

    def contribution(self, users: LoggedUsers) -> Bounded:
        return added_up(self, users)

    def unpack(self, values: Array) -> tuple[Array, Array]:
        """A released vector, or users' rows [..., size] -> (A [..., d, d], b [..., d]), kappa divided out."""
        d = self.table.shape[1]
        return values[..., : d * d].reshape(*values.shape[:-1], d, d), values[
            ..., d * d :
        ] / self.balance


def longest_steps(instruments: Array, table: Array, *, discount: float, balance: float) -> Array:
    """reach [s]: how long a step from each state can be, whatever comes next; for very many states by the triangle inequality."""
    norms = np.linalg.norm(table, axis=1)
    ends = norms**2 + balance**2
    if len(table) > _MOST_PAIRS:
        farthest = (norms + discount * norms.max()) ** 2
    else:
        step, farthest = max(1, _CHUNK // len(table)), np.empty(len(table))
        for rows in (slice(first, first + step) for first in range(0, len(table), step)):
            cross = table[rows] @ table.T
            apart = norms[rows, None] ** 2 + discount**2 * norms**2 - 2 * discount * cross
            farthest[rows] = np.maximum(apart, 0.0).max(axis=1)
    longest = np.sqrt(np.maximum(ends, farthest + balance**2 * (1 + discount) ** 2))
    result: Array = np.linalg.norm(instruments, axis=1) * longest * (1 + 1e-12)
    return result


def check_radius(radius: float, reach: Array) -> None:
    """A ball in which no step fits would be a release of nothing but noise."""
    if not radius > reach.max():
        raise InvalidParameter.of(
            "norm", f"must be more than the longest step, {reach.max():.4g}", got=f"{radius:g}"
        )
