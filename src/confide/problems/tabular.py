"""Finite problems given by a table."""

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
    frozen,
    normalised,
    sparse_transitions,
)

Array = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class TabularPublic:
    """What an agent may know of a table: its size, its rewards, where episodes start, whether steps differ, and where episodes end.

    A terminal state is one where nothing happens any more: it leads to itself, and earns `terminal_reward` if rewards are to be learned.
    """

    family: ClassVar[str] = "table"

    horizon: int
    states: int
    actions: int
    rewards: Array | None = field(repr=False)  # [h, s, a]; None if they are to be learned
    start: Array = field(repr=False)
    # whether transitions (and rewards that are to be learned) are the same at every step
    stationary: bool = True
    terminal: Bools | None = field(default=None, repr=False)  # [s]; None: no state is known to be
    terminal_reward: float = 0.0  # of a step in a terminal state

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
    """An MDP with transitions [h, s, a, s'] and mean rewards [h, s, a] in [0, 1], or [s, a, s'] and [s, a] with a horizon.

    With `stochastic_rewards` rewards are unknown to the agent. A reward is 1 with the given probability, else 0, unless
    `outcome_rewards` [entry of the transitions] says what each outcome earns: then `rewards` must be their means. `terminal` [s] says which
    states are known to end an episode: they must lead to themselves, and if rewards are stochastic all earn the same, which is public.
    """

    kind: ClassVar[str] = "table"  # in a saved file

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
        r = check_rewards(rewards, P, horizon)
        ends = None if terminal is None else check_terminal(terminal, P)
        ended = r[:0] if ends is None else r[:, ends]
        if flag("stochastic_rewards", stochastic_rewards) and (ended != ended[:1, :1, :1]).any():
            raise InvalidParameter(
                "terminal states must all have the same mean reward if rewards are stochastic"
            )
        fields = {
            "transitions": P,
            "rewards": r,
            "start": check_start(start, P.states),
            "stochastic_rewards": flag("stochastic_rewards", stochastic_rewards),
            "name": text("name", name),
            "terminal": ends,
            "outcome_rewards": None
            if outcome_rewards is None
            else check_outcomes(outcome_rewards, r, P, stochastic_rewards),
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
        known = None if self.stochastic_rewards else self.rewards
        stationary = self.transitions.layers == 1 and (
            known is not None or bool((self.rewards == self.rewards[0]).all())
        )
        ended = (
            0.0
            if self.terminal is None or not self.terminal.any()
            else float(self.rewards[0, self.terminal][0, 0])
        )
        return TabularPublic(
            self.horizon,
            self.states,
            self.actions,
            known,
            self.start,
            stationary,
            self.terminal,
            ended,
        )


def check_rewards(
    rewards: npt.ArrayLike, P: Transitions, horizon: int | None, name: str = "rewards"
) -> Array:
    """Mean rewards [h, s, a], from [h, s, a] or, with a horizon, from [s, a]."""
    r = array(name, rewards, finite=False)
    if horizon is not None:
        horizon = whole("horizon", horizon, at_least=1)
    steps = horizon if horizon is not None else (P.layers if P.layers > 1 or r.ndim == 3 else None)
    if steps is None:
        raise InvalidParameter("a problem that is the same at every step needs a horizon")
    if steps < 1:
        raise InvalidParameter.of("horizon", "must be at least 1", got=f"{steps}")
    if r.ndim == 3 and horizon is None and P.layers == 1:
        steps = len(r)
    if r.ndim == 2:
        check_size(horizon=steps, states=len(r), actions=r.shape[1])
        r = np.repeat(r[None], steps, axis=0)
    if r.shape != (steps, P.states, P.actions) or (P.layers > 1 and P.layers != steps):
        raise InvalidParameter.of(
            name,
            f"must have shape ({steps}, {P.states}, {P.actions}) to fit the transitions, got {np.shape(rewards)}",
        )
    wrong = ~((r >= 0) & (r <= 1 + 1e-9))
    if wrong.any():
        h, s, a = np.argwhere(wrong)[0]
        raise InvalidParameter(
            f"{name}[h={h}, s={s}, a={a}] must be in [0, 1], got {r[h, s, a]}: scale the rewards"
        )
    return frozen(r)


def check_outcomes(
    outcome_rewards: npt.ArrayLike, means: Array, P: Transitions, stochastic: bool
) -> Array:
    """What each outcome earns, in the order of the rows of the transitions."""
    earned = array("outcome_rewards", outcome_rewards, ndim=1)
    if not stochastic:
        raise InvalidParameter(
            "outcome_rewards are for stochastic_rewards=True: rewards that an agent knows are means"
        )
    if earned.shape != P.successors.shape or earned.min() < 0 or earned.max() > 1:
        raise InvalidParameter.of(
            "outcome_rewards",
            f"must have {len(P.successors)} numbers in [0, 1], one for each outcome, got shape {earned.shape}",
        )
    sums = np.add.reduceat(P.probabilities * earned, P.indptr[:-1]).reshape(
        P.layers, P.states, P.actions
    )
    if np.abs(sums - means).max() > _ROUNDING:
        raise InvalidParameter.of("rewards", "must be the means of outcome_rewards")
    return frozen(earned)


def check_start(start: npt.ArrayLike, states: int) -> Array:
    where = array("start", start, finite=False)
    if where.shape != (states,):
        raise InvalidParameter.of("start", f"must have shape ({states},), got {where.shape}")
    check_probabilities(where[None], "start", "")
    return frozen(normalised(where))


def check_terminal(terminal: npt.ArrayLike, P: Transitions) -> Bools:
    ends = np.asarray(terminal)
    if ends.dtype != bool or ends.shape != (P.states,):
        raise InvalidParameter.of(
            "terminal",
            f"must be a boolean array of shape ({P.states},), got shape {ends.shape} of {ends.dtype}",
        )
    origins = np.repeat(np.arange(P.layers * P.rows) // P.actions % P.states, np.diff(P.indptr))
    leaves = ends[origins] & (P.successors != origins)
    if leaves.any():
        raise InvalidParameter(
            f"terminal state s={origins[np.argmax(leaves)]} must lead to itself, whatever the action"
        )
    ends = ends.copy()
    ends.flags.writeable = False
    return ends
