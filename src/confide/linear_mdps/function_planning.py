"""The rules of LSVI-UCB for features of observations [Luyo21, Alg. 2].

PUBLIC: everything here is post-processing of releases. States are not numbered, so no table of
values exists: Q and V are functions of features. A rule returns the parameters of Q
(`FeatureValues`), and a `FeaturePolicy` plays it. Both are public and leave with a round.
"""

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.linear_mdps.planning import (
    BONUS_STANDARD_ERRORS,
    REWARD_RADIUS,
    TARGET_STD,
    PrefixSums,
    ReleasedResponse,
    ResponseTarget,
    centred_responses,
    describe_paper,
    describe_tight,
    middle_and_radius,
)
from confide.linear_mdps.value_features import FeatureTarget, FeatureValues, zero_values
from confide.planners.regression import Shift, least_squares
from confide.policy import FeaturePolicy, Features, Policy, RandomPolicy

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class ObservedFeatures:
    """What is public about the features: their sizes, and the function that policies call."""

    actions: int
    dimension: int
    feature_norm: float
    terminal_reward: float
    function: Features = field(repr=False)
    name: str = ""

    def policy(self, Q: list[FeatureValues]) -> FeaturePolicy:
        """The best actions under the Q of each step."""
        return FeaturePolicy(
            np.stack([q.weights for q in Q]),
            np.stack([q.widths for q in Q]),
            np.array([q.offset for q in Q]),
            np.array([q.top for q in Q]),
            choices=self.actions,
            feature_norm=self.feature_norm,
            features=self.function,
            features_name=self.name,
        )

    def end_value(self, step: int, horizon: int) -> float:
        """What an episode that ended before this step earns from here on."""
        return (horizon - step) * self.terminal_reward


class FunctionsOfFeatures:
    """What both rules for functions of features share."""

    __slots__ = ()

    observed: ObservedFeatures

    @property
    def dimension(self) -> int:
        return self.observed.dimension

    def end_values(self) -> FeatureValues:
        return zero_values(self.dimension)

    def state_values(self, q: FeatureValues) -> FeatureValues:
        """The parameters of Q are those of V, its largest value over actions."""
        return q

    def uniform_policy(self, horizon: int) -> Policy:  # noqa: ARG002 - the same at all steps
        return RandomPolicy(self.observed.actions)

    def greedy_policy(self, Q: list[Any], rng: np.random.Generator) -> Policy:  # noqa: ARG002
        """Where actions are equally good, the policy draws one whenever it acts."""
        return self.observed.policy(Q)


@dataclass(frozen=True, slots=True, eq=False)
class CentredFunctionRule(FunctionsOfFeatures):
    """The tight form, as in `CentredRule`, for functions of features.

    The public range of values is that over all features of norm at most one, and of an ended
    episode. All entries of Lambda keep their noise, because nobody says which pairs of features
    are never active together.
    """

    observed: ObservedFeatures
    bonus_scale: float = BONUS_STANDARD_ERRORS
    target_std: float = TARGET_STD

    @property
    def starts_uniform(self) -> bool:
        return True

    def responses(self, horizon: int) -> int:
        """The targets of the last step are rewards, and they are in the prefix sums."""
        return horizon - 1

    def describe(self) -> tuple[str, str]:
        return describe_tight(self.bonus_scale)

    def target(self, step: int, values: FeatureValues, horizon: int) -> ResponseTarget | None:
        middle, radius = middle_and_radius(*values.range())
        if step == horizon - 1 or radius == 0:
            return None
        return ResponseTarget(step, FeatureTarget(values, middle, radius))

    def q_values(
        self,
        step: int,
        values: FeatureValues,
        horizon: int,
        sums: PrefixSums,
        response: ReleasedResponse | None,
    ) -> FeatureValues:
        middle, radius = middle_and_radius(*values.range())
        u, noise = centred_responses(sums, step, radius, response)
        estimate = least_squares(
            sums.gram[step], u, noise_std=sums.noise_std, ridge=math.sqrt(0.5), floor=1.0
        )
        return FeatureValues(
            weights=estimate.weights,
            widths=self.bonus_scale * bonus_widths(estimate.precision, self.target_std**2, noise),
            offset=REWARD_RADIUS + middle,
            top=float(horizon - step),
            ended=self.observed.end_value(step, horizon),
        )


@dataclass(frozen=True, slots=True, eq=False)
class PrintedFunctionRule(FunctionsOfFeatures):
    """The paper's calibration, as in `PrintedRule`, for functions of features.

    Q = clip(<w, phi> + beta ||phi||, 0, H), with ||phi|| in the norm of the inverse of Lambda
    [Luyo21, Alg. 2].
    """

    observed: ObservedFeatures
    regularizer: Shift

    @property
    def starts_uniform(self) -> bool:
        """Alg. 2 starts with the Q of no data."""
        return False

    def responses(self, horizon: int) -> int:
        return horizon

    def describe(self) -> tuple[str, str]:
        return describe_paper(self.regularizer)

    def target(self, step: int, values: FeatureValues, horizon: int) -> ResponseTarget | None:
        # After the last step there are no values. A response is (r + V) / (H + 1), in [0, 1].
        next_values = None if step == horizon - 1 else values
        scaled_values = FeatureTarget(next_values, 0.0, horizon + 1.0)
        return ResponseTarget(step, scaled_values, 1 / (horizon + 1))

    def q_values(
        self,
        step: int,
        values: FeatureValues,  # noqa: ARG002
        horizon: int,
        sums: PrefixSums,
        response: ReleasedResponse | None,
    ) -> FeatureValues:
        assert response is not None
        u = (horizon + 1) * response.values
        estimate = self.regularizer.estimate(sums.gram[step], u, noise_std=sums.noise_std)
        return FeatureValues(
            weights=estimate.weights,
            widths=bonus_widths(estimate.precision, self.regularizer.beta**2, 0.0),
            offset=0.0,
            top=float(horizon),
            ended=self.observed.end_value(step, horizon),
        )


def bonus_widths(precision: Array, sampling: float, noise: float) -> Array:
    """W [i, i] with ||W x||^2 = sampling x^T P^-1 x + noise ||P^-1 x||^2 for a precision P.

    This is the squared bonus of `regression.Width`.
    """
    eigenvalues, vectors = np.linalg.eigh(precision)
    scale = np.sqrt(sampling / eigenvalues + noise / eigenvalues**2)
    widths: Array = scale[:, None] * vectors.T
    return widths
