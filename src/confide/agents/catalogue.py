"""Agents by name, for the command line: importable without importing any of them."""

import difflib
import importlib
import inspect
import os
import sys
from dataclasses import dataclass
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from confide.errors import ConfideError, InvalidParameter
from confide.privacy.request import NoPrivacy, Request

if TYPE_CHECKING:
    from confide.linear_mdps.batches import Batches
    from confide.privatizers import Schedule

_NUMBERS = ("bonus_scale", "failure")  # options that some agents take only into their arithmetic, where a text fails late


@dataclass(frozen=True, slots=True)
class Entry:
    """Where an agent lives, what it is, and which paper describes it."""

    place: str  # package.module:Class
    about: str
    paper: str = ""
    local: bool = True  # whether it can keep a local promise
    knows_truth: bool = False  # made from the problem itself: a yardstick, not a learner


AGENTS = {
    "ucrl-vtr": Entry(
        "confide.mixtures.ucrl_vtr:UCRLVTR",
        "optimistic planning on private least squares, for mixtures of known kernels",
        "Luyo21",
    ),
    "ucrl-vtr-plus": Entry(
        "confide.mixtures.ucrl_vtr_plus:UCRLVTRPlus",
        "the same, each user weighted by the estimated variance of the next value",
        "Luyo21",
    ),
    "linopt-vi": Entry(
        "confide.mixtures.linopt_vi:LinOptVI",
        "optimistic value iteration for mixtures of known kernels, rewards learned too",
        "Zhou22",
    ),
    "linopt-po": Entry(
        "confide.mixtures.linopt_po:LinOptPO",
        "the same by policy optimisation: softmax policies, improved step by step",
        "Zhou22",
    ),
    "likelihood-vi": Entry(
        "confide.mixtures.likelihood_vi:LikelihoodVI",
        "posterior sampling on private sums of likelihood codes, for mixtures of known kernels",
        "confide",
    ),
    "lsvi-ucb": Entry(
        "confide.linear_mdps.lsvi_ucb:LSVIUCB",
        "optimistic least-squares value iteration for linear MDPs, in batches; joint privacy only",
        "Luyo21",
        local=False,
    ),
    "next-state-vi": Entry(
        "confide.linear_mdps.next_state_vi:NextStateVI",
        "posterior sampling on private sums of next states, for linear MDPs with states that can be listed",
        "confide",
    ),
    "ofu-lq": Entry(
        "confide.control.ofu_lq:OFULQ",
        "controls for the cheapest plausible system, for linear systems with quadratic costs",
        "Chowdhury21",
    ),
    "thompson-lq": Entry(
        "confide.control.thompson_lq:ThompsonLQ",
        "posterior sampling on private residuals, for linear systems with quadratic costs",
        "confide",
    ),
    "certainty-equivalent-lq": Entry(
        "confide.control.certainty_equivalent_lq:CertaintyEquivalentLQ",
        "cautious gains for the mean of the same posterior",
        "confide",
    ),
    "uniform": Entry(
        "confide.learning.reference:Uniform", "plays at random (in a linear system, does nothing): the lower end of the scale"
    ),
    "oracle": Entry(
        "confide.learning.reference:Oracle", "plays the optimal policy: the upper end of the scale", knows_truth=True
    ),
    "no-data": Entry("confide.learning.reference:NoData", "plans as if all kernels had the same weight, and learns nothing"),
}


def make_agent(name: str, problem: Any, *, episodes: int, privacy: Request, **options: Any) -> Any:
    """The agent of that name, or of a class given as package.module:Class, for a problem.

    Options that are None are left to the agent; privacy goes to agents that take it; a schedule may be given as `schedule_of` reads it.
    """
    entry = AGENTS.get(name)
    made = agent_class(name)
    accepted = inspect.signature(made).parameters
    given = {key: value for key, value in options.items() if value is not None}
    unknown = [key for key in given if key not in accepted]
    if unknown:
        raise InvalidParameter(f"{name} takes no {unknown[0]}")
    _check_types(episodes, privacy, given)
    if "schedule" in given:
        given["schedule"] = _schedule(given["schedule"], episodes)
    if "privacy" in accepted:
        given["privacy"] = privacy
    elif not isinstance(privacy, NoPrivacy):
        raise InvalidParameter(f"{name} makes no promise, so it takes no epsilon")
    try:
        return made(problem if entry and entry.knows_truth else problem.public, episodes=episodes, **given)
    except ConfideError:
        raise
    except (TypeError, AttributeError) as error:
        raise InvalidParameter(f"cannot make the agent {name}: {error}") from None


def _check_types(episodes: Any, privacy: Any, given: dict[str, Any]) -> None:
    """What an agent would trip over somewhere inside, said here in one line."""
    if not isinstance(episodes, Integral):
        raise InvalidParameter(f"episodes must be a whole number, got episodes={episodes!r}")
    if not isinstance(privacy, Request):
        raise InvalidParameter(f"privacy must be a promise, such as JointDP(1.0, 1e-5) or NoPrivacy(), got privacy={privacy!r}")
    for key in _NUMBERS:
        if key in given and not isinstance(given[key], Real):
            raise InvalidParameter(f"{key} must be a number, got {key}={given[key]!r}")


def _schedule(given: Any, episodes: int) -> "Schedule | Batches":
    from confide.linear_mdps.batches import Batches
    from confide.privatizers import Schedule

    if not isinstance(given, Schedule | Batches | str | int):
        raise InvalidParameter(f"schedule must be a Schedule, a name or a number of users, got schedule={given!r}")
    return given if isinstance(given, Schedule | Batches) else schedule_of(given, episodes)


def schedule_of(text: "str | int", episodes: int) -> "Schedule | Batches":
    """By name, geometric, every or (for lsvi-ucb) adaptive, or a release after each so many users."""
    from confide.linear_mdps.batches import adaptive
    from confide.privatizers import every, every_episode, geometric

    if str(text).isdecimal():
        return every(int(text), episodes)
    named: dict[str, Any] = {"geometric": geometric, "every": every_episode, "adaptive": adaptive}
    if str(text) not in named:
        raise InvalidParameter(f"schedule must be geometric, every, adaptive or a number of users, got {text!r}")
    made: Schedule | Batches = named[str(text)](episodes)
    return made


def agent_class(name: str) -> Any:
    """What makes the agent of that name, or the class that package.module:Class names."""
    entry = AGENTS.get(name)
    return _load(entry.place if entry else name)


def takes_privacy(name: str) -> bool:
    """Whether an agent makes a promise at all."""
    return "privacy" in inspect.signature(agent_class(name)).parameters


def has_paper(name: str) -> bool:
    """Whether there are printed constants; an agent that the catalogue does not know is asked for them."""
    entry = AGENTS.get(name)
    return entry is None or entry.paper not in ("", "confide")


def _load(place: str) -> Any:
    module, colon, attribute = place.partition(":")
    if not colon:
        near = difflib.get_close_matches(place, AGENTS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; there are {', '.join(AGENTS)}, and package.module:Class"
        raise InvalidParameter(f"there is no agent {place!r}{hint}")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # a class of one's own is looked for where one stands
    try:
        return getattr(importlib.import_module(module), attribute)
    except ConfideError:
        raise
    except Exception as error:  # whatever is wrong in somebody's own file is said in one line
        said = f"{type(error).__name__}: {error}" if not isinstance(error, ImportError | AttributeError) else f"{error}"
        raise InvalidParameter(f"cannot import the agent {place}: {said}") from None
