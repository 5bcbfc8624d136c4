"""[Zhou22]: private reinforcement learning with linear function approximation, reproduced."""

from papers.zhou22.claims import reproduce

__all__ = ["reproduce"]
