"""One release of a log: question, budget, noise, charge, certificate, and how it is resumed."""

from typing import TYPE_CHECKING

from confide._lazy import lazy

if TYPE_CHECKING:
    from confide.release.question import LogQuestion, release
    from confide.release.sums import DeltaWarning, LogSource, LogSums, delta_warning

__all__ = [
    "DeltaWarning",
    "LogQuestion",
    "release",
]

__getattr__, __dir__ = lazy(__name__)
