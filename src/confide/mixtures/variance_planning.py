"""How much the next value varies, which is what UCRL-VTR+ weights its rows by [Luyo21, Alg. 3].

PUBLIC: everything here is post-processing of releases. Weights of rows may be any public numbers,
because rows are clipped after they are weighted.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.mixtures.value_features import FeatureMap, SparseKernels, value_features
from confide.planners.regression import RegressionEstimate, Width, bonus

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class Moment:
    """An estimate of E[f(s') | s, a], and how far off it may be. Shapes: both [h, s, a]."""

    mean: Array
    error: Array


def estimate_moment(
    feature_map: FeatureMap,
    kernels: Array | SparseKernels,
    values: Array,
    estimate: RegressionEstimate,
    width: Width,
) -> Moment:
    """The moment of f = values [h, s'] after each step, by the estimate of the mixture."""
    features = value_features(feature_map, kernels, values)
    scale = features.scale[:, None, None]
    mean = features.offset + scale * (features.rows @ estimate.weights[:, None, :, None])[..., 0]
    errors = [
        bonus(rows, precision, value_range, width)
        for rows, precision, value_range in zip(
            features.rows, estimate.precision, features.scale, strict=True
        )
    ]
    return Moment(mean, np.stack(errors))


def largest_plausible(first: Moment, second: Moment, span: float) -> Array:
    """Var[V(s') | s, a] + E [h, s, a] for V in [0, span] [Luyo21, Alg. 3, Lemma 12].

    With the moments m_1 of V and m_2 of V^2, their errors e_1 and e_2, and B = span, it is

        [m_2]_{[0, B^2]} - [m_1]_{[0, B]}^2 + min(B^2, 2 B e_1) + min(B^2, e_2).
    """
    B = span
    variance = np.clip(second.mean, 0, B**2) - np.clip(first.mean, 0, B) ** 2
    first_error = np.minimum(B**2, 2 * B * first.error)
    second_error = np.minimum(B**2, second.error)
    return np.asarray(variance + first_error + second_error)


def largest_possible(kernels: SparseKernels, values: Array) -> Array:
    """A quarter of the squared range of the values [h, s'] that may follow, for each [h, s, a].

    No variance is larger (Popoviciu).
    """
    starts, successors, _ = kernels.arrays
    next_values = values[:, successors]
    high = np.maximum.reduceat(next_values, starts[:-1], axis=1)
    low = np.minimum.reduceat(next_values, starts[:-1], axis=1)
    variances = (high - low) ** 2 / 4
    return np.asarray(variances.reshape(len(values), kernels.states, kernels.actions))


def variance_weights(
    fitting_weights: Array, rows: Array, variances: Array, *, noise: Array
) -> Array:
    """The weights of rows, min(1/sqrt(G), sqrt(tau / variance)) [h, s, a].

    `fitting_weights` = 1/sqrt(G) are the largest weights that the bound allows. With weights c on
    rows x, targets of variance v, and noise of variance s^2 on their sum, what is learned about a
    coordinate is (sum c x^2)^2 / (sum c^2 v x^2 + s^2). Among c <= 1/G it is largest at
    c = min(1/G, tau / v), tau = (sum c^2 v x^2 + s^2) / sum c x^2. These are inverse variances
    where sampling is what hurts, and the largest weights allowed where the noise is. `noise` [h] is
    s^2 over the released signal. The rest of tau is taken at c = 1/G, all (s, a) alike.
    """
    squared_weights = fitting_weights**2
    signal = squared_weights * (rows**2).sum(axis=-1)
    total_signal = np.maximum(signal.sum(axis=(1, 2)), 1e-300)
    sampling = (signal * squared_weights * variances).sum(axis=(1, 2)) / total_signal
    tau = (noise + sampling)[:, None, None]
    inverse_std = np.sqrt(tau / np.where(variances > 0, variances, 1.0))
    return np.asarray(np.minimum(fitting_weights, inverse_std))
