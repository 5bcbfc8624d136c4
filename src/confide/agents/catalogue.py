"""Agents by name, for the command line: importable without importing any of them."""

import difflib
import importlib
import importlib.resources
import inspect
import json
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

# options that some agents take only into their arithmetic, where a text fails late
_NUMBERS = ("bonus_scale", "failure")


@dataclass(frozen=True, slots=True)
class Entry:
    """Where an agent is defined, what it is, its paper, and the problems that it supports."""

    place: str  # package.module:Class
    about: str
    family: str = ""  # of problems that it learns: `problem.public.family`; empty: any
    paper: str = ""  # empty: it learns from nobody
    local: bool = True  # whether it can keep a local guarantee
    known_rewards: bool = False  # whether rewards must be public
    knows_truth: bool = False  # made from the problem itself: a yardstick, not a learner
    # problems on which `benchmarks/stuck.py` found runs that stay away from optimal
    stuck: str = ""


AGENTS = {
    "ucrl-vtr": Entry(
        "confide.mixtures.ucrl_vtr:UCRLVTR",
        "optimistic planning on private least squares",
        "mixture",
        "Luyo21",
        known_rewards=True,
        stuck="more kernels than actions",
    ),
    "ucrl-vtr-plus": Entry(
        "confide.mixtures.ucrl_vtr_plus:UCRLVTRPlus",
        "ucrl-vtr, with users weighted by the estimated variance of the next value",
        "mixture",
        "Luyo21",
        known_rewards=True,
        stuck="more kernels than actions, or kernels that differ far from the start only",
    ),
    "linopt-vi": Entry(
        "confide.mixtures.linopt_vi:LinOptVI",
        "optimistic value iteration; can also learn rewards",
        "mixture",
        "Zhou22",
        stuck="more kernels than actions",
    ),
    "linopt-po": Entry(
        "confide.mixtures.linopt_po:LinOptPO",
        "linopt-vi with policy optimisation: softmax policies, improved step by step",
        "mixture",
        "Zhou22",
        stuck="more kernels than actions",
    ),
    "likelihood-vi": Entry(
        "confide.mixtures.likelihood_vi:LikelihoodVI",
        "posterior sampling on private sums of likelihood codes",
        "mixture",
        "confide",
        known_rewards=True,
        stuck="kernels that differ far from the start only",
    ),
    "questions-vi": Entry(
        "confide.mixtures.questions_vi:QuestionsVI",
        "posterior sampling on few yes/no questions per user, chosen from releases",
        "mixture",
        "confide",
    ),
    "lsvi-ucb": Entry(
        "confide.linear_mdps.lsvi_ucb:LSVIUCB",
        "optimistic least-squares value iteration, in batches; joint privacy only",
        "linear MDP",
        "Luyo21",
        local=False,
        stuck="rivers, detours, sparse or random transitions, or absorbing states",
    ),
    "next-state-vi": Entry(
        "confide.linear_mdps.next_state_vi:NextStateVI",
        "posterior sampling on private sums of next states, which must be few",
        "linear MDP",
        "confide",
        stuck="rivers, sparse or random transitions, or absorbing states",
    ),
    "tabular-psrl": Entry(
        "confide.tables.tabular_psrl:TabularPSRL",
        "posterior sampling on private counts of transitions; needs to know nothing of them",
        "table",
        "confide",
    ),
    "lin-ts": Entry(
        "confide.bandits.lin_ts:LinTS",
        "posterior sampling on private sums of contexts and rewards",
        "linear bandit",
        "confide",
    ),
    "lin-ucb": Entry(
        "confide.bandits.lin_ucb:LinUCB",
        "the best action by estimate and bonus; printed under joint and local privacy",
        "linear bandit",
        "Shariff18",
    ),
    "pucb": Entry(
        "confide.tables.optimistic:PUCB",
        "optimistic value iteration on private counts",
        "table",
        "Vietri20",
    ),
    "ucbvi": Entry(
        "confide.tables.optimistic:UCBVI",
        "pucb with another bonus",
        "table",
        "ChowdhuryZhou21",
    ),
    "ucbpo": Entry(
        "confide.tables.optimistic:UCBPO",
        "ucbvi with policy optimisation: softmax policies, improved step by step",
        "table",
        "ChowdhuryZhou21",
    ),
    "dp-ucbvi": Entry(
        "confide.tables.optimistic:DPUCBVI",
        "ucbvi with a bonus that follows the variance of the next value",
        "table",
        "QiaoWang23",
    ),
    "ldp-obi": Entry(
        "confide.tables.optimistic:LDPOBI",
        "optimistic backward induction on noisy messages",
        "table",
        "Garcelon21",
    ),
    "ofu-lq": Entry(
        "confide.control.ofu_lq:OFULQ",
        "optimistic control: optimal gains for the cheapest plausible system",
        "linear control",
        "Chowdhury21",
    ),
    "thompson-lq": Entry(
        "confide.control.thompson_lq:ThompsonLQ",
        "posterior sampling on private residuals",
        "linear control",
        "confide",
    ),
    "certainty-equivalent-lq": Entry(
        "confide.control.certainty_equivalent_lq:CertaintyEquivalentLQ",
        "cautious gains for the posterior mean of thompson-lq",
        "linear control",
        "confide",
    ),
    "uniform": Entry(
        "confide.learning.reference:Uniform",
        "plays uniformly random actions (linear control: zero input)",
    ),
    "oracle": Entry(
        "confide.learning.reference:Oracle", "plays the optimal policy", knows_truth=True
    ),
    "no-data": Entry(
        "confide.learning.reference:NoData",
        "plans with equal weights of all kernels, without data",
        "mixture",
        known_rewards=True,
    ),
}


