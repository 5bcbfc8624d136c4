"""From noisy counts and sums to values in [-1, 1]: all post-processing of what was released.

A state's sum is b = n v + sampling + noise, and its count is released as n + noise. Both noises are
independent, and their size is public. Formulas below use these letters: n are released counts, b
released sums, v values, and s the spread of the values around what they are shrunk to. Nothing here
can break a guarantee, but every change moves the values that users of `counts-and-sums` get.
"""

from dataclasses import dataclass

import numpy as np

from confide.errors import InvalidParameter
from confide.privacy.bounded import Array

# Divisors are at least this.
_SMALLEST_DIVISOR = 1e-8
# A state whose sum is farther from its target is taken to be unusual. In standard deviations; a
# matter of taste.
_OUTLIER_DISTANCE = 3.0
# Weights and spread are computed from each other, so often. They settle in two or three rounds.
_ROUNDS = 4


@dataclass(frozen=True, slots=True, eq=False)
class Ratios:
    """What was released of each state [s], with the scales divided out, and how noisy it is.

    `squares` are sums of squared returns. `count_std` and `sum_std` are standard deviations of
    noise.
    """

    counts: Array
    sums: Array
    squares: Array
    count_std: float
    sum_std: float

    def sampling_variance(self, values: Array) -> Array:
        """Of a state's sum, n var(g), from the released squares.

        It is at most n (1 - v^2), which nothing in [-1, 1] exceeds.
        """
        n = np.maximum(self.counts, 0.0)
        largest = n * np.maximum(1 - values**2, 0.0)
        variance: Array = np.clip(self.squares - n * values**2, 0.0, largest)
        return variance

    def allowed_sampling_variance(self, values: Array) -> Array:
        """The same for intervals.

        One standard deviation of the noise of the squares is added, lest it be underestimated.
        """
        n = np.maximum(self.counts, 0.0)
        largest = n * np.maximum(1 - values**2, 0.0)
        noise = float(np.hypot(self.sum_std, self.count_std / 2))
        allowed: Array = np.minimum(self.sampling_variance(values) + noise, largest)
        return allowed

    def noise_variance(self, values: Array) -> Array:
        """Of b - n v, if v is right: the noise of the sum, and that of the count times v."""
        variance: Array = self.sum_std**2 + values**2 * self.count_std**2
        return variance


@dataclass(frozen=True, slots=True, eq=False)
class Shrunk:
    """Estimates [s] in [-1, 1].

    `noise_std` [s] is the standard deviation that the noise alone gives them. `target` [s] is what
    they are drawn towards, and `spread` how far from it values are thought to be.
    """

    values: Array
    noise_std: Array
    target: Array
    spread: float


def shrink_to_centre(ratios: Ratios, spread: float) -> Shrunk:
    """The posterior mean of v ~ N(0, spread^2), given b = n v + noise, clipped to [-1, 1].

    It is b n / (n^2 + (std/spread)^2), with n at least 0.
    """
    n = np.maximum(ratios.counts, 0.0)
    ridge = (ratios.sum_std / spread) ** 2
    gain = n / (n**2 + ridge) if ridge > 0 else _inverse_or_zero(n)
    values = np.clip(ratios.sums * gain, -1.0, 1.0)
    noise_std = gain * np.sqrt(ratios.noise_variance(values))
    return Shrunk(values, noise_std, np.zeros_like(n), spread)


