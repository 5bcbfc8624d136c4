"""Linear MDPs: known features, unknown measures and reward weights [Luyo21, Section 4]."""

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


@dataclass(frozen=True, slots=True, eq=False)
class LinearMDPPublic:
    """What an agent may know: features [s, a, i] of norm at most 1, the horizon, where episodes start."""

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
    """P_h(s' | s, a) = <features[s, a], measures[h, :, s']> and r_h(s, a) = <features[s, a], reward_weights[h]>."""

    kind: ClassVar[str] = "linear-mdp"  # in a saved file

    features: Array = field(repr=False)
    measures: Array = field(repr=False)
    reward_weights: Array = field(repr=False)
    start: Array = field(repr=False)
    stochastic_rewards: bool = False
    name: str = "linear-mdp"

    def __post_init__(self) -> None:
        phi = np.ascontiguousarray(array("features", self.features, finite=False))
        mu, theta = (
            array(name, getattr(self, name), finite=False)
            for name in ("measures", "reward_weights")
        )
        if phi.ndim != 3 or mu.ndim != 3 or mu.shape[1:] != (phi.shape[2], phi.shape[0]):
            shapes = "features must have shape (states, actions, dimension) and measures (horizon, dimension, states)"
            raise InvalidParameter(f"{shapes}, got {phi.shape} and {mu.shape}")
        if theta.shape != mu.shape[:2]:
            raise InvalidParameter.of(
                "reward_weights", f"must have shape {mu.shape[:2]}, got {theta.shape}"
            )
        norms = np.linalg.norm(phi, axis=2)
        if not (np.isfinite(phi).all() and (norms <= 1 + 1e-9).all()):
            s, a = np.argwhere(~(norms <= 1 + 1e-9))[0]
            raise InvalidParameter(f"features[s={s}, a={a}] must be finite and of norm at most 1")
        for name, found, axes in (
            ("measures", mu, ("h", "i")),
            ("reward_weights", theta, ("h", "i")),
        ):
            if not np.isfinite(found).all():
                where = ", ".join(
                    f"{axis}={i}"
                    for axis, i in zip(axes, np.argwhere(~np.isfinite(found))[0], strict=False)
                )
                raise InvalidParameter(f"{name}[{where}] must be finite")
        for key, value in (("features", phi), ("measures", mu), ("reward_weights", theta)):
            object.__setattr__(self, key, read_only_copy(value))
        object.__setattr__(self, "start", check_start(self.start, len(phi)))
        _ = self.truth  # checks that the products are probabilities and rewards

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
        P[np.abs(P) < 1e-15] = r[np.abs(r) < 1e-15] = 0.0  # what cancels leaves rounding
        return TabularMDP(
            P, r, self.start, stochastic_rewards=self.stochastic_rewards, name=self.name
        )

    @property
    def public(self) -> LinearMDPPublic:
        return LinearMDPPublic(self.features, len(self.measures), self.start)
