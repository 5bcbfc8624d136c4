"""Trajectories of users, in batched arrays. PRIVATE: never in a log message, an error or a repr."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arguments import whole
from confide.errors import InvalidParameter
from confide.privacy.bounded import real_numbers

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """Whole episodes of many users, all under one policy.

    Shapes: states [user, h] with h = 0..H (the last one is where the episode ended), actions and rewards [user, h] with h = 0..H-1. In a
    linear system states [user, h, n] and actions [user, h, d] are vectors, and rewards are minus the costs; in a world played step by
    step states are features [user, h, action, i].

    An episode that was cut off is completed: a state or an action that is missing at the end is one that does not exist (-1, or NaN), and
    contributes zero; one too many is left out. Whether an episode is whole depends on a user's data, so that no error may.
    """

    states: npt.NDArray[Any] = field(repr=False)
    actions: npt.NDArray[Any] = field(repr=False)
    rewards: Array = field(repr=False)

    def __post_init__(self) -> None:
        states, actions, rewards = (_array(part) for part in (self.states, self.actions, self.rewards))
        if rewards.ndim != 2 or not len(states) == len(actions) == len(rewards) or min(states.ndim, actions.ndim) < 2:
            shapes = f"states {states.shape}, actions {actions.shape}, rewards {rewards.shape}"
            raise InvalidParameter(
                f"states, actions and rewards must have shapes (users, steps, ...) for the same users, got {shapes}"
            )
        steps = rewards.shape[1]
        object.__setattr__(self, "states", _of_length(states, steps + 1))
        object.__setattr__(self, "actions", _of_length(actions, steps))
        object.__setattr__(self, "rewards", rewards)

    @property
    def users(self) -> int:
        return len(self.rewards)

    @property
    def horizon(self) -> int:
        return int(self.rewards.shape[1])

    def __getitem__(self, users: slice) -> "Trajectories":
        return Trajectories(self.states[users], self.actions[users], self.rewards[users])


def collect(
    episodes: Iterable[tuple[Any, Any, Any]],
    horizon: int,
    *,
    state_shape: tuple[int, ...] = (),
    action_shape: tuple[int, ...] = (),
) -> Trajectories:
    """The episodes (states, actions, rewards) of many users, as they came: of any length, with whatever is in them.

    The horizon and the shapes are public, and decided by nobody's data. What is missing or no number is NaN, and contributes zero.
    """
    whole("horizon", horizon, at_least=0)
    try:
        users, shapes = (
            list(episodes),
            [tuple(whole("shape", n, at_least=1) for n in shape) for shape in (state_shape, action_shape)],
        )
    except TypeError:
        raise InvalidParameter(
            "episodes must be a list of (states, actions, rewards), and shapes tuples of whole numbers"
        ) from None
    states, actions = (
        np.full((len(users), horizon + more, *shape), math.nan) for more, shape in zip((1, 0), shapes, strict=True)
    )
    rewards = np.full((len(users), horizon), math.nan)
    for user, episode in enumerate(users):
        parts = episode[:3] if isinstance(episode, list | tuple) else ()
        for into, part in zip((states[user], actions[user], rewards[user]), parts, strict=False):
            _fill(into, part)
    return Trajectories(states, actions, rewards)


def _fill(into: Array, part: Any) -> None:
    """The elements of one user that have the shape of a step, at their place. Whatever a user's objects do, it is seen by nobody."""
    size = into.shape[1] if into.ndim > 1 else None
    try:
        if size is None and type(part) is list and {type(each) for each in part[: len(into)]} <= {int, float}:
            into[: len(part)] = part[: len(into)]  # plain numbers at once: the same as one by one, below
            return
    except OverflowError:  # a whole number of hundreds of digits
        pass
    try:
        for step, element in enumerate(islice(part, len(into))):
            if size is None or len(element) == size:
                numbers = real_numbers(element)
                if numbers.shape == into.shape[1:]:
                    into[step] = numbers
    except Exception:
        return


def _array(part: Any) -> npt.NDArray[Any]:
    if isinstance(part, np.ndarray):
        return part
    try:
        array = np.asarray(part)
        return array if array.dtype.kind in "biuf" else np.array(part, dtype=object)  # each element as it is
    except (TypeError, ValueError, OverflowError):
        raise InvalidParameter(
            "states, actions and rewards must be arrays; `confide.trajectory.collect` takes episodes of any length"
        ) from None


def _of_length(part: npt.NDArray[Any], steps: int) -> npt.NDArray[Any]:
    """With so many steps: the first ones, then ones that do not exist."""
    missing = steps - part.shape[1]
    if missing <= 0:
        return part[:, :steps] if missing else part
    nothing = {"i": -1, "f": math.nan}.get(part.dtype.kind)
    return np.concatenate(
        [part, np.full((len(part), missing, *part.shape[2:]), nothing, object if nothing is None else part.dtype)], 1
    )


@dataclass(frozen=True, slots=True, eq=False)
class TransitionCounts:
    """How often each transition happened in a simulated batch: exact, and enough for everything that adds up over users.

    For simulation only: a real service sees trajectories, and nobody may count them before the clip. A certificate made from counts
    says so.

    Shapes: one row per different transition: step, state, action, next_state [row], reward [row], count [row].
    """

    step: Indices = field(repr=False)
    state: Indices = field(repr=False)
    action: Indices = field(repr=False)
    next_state: Indices = field(repr=False)
    reward: Array = field(repr=False)
    count: Indices = field(repr=False)
    users: int
    horizon: int


def nobody_counted(users: int, horizon: int) -> TransitionCounts:
    """Users whom the agent does not look at: only their number."""
    empty = np.zeros(0, dtype=np.int64)
    return TransitionCounts(empty, empty, empty, empty, np.zeros(0), empty, users, horizon)


@dataclass(frozen=True, slots=True, eq=False)
class LoggedUsers:
    """Whole users of a log, each with one or more trajectories of any length.

    `valid` is False for users with a row that makes no sense (disorder, a number that is not finite): such a user contributes zero, and
    nothing that is published tells. Statistics check what only they can know, the range of states and actions.

    Shapes: states, rewards [row] and, where logged, actions, probabilities [row] (of the action under the policy that was followed);
    `gaps` [row], where steps are numbered: whether steps are missing between the row before, of the same trajectory, and this one;
    the rows of trajectory t are trajectories[t]:trajectories[t + 1], the trajectories of user u are users[u]:users[u + 1]; valid [user].
    """

    states: Indices = field(repr=False)
    rewards: Array = field(repr=False)
    trajectories: Indices = field(repr=False)
    users: Indices = field(repr=False)
    valid: npt.NDArray[np.bool_] = field(repr=False)
    actions: Indices | None = field(default=None, repr=False)
    probabilities: Array | None = field(default=None, repr=False)
    gaps: npt.NDArray[np.bool_] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        rows, trajectories, count = len(self.states), len(self.trajectories) - 1, len(self.users) - 1
        shapes = self.rewards.shape == (rows,) and self.valid.shape == (max(count, 0),) and trajectories >= 0 and count >= 0
        for optional in (self.actions, self.probabilities, self.gaps):
            shapes = shapes and (optional is None or optional.shape == (rows,))
        for offsets, end in ((self.trajectories, rows), (self.users, trajectories)):
            shapes = shapes and offsets[0] == 0 and offsets[-1] == end and bool((np.diff(offsets) >= 0).all())
        if not shapes:
            raise InvalidParameter("rows, trajectories and users of a log do not fit together")

    @property
    def count(self) -> int:
        return len(self.users) - 1
