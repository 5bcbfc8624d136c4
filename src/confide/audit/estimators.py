"""Audits of estimators: all released numbers, with the one user of a log replaced by another."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from confide.audit.mechanisms import (
    RATIO_DIGITS,
    Scaled,
    bypass_bound,
    copies,
    make_source,
)
from confide.audit.refute import Score
from confide.evaluation.counts_and_sums import CountsAndSums
from confide.evaluation.dp_lsl import DPLSL
from confide.evaluation.dp_lsw import DPLSW
from confide.evaluation.importance_sampling import ImportanceSampling, WeightedImportanceSampling
from confide.evaluation.lstd import PrivateLSTD
from confide.evaluation.smooth_release import first_visit_returns, visits_and_sums
from confide.evaluation.sufficient_statistics import SufficientStatistics
from confide.mechanisms.smooth import SmoothGaussian
from confide.mechanisms.sources import FastSource, NoiseSource
from confide.privacy.bounded import Array, Bounded
from confide.privacy.loss import Loss, loss_for
from confide.privacy.request import CentralDP
from confide.privatizers import Share, SharedBudget
from confide.trajectory import LoggedUsers

# How many states a log has.
_STATES = 4
# With more parameters the smooth calibration pays less for a change of variance, which the pair of
# `SmoothEstimateSubject` does not have. So its logs have more states.
_SMOOTH_STATES = 32
# How often the broken variant `redraw` of a smooth estimate draws noise.
_RESTARTS = 5
# The return that the user tries to get, where returns are bounded by 1.
_FAR = 1e3


@dataclass(frozen=True, slots=True)
class SmallLog:
    """One user, who visits all states with returns far outside the bound, above and below in turn.

    In world 0 it is the other way round.
    """

    world: int
    states: int
    unclipped: bool = False
    assumptions: ClassVar[tuple[str, ...]] = ()

    def total(self, statistic: Any, *, progress: Any = None) -> Bounded:  # noqa: ARG002
        total: Bounded = statistic.contribution(next(self.blocks()))
        if not self.unclipped:
            return total
        bound = statistic.bound
        values = total.values.copy()
        # As if returns were not clipped.
        values[bound.states :] *= _FAR
        return bypass_bound(values, bound, total.users)

    def blocks(self) -> Iterator[LoggedUsers]:
        returns = _FAR * alternating_signs(self.states) * (1 if self.world else -1)
        rewards = returns - np.append(returns[1:], 0.0)
        one_user = np.arange(2)
        yield LoggedUsers(
            np.arange(self.states),
            rewards,
            one_user * self.states,
            one_user,
            np.ones(1, dtype=bool),
        )


def alternating_signs(states: int) -> Array:
    """The signs of returns in world 1 [s]. A draw shared by all states cannot hide them."""
    return np.resize([1.0, -1.0], states)


@dataclass(frozen=True)
class CountsAndSumsSubject:
    """Counts and sums: the released vector, and so every estimate made of it.

    It has the Gaussian or Laplace noise that a ledger is charged for. The pair attains the
    sensitivity in L2, and 8/9 of it in L1, where returns of 1 and 0 would be farther apart.
    """

    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"
    # There is a twin without the clip.
    unclipped: ClassVar[bool] = True

    @property
    def loss(self) -> Loss:
        return loss_for(self.privacy)

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        source = make_source(self.source, self.twin, rng)
        log = SmallLog(world, _STATES, self.twin == "clip")
        estimator = CountsAndSums(states=_STATES, return_bound=1.0)
        statistic = estimator.statistic(pure=self.privacy.delta == 0)
        total = log.total(statistic)

        def release() -> Array:
            budget = SharedBudget(
                [Share(statistic.bound, 1.0)],
                privacy=self.privacy,
                noise=source,
                users=1,
                loss=self.loss,
            )
            return budget.release(total).values

        draws = range(copies(self.twin))
        return np.stack([np.concatenate([release() for _ in draws]) for _ in range(runs)])

    def score(self) -> Score | None:
        """The likelihood ratio. Under a shared draw it is not known."""
        # Counts and squares are the same in both worlds.
        same = np.zeros(_STATES)
        shift = np.concatenate([same, alternating_signs(_STATES), same])
        shift = np.tile(shift, copies(self.twin))
        if self.twin == "shared":
            return None
        if self.privacy.delta > 0:
            return lambda views: np.asarray(views @ shift)

        def log_ratio(views: Array) -> Array:
            ratio: Array = (np.abs(views + shift) - np.abs(views - shift)).sum(axis=1)
            return np.round(ratio, RATIO_DIGITS)

        return log_ratio


@dataclass(frozen=True)
class SmoothEstimateSubject:
    """DP-LSW or DP-LSL: the parameters that are published.

    The pair attains the local sensitivity with equal noise. No two logs differ as much as the
    calibration allows in the answer and in the noise at once, so that 20 % less noise would break
    nothing. The twin `noise` therefore has half of it, and `redraw` draws five times.
    """

    name: str
    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"
    unclipped: ClassVar[bool] = True

    @property
    def loss(self) -> Loss:
        return self._mechanism().loss

    def _mechanism(self) -> SmoothGaussian:
        return SmoothGaussian(self.privacy.epsilon, self.privacy.delta, _SMOOTH_STATES)

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        source: NoiseSource = make_source(self.source, self.twin, rng)
        if self.twin == "noise":
            source = Scaled(FastSource(rng), 0.5)
        if self.name == "dp-lsw":
            estimator: DPLSW | DPLSL = DPLSW(states=_SMOOTH_STATES, return_bound=1.0)
        else:
            # With this ridge its bound is tight.
            estimator = DPLSL(states=_SMOOTH_STATES, ridge=1e4, return_bound=1.0)
        mechanism = self._mechanism()
        log = SmallLog(world, _SMOOTH_STATES, self.twin == "clip")
        total = log.total(first_visit_returns(estimator))
        counts, returns = visits_and_sums(estimator, total)
        users = total.users
        exact = estimator.solve(counts, returns)
        least = estimator.least_sensitivity(users, printed=False)
        smooth = estimator.smooth_sensitivity(counts, users, mechanism.beta, printed=False)

        def release() -> Array:
            return mechanism.release(exact, smooth, source, least=least)

        draws = range(_RESTARTS if self.twin == "redraw" else 1)
        return np.stack([np.concatenate([release() for _ in draws]) for _ in range(runs)])

    def score(self) -> Score | None:
        """The likelihood ratio, as the noise is equal. Under a shared draw it is not known."""
        if self.twin == "shared":
            return None
        draws = _RESTARTS if self.twin == "redraw" else 1
        shift = np.tile(alternating_signs(_SMOOTH_STATES), draws)
        return lambda views: np.asarray(views @ shift)


@dataclass(frozen=True)
class TwoQuestionsSubject:
    """An estimator that asks a log twice: everything that its release holds.

    The log has one user, who is replaced by another.
    """

    name: str
    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"

    @property
    def loss(self) -> Loss:
        return loss_for(self.privacy)

    def _estimator(self) -> Any:
        features = np.eye(_STATES)
        target = np.tile([0.9, 0.1], (_STATES, 1))
        if self.name == "sufficient-statistics":
            return SufficientStatistics(features, 1.0, visits=_STATES, return_bound=1.0)
        if self.name == "lstd":
            return PrivateLSTD(features, 0.5, visits=_STATES, return_bound=1.0)
        if self.name == "importance-sampling":
            return ImportanceSampling(target, 1.0, clip=2.0, return_bound=1.0)
        return WeightedImportanceSampling(target, 1.0, clip=2.0, return_bound=1.0)

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        source = make_source(self.source, self.twin, rng)
        estimator = self._estimator()
        log = ActingLog(world)
        return np.stack([self._view(estimator, log, source) for _ in range(runs)])

    def _view(self, estimator: Any, log: "ActingLog", source: NoiseSource) -> Array:
        """All numbers of the estimate, in one row."""
        numbers: list[Array] = []
        for _ in range(copies(self.twin)):
            estimate = estimator.release(log, privacy=self.privacy, noise=source)
            numbers.append(np.ravel(estimate.values))
            numbers += [np.ravel(part) for part in estimate.released.values()]
        # An error that is not known is infinite.
        return np.nan_to_num(np.concatenate(numbers), posinf=0.0)

    def score(self) -> Score | None:
        return None


@dataclass(frozen=True, slots=True)
class ActingLog:
    """One user, who takes the target's action in every state.

    In world 1 the user gets far more than the bound, and in world 0 far less.
    """

    world: int
    assumptions: ClassVar[tuple[str, ...]] = ()
    max_trajectories: ClassVar[int] = 1

    def total(self, statistic: Any, *, progress: Any = None) -> Bounded:  # noqa: ARG002
        total: Bounded = statistic.contribution(next(self.blocks()))
        return total

    def blocks(self) -> Iterator[LoggedUsers]:
        one_user = np.arange(2)
        rewards = np.full(_STATES, _FAR * (1 if self.world else -1))
        yield LoggedUsers(
            np.arange(_STATES),
            rewards,
            one_user * _STATES,
            one_user,
            np.ones(1, dtype=bool),
            np.zeros(_STATES, dtype=np.int64),
            np.full(_STATES, 0.01),
        )


TWO_QUESTIONS = (
    "sufficient-statistics",
    "lstd",
    "importance-sampling",
    "weighted-importance-sampling",
)
