"""Policies: public values that depend only on releases."""

import tokenize
import zipfile
import zlib
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from confide import arguments
from confide.arguments import array, fits, generator, has, integers, regular, whole
from confide.errors import InvalidParameter

Array = npt.NDArray[np.float64]


def _place(step: int, state: int, horizon: int, states: int) -> tuple[int, int]:
    """A step and a state that exist."""
    return whole("step", step, at_least=0, at_most=horizon - 1), whole(
        "state", state, at_least=0, at_most=states - 1
    )


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
        # as unsigned numbers the negative ones are the largest
        if actions.view(np.uint64).max() >= self.choices:
            raise InvalidParameter.of("actions", f"must be in 0..{self.choices - 1}")
        object.__setattr__(self, "actions", actions)

    def act(self, step: int, state: int, rng: np.random.Generator) -> int:  # noqa: ARG002 - deterministic
        horizon, states = self.actions.shape
        step, state = _place(step, state, horizon, states)
        return int(self.actions[step, state])

    def probabilities(self) -> Array:
        """[h, s, a]"""
        return np.eye(self.choices)[self.actions]

    def save(self, path: str | Path | BinaryIO) -> None:
        _save(path, kind="tabular", actions=self.actions, choices=np.array(self.choices))


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
        wrong = ~(
            np.isfinite(weights).all(axis=2)
            & (weights >= 0).all(axis=2)
            & (np.abs(weights.sum(axis=2) - 1) < 1e-8)
        )
        if wrong.any():
            h, s = np.argwhere(wrong)[0]
            raise InvalidParameter(f"weights[h={h}, s={s}] must be probabilities that sum to one")
        object.__setattr__(self, "weights", weights / weights.sum(axis=2, keepdims=True))

    @property
    def choices(self) -> int:
        return int(self.weights.shape[2])

    def act(self, step: int, state: int, rng: np.random.Generator) -> int:
        horizon, states, _ = self.weights.shape
        step, state = _place(step, state, horizon, states)
        return int(generator("rng", rng).choice(self.choices, p=self.weights[step, state]))

    def probabilities(self) -> Array:
        """[h, s, a]"""
        return self.weights

    def save(self, path: str | Path | BinaryIO) -> None:
        _save(path, kind="stochastic", weights=self.weights)


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

    def act(self, step: int, state: Array, rng: np.random.Generator) -> Array:  # noqa: ARG002 - deterministic
        horizon, _, states = self.gains.shape
        step = whole("step", step, at_least=0, at_most=horizon - 1)
        position = array("state", state, ndim=1, finite=False)
        if position.shape != (states,):
            raise InvalidParameter.of("state", f"must have shape ({states},), got {position.shape}")
        return np.asarray(self.gains[step] @ position)

    def save(self, path: str | Path | BinaryIO) -> None:
        _save(path, kind="linear", gains=self.gains)


@dataclass(frozen=True, slots=True)
class RandomPolicy:
    """Any of `choices` actions with the same probability, whatever the state: for worlds that are played step by step."""

    choices: int

    def __post_init__(self) -> None:
        whole("choices", self.choices, at_least=1)

    def act(self, step: int, state: Any, rng: np.random.Generator) -> int:  # noqa: ARG002 - the same everywhere
        return int(generator("rng", rng).integers(self.choices))

    def save(self, path: str | Path | BinaryIO) -> None:
        _save(path, kind="random", choices=np.array(self.choices))


@dataclass(frozen=True, slots=True, eq=False)
class ContextPolicy:
    """The action whose context x has the largest <weights, x> + ||widths x||: weights [i], widths [k, i] (None: no bonus)."""

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
        """The action [...] for each user's contexts [..., a, i]; the first one, if several are best."""
        scores = contexts @ self.weights
        if self.widths is not None:
            scores = scores + np.linalg.norm(contexts @ self.widths.T, axis=-1)
        best: npt.NDArray[np.int64] = scores.argmax(axis=-1)
        return best

    def act(self, step: int, state: Array, rng: np.random.Generator) -> int:  # noqa: ARG002 - deterministic
        """`state` is the user's contexts [a, i]."""
        contexts = array("state", state, ndim=2, finite=False)
        if contexts.shape[1] != len(self.weights) or len(contexts) == 0:
            raise InvalidParameter.of(
                "state", f"must have shape (actions, {len(self.weights)}), got {contexts.shape}"
            )
        return int(self.choose(contexts))

    def save(self, path: str | Path | BinaryIO) -> None:
        widths = {} if self.widths is None else {"widths": self.widths}
        _save(path, kind="context", weights=self.weights, **widths)


_HEADER = (SyntaxError, tokenize.TokenError)  # of an array whose description is damaged
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
    *_HEADER,
)
FinitePolicy = TabularPolicy | StochasticPolicy
Policy = FinitePolicy | LinearPolicy | RandomPolicy | ContextPolicy


def uniform_policy(horizon: int, states: int, actions: int) -> StochasticPolicy:
    sizes = {"horizon": horizon, "states": states, "actions": actions}
    fits(**{name: whole(name, size, at_least=1) for name, size in sizes.items()})
    return StochasticPolicy(np.full((horizon, states, actions), 1 / actions))


def load_policy(path: str | Path | BinaryIO) -> Policy:
    """A policy that was saved; never a pickle."""
    try:
        with _opened(path, "rb") as file, np.load(file, allow_pickle=False) as data:
            kind = str(data["kind"])
            if kind == "tabular":
                return TabularPolicy(data["actions"], int(data["choices"]))
            if kind == "random":
                return RandomPolicy(int(data["choices"]))
            if kind == "context":
                return ContextPolicy(data["weights"], data.get("widths"))
            return (
                StochasticPolicy(data["weights"])
                if kind == "stochastic"
                else LinearPolicy(data["gains"])
            )
    except FileNotFoundError:
        raise InvalidParameter(
            f"{path} does not exist, and so it is not a saved policy (.npz)"
        ) from None
    except _DAMAGE as error:
        why = (
            error.strerror
            if isinstance(error, OSError)
            else str(error)
            if isinstance(error, InvalidParameter)
            else None
        )
        raise InvalidParameter(
            f"{path} is not a saved policy (.npz){f': {why}' if why else ''}; policy.save makes one"
        ) from None


def _save(path: str | Path | BinaryIO, *, kind: str, **arrays: npt.NDArray[Any]) -> None:
    try:
        # A file object, because np.savez would add an ending of its own to a name.
        with _opened(path, "wb") as file:
            np.savez_compressed(file, allow_pickle=False, kind=np.array(kind), **arrays)
    except IsADirectoryError:
        raise InvalidParameter(
            f"cannot write to {path}: it is a folder; choose another file"
        ) from None


def _opened(path: str | Path | BinaryIO, mode: str) -> AbstractContextManager[Any]:
    if isinstance(path, str | Path):
        return open(regular(path) if mode == "rb" else arguments.path("path", path), mode)
    return nullcontext(
        has(
            "path",
            path,
            ("read" if mode == "rb" else "write",),
            "the name of a file, or an open file",
        )
    )
