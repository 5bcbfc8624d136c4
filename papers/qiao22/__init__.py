"""[QiaoWang22]: offline reinforcement learning with DP-APVI, a pessimistic value iteration."""

from papers.qiao22.apvi import DPAPVI, PessimisticPlan
from papers.qiao22.printed import APVISetting

__all__ = ["DPAPVI", "APVISetting", "PessimisticPlan"]
