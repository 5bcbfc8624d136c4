"""One file per published algorithm."""

from typing import TYPE_CHECKING

from confide._lazy import lazy

if TYPE_CHECKING:
    from confide.agents.agent import Agent, Batch
    from confide.agents.certainty_equivalent_lq import CertaintyEquivalentLQ
    from confide.agents.client import LocalClient
    from confide.agents.learner import Algorithm, Learner, Round
    from confide.agents.likelihood_vi import LikelihoodVI
    from confide.agents.linopt_po import LinOptPO
    from confide.agents.linopt_vi import LinOptVI
    from confide.agents.lsvi_ucb import LSVIUCB
    from confide.agents.next_state_vi import NextStateVI
    from confide.agents.ofu_lq import OFULQ
    from confide.agents.reference import NoData, Oracle, Uniform
    from confide.agents.thompson_lq import ThompsonLQ
    from confide.agents.ucrl_vtr import UCRLVTR
    from confide.agents.ucrl_vtr_plus import UCRLVTRPlus

__all__ = [
    "LSVIUCB",
    "OFULQ",
    "UCRLVTR",
    "Agent",
    "Algorithm",
    "Batch",
    "CertaintyEquivalentLQ",
    "Learner",
    "LikelihoodVI",
    "LinOptPO",
    "LinOptVI",
    "LocalClient",
    "NextStateVI",
    "NoData",
    "Oracle",
    "Round",
    "ThompsonLQ",
    "UCRLVTRPlus",
    "Uniform",
]

__getattr__ = lazy(
    __name__,
    {
        "UCRLVTR": "ucrl_vtr",
        "UCRLVTRPlus": "ucrl_vtr_plus",
        "Agent": "agent",
        "Batch": "agent",
        **dict.fromkeys(("Algorithm", "Learner", "Round"), "learner"),
        "CertaintyEquivalentLQ": "certainty_equivalent_lq",
        "OFULQ": "ofu_lq",
        "ThompsonLQ": "thompson_lq",
        "LocalClient": "client",
        "LikelihoodVI": "likelihood_vi",
        "LSVIUCB": "lsvi_ucb",
        "NextStateVI": "next_state_vi",
        "LinOptPO": "linopt_po",
        "LinOptVI": "linopt_vi",
        **dict.fromkeys(("NoData", "Oracle", "Uniform"), "reference"),
    },
)
