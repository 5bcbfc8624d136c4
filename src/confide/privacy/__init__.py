"""Privacy requests, guarantees, privacy losses and certificates."""

from typing import TYPE_CHECKING

from confide._lazy import lazy
from confide.privacy import accounting
from confide.privacy.guarantee import Guarantee, billboard
from confide.privacy.loss import ApproxDP, GaussianDP, Loss, PureDP, compose, loss_for
from confide.privacy.request import (
    CentralDP,
    DistributedDP,
    JointDP,
    LocalDP,
    NoPrivacy,
    Relation,
    Request,
    Trust,
)

if TYPE_CHECKING:
    from confide.privacy import bounded, certificate, ledger
    from confide.privacy.certificate import Certificate, certify
    from confide.privacy.ledger import Ledger

__all__ = [
    "ApproxDP",
    "PureDP",
    "Request",
    "Trust",
    "accounting",
    "certify",
    "compose",
]

__getattr__, __dir__ = lazy(__name__)
