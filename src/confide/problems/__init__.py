"""Worlds whose optimal values are known exactly."""

from confide.problems.linear_mdp import LinearMDP
from confide.problems.linear_mixture import LinearMixtureMDP
from confide.problems.lq import LQSystem
from confide.problems.tabular import TabularMDP
from confide.problems.zoo.mixtures import lock, rand

__all__ = ["LQSystem", "LinearMDP", "LinearMixtureMDP", "TabularMDP", "lock", "rand"]
