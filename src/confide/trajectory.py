"""Trajectories of users, in batched arrays. PRIVATE: never in a log message, an error or a repr.

Compiled loops read these arrays without looking at their bounds. So the constructors make plain
arrays of fixed types, and whatever a user's data contain, they neither raise an error nor print.
Shapes, types and the number of users are public, and wrong ones are refused.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size, kind, shown, whole
from confide.errors import InvalidParameter
from confide.privacy.bounded import real_numbers

Array = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]
# A state or an action has at most so many axes. Taste.
_MOST_AXES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Trajectories:
    """Whole episodes of many users, all under one policy.

    Shapes: states [user, h] with h = 0..H, where the last state is the one in which the episode
    ended, and actions and rewards [user, h] with h = 0..H-1. In a linear system states [user, h, n]
    and actions [user, h, d] are vectors, and rewards are minus the costs. In an environment that is
    played step by step states are features [user, h, action, i].

    An episode that was cut off is completed. A state or an action that is missing at the end
    becomes one that does not exist (-1, or NaN), and contributes zero. States and actions that are
    too many are left out. Whether an episode is whole depends on a user's data, so no error may
    depend on it.
    """

    states: npt.NDArray[Any] = field(repr=False)
    actions: npt.NDArray[Any] = field(repr=False)
    rewards: Array = field(repr=False)

    def __post_init__(self) -> None:
        states, actions, rewards = (
            _array(part) for part in (self.states, self.actions, self.rewards)
        )
        flat = rewards.ndim != 2 or min(states.ndim, actions.ndim) < 2
        if flat or not len(states) == len(actions) == len(rewards):
            shapes = f"states {states.shape}, actions {actions.shape}, rewards {rewards.shape}"
            raise InvalidParameter(
                "states, actions and rewards must have shapes (users, steps, ...) "
                f"for the same users, got {shapes}"
            )
        steps = rewards.shape[1]
        object.__setattr__(self, "states", _with_length(states, steps + 1))
        object.__setattr__(self, "actions", _with_length(actions, steps))
        object.__setattr__(self, "rewards", rewards)

    @property
    def users(self) -> int:
        return len(self.rewards)

    @property
    def horizon(self) -> int:
        return int(self.rewards.shape[1])

    def __getitem__(self, users: slice) -> "Trajectories":
        """The trajectories of some users, for example `trajectories[2:5]`."""
        kind("users", users, slice, expected="a slice, as in trajectories[2:5]")
        try:
            users.indices(self.users)
        except (TypeError, ValueError):
            raise InvalidParameter.of(
                "users", f"must be a slice of whole numbers, got {shown(users)}"
            ) from None
        return Trajectories(self.states[users], self.actions[users], self.rewards[users])


def collect(
    episodes: Iterable[tuple[Any, Any, Any]],
    horizon: int,
    *,
    state_shape: tuple[int, ...] = (),
    action_shape: tuple[int, ...] = (),
) -> Trajectories:
    """Make trajectories of episodes (states, actions, rewards) of any length, with any content.

    The horizon and the shapes are public, and must not be decided by anybody's data. What is
    missing, or is no number, becomes NaN and contributes zero.
    """
    whole("horizon", horizon, at_least=0)
    state_sizes = _step_shape("state_shape", state_shape)
    action_sizes = _step_shape("action_shape", action_shape)
    if isinstance(episodes, str | bytes | dict) or not isinstance(episodes, Iterable):
        raise InvalidParameter.of(
            "episodes",
            f"must be a list of (states, actions, rewards), got {type(episodes).__name__}",
        )
    try:
        users = list(episodes)
    except TypeError:
        # An array without dimensions claims to be iterable.
        raise InvalidParameter.of(
            "episodes", "must be a list of (states, actions, rewards)"
        ) from None
    check_size(
        users=max(len(users), 1),
        steps=horizon + 1,
        state=math.prod(state_sizes),
        action=math.prod(action_sizes),
    )
    states = np.full((len(users), horizon + 1, *state_sizes), math.nan)
    actions = np.full((len(users), horizon, *action_sizes), math.nan)
    rewards = np.full((len(users), horizon), math.nan)
    for user, episode in enumerate(users):
        parts = episode[:3] if isinstance(episode, list | tuple) else ()
        for into, part in zip((states[user], actions[user], rewards[user]), parts, strict=False):
            _fill(into, part)
    return Trajectories(states, actions, rewards)


def _step_shape(name: str, shape: Any) -> tuple[int, ...]:
    """The shape of one state or one action, if the argument is one."""
    if not isinstance(shape, tuple | list) or len(shape) > _MOST_AXES:
        raise InvalidParameter.of(name, "must be a tuple of whole numbers", got=shown(shape))
    return tuple(whole(name, size, at_least=1) for size in shape)


def _fill(into: Array, part: Any) -> None:
    """Write a user's elements that have the shape of a step to their places in `into` [step, ...].

    Whatever a user's objects do, nobody sees it.
    """
    size = into.shape[1] if into.ndim > 1 else None
    try:
        is_flat_list = size is None and type(part) is list
        if is_flat_list and {type(each) for each in part[: len(into)]} <= {int, float}:
            # Plain numbers are written at once, with the same result as one by one below.
            into[: len(part)] = part[: len(into)]
            return
    except OverflowError:
        # A whole number of hundreds of digits. The loop below leaves it out.
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
    """States, actions or rewards as an array of NumPy's own class."""
    if isinstance(part, np.ndarray):
        return _plain(part)
    try:
        array = np.asarray(part)
        # What is no number keeps its own type, so that it does not change its neighbours.
        return array if array.dtype.kind in "biuf" else np.array(part, dtype=object)
    except Exception:
        # Lists of different lengths, or whatever an object of the user's own class does.
        raise InvalidParameter(
            "states, actions and rewards must be arrays; "
            "`confide.trajectory.collect` takes episodes of any length"
        ) from None


