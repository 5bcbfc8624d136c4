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
    from confide.experiments.run import Run
    from confide.experiments.runner import run
    from confide.experiments.sweep import Sweep
    from confide.privacy.certificate import Certificate
    from confide.privacy.ledger import Ledger
    from confide.report.comparison import Comparison, compare

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
        "Comparison": "report.comparison",
        "Ledger": "privacy.ledger",
        "Run": "experiments.run",
        "Sweep": "experiments.sweep",
        "compare": "report.comparison",
        "explain": "agents.explain",
        "run": "experiments.runner",
        **dict.fromkeys(
            (
                "agents",
                "audit",
                "evaluation",
                "experiments",
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
