"""Finite problems given by a table: a tabular MDP, and what agents may know of it.

What leaves this file: the arrays of `TabularMDP.identity` are the saved file, and identify the
problem in stores and services. Names and order of its values must not change.
"""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import array, check_size, flag, text, whole
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.problems.finite import FiniteProblem
from confide.problems.transitions import (
    Transitions,
    check_probabilities,
    normalize_rows,
    read_only_copy,
    sparse_transitions,
)

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
# Rewards may leave [0, 1], and means may differ from those of outcomes, by so much rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class TabularPublic:
    """What an agent may know of a tabular MDP.

    `rewards` [h, s, a] are None if they are to be learned. `stationary` says whether transitions,
    and rewards that are to be learned, are the same at every step. `terminal` [s] marks the states
    that are known to end an episode, or is None. Nothing happens in a terminal state: it leads to
    itself, and earns `terminal_reward` at each step if rewards are to be learned.
    """

    family: ClassVar[str] = "table"

    horizon: int
    states: int
    actions: int
    rewards: Array | None = field(repr=False)
    start: Array = field(repr=False)
    stationary: bool = True
    terminal: Bools | None = field(default=None, repr=False)
    terminal_reward: float = 0.0

    def identity(self) -> Identity:
        return Identity(
            "table-public",
            1,
            horizon=self.horizon,
            states=self.states,
            actions=self.actions,
            rewards=self.rewards,
            start=self.start,
            stationary=self.stationary,
            terminal=self.terminal,
            terminal_reward=self.terminal_reward,
        )


@dataclass(frozen=True, eq=False, init=False)
class TabularMDP(FiniteProblem):
    """An MDP with transitions [h, s, a, s'] and mean rewards [h, s, a] in [0, 1].

    With a horizon, [s, a, s'] and [s, a] are the same at every step.

    With `stochastic_rewards` rewards are unknown to the agent. A reward is 1 with the given
    probability, else 0, unless `outcome_rewards` [entry of the transitions] says what each outcome
    earns; then `rewards` must be their means. `terminal` [s] says which states are known to end an
    episode. They must lead to themselves, and if rewards are stochastic all of them must earn the
    same, which is public.
    """

    # In a saved file.
    kind: ClassVar[str] = "table"

    transitions: Transitions
    rewards: Array = field(repr=False)
    start: Array = field(repr=False)
    stochastic_rewards: bool = False
    name: str = "table"
    terminal: Bools | None = field(default=None, repr=False)
    outcome_rewards: Array | None = field(default=None, repr=False)

    def __init__(
        self,
        transitions: npt.ArrayLike | Transitions,
        rewards: npt.ArrayLike,
        start: npt.ArrayLike,
        *,
        horizon: int | None = None,
        stochastic_rewards: bool = False,
        name: str = "table",
        terminal: npt.ArrayLike | None = None,
        outcome_rewards: npt.ArrayLike | None = None,
    ) -> None:
        P = transitions if isinstance(transitions, Transitions) else sparse_transitions(transitions)
        mean_rewards = check_rewards(rewards, P, horizon)
        is_stochastic = flag("stochastic_rewards", stochastic_rewards)
        is_terminal = None if terminal is None else check_terminal(terminal, P)
        if is_terminal is not None and is_stochastic:
            terminal_rewards = mean_rewards[:, is_terminal]
            if (terminal_rewards != terminal_rewards[:1, :1, :1]).any():
                raise InvalidParameter(
                    "terminal states must all have the same mean reward if rewards are stochastic"
                )
        checked_outcomes = None
        if outcome_rewards is not None:
            checked_outcomes = check_outcomes(outcome_rewards, mean_rewards, P, is_stochastic)
        fields = {
            "transitions": P,
            "rewards": mean_rewards,
            "start": check_start(start, P.states),
            "stochastic_rewards": is_stochastic,
            "name": text("name", name),
            "terminal": is_terminal,
            "outcome_rewards": checked_outcomes,
        }
        for key, value in fields.items():
            object.__setattr__(self, key, value)

    def identity(self) -> Identity:
        """Everything that it is, by the names in its file."""
        return Identity(
            self.kind,
            1,
            layers=self.transitions.layers,
            states=self.transitions.states,
            actions=self.transitions.actions,
            indptr=self.transitions.indptr,
            successors=self.transitions.successors,
            probabilities=self.transitions.probabilities,
            rewards=self.rewards,
            start=self.start,
            stochastic_rewards=self.stochastic_rewards,
            name=self.name,
            terminal=self.terminal,
            outcome_rewards=self.outcome_rewards,
        )

    @property
    def truth(self) -> "TabularMDP":  # type: ignore[override]
        return self

    @property
    def public(self) -> TabularPublic:
        public_rewards = None if self.stochastic_rewards else self.rewards
        # Public rewards may differ from step to step, because nobody has to learn them.
        rewards_are_stationary = public_rewards is not None or bool(
            (self.rewards == self.rewards[0]).all()
        )
        terminal_reward = 0.0
        if self.terminal is not None and self.terminal.any():
            terminal_reward = float(self.rewards[0, self.terminal][0, 0])
        return TabularPublic(
            self.horizon,
            self.states,
            self.actions,
            public_rewards,
            self.start,
            self.transitions.layers == 1 and rewards_are_stationary,
            self.terminal,
            terminal_reward,
        )


