"""Transitions that are kept, because what is asked about them depends on what was released before. PRIVATE."""

import math
from collections.abc import Mapping
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter, PrivacyError
from confide.privacy.bounded import Array, Bounded, L2Ball
from confide.statistics.reward_rows import outcomes
from confide.statistics.transitions import valid_transitions
from confide.trajectory import Trajectories, TransitionCounts

Ints = npt.NDArray[np.int64]
_BITS = 24
_UNIT = 2**_BITS  # features, values and rewards are whole multiples of 1/_UNIT
_MOST = 2**31 - 1  # users: sums stay below 2^57


class StoredTransitions:
    """How many users went from s by a to s' at step h, and the sum of their rewards: what sum phi(s, a) (w r + y(s')) needs. PRIVATE.

    Counts do not grow with the number of users, and hold no user alone. They never leave: a `response` goes into a mechanism.

    Enforced: features are looked up, of norm at most one, rewards are clipped to [0, 1] and y to [-1, 1 - w], so that one user's term is
    in the unit ball, whatever the data are; what does not exist or is not finite adds zero. In whole numbers: all factors are rounded
    towards zero to multiples of 2^-24, which keeps them in their ranges, and products are summed exactly but for two roundings down: of
    w r, summed over the users of one (s, a) (of neighbouring sums two differ, by less than a step each), and of the result (by less than
    a step in each coordinate). That is at most (4 + sqrt(d)) 2^-24 in all, and features are shortened by as much before.
    """

    def __init__(self, features: Array, steps: int) -> None:
        S, A, d = features.shape
        if not (np.linalg.norm(features, axis=2) <= 1 + 1e-9).all():
            raise InvalidParameter("features must be finite, of norm at most 1")
        self.bound = L2Ball(1.0, d)  # of one user's phi(s, a) (w r + y(s'))
        short = (1 - (4 + math.sqrt(d)) / _UNIT) / (1 + 1e-9)
        self._phi: Ints = np.trunc(features.reshape(S * A, d) * short * _UNIT).astype(np.int64)
        self._counts: Ints = np.zeros((steps, S * A, S), dtype=np.int64)
        self._rewards: Ints = np.zeros((steps, S * A), dtype=np.int64)
        self._shape, self.users = (S, A), 0

    def add(self, users: Trajectories | TransitionCounts) -> None:
        if self.users + users.users > _MOST:
            raise InvalidParameter(f"at most {_MOST} users can be kept")
        (S, A), steps = self._shape, len(self._counts)
        seen = valid_transitions(users, steps, S, A)
        np.add.at(self._counts, (seen.step, seen.state * A + seen.action, seen.next_state), seen.count)
        step, state, action, reward, count = outcomes(users, steps, S, A)
        np.add.at(self._rewards, (step, state * A + action), np.trunc(reward * _UNIT).astype(np.int64) * count)
        self.users += users.users

    def response(self, step: int, values: Array, reward_weight: float = 0.0) -> Bounded:
        """sum over users of phi(s, a) (w r + y(s')) at a step; y [s'] and w in [0, 1] are public."""
        w = int(np.clip(reward_weight, 0.0, 1.0) * _UNIT)
        y = np.trunc(np.clip(values, -1.0, 1 - w / _UNIT) * _UNIT).astype(np.int64)
        high, low = np.divmod(self._rewards[step], _UNIT)
        targets = self._counts[step] @ y + w * high + w * low // _UNIT
        high, low = np.divmod(targets, _UNIT)
        sums = self._phi.T @ high + self._phi.T @ low // _UNIT
        return Bounded(sums / _UNIT, self.bound, self.users)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """PRIVATE: to be saved with the rest of the state."""
        return {"counts": self._counts, "rewards": self._rewards, "users": np.array(self.users)}

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self._counts, self._rewards, self.users = arrays["counts"].copy(), arrays["rewards"].copy(), int(arrays["users"])

    def __repr__(self) -> str:
        return f"StoredTransitions({self.users} users)"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError("stored transitions are private, and cannot be copied or pickled: save the agent instead")
