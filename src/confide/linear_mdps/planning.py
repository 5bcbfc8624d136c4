"""Least-squares value iteration [Luyo21, Alg. 2] backward in time, from released statistics and responses. All post-processing.

The response of step h, sum phi(s, a) (r + V_{h+1}(s')), needs the values of step h + 1, which need the response of step h + 1. So
`backward_induction` goes from the last step to the first, and asks for the response to the target
of each step when it knows the values of the next one. The same responses give the same plan.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide.planners.public_round import PublicRound
from confide.planners.regression import Shift, bonus, mean_eigenvalue, optimistic_values
from confide.policy import TIES, Policy, StochasticPolicy, TabularPolicy

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ResponseTarget:
    """sum over users of phi(s, a) (w r + y(s')) at a step, y in [-1, 1 - w]. Public.

    `values` is y [s'], or a function of the features of the next observation (`FeatureValues`).
    """

    step: int
    values: Any
    reward_weight: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedResponse:
    """What was released about a target, with the standard deviation of its noise. Public."""

    values: Array
    std: float


@dataclass(frozen=True, slots=True, eq=False)
class PrefixSums:
    """What prefix sums tell: Lambda [h, i, i] with noise of standard deviation `std` on its diagonal, and sum phi (r - 1/2) [h, i]
    with noise of `reward_std`. Public."""

    gram: Array
    rewards: Array
    std: float
    reward_std: float


class Rule(Protocol):
    """From the statistics of one step and the values of the next one to Q.

    Q and values are arrays where states are numbered, and functions of features otherwise.
    """

    @property
    def dimension(self) -> int:
        """Of the features."""

    @property
    def starts_uniform(self) -> bool:
        """Whether the users before the first release play at random."""

    def responses(self, horizon: int) -> int:
        """How many targets there are at most: of the steps 0, 1, ..."""

    def describe(self) -> tuple[str, str]:
        """(calibration, planning), in words."""

    def end_values(self) -> Any:
        """The values after the last step, which are zero."""

    def state_values(self, q: Any) -> Any:
        """The values that follow from the Q of a step."""

    def target(self, step: int, values: Any, horizon: int) -> ResponseTarget | None:
        """What to regress on at the step, given the values of the next one; None: there is nothing to learn from a response."""

    def q_values(
        self,
        step: int,
        values: Any,
        horizon: int,
        sums: PrefixSums,
        response: ReleasedResponse | None,
    ) -> Any:
        """Q of the step, optimistic."""

    def uniform_policy(self, horizon: int) -> Policy:
        """Every action with the same probability."""

    def greedy_policy(self, Q: list[Any], rng: np.random.Generator) -> Policy:
        """The best actions for the Q of all steps; where actions are equally good, at random."""


def backward_induction(
    rule: Rule,
    sums: PrefixSums,
    horizon: int,
    respond: Callable[[ResponseTarget], ReleasedResponse],
) -> list[Any]:
    """The Q of each step, made from the last step to the first; `respond` gives the released response to a target."""
    Q: list[Any] = []
    values = rule.end_values()
    for step in reversed(range(horizon)):
        target = rule.target(step, values, horizon)
        response = None if target is None else respond(target)
        Q.insert(0, rule.q_values(step, values, horizon, sums, response))
        values = rule.state_values(Q[0])
    return Q


class NumberedStates:
    """What both rules for numbered states share: Q [s, a] is an array, and so are values [s]."""

    __slots__ = ()

    features: Array

    @property
    def dimension(self) -> int:
        return int(self.features.shape[2])

    def end_values(self) -> Array:
        return np.zeros(len(self.features))

    def state_values(self, q: Array) -> Array:
        best: Array = q.max(axis=1)
        return best

    def uniform_policy(self, horizon: int) -> Policy:
        S, A, _ = self.features.shape
        return StochasticPolicy(np.full((horizon, S, A), 1 / A))

    def greedy_policy(self, Q: list[Any], rng: np.random.Generator) -> Policy:
        stacked = np.stack(Q)
        greedy = (stacked + TIES * rng.random(stacked.shape)).argmax(axis=2)
        return TabularPolicy(greedy, self.features.shape[1])


@dataclass(frozen=True, slots=True, eq=False)
class CentredRule(NumberedStates):
    """Targets are values between their smallest and their largest one, which are public; rewards are in the prefix sums.

    So a response's noise follows the range of V_{h+1}, not that of all possible values: (max V - min V)/2 in place of (H - h)/2.
    Eigenvalues are clipped at zero, the ridge is half the norm of the noise and at least 1, and entries of Lambda that no feature pair
    can touch keep no noise. The bonus is `bonus_scale` standard errors: sampling (targets vary by `target_std`) and noise.
    """

    features: Array = field(repr=False)
    bonus_scale: float = 0.2
    target_std: float = math.sqrt(0.1)
    _pattern: Array = field(init=False, repr=False)
    _ridge: float = field(init=False, repr=False)

    @property
    def starts_uniform(self) -> bool:
        return True

    def __post_init__(self) -> None:
        size = np.abs(self.features.reshape(-1, self.features.shape[2]))
        pattern = np.asarray(size.T @ size > 0, dtype=float)
        # entries in a row: the norm of the noise grows with its root
        widest = float(pattern.sum(axis=1).max())
        object.__setattr__(self, "_pattern", pattern)
        object.__setattr__(self, "_ridge", math.sqrt(widest / (2 * len(pattern))))

    def responses(self, horizon: int) -> int:
        """Targets of the last step are rewards, and they are in the prefix sums."""
        return horizon - 1

    def describe(self) -> tuple[str, str]:
        return (
            "tight",
            f"targets within their public range; bonus {self.bonus_scale:g} x the standard error",
        )

    def target(self, step: int, values: Array, horizon: int) -> ResponseTarget | None:
        middle, radius = _range(values)
        if step == horizon - 1 or radius == 0:
            return None
        return ResponseTarget(step, (values - middle) / radius)

    def q_values(
        self,
        step: int,
        values: Array,
        horizon: int,
        sums: PrefixSums,
        response: ReleasedResponse | None,
    ) -> Array:
        middle, radius = _range(values)
        u, noise = sums.rewards[step], sums.reward_std**2 + (sums.std * (0.5 + radius) / 2) ** 2
        if response is not None:
            u, noise = u + radius * response.values, noise + (radius * response.std) ** 2
        value, error = optimistic_values(
            sums.gram[step] * self._pattern,
            u,
            self.features,
            noise_std=sums.std,
            ridge=self._ridge,
            sampling=self.target_std**2,
            noise=noise,
        )
        Q = value + (0.5 + middle) + self.bonus_scale * error
        return np.clip(Q, 0.0, horizon - step)


@dataclass(frozen=True, slots=True, eq=False)
class PrintedRule(NumberedStates):
    """[Luyo21, Alg. 2]: targets r + V in [0, H + 1] as they are, Lambda + shift I, bonus beta ||phi||, Q clipped to [0, H]."""

    features: Array = field(repr=False)
    regularizer: Shift

    @property
    def starts_uniform(self) -> bool:
        """Alg. 2 starts with the Q of no data."""
        return False

    def responses(self, horizon: int) -> int:
        return horizon

    def describe(self) -> tuple[str, str]:
        shift, beta = self.regularizer.shift, self.regularizer.beta
        return "paper", f"Lambda + {shift:.3g} I; proved width beta = {beta:.3g}"

    def target(self, step: int, values: Array, horizon: int) -> ResponseTarget | None:
        return ResponseTarget(step, values / (horizon + 1), 1 / (horizon + 1))

    def q_values(
        self,
        step: int,
        values: Array,  # noqa: ARG002
        horizon: int,
        sums: PrefixSums,
        response: ReleasedResponse | None,
    ) -> Array:
        assert response is not None
        u = (horizon + 1) * response.values
        found = self.regularizer.estimate(sums.gram[step], u, noise_std=sums.std)
        optimism = bonus(
            self.features, found.precision, 1.0, self.regularizer.width(noise_std=sums.std)
        )
        return np.clip(self.features @ found.weights + optimism, 0.0, horizon)


def _range(values: Array) -> tuple[float, float]:
    """(middle, half of the range) of values that are public."""
    low, high = float(values.min()), float(values.max())
    return (low + high) / 2, (high - low) / 2


def growth(now: Array, before: Array, ridge: float) -> float:
    """max over steps of lambda_max(W^-1/2 V W^-1/2), W and V the positive parts of Lambda [h, i, i] before and now plus a ridge.

    Of noisy matrices determinants may fall where Lambda grows: the largest direction is what a stale estimate suffers from.
    """

    def repaired(matrices: Array) -> Array:
        eigenvalues, vectors = np.linalg.eigh(matrices)
        result: Array = (
            vectors * (np.maximum(eigenvalues, 0.0) + ridge)[..., None, :]
        ) @ vectors.swapaxes(-1, -2)
        return result

    root = np.linalg.inv(np.linalg.cholesky(repaired(before)))
    return float(np.linalg.eigvalsh(root @ repaired(now) @ root.swapaxes(-1, -2)).max())


def has_grown(now: PrefixSums, before: PrefixSums, factor: float) -> bool:
    """Whether Lambda grew by this factor, in units of the noise: growth below it is noise drawn anew."""
    norm = now.std * math.sqrt(2 * now.gram.shape[-1])
    return growth(now.gram, before.gram, ridge=1.0 + 2 * norm) > factor


def plan_round(rule: Rule, sums: PrefixSums, answers: Array, seed: npt.NDArray[Any]) -> PublicRound:
    """The greedy policy; where actions are equally good, at random.

    `answers` are the responses of the last change of policy, each with the standard deviation of its noise, and how often it was changed.
    """
    d, horizon, changes = rule.dimension, len(sums.gram), int(answers[-1])
    # nothing is known: everything is tried
    if changes == 0 and rule.starts_uniform:
        return PublicRound((rule.uniform_policy(horizon),), {"seed": seed})
    responses = answers[:-1].reshape(rule.responses(horizon), d + 1)

    def respond(target: ResponseTarget) -> ReleasedResponse:
        return ReleasedResponse(responses[target.step, :d], float(responses[target.step, d]))

    Q = backward_induction(rule, sums, horizon, respond)
    rng = np.random.default_rng([int(seed), changes])
    signal = mean_eigenvalue(sums.gram) if changes else None
    return PublicRound((rule.greedy_policy(Q, rng),), {"seed": seed}, signal)
