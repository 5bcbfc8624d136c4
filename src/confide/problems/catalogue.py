"""Problems by name, for the command line: importable without importing any of them."""

import difflib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confide.arguments import path, whole
from confide.errors import InvalidParameter

if TYPE_CHECKING:
    from confide.problems.files import Problem
    from confide.problems.sampled import SampledProblem

_GYM = "gym:"


@dataclass(frozen=True, slots=True)
class Entry:
    """Where a problem's builder is defined, what the problem is, and its paper (empty: our own)."""

    place: str  # module:function
    # what an agent may know of it: mixture, linear MDP, linear bandit, linear control or table
    family: str
    about: str
    paper: str = ""
    rewards: bool = True  # whether they are public; otherwise they are learned
    states_follow_horizon: bool = False  # whether a longer horizon has as many more states


_ZOO = "confide.problems.zoo"
PROBLEMS = {
    "lock": Entry(
        f"{_ZOO}.mixtures:lock",
        "mixture",
        "a combination lock: one hidden action per step moves right, to the reward",
    ),
    "lock-rewards": Entry(
        f"{_ZOO}.mixtures:lock_rewards",
        "mixture",
        "lock with random rewards that have to be learned",
        rewards=False,
    ),
    "rand": Entry(
        f"{_ZOO}.mixtures:rand",
        "mixture",
        "random sparse kernels in a random mixture, rewards on two states",
    ),
    "liao-hard": Entry(
        f"{_ZOO}.mixtures:liao_hard",
        "mixture",
        "a hard instance: 10 000 users are too few to tell the actions apart",
        "Liao21",
        states_follow_horizon=True,
    ),
    "latent": Entry(
        f"{_ZOO}.linear:latent",
        "linear MDP",
        "a linear MDP with hidden modes, observed through blurred features",
    ),
    "one-hot": Entry(
        f"{_ZOO}.linear:one_hot",
        "linear MDP",
        "a small tabular MDP as a linear MDP, one feature per state and action",
    ),
    "riverswim": Entry(
        f"{_ZOO}.tables:riverswim",
        "table",
        "swim against the current for a large reward, or drift to a small one",
        "Strehl08",
    ),
    "riverswim-stage": Entry(
        f"{_ZOO}.tables:riverswim_stage",
        "table",
        "riverswim with the two actions swapped at random in each step and state",
    ),
    "double-chain": Entry(
        f"{_ZOO}.tables:double_chain",
        "table",
        "a chain with a large reward at one end and a small one at the other",
    ),
    "garnet": Entry(
        f"{_ZOO}.tables:garnet",
        "table",
        "a random table with three successors for each state and action",
    ),
    "deep-sea": Entry(
        f"{_ZOO}.tables:deep_sea",
        "table",
        "only one sequence of ten actions reaches the reward",
        "Osband20",
    ),
    "chain": Entry(
        f"{_ZOO}.tables:chain",
        "table",
        "forty states and no choice of actions, for policy evaluation",
        "Balle16",
    ),
    "icu-sepsis": Entry(
        f"{_ZOO}.icu_sepsis:icu_sepsis",
        "table",
        "treatment of sepsis, estimated from MIMIC-III; needs confide[icu]",
        "Choudhary24",
    ),
    "linear-bandit": Entry(
        f"{_ZOO}.bandits:linear_bandit",
        "linear bandit",
        "one step, ten actions with a context each, rewards linear in contexts",
    ),
    "news": Entry(
        f"{_ZOO}.bandits:news",
        "linear bandit",
        "which of ten articles to show to readers of six groups",
    ),
    "oscillator": Entry(
        f"{_ZOO}.control:oscillator", "linear control", "a damped oscillator with one input"
    ),
    "random-lq": Entry(f"{_ZOO}.control:random_lq", "linear control", "a random stable system"),
    "thermal": Entry(
        f"{_ZOO}.control:thermal", "linear control", "three rooms in a row, two heaters"
    ),
    "glucose": Entry(
        f"{_ZOO}.control:glucose", "linear control", "control of blood glucose by insulin"
    ),
    "double-integrator": Entry(
        f"{_ZOO}.control:double_integrator",
        "linear control",
        "a cart without friction, controlled by force",
    ),
    "pendulum": Entry(
        f"{_ZOO}.control:pendulum", "linear control", "an inverted pendulum, unstable"
    ),
    "mass-chain": Entry(
        f"{_ZOO}.control:mass_chain",
        "linear control",
        "masses connected by springs, with a force on the last one",
    ),
}


