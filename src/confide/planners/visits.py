"""Predicted visits: which policies served how many users, and what a history keeps of them. All of it is public."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.planners import _visit_kernels as _kernels
from confide.planners.history import Arrays, History, Reals, Wholes
from confide.privacy.bounded import Released
from confide.privatizers.schedule import divide_users

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# The round that is open: its policies, their shares of its users, and how many users came before it.
OPEN_ROUND: Arrays = {
    "shown": Wholes(("shown policy", "step", "state"), below="action"),
    "shares": Reals(("shown policy",), at_least=0, not_all_zero=True),
    "total": Wholes(at_most="users"),
}
# All rounds: the last policies as they were, and the expected visits of the policies before them.
SERVED: Arrays = OPEN_ROUND | {
    "policies": Wholes(("policy", "step", "state"), below="action"),
    "users": Reals(("policy",), at_least=0),
    "earlier": Reals(("planned step", "state", "action"), at_least=0),
}


@dataclass(frozen=True, slots=True, eq=False)
class ServedPolicies:
    """Who was served how, all public: policies [q, h, s] for users [q], and the expected visits [h, s, a] of those before them."""

    policies: Ints
    users: Array
    earlier: Array


def fold(history: History, states: Array, keep: int) -> History:
    """Only the last `keep` policies as they are; of those before them the visits that are predicted now. Bounds memory and time."""
    drop = history.count("policy") - keep
    if drop <= 0:
        return history
    policies, users, earlier = history["policies"], history["users"], history["earlier"].copy()
    for h in range(len(earlier)):
        earlier[h] += _kernels.visits(
            policies[:drop, h], users[:drop], states[h, :drop], earlier.shape[2]
        )
    return history.select("policy", slice(drop, None)).replace(earlier=earlier)


def users_of_round(history: History, released: Released) -> Array:
    """How many users each policy of the round served that the release has just closed."""
    users = released.users - int(history["total"])
    return np.array(divide_users(users, history["shares"]), dtype=np.float64)


def recall_served_policies(history: History) -> ServedPolicies:
    return ServedPolicies(history["policies"], history["users"], history["earlier"])


def with_open_round(history: History, shown: Ints, shares: Array, users: int) -> History:
    """The policies [p, h, s] serve these shares of the users who come after so many."""
    return history.replace(shown=shown, shares=shares, total=np.array(users))
