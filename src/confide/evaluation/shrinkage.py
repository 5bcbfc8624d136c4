"""From noisy counts and sums to values in [-1, 1]: all post-processing of what was released.

A state's sum is b = n v + sampling + noise, its count is released as n + noise. Both noises are independent and of public size.
"""

from dataclasses import dataclass

import numpy as np

from confide.errors import InvalidParameter
from confide.privacy.bounded import Array

_LEAST = 1e-8
_OUTLIER = 3.0  # standard deviations
_ROUNDS = 4  # of weights and spread, each from the other: they settle in two or three


@dataclass(frozen=True, slots=True, eq=False)
class Ratios:
    """What was released of each state [s], the scales divided out, and how noisy it is."""

    counts: Array
    sums: Array
    squares: Array  # sums of g^2
    count_std: float
    sum_std: float

    def sampling_variance(self, values: Array) -> Array:
        """Of a state's sum, n var(g): from the released squares, but at most n (1 - v^2), which nothing in [-1, 1] exceeds."""
        n = np.maximum(self.counts, 0.0)
        most = n * np.maximum(1 - values**2, 0.0)
        measured: Array = np.clip(self.squares - n * values**2, 0.0, most)
        return measured

    def allowed_sampling_variance(self, values: Array) -> Array:
        """The same for intervals: with one standard deviation of the noise of the squares, lest it be underestimated."""
        n = np.maximum(self.counts, 0.0)
        most = n * np.maximum(1 - values**2, 0.0)
        noise = float(np.hypot(self.sum_std, self.count_std / 2))
        allowed: Array = np.minimum(self.sampling_variance(values) + noise, most)
        return allowed

    def noise_variance(self, values: Array) -> Array:
        """Of b - n v, if v is right: the noise of the sum, and that of the count as it is seen through v."""
        variance: Array = self.sum_std**2 + values**2 * self.count_std**2
        return variance


@dataclass(frozen=True, slots=True, eq=False)
class Shrunk:
    """Estimates in [-1, 1], and the standard deviation that the noise alone gives them, [s]."""

    values: Array
    noise_std: Array
    target: Array  # what they are drawn towards
    spread: float  # how far from it values are thought to be


def fixed(ratios: Ratios, spread: float) -> Shrunk:
    """The posterior mean of v ~ N(0, spread^2), given b = n v + noise: b n / (n^2 + (std/spread)^2), n at least 0; then clipped."""
    n = np.maximum(ratios.counts, 0.0)
    ridge = (ratios.sum_std / spread) ** 2
    gain = n / (n**2 + ridge) if ridge > 0 else _inverse(n)
    values = np.clip(ratios.sums * gain, -1.0, 1.0)
    return Shrunk(values, gain * np.sqrt(ratios.noise_variance(values)), np.zeros_like(n), spread)


def empirical_bayes(ratios: Ratios, spread: float, components: Array) -> Shrunk:
    """The posterior mean of v ~ Z w + s * (heavy tails), w and s estimated from the release, Z = `components` [s, k], public.

    w by weighted least squares of b on n Z (`_coefficients`), s by moments (`_spread`). Then, with noise standing for noise and sampling,
    v = Z w + n s^2 (b - n Z w)/(n^2 s^2 + noise).
    """
    n, b = ratios.counts, ratios.sums
    kept = _signal_share(ratios)
    shrunk = np.maximum(n.mean() + kept * (n - n.mean()), 0.0)  # the counts' own posterior mean
    s2, noise = spread**2, ratios.noise_variance(np.zeros_like(n))
    for _ in range(_ROUNDS):
        weight = 1 / np.maximum(noise + shrunk**2 * s2, _LEAST)
        target = np.clip(components @ _coefficients(ratios, weight, components, spread), -1.0, 1.0)
        s2, sampled = _spread(ratios, target)
        noise = ratios.noise_variance(target) + sampled
    expected = noise + shrunk**2 * s2
    wide = (
        s2 + np.maximum((b - n * target) ** 2 - _OUTLIER**2 * expected, 0.0) * _inverse(shrunk) ** 2
    )  # rare states may be far off
    gain = shrunk * wide / np.maximum(shrunk**2 * wide + noise, _LEAST)
    values = np.clip(target + gain * (b - n * target), -1.0, 1.0)
    return Shrunk(values, gain * np.sqrt(ratios.noise_variance(values)), target, float(np.sqrt(s2)))


def _spread(ratios: Ratios, target: Array) -> tuple[float, Array]:
    """(s^2, sampling variance [s]) by moments: E (b - n t)^2 = noise + n^2 s^2 + sampling.

    The sampling variance is known from the released squares.
    One standard error is taken off s^2: where noise hides a spread, none is the safer guess.
    """
    n, noise = ratios.counts, ratios.noise_variance(target)
    sampled = ratios.sampling_variance(target)
    excess = float(((ratios.sums - n * target) ** 2 - noise - sampled).sum())
    error = float(np.sqrt(2 * np.square(noise + sampled).sum()))
    # of the counts, without their noise
    squares = float((n**2).sum()) - len(n) * ratios.count_std**2
    return min(max((excess - error) / max(squares, _LEAST), _LEAST), 1.0), sampled


def _signal_share(ratios: Ratios) -> float:
    """How much of the variance of the released counts is not noise."""
    variance = float(ratios.counts.var())
    return max(variance - ratios.count_std**2, 0.0) / variance if variance > 0 else 0.0


def _coefficients(ratios: Ratios, weight: Array, Z: Array, spread: float) -> Array:
    """w from sum_s weight m (b - n Z w) Z = 0, m being the count as far as it is known: drawn towards the mean count.

    Released counts on both sides would draw w to 0 (errors in variables): the variance of the noise that m and n share is taken out of
    the Gram matrix. A ridge, w ~ N(0, (spread/3)^2) over all standardised components but the first (the mean), decides what the data
    do not.
    """
    k, kept, n = Z.shape[1], _signal_share(ratios), ratios.counts
    known = n.mean() + kept * (n - n.mean())
    gram = Z.T @ ((weight * (known * n - kept * ratios.count_std**2))[:, None] * Z)
    ridge = np.full(k, max(k - 1, 1) * (3 / spread) ** 2)
    ridge[0] = 1.0  # the mean may be anywhere in [-1, 1]
    eigenvalues, vectors = np.linalg.eigh(gram)
    positive = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T + np.diag(ridge)
    solution: Array = np.linalg.solve(positive, Z.T @ (weight * known * ratios.sums))
    return solution


def standardised(components: Array | None, states: int) -> Array:
    """Public components [s, k] as [s, 1 + k]: a column of ones, then each column with mean 0 and standard deviation 1, or left out."""
    ones = np.ones((states, 1))
    if components is None:
        return ones
    table = np.asarray(components, dtype=float)
    if table.ndim != 2 or len(table) != states or not np.isfinite(table).all():
        raise InvalidParameter.of(
            "components", f"must be finite, of shape ({states}, k), got shape {table.shape}"
        )
    centred = table - table.mean(axis=0)
    scale = centred.std(axis=0)
    kept = scale > 1e-9 * max(float(np.abs(table).max(initial=0.0)), 1e-300)
    return np.hstack([ones, centred[:, kept] / scale[kept]])


def _inverse(n: Array) -> Array:
    inverse: Array = np.where(n > 0, 1 / np.where(n > 0, n, 1.0), 0.0)
    return inverse