def _plain(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """An array of NumPy's own class, because other classes may claim another length.

    Masked entries are missing.
    """
    if isinstance(array, np.ma.MaskedArray):
        masked: Any = array.astype(object)
        return np.asarray(masked.filled(None))
    return np.asarray(array)


def _with_length(part: npt.NDArray[Any], steps: int) -> npt.NDArray[Any]:
    """part [user, step, ...] with so many steps: the first ones, then ones that do not exist."""
    missing = steps - part.shape[1]
    if missing == 0:
        return part
    if missing < 0:
        return part[:, :steps]
    # A state or an action that does not exist is -1, NaN or None, depending on the type.
    nothing = {"i": -1, "f": math.nan}.get(part.dtype.kind)
    dtype = object if nothing is None else part.dtype
    padding = np.full((len(part), missing, *part.shape[2:]), nothing, dtype)
    return np.concatenate([part, padding], axis=1)


@dataclass(frozen=True, slots=True, eq=False)
class TransitionCounts:
    """How often each transition happened in a simulated batch.

    The counts are exact, and enough for everything that adds up over users. They are for simulation
    only: a real service sees trajectories, and nobody may count them before the clip. A certificate
    made from counts says so.

    Shapes: one row for each different transition: step, state, action, next_state [row], reward
    [row], count [row].
    """

    step: Indices = field(repr=False)
    state: Indices = field(repr=False)
    action: Indices = field(repr=False)
    next_state: Indices = field(repr=False)
    reward: Array = field(repr=False)
    count: Indices = field(repr=False)
    users: int
    horizon: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "users", whole("users", self.users, at_least=0))
        object.__setattr__(self, "horizon", whole("horizon", self.horizon, at_least=0))
        for name in ("step", "state", "action", "next_state"):
            object.__setattr__(self, name, _private_indices(name, getattr(self, name)))
        object.__setattr__(self, "reward", _private_reals("reward", self.reward))
        object.__setattr__(self, "count", _offsets("count", self.count))
        lengths = {
            name: len(getattr(self, name))
            for name in ("step", "state", "action", "next_state", "reward", "count")
        }
        if len(set(lengths.values())) > 1:
            sizes = ", ".join(f"{name} {length}" for name, length in lengths.items())
            raise InvalidParameter(
                f"all columns of the counts must have the same length, got {sizes}"
            )
        # A transition of one step happens at most once to each user, and a sum of such counts
        # cannot overflow.
        if len(self.count) and (self.count.min() < 0 or self.count.max() > self.users):
            raise InvalidParameter(
                f"count must be between 0 and {self.users}, the number of users, "
                "because every user has at most one transition per step"
            )