def make(
    name: str | os.PathLike[str],
    *,
    seed: int = 0,
    horizon: int | None = None,
    rewards: str | None = None,
    reward_range: tuple[float, float] | None = None,
) -> "Problem | SampledProblem":
    """The problem of that name (of that instance seed, where it has one), the file of a saved problem, or an environment of Gymnasium.

    A horizon replaces the problem's own. A name wins over a file: write ./lock for a file called lock.

    An environment is gym:ID, or gym:package.module:Class for one's own class, or function that makes one. With a table it is imported by
    `from_gymnasium`, which explains `rewards`; without one it is played by `environment`, and needs a `reward_range`.
    """
    whole("seed", seed, at_least=0)
    if horizon is not None:
        whole("horizon", horizon, at_least=1)
    text = name if isinstance(name, str) else path("name", name)
    entry = PROBLEMS.get(text)
    if not text.startswith(_GYM) and (rewards is not None or reward_range is not None):
        raise InvalidParameter(
            f"rewards and reward_range are for environments (gym:ID), got the problem {text}"
        )
    if entry is not None:
        return _build(text, load_builder(entry.place), seed, horizon)
    if text.startswith(_GYM):
        return _from_gym(text.removeprefix(_GYM), horizon, rewards, reward_range)
    if not (Path(text).is_file() or os.sep in text or text.endswith(".npz")):
        raise InvalidParameter(f"unknown problem {text!r}{_hint(text)}")
    if horizon is not None:
        raise InvalidParameter(f"a saved problem has its own horizon, got horizon={horizon}")
    from confide.problems.files import load_problem

    return load_problem(text)


def _from_gym(
    place: str, horizon: int | None, rewards: str | None, reward_range: tuple[float, float] | None
) -> "Problem | SampledProblem":
    from confide.problems.gym import from_gymnasium, has_table, made_env

    made = made_env(_own(place) or place, {})
    if has_table(made):
        return from_gymnasium(
            made, horizon, rewards=rewards or "learned", reward_range=reward_range
        )
    from confide.problems.sampled import environment

    if rewards == "public":
        raise InvalidParameter(f"gym:{place} has no table: its rewards are learned")
    if reward_range is None:
        raise InvalidParameter(
            f"gym:{place} has no table: give the public range of its rewards, as in --reward-range 0 1"
        )
    return environment(made, horizon, reward_range=reward_range)


def _own(place: str) -> Any:
    """What package.module:Class makes; None if it is a name of Gymnasium's registry."""
    module, colon, attribute = place.partition(":")
    if not colon:
        return None
    if "" not in sys.path and os.getcwd() not in sys.path:
        # as for agents: one's own code is looked for where one stands
        sys.path.insert(0, os.getcwd())
    try:
        maker = getattr(importlib.import_module(module), attribute, None)
        return None if maker is None else maker()
    except Exception as error:  # whatever is wrong in somebody's own file is said in one line
        raise InvalidParameter(
            f"cannot make the environment {place}: {type(error).__name__}: {error}"
        ) from None


def _build(name: str, builder: Callable[..., Any], seed: int, horizon: int | None) -> "Problem":
    accepted = inspect.signature(builder).parameters
    options: dict[str, int] = {"seed": seed} if "seed" in accepted else {}
    if horizon is not None:
        if "horizon" not in accepted:
            raise InvalidParameter(f"the horizon of {name} cannot be chosen, got horizon={horizon}")
        options["horizon"] = horizon
    built: Problem = builder(**options)
    return built


def load_builder(place: str) -> Callable[..., Any]:
    module, _, function = place.partition(":")
    found: Callable[..., Any] = getattr(importlib.import_module(module), function)
    return found


def _hint(text: str) -> str:
    if re.fullmatch(r"[\w/]+-v\d+", text):  # as Gymnasium names its environments
        return f"; did you mean {_GYM}{text}?"
    near = difflib.get_close_matches(text.lower(), PROBLEMS, n=1)
    return (
        f"; did you mean {near[0]}?"
        if near
        else f"; choose one of {', '.join(PROBLEMS)}, gym:ID, or the file of a saved problem"
    )
