"""Promises: what is asked for, what is given, what it costs and how it is proved."""

from confide.privacy import accounting
from confide.privacy.guarantee import Guarantee, billboard
from confide.privacy.loss import ApproxDP, GaussianDP, Loss, PureDP, compose, loss_for
from confide.privacy.request import CentralDP, JointDP, LocalDP, NoPrivacy, Relation, Request, Trust

__all__ = [
    "ApproxDP",
    "CentralDP",
    "GaussianDP",
    "Guarantee",
    "JointDP",
    "LocalDP",
    "Loss",
    "NoPrivacy",
    "PureDP",
    "Relation",
    "Request",
    "Trust",
    "accounting",
    "billboard",
    "compose",
    "loss_for",
]
