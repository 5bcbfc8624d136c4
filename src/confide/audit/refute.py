"""Try to refute a guarantee: two neighbouring data sets, many runs, the best test we can find, and exact binomial bounds.

An (epsilon, delta) guarantee states that for every test, P(reject | one data set) <= e^epsilon P(reject | the other) + delta. A test whose
error rates contradict that refutes it. The test is chosen on a third of the runs and judged on the rest, so its Clopper-Pearson
bounds are exact: an honest mechanism is refuted with probability at most 1 - confidence.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from confide.arguments import generator, has, real, whole
from confide.errors import InvalidParameter
from confide.privacy.bounded import Array
from confide.privacy.loss import GaussianDP, Loss

Score = Callable[[Array], Array]


class Subject(Protocol):
    """Something with a guarantee that can be run on either of two neighbouring data sets."""

    @property
    def loss(self) -> Loss: ...

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        """All that an adversary sees, [run, feature], when the data set is number `world` (0 or 1)."""

    def score(self) -> Score | None:
        """The likelihood ratio, where it is known; otherwise a linear test is fitted."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit. `epsilon` is the stated epsilon at `delta`; the lower bounds hold with probability `confidence`."""

    epsilon: float
    delta: float
    epsilon_lower: float
    mu: float | None  # for Gaussian promises, which say more than one (epsilon, delta)
    mu_lower: float | None
    runs: int
    confidence: float

    @property
    def refuted(self) -> bool:
        return self.epsilon_lower > self.epsilon or (
            self.mu is not None and self.mu_lower is not None and self.mu_lower > self.mu
        )

    @property
    def sharpness(self) -> float:
        """The lower bound as a fraction of the stated epsilon."""
        return self.epsilon_lower / self.epsilon if self.epsilon > 0 else math.inf


def refute(subject: Subject, *, delta: float, runs: int, confidence: float = 0.99, rng: np.random.Generator) -> Audit:
    """Run the subject `runs` times on each of its two data sets, and compute a lower bound on its epsilon at `delta`."""
    has("subject", subject, ("loss", "observe", "score"), "a subject, as confide.audit.subject makes")
    whole("runs", runs, at_least=100, at_most=10**9)
    real("confidence", confidence, above=0, below=1)
    real("delta", delta, at_least=0, below=1)
    generator("rng", rng)
    seen = [subject.observe(world, runs, rng) for world in (0, 1)]
    split = runs // 3
    fitting, judging = [part[:split] for part in seen], [part[split:] for part in seen]
    score = subject.score() or fisher(*fitting)
    fitted, judged = [score(part) for part in fitting], [score(part) for part in judging]
    gaussian = isinstance(subject.loss, GaussianDP)
    miss = (1 - confidence) / (2 if gaussian else 1)  # the two kinds of bound share the risk of a false alarm
    epsilon_lower = _epsilon_bound(fitted, judged, delta, miss)
    return Audit(
        epsilon=subject.loss.epsilon_at(delta),
        delta=delta,
        epsilon_lower=epsilon_lower,
        mu=subject.loss.mu if isinstance(subject.loss, GaussianDP) else None,
        mu_lower=_mu_bound(fitted, judged, miss) if gaussian else None,
        runs=runs,
        confidence=confidence,
    )


def fisher(zero: Array, one: Array) -> Score:
    """The linear test that separates two samples best: optimal for Gaussian noise, whatever its covariance.

    The pseudo-inverse keeps directions in which there is no noise at all: there the samples are told apart with certainty.
    """
    centre = (zero.mean(axis=0) + one.mean(axis=0)) / 2
    difference = one.mean(axis=0) - zero.mean(axis=0)
    residuals = np.concatenate([zero - zero.mean(axis=0), one - one.mean(axis=0)])
    covariance = residuals.T @ residuals / len(residuals)
    floor = max(1e-9 * float(np.trace(covariance)) / len(covariance), 1e-300)
    direction = np.linalg.solve(covariance + floor * np.eye(len(covariance)), difference)
    return lambda seen: np.asarray((seen - centre) @ direction)


def clopper_pearson(successes: int, trials: int, miss: float) -> tuple[float, float]:
    """Lower and upper bounds on a probability, each wrong with probability at most `miss`."""
    from scipy.special import betaincinv

    if whole("successes", successes, at_least=0) > whole("trials", trials, at_least=1):
        raise InvalidParameter(f"successes must be at most trials, got successes={successes}, trials={trials}")
    real("miss", miss, above=0, below=1)
    low = 0.0 if successes == 0 else float(betaincinv(successes, trials - successes + 1, miss))
    high = 1.0 if successes == trials else float(betaincinv(successes + 1, trials - successes, 1 - miss))
    return low, high


def _epsilon_bound(fitted: list[Array], judged: list[Array], delta: float, miss: float) -> float:
    """The largest epsilon that some one-sided test of the score contradicts: reject above (side 1) or below (side -1) a threshold."""
    best, test = -math.inf, (0.0, 1)
    for side in (1, -1):
        for threshold in _thresholds(fitted):
            found = _epsilon_of(fitted, threshold, side, delta, miss)
            if found > best:
                best, test = found, (threshold, side)
    return max(0.0, _epsilon_of(judged, *test, delta, miss))


def _epsilon_of(scores: list[Array], threshold: float, side: int, delta: float, miss: float) -> float:
    likely, unlikely = (scores[1], scores[0]) if side == 1 else (scores[0], scores[1])
    power, _ = clopper_pearson(int(np.count_nonzero(side * likely > side * threshold)), len(likely), miss / 2)
    _, false_alarm = clopper_pearson(int(np.count_nonzero(side * unlikely > side * threshold)), len(unlikely), miss / 2)
    return math.log((power - delta) / false_alarm) if power > delta else -math.inf


def _mu_bound(fitted: list[Array], judged: list[Array], miss: float) -> float:
    """The largest mu that the test between the two means contradicts: mu-GDP needs Phi^-1(power) - Phi^-1(false alarm) <= mu."""
    from scipy.special import ndtri

    threshold = float(np.median(np.concatenate(fitted)))
    power, _ = clopper_pearson(int(np.count_nonzero(judged[1] > threshold)), len(judged[1]), miss / 2)
    _, false_alarm = clopper_pearson(int(np.count_nonzero(judged[0] > threshold)), len(judged[0]), miss / 2)
    return max(0.0, float(ndtri(power) - ndtri(false_alarm)))


def _thresholds(fitted: list[Array]) -> Array:
    return np.unique(np.quantile(np.concatenate(fitted), np.linspace(0.002, 0.998, 250)))
