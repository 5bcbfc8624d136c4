"""[QiaoWang22]: offline reinforcement learning with pessimistic value iteration, DP-APVI as printed."""

from papers.qiao22.apvi import DPAPVI, PessimisticPlan
from papers.qiao22.printed import APVISetting

__all__ = ["DPAPVI", "APVISetting", "PessimisticPlan"]
