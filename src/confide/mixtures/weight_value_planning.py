"""The value of policies under the estimated mixture, with two errors: of sampling and of noise.

PUBLIC: everything here is post-processing of releases. What leaves are the numbers of
`RoundValues`, which the report of a run shows.

The value is a smooth function of the weights. Its standard deviation is that of its gradient in the
posterior covariance (delta method), with steps taken as independent, as the estimate takes them.
The sampling error is the same with the covariance that the sums of codes would have without noise.
The information of the rounds on the same visits is then sum_t M_t^T S_t^-1 M_t, where S_t is the
sampling covariance of the sums of round t.
"""

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from confide.mixtures.likelihood_planning import (
    WeightPosterior,
    covariance_on_simplex,
    mixture_transitions,
    sampling_covariance,
)
from confide.planners.policy_value import FiniteModel, PlayedRound, RoundValues

Array = npt.NDArray[np.float64]


def value_rounds(
    rounds: Sequence[PlayedRound],
    posterior: WeightPosterior,
    *,
    rewards: Array,
    kernels: Array,
    codes: Array,
    code_means: Array,
    start: Array,
) -> RoundValues:
    """The values of all rounds, the open one last, with the errors of the last one.

    Shapes: kernels [i, s, a, s'], codes [s, a, s', c] and their means [s, a, c, i].
    """
    transitions = [mixture_transitions(kernels, weights) for weights in posterior.weights]
    model = FiniteModel(np.stack(transitions), rewards, start)
    # How the value of the open round changes with the weights [h, i].
    gradient = np.tensordot(model.slopes(rounds[-1]), kernels, axes=([1, 2, 3], [1, 2, 3]))
    closed_rounds = [each for each in rounds if each.users]
    noiseless = _covariance_without_noise(
        model, closed_rounds, posterior, codes=codes, code_means=code_means
    )
    total = _variance(gradient, posterior.covariance)
    sampling = min(_variance(gradient, noiseless), total)
    best, uniform = model.bounds()
    return RoundValues(
        tuple(map(model.mean_value, rounds)),
        math.sqrt(sampling),
        math.sqrt(total - sampling),
        best,
        uniform,
    )


def _variance(gradient: Array, covariance: Array) -> float:
    return float(np.einsum("hi,hij,hj->", gradient, covariance, gradient))


def _covariance_without_noise(
    model: FiniteModel,
    rounds: Sequence[PlayedRound],
    posterior: WeightPosterior,
    *,
    codes: Array,
    code_means: Array,
) -> Array:
    """The covariance [h, i, i] of the weights if the sums of these rounds had no noise."""
    H, d = posterior.weights.shape
    visits = np.array([each.users * model.mean_visits(each)[:H] for each in rounds])
    visits = visits.reshape(-1, H, *codes.shape[:2])
    covariance = np.empty((H, d, d))
    for h in range(H):
        M = np.tensordot(visits[:, h], code_means, axes=2)  # [t, c, i]
        sampling = sampling_covariance(
            visits[:, h], M, model.transitions[h], codes, posterior.weights[h]
        )
        # The prior is N(1/d, I/d).
        information = d * np.eye(d)
        for of_round, covariance_of_round in zip(M, sampling, strict=True):
            information += of_round.T @ np.linalg.solve(covariance_of_round, of_round)
        covariance[h] = covariance_on_simplex(information)
    return covariance
