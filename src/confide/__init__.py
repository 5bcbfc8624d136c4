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
        comparison,
        evaluation,
        logs,
        mechanisms,
        offline,
        planners,
        policy,
        privacy,
        privatizers,
        problems,
        release,
        report,
        runs,
        statistics,
    )
    from confide.agents.explain import explain
    from confide.comparison.comparison import Comparison, compare
    from confide.policy import load_policy
    from confide.privacy.certificate import Certificate
    from confide.privacy.ledger import Ledger
    from confide.problems.rollouts import RolloutValue, evaluate_policy
    from confide.runs.run import Run
    from confide.runs.runner import run
    from confide.runs.sweep import Sweep

__version__ = "0.3.0"

__all__ = [
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
    "Relation",
    "RolloutValue",
    "Run",
    "Sweep",
    "billboard",
    "compare",
    "evaluate_policy",
    "explain",
    "load_policy",
    "run",
]

__getattr__, __dir__ = lazy(__name__)
