"""From trajectories to bounded contributions. What stands here serves several families."""

from confide.privacy.bounded import L2Ball
from confide.statistics.bounds import RegressionRows, WeightedRows

__all__ = ["L2Ball", "RegressionRows", "WeightedRows"]
