"""From trajectories to bounded contributions."""

from confide.privacy.bounded import L2Ball
from confide.statistics.bounds import RegressionRows, WeightedRows

__all__ = ["L2Ball", "RegressionRows", "WeightedRows"]
