"""Problems by name, for the command line. This file imports none of them before it is needed.

The names in `PROBLEMS` are typed by users and stand in sweeps, in the specifications of services
and in labels of saved runs. A name may be added, but not changed.
"""

import importlib
import inspect
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confide.arguments import path, whole
from confide.catalogue import Catalogue, look_in_working_directory
from confide.errors import InvalidParameter

if TYPE_CHECKING:
    from confide.policy import Features
    from confide.problems.gym import GymProblem
    from confide.problems.problem import Problem

_GYM = "gym:"


PROBLEMS = Catalogue(
    "problem",
    {
        "lock": "confide.problems.zoo.mixtures:lock",
        "lock-rewards": "confide.problems.zoo.mixtures:lock_rewards",
        "rand": "confide.problems.zoo.mixtures:rand",
        "liao-hard": "confide.problems.zoo.mixtures:liao_hard",
        "latent": "confide.problems.zoo.linear:latent",
        "one-hot": "confide.problems.zoo.linear:one_hot",
        "riverswim": "confide.problems.zoo.tables:riverswim",
        "riverswim-stage": "confide.problems.zoo.tables:riverswim_stage",
        "double-chain": "confide.problems.zoo.tables:double_chain",
        "garnet": "confide.problems.zoo.tables:garnet",
        "deep-sea": "confide.problems.zoo.tables:deep_sea",
        "chain": "confide.problems.zoo.tables:chain",
        "icu-sepsis": "confide.problems.zoo.icu_sepsis:icu_sepsis",
        "linear-bandit": "confide.problems.zoo.bandits:linear_bandit",
        "news": "confide.problems.zoo.bandits:news",
        "oscillator": "confide.problems.zoo.control:oscillator",
        "random-lq": "confide.problems.zoo.control:random_lq",
        "thermal": "confide.problems.zoo.control:thermal",
        "glucose": "confide.problems.zoo.control:glucose",
        "double-integrator": "confide.problems.zoo.control:double_integrator",
        "pendulum": "confide.problems.zoo.control:pendulum",
        "mass-chain": "confide.problems.zoo.control:mass_chain",
    },
    others=f", {_GYM}ID, or the file of a saved problem",
)


def is_environment(name: str) -> bool:
    """Whether it is the name of an environment of Gymnasium: gym:ID or gym:package.module:Class."""
    return name.startswith(_GYM)


def make(
    name: str | os.PathLike[str],
    *,
    seed: int = 0,
    horizon: int | None = None,
    rewards: str | None = None,
    reward_range: tuple[float, float] | None = None,
    features: "Features | str | None" = None,
    feature_norm: float | None = None,
) -> "Problem":
    """The problem of that name, the file of a saved problem, or an environment of Gymnasium.

    `seed` chooses the instance, where a problem has several. A horizon replaces the problem's own.
    A name wins over a file: write ./lock for a file called lock.

    An environment is gym:ID, or gym:package.module:Class for one's own class, or for a function
    that makes one. With a table it is imported by `from_gymnasium`, which explains `rewards`.
    Without one it is played by `environment`, and needs a `reward_range`. With `features`, a
    function or package.module:function, it is a `GymProblem`, which explains `feature_norm`.
    """
    whole("seed", seed, at_least=0)
    if horizon is not None:
        whole("horizon", horizon, at_least=1)
    text = name if isinstance(name, str) else path("name", name)
    check_environment_options(text, rewards, reward_range, features, feature_norm)
    if features is not None:
        place = text.removeprefix(_GYM)
        return _with_features(place, horizon, reward_range, features, feature_norm)
    if text in PROBLEMS:
        return _build(text, PROBLEMS[text], seed, horizon)
    if text.startswith(_GYM):
        return _from_gym(text.removeprefix(_GYM), horizon, rewards, reward_range)
    if not (Path(text).is_file() or os.sep in text or text.endswith(".npz")):
        raise InvalidParameter(f"unknown problem {text!r}{_hint(text)}")
    if horizon is not None:
        raise InvalidParameter.of("horizon", "is that of the saved problem", got=f"{horizon}")
    from confide.problems.files import load_problem

    return load_problem(text)


def check_environment_options(
    name: str, rewards: Any, reward_range: Any, features: Any, feature_norm: Any
) -> None:
    """Refuse options of environments for other problems, and options that contradict each other.

    The values themselves are checked where the problem is made.
    """
    if not is_environment(name) and (rewards is not None or reward_range is not None):
        raise InvalidParameter(
            f"rewards and reward_range are for environments (gym:ID), got the problem {name}"
        )
    if features is None:
        if feature_norm is not None:
            raise InvalidParameter("feature_norm is the bound of features: give the features, too")
        return
    if not is_environment(name):
        raise InvalidParameter(
            f"features are for environments (gym:ID), got the problem {name}, which has its own"
        )
    if rewards is not None:
        raise InvalidParameter("rewards of an environment with features are learned: omit rewards")


def _from_gym(
    place: str, horizon: int | None, rewards: str | None, reward_range: tuple[float, float] | None
) -> "Problem":
    from confide.problems.gym import from_gymnasium, has_table, open_environment

    env = open_environment(_own_environment(place) or place, {})
    if has_table(env):
        return from_gymnasium(env, horizon, rewards=rewards or "learned", reward_range=reward_range)
    from confide.problems.sampled import environment

    if rewards == "public":
        raise InvalidParameter(f"gym:{place} has no table: its rewards are learned")
    if reward_range is None:
        raise InvalidParameter(
            f"gym:{place} has no table: "
            "give the public range of its rewards, as in --reward-range 0 1"
        )
    return environment(env, horizon, reward_range=reward_range)


def _with_features(
    place: str,
    horizon: int | None,
    reward_range: tuple[float, float] | None,
    features: Any,
    feature_norm: float | None,
) -> "GymProblem":
    from confide.problems.gym import GymProblem, open_environment

    env = open_environment(_own_environment(place) or place, {})
    norm = 1.0 if feature_norm is None else feature_norm
    return GymProblem(env, features, horizon, feature_norm=norm, reward_range=reward_range)


def _own_environment(place: str) -> Any:
    """What package.module:Class makes; None if it is a name of Gymnasium's registry."""
    module, colon, attribute = place.partition(":")
    if not colon:
        return None
    look_in_working_directory()
    try:
        maker = getattr(importlib.import_module(module), attribute, None)
        return None if maker is None else maker()
    except Exception as error:
        # Whatever is wrong in somebody's own file is said in one line.
        raise InvalidParameter(
            f"cannot make the environment {place}: {type(error).__name__}: {error}"
        ) from None


def _build(name: str, builder: Callable[..., Any], seed: int, horizon: int | None) -> "Problem":
    accepted = inspect.signature(builder).parameters
    options: dict[str, int] = {"seed": seed} if "seed" in accepted else {}
    if horizon is not None:
        if "horizon" not in accepted:
            raise InvalidParameter.of("horizon", f"of {name} cannot be chosen", got=f"{horizon}")
        options["horizon"] = horizon
    built: Problem = builder(**options)
    return built


def _hint(text: str) -> str:
    # Gymnasium names its environments like this.
    if re.fullmatch(r"[\w/]+-v\d+", text):
        return f"; did you mean {_GYM}{text}?"
    return PROBLEMS.hint(text)
