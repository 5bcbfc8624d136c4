"""Linear mixture MDPs of known kernels, with unknown weights on the simplex [Zhou22, Luyo21].

`feature_mixture.py` has those of any known features. What leaves this file: the values of
`LinearMixtureMDP.identity` are the saved file, and identify the problem.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import COPIES, array, check_size
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.problems.finite import FiniteProblem
from confide.problems.tabular import TabularMDP
from confide.problems.transitions import check_probabilities, normalize_rows, read_only_copy

Array = npt.NDArray[np.float64]

# Norms may exceed 1 by so much rounding.
_ROUNDING = 1e-9
# Rewards may differ from a linear function of their features by so much rounding.
_FIT = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class LinearMixturePublic:
    """What an agent may know of a linear mixture MDP.

    These are the kernels [i, s, a, s'], the horizon, the start [s], and the rewards [h, s, a] or,
    if rewards are to be learned, their features [s, a, j]. The other one of the two is None.
    """

    family: ClassVar[str] = "mixture"

    kernels: Array = field(repr=False)
    horizon: int
    rewards: Array | None = field(repr=False)
    reward_features: Array | None = field(repr=False)
    start: Array = field(repr=False)

    def identity(self) -> Identity:
        return Identity(
            "linear-mixture-public",
            1,
            kernels=self.kernels,
            horizon=self.horizon,
            rewards=self.rewards,
            reward_features=self.reward_features,
            start=self.start,
        )

    @property
    def dimension(self) -> int:
        return len(self.kernels)

    @property
    def weight_bound(self) -> float:
        """C_w, the largest norm of weights on the simplex."""
        return 1.0

    @property
    def value_bound(self) -> float:
        """The largest norm of phi_v = (P_i v)_i for v with values in [0, 1]."""
        return math.sqrt(self.dimension)

    @property
    def nonnegative(self) -> bool:
        """Whether phi_V has no negative entry, for every V without one."""
        return True

    @property
    def states(self) -> int:
        return int(self.kernels.shape[1])

    @property
    def actions(self) -> int:
        return int(self.kernels.shape[2])


@dataclass(frozen=True, eq=False)
class LinearMixtureMDP(FiniteProblem):
    """P_h(s' | s, a) = sum_i weights[h, i] kernels[i, s, a, s'], with weights on the simplex.

    Rewards are [h, s, a], and start is [s]. Without `reward_features` the mean rewards are known
    and deterministic. With reward_features [s, a, j] of norm at most 1 the rewards are unknown and
    stochastic: 1 with probability rewards[h, s, a], which must lie in the span of the features.
    """

    # In a saved file.
    kind: ClassVar[str] = "linear-mixture"

    kernels: Array = field(repr=False)
    weights: Array = field(repr=False)
    rewards: Array = field(repr=False)
    start: Array = field(repr=False)
    reward_features: Array | None = field(default=None, repr=False)
    name: str = "linear-mixture"

    def __post_init__(self) -> None:
        kernels = np.ascontiguousarray(array("kernels", self.kernels, finite=False))
        weights = array("weights", self.weights, finite=False)
        if kernels.ndim != 4 or kernels.shape[1] != kernels.shape[3]:
            raise InvalidParameter.of(
                "kernels",
                f"must have shape (dimension, states, actions, states), got {kernels.shape}",
            )
        if weights.ndim != 2 or weights.shape[1] != len(kernels):
            raise InvalidParameter.of(
                "weights", f"must have shape (horizon, {len(kernels)}), got {weights.shape}"
            )
        check_probabilities(kernels, "kernels", "isa")
        check_probabilities(weights, "weights", "h")
        object.__setattr__(self, "kernels", read_only_copy(kernels))
        object.__setattr__(self, "weights", read_only_copy(normalize_rows(weights)))
        # The table checks rewards and start.
        object.__setattr__(self, "rewards", self.truth.rewards)
        object.__setattr__(self, "start", self.truth.start)
        if self.reward_features is not None:
            reward_features = check_reward_features(self.reward_features, self.rewards)
            object.__setattr__(self, "reward_features", read_only_copy(reward_features))

    def identity(self) -> Identity:
        """Everything that it is, by the names in its file."""
        return Identity(
            self.kind,
            1,
            kernels=self.kernels,
            weights=self.weights,
            rewards=self.rewards,
            start=self.start,
            reward_features=self.reward_features,
            name=self.name,
        )

    @cached_property
    def truth(self) -> TabularMDP:  # type: ignore[override]
        _, states, actions, _ = np.shape(self.kernels)
        check_size(
            copies=COPIES,
            horizon=len(self.weights),
            states=states,
            actions=actions,
            successors=states,
        )
        P = np.einsum("hi,isat->hsat", self.weights, self.kernels)
        return TabularMDP(
            P,
            self.rewards,
            self.start,
            horizon=len(P),
            stochastic_rewards=self.reward_features is not None,
            name=self.name,
        )

    @property
    def public(self) -> LinearMixturePublic:
        public_rewards = self.rewards if self.reward_features is None else None
        return LinearMixturePublic(
            self.kernels, len(self.weights), public_rewards, self.reward_features, self.start
        )


def check_reward_features(features: npt.ArrayLike, rewards: Array) -> Array:
    """Features [s, a, j] of norm at most one, in which the rewards [h, s, a] are linear."""
    phi = array("reward_features", features, finite=False)
    if phi.ndim != 3 or phi.shape[:2] != rewards.shape[1:]:
        raise InvalidParameter.of(
            "reward_features",
            f"must have shape {(*rewards.shape[1:], 'dimension')}, got {phi.shape}",
        )
    norms = np.linalg.norm(phi, axis=2)
    # A norm of infinity or NaN is not within the bound.
    is_wrong = ~(norms <= 1 + _ROUNDING)
    if is_wrong.any():
        s, a = np.argwhere(is_wrong)[0]
        raise InvalidParameter(
            f"reward_features[s={s}, a={a}] must be finite and of norm at most 1"
        )
    rows = phi.reshape(-1, phi.shape[2])  # [(s, a), j]
    targets = rewards.reshape(len(rewards), -1).T  # [(s, a), h]
    fitted = rows @ np.linalg.lstsq(rows, targets, rcond=None)[0]
    residual = np.abs(targets - fitted).max(axis=0)
    is_not_linear = residual > _FIT
    if is_not_linear.any():
        raise InvalidParameter(
            f"rewards[h={np.argmax(is_not_linear)}] is not linear in reward_features"
        )
    return phi
