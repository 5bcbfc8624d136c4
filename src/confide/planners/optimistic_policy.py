"""A rule that turns the state in which a user starts into gains.

Reference: [Chowdhury21, Alg. 1, lines 4 and 5]. What leaves this file is a saved policy of the kind
"optimistic", whose names of arrays are a format.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from confide.arguments import array, real, whole
from confide.errors import InvalidParameter
from confide.planners import _optimistic_kernels as _search
from confide.policy import LinearPolicy, register_loader, save_policy

Array = npt.NDArray[np.float64]

# The search ends when a step promises less than this share of what was gained on the cost of the
# estimate, or after so many steps. Both numbers were chosen by measurement
# (docs/benchmarks/control_speed).
TOLERANCE = 1e-4
MOST_STEPS = 100
_NO_START_OF_SEARCH = np.empty((0, 0))


@dataclass(frozen=True, slots=True, eq=False)
class OptimisticPolicy:
    """Turns the state x in which a user starts into gains.

    They are the optimal gains of the system that is cheapest for x in a confidence set:
    ||precision^(1/2) (Theta - estimate)||_F <= width and ||Theta||_F <= parameter_bound, for
    Theta = [A B]^T [p, n]. Gains are projected to `gain_bound`.

    The rule is public, and the same for all users of a release. The gains of one user depend on
    where this user started, so they must not be published. Joint privacy protects what a user does
    from everybody else, and does not protect users who publish it themselves.
    """

    estimate: Array
    precision: Array
    width: float
    Q: Array
    R: Array
    horizon: int
    noise_radius: float
    parameter_bound: float
    gain_bound: float

    def __post_init__(self) -> None:
        for name in ("estimate", "precision", "Q", "R"):
            object.__setattr__(self, name, writable(array(name, getattr(self, name), ndim=2)))
        # Dimensions of the state and of the input.
        n = len(self.Q)
        d = len(self.R)
        expected = {
            "estimate": (n + d, n),
            "precision": (n + d, n + d),
            "Q": (n, n),
            "R": (d, d),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise InvalidParameter.of(
                    name, f"must have shape {shape}, got {getattr(self, name).shape}"
                )
        whole("horizon", self.horizon, at_least=1)
        for name in ("width", "noise_radius", "gain_bound"):
            real(name, getattr(self, name), at_least=0)
        real("parameter_bound", self.parameter_bound, above=0)

    @property
    def shape(self) -> tuple[int, int, int]:
        """The shape of the gains: horizon, dimension of an input, dimension of a state."""
        return self.horizon, len(self.R), len(self.Q)

    def for_start(self, start: npt.ArrayLike) -> LinearPolicy:
        """Return the gains of a user who starts in this state. They must not be published."""
        first = array("start", start, ndim=1)
        if first.shape != (len(self.Q),):
            raise InvalidParameter.of(
                "start", f"must have shape ({len(self.Q)},), got {first.shape}"
            )
        return LinearPolicy(self._gains(writable(first)))

    def gains_of_all(self, starts: Array) -> Array:
        """Return the gains [user, h, d, n] of users with these starts [user, n].

        The gains of one user do not depend on the other users.
        """
        return np.stack([self._gains(writable(start)) for start in starts])

    def act(self, step: int, state: Array, rng: np.random.Generator) -> Array:  # noqa: ARG002
        raise InvalidParameter(
            "this rule plans for the state in which a user starts: "
            "call for_start(x) once, and act with the policy that it returns"
        )

    def tables(self) -> list[Any]:
        """Return everything that the rule is made of, in a fixed order."""
        return list(self._values().values())

    def save(self, path: str | Path | BinaryIO) -> None:
        """Save the rule. It contains nobody's start and nobody's gains."""
        arrays = {name: np.asarray(value) for name, value in self._values().items()}
        save_policy(path, kind="optimistic", **arrays)

    def _values(self) -> dict[str, Any]:
        return {
            "estimate": self.estimate,
            "precision": self.precision,
            "width": self.width,
            "Q": self.Q,
            "R": self.R,
            "horizon": self.horizon,
            "noise_radius": self.noise_radius,
            "parameter_bound": self.parameter_bound,
            "gain_bound": self.gain_bound,
        }

    def _gains(self, start: Array) -> Array:
        # The variance of one coordinate of a vector that is uniform in a ball of n dimensions.
        noise_variance = self.noise_radius**2 / (len(self.Q) + 2)
        model = (self.Q, self.R, self.horizon, noise_variance, start)
        _, _, gains, _, flag = _search.search(
            self.estimate,
            self.precision,
            float(self.width),
            model,
            float(self.parameter_bound),
            _NO_START_OF_SEARCH,
            TOLERANCE,
            MOST_STEPS,
        )
        if flag == 2:
            raise InvalidParameter(
                "the estimate must be finite and the precision positive definite"
            )
        return within_bound(gains, self.gain_bound)


def within_bound(gains: Array, gain_bound: float) -> Array:
    """Return gains [h, d, n] whose spectral norms are at most `gain_bound`.

    Frobenius norms are larger and fast to compute, so they are compared first.
    """
    if float(np.square(gains).sum(axis=(1, 2)).max()) <= gain_bound**2:
        return gains
    return project_gains(gains, gain_bound)


def project_gains(gains: Array, gain_bound: float) -> Array:
    """Return gains [h, d, n], each of them made shorter if its norm is above `gain_bound`."""
    norms = np.linalg.norm(gains, 2, axis=(1, 2))
    factors = np.minimum(1.0, gain_bound / np.maximum(norms, 1e-300))
    projected: Array = gains * factors[:, None, None]
    return projected


def writable(values: Array) -> Array:
    """Return an array that kernels take: contiguous and writeable.

    They are compiled for one kind of array, and public values are often frozen.
    """
    values = np.ascontiguousarray(values, dtype=float)
    return values if values.flags.writeable else values.copy()


def _load(stored: Any) -> OptimisticPolicy:
    return OptimisticPolicy(
        estimate=stored["estimate"],
        precision=stored["precision"],
        width=float(stored["width"]),
        Q=stored["Q"],
        R=stored["R"],
        horizon=int(stored["horizon"]),
        noise_radius=float(stored["noise_radius"]),
        parameter_bound=float(stored["parameter_bound"]),
        gain_bound=float(stored["gain_bound"]),
    )


register_loader("optimistic", _load)
