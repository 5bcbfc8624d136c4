"""[Luyo21]: private exploration with linear representations, reproduced."""

from papers.luyo21.claims import reproduce

__all__ = ["reproduce"]
