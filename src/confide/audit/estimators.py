"""Audits of estimators: all released numbers, with the one user of a log replaced by another."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from confide.audit.mechanisms import Scaled, copies, make_source, smuggled
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

_FEW, _MANY = (
    4,
    32,
    # with more parameters the smooth calibration pays less for a change of variance, which this pair does not have
)
_RESTARTS = 5
_FAR = 1e3  # the return that the user tries to get


@dataclass(frozen=True, slots=True)
class SmallLog:
    """One user, who visits all states with returns far outside the bound, above and below in turn; in world 0 the other way round."""

    world: int
    states: int
    unclipped: bool = False
    assumptions: ClassVar[tuple[str, ...]] = ()

    def total(self, statistic: Any, *, progress: Any = None) -> Bounded:  # noqa: ARG002
        total: Bounded = statistic.contribution(next(self.blocks()))
        if not self.unclipped:
            return total
        bound, values = statistic.bound, total.values.copy()
        values[bound.states :] *= _FAR  # as if returns were not clipped
        return smuggled(values, bound, total.users)

    def blocks(self) -> Iterator[LoggedUsers]:
        returns = _FAR * signs(self.states) * (1 if self.world else -1)
        rewards, one = returns - np.append(returns[1:], 0.0), np.arange(2)
        yield LoggedUsers(
            np.arange(self.states), rewards, one * self.states, one, np.ones(1, dtype=bool)
        )


def signs(states: int) -> Array:
    """Of the returns in world 1: a draw shared by all states cannot hide them."""
    return np.resize([1.0, -1.0], states)


@dataclass(frozen=True)
class CountsAndSumsSubject:
    """Counts and sums: the released vector, and so every estimate made of it, with the Gaussian or Laplace noise that a ledger is charged
    for. The pair attains the sensitivity in L2, and 8/9 of it in L1, where returns of 1 and 0 would be farther apart."""

    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"
    unclipped: ClassVar[bool] = True  # there is a twin without the clip

    @property
    def loss(self) -> Loss:
        return loss_for(self.privacy)

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        source, log = (
            make_source(self.source, self.twin, rng),
            SmallLog(world, _FEW, self.twin == "clip"),
        )
        statistic, draws = (
            CountsAndSums(states=_FEW, return_bound=1.0).statistic(pure=self.privacy.delta == 0),
            range(copies(self.twin)),
        )
        total = log.total(statistic)

        def released() -> Array:
            one = Share(statistic.bound, 1.0)
            return (
                SharedBudget([one], privacy=self.privacy, noise=source, users=1, loss=self.loss)
                .release(total)
                .values
            )

        return np.stack([np.concatenate([released() for _ in draws]) for _ in range(runs)])

    def score(self) -> Score | None:
        """The likelihood ratio; under a shared draw whatever is found."""
        # Counts and squares are the same in both worlds.
        same = np.zeros(_FEW)
        shift = np.tile(np.concatenate([same, signs(_FEW), same]), copies(self.twin))
        if self.twin == "shared":
            return None
        if self.privacy.delta > 0:
            return lambda seen: np.asarray(seen @ shift)

        def log_ratio(seen: Array) -> Array:
            ratio: Array = (np.abs(seen + shift) - np.abs(seen - shift)).sum(axis=1)
            return np.round(ratio, 9)  # in real arithmetic, as fast noise is

        return log_ratio


@dataclass(frozen=True)
class SmoothEstimateSubject:
    """DP-LSW or DP-LSL: the parameters that are published.

    The pair attains the local sensitivity with equal noise. No two logs differ as much as the calibration allows in the answer and in the
    noise at once, so that 20 % less noise would break nothing: the twin `noise` has half of it, and `redraw` draws five times.
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
        return SmoothGaussian(self.privacy.epsilon, self.privacy.delta, _MANY)

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        source: NoiseSource = make_source(self.source, self.twin, rng)
        if self.twin == "noise":
            source = Scaled(FastSource(rng), 0.5)
        estimator = (
            DPLSW(states=_MANY, return_bound=1.0)
            if self.name == "dp-lsw"
            else DPLSL(states=_MANY, ridge=1e4, return_bound=1.0)
        )  # where its bound is tight
        mechanism, log = self._mechanism(), SmallLog(world, _MANY, self.twin == "clip")
        total = log.total(first_visit_returns(estimator))
        counts, returns = visits_and_sums(estimator, total)
        users = total.users
        exact, least = (
            estimator.solve(counts, returns),
            estimator.least_sensitivity(users, printed=False),
        )
        smooth = estimator.smooth_sensitivity(counts, users, mechanism.beta, printed=False)
        draws = range(_RESTARTS if self.twin == "redraw" else 1)
        return np.stack(
            [
                np.concatenate(
                    [mechanism.release(exact, smooth, source, least=least) for _ in draws]
                )
                for _ in range(runs)
            ]
        )

    def score(self) -> Score | None:
        """The likelihood ratio, as the noise is equal; under a shared draw whatever is found."""
        shift = np.tile(signs(_MANY), _RESTARTS if self.twin == "redraw" else 1)
        return None if self.twin == "shared" else lambda seen: np.asarray(seen @ shift)


