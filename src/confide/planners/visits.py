"""Predicted visits: which policies served how many users, all public, and what planning remembers of it from round to round."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.planners import _visit_kernels as _kernels
from confide.privacy.bounded import Memory
from confide.privatizers.schedule import divided

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Served:
    """Who was served how, all public: policies [q, h, s] for users [q], and the expected visits [h, s, a] of those before them."""

    policies: Ints
    users: Array
    earlier: Array

    def with_round(self, policies: Ints, users: Array) -> "Served":
        return Served(
            np.concatenate([self.policies, policies]),
            np.concatenate([self.users, users]),
            self.earlier,
        )


def fold(served: Served, states: Array, keep: int) -> Served:
    """Only the last `keep` policies as they are; of those before them the visits that are predicted now. Bounds memory and time."""
    drop = len(served.users) - keep
    if drop <= 0:
        return served
    earlier = served.earlier.copy()
    for h in range(len(earlier)):
        earlier[h] += _kernels.visits(
            served.policies[:drop, h], served.users[:drop], states[h, :drop], earlier.shape[2]
        )
    return Served(served.policies[drop:], served.users[drop:], earlier)


def remember(
    served: Served, shown: Ints, users: int, shares: npt.ArrayLike
) -> dict[str, npt.NDArray[np.generic]]:
    """The rounds so far, and the policies [p, h, s] that serve these shares of the users to come."""
    return {
        "policies": served.policies,
        "users": served.users,
        "earlier": served.earlier,
        "shown": shown,
        "shares": np.asarray(shares, dtype=np.float64),
        "total": np.array(users),
    }


def recall(
    memory: Memory, users: int, *, horizon: int, steps: int, states: int, actions: int, recent: int
) -> Served:
    """The rounds so far, the one that the release has just closed included.

    On a device a server says this, and compiled loops look things up by it: nothing in it is taken on faith.
    """
    H, S, A = horizon, states, actions
    if set(memory) == {"seed"}:
        return Served(np.zeros((0, H, S), dtype=np.int64), np.zeros(0), np.zeros((steps, S, A)))
    q, shown = len(memory["users"]), len(memory["shares"])
    shapes = {
        "policies": (q, H, S),
        "users": (q,),
        "earlier": (steps, S, A),
        "shown": (shown, H, S),
        "shares": (shown,),
        "total": (),
    }
    fits = (
        q <= recent
        and 0 < shown <= recent
        and all(memory[name].shape == shape for name, shape in shapes.items())
    )
    for name in ("policies", "shown"):
        fits = (
            fits
            and memory[name].dtype == np.int64
            and bool(((memory[name] >= 0) & (memory[name] < A)).all())
        )
    for name in ("users", "earlier", "shares"):
        numbers = memory[name]
        fits = (
            fits
            and numbers.dtype == np.float64
            and bool((numbers >= 0).all() and np.isfinite(numbers).all())
        )
    if not fits or not memory["shares"].any() or not 0 <= int(memory["total"]) <= users:
        raise InvalidParameter("the memory of earlier rounds does not fit this problem")
    before = Served(memory["policies"], memory["users"], memory["earlier"])
    return before.with_round(
        memory["shown"],
        np.array(divided(users - int(memory["total"]), memory["shares"]), dtype=np.float64),
    )
