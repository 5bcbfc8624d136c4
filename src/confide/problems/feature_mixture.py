"""Linear mixture MDPs of any known features [Luyo21, Assumption 2; Zhou22, Assumption 1].

What leaves this file: the values of `FeatureMixtureMDP.identity` are the saved file, and identify
the problem.
"""

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from confide.arguments import COPIES, array, check_size, kind, real, text
from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.problems.finite import FiniteProblem
from confide.problems.linear_mixture import LinearMixturePublic, check_reward_features
from confide.problems.successor_features import ROUNDING, SuccessorFeatures
from confide.problems.tabular import TabularMDP
from confide.problems.transitions import Transitions, read_only_copy, sparse_rows

Array = npt.NDArray[np.float64]

# A probability below zero by less than this is a rounding error of psi.w, and becomes zero.
_ROUNDED_ZERO = 1e-12


@dataclass(frozen=True, slots=True, eq=False)
class FeatureMixturePublic:
    """What an agent may know of a mixture of features.

    These are the features, the horizon, the start [s], bounds on the weights and on phi_v, and the
    rewards [h, s, a] or, if rewards are to be learned, their features [s, a, j]. The other one of
    the two is None.
    """

    family: ClassVar[str] = "mixture"

    features: SuccessorFeatures
    horizon: int
    rewards: Array | None = field(repr=False)
    reward_features: Array | None = field(repr=False)
    start: Array = field(repr=False)
    weight_bound: float
    value_bound: float

    def identity(self) -> Identity:
        return Identity(
            "feature-mixture-public",
            1,
            features=self.features,
            horizon=self.horizon,
            rewards=self.rewards,
            reward_features=self.reward_features,
            start=self.start,
            weight_bound=self.weight_bound,
            value_bound=self.value_bound,
        )

    @property
    def dimension(self) -> int:
        return self.features.dimension

    @property
    def nonnegative(self) -> bool:
        """Whether phi_V has no negative entry, for every V without one."""
        return self.features.nonnegative

    @property
    def states(self) -> int:
        return self.features.states

    @property
    def actions(self) -> int:
        return self.features.actions


MixturePublic = LinearMixturePublic | FeatureMixturePublic