@dataclass(frozen=True)
class TwoQuestionsSubject:
    """An estimator that asks a log twice, whole: everything that its release holds, of a log of one user who is replaced by another."""

    name: str
    privacy: CentralDP
    twin: str | None = None
    source: str = "fast"

    @property
    def loss(self) -> Loss:
        return loss_for(self.privacy)

    def _estimator(self) -> Any:
        features, target = np.eye(_FEW), np.tile([0.9, 0.1], (_FEW, 1))
        made: dict[str, Callable[[], Any]] = {
            "sufficient-statistics": lambda: SufficientStatistics(
                features, 1.0, visits=_FEW, return_bound=1.0
            ),
            "lstd": lambda: PrivateLSTD(features, 0.5, visits=_FEW, return_bound=1.0),
            "importance-sampling": lambda: ImportanceSampling(
                target, 1.0, clip=2.0, return_bound=1.0
            ),
            "weighted-importance-sampling": lambda: WeightedImportanceSampling(
                target, 1.0, clip=2.0, return_bound=1.0
            ),
        }
        return made[self.name]()

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        source, estimator, log = (
            make_source(self.source, self.twin, rng),
            self._estimator(),
            ActingLog(world),
        )
        return np.stack([self._seen(estimator, log, source) for _ in range(runs)])

    def _seen(self, estimator: Any, log: "ActingLog", source: NoiseSource) -> Array:
        found: list[Array] = []
        for _ in range(copies(self.twin)):
            estimate = estimator.release(log, privacy=self.privacy, noise=source)
            found += [
                np.ravel(estimate.values),
                *(np.ravel(part) for part in estimate.released.values()),
            ]
        # an error that is not known is infinite
        return np.nan_to_num(np.concatenate(found), posinf=0.0)

    def score(self) -> Score | None:
        return None


@dataclass(frozen=True, slots=True)
class ActingLog:
    """One user, who takes the target's action in every state and gets far more than the bound in world 1, far less in world 0."""

    world: int
    assumptions: ClassVar[tuple[str, ...]] = ()
    max_trajectories: ClassVar[int] = 1

    def total(self, statistic: Any, *, progress: Any = None) -> Bounded:  # noqa: ARG002
        total: Bounded = statistic.contribution(next(self.blocks()))
        return total

    def blocks(self) -> Iterator[LoggedUsers]:
        one, zeros = np.arange(2), np.zeros(_FEW, dtype=np.int64)
        rewards = np.full(_FEW, _FAR * (1 if self.world else -1))
        yield LoggedUsers(
            np.arange(_FEW),
            rewards,
            one * _FEW,
            one,
            np.ones(1, dtype=bool),
            zeros,
            np.full(_FEW, 0.01),
        )


TWO_QUESTIONS = (
    "sufficient-statistics",
    "lstd",
    "importance-sampling",
    "weighted-importance-sampling",
)
