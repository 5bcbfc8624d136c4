"""Problems: what agents learn, from named instances to one's own environment.

`problem.py` says what a problem is. Finite problems (`finite.py`) are tabular MDPs, linear mixtures
and linear MDPs; besides these there are linear systems (`lq.py`), linear bandits (`bandit.py`) and
environments of Gymnasium (`gym.py`, `sampled.py`). All but the environments have exact values. The
named instances are in `zoo/`. Each module is imported on first use.
"""

from typing import TYPE_CHECKING

from confide._lazy import lazy

if TYPE_CHECKING:
    from confide.problems.bandit import LinearBandit
    from confide.problems.catalogue import PROBLEMS, make
    from confide.problems.feature_mixture import FeatureMixtureMDP
    from confide.problems.files import load_problem, save_problem
    from confide.problems.gym import GymProblem, from_gymnasium, reward_map, to_gymnasium
    from confide.problems.linear_mdp import LinearMDP
    from confide.problems.linear_mixture import LinearMixtureMDP
    from confide.problems.lq import LQSystem
    from confide.problems.observations import FeaturesPublic
    from confide.problems.problem import Problem
    from confide.problems.python_control import from_control, to_control
    from confide.problems.sampled import SampledProblem, binned, environment
    from confide.problems.successor_features import SuccessorFeatures
    from confide.problems.tabular import TabularMDP
    from confide.problems.zoo.bandits import linear_bandit, news
    from confide.problems.zoo.control import (
        double_integrator,
        glucose,
        mass_chain,
        oscillator,
        pendulum,
        random_lq,
        thermal,
    )
    from confide.problems.zoo.icu_sepsis import icu_sepsis, icu_sepsis_centres, icu_sepsis_expert
    from confide.problems.zoo.linear import latent, one_hot
    from confide.problems.zoo.mixtures import liao_hard, lock, lock_rewards, rand
    from confide.problems.zoo.tables import (
        chain,
        chain_values,
        deep_sea,
        double_chain,
        garnet,
        riverswim,
        riverswim_stage,
    )

__all__ = [
    "FeatureMixtureMDP",
    "FeaturesPublic",
    "GymProblem",
    "LQSystem",
    "LinearBandit",
    "LinearMDP",
    "LinearMixtureMDP",
    "Problem",
    "SuccessorFeatures",
    "TabularMDP",
    "binned",
    "environment",
    "from_control",
    "from_gymnasium",
    "garnet",
    "linear_bandit",
    "load_problem",
    "lock",
    "make",
    "riverswim",
    "save_problem",
    "to_control",
    "to_gymnasium",
]

__getattr__, __dir__ = lazy(__name__)
