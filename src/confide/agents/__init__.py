"""The agents by their public names.

Each of them is defined in its family: confide.mixtures, confide.linear_mdps, confide.bandits,
confide.tables or confide.control.
"""

from typing import TYPE_CHECKING

from confide._lazy import lazy

if TYPE_CHECKING:
    from confide.bandits.lin_ts import LinTS
    from confide.bandits.lin_ucb import LinUCB
    from confide.control.certainty_equivalent_lq import CertaintyEquivalentLQ
    from confide.control.ofu_lq import OFULQ
    from confide.control.thompson_lq import ThompsonLQ
    from confide.learning.agent import Abilities, Agent, Batch
    from confide.learning.algorithm import Algorithm, Calibration, Description, Round
    from confide.learning.client import LocalClient
    from confide.learning.learner import Learner
    from confide.learning.reference import NoData, Oracle, Uniform
    from confide.learning.share_client import ShareClient
    from confide.linear_mdps.lsvi_ucb import LSVIUCB
    from confide.linear_mdps.next_state_vi import NextStateVI
    from confide.mixtures.likelihood_vi import LikelihoodVI
    from confide.mixtures.linopt_po import LinOptPO
    from confide.mixtures.linopt_vi import LinOptVI
    from confide.mixtures.questions.questions_vi import QuestionsVI
    from confide.mixtures.ucrl_vtr import UCRLVTR
    from confide.mixtures.ucrl_vtr_plus import UCRLVTRPlus
    from confide.tables.optimistic import DPUCBVI, LDPOBI, PUCB, UCBPO, UCBVI
    from confide.tables.tabular_psrl import TabularPSRL

__all__ = [
    "DPUCBVI",
    "LDPOBI",
    "LSVIUCB",
    "OFULQ",
    "PUCB",
    "UCBPO",
    "UCBVI",
    "UCRLVTR",
    "Abilities",
    "Agent",
    "Batch",
    "Calibration",
    "CertaintyEquivalentLQ",
    "Description",
    "Learner",
    "LikelihoodVI",
    "LinOptPO",
    "LinOptVI",
    "LinTS",
    "LinUCB",
    "LocalClient",
    "NextStateVI",
    "Oracle",
    "QuestionsVI",
    "Round",
    "TabularPSRL",
    "ThompsonLQ",
    "UCRLVTRPlus",
    "Uniform",
]

__getattr__, __dir__ = lazy(__name__)
