"""Learning from logs: one private release of a model, then values and policies from it at no
further cost.
"""

from typing import TYPE_CHECKING

from confide._lazy import lazy

if TYPE_CHECKING:
    from confide.offline.improvement import Improvement
    from confide.offline.learned_policy import Departure, LearnedPolicy
    from confide.offline.model import PrivateModel
    from confide.offline.model_release import ModelRelease

__all__ = [
    "LearnedPolicy",
    "ModelRelease",
    "PrivateModel",
]

__getattr__, __dir__ = lazy(__name__)
