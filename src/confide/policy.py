"""Policies: public values that depend only on releases.

What leaves this file are saved policies (.npz). The kinds ("tabular", "linear" and so on) and the
names of the arrays in them are a format that later versions read, so they must stay. A policy may
be published, with one exception: the gains that a `StartRule` computes for one user.
"""

import tokenize
import zipfile
import zlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
import numpy.typing as npt

from confide import arguments
from confide.arguments import (
    array,
    check_size,
    generator,
    has,
    integers,
    real,
    regular_file,
    shown,
    text,
    whole,
)
from confide.catalogue import function_by_name, name_of_function
from confide.errors import InvalidParameter
from confide.privacy.bounded import clip_rows, real_numbers

Array = npt.NDArray[np.float64]
# Features of one observation: a row [i] for each action.
Features = Callable[[Any], npt.ArrayLike]
# Values that differ by less are the same value. Taste: far above rounding, far below any effect.
TIES = 1e-7
# Probabilities of actions may sum to one up to this. They are normalised then. Taste.
_ROUNDING_OF_PROBABILITIES = 1e-8


def _check_place(step: int, state: int, horizon: int, states: int) -> tuple[int, int]:
    """Return a step and a state if they exist, and refuse them otherwise."""
    step = whole("step", step, at_least=0, at_most=horizon - 1)
    state = whole("state", state, at_least=0, at_most=states - 1)
    return step, state


@dataclass(frozen=True, slots=True, eq=False)
class TabularPolicy:
    """One action per step and state, actions [h, s], out of `choices`."""

    actions: npt.NDArray[np.int64]
    choices: int

    def __post_init__(self) -> None:
        whole("choices", self.choices, at_least=1)
        actions = integers("actions", self.actions)
        if actions.ndim != 2 or actions.size == 0:
            raise InvalidParameter.of(
                "actions", f"must have shape (horizon, states), got {actions.shape}"
            )
        # Seen as unsigned numbers, negative ones are the largest.
        if actions.view(np.uint64).max() >= self.choices:
            raise InvalidParameter.of("actions", f"must be in 0..{self.choices - 1}")
        object.__setattr__(self, "actions", actions)

    # The policy is deterministic, so it does not use the generator.
    def act(self, step: int, state: int, rng: np.random.Generator) -> int:  # noqa: ARG002
        horizon, states = self.actions.shape
        step, state = _check_place(step, state, horizon, states)
        return int(self.actions[step, state])

    def probabilities(self) -> Array:
        """[h, s, a]"""
        return np.eye(self.choices)[self.actions]

    def save(self, path: str | Path | BinaryIO) -> None:
        save_policy(path, kind="tabular", actions=self.actions, choices=np.array(self.choices))


@dataclass(frozen=True, slots=True, eq=False)
class StochasticPolicy:
    """The probability of each action per step and state, weights [h, s, a]."""

    weights: Array

    def __post_init__(self) -> None:
        weights = np.ascontiguousarray(array("weights", self.weights, finite=False))
        if weights.ndim != 3:
            raise InvalidParameter.of(
                "weights", f"must have shape (horizon, states, actions), got {weights.shape}"
            )
        sums_to_one = np.abs(weights.sum(axis=2) - 1) < _ROUNDING_OF_PROBABILITIES
        right = np.isfinite(weights).all(axis=2) & (weights >= 0).all(axis=2) & sums_to_one
        if not right.all():
            h, s = np.argwhere(~right)[0]
            raise InvalidParameter(f"weights[h={h}, s={s}] must be probabilities that sum to one")
        object.__setattr__(self, "weights", weights / weights.sum(axis=2, keepdims=True))

    @property
    def choices(self) -> int:
        return int(self.weights.shape[2])

    def act(self, step: int, state: int, rng: np.random.Generator) -> int:
        horizon, states, _ = self.weights.shape
        step, state = _check_place(step, state, horizon, states)
        return int(generator("rng", rng).choice(self.choices, p=self.weights[step, state]))

    def probabilities(self) -> Array:
        """[h, s, a]"""
        return self.weights

    def save(self, path: str | Path | BinaryIO) -> None:
        save_policy(path, kind="stochastic", weights=self.weights)


