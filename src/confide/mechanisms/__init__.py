"""Noise mechanisms."""

from typing import TYPE_CHECKING

from confide._lazy import lazy

if TYPE_CHECKING:
    from confide.mechanisms import additive, counters, smooth, sources, state, symmetric
    from confide.mechanisms.counters import (
        Buffered,
        Counter,
        Discounted,
        Exact,
        HonakerTree,
        Leaves,
        Toeplitz,
        Tree,
    )
    from confide.mechanisms.smooth import SmoothGaussian
    from confide.mechanisms.sources import FastSource, NoiseSource, SecureSource, noise_source
    from confide.mechanisms.state import StateFile, StateStore
    from confide.mechanisms.symmetric import smat, svec

__all__ = [
    "Buffered",
    "Discounted",
    "Exact",
    "HonakerTree",
    "Leaves",
    "SmoothGaussian",
    "Toeplitz",
    "Tree",
    "noise_source",
]

__getattr__, __dir__ = lazy(__name__)
