"""The sizes of a problem: all that is needed to estimate the memory of an agent on it.

They are known without making the agent, and for most problems without making the problem. These are
estimates: nothing private, and no result, depends on them.
"""

import inspect
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from confide.arguments import BYTES_PER_NUMBER, COPIES
from confide.problems.catalogue import PROBLEMS, make
from confide.problems.headers import Headers, read_headers
from confide.problems.successor_features import SuccessorFeatures


@dataclass(frozen=True, slots=True, kw_only=True)
class ProblemSizes:
    """The sizes of one problem. A size that it does not have is zero.

    - `actions`: of a linear system, its inputs;
    - `dimension`: of kernels, features or contexts;
    - `transitions`: how many (s, a, s') a mixture has features for, if these are kept for possible
      successors only;
    - `terminal`: states that end an episode;
    - `population`: different users of a linear bandit;
    - `memory`: what making the problem takes, in bytes; zero if it exists already.
    """

    family: str
    horizon: int
    states: int = 0
    actions: int = 0
    dimension: int = 0
    reward_dimension: int = 0
    transitions: int = 0
    stationary: bool = True
    known_rewards: bool = True
    terminal: int = 0
    population: int = 0
    memory: int = 0


def sizes_of(problem: Any) -> ProblemSizes:
    """The sizes of a problem, or of its public part."""
    if isinstance(problem, ProblemSizes):
        return problem
    public = getattr(problem, "public", problem)
    terminal = getattr(public, "terminal", None)
    reward_features = getattr(public, "reward_features", None)
    features = getattr(public, "features", None)
    return ProblemSizes(
        family=getattr(public, "family", ""),
        horizon=int(getattr(public, "horizon", 1)),
        states=int(getattr(public, "states", 0)),
        actions=int(getattr(public, "actions", 0) or getattr(public, "inputs", 0)),
        dimension=int(getattr(public, "dimension", 0)),
        reward_dimension=0 if reward_features is None else int(reward_features.shape[2]),
        transitions=len(features.successors) if isinstance(features, SuccessorFeatures) else 0,
        stationary=bool(getattr(public, "stationary", True)),
        known_rewards=getattr(public, "rewards", None) is not None,
        population=len(getattr(problem, "contexts", ())),
        terminal=0 if terminal is None else int(terminal.sum()),
    )


def sizes_by_name(name: str | os.PathLike[str], horizon: int | None = None) -> ProblemSizes:
    """The sizes of the problem that `make(name, horizon=horizon)` makes.

    Of a saved problem only the headers of its arrays are read. A problem of the catalogue is made
    with its own short horizon, and an environment of Gymnasium, whose table exists already, as it
    is.
    """
    if name not in PROBLEMS:
        if os.path.isfile(name):
            return _sizes_of_file(Path(name))
        return sizes_of(make(name, horizon=horizon))
    builder = PROBLEMS[os.fspath(name)]
    usual = sizes_of(make(name))
    has_horizon = "horizon" in inspect.signature(builder).parameters
    if horizon is None or horizon == usual.horizon or not has_horizon:
        return replace(usual, memory=_memory_while_made(usual))
    states = usual.states
    # The states of a chain may be its steps.
    if builder.profile.states_follow_horizon:
        states += horizon - usual.horizon
    chosen = replace(usual, horizon=horizon, states=states)
    return replace(chosen, memory=_memory_while_made(chosen))


def _memory_while_made(sizes: ProblemSizes) -> int:
    """Bytes at the peak of making a problem of the catalogue."""
    pairs = sizes.states * sizes.actions
    rewards = sizes.horizon * pairs
    layers = 1 if sizes.family == "table" and sizes.stationary else sizes.horizon
    table = layers * pairs * sizes.states
    kernels = sizes.dimension * pairs * sizes.states if sizes.family == "mixture" else 0
    return COPIES * BYTES_PER_NUMBER * (table + kernels + rewards)


def _sizes_of_file(path: Path) -> ProblemSizes:
    """The sizes of a saved problem, from the headers of its arrays.

    A damaged file gets the error of `load_problem`.
    """
    try:
        headers = read_headers(path)
        sizes = _FAMILIES[headers.scalars["kind"]](headers)
    except (OSError, ValueError, KeyError, IndexError, zipfile.BadZipFile):
        return sizes_of(make(path))
    return replace(sizes, memory=sizes.memory + COPIES * headers.total)


def _table(headers: Headers) -> ProblemSizes:
    horizon, states, actions = headers.shapes["rewards"]
    return ProblemSizes(
        family="table",
        horizon=horizon,
        states=states,
        actions=actions,
        stationary=headers.scalars["layers"] == 1,
        known_rewards=not headers.scalars["stochastic_rewards"],
    )


def _mixture(headers: Headers) -> ProblemSizes:
    dimension, states, actions, _ = headers.shapes["kernels"]
    horizon, _ = headers.shapes["weights"]
    features = headers.shapes.get("reward_features")
    sizes = ProblemSizes(
        family="mixture",
        horizon=horizon,
        states=states,
        actions=actions,
        dimension=dimension,
        reward_dimension=0 if features is None else features[2],
        known_rewards=features is None,
    )
    return replace(sizes, memory=_memory_while_made(sizes))


def _feature_mixture(headers: Headers) -> ProblemSizes:
    transitions, dimension = headers.shapes["features"]
    horizon, states, actions = headers.shapes["rewards"]
    features = headers.shapes.get("reward_features")
    return ProblemSizes(
        family="mixture",
        horizon=horizon,
        states=states,
        actions=actions,
        dimension=dimension,
        reward_dimension=0 if features is None else features[2],
        transitions=transitions,
        known_rewards=features is None,
        # Of each layer of the truth: probabilities as they are, made exact and added up,
        # successors and rewards.
        memory=BYTES_PER_NUMBER * horizon * (6 * transitions + COPIES * states * actions),
    )


def _linear_mdp(headers: Headers) -> ProblemSizes:
    states, actions, dimension = headers.shapes["features"]
    horizon, _, _ = headers.shapes["measures"]
    sizes = ProblemSizes(
        family="linear MDP",
        horizon=horizon,
        states=states,
        actions=actions,
        dimension=dimension,
        known_rewards=False,
    )
    return replace(sizes, memory=_memory_while_made(sizes))


def _linear_bandit(headers: Headers) -> ProblemSizes:
    population, actions, dimension = headers.shapes["contexts"]
    return ProblemSizes(
        family="linear bandit",
        horizon=1,
        actions=actions,
        dimension=dimension,
        known_rewards=False,
        population=population,
    )


def _linear_control(headers: Headers) -> ProblemSizes:
    states, inputs = headers.shapes["B"]
    return ProblemSizes(
        family="linear control",
        horizon=headers.scalars["horizon"],
        states=states,
        actions=inputs,
        known_rewards=False,
    )


# The function that reads the headers, by the kind that a file names.
_FAMILIES: dict[str, Callable[[Headers], ProblemSizes]] = {
    "table": _table,
    "linear-mixture": _mixture,
    "feature-mixture": _feature_mixture,
    "linear-mdp": _linear_mdp,
    "linear-bandit": _linear_bandit,
    "lq": _linear_control,
}
