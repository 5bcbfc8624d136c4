"""Adaptive control with changing regularizers, the general procedure of [Chowdhury21, Sec. III-A].

Public.

In episode k it solves with V_k = Z^T Z + H_k and U_k = Z^T X + L_k, where the regularizers H_k and
L_k may be anything (noise included) whose size Assumption 2 bounds. Lemma 1 turns the bounds into
the width of a confidence set. A release already has the noise of the privatizer in it, and a
regularizer decides what is added to that.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
import numpy.typing as npt

from confide.arguments import has
from confide.errors import InvalidParameter
from confide.planners.regularity import Regularity

if TYPE_CHECKING:
    from confide.problems.lq import LQPublic

Array = npt.NDArray[np.float64]


class ControlRegularizer(Protocol):
    """What is done to the released sums before the regression is solved.

    A class of your own needs these two methods.
    """

    def regularize(
        self, S: Array, C: Array, *, noise_std: float, episode: int
    ) -> tuple[Array, Array, Regularity]:
        """V_k, U_k and the bounds of Assumption 2, from the released S [p, p] and C [p, n].

        S is Z^T Z plus noise, C is Z^T X plus noise, with z = (x, u). The noise on the diagonal of
        S has the standard deviation `noise_std`. `episode` is the number of the next user, from 1
        on. The bounds hold for H_k = V_k - Z^T Z and L_k = U_k - Z^T X, so the noise counts.
        """

    def describe(self) -> str:
        """For confide.explain."""


MakeControlRegularizer = Callable[["LQPublic"], ControlRegularizer]


@dataclass(frozen=True, slots=True)
class AddedIdentity:
    """V = S + shift I, U = C: the regularizer of Private-OFU-RL, with shift = eta = 2 Lambda and
    the constants of Theorem 3.
    """

    shift: float
    regularity: Regularity

    def regularize(
        self,
        S: Array,
        C: Array,
        *,
        noise_std: float,  # noqa: ARG002 - the constants know it
        episode: int,  # noqa: ARG002 - the same in all of them
    ) -> tuple[Array, Array, Regularity]:
        return S + self.shift * np.eye(len(S)), C, self.regularity

    def describe(self) -> str:
        return f"S + {self.shift:g} I"


def make_regularizer(make: MakeControlRegularizer, public: "LQPublic") -> ControlRegularizer:
    """The caller's regularizer for this system, checked."""
    regularizer: ControlRegularizer = has(
        "regularizer(public)",
        make(public),
        ("regularize", "describe"),
        "what a regularizer of a linear system has",
    )
    return regularizer


def check_regularized(
    regularized: tuple[Array, Array, Regularity], states: int, inputs: int
) -> tuple[Array, Array, Regularity]:
    """What a regularizer returned, with the right shapes, finite, and V symmetric.

    It is public, so errors may quote it.
    """
    if (
        not isinstance(regularized, tuple)
        or len(regularized) != 3
        or not isinstance(regularized[2], Regularity)
    ):
        raise InvalidParameter("regularize must return V, U and a Regularity")
    p = states + inputs
    V, U = (np.array(each, dtype=float) for each in regularized[:2])
    for name, matrix, shape in (("V", V, (p, p)), ("U", U, (p, states))):
        if matrix.shape != shape or not np.isfinite(matrix).all():
            raise InvalidParameter(
                f"regularize must return a finite {name} of shape {shape}, got shape {matrix.shape}"
            )
    if not np.allclose(V, V.T):
        raise InvalidParameter("regularize must return a symmetric V")
    return V, U, regularized[2]