@dataclass(frozen=True, slots=True, eq=False)
class LinearPolicy:
    """u_h = K_h x_h, gains [h, d, n]."""

    gains: Array

    def __post_init__(self) -> None:
        gains = np.ascontiguousarray(array("gains", self.gains, finite=False))
        if gains.ndim != 3 or not np.isfinite(gains).all():
            raise InvalidParameter.of(
                "gains",
                f"must be finite, of shape (horizon, inputs, states), got shape {gains.shape}",
            )
        object.__setattr__(self, "gains", gains)

    # The policy is deterministic, so it does not use the generator.
    def act(self, step: int, state: Array, rng: np.random.Generator) -> Array:  # noqa: ARG002
        horizon, _, states = self.gains.shape
        step = whole("step", step, at_least=0, at_most=horizon - 1)
        position = array("state", state, ndim=1, finite=False)
        if position.shape != (states,):
            raise InvalidParameter.of("state", f"must have shape ({states},), got {position.shape}")
        return np.asarray(self.gains[step] @ position)

    def save(self, path: str | Path | BinaryIO) -> None:
        save_policy(path, kind="linear", gains=self.gains)


@dataclass(frozen=True, slots=True)
class RandomPolicy:
    """Uniform play: any of `choices` actions with the same probability, whatever the state is.

    It is for environments that are played step by step.
    """

    choices: int

    def __post_init__(self) -> None:
        whole("choices", self.choices, at_least=1)

    # The policy is the same in all states.
    def act(self, step: int, state: Any, rng: np.random.Generator) -> int:  # noqa: ARG002
        return int(generator("rng", rng).integers(self.choices))

    def save(self, path: str | Path | BinaryIO) -> None:
        save_policy(path, kind="random", choices=np.array(self.choices))


@dataclass(frozen=True, slots=True, eq=False)
class ContextPolicy:
    """The action whose context x has the largest <weights, x> + ||widths x||.

    Shapes: weights [i], widths [k, i]. Without widths there is no bonus.
    """

    weights: Array
    widths: Array | None = None

    def __post_init__(self) -> None:
        weights = np.ascontiguousarray(array("weights", self.weights))
        if weights.ndim != 1 or weights.size == 0:
            raise InvalidParameter.of(
                "weights", f"must have shape (dimension,), got {weights.shape}"
            )
        object.__setattr__(self, "weights", weights)
        if self.widths is None:
            return
        widths = np.ascontiguousarray(array("widths", self.widths))
        if widths.ndim != 2 or widths.shape[1] != len(weights):
            raise InvalidParameter.of(
                "widths",
                f"must have shape (rows, {len(weights)}) to fit the weights, got {widths.shape}",
            )
        object.__setattr__(self, "widths", widths)

    def choose(self, contexts: Array) -> npt.NDArray[np.int64]:
        """The action [...] for each user's contexts [..., a, i]. Of equally good ones the first."""
        scores = contexts @ self.weights
        if self.widths is not None:
            scores = scores + np.linalg.norm(contexts @ self.widths.T, axis=-1)
        best: npt.NDArray[np.int64] = scores.argmax(axis=-1)
        return best

    # The policy is deterministic, so it does not use the generator.
    def act(self, step: int, state: Array, rng: np.random.Generator) -> int:  # noqa: ARG002
        """`state` is the user's contexts [a, i]."""
        contexts = array("state", state, ndim=2, finite=False)
        if contexts.shape[1] != len(self.weights) or len(contexts) == 0:
            raise InvalidParameter.of(
                "state", f"must have shape (actions, {len(self.weights)}), got {contexts.shape}"
            )
        return int(self.choose(contexts))

    def save(self, path: str | Path | BinaryIO) -> None:
        widths = {} if self.widths is None else {"widths": self.widths}
        save_policy(path, kind="context", weights=self.weights, **widths)


def feature_rows(features: Features, observation: Any, shape: tuple[int, int]) -> Array:
    """Compute the features [action, i] of one observation, all NaN if the function fails.

    An observation is a user's, so whether the function fails on it is private. The function may
    raise an error, or return text, NaN or another shape. Nothing of that leaves this call.
    """
    try:
        with np.errstate(all="ignore"):
            rows = real_numbers(features(observation))
            if rows.shape == shape and np.isfinite(rows).all():
                return np.array(rows, dtype=float)
    except Exception:
        pass
    return np.full(shape, np.nan)


