"""Transitions that are kept, because what is asked about them depends on what was released before. PRIVATE."""

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
_HALF = 2 ** (_BITS // 2)
_MOST = 2**29 - 1  # users: their sums are exact in floating point


class StoredTransitions:
    """How many users went from s by a to s' at step h, and the sum of their rewards: what sum phi(s, a) (w r + y(s')) needs. PRIVATE.

    Counts do not grow with the number of users, and hold no user alone. They never leave: a `response` goes into a mechanism.

    Enforced: features are looked up, of norm at most one, rewards are clipped to [0, 1] and y to [-1, 1 - w], so that one user's term is
    in the unit ball, whatever the data are; what does not exist or is not finite adds zero. In whole numbers: all factors are rounded
    towards zero to multiples of 2^-24, which keeps them in their ranges, and sums of products are exact but for two roundings down, of
    w r summed over the users of one (s, a) and of the result. Neither adds to the sensitivity: before it two neighbouring sums differ by
    at most a whole number m of steps (of targets 1 for each user, of coordinate i |phi_i| + |phi'_i|), and so they do after it.
    """

    def __init__(self, features: Array, steps: int) -> None:
        S, A, d = features.shape
        if not (np.linalg.norm(features, axis=2) <= 1 + 1e-9).all():
            raise InvalidParameter("features must be finite, of norm at most 1")
        self.bound = L2Ball(1.0, d)  # of one user's phi(s, a) (w r + y(s'))
        self._phi: Ints = np.trunc(features.reshape(S * A, d) / (1 + 1e-9) * _UNIT).astype(np.int64)
        self._counts: Ints = np.zeros((steps, S * A, S), dtype=np.int64)
        self._rewards: Ints = np.zeros((steps, S * A), dtype=np.int64)
        self._shape, self.users = (S, A), 0

    def check(self, users: Trajectories | TransitionCounts) -> TransitionCounts:
        """Raise for users whom `add` would refuse; otherwise their transitions that exist."""
        if self.users + users.users > _MOST:
            raise InvalidParameter(f"at most {_MOST} users can be kept")
        return valid_transitions(users, len(self._counts), *self._shape)

    def add(self, users: Trajectories | TransitionCounts) -> None:
        (S, A), steps, seen = self._shape, len(self._counts), self.check(users)
        np.add.at(self._counts, (seen.step, seen.state * A + seen.action, seen.next_state), seen.count)
        step, state, action, reward, count = outcomes(users, steps, S, A)
        np.add.at(self._rewards, (step, state * A + action), np.trunc(reward * _UNIT).astype(np.int64) * count)
        self.users += users.users

    def response(self, step: int, values: Array, reward_weight: float = 0.0) -> Bounded:
        """sum over users of phi(s, a) (w r + y(s')) at a step; y [s'] and w in [0, 1] are public."""
        if np.isnan(values).any():
            raise InvalidParameter("values must be numbers")
        w = int(np.clip(reward_weight, 0.0, 1.0) * _UNIT)
        y = np.trunc(np.clip(values, -1.0, 1 - w / _UNIT) * _UNIT).astype(np.int64)
        high, low = np.divmod(self._rewards[step], _UNIT)
        targets = self._counts[step] @ y + w * high + w * low // _UNIT
        high, low = np.divmod(targets, _UNIT)
        upper, lower = np.divmod(low, _HALF)  # in halves: sums over many (s, a) would not fit into 64 bits otherwise
        phi = self._phi.T
        sums = phi @ high + (phi @ upper + phi @ lower // _HALF) // _HALF
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
