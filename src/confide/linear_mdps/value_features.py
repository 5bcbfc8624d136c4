"""Values that are functions of features of an observation.

PUBLIC: planning makes them, and stored rows are asked about them. For the features x of one action,
Q(x) = clip(offset + <weights, x> + ||widths x||, 0, top), and V is the largest Q of all actions. An
observation whose features are all zero is the end of an episode, and has the value `ended`. The
compiled loop of `_row_kernels` computes the same.
"""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class FeatureValues:
    """V of one step. Shapes: weights [i], widths [k, i]."""

    weights: Array = field(repr=False)
    widths: Array = field(repr=False)
    offset: float
    top: float
    ended: float

    def range(self) -> tuple[float, float]:
        """The smallest and the largest value of features of norm at most one, or of the end."""
        reach = float(np.linalg.norm(self.weights))
        width = float(np.linalg.norm(self.widths, 2)) if self.widths.size else 0.0
        low = float(np.clip(self.offset - reach, 0.0, self.top))
        high = float(np.clip(self.offset + reach + width, 0.0, self.top))
        return min(low, self.ended), max(high, self.ended)


@dataclass(frozen=True, slots=True, eq=False)
class FeatureTarget:
    """y = (V - middle) / radius, of the features of the next observation; zero if there is no V."""

    values: FeatureValues | None
    middle: float = 0.0
    radius: float = 1.0


def zero_values(dimension: int) -> FeatureValues:
    """The values after the last step."""
    return FeatureValues(
        weights=np.zeros(dimension),
        widths=np.zeros((0, dimension)),
        offset=0.0,
        top=0.0,
        ended=0.0,
    )
