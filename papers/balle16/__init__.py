"""[Balle16]: private policy evaluation, reproduced."""

from papers.balle16.claims import reproduce

__all__ = ["reproduce"]
