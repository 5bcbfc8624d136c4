"""Linear MDPs: what users contribute, how releases become plans, and the learners."""

from confide._lazy import lazy

__getattr__, __dir__ = lazy(__name__, {"batches": ""})
