"""Linear MDPs: known features, unknown measures and reward weights [Luyo21, Section 4].

What leaves this file: the values of `LinearMDP.identity` are the saved file, and identify it.
"""

from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import COPIES, array, check_size
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.problems.finite import FiniteProblem
from confide.problems.tabular import TabularMDP, check_start
from confide.problems.transitions import read_only_copy

Array = npt.NDArray[np.float64]

# Norms may exceed 1 by so much rounding.
_ROUNDING = 1e-9
# Probabilities and rewards below this are rounding, and become zero.
_CANCELLED = 1e-15


@dataclass(frozen=True, slots=True, eq=False)
class LinearMDPPublic:
    """What an agent may know: features [s, a, i] of norm at most 1, the horizon, the start [s]."""

    family: ClassVar[str] = "linear MDP"

    features: Array = field(repr=False)
    horizon: int
    start: Array = field(repr=False)

    def identity(self) -> Identity:
        return Identity(
            "linear-mdp-public",
            1,
            features=self.features,
            horizon=self.horizon,
            start=self.start,
        )

    @property
    def dimension(self) -> int:
        return int(self.features.shape[2])

    @property
    def states(self) -> int:
        return int(self.features.shape[0])

    @property
    def actions(self) -> int:
        return int(self.features.shape[1])


@dataclass(frozen=True, eq=False)
class LinearMDP(FiniteProblem):
    """An MDP whose transitions and rewards are linear in known features.

    P_h(s' | s, a) = <features[s, a], measures[h, :, s']> and
    r_h(s, a) = <features[s, a], reward_weights[h]>.

    Shapes: features [s, a, i], measures [h, i, s'], reward_weights [h, i], start [s].
    """

    # In a saved file.
    kind: ClassVar[str] = "linear-mdp"

    features: Array = field(repr=False)
    measures: Array = field(repr=False)
    reward_weights: Array = field(repr=False)
    start: Array = field(repr=False)
    stochastic_rewards: bool = False
    name: str = "linear-mdp"

    def __post_init__(self) -> None:
        features = np.ascontiguousarray(array("features", self.features, finite=False))
        measures = array("measures", self.measures, finite=False)
        weights = array("reward_weights", self.reward_weights, finite=False)
        has_shapes = features.ndim == 3 and measures.ndim == 3
        if not has_shapes or measures.shape[1:] != (features.shape[2], features.shape[0]):
            raise InvalidParameter(
                "features must have shape (states, actions, dimension) and "
                f"measures (horizon, dimension, states), got {features.shape} and {measures.shape}"
            )
        if weights.shape != measures.shape[:2]:
            raise InvalidParameter.of(
                "reward_weights", f"must have shape {measures.shape[:2]}, got {weights.shape}"
            )
        norms = np.linalg.norm(features, axis=2)
        # A norm of infinity or NaN is not within the bound.
        is_wrong = ~(norms <= 1 + _ROUNDING)
        if is_wrong.any():
            s, a = np.argwhere(is_wrong)[0]
            raise InvalidParameter(f"features[s={s}, a={a}] must be finite and of norm at most 1")
        for name, values in (("measures", measures), ("reward_weights", weights)):
            if not np.isfinite(values).all():
                h, i, *_ = np.argwhere(~np.isfinite(values))[0]
                raise InvalidParameter(f"{name}[h={h}, i={i}] must be finite")
        object.__setattr__(self, "features", read_only_copy(features))
        object.__setattr__(self, "measures", read_only_copy(measures))
        object.__setattr__(self, "reward_weights", read_only_copy(weights))
        object.__setattr__(self, "start", check_start(self.start, len(features)))
        # Making the table checks that the products are probabilities and rewards.
        _ = self.truth

    def identity(self) -> Identity:
        """Everything that it is, by the names in its file."""
        return Identity(
            self.kind,
            1,
            features=self.features,
            measures=self.measures,
            reward_weights=self.reward_weights,
            start=self.start,
            stochastic_rewards=self.stochastic_rewards,
            name=self.name,
        )

    @cached_property
    def truth(self) -> TabularMDP:  # type: ignore[override]
        states, actions, _ = np.shape(self.features)
        check_size(
            copies=COPIES,
            horizon=len(self.measures),
            states=states,
            actions=actions,
            successors=states,
        )
        P = np.einsum("sai,hit->hsat", self.features, self.measures)
        r = np.einsum("sai,hi->hsa", self.features, self.reward_weights)
        # Terms that cancel leave rounding.
        P[np.abs(P) < _CANCELLED] = 0.0
        r[np.abs(r) < _CANCELLED] = 0.0
        return TabularMDP(
            P, r, self.start, stochastic_rewards=self.stochastic_rewards, name=self.name
        )

    @property
    def public(self) -> LinearMDPPublic:
        return LinearMDPPublic(self.features, len(self.measures), self.start)