def check_rewards(
    rewards: npt.ArrayLike, P: Transitions, horizon: int | None, name: str = "rewards"
) -> Array:
    """Mean rewards [h, s, a], from [h, s, a] or, with a horizon, from [s, a]."""
    means = array(name, rewards, finite=False)
    steps = _number_of_steps(means, P, horizon)
    if means.ndim == 2:
        check_size(horizon=steps, states=len(means), actions=means.shape[1])
        means = np.repeat(means[None], steps, axis=0)
    fits_layers = P.layers in (1, steps)
    if means.shape != (steps, P.states, P.actions) or not fits_layers:
        raise InvalidParameter.of(
            name,
            f"must have shape ({steps}, {P.states}, {P.actions}) to fit the transitions, "
            f"got {np.shape(rewards)}",
        )
    # NaN is wrong, too, because no comparison with it holds.
    is_wrong = ~((means >= 0) & (means <= 1 + _ROUNDING))
    if is_wrong.any():
        h, s, a = np.argwhere(is_wrong)[0]
        raise InvalidParameter(
            f"{name}[h={h}, s={s}, a={a}] must be in [0, 1], got {means[h, s, a]}: "
            "scale the rewards"
        )
    return read_only_copy(means)


def _number_of_steps(means: Array, P: Transitions, horizon: int | None) -> int:
    """The horizon that is given, or that the shapes of rewards and transitions state."""
    if horizon is not None:
        return whole("horizon", horizon, at_least=1)
    if P.layers > 1:
        return P.layers
    if means.ndim != 3:
        raise InvalidParameter("a problem that is the same at every step needs a horizon")
    return len(means)


def check_outcomes(
    outcome_rewards: npt.ArrayLike, means: Array, P: Transitions, stochastic: bool
) -> Array:
    """What each outcome earns, in the order of the entries of the transitions."""
    rewards = array("outcome_rewards", outcome_rewards, ndim=1)
    if not stochastic:
        raise InvalidParameter(
            "outcome_rewards are for stochastic_rewards=True: rewards that an agent knows are means"
        )
    if rewards.shape != P.successors.shape or rewards.min() < 0 or rewards.max() > 1:
        raise InvalidParameter.of(
            "outcome_rewards",
            f"must have {len(P.successors)} numbers in [0, 1], one for each outcome, "
            f"got shape {rewards.shape}",
        )
    row_means = np.add.reduceat(P.probabilities * rewards, P.indptr[:-1])
    differences = row_means.reshape(P.layers, P.states, P.actions) - means
    if np.abs(differences).max() > _ROUNDING:
        raise InvalidParameter.of("rewards", "must be the means of outcome_rewards")
    return read_only_copy(rewards)


def check_start(start: npt.ArrayLike, states: int) -> Array:
    """The distribution of the first state [s], made to sum to one."""
    probabilities = array("start", start, finite=False)
    if probabilities.shape != (states,):
        raise InvalidParameter.of(
            "start", f"must have shape ({states},), got {probabilities.shape}"
        )
    check_probabilities(probabilities[None], "start", "")
    return read_only_copy(normalize_rows(probabilities))


def check_terminal(terminal: npt.ArrayLike, P: Transitions) -> Bools:
    """Which states are terminal [s]. All entries of such a state must lead to itself."""
    is_terminal = np.asarray(terminal)
    if is_terminal.dtype != bool or is_terminal.shape != (P.states,):
        raise InvalidParameter.of(
            "terminal",
            f"must be a boolean array of shape ({P.states},), "
            f"got shape {is_terminal.shape} of {is_terminal.dtype}",
        )
    state_of_row = np.arange(P.layers * P.rows) // P.actions % P.states
    origins = np.repeat(state_of_row, np.diff(P.indptr))
    leaves = is_terminal[origins] & (P.successors != origins)
    if leaves.any():
        raise InvalidParameter(
            f"terminal state s={origins[np.argmax(leaves)]} must lead to itself, "
            "whatever the action"
        )
    is_terminal = is_terminal.copy()
    is_terminal.flags.writeable = False
    return is_terminal
