"""confide: differentially private reinforcement learning in Python."""

from typing import TYPE_CHECKING

from confide._lazy import lazy
from confide.errors import BudgetExceeded, ConfideError, InvalidParameter, PrivacyError
from confide.privacy.guarantee import Guarantee, billboard
from confide.privacy.loss import ApproxDP, GaussianDP, PureDP
from confide.privacy.request import (
    CentralDP,
    DistributedDP,
    JointDP,
    LocalDP,
    NoPrivacy,
    Relation,
    Trust,
)

if TYPE_CHECKING:
    from confide import (
        agents,
        audit,
        evaluation,
        logs,
        mechanisms,
        offline,
        privacy,
        privatizers,
        problems,
        release,
        statistics,
    )
    from confide.agents.explain import explain
    from confide.comparison.comparison import Comparison, compare
    from confide.privacy.certificate import Certificate
    from confide.privacy.ledger import Ledger
    from confide.runs.run import Run
    from confide.runs.runner import run
    from confide.runs.sweep import Sweep

__version__ = "0.2.0"

__all__ = [
    "ApproxDP",
    "BudgetExceeded",
    "CentralDP",
    "Certificate",
    "Comparison",
    "ConfideError",
    "DistributedDP",
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
    "Run",
    "Sweep",
    "Trust",
    "agents",
    "audit",
    "billboard",
    "compare",
    "evaluation",
    "explain",
    "logs",
    "mechanisms",
    "offline",
    "privacy",
    "privatizers",
    "problems",
    "release",
    "run",
    "statistics",
]


__getattr__, __dir__ = lazy(
    __name__,
    {
        "Certificate": "privacy.certificate",
        "Comparison": "comparison.comparison",
        "Ledger": "privacy.ledger",
        "Run": "runs.run",
        "Sweep": "runs.sweep",
        "compare": "comparison.comparison",
        "explain": "agents.explain",
        "run": "runs.runner",
        **dict.fromkeys(
            (
                "agents",
                "audit",
                "evaluation",
                "comparison",
                "logs",
                "mechanisms",
                "offline",
                "planners",
                "policy",
                "privacy",
                "privatizers",
                "problems",
                "release",
                "report",
                "statistics",
            ),
            "",
        ),
    },
)
