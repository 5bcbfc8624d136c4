"""[Luyo21]: private exploration with linear representations, reproduced."""

from confide.reproduce.luyo21.claims import reproduce

__all__ = ["reproduce"]
