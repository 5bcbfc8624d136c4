"""One release of counts and returns: a model of a table, the value of every policy in it, and the
logged one's with intervals.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import array, flag, kind, real, whole
from confide.errors import ConfideWarning, InvalidParameter, LogError
from confide.evaluation.visit_contributions import FirstVisits
from confide.identity import Identity
from confide.logs.labels import NO_LABELS, Labels
from confide.offline.model import PrivateModel
from confide.offline.return_contributions import TableReturns
from confide.offline.return_planning import ReleasedReturns
from confide.offline.table_features import Array, Bools, LoggedTable, step_ranges
from confide.offline.transition_contributions import (
    MOST_TRANSITIONS,
    RootCounts,
    RootTransitions,
)
from confide.privacy.request import NoPrivacy, Request
from confide.privatizers import Share
from confide.release.parameters import first_of_user, keep
from confide.release.question import LogQuestion
from confide.release.sums import LogSource, LogSums
from confide.tables.support_features import support_of

# The weight of row totals and of sums of rewards, and how many rows of a user count, if nobody says
# otherwise. More rows have more data and more noise. Chosen by measurement (benchmarks/offline.py).
USUAL_WEIGHT = 0.5
USUAL_TRANSITIONS = 20
# The shares of the budget: what counts do not get is for values that have intervals. They add up to
# one, and a release is charged the same however it is divided. Chosen by measurement
# (benchmarks/results/values_learn.md).
COUNTS_SHARE = 0.92
# For each kind of returns: whether whole trajectories, its share, and what it is for.
_RETURNS = (
    (True, 0.03, "returns of the logged policy, and their squares"),
    (False, 0.05, "returns from the first visit to each state on, and their squares"),
)
# With at most so many successors in a public support, row totals are left out, because the cells
# add up to them with little noise. Measured.
FEW = 8


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ModelRelease(LogQuestion[PrivateModel]):
    """A model of a table from a log: noisy counts of rows (s, a) and transitions (s, a, s'), first
    states and, if not known, rewards.

    Guarantee: all that a `PrivateModel` holds, and everything computed from it, satisfies `privacy`
    for each user with all trajectories up to the log's cap, whatever the data are. Counts have
    COUNTS_SHARE of the budget (see `RootCounts` for their sensitivity); returns of whole
    trajectories and returns from single states on have the rest (`TableReturns`).

    `transitions` = K: the first K rows of a user count, over the trajectories in order; noise grows
    with sqrt(K). Never more than the log's caps let in; None is USUAL_TRANSITIONS, or all rows
    without privacy. `rewards` [s, a] or [s] are public, or None: learned, from rewards clipped to
    the public `reward_range`. `terminal` [s] says in which states nothing follows: such a state
    pays its reward once. `ends` must be stated, unless the log's max_steps is 1: if True, the last
    row of a trajectory leads to an end, where nothing follows (unless the trajectory has max_steps
    rows, and may have been cut). If False, the last row is where the record stops: its reward
    counts, and what follows is not known. `support` are the public transitions that can be (a mask
    [s, a, s'] or [s, s'], or a list of (s, a, s')): others are dropped. `start` [s] is public, or
    None: learned. `return_bound` (low, high) is a public range of returns, if it is smaller than
    what follows from rewards and steps. `total_weight` of row totals: None for 1/2, or for 0 with a
    support of few successors; `reward_weight` of sums of rewards.

    Without privacy every row weighs one: rewards are means, and transition probabilities shares of
    counts.
    """

    noun: ClassVar[str] = "model"
    states: int
    actions: int
    discount: float
    transitions: int | None = None
    rewards: npt.ArrayLike | None = None
    reward_range: tuple[float, float] | None = None
    terminal: npt.ArrayLike | None = None
    ends: bool | None = None
    support: npt.ArrayLike | None = None
    start: npt.ArrayLike | None = None
    return_bound: tuple[float, float] | None = None
    total_weight: float | None = None
    reward_weight: float = USUAL_WEIGHT

    def __post_init__(self) -> None:
        S = whole("states", self.states, at_least=1)
        A = whole("actions", self.actions, at_least=1)
        keep(
            self,
            states=S,
            actions=A,
            discount=real("discount", self.discount, at_least=0, at_most=1),
        )
        if self.transitions is not None:
            keep(self, transitions=whole("transitions", self.transitions, at_least=1))
        if self.ends is not None:
            keep(self, ends=flag("ends", self.ends))
        keep(
            self,
            reward_range=_stated_range(self.reward_range, self.rewards),
        )
        keep(self, terminal=np.zeros(S, bool) if self.terminal is None else _mask(self.terminal, S))
        if self.rewards is not None:
            keep(self, rewards=_rewards(self.rewards, S, A))
        if self.support is not None:
            keep(self, support=np.asarray(self.support))
        if self.start is not None:
            keep(self, start=_start(self.start, S))
        if self.return_bound is not None:
            keep(self, return_bound=_range("return_bound", self.return_bound))
        keep(
            self,
            reward_weight=real("reward_weight", self.reward_weight, at_least=1 / 256, at_most=1),
        )
        if self.total_weight is not None:
            keep(self, total_weight=real("total_weight", self.total_weight, at_least=0, at_most=1))
        self.statistic()

    def identity(self) -> Identity:
        return Identity(
            "model-release",
            2,
            states=self.states,
            actions=self.actions,
            discount=self.discount,
            transitions=self.transitions,
            rewards=self.rewards,
            reward_range=self.reward_range,
            terminal=self.terminal,
            ends=self.ends,
            support=self.support,
            start=self.start,
            return_bound=self.return_bound,
            total_weight=self.total_weight,
            reward_weight=self.reward_weight,
        )

    @property
    def _reward_range(self) -> tuple[float, float]:
        # Since `__post_init__`.
        assert self.reward_range is not None
        return self.reward_range

    def table(self) -> LoggedTable:
        """Everything public about the table."""
        S = self.states
        A = self.actions
        size = S + bool(self.ends)
        terminal: Bools = self.terminal  # type: ignore[assignment]
        closed = np.append(terminal, np.ones(size - S, bool))
        no_end_to_add = self.support is None or not self.ends
        support = support_of(
            self.support if no_end_to_add else _with_end(self.support, S, A),
            layers=1,
            states=size,
            actions=A,
            terminal=closed,
        )
        if not support.cells:
            raise InvalidParameter("every state is terminal: there are no transitions to count")
        low, high = self._reward_range
        rewards: Array | None = self.rewards  # type: ignore[assignment]
        lowest, highest = self.return_bound or (None, None)
        start: Array | None = self.start  # type: ignore[assignment]
        return LoggedTable(
            S, A, self.discount, support, terminal, rewards, low, high, lowest, highest, start
        )

    def statistic(
        self, longest: int = 10_000, trajectories: int = 1, *, plain: bool = False
    ) -> RootTransitions:
        """What is added up over users of a log with these caps; `plain`: every row weighs one, as
        without privacy.
        """
        table = self.table()
        support = table.support
        weight = self.total_weight
        if weight is None:
            few = support.known and support.cells <= FEW * int(support.open.sum())
            weight = 0.0 if few else USUAL_WEIGHT
        every = min(longest * trajectories, MOST_TRANSITIONS)
        usual = every if plain else USUAL_TRANSITIONS
        bound = RootCounts(
            cells=support.cells,
            rows=support.pairs,
            starts=self.states if self.start is None else 0,
            transitions=min(self.transitions or usual, every),
            total_weight=_of_256(weight),
            reward_weight=_of_256(self.reward_weight) if self.rewards is None else 0.0,
            cuts=True,
            root=not plain,
        )
        low, high = self._reward_range
        return RootTransitions(
            bound, support, self.states, longest, (low + high) / 2, (high - low) / 2
        )

    def queries(self, logs: LogSource, privacy: Request) -> Sequence[Share]:
        if not all(part.layout.columns.action for part in getattr(logs, "parts", ())):
            raise LogError('a model needs the column of actions: open the log with action="action"')
        self._check_labels(_labels_of(logs))
        check_ends(self.ends, _steps_of(logs))
        counts = Share(
            self._statistic_of(logs, privacy).bound, COUNTS_SHARE, "weighted counts of rows"
        )
        bounds = self._rests(logs)
        return [
            counts,
            *(
                Share(self.returns(rest, whole=whole).bound, share / len(bounds), query)
                for whole, share, query in _RETURNS
                for rest in bounds
            ),
        ]

    def returns(self, rest: Array, *, whole: bool) -> TableReturns:
        """What is added up for the value of the logged policy (`whole`), or for those of single
        states.

        rest [k] is what k unknown steps pay.
        """
        table = self.table()
        low, high = step_ranges(table, len(rest) - 1)
        places = 1 if whole else self.states
        visits = 1 if whole else min(self.states, USUAL_TRANSITIONS, len(rest) - 1)
        # The largest weight of counts that does not raise the sensitivity: see `FirstVisits`.
        balance = math.sqrt((3 if places == visits else 1) - 1 / 4)
        bound = FirstVisits(places, visits, 1, balance, 1.0)
        centre = float(low[-1] + high[-1]) / 2
        radius = float(high[-1] - low[-1]) / 2
        return TableReturns(bound, table, rest, centre, max(radius, 1e-9), whole)

    def _rests(self, logs: LogSource) -> list[Array]:
        """What k steps that are not known can pay [k]: the least, and the most; the least alone if
        all steps are known.
        """
        steps = _steps_of(logs)
        least, most = step_ranges(self.table(), steps)
        layouts = [part.layout for part in getattr(logs, "parts", ())]
        # Steps may be missing where rows are numbered: the positions in a list are not.
        numbered = any(layout.columns.step and not layout.lists for layout in layouts)
        return [least, most] if numbered or (not self.ends and steps > 1) else [least]

    def _released_returns(self, sums: LogSums, *, whole: bool) -> ReleasedReturns:
        all_sums = []
        noises = []
        for rest in self._rests(sums.logs):
            statistic = self.returns(rest, whole=whole)
            bound = statistic.bound
            released = sums.release(statistic)
            all_sums.append(np.stack(bound.unpack(released.values)))  # type: ignore[arg-type]
            std = released.noise.std
            count_noise = std / bound.count_unit
            square_noise = std / bound.square_unit
            noises.append([count_noise, std, math.hypot(square_noise, count_noise / 2)])
        return ReleasedReturns(
            np.stack(all_sums), np.array(noises), statistic.centre, statistic.radius
        )

    def _statistic_of(self, logs: LogSource, privacy: Request) -> RootTransitions:
        return self.statistic(
            _steps_of(logs),
            getattr(logs, "max_trajectories", 1),
            plain=isinstance(privacy, NoPrivacy),
        )

    def answer(self, sums: LogSums) -> PrivateModel:
        statistic = self._statistic_of(sums.logs, sums.privacy)
        released = sums.release(statistic)
        parts = statistic.bound.unpack(released.values)
        logged_returns, state_returns = (
            self._released_returns(sums, whole=whole) for whole, *_ in _RETURNS
        )
        return PrivateModel(
            self.table(),
            *parts,
            released.noise.std,
            statistic.bound.total_weight,
            statistic.bound.reward_weight,
            released.guarantee,
            sums.certificate(f"a model of {self.states} states and {self.actions} actions"),
            _steps_of(sums.logs),
            logged_returns,
            state_returns,
            _labels_of(sums.logs),
        )

    def read_answer(self, data: bytes) -> PrivateModel:
        return PrivateModel.from_bytes(data)

    def _check_labels(self, labels: Labels) -> None:
        """Refuse a table that is smaller than what has names: those who are in the other states
        would contribute zero.
        """
        for what, named, given in (
            ("states", labels.state, self.states),
            ("actions", labels.action, self.actions),
        ):
            if len(named) > given:
                raise InvalidParameter(
                    f"the log has names for {len(named)} {what}, got {what}={given}: use "
                    f"{what}={len(named)}"
                )

    def warnings(self, model: PrivateModel) -> list[ConfideWarning]:
        """Warnings about a model, as functions of what was released."""
        kind("model", model, PrivateModel)
        table = model.table
        rows = model.rows
        seen = int((rows.visits > 3 * rows.visit_std)[table.support.open].sum())
        every = int(table.support.open.sum())
        if 2 * seen >= every:
            return []
        return [
            ConfideWarning(
                f"{seen:,} of {every:,} pairs of state and action are told from noise: for more, "
                "use more users, a larger epsilon, "
                "or fewer states and actions"
            )
        ]

    def counted(self, trajectories: int, steps: int) -> str:
        """What counts of a log with these caps, and what is clipped, in words: all of it public."""
        low, high = self._reward_range
        rewards = f"; rewards are clipped to [{low:g}, {high:g}]" if self.rewards is None else ""
        ends = (
            "leads to the end"
            if self.ends
            else "counts with its reward, and what followed it is not known"
        )
        wrong = (
            f"a user with a state of {self.states:,} or more or an action of {self.actions:,} or "
            "more contributes zero"
        )
        most = min(self.transitions or USUAL_TRANSITIONS, trajectories * steps)
        return (
            f"the first {most:,} rows of a user count, over the trajectories in order; "
            f"{first_of_user(trajectories, steps)}; the last row of a trajectory {ends}{rewards}; "
            f"{wrong}"
        )


def _labels_of(logs: LogSource) -> Labels:
    labels: Labels = getattr(logs, "labels", NO_LABELS)
    return labels


def _steps_of(logs: LogSource) -> int:
    steps: int = getattr(logs, "max_steps", 10_000)
    return steps


def check_ends(ends: bool | None, steps: int) -> None:
    """What the end of a short trajectory means cannot be seen in a log, and values depend on it.

    A single row is never short.
    """
    if ends is None and steps > 1:
        raise InvalidParameter(
            "say what it means that a trajectory has fewer than max_steps rows: ends=True (--ends) "
            "if it ended with its last row, so that "
            "nothing follows, or ends=False (--no-ends) if only the record stops there"
        )


def _stated_range(
    reward_range: Sequence[float] | None, rewards: npt.ArrayLike | None
) -> tuple[float, float]:
    """The public range of learned rewards. With public rewards it is not used."""
    if reward_range is None and rewards is None:
        raise InvalidParameter(
            "rewards are learned, and their public range is not known: give reward_range=(low, "
            "high) (--reward-range LOW HIGH), or the "
            "public rewards"
        )
    return (0.0, 1.0) if reward_range is None else _range("reward_range", reward_range)


def _of_256(weight: float) -> float:
    """The nearest multiple of 1/256, as weights are used."""
    return round(weight * 256) / 256


def _range(name: str, given: Sequence[float]) -> tuple[float, float]:
    ends = array(name, given)
    if ends.shape != (2,) or not ends[0] < ends[1] or np.abs(ends).max() > 1e50:
        raise InvalidParameter.of(name, "must be (low, high) with low < high", got=f"{given}")
    return float(ends[0]), float(ends[1])


def _mask(given: npt.ArrayLike, states: int) -> Bools:
    ends = np.asarray(given)
    if ends.dtype != bool or ends.shape != (states,):
        raise InvalidParameter.of(
            "terminal",
            f"must be a boolean array of shape ({states},), got shape {ends.shape} of {ends.dtype}",
        )
    return ends


def _rewards(given: npt.ArrayLike, states: int, actions: int) -> Array:
    rewards = array("rewards", given)
    if rewards.shape == (states,):
        rewards = np.repeat(rewards[:, None], actions, axis=1)
    if rewards.shape != (states, actions):
        raise InvalidParameter.of(
            "rewards", f"must have shape ({states}, {actions}) or ({states},), got {rewards.shape}"
        )
    return rewards.copy()


def _start(given: npt.ArrayLike, states: int) -> Array:
    start = array("start", given)
    if start.shape != (states,) or (start < 0).any() or abs(start.sum() - 1) > 1e-8:
        raise InvalidParameter.of(
            "start", f"must be {states} probabilities that sum to one, got shape {start.shape}"
        )
    exact: Array = start / start.sum()
    return exact


def _with_end(given: npt.ArrayLike | None, states: int, actions: int) -> npt.NDArray[np.int64]:
    """A support as a list of (s, a, s'), in which the end may follow every state and action."""
    support = support_of(given, layers=1, states=states, actions=actions, terminal=None)
    row = np.repeat(np.arange(support.pairs), np.diff(support.indptr))
    listed = np.column_stack([row // actions, row % actions, support.successors])
    every = np.arange(states * actions)
    ends = np.column_stack([every // actions, every % actions, np.full(every.size, states)])
    return np.concatenate([listed, ends])
