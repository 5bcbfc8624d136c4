"""[Balle16]: private policy evaluation, reproduced."""

from confide.reproduce.balle16.claims import reproduce

__all__ = ["reproduce"]
