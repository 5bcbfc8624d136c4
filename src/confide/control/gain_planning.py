"""Gains within their bound [Chowdhury21, Lemma 2 assumes it, and it does not follow], and a warning where the bound matters."""

import warnings

import numpy as np
import numpy.typing as npt

from confide.errors import GainBoundWarning

Array = npt.NDArray[np.float64]


def projected(gains: Array, gain_bound: float) -> Array:
    """Gains [h, d, n], each no longer than gamma."""
    sizes = np.linalg.norm(gains, 2, axis=(1, 2))
    result: Array = gains * np.minimum(1.0, gain_bound / np.maximum(sizes, 1e-300))[:, None, None]
    return result


def warn_of_gain_bound(held_back: bool, gain_bound: float) -> None:
    """Warn where the bound on gains, and not what is known, limits the controller. A function of releases, so that it reveals nothing."""
    if held_back:
        warnings.warn(
            f"gain_bound={gain_bound:g} limits the controller: the gains that are best for the estimated system are larger. "
            "If the inputs allow it, give the system a larger gain_bound",
            GainBoundWarning,
            stacklevel=3,
        )