def counts_without_check(*columns: npt.NDArray[Any], users: int, horizon: int) -> TransitionCounts:
    """Make counts of columns that fit together, without the checks of the constructor.

    The checks take as long as counting one user's steps. The columns must be int64 arrays (reward:
    float64) of one length, because compiled loops read them without looking at their bounds.
    """
    counts = object.__new__(TransitionCounts)
    names = ("step", "state", "action", "next_state", "reward", "count", "users", "horizon")
    for name, value in zip(names, (*columns, users, horizon), strict=True):
        object.__setattr__(counts, name, value)
    return counts


def counts_of_nobody(users: int, horizon: int) -> TransitionCounts:
    """The counts of users whom the agent does not look at. Only their number counts."""
    empty = np.zeros(0, dtype=np.int64)
    return TransitionCounts(empty, empty, empty, empty, np.zeros(0), empty, users, horizon)


@dataclass(frozen=True, slots=True, eq=False)
class LoggedUsers:
    """Whole users of a log, each with one or more trajectories of any length.

    `valid` is False for users with a row that makes no sense, because it is out of order or has a
    number that is not finite. Such a user contributes zero, and nothing that is published tells it.
    Statistics check what only they can know, the range of states and actions.

    Shapes: states and rewards [row] and, where they are logged, actions and probabilities [row]. A
    probability is that of the action under the policy that was followed. If steps are numbered,
    `gaps` [row] says whether steps are missing between this row and the row before, if both are of
    the same trajectory. The rows of trajectory t are trajectories[t]:trajectories[t + 1]. The
    trajectories of user u are users[u]:users[u + 1]. valid [user].
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
        object.__setattr__(self, "states", _private_indices("states", self.states))
        object.__setattr__(self, "rewards", _private_reals("rewards", self.rewards))
        object.__setattr__(
            self, "trajectories", _frozen(_offsets("trajectories", self.trajectories))
        )
        object.__setattr__(self, "users", _frozen(_offsets("users", self.users)))
        object.__setattr__(self, "valid", _private_flags("valid", self.valid, missing=False))
        if self.actions is not None:
            object.__setattr__(self, "actions", _private_indices("actions", self.actions))
        if self.probabilities is not None:
            object.__setattr__(
                self, "probabilities", _private_reals("probabilities", self.probabilities)
            )
        if self.gaps is not None:
            object.__setattr__(self, "gaps", _private_flags("gaps", self.gaps, missing=True))
        rows = len(self.states)
        for name in ("rewards", "actions", "probabilities", "gaps"):
            column = getattr(self, name)
            if column is not None and len(column) != rows:
                raise InvalidParameter.of(
                    name, f"must have one entry for each of the {rows} states, got {len(column)}"
                )
        _check_offsets("trajectories", self.trajectories, rows, "the number of rows")
        _check_offsets(
            "users", self.users, len(self.trajectories) - 1, "the number of trajectories"
        )
        if len(self.valid) != len(self.users) - 1:
            raise InvalidParameter.of(
                "valid",
                f"must have one entry for each of the {len(self.users) - 1} users, "
                f"got {len(self.valid)}",
            )

    @property
    def count(self) -> int:
        return len(self.users) - 1


def _column(name: str, values: Any) -> npt.NDArray[Any]:
    """One column of private data: an array of one dimension, of any type.

    Compiled loops read these arrays without looking at their bounds, so nothing else may reach
    them.
    """
    try:
        column = _plain(values) if isinstance(values, np.ndarray) else np.asarray(values)
        # A list with one text becomes an array of texts. Each element is then taken as it is.
        if column.dtype.kind not in "biuf" and not isinstance(values, np.ndarray):
            column = np.array(values, dtype=object)
    except Exception:
        # Lists of different lengths, or whatever an object of the user's own class does.
        raise InvalidParameter.of(
            name, f"must be an array of one dimension, got {type(values).__name__}"
        ) from None
    if column.ndim != 1:
        raise InvalidParameter.of(
            name, f"must be an array of one dimension, got shape {column.shape}"
        )
    return column


def _ready(values: Any, dtype: type) -> bool:
    """Whether compiled loops can read this column as it is. Then nothing has to be converted."""
    plain = type(values) is np.ndarray and values.ndim == 1 and values.dtype == dtype
    return plain and bool(values.flags.c_contiguous)


def _private_indices(name: str, values: Any) -> Indices:
    """States, actions or steps as int64.

    One that is no whole number, or too large, becomes -1, which does not exist.
    """
    if _ready(values, np.int64):
        return values  # type: ignore[no-any-return]
    column = _column(name, values)
    if column.dtype.kind not in "bi":
        numbers = real_numbers(column)
        exists = (numbers >= 0) & (numbers < 2.0**53)
        numbers = np.where(exists, numbers, -1.0)
        column = np.where(np.floor(numbers) == numbers, numbers, -1.0)
    return np.ascontiguousarray(column, dtype=np.int64)


def _private_reals(name: str, values: Any) -> Array:
    """Rewards or probabilities as float64.

    One that is no real number becomes NaN, and its user contributes zero.
    """
    if _ready(values, np.float64):
        return values  # type: ignore[no-any-return]
    return np.ascontiguousarray(real_numbers(_column(name, values)), dtype=np.float64)


def _private_flags(name: str, values: Any, *, missing: bool) -> npt.NDArray[np.bool_]:
    """True or False for each entry. One that is neither becomes `missing`."""
    column = _column(name, values)
    if column.dtype.kind != "b":
        numbers = real_numbers(column)
        column = np.where((numbers == 0) | (numbers == 1), numbers == 1, missing)
    return np.ascontiguousarray(column, dtype=np.bool_)


def _offsets(name: str, values: Any) -> Indices:
    """Where parts begin and end, or how many there are, as int64.

    They are the structure of the data and no user's values, so wrong ones are refused.
    """
    if _ready(values, np.int64):
        return values  # type: ignore[no-any-return]
    column = _column(name, values)
    if column.dtype.kind not in "iu" and column.size:
        raise InvalidParameter.of(
            name, f"must be an array of whole numbers, got the type {column.dtype}"
        )
    if column.dtype.kind == "u" and column.size and column.max() > np.iinfo(np.int64).max:
        raise InvalidParameter.of(name, "must be at most 2**63 - 1")
    return np.ascontiguousarray(column, dtype=np.int64)


def _frozen(offsets: Indices) -> Indices:
    """A copy that nobody can change after it was checked.

    Compiled loops follow offsets without looking at the bounds of the arrays.
    """
    copy = offsets.copy()
    copy.flags.writeable = False
    return copy


def _check_offsets(name: str, offsets: Indices, end: int, end_words: str) -> None:
    """Refuse offsets that do not begin with 0, end with `end` and never decrease."""
    ordered = (
        len(offsets) > 0
        and offsets[0] == 0
        and offsets[-1] == end
        # Neighbours are compared, because their difference may overflow.
        and bool((offsets[1:] >= offsets[:-1]).all())
    )
    if not ordered:
        raise InvalidParameter.of(
            name,
            f"must be offsets that begin with 0, never decrease and end with {end_words}, {end}",
        )
