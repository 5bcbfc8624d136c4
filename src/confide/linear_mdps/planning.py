"""Least-squares value iteration [Luyo21, Alg. 2] backward in time, from released statistics.

PUBLIC: everything here is post-processing of prefix sums and of responses. The targets that a rule
asks about are public, too, so they may be anything: the stored rows clip what they are given.

The response of step h, sum phi(s, a) (r + V_{h+1}(s')), needs the values of step h + 1, which need
the response of step h + 1. So `backward_induction` goes from the last step to the first, and asks
for the response to the target of each step when it knows the values of the next one. The same
responses give the same plan, which is how a plan is made again from a release.

Two rules turn a response into Q: that of the tight form, and the paper's. This file has them for
numbered states, and `function_planning` has them for features of observations.
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
# The bonus of the tight form, in standard errors of the value of (s, a). This number and the next
# one were chosen for a small regret on `latent` and `one-hot` (docs/agents/linear_mdps.md).
BONUS_STANDARD_ERRORS = 0.2
# The standard deviation of a target around its mean, as the tight form takes it.
TARGET_STD = math.sqrt(0.1)
# Rewards are in [0, 1], so they are at most so far from their centre.
REWARD_RADIUS = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class ResponseTarget:
    """What a response is asked for: sum over users of phi(s, a) (w r + y(s')) at a step. Public.

    w is `reward_weight`, and y is in [-1, 1 - w]. `values` is y [s'], or a function of the features
    of the next observation (`FeatureTarget`).
    """

    step: int
    values: Any
    reward_weight: float = 0.0


@dataclass(frozen=True, slots=True, eq=False)
class ReleasedResponse:
    """What was released about a target: values [i], with the standard deviation of their noise."""

    values: Array
    noise_std: float


@dataclass(frozen=True, slots=True, eq=False)
class PrefixSums:
    """The released prefix sums. Public.

    Shapes: gram [h, i, i] is Lambda, with noise of the standard deviation `noise_std` on its
    diagonal; rewards [h, i] are sum phi (r - 1/2), with noise of `reward_noise_std`.
    """

    gram: Array
    rewards: Array
    noise_std: float
    reward_noise_std: float


class Rule(Protocol):
    """From the statistics of one step and the values of the next one to Q.

    Q and values are arrays where states are numbered, and functions of features otherwise.
    """

    @property
    def dimension(self) -> int:
        """How many features there are."""

    @property
    def starts_uniform(self) -> bool:
        """Whether the users before the first release play at random."""

    def responses(self, horizon: int) -> int:
        """How many responses a plan needs at most: those of the steps 0, 1, ..."""

    def describe(self) -> tuple[str, str]:
        """(calibration, planning), in words."""

    def end_values(self) -> Any:
        """The values after the last step, which are zero."""

    def state_values(self, q: Any) -> Any:
        """The values that follow from the Q of a step: those of the best actions."""

    def target(self, step: int, values: Any, horizon: int) -> ResponseTarget | None:
        """What to regress on at the step, given the values of the next one.

        It is None if there is nothing to learn from a response.
        """

    def q_values(
        self,
        step: int,
        values: Any,
        horizon: int,
        sums: PrefixSums,
        response: ReleasedResponse | None,
    ) -> Any:
        """The optimistic Q of the step, given the values of the next one."""

    def uniform_policy(self, horizon: int) -> Policy:
        """The policy that plays every action with the same probability."""

    def greedy_policy(self, Q: list[Any], rng: np.random.Generator) -> Policy:
        """The best actions for the Q of all steps; where actions are equally good, at random."""


def backward_induction(
    rule: Rule,
    sums: PrefixSums,
    horizon: int,
    respond: Callable[[ResponseTarget], ReleasedResponse],
) -> list[Any]:
    """The Q of each step, made from the last step to the first.

    `respond` gives the released response to a target.
    """
    Q: list[Any] = []
    values = rule.end_values()
    for step in reversed(range(horizon)):
        target = rule.target(step, values, horizon)
        response = None if target is None else respond(target)
        Q.insert(0, rule.q_values(step, values, horizon, sums, response))
        values = rule.state_values(Q[0])
    return Q


# What the rules for numbered states and for functions of features share.


def middle_and_radius(low: float, high: float) -> tuple[float, float]:
    """The middle of a public range, and half of its length."""
    return (low + high) / 2, (high - low) / 2


def centred_responses(
    sums: PrefixSums, step: int, radius: float, response: ReleasedResponse | None
) -> tuple[Array, float]:
    """What the tight form regresses on at a step: u [i], and the variance of the noise in it.

    u = sum phi (r - 1/2) + radius sum phi y, where the response is sum phi y. Its second sum is
    missing if there is no response. The noise of Lambda counts for targets of a typical size, half
    of the largest one.
    """
    typical_target = (REWARD_RADIUS + radius) / 2
    u = sums.rewards[step]
    noise = sums.reward_noise_std**2 + (sums.noise_std * typical_target) ** 2
    if response is not None:
        u = u + radius * response.values
        noise = noise + (radius * response.noise_std) ** 2
    return u, noise


def describe_tight(bonus_scale: float) -> tuple[str, str]:
    """(calibration, planning) of the tight form, in words."""
    return "tight", f"targets within their public range; bonus {bonus_scale:g} x the standard error"


def describe_paper(regularizer: Shift) -> tuple[str, str]:
    """(calibration, planning) of the paper's calibration, in words."""
    planning = f"Lambda + {regularizer.shift:.3g} I; proved width beta = {regularizer.beta:.3g}"
    return "paper", planning


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
    """The tight form: targets are values centred on their range, which is public.

    So a response's noise follows the range of V_{h+1}, and not that of all possible values:
    (max V - min V)/2 in place of (H - h)/2. Rewards are in the prefix sums. Eigenvalues are clipped
    at zero, and the ridge is half the norm of the noise and at least 1. Entries of Lambda that no
    pair of features can touch keep no noise. The bonus is `bonus_scale` standard errors: those of
    sampling, with targets that vary by `target_std`, and of the noise.

    Shapes: features [s, a, i].
    """

    features: Array = field(repr=False)
    bonus_scale: float = BONUS_STANDARD_ERRORS
    target_std: float = TARGET_STD
    _pattern: Array = field(init=False, repr=False)
    _ridge: float = field(init=False, repr=False)

    @property
    def starts_uniform(self) -> bool:
        return True

    def __post_init__(self) -> None:
        size = np.abs(self.features.reshape(-1, self.features.shape[2]))
        # 1 where some feature pair touches an entry of Lambda, and 0 elsewhere.
        pattern = np.asarray(size.T @ size > 0, dtype=float)
        # The norm of the noise grows with the square root of the entries in a row.
        widest_row = float(pattern.sum(axis=1).max())
        object.__setattr__(self, "_pattern", pattern)
        object.__setattr__(self, "_ridge", math.sqrt(widest_row / (2 * len(pattern))))

    def responses(self, horizon: int) -> int:
        """The targets of the last step are rewards, and they are in the prefix sums."""
        return horizon - 1

    def describe(self) -> tuple[str, str]:
        return describe_tight(self.bonus_scale)

    def target(self, step: int, values: Array, horizon: int) -> ResponseTarget | None:
        middle, radius = middle_and_radius(float(values.min()), float(values.max()))
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
        middle, radius = middle_and_radius(float(values.min()), float(values.max()))
        u, noise = centred_responses(sums, step, radius, response)
        value, standard_error = optimistic_values(
            sums.gram[step] * self._pattern,
            u,
            self.features,
            noise_std=sums.noise_std,
            ridge=self._ridge,
            sampling=self.target_std**2,
            noise=noise,
        )
        Q = value + (REWARD_RADIUS + middle) + self.bonus_scale * standard_error
        return np.clip(Q, 0.0, horizon - step)


@dataclass(frozen=True, slots=True, eq=False)
class PrintedRule(NumberedStates):
    """The paper's calibration [Luyo21, Alg. 2].

    Targets r + V are in [0, H + 1] as they are. Lambda is shifted by `regularizer.shift` times I,
    the bonus is beta ||phi|| in the norm of the inverse of Lambda, and Q is clipped to [0, H].

    Shapes: features [s, a, i].
    """

    features: Array = field(repr=False)
    regularizer: Shift

    @property
    def starts_uniform(self) -> bool:
        """Alg. 2 starts with the Q of no data."""
        return False

    def responses(self, horizon: int) -> int:
        return horizon

    def describe(self) -> tuple[str, str]:
        return describe_paper(self.regularizer)

    def target(self, step: int, values: Array, horizon: int) -> ResponseTarget | None:
        # A response is (r + V) / (H + 1), which is in [0, 1].
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
        estimate = self.regularizer.estimate(sums.gram[step], u, noise_std=sums.noise_std)
        width = self.regularizer.width(noise_std=sums.noise_std)
        optimism = bonus(self.features, estimate.precision, 1.0, width)
        return np.clip(self.features @ estimate.weights + optimism, 0.0, horizon)


def growth(now: Array, before: Array, ridge: float) -> float:
    """By how much Lambda [h, i, i] grew in the direction in which it grew most.

    It is max over steps of lambda_max(W^-1/2 V W^-1/2), where W and V are the positive parts of
    Lambda before and now plus a ridge. The determinant of a noisy matrix may fall where Lambda
    grows, and the largest direction is what a stale estimate suffers from.
    """
    root = np.linalg.inv(np.linalg.cholesky(_positive_part(before, ridge)))
    ratio = root @ _positive_part(now, ridge) @ root.swapaxes(-1, -2)
    return float(np.linalg.eigvalsh(ratio).max())


def _positive_part(matrices: Array, ridge: float) -> Array:
    """Symmetric matrices [h, i, i] with eigenvalues clipped at zero, plus `ridge` times I."""
    eigenvalues, vectors = np.linalg.eigh(matrices)
    positive = (np.maximum(eigenvalues, 0.0) + ridge)[..., None, :]
    part: Array = (vectors * positive) @ vectors.swapaxes(-1, -2)
    return part


def has_grown(now: PrefixSums, before: PrefixSums, factor: float) -> bool:
    """Whether Lambda grew by this factor, beyond what noise that is drawn anew looks like."""
    noise_norm = now.noise_std * math.sqrt(2 * now.gram.shape[-1])
    return growth(now.gram, before.gram, ridge=1.0 + 2 * noise_norm) > factor


def plan_round(rule: Rule, sums: PrefixSums, answers: Array, seed: npt.NDArray[Any]) -> PublicRound:
    """The greedy policy for what was released; where actions are equally good, at random.

    `answers` are the responses of the last change of policy, each followed by the standard
    deviation of its noise, and at the end how often the policy was changed.
    """
    d = rule.dimension
    horizon = len(sums.gram)
    changes = int(answers[-1])
    if changes == 0 and rule.starts_uniform:
        # Nothing was released yet, so everything is tried.
        return PublicRound((rule.uniform_policy(horizon),), {"seed": seed})
    responses = answers[:-1].reshape(rule.responses(horizon), d + 1)

    def respond(target: ResponseTarget) -> ReleasedResponse:
        of_step = responses[target.step]
        return ReleasedResponse(of_step[:d], float(of_step[d]))

    Q = backward_induction(rule, sums, horizon, respond)
    rng = np.random.default_rng([int(seed), changes])
    signal = mean_eigenvalue(sums.gram) if changes else None
    return PublicRound((rule.greedy_policy(Q, rng),), {"seed": seed}, signal)
