"""A warning where the bound on gains matters.

[Chowdhury21, Lemma 2] says that it never does, which Assumption 1 does not imply.
"""

import warnings

from confide.errors import GainBoundWarning


def warn_of_gain_bound(held_back: bool, gain_bound: float) -> None:
    """Warn where the bound on gains, and not what is known, limits the controller.

    A function of releases, so that it reveals nothing.
    """
    if held_back:
        warnings.warn(
            f"gain_bound={gain_bound:g} limits the controller: the gains that are best for the "
            "estimated system are larger. "
            "If the inputs allow it, give the system a larger gain_bound",
            GainBoundWarning,
            stacklevel=3,
        )
