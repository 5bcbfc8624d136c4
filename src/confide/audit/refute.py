"""Try to refute a guarantee: two neighbouring data sets, many runs, and the best test we can find.

An (epsilon, delta) guarantee states that for every test, P(reject | one data set) <= e^epsilon
P(reject | the other) + delta. A test whose error rates contradict that refutes it. The test is
chosen on some of the runs and judged on the rest, so its binomial bounds are exact: an honest
mechanism is refuted with probability at most 1 - confidence. Whatever chooses the test may be
changed freely. What judges it must stay exact.
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
# (successes, trials)
Count = tuple[int, int]

# Into how many cells the interval of false-alarm rates is divided. A matter of taste: more are
# tighter.
_CELLS = 32
# How many standard deviations of a count are added up. What is beyond has probability below 1e-12.
_DEVIATIONS = 8
# An effect is called detectable if it is found with this probability. A matter of taste.
_POWER = 0.9
# How many runs choose a threshold. A matter of taste.
_THRESHOLD_RUNS = 200
# How many thresholds are tried, as quantiles of the scores. A matter of taste.
_THRESHOLDS = 250


class Subject(Protocol):
    """Something with a guarantee that can be run on either of two neighbouring data sets.

    An optional attribute `reach` says how much of the stated loss the two data sets use up (default
    1).
    """

    @property
    def loss(self) -> Loss: ...

    def observe(self, world: int, runs: int, rng: np.random.Generator) -> Array:
        """All that an adversary sees, [run, feature], on the data set number `world` (0 or 1)."""

    def score(self) -> Score | None:
        """The likelihood ratio, where it is known; otherwise a linear test is fitted."""


@dataclass(frozen=True, slots=True)
class Audit:
    """The result of an audit.

    `epsilon` is the stated epsilon at `delta`. `mu` is stated by Gaussian guarantees, which say
    more than one (epsilon, delta). The lower bounds hold with probability `confidence`.
    `detectable` is the smallest true epsilon that this many runs refute with probability 90 %, or
    None if it is not known.
    """

    epsilon: float
    delta: float
    epsilon_lower: float
    mu: float | None
    mu_lower: float | None
    runs: int
    confidence: float
    detectable: float | None = None

    @property
    def refuted(self) -> bool:
        if self.epsilon_lower > self.epsilon:
            return True
        return self.mu is not None and self.mu_lower is not None and self.mu_lower > self.mu

    @property
    def sharpness(self) -> float:
        """The lower bound as a fraction of the stated epsilon."""
        return self.epsilon_lower / self.epsilon if self.epsilon > 0 else math.inf


def refute(
    subject: Subject, *, delta: float, runs: int, confidence: float = 0.99, rng: np.random.Generator
) -> Audit:
    """Run the subject on both data sets, and compute a lower bound on its epsilon at `delta`.

    There are `runs` runs on each of them.
    """
    has(
        "subject",
        subject,
        ("loss", "observe", "score"),
        "a subject, as confide.audit.subject makes",
    )
    whole("runs", runs, at_least=100, at_most=10**9)
    real("confidence", confidence, above=0, below=1)
    real("delta", delta, at_least=0, below=1)
    generator("rng", rng)
    views = [subject.observe(world, runs, rng) for world in (0, 1)]
    likelihood_ratio = subject.score()
    loss = subject.loss
    if likelihood_ratio is not None and isinstance(loss, GaussianDP):
        # Only the threshold is to be chosen, and it is in the middle.
        split = max(runs // 10, min(runs // 3, _THRESHOLD_RUNS))
    else:
        split = runs // 3
    score = likelihood_ratio or fisher(views[0][:split], views[1][:split])
    fitted = [score(view[:split]) for view in views]
    judged = [score(view[split:]) for view in views]
    # The two kinds of bound share the risk of a false alarm.
    risk = (1 - confidence) / (2 if isinstance(loss, GaussianDP) else 1)
    epsilon_lower = _epsilon_bound(fitted, judged, delta, risk)
    mu_lower = _mu_bound(fitted, judged, risk) if isinstance(loss, GaussianDP) else None
    detectable = None
    if likelihood_ratio is not None:
        detectable = _detectable(subject, runs - split, delta, risk)
    return Audit(
        epsilon=loss.epsilon_at(delta),
        delta=delta,
        epsilon_lower=epsilon_lower,
        mu=loss.mu if isinstance(loss, GaussianDP) else None,
        mu_lower=mu_lower,
        runs=runs,
        confidence=confidence,
        detectable=detectable,
    )


def _detectable(subject: Subject, runs: int, delta: float, risk: float) -> float | None:
    """The smallest epsilon that is found with probability `_POWER`.

    It is known for Gaussian losses and the best score.     mu must be as far above the stated one
    as the bound is below the estimate, and by the deviations that leave 10 % out.
    """
    from scipy.optimize import brentq
    from scipy.special import ndtr, ndtri

    loss = subject.loss
    reach = getattr(subject, "reach", 1.0)
    if not isinstance(loss, GaussianDP) or not reach > 0:
        return None
    deviations = float(ndtri(1 - 0.9 * risk) + ndtri(_POWER))

    def gap(mu: float) -> float:
        half = reach * mu / 2
        # Of the estimate of mu, by the delta method: both error rates are ndtr(-half).
        std = (
            math.sqrt(2 * ndtr(half) * ndtr(-half) / runs)
            * math.sqrt(2 * math.pi)
            * math.exp(half**2 / 2)
        )
        return float(reach * mu - loss.mu - deviations * std)

    largest = max((2.0 * loss.mu, 6.0)) / reach
    if gap(largest) <= 0:
        return None
    return GaussianDP(float(brentq(gap, 0.0, largest))).epsilon_at(delta)


def fisher(zero: Array, one: Array) -> Score:
    """The linear test that separates two samples best.

    It is optimal for Gaussian noise, whatever its covariance. A tiny ridge keeps directions in
    which there is no noise at all: there the samples are told apart with certainty.
    """
    centre = (zero.mean(axis=0) + one.mean(axis=0)) / 2
    difference = one.mean(axis=0) - zero.mean(axis=0)
    residuals = np.concatenate([zero - zero.mean(axis=0), one - one.mean(axis=0)])
    covariance = residuals.T @ residuals / len(residuals)
    dimension = len(covariance)
    ridge = max(1e-9 * float(np.trace(covariance)) / dimension, 1e-300)
    direction = np.linalg.solve(covariance + ridge * np.eye(dimension), difference)
    return lambda views: np.asarray((views - centre) @ direction)


def clopper_pearson(successes: int, trials: int, miss: float) -> tuple[float, float]:
    """Lower and upper bounds on a probability, each wrong with probability at most `miss`."""
    from scipy.special import betaincinv

    if whole("successes", successes, at_least=0) > whole("trials", trials, at_least=1):
        raise InvalidParameter(
            f"successes must be at most trials, got successes={successes}, trials={trials}"
        )
    real("miss", miss, above=0, below=1)
    failures = trials - successes
    low = 0.0
    high = 1.0
    if successes > 0:
        low = float(betaincinv(successes, failures + 1, miss))
    if failures > 0:
        high = float(betaincinv(successes + 1, failures, 1 - miss))
    return low, high


def _epsilon_bound(fitted: list[Array], judged: list[Array], delta: float, risk: float) -> float:
    """The largest epsilon that some one-sided test of the score contradicts.

    A test rejects above a threshold (side 1) or below it (side -1).
    """
    best = -math.inf
    best_threshold = 0.0
    best_side = 1
    for side in (1, -1):
        for threshold in _thresholds(fitted):
            epsilon = _epsilon_of(fitted, threshold, side, delta, risk)
            if epsilon > best:
                best = epsilon
                best_threshold = threshold
                best_side = side
    return max(0.0, _epsilon_of(judged, best_threshold, best_side, delta, risk))


def _epsilon_of(
    scores: list[Array], threshold: float, side: int, delta: float, risk: float
) -> float:
    """The epsilon that one test contradicts. Two bounds on its error rates share the risk."""
    likely, unlikely = _beyond(scores, threshold, side)
    power, _ = clopper_pearson(*likely, risk / 2)
    _, false_alarm = clopper_pearson(*unlikely, risk / 2)
    return math.log((power - delta) / false_alarm) if power > delta else -math.inf


def _mu_bound(fitted: list[Array], judged: list[Array], risk: float) -> float:
    """The largest mu that the test between the two means contradicts.

    mu-GDP needs Phi^-1(power) - Phi^-1(false alarm) <= mu.
    """
    middle = float(np.median(np.concatenate(fitted)))
    likely, unlikely = _beyond(judged, middle, 1)
    return _joint_bound(likely, unlikely, risk)


def _beyond(scores: list[Array], threshold: float, side: int) -> tuple[Count, Count]:
    """How many scores are beyond the threshold, and of how many.

    First on the data set where that is likely, then on the other one.
    """
    counts = [(int(np.count_nonzero(side * part > side * threshold)), len(part)) for part in scores]
    return (counts[1], counts[0]) if side == 1 else (counts[0], counts[1])


def _joint_bound(likely: Count, unlikely: Count, risk: float) -> float:
    """The largest mu that two binomial counts contradict together, at this risk of a false alarm.

    mu-GDP states p1 <= Phi(Phi^-1(p0) + mu) for the two probabilities of a test. Under it, counts
    that are at least as far apart as those that were observed have at most the probability of the
    worst p0, with the largest p1. An interval of p0 is tried that contains it up to a tenth of the
    risk [Berger94], in cells, each at its worst corners. So the bound is exact, and tighter than
    one from two separate intervals: 1.4 times closer to the estimate.
    """
    from scipy.optimize import brentq
    from scipy.special import bdtrc, gammaln, ndtr, ndtri, xlog1py, xlogy

    # k successes in n trials, with probability p: 1 where they are likely, 0 on the other data set.
    k1, n1 = likely
    k0, n0 = unlikely
    estimate = float(ndtri((k1 + 0.5) / (n1 + 1)) - ndtri((k0 + 0.5) / (n0 + 1)))
    if estimate <= 0:
        return 0.0
    edges = np.linspace(*clopper_pearson(k0, n0, risk / 20), _CELLS + 1)[:, None]
    distance = _DEVIATIONS * math.sqrt(n0) / 2
    fewest = max(0, math.floor(n0 * edges[0, 0] - distance))
    most = min(n0, math.ceil(n0 * edges[-1, 0] + distance))
    counts = np.arange(fewest, most + 1)
    # How many successes in n1 are as far apart from each count in n0.
    needed = np.ceil(ndtr(ndtri((counts + 0.5) / (n0 + 1)) + estimate) * (n1 + 1) - 0.5 - 1e-9)
    # The probability of each count, [cell, count].
    choose = gammaln(n0 + 1) - gammaln(counts + 1) - gammaln(n0 - counts + 1)
    weights = np.exp(choose + xlogy(counts, edges[:-1]) + xlog1py(n0 - counts, -edges[:-1]))

    def excess(mu: float) -> float:
        """The probability of such counts under mu-GDP, above what is allowed."""
        largest_p1 = ndtr(ndtri(edges[1:]) + mu)
        tail = bdtrc(np.clip(needed - 1, 0, n1), n1, largest_p1)
        probability = (weights * np.where(needed > 0, tail, 1.0)).sum(axis=1)
        return float(probability.max()) + 1e-12 - 0.9 * risk

    if excess(0.0) >= 0:
        return 0.0
    if excess(estimate) <= 0:
        return estimate
    # The root, rounded down by more than its tolerance.
    return max(0.0, float(brentq(excess, 0.0, estimate, xtol=1e-4)) - 1e-4)


def _thresholds(fitted: list[Array]) -> Array:
    levels = np.linspace(0.002, 0.998, _THRESHOLDS)
    return np.unique(np.quantile(np.concatenate(fitted), levels))
