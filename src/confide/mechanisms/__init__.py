"""Noise mechanisms."""

from typing import TYPE_CHECKING

from confide._lazy import lazy

if TYPE_CHECKING:
    from confide.mechanisms.counters import (
        Buffered,
        Counter,
        Discounted,
        Exact,
        HonakerTree,
        Toeplitz,
        Tree,
    )
    from confide.mechanisms.smooth import SmoothGaussian
    from confide.mechanisms.sources import FastSource, NoiseSource, SecureSource, noise_source
    from confide.mechanisms.state import StateFile, StateStore
    from confide.mechanisms.symmetric import smat, svec

__all__ = [
    "Buffered",
    "Counter",
    "Discounted",
    "Exact",
    "FastSource",
    "HonakerTree",
    "NoiseSource",
    "SecureSource",
    "SmoothGaussian",
    "StateFile",
    "StateStore",
    "Toeplitz",
    "Tree",
    "noise_source",
    "smat",
    "svec",
]

__getattr__, __dir__ = lazy(
    __name__,
    {
        **dict.fromkeys(
            ("Buffered", "Counter", "Discounted", "Exact", "HonakerTree", "Toeplitz", "Tree"),
            "counters",
        ),
        **dict.fromkeys(("FastSource", "NoiseSource", "SecureSource", "noise_source"), "sources"),
        **dict.fromkeys(("smat", "svec"), "symmetric"),
        "SmoothGaussian": "smooth",
        **dict.fromkeys(("StateFile", "StateStore"), "state"),
        **dict.fromkeys(("additive", "counters", "smooth", "sources", "state", "symmetric"), ""),
    },
)
