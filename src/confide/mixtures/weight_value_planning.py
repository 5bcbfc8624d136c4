"""The value of policies under the estimated mixture, with the error of sampling and the noise of privacy told apart. All post-processing.

The value is a smooth function of the weights; its standard deviation is the gradient in the metric of the posterior covariance (delta
method), steps taken as independent, as the estimate takes them. The sampling error is the same with the covariance that the sums of codes
would give without noise: the information of the rounds, sum_t M_t^T S_t^-1 M_t, on the same visits.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from confide.mixtures.likelihood_planning import WeightPosterior, mixture, sampling, within
from confide.planners.policy_value import FiniteModel, PlayedRound, RoundValues

Array = npt.NDArray[np.float64]


def valued(
    played: Sequence[PlayedRound],
    known: WeightPosterior,
    *,
    rewards: Array,
    kernels: Array,
    codes: Array,
    code_means: Array,
    start: Array,
) -> RoundValues:
    """Of all rounds, the open one last. Kernels [i, s, a, s'], codes [s, a, s', c] with their means [s, a, c, i]."""
    model = FiniteModel(
        np.stack([mixture(kernels, weights) for weights in known.weights]), rewards, start
    )
    slopes = np.tensordot(model.slopes(played[-1]), kernels, axes=([1, 2, 3], [1, 2, 3]))  # [h, i]
    exact = _without_noise(
        model, [each for each in played if each.users], known, codes=codes, code_means=code_means
    )
    total = float(np.einsum("hi,hij,hj->", slopes, known.covariance, slopes))
    left = min(float(np.einsum("hi,hij,hj->", slopes, exact, slopes)), total)
    best, uniform = model.bounds()
    return RoundValues(
        tuple(map(model.mean_value, played)),
        math.sqrt(left),
        math.sqrt(total - left),
        best,
        uniform,
    )


def _without_noise(
    model: FiniteModel,
    closed: Sequence[PlayedRound],
    known: WeightPosterior,
    *,
    codes: Array,
    code_means: Array,
) -> Array:
    """The covariance [h, i, i] of the weights if the sums had no noise."""
    H, d = known.weights.shape
    expected = np.array([each.users * model.mean_visits(each)[:H] for each in closed]).reshape(
        -1, H, *codes.shape[:2]
    )
    covariance = np.empty((H, d, d))
    for h in range(H):
        M = np.tensordot(expected[:, h], code_means, axes=2)  # [t, c, i]
        spread = sampling(expected[:, h], M, model.transitions[h], codes, known.weights[h])
        information = d * np.eye(d)  # the prior: N(1/d, I/d)
        for mean, each in zip(M, spread, strict=True):
            information += mean.T @ np.linalg.solve(each, mean)
        covariance[h] = within(information)
    return covariance
