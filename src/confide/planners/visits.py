"""Predicted visits: which policies served how many users, and what a history keeps of them.

All of it is public. The names of the arrays are in published releases and in saved states.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.planners import _visit_kernels as _kernels
from confide.planners.history import Arrays, History, Reals, Wholes
from confide.privacy.bounded import Released
from confide.privatizers.schedule import divide_users

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
# The open round: its policies, their shares of its users, and how many users came before it.
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
    """Which policies served how many users, and the expected visits of the users before them."""

    policies: Ints  # [policy, step, state]
    users: Array  # [policy]
    earlier: Array  # [step, state, action]


def fold(history: History, states: Array, keep: int) -> History:
    """Keep only the last `keep` policies, and fold those before them into the earlier visits.

    `states` [step, policy, state] are the distributions that are predicted now. Folding bounds
    memory and time.
    """
    folded = history.count("policy") - keep
    if folded <= 0:
        return history
    policies = history["policies"][:folded]
    users = history["users"][:folded]
    earlier = history["earlier"].copy()
    for h in range(len(earlier)):
        earlier[h] += _kernels.visits(policies[:, h], users, states[h, :folded], earlier.shape[2])
    return history.select("policy", slice(folded, None)).replace(earlier=earlier)


def users_of_round(history: History, released: Released) -> Array:
    """Return how many users each policy of the newest closed round served."""
    users = released.users - int(history["total"])
    return np.array(divide_users(users, history["shares"]), dtype=np.float64)


def recall_served_policies(history: History) -> ServedPolicies:
    """Return the policies of all closed rounds."""
    return ServedPolicies(history["policies"], history["users"], history["earlier"])


def with_open_round(history: History, shown: Ints, shares: Array, users: int) -> History:
    """Remember the round that is open after `users` users.

    Its policies `shown` [policy, step, state] serve these shares of its users.
    """
    return history.replace(shown=shown, shares=shares, total=np.array(users))
