"""One release of counts and returns: a model of a table, the value of every policy in it, and the
logged one's with intervals.

`ModelRelease` is the question. It turns options into statistics of the log, divides the budget
among them, and makes a `PrivateModel` from the noisy sums.

- What leaves this file: an id in the ledger (`identity`), a certificate with the text of each
  query, and the model, which `model.py` saves.
- What may not be changed freely: the names, defaults and meaning of what stands in `identity`,
  because a ledger recognises a release by it. After a change of what is released, its version
  number must rise. The privacy of the release rests on the sensitivities of `RootCounts` and
  `FirstVisits`, and on the shares of the budget, which add up to one.
- What may be changed freely: what is done with released sums, and the numbers below that were
  chosen by measurement.
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
from confide.tables.support_features import Support, support_of

# The weight of row totals and of sums of rewards beside counts, if nobody says otherwise. Chosen by
# measurement (benchmarks/offline.py).
USUAL_WEIGHT = 0.5
# How many rows of a user count, if nobody says otherwise. More rows have more data and more noise.
# Chosen by measurement (benchmarks/offline.py).
USUAL_TRANSITIONS = 20
# The shares of the budget: what counts do not get is for values that have intervals. They add up to
# one, and a release is charged the same however it is divided. Chosen by measurement
# (benchmarks/results/values_learn.md).
COUNTS_SHARE = 0.92
WHOLE_RETURNS_SHARE = 0.03
STATE_RETURNS_SHARE = 0.05
# For each kind of returns: whether they are those of whole trajectories, the share of the budget,
# and the text of the query, which stands in certificates.
_RETURNS = (
    (True, WHOLE_RETURNS_SHARE, "returns of the logged policy, and their squares"),
    (
        False,
        STATE_RETURNS_SHARE,
        "returns from the first visit to each state on, and their squares",
    ),
)
# If rows of a public support have at most so many successors on average, row totals are left out,
# because the cells add up to them with little noise. Chosen by measurement (benchmarks/offline.py).
FEW_SUCCESSORS = 8
# A log that does not say how long its trajectories can be counts as one of so many steps.
USUAL_MAX_STEPS = 10_000
# Weights are rounded to multiples of 1 / WEIGHT_UNITS. Required for privacy: `RootCounts` takes no
# other weights, because its sensitivity is that of sums without rounding errors.
WEIGHT_UNITS = 256


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class ModelRelease(LogQuestion[PrivateModel]):
    """A model of a table from a log: noisy counts of rows (s, a) and transitions (s, a, s'), first
    states and, if not known, rewards.

    Guarantee: all that a `PrivateModel` holds, and everything computed from it, satisfies `privacy`
    for each user with all trajectories up to the log's cap, whatever the data are. Counts have
    COUNTS_SHARE of the budget (see `RootCounts` for their sensitivity). Returns of whole
    trajectories and returns from single states on have the rest (`TableReturns`).

    - `transitions` = K: the first K rows of a user count, over the trajectories in order. Noise
      grows with sqrt(K). There are never more than the log's caps let in. None stands for
      USUAL_TRANSITIONS, or for all rows without privacy.
    - `rewards` [s, a] or [s] are public. If they are None, they are learned, from rewards clipped
      to the public `reward_range`.
    - `terminal` [s] says in which states nothing follows. Such a state pays its reward once.
    - `ends` must be stated, unless the log's max_steps is 1. If True, the last row of a trajectory
      leads to an end, where nothing follows (unless the trajectory has max_steps rows, and may have
      been cut). If False, the last row is where the record stops: its reward counts, and what
      follows is not known.
    - `support` are the public transitions that can be: a mask [s, a, s'] or [s, s'], or a list of
      (s, a, s'). Other transitions are dropped.
    - `start` [s] is the public distribution of first states. If it is None, it is learned.
    - `return_bound` (low, high) is a public range of returns, if it is smaller than what follows
      from rewards and steps.
    - `total_weight` is the weight of row totals: None for 1/2, or for 0 with a support of few
      successors. `reward_weight` is that of sums of rewards.

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
        self._check_numbers()
        self._check_public_knowledge()
        # This builds the table and the bound, which check how the options fit together.
        self.statistic()

    def _check_numbers(self) -> None:
        keep(
            self,
            states=whole("states", self.states, at_least=1),
            actions=whole("actions", self.actions, at_least=1),
            discount=real("discount", self.discount, at_least=0, at_most=1),
        )
        if self.transitions is not None:
            keep(self, transitions=whole("transitions", self.transitions, at_least=1))
        if self.ends is not None:
            keep(self, ends=flag("ends", self.ends))
        least_weight = 1 / WEIGHT_UNITS
        reward_weight = real("reward_weight", self.reward_weight, at_least=least_weight, at_most=1)
        keep(self, reward_weight=reward_weight)
        if self.total_weight is not None:
            keep(self, total_weight=real("total_weight", self.total_weight, at_least=0, at_most=1))

    def _check_public_knowledge(self) -> None:
        states = self.states
        keep(self, reward_range=_stated_range(self.reward_range, self.rewards))
        if self.terminal is None:
            keep(self, terminal=np.zeros(states, bool))
        else:
            keep(self, terminal=_mask(self.terminal, states))
        if self.rewards is not None:
            keep(self, rewards=_rewards(self.rewards, states, self.actions))
        if self.support is not None:
            keep(self, support=np.asarray(self.support))
        if self.start is not None:
            keep(self, start=_start(self.start, states))
        if self.return_bound is not None:
            keep(self, return_bound=_range("return_bound", self.return_bound))

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
        terminal: Bools = self.terminal  # type: ignore[assignment]
        rewards: Array | None = self.rewards  # type: ignore[assignment]
        start: Array | None = self.start  # type: ignore[assignment]
        reward_low, reward_high = self._reward_range
        lowest, highest = self.return_bound or (None, None)
        return LoggedTable(
            states=self.states,
            actions=self.actions,
            discount=self.discount,
            support=self._support(terminal),
            terminal=terminal,
            rewards=rewards,
            reward_low=reward_low,
            reward_high=reward_high,
            lowest=lowest,
            highest=highest,
            start=start,
        )

    def _support(self, terminal: Bools) -> Support:
        """The transitions that can be. If ends are transitions, the end is one more state."""
        ends = 1 if self.ends else 0
        listed = self.support
        if listed is not None and self.ends:
            listed = _with_end(listed, self.states, self.actions)
        support = support_of(
            listed,
            layers=1,
            states=self.states + ends,
            actions=self.actions,
            terminal=np.append(terminal, np.ones(ends, bool)),
        )
        if not support.cells:
            raise InvalidParameter("every state is terminal: there are no transitions to count")
        return support

    def statistic(
        self, longest: int = USUAL_MAX_STEPS, trajectories: int = 1, *, plain: bool = False
    ) -> RootTransitions:
        """What is added up over the users of a log with these caps.

        With `plain` every row weighs one, as without privacy.
        """
        table = self.table()
        support = table.support
        all_transitions = min(longest * trajectories, MOST_TRANSITIONS)
        usual_transitions = all_transitions if plain else USUAL_TRANSITIONS
        bound = RootCounts(
            cells=support.cells,
            rows=support.pairs,
            starts=self.states if self.start is None else 0,
            transitions=min(self.transitions or usual_transitions, all_transitions),
            total_weight=_round_weight(self._total_weight(support)),
            reward_weight=_round_weight(self.reward_weight) if self.rewards is None else 0.0,
            cuts=True,
            root=not plain,
        )
        low, high = self._reward_range
        return RootTransitions(
            bound, support, self.states, longest, (low + high) / 2, (high - low) / 2
        )

    def _total_weight(self, support: Support) -> float:
        """The weight of row totals beside counts; zero if they are not released."""
        if self.total_weight is not None:
            return self.total_weight
        open_rows = int(support.open.sum())
        few_successors = support.known and support.cells <= FEW_SUCCESSORS * open_rows
        return 0.0 if few_successors else USUAL_WEIGHT

    def queries(self, logs: LogSource, privacy: Request) -> Sequence[Share]:
        if not all(part.layout.columns.action for part in getattr(logs, "parts", ())):
            raise LogError('a model needs the column of actions: open the log with action="action"')
        self._check_labels(_labels_of(logs))
        check_ends(self.ends, _max_steps(logs))
        counts = self._statistic_of(logs, privacy)
        shares = [Share(counts.bound, COUNTS_SHARE, "weighted counts of rows")]
        unknown_pay = self._unknown_pay(logs)
        for whole_trajectories, share, text in _RETURNS:
            for pay in unknown_pay:
                returns = self.returns(pay, whole=whole_trajectories)
                shares.append(Share(returns.bound, share / len(unknown_pay), text))
        return shares

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

    def _unknown_pay(self, logs: LogSource) -> list[Array]:
        """What k steps that are not known can pay [k]: the least, and the most.

        If all steps are known, the least alone, because both would give the same returns.
        """
        steps = _max_steps(logs)
        least, most = step_ranges(self.table(), steps)
        layouts = [part.layout for part in getattr(logs, "parts", ())]
        # Steps may be missing where rows are numbered: the positions in a list are not.
        numbered = any(layout.columns.step and not layout.lists for layout in layouts)
        record_may_stop = not self.ends and steps > 1
        return [least, most] if numbered or record_may_stop else [least]

    def _release_returns(self, sums: LogSums, *, whole: bool) -> ReleasedReturns:
        sums_by_bound = []
        noise_by_bound = []
        for pay in self._unknown_pay(sums.logs):
            statistic = self.returns(pay, whole=whole)
            bound = statistic.bound
            released = sums.release(statistic)
            parts = bound.unpack(released.values)  # counts, sums and squares [place]
            sums_by_bound.append(np.stack(parts))  # type: ignore[arg-type]
            std = released.noise.std
            count_noise = std / bound.count_unit
            square_noise = std / bound.square_unit
            # What is released is g^2 - 1/2, so half of the count is added to get g^2.
            noise_by_bound.append([count_noise, std, math.hypot(square_noise, count_noise / 2)])
        return ReleasedReturns(
            np.stack(sums_by_bound), np.array(noise_by_bound), statistic.centre, statistic.radius
        )

    def _statistic_of(self, logs: LogSource, privacy: Request) -> RootTransitions:
        return self.statistic(
            _max_steps(logs),
            getattr(logs, "max_trajectories", 1),
            plain=isinstance(privacy, NoPrivacy),
        )

    def answer(self, sums: LogSums) -> PrivateModel:
        # Sums are released in the order of `queries`.
        statistic = self._statistic_of(sums.logs, sums.privacy)
        released = sums.release(statistic)
        counts, cuts, totals, reward_sums, starts = statistic.bound.unpack(released.values)
        logged_returns, state_returns = (
            self._release_returns(sums, whole=whole_trajectories)
            for whole_trajectories, *_ in _RETURNS
        )
        return PrivateModel(
            table=self.table(),
            counts=counts,
            cuts=cuts,
            totals=totals,
            reward_sums=reward_sums,
            starts=starts,
            noise_std=released.noise.std,
            total_weight=statistic.bound.total_weight,
            reward_weight=statistic.bound.reward_weight,
            guarantee=released.guarantee,
            certificate=sums.certificate(
                f"a model of {self.states} states and {self.actions} actions"
            ),
            steps=_max_steps(sums.logs),
            logged_returns=logged_returns,
            state_returns=state_returns,
            labels=_labels_of(sums.logs),
        )

    def read_answer(self, data: bytes) -> PrivateModel:
        return PrivateModel.from_bytes(data)

    def _check_labels(self, labels: Labels) -> None:
        """Refuse a table that is smaller than what has names.

        Users who are in the other states would contribute zero.
        """
        sizes = (
            ("states", labels.state, self.states),
            ("actions", labels.action, self.actions),
        )
        for what, names, size in sizes:
            if len(names) > size:
                raise InvalidParameter(
                    f"the log has names for {len(names)} {what}, got {what}={size}: use "
                    f"{what}={len(names)}"
                )

    def warnings(self, model: PrivateModel) -> list[ConfideWarning]:
        """Warnings about a model, as functions of what was released."""
        kind("model", model, PrivateModel)
        table = model.table
        rows = model.rows
        # Three standard deviations of noise, and half of the pairs: both are matters of taste.
        clear = rows.visits > 3 * rows.visit_std
        clear_pairs = int(clear[table.support.open].sum())
        all_pairs = int(table.support.open.sum())
        if 2 * clear_pairs >= all_pairs:
            return []
        return [
            ConfideWarning(
                f"{clear_pairs:,} of {all_pairs:,} pairs of state and action have counts that "
                "can be told from noise. For more of them, use more users, a larger epsilon, or "
                "fewer states and actions"
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


def _max_steps(logs: LogSource) -> int:
    steps: int = getattr(logs, "max_steps", USUAL_MAX_STEPS)
    return steps


def check_ends(ends: bool | None, steps: int) -> None:
    """Refuse a question that does not say what the end of a short trajectory means.

    A log cannot show it, and values depend on it. A single row is never short.
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


def _round_weight(weight: float) -> float:
    return round(weight * WEIGHT_UNITS) / WEIGHT_UNITS


def _range(name: str, given: Sequence[float]) -> tuple[float, float]:
    ends = array(name, given)
    if ends.shape != (2,) or not ends[0] < ends[1] or np.abs(ends).max() > 1e50:
        raise InvalidParameter.of(name, "must be (low, high) with low < high", got=f"{given}")
    return float(ends[0]), float(ends[1])


def _mask(given: npt.ArrayLike, states: int) -> Bools:
    terminal = np.asarray(given)
    if terminal.dtype != bool or terminal.shape != (states,):
        raise InvalidParameter.of(
            "terminal",
            f"must be a boolean array of shape ({states},), got shape {terminal.shape} of "
            f"{terminal.dtype}",
        )
    return terminal


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
    given_transitions = np.column_stack([row // actions, row % actions, support.successors])
    every_row = np.arange(states * actions)
    end = np.full(every_row.size, states)
    ends = np.column_stack([every_row // actions, every_row % actions, end])
    return np.concatenate([given_transitions, ends])
