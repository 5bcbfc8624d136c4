"""What users contribute to LSVI-UCB where states are features of observations.

PRIVATE until a privatizer has added noise. Required for privacy: `FeatureClip` makes every user's
rows short, and whole numbers, whatever the data are. The proofs need all of its steps.

`ObservedTargets` are sums of phi phi^T and of phi (r - 1/2), which do not depend on a value
function. `ObservedRows` are the rows of each user that LSVI-UCB keeps, because what it asks about
them depends on what was released before. Rows leave in saved states, and nowhere else.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter, PrivacyError
from confide.linear_mdps import _row_kernels
from confide.linear_mdps.value_features import FeatureTarget, FeatureValues, zero_values
from confide.privacy.bounded import Bounded, L2Ball, clip_rows, real_numbers
from confide.privatizers.stored_rows import ContributionWithRows
from confide.statistics.bounds import RegressionRows
from confide.trajectory import Trajectories, TransitionCounts

Ints = npt.NDArray[np.int64]
SmallInts = npt.NDArray[np.int32]
# Features, values and rewards are whole multiples of 1 / UNIT.
UNIT = 2**24
# With so many users sums are exact in 64-bit integers and in floating point.
MOST_USERS = 2**29 - 1
# Features are shortened by this share, so that rounding in the clip cannot make one longer than 1.
MARGIN = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class UserRows:
    """The bounded rows of some users, in units of 1 / UNIT. PRIVATE.

    Shapes: features [user, h, action, i], actions [user, h], rewards [user, h].
    """

    features: SmallInts = field(repr=False)
    actions: Ints = field(repr=False)
    rewards: Ints = field(repr=False)

    @property
    def users(self) -> int:
        return len(self.features)

    def chosen_features(self) -> SmallInts:
        """The features [user, h, i] of the actions that were taken."""
        index = self.actions[:, :, None, None]
        rows: SmallInts = np.take_along_axis(self.features, index, axis=2)[:, :, 0]
        return rows


@dataclass(frozen=True, slots=True)
class FeatureClip:
    """Makes every user's data rows of norm at most 1, whatever the data are.

    Proof of the norm: `clip_rows` returns a row of norm at most L (1 + 1e-14) with
    L = `feature_norm`, or zero. Division by L (1 + 1e-9) makes its norm less than 1, and rounding
    towards zero to multiples of 1 / UNIT makes no coordinate larger. So the whole numbers of a row
    have a norm of at most UNIT. Rewards are clipped to [0, 1] and rounded down.

    A user contributes zero, with all rows zero, if any of these is unusable: a feature (not a
    finite real number), an action (not one of `actions`), a reward (not finite). Each user is
    looked at alone: whatever one user's data are, nobody else's rows change.
    """

    steps: int
    actions: int
    dimension: int
    feature_norm: float

    def rows(self, users: Trajectories | TransitionCounts) -> UserRows:
        if not isinstance(users, Trajectories):
            raise InvalidParameter(
                "features of observations cannot be counted: this agent needs trajectories"
            )
        H = self.steps
        expected = (users.users, H + 1, self.actions, self.dimension)
        if users.states.shape != expected or users.actions.shape != (users.users, H):
            raise InvalidParameter(
                f"the features of each user must have shape {expected[1:]} and the actions ({H},), "
                f"got {users.states.shape[1:]} and {users.actions.shape[1:]}"
            )
        # After the last step nothing is worth anything, so the last observation is not needed.
        # Warnings are off, because what is printed must not depend on the data.
        with np.errstate(all="ignore"):
            return self._clip(users)

    def _clip(self, users: Trajectories) -> UserRows:
        features = real_numbers(users.states[:, : self.steps])
        actions = real_numbers(users.actions)
        rewards = real_numbers(users.rewards)
        is_action = (actions >= 0) & (actions < self.actions) & (actions == np.floor(actions))
        usable = np.isfinite(features).all(axis=(1, 2, 3))
        usable &= is_action.all(axis=1) & np.isfinite(rewards).all(axis=1)
        unit_rows = clip_rows(features, self.feature_norm) / (self.feature_norm * (1 + MARGIN))
        whole = np.trunc(unit_rows * UNIT).astype(np.int32)
        whole[~usable] = 0
        unit_rewards = np.where(usable[:, None], np.clip(rewards, 0.0, 1.0), 0.0)
        return UserRows(
            features=whole,
            actions=np.where(usable[:, None], actions, 0).astype(np.int64),
            rewards=np.trunc(unit_rewards * UNIT).astype(np.int64),
        )


@dataclass(frozen=True, slots=True, eq=False)
class ObservedTargets:
    """What users add to the prefix sums of LSVI-UCB: phi phi^T and phi (r - reward_offset).

    The rows of these users are stored, too.
    """

    clip: FeatureClip
    bound: RegressionRows
    reward_offset: float

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        rows = self.clip.rows(users)
        targets = rows.rewards / UNIT - self.reward_offset
        sums = self.bound.contribution(rows.chosen_features() / UNIT, targets)
        return ContributionWithRows(sums.values, sums.bound, sums.users, stored=rows)


class ObservedRows:
    """The rows of each user, for sum phi(s, a) (w r + y(next features)). PRIVATE.

    They never leave: a `response` goes into a mechanism. Memory grows with the number of users.

    Sensitivity: the term of one user is phi t with a norm of phi of at most 1 (`FeatureClip`) and
    |t| <= 1, because w r is in [0, w], and y is clipped to [-1, 1 - w]. It is rounded towards zero
    in every coordinate, so it is in the unit ball, which is `bound`. Terms are whole multiples of
    1 / UNIT, and each is a function of one user's rows and of public values. Sums of whole numbers
    are exact. So two sums that differ in one user are at most 2 apart, and at most 1 if this user
    contributes zero in one of them.
    """

    def __init__(self, clip: FeatureClip, users: int) -> None:
        """`users` is how many can be stored. The memory is taken as rows arrive."""
        if users > MOST_USERS:
            raise InvalidParameter(f"at most {MOST_USERS} users can be stored, got {users}")
        self.bound = L2Ball(1.0, clip.dimension)
        self.users = 0
        shape = (users, clip.steps, clip.actions, clip.dimension)
        self._features: SmallInts = np.zeros(shape, dtype=np.int32)
        self._actions: Ints = np.zeros(shape[:2], dtype=np.int64)
        self._rewards: Ints = np.zeros(shape[:2], dtype=np.int64)

    def check(self, users: UserRows) -> None:
        """Raise for users whom `add` would refuse."""
        most = len(self._features)
        if self.users + users.users > most:
            raise InvalidParameter(
                f"at most {most} users can be stored, got {self.users + users.users}"
            )

    def add(self, users: UserRows) -> None:
        self.check(users)
        place = slice(self.users, self.users + users.users)
        self._features[place] = users.features
        self._actions[place] = users.actions
        self._rewards[place] = users.rewards
        self.users += users.users

    def response(self, step: int, values: FeatureTarget, reward_weight: float = 0.0) -> Bounded:
        """The sum over users at a step; the target and the weight in [0, 1] are public."""
        steps = self._features.shape[1]
        dimension = self.bound.size
        value = zero_values(dimension) if values.values is None else values.values
        _check_values(value, values, dimension)
        stored = slice(0, self.users)
        rows = UserRows(
            self._features[stored, step : step + 1],
            self._actions[stored, step : step + 1],
            self._rewards[stored, step : step + 1],
        )
        if values.values is not None and step + 1 < steps:
            next_features = self._features[stored, step + 1]
        else:
            # Without actions there is no next value.
            next_features = self._features[stored, 0, :0]
        total = np.zeros(dimension, dtype=np.int64)
        _row_kernels.add_responses(
            total,
            rows.chosen_features()[:, 0],
            rows.rewards[:, 0],
            next_features,
            int(np.clip(reward_weight, 0.0, 1.0) * UNIT),
            UNIT,
            np.ascontiguousarray(value.weights),
            np.ascontiguousarray(value.widths),
            (float(value.offset), float(value.top), float(value.ended)),
            (float(values.middle), float(values.radius)),
        )
        return Bounded(total / UNIT, self.bound, self.users)

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """PRIVATE: to be saved with the rest of the state. The names are a format."""
        stored = slice(0, self.users)
        return {
            "features": np.ascontiguousarray(self._features[stored]).view(np.uint8),
            "actions": self._actions[stored],
            "rewards": self._rewards[stored],
        }

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        users = len(arrays["actions"])
        stored = slice(0, users)
        self._features[stored] = np.ascontiguousarray(arrays["features"]).view(np.int32)
        self._features[users:] = 0
        self._actions[stored] = arrays["actions"]
        self._rewards[stored] = arrays["rewards"]
        self.users = users

    def __repr__(self) -> str:
        return f"ObservedRows({self.users} users)"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "stored rows are private, and cannot be copied or pickled: save the agent instead"
        )


def _check_values(value: FeatureValues, target: FeatureTarget, dimension: int) -> None:
    """Compiled loops read these arrays without looking at their bounds."""
    numbers = (value.offset, value.top, value.ended, target.middle, target.radius)
    finite = np.isfinite(value.weights).all() and np.isfinite(value.widths).all()
    if not (finite and np.isfinite(numbers).all() and target.radius > 0):
        raise InvalidParameter("values must be finite, and their radius positive")
    columns = value.widths.shape[1] if value.widths.ndim == 2 else None
    if value.weights.shape != (dimension,) or columns != dimension:
        raise InvalidParameter(
            f"values must be of {dimension} features, got weights of shape {value.weights.shape} "
            f"and widths of shape {value.widths.shape}"
        )