@dataclass(frozen=True, slots=True, eq=False)
class FeaturePolicy:
    """The action of the largest Q, where Q is a public function of features of the observation.

    Q_h(x) = clip(offsets[h] + <weights[h], x> + ||widths[h] x||, 0, tops[h]) of the features x of
    one action, divided by `feature_norm` and clipped to norm 1. Actions of the same Q are equally
    likely. If the features cannot be computed, all actions are equally likely.

    `features` is the function of an observation. It is not saved: a file holds its name only, and
    `load_policy` takes the function.

    Shapes: weights [h, i], widths [h, k, i], offsets [h], tops [h].
    """

    weights: Array
    widths: Array
    offsets: Array
    tops: Array
    choices: int
    feature_norm: float = 1.0
    features: Features | None = field(default=None, repr=False)
    features_name: str = ""

    def __post_init__(self) -> None:
        whole("choices", self.choices, at_least=1)
        real("feature_norm", self.feature_norm, above=0)
        text("features_name", self.features_name)
        if self.features is not None and not callable(self.features):
            raise InvalidParameter.of(
                "features", "must be a function of an observation", got=shown(self.features)
            )
        for name, dimensions in (("weights", 2), ("widths", 3), ("offsets", 1), ("tops", 1)):
            parameter = np.ascontiguousarray(array(name, getattr(self, name), ndim=dimensions))
            object.__setattr__(self, name, parameter)
        steps, size = self.weights.shape
        fitting = self.widths.shape[::2] == (steps, size)
        if (
            self.weights.size == 0
            or not fitting
            or self.offsets.shape != self.tops.shape != (steps,)
        ):
            raise InvalidParameter.of(
                "weights",
                "must have shape (horizon, dimension) to fit widths, offsets and tops, "
                f"got {self.weights.shape}",
            )

    @property
    def horizon(self) -> int:
        return len(self.weights)

    @property
    def dimension(self) -> int:
        return int(self.weights.shape[1])

    def q_values(self, step: int, rows: Array) -> Array:
        """Q [...] of the features [..., i]."""
        step = whole("step", step, at_least=0, at_most=self.horizon - 1)
        with np.errstate(all="ignore"):
            return self._q_values(step, rows)

    def _q_values(self, step: int, rows: Array) -> Array:
        """The formula of the class for one step. `widths` spans the bonus."""
        longest = np.einsum("...i,...i->...", rows, rows).max(initial=0.0)
        # Short rows, which are usual, need no clip.
        short = longest <= self.feature_norm**2
        x = (rows if short else clip_rows(rows, self.feature_norm)) / self.feature_norm
        along = x @ self.widths[step].T
        width = np.sqrt(np.einsum("...k,...k->...", along, along))
        scores = self.offsets[step] + x @ self.weights[step] + width
        values: Array = np.minimum(np.maximum(scores, 0.0), self.tops[step])
        return values

    def choose(self, step: int, rows: npt.ArrayLike, rng: np.random.Generator) -> int:
        """The action for the features [action, i] of an observation."""
        numbers = real_numbers(rows)
        generator("rng", rng)
        if numbers.shape != (self.choices, self.dimension) or not np.isfinite(numbers).all():
            return int(rng.integers(self.choices))
        values = self.q_values(step, numbers)
        (best,) = (values >= values.max() - TIES).nonzero()
        return int(best[0] if len(best) == 1 else rng.choice(best))

    def act(self, step: int, state: Any, rng: np.random.Generator) -> int:
        """The action for an observation, as the environment returns it."""
        if self.features is None:
            earlier = f"; they were called {self.features_name}" if self.features_name else ""
            raise InvalidParameter(
                "this policy needs its features: "
                f"load it with load_policy(path, features=function){earlier}"
            )
        whole("step", step, at_least=0, at_most=self.horizon - 1)
        rows = feature_rows(self.features, state, (self.choices, self.dimension))
        return self.choose(step, rows, rng)

    def save(self, path: str | Path | BinaryIO) -> None:
        save_policy(
            path,
            kind="features",
            weights=self.weights,
            widths=self.widths,
            offsets=self.offsets,
            tops=self.tops,
            choices=np.array(self.choices),
            feature_norm=np.array(self.feature_norm),
            features_name=np.array(self.features_name),
        )


# What NumPy raises if the description of an array is damaged.
_DAMAGE_OF_HEADER = (SyntaxError, tokenize.TokenError)
# Everything that reading a damaged file, or a file of another kind, can raise.
_DAMAGE = (
    OSError,
    KeyError,
    ValueError,
    TypeError,
    AttributeError,
    EOFError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    *_DAMAGE_OF_HEADER,
)
FinitePolicy = TabularPolicy | StochasticPolicy


