"""[Chowdhury21]: private adaptive control, reproduced."""

from confide.reproduce.chowdhury21.claims import reproduce

__all__ = ["reproduce"]