@dataclass(frozen=True, eq=False)
class FeatureMixtureMDP(FiniteProblem):
    """P_h(s' | s, a) = psi(s' | s, a).weights[h], with known features psi of any sign.

    The weights [h, i] are unknown and have a norm of at most `weight_bound`, which is C_w in
    [Luyo21] and sqrt(d) in [Zhou22]. `value_bound` bounds the norm of
    phi_v(s, a) = sum_s' psi(s' | s, a) v(s') for all v with values in [0, 1]. Agents clip to it, so
    privacy does not depend on it. By default it is computed from the features (`largest_norm`).

    The papers state both bounds for one scale of the features: [Luyo21] for value_bound = 1,
    [Zhou22] for value_bound <= sqrt(d). Multiplying the weights and dividing the features by one
    number changes nothing else.

    Rewards are [h, s, a] or [s, a]. As in `LinearMixtureMDP`, they are known unless there are
    `reward_features`.

    Agents know the value of every state, so states are numbered, and continuous states are out of
    scope: see docs/agents/mixtures.md.
    """

    # In a saved file.
    kind: ClassVar[str] = "feature-mixture"

    features: SuccessorFeatures
    weights: Array = field(repr=False)
    rewards: Array = field(repr=False)
    start: Array = field(repr=False)
    weight_bound: float
    value_bound: float | None = None
    reward_features: Array | None = field(default=None, repr=False)
    name: str = "feature-mixture"

    def __post_init__(self) -> None:
        features: SuccessorFeatures = kind("features", self.features, SuccessorFeatures)
        weights = array("weights", self.weights)
        if weights.ndim != 2 or weights.shape[1] != features.dimension or len(weights) < 1:
            raise InvalidParameter.of(
                "weights", f"must have shape (horizon, {features.dimension}), got {weights.shape}"
            )
        weight_bound = real("weight_bound", self.weight_bound, above=0)
        norm = float(np.linalg.norm(weights, axis=1).max())
        if norm > weight_bound * (1 + ROUNDING):
            raise InvalidParameter.of(
                "weight_bound",
                f"must be at least the largest norm of the weights, {norm:.6g}",
                got=f"{weight_bound:g}",
            )
        if self.value_bound is None:
            value_bound = features.largest_norm()
        else:
            value_bound = real("value_bound", self.value_bound, above=0)
            features.check_norm(value_bound)
        if not value_bound > 0:
            raise InvalidParameter("features must not all be zero")
        checked = {
            "weights": read_only_copy(weights),
            "weight_bound": weight_bound,
            "value_bound": value_bound,
            "name": text("name", self.name),
        }
        for key, value in checked.items():
            object.__setattr__(self, key, value)
        # The table checks probabilities, rewards and start.
        object.__setattr__(self, "rewards", self.truth.rewards)
        object.__setattr__(self, "start", self.truth.start)
        if self.reward_features is not None:
            reward_features = check_reward_features(self.reward_features, self.rewards)
            object.__setattr__(self, "reward_features", read_only_copy(reward_features))

    @classmethod
    def from_table(cls, table: TabularMDP) -> "FeatureMixtureMDP":
        """A tabular MDP, with one feature for each transition (s, a, s').

        It is 1/sqrt(S) for its own transition and zero for all others. So d = S^2 A, phi_v has a
        norm of at most one, and the weights sqrt(S) P have a norm of at most S sqrt(A) = sqrt(d).
        Both bounds are known without knowing P. Rewards stay known, or are learned from one feature
        for each pair.
        """
        P = kind("table", table, TabularMDP).transitions
        S = P.states
        A = P.actions
        check_size(copies=COPIES, states=S, actions=A, successors=S, dimension=S * A * S)
        root = math.sqrt(S)
        rows = S * A
        features = SuccessorFeatures(
            S,
            A,
            S * np.arange(rows + 1),
            np.tile(np.arange(S), rows),
            np.eye(rows * S) / root,
        )
        if table.outcome_rewards is not None:
            raise InvalidParameter("table must not have outcome_rewards: a mixture draws 0 or 1")
        reward_features = np.eye(rows).reshape(S, A, rows) if table.stochastic_rewards else None
        horizon = len(table.rewards)
        weights = np.broadcast_to(root * P.dense().reshape(P.layers, -1), (horizon, rows * S))
        return cls(
            features,
            weights,
            table.rewards,
            table.start,
            weight_bound=root * math.sqrt(rows),
            value_bound=1.0,
            reward_features=reward_features,
            name=table.name,
        )

    def identity(self) -> Identity:
        """Everything that it is, by the names in its file."""
        return Identity(
            self.kind,
            1,
            states=self.features.states,
            actions=self.features.actions,
            indptr=self.features.indptr,
            successors=self.features.successors,
            features=self.features.features,
            weights=self.weights,
            rewards=self.rewards,
            start=self.start,
            weight_bound=self.weight_bound,
            value_bound=self.value_bound,
            reward_features=self.reward_features,
            name=self.name,
        )

    @classmethod
    def from_arrays(cls, **values: Any) -> "FeatureMixtureMDP":
        """From the values of its identity, as a file has them."""
        of_features = ("states", "actions", "indptr", "successors", "features")
        features = SuccessorFeatures(**{name: values.pop(name) for name in of_features})
        return cls(features, **values)

    @cached_property
    def truth(self) -> TabularMDP:  # type: ignore[override]
        rewards_need_horizon = np.ndim(self.rewards) == 2
        return TabularMDP(
            _transitions(self.features, self.weights),
            self.rewards,
            self.start,
            horizon=len(self.weights) if rewards_need_horizon else None,
            stochastic_rewards=self.reward_features is not None,
            name=self.name,
        )

    @property
    def public(self) -> FeatureMixturePublic:
        public_rewards = self.rewards if self.reward_features is None else None
        assert self.value_bound is not None
        return FeatureMixturePublic(
            self.features,
            len(self.weights),
            public_rewards,
            self.reward_features,
            self.start,
            self.weight_bound,
            self.value_bound,
        )


def _transitions(features: SuccessorFeatures, weights: Array) -> Transitions:
    """The probabilities psi.w of each step; one layer if all steps have the same weights."""
    layers = weights[:1] if (weights == weights[0]).all() else weights
    probabilities = (features.features @ layers.T).T.ravel()
    probabilities[(probabilities < 0) & (probabilities > -_ROUNDED_ZERO)] = 0.0
    entries = len(features.successors)
    # Where the entries of each layer begin.
    first_entries = entries * np.arange(len(layers))[:, None]
    return sparse_rows(
        features.states,
        features.actions,
        np.append((first_entries + features.indptr[:-1]).ravel(), entries * len(layers)),
        np.tile(features.successors, len(layers)),
        probabilities,
        layers=len(layers),
    )