class StartRule(Protocol):
    """A policy that depends on the state in which a user starts.

    It is a rule that turns this state into gains. The rule is public and the same for all users of
    a release. The gains of one user are not public.
    """

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the gains: horizon, dimension of an input, dimension of a state."""

    def for_start(self, start: npt.ArrayLike) -> LinearPolicy:
        """The gains of a user who starts in this state. They must not be published."""

    def gains_of_all(self, starts: Array) -> Array:
        """The gains [user, h, d, n] of users with these starts [user, n]."""

    def act(self, step: int, state: Array, rng: np.random.Generator) -> Array:
        """Refused, because nobody knows here where the user started."""

    def tables(self) -> list[Any]:
        """Everything that the rule is made of."""

    def save(self, path: str | Path | BinaryIO) -> None: ...


Policy = FinitePolicy | LinearPolicy | RandomPolicy | ContextPolicy | FeaturePolicy | StartRule

# Rules need planners, which come after this module. Each of them hands over the function that reads
# its files.
_LOADERS: dict[str, Callable[[Any], StartRule]] = {}


def register_loader(kind: str, load: Callable[[Any], StartRule]) -> None:
    """Let `load_policy` read policies of this kind with this function."""
    _LOADERS[kind] = load


def is_rule(policy: Any) -> bool:
    """Whether a policy must be told where the user starts."""
    return hasattr(policy, "for_start")


def uniform_policy(horizon: int, states: int, actions: int) -> StochasticPolicy:
    """Uniform play: every action with the same probability, at every step and in every state."""
    sizes = {"horizon": horizon, "states": states, "actions": actions}
    check_size(**{name: whole(name, size, at_least=1) for name, size in sizes.items()})
    return StochasticPolicy(np.full((horizon, states, actions), 1 / actions))


def load_policy(path: str | Path | BinaryIO, *, features: Features | str | None = None) -> Policy:
    """Load a saved policy. A pickle is never read.

    A policy on features of observations needs its function again, because a file holds no code.
    Pass the function, or "package.module:function" to import it. The name that the file holds is
    never imported. Without a function such a policy can `choose` an action for features, and cannot
    `act`.
    """
    policy = _read_policy(path)
    if features is None:
        return policy
    if not isinstance(policy, FeaturePolicy):
        raise InvalidParameter(f"the policy in {path} does not act on features: omit features=")
    if isinstance(features, str):
        function = function_by_name("features", features)
        name = features
    else:
        function = features
        name = name_of_function(features)
    return replace(policy, features=function, features_name=name)


def _read_policy(path: str | Path | BinaryIO) -> Policy:
    """Read a policy. A file that is damaged, or is something else, is refused in one line."""
    try:
        with _open(path, "rb") as file, np.load(file, allow_pickle=False) as data:
            return _policy_from(data)
    except FileNotFoundError:
        raise InvalidParameter(
            f"{path} does not exist, and so it is not a saved policy (.npz)"
        ) from None
    except _DAMAGE as error:
        reason = None
        if isinstance(error, OSError):
            reason = error.strerror
        elif isinstance(error, InvalidParameter):
            reason = str(error)
        why = f": {reason}" if reason else ""
        raise InvalidParameter(
            f"{path} is not a saved policy (.npz){why}; policy.save makes one"
        ) from None


def _policy_from(data: Any) -> Policy:
    """The policy in the arrays of an open file."""
    match kind := str(data["kind"]):
        case "tabular":
            return TabularPolicy(data["actions"], int(data["choices"]))
        case "stochastic":
            return StochasticPolicy(data["weights"])
        case "linear":
            return LinearPolicy(data["gains"])
        case "random":
            return RandomPolicy(int(data["choices"]))
        case "context":
            return ContextPolicy(data["weights"], data.get("widths"))
        case "features":
            return FeaturePolicy(
                data["weights"],
                data["widths"],
                data["offsets"],
                data["tops"],
                choices=int(data["choices"]),
                feature_norm=float(data["feature_norm"]),
                features_name=str(data["features_name"]),
            )
    if kind not in _LOADERS:
        raise InvalidParameter(f"policies of kind {kind} are read after `import confide.problems`")
    return _LOADERS[kind](data)


def save_policy(path: str | Path | BinaryIO, *, kind: str, **arrays: npt.NDArray[Any]) -> None:
    """Write a policy: its kind, and its arrays by name."""
    try:
        # A file object, because np.savez would add an ending of its own to a name.
        with _open(path, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, kind=np.array(kind), **arrays)
    except IsADirectoryError:
        raise InvalidParameter(
            f"cannot write to {path}: it is a folder; choose another file"
        ) from None


def _open(path: str | Path | BinaryIO, mode: str) -> AbstractContextManager[Any]:
    """Open a file by its name, or take a file that is open already."""
    if not isinstance(path, str | Path):
        member = "read" if mode == "rb" else "write"
        return nullcontext(has("path", path, (member,), "the name of a file, or an open file"))
    place = regular_file(path) if mode == "rb" else arguments.path("path", path)
    return open(place, mode)