NEEDS = {  # what agents of a family must know of a problem
    "mixture": "kernels are known, their weights are not",
    "linear MDP": "transitions and rewards are linear in known features",
    "linear bandit": "one step; a reward is linear in the context of the action, by unknown weights",
    "linear control": "a linear system with quadratic costs, dynamics unknown",
    "table": "finitely many states and actions, transitions unknown",
    "": "any problem",
}


def fits(name: str, public: Any) -> bool:
    """Whether an agent of the catalogue can be made for a problem with this public part."""
    return not why_not(name, public)


def _check_fit(name: str, problem: Any) -> None:
    """Refuse an agent that does not fit the problem, and name those that do."""
    entry, public = AGENTS.get(name), problem.public
    if entry is None or fits(name, public):
        return
    fitting = [other for other in AGENTS if AGENTS[other].paper and fits(other, public)]
    kind = f"a {public.family} problem" + (
        " with unknown rewards" if entry.family == public.family else ""
    )
    needs = f"{entry.family} problems" + (" with known rewards" if entry.known_rewards else "")
    others = (
        f"try {', '.join(fitting)}"
        if fitting
        else "no private learner supports it; use uniform or oracle"
    )
    asked = problem.name.partition(",")[0]
    raise InvalidParameter(
        f"{name} is for {needs}, but {problem.name} is {kind}: {others}; confide list --for {asked}"
    )


def why_not(name: str, public: Any) -> str:
    """Why an agent of the catalogue does not fit a problem with this public part; empty if it does."""
    entry = AGENTS[name]
    if entry.family not in ("", public.family):
        return f"needs a {entry.family} problem: {NEEDS[entry.family]}"
    return "needs public rewards" if entry.known_rewards and public.rewards is None else ""