def empirical_bayes(ratios: Ratios, spread: float, components: Array) -> Shrunk:
    """The posterior mean of v ~ Z w + s (heavy tails); w and s are estimated from the release.

    Z = `components` [s, k] are public. w follows by weighted least squares of b on n Z
    (`_coefficients`), s by moments (`_estimate_spread`). Then v = Z w + n s^2 (b - n Z w)/(n^2 s^2
    + noise), where noise stands for noise and sampling.
    """
    n = ratios.counts
    b = ratios.sums
    # The posterior mean of the counts themselves.
    shrunk_counts = np.maximum(n.mean() + _signal_share(ratios) * (n - n.mean()), 0.0)
    squared_spread = spread**2
    noise = ratios.noise_variance(np.zeros_like(n))
    for _ in range(_ROUNDS):
        expected_square = noise + shrunk_counts**2 * squared_spread
        weight = 1 / np.maximum(expected_square, _SMALLEST_DIVISOR)
        target = np.clip(components @ _coefficients(ratios, weight, components, spread), -1.0, 1.0)
        sampling = ratios.sampling_variance(target)
        squared_spread = _estimate_spread(ratios, target, sampling)
        noise = ratios.noise_variance(target) + sampling
    residual = b - n * target
    # Rare states may be far off: what the spread does not explain widens it for that state.
    expected_square = noise + shrunk_counts**2 * squared_spread
    unexplained = np.maximum(residual**2 - _OUTLIER_DISTANCE**2 * expected_square, 0.0)
    state_spread = squared_spread + unexplained * _inverse_or_zero(shrunk_counts) ** 2
    divisor = np.maximum(shrunk_counts**2 * state_spread + noise, _SMALLEST_DIVISOR)
    gain = shrunk_counts * state_spread / divisor
    values = np.clip(target + gain * residual, -1.0, 1.0)
    noise_std = gain * np.sqrt(ratios.noise_variance(values))
    return Shrunk(values, noise_std, target, float(np.sqrt(squared_spread)))


def _estimate_spread(ratios: Ratios, target: Array, sampling: Array) -> float:
    """s^2 by moments: E (b - n t)^2 = noise + n^2 s^2 + sampling, where t is the target.

    The sampling variance [s] comes from the released squares. One standard error is taken off s^2:
    where noise hides a spread, none is the safer guess.
    """
    n = ratios.counts
    noise = ratios.noise_variance(target)
    excess = float(((ratios.sums - n * target) ** 2 - noise - sampling).sum())
    error = float(np.sqrt(2 * np.square(noise + sampling).sum()))
    # The sum of the squared counts without their noise.
    squared_counts = float((n**2).sum()) - len(n) * ratios.count_std**2
    spread = (excess - error) / max(squared_counts, _SMALLEST_DIVISOR)
    return min(max(spread, _SMALLEST_DIVISOR), 1.0)


def _signal_share(ratios: Ratios) -> float:
    """How much of the variance of the released counts is not noise."""
    variance = float(ratios.counts.var())
    return max(variance - ratios.count_std**2, 0.0) / variance if variance > 0 else 0.0


def _coefficients(ratios: Ratios, weight: Array, Z: Array, spread: float) -> Array:
    """w from sum_s weight m (b - n Z w) Z = 0, where m is the count, drawn towards the mean count.

    Released counts on both sides would draw w to 0 (errors in variables), so the variance of the
    noise that m and n share is taken out of the Gram matrix. A ridge decides what the data do not:
    w ~ N(0, (spread/3)^2) over all standardised components but the first, the mean.
    """
    n = ratios.counts
    components = Z.shape[1]
    signal_share = _signal_share(ratios)
    shrunk_counts = n.mean() + signal_share * (n - n.mean())
    squared_counts = shrunk_counts * n - signal_share * ratios.count_std**2
    gram = Z.T @ ((weight * squared_counts)[:, None] * Z)
    ridge = np.full(components, max(components - 1, 1) * (3 / spread) ** 2)
    # The mean may be anywhere in [-1, 1].
    ridge[0] = 1.0
    eigenvalues, vectors = np.linalg.eigh(gram)
    positive = (vectors * np.maximum(eigenvalues, 0.0)) @ vectors.T + np.diag(ridge)
    coefficients: Array = np.linalg.solve(positive, Z.T @ (weight * shrunk_counts * ratios.sums))
    return coefficients


def standardise(components: Array | None, states: int) -> Array:
    """Public components [s, k] as [s, 1 + k]: a column of ones, then the columns, standardised.

    A column with mean 0 and standard deviation 1 stands for each component, unless it is constant.
    """
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
    varies = scale > 1e-9 * max(float(np.abs(table).max(initial=0.0)), 1e-300)
    return np.hstack([ones, centred[:, varies] / scale[varies]])


def _inverse_or_zero(n: Array) -> Array:
    positive = n > 0
    inverse: Array = np.where(positive, 1 / np.where(positive, n, 1.0), 0.0)
    return inverse
