"""How much the next value varies, from releases: what UCRL-VTR+ weights its rows by [Luyo21, Alg. 3]. All post-processing."""

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


def moment(
    feature_map: FeatureMap,
    kernels: Array | SparseKernels,
    values: Array,
    estimate: RegressionEstimate,
    width: Width,
) -> Moment:
    """Of f = values [h, s'] after each step, from the estimate of the mixture."""
    features = value_features(feature_map, kernels, values)
    scale = features.scale[:, None, None]
    mean = features.offset + scale * (features.rows @ estimate.weights[:, None, :, None])[..., 0]
    parts = zip(features.rows, estimate.precision, features.scale, strict=True)
    return Moment(
        mean, np.stack([bonus(rows, precision, R, width) for rows, precision, R in parts])
    )


def largest_plausible(first: Moment, second: Moment, span: float) -> Array:
    """Var[V(s') | s, a] + E [h, s, a] for V in [0, span], from the moments of V and of V^2 [Luyo21, Alg. 3, Lemma 12].

    [m_2]_{[0, B^2]} - [m_1]_{[0, B]}^2 + min(B^2, 2 B e_1) + min(B^2, e_2), B = span.
    """
    B = span
    estimate = np.clip(second.mean, 0, B**2) - np.clip(first.mean, 0, B) ** 2
    return np.asarray(
        estimate + np.minimum(B**2, 2 * B * first.error) + np.minimum(B**2, second.error)
    )


def largest_possible(kernels: SparseKernels, values: Array) -> Array:
    """[h, s, a]: a quarter of the squared range of the values [h, s'] that may follow; no variance is larger (Popoviciu)."""
    starts, successors, _ = kernels.arrays
    later = values[:, successors]
    high = np.maximum.reduceat(later, starts[:-1], axis=1)
    low = np.minimum.reduceat(later, starts[:-1], axis=1)
    possible = (high - low) ** 2 / 4
    return np.asarray(possible.reshape(len(values), kernels.states, kernels.actions))


def variance_weights(fitting: Array, rows: Array, variances: Array, *, noise: Array) -> Array:
    """min(1/sqrt(G), sqrt(tau / variance)) [h, s, a], where fitting = 1/sqrt(G) are the largest weights that the bound allows.

    With weights c on rows x, targets of variance v, and noise of variance s^2 on their sum, (sum c x^2)^2 / (sum c^2 v x^2 + s^2) is what
    is learned about a coordinate. It is largest, among c <= 1/G, at c = min(1/G, tau / v), tau = (sum c^2 v x^2 + s^2) / sum c x^2:
    inverse variances where sampling is what hurts, and the largest weights allowed where the noise is. `noise` [h] is s^2 over the
    released signal; the rest of tau is taken at c = 1/G, all (s, a) alike.
    """
    signal = fitting**2 * (rows**2).sum(axis=-1)
    sampling = (signal * fitting**2 * variances).sum(axis=(1, 2)) / np.maximum(
        signal.sum(axis=(1, 2)), 1e-300
    )
    tau = (noise + sampling)[:, None, None]
    return np.asarray(np.minimum(fitting, np.sqrt(tau / np.where(variances > 0, variances, 1.0))))
