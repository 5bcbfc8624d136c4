"""Attacks that try to refute a guarantee, and the verification of certificates."""

from confide.audit.mechanisms import TWINS
from confide.audit.refute import Audit, Subject, clopper_pearson, refute
from confide.audit.replay import replay
from confide.audit.replay_result import Replay
from confide.audit.subjects import subject, subjects
from confide.audit.verify import Verification, verify

__all__ = [
    "Audit",
    "refute",
    "replay",
    "subject",
    "subjects",
    "verify",
]
