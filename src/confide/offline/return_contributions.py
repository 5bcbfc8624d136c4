"""Returns of logged users: of whole trajectories, and from the first visit to each state on.

PRIVATE until noise is added.
"""

from dataclasses import dataclass, field

import numpy as np

from confide.errors import InvalidParameter
from confide.evaluation.visit_contributions import FirstVisits
from confide.offline import _return_kernels as _kernels
from confide.offline.table_features import Array, LoggedTable
from confide.privacy.bounded import Bounded
from confide.trajectory import LoggedUsers


@dataclass(frozen=True, slots=True, eq=False)
class TableReturns:
    """Turns whole users into counts, sums and squares of returns, g = (F - centre) / radius clipped
    to [-1, 1].

    F is the discounted sum of rewards, public or clipped, to a terminal state or to rest.size - 1
    steps of the trajectory. Where it is not known what followed, because steps are missing or the
    record stops (and that is no end), `rest` [k] stands for what k more steps pay: the least that
    they can, or the most. `whole`: one row (h, g, kappa (g^2 - 1/2)) per user, of the mean return
    of the user's trajectories. Otherwise the user's first trajectory adds one such row to each of
    its first K different states, of the return from the first visit on. Whether a visit counts is
    decided by the past alone. Users who are not valid, or have a state or an action that does not
    exist or a reward that is not finite anywhere, contribute zero. The sensitivity is that of
    `FirstVisits`: a user adds at most one row to each of at most K states, with |g| <= 1. Totals
    are whole numbers, the same bits for any partitioning.
    """

    bound: FirstVisits
    table: LoggedTable
    rest: Array = field(repr=False)
    centre: float
    radius: float
    whole: bool = False

    def __post_init__(self) -> None:
        if self.bound.states != (1 if self.whole else self.table.states):
            raise InvalidParameter("the bound and the table are of different sizes")
        if self.bound.trajectories != 1 or not self.bound.squares:
            raise InvalidParameter("one trajectory of a user counts, with its squares")

    def contribution(self, users: LoggedUsers) -> Bounded:
        if users.actions is None:
            raise InvalidParameter('the log has no actions: open it with action="action"')
        bound = self.bound
        table = self.table
        steps = 1 / bound.grid
        sums = np.zeros((3, bound.states), np.int64)
        _kernels.first_visit_returns(
            users.states,
            users.actions,
            users.rewards,
            users.trajectories,
            users.users,
            users.valid,
            np.zeros(0, np.bool_) if users.gaps is None else users.gaps,
            table.terminal,
            table.actions,
            np.zeros((0, 0)) if table.rewards is None else table.rewards,
            table.reward_low,
            table.reward_high,
            float(table.discount),
            self.rest,
            table.ends,
            0 if self.whole else bound.visits,
            float(self.centre),
            float(self.radius),
            steps,
            round(bound.count_unit * steps),
            float(bound.square_unit),
            sums,
        )
        return Bounded(sums.ravel().astype(np.float64) * bound.grid, bound, users.count)