def users_needed(name: str, problem: Any) -> dict[str, Any] | None:
    """What `benchmarks/which_learner.py` measured at epsilon = 1, delta = 1e-5: the median of the numbers of users after which policies
    are, lastingly, 90 % of the way from uniform to optimal play (`users`; None if not within `episodes`). None: not measured."""
    written = (
        importlib.resources.files("confide.agents")
        .joinpath("users_needed.json")
        .read_text(encoding="utf-8")
    )
    of_problem: dict[str, Any] = json.loads(written).get(
        f"{problem.name}, H = {problem.horizon}", {}
    )
    return of_problem.get(name)


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
        raise InvalidParameter(f"{name} has no option {unknown[0]}")
    _check_types(episodes, privacy, given)
    _check_fit(name, problem)
    if "schedule" in given:
        given["schedule"] = read_schedule(given["schedule"], episodes)
    if "privacy" in accepted:
        given["privacy"] = privacy
    elif not isinstance(privacy, NoPrivacy):
        raise InvalidParameter(f"{name} is not private and accepts no epsilon: omit it")
    try:
        return made(
            problem if entry and entry.knows_truth else problem.public, episodes=episodes, **given
        )
    except ConfideError:
        raise
    except (TypeError, AttributeError) as error:
        raise InvalidParameter(f"cannot make the agent {name}: {error}") from None


def _check_types(episodes: Any, privacy: Any, given: dict[str, Any]) -> None:
    """What an agent would trip over somewhere inside, said here in one line."""
    if not isinstance(episodes, Integral):
        raise InvalidParameter(f"episodes must be a whole number, got episodes={episodes!r}")
    if not isinstance(privacy, Request):
        raise InvalidParameter(
            f"privacy must be a privacy request, such as JointDP(1.0, 1e-5) or NoPrivacy(), got privacy={privacy!r}"
        )
    for key in _NUMBERS:
        if key in given and not isinstance(given[key], Real):
            raise InvalidParameter(f"{key} must be a number, got {key}={given[key]!r}")


def read_schedule(given: Any, episodes: int) -> "Schedule | Batches":
    """A schedule as an agent takes it, from one of these or from what `schedule_of` reads."""
    from confide.linear_mdps.batches import Batches
    from confide.privatizers import Schedule

    if not isinstance(given, Schedule | Batches | str | int):
        raise InvalidParameter(
            f"schedule must be a Schedule, a name or a number of users, got schedule={given!r}"
        )
    return given if isinstance(given, Schedule | Batches) else schedule_of(given, episodes)


def schedule_of(text: "str | int", episodes: int) -> "Schedule | Batches":
    """A schedule by name (geometric, every, or adaptive for lsvi-ucb), or a release after every N users for a number N."""
    from confide.linear_mdps.batches import adaptive
    from confide.privatizers import every, every_episode, geometric

    if str(text).isdecimal():
        return every(int(text), episodes)
    named: dict[str, Any] = {"geometric": geometric, "every": every_episode, "adaptive": adaptive}
    if str(text) not in named:
        raise InvalidParameter(
            f"schedule must be geometric, every, adaptive or a number of users, got {text!r}"
        )
    made: Schedule | Batches = named[str(text)](episodes)
    return made


def agent_class(name: str) -> Any:
    """What makes the agent of that name, or the class that package.module:Class names."""
    entry = AGENTS.get(name)
    return _load(entry.place if entry else name)


def takes_privacy(name: str) -> bool:
    """Whether an agent has a guarantee at all."""
    return "privacy" in inspect.signature(agent_class(name)).parameters


def has_paper(name: str) -> bool:
    """Whether there are printed constants; for an agent that does not say, assume so."""
    entry = AGENTS.get(name)
    if entry is not None and entry.paper in ("", "confide"):
        return False
    return "paper" in getattr(agent_class(name), "calibrations", ("paper",))


def _load(place: str) -> Any:
    module, colon, attribute = place.partition(":")
    if not colon:
        near = difflib.get_close_matches(place, AGENTS, n=1)
        hint = (
            f"; did you mean {near[0]}?"
            if near
            else f"; choose one of {', '.join(AGENTS)}, or package.module:Class"
        )
        raise InvalidParameter(f"unknown agent {place!r}{hint}")
    if "" not in sys.path and os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # a class of one's own is looked for where one stands
    try:
        return getattr(importlib.import_module(module), attribute)
    except ConfideError:
        raise
    except Exception as error:  # whatever is wrong in somebody's own file is said in one line
        said = (
            f"{type(error).__name__}: {error}"
            if not isinstance(error, ImportError | AttributeError)
            else f"{error}"
        )
        raise InvalidParameter(f"cannot import the agent {place}: {said}") from None
