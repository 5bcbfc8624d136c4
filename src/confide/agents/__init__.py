"""One file per published algorithm."""

from typing import TYPE_CHECKING

from confide._lazy import lazy

if TYPE_CHECKING:
    from confide.agents.agent import Agent, Batch
    from confide.agents.reference import NoData, Oracle, Uniform
    from confide.agents.ucrl_vtr import UCRLVTR

__all__ = ["UCRLVTR", "Agent", "Batch", "NoData", "Oracle", "Uniform"]

__getattr__ = lazy(
    __name__,
    {"UCRLVTR": "ucrl_vtr", "Agent": "agent", "Batch": "agent", **dict.fromkeys(("NoData", "Oracle", "Uniform"), "reference")},
)
