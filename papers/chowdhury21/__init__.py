"""[Chowdhury21]: private adaptive control, reproduced."""

from papers.chowdhury21.claims import reproduce

__all__ = ["reproduce"]
