"""confide: reinforcement learning that keeps its users' secrets."""

import importlib
from typing import Any

from confide.errors import BudgetExceeded, ConfideError, InvalidParameter, PrivacyError
from confide.privacy.guarantee import Guarantee, billboard
from confide.privacy.loss import ApproxDP, GaussianDP, PureDP
from confide.privacy.request import CentralDP, JointDP, LocalDP, NoPrivacy, Relation, Trust

__version__ = "0.1.0"

_LAZY = {  # heavy or rarely needed: imported when first asked for
    "Certificate": "confide.privacy.certificate",
    "Ledger": "confide.privacy.ledger",
    "agents": None,
    "audit": None,
    "mechanisms": None,
    "privacy": None,
    "privatizers": None,
    "statistics": None,
}

__all__ = [
    "ApproxDP",
    "BudgetExceeded",
    "CentralDP",
    "Certificate",
    "ConfideError",
    "GaussianDP",
    "Guarantee",
    "InvalidParameter",
    "JointDP",
    "Ledger",
    "LocalDP",
    "NoPrivacy",
    "PrivacyError",
    "PureDP",
    "Relation",
    "Trust",
    "agents",
    "audit",
    "billboard",
    "mechanisms",
    "privacy",
    "privatizers",
    "statistics",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'confide' has no attribute {name!r}")
    home = _LAZY[name]
    return importlib.import_module(f"confide.{name}") if home is None else getattr(importlib.import_module(home), name)


def __dir__() -> list[str]:
    return sorted(__all__)
