"""Problems whose optimal values are known exactly, and Gymnasium environments. Each is imported on first use."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confide.problems.bandit import LinearBandit
    from confide.problems.catalogue import PROBLEMS, make
    from confide.problems.feature_mixture import FeatureMixtureMDP
    from confide.problems.files import Problem, load_problem, save_problem
    from confide.problems.gym import GymProblem, from_gymnasium, reward_map, to_gymnasium
    from confide.problems.linear_mdp import LinearMDP
    from confide.problems.linear_mixture import LinearMixtureMDP
    from confide.problems.lq import LQSystem
    from confide.problems.observations import FeaturesPublic
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
    "PROBLEMS",
    "FeatureMixtureMDP",
    "FeaturesPublic",
    "GymProblem",
    "LQSystem",
    "LinearBandit",
    "LinearMDP",
    "LinearMixtureMDP",
    "Problem",
    "SampledProblem",
    "SuccessorFeatures",
    "TabularMDP",
    "binned",
    "chain",
    "chain_values",
    "deep_sea",
    "double_chain",
    "double_integrator",
    "environment",
    "from_control",
    "from_gymnasium",
    "garnet",
    "glucose",
    "icu_sepsis",
    "icu_sepsis_centres",
    "icu_sepsis_expert",
    "latent",
    "liao_hard",
    "linear_bandit",
    "load_problem",
    "lock",
    "lock_rewards",
    "make",
    "mass_chain",
    "news",
    "one_hot",
    "oscillator",
    "pendulum",
    "rand",
    "random_lq",
    "reward_map",
    "riverswim",
    "riverswim_stage",
    "save_problem",
    "thermal",
    "to_control",
    "to_gymnasium",
]

_HOMES = {
    "catalogue": ("PROBLEMS", "make"),
    "feature_mixture": ("FeatureMixtureMDP",),
    "files": ("Problem", "load_problem", "save_problem"),
    "gym": ("GymProblem", "from_gymnasium", "reward_map", "to_gymnasium"),
    "bandit": ("LinearBandit",),
    "linear_mdp": ("LinearMDP",),
    "linear_mixture": ("LinearMixtureMDP",),
    "lq": ("LQSystem",),
    "observations": ("FeaturesPublic",),
    "python_control": ("from_control", "to_control"),
    "sampled": ("SampledProblem", "binned", "environment"),
    "successor_features": ("SuccessorFeatures",),
    "tabular": ("TabularMDP",),
    "zoo.bandits": ("linear_bandit", "news"),
    "zoo.control": (
        "double_integrator",
        "glucose",
        "mass_chain",
        "oscillator",
        "pendulum",
        "random_lq",
        "thermal",
    ),
    "zoo.icu_sepsis": ("icu_sepsis", "icu_sepsis_centres", "icu_sepsis_expert"),
    "zoo.linear": ("latent", "one_hot"),
    "zoo.mixtures": ("liao_hard", "lock", "lock_rewards", "rand"),
    "zoo.tables": (
        "chain",
        "chain_values",
        "deep_sea",
        "double_chain",
        "garnet",
        "riverswim",
        "riverswim_stage",
    ),
}
_LAZY = {name: f"confide.problems.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'confide.problems' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
