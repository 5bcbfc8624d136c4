"""Trajectories in, bounded contributions out."""

from confide.privacy.bounded import L2Ball
from confide.statistics.bounds import RegressionRows

__all__ = ["L2Ball", "RegressionRows"]
