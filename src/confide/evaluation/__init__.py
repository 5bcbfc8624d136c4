"""Private policy evaluation from logs: one file per estimator, all with one method, `release`."""

from typing import TYPE_CHECKING

from confide._lazy import lazy

if TYPE_CHECKING:
    from confide.evaluation.counts_and_sums import CountsAndSums
    from confide.evaluation.dp_lsl import DPLSL, LSL
    from confide.evaluation.dp_lsw import DPLSW, LSW
    from confide.evaluation.estimate import ValueEstimate
    from confide.evaluation.estimator import Estimator
    from confide.evaluation.importance_sampling import (
        ImportanceSampling,
        WeightedImportanceSampling,
    )
    from confide.evaluation.lstd import PrivateLSTD
    from confide.evaluation.plan import ExpectedError
    from confide.evaluation.sufficient_statistics import SufficientStatistics

__all__ = [
    "DPLSL",
    "DPLSW",
    "LSL",
    "LSW",
    "CountsAndSums",
    "ImportanceSampling",
    "PrivateLSTD",
    "SufficientStatistics",
    "ValueEstimate",
    "WeightedImportanceSampling",
]

__getattr__, __dir__ = lazy(__name__)
