"""Agents by name, for the command line. Importing this file imports none of them.

The names are public: commands, sweeps and saved runs contain them.
"""

import importlib.resources
import inspect
import json
from functools import cache
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from confide.catalogue import Catalogue, load, look_in_working_directory
from confide.errors import ConfideError, InvalidParameter
from confide.privacy.request import NoPrivacy, Request

if TYPE_CHECKING:
    from confide.learning.agent import Profile
    from confide.linear_mdps.batches import BatchPlan
    from confide.privatizers import Schedule
    from confide.problems.problem import Problem

# Options that must be numbers. Some agents only compute with them, where a text would fail late.
_NUMBERS = ("bonus_scale", "failure")


AGENTS = Catalogue(
    "agent",
    {
        "ucrl-vtr": "confide.mixtures.ucrl_vtr:UCRLVTR",
        "ucrl-vtr-plus": "confide.mixtures.ucrl_vtr_plus:UCRLVTRPlus",
        "linopt-vi": "confide.mixtures.linopt_vi:LinOptVI",
        "linopt-po": "confide.mixtures.linopt_po:LinOptPO",
        "likelihood-vi": "confide.mixtures.likelihood_vi:LikelihoodVI",
        "questions-vi": "confide.mixtures.questions.questions_vi:QuestionsVI",
        "lsvi-ucb": "confide.linear_mdps.lsvi_ucb:LSVIUCB",
        "next-state-vi": "confide.linear_mdps.next_state_vi:NextStateVI",
        "tabular-psrl": "confide.tables.tabular_psrl:TabularPSRL",
        "lin-ts": "confide.bandits.lin_ts:LinTS",
        "lin-ucb": "confide.bandits.lin_ucb:LinUCB",
        "pucb": "confide.tables.optimistic:PUCB",
        "ucbvi": "confide.tables.optimistic:UCBVI",
        "ucbpo": "confide.tables.optimistic:UCBPO",
        "dp-ucbvi": "confide.tables.optimistic:DPUCBVI",
        "ldp-obi": "confide.tables.optimistic:LDPOBI",
        "ofu-lq": "confide.control.ofu_lq:OFULQ",
        "thompson-lq": "confide.control.thompson_lq:ThompsonLQ",
        "certainty-equivalent-lq": "confide.control.certainty_equivalent_lq:CertaintyEquivalentLQ",
        "uniform": "confide.learning.reference:Uniform",
        "oracle": "confide.learning.reference:Oracle",
        "no-data": "confide.learning.reference:NoData",
    },
    others=", or package.module:Class",
)

# What agents of a family must know of a problem.
NEEDS = {
    "mixture": "kernels are known, their weights are not",
    "linear MDP": "transitions and rewards are linear in known features",
    "linear bandit": (
        "one step; a reward is linear in the context of the action, by unknown weights"
    ),
    "linear control": "a linear system with quadratic costs, dynamics unknown",
    "table": "finitely many states and actions, transitions unknown",
    "": "any problem",
}


def fits(name: str, public: Any) -> bool:
    """Whether an agent of the catalogue can be made for a problem with this public part."""
    return not why_not(name, public)


def _check_fit(name: str, problem: "Problem") -> None:
    """Raise an error for an agent that does not fit the problem, and name those that do."""
    public = problem.public
    if name not in AGENTS or fits(name, public):
        return
    profile = AGENTS[name].profile
    fitting = [other for other in private_agents() if fits(other, public)]
    observed = public.family == "features"
    kind = "a problem with features of observations" if observed else f"a {public.family} problem"
    no_kernels = profile.kernels and not hasattr(public, "kernels")
    if profile.family == public.family:
        kind += " with features of any sign" if no_kernels else " with unknown rewards"
    needs = f"{profile.family} problems" + (" of probability kernels" if no_kernels else "")
    needs += " with known rewards" if profile.known_rewards else ""
    others = (
        f"try {', '.join(fitting)}"
        if fitting
        else "no private learner supports it; use uniform or oracle"
    )
    problem_name = problem.name.partition(",")[0]
    hint = "" if observed else f"; confide list --for {problem_name}"
    raise InvalidParameter(f"{name} is for {needs}, but {problem.name} is {kind}: {others}{hint}")


def why_not(name: str, public: Any) -> str:
    """Say why an agent of the catalogue does not fit a problem; empty if it does.

    `public` is the public part of the problem.
    """
    profile: Profile = AGENTS[name].profile
    if public.family == "features":
        learns = profile.observations or not profile.family
        return "" if learns else "needs numbered states, and not features of observations"
    if profile.family not in ("", public.family):
        return f"needs a {profile.family} problem: {NEEDS[profile.family]}"
    if profile.kernels and not hasattr(public, "kernels"):
        return "needs probability kernels with weights on the simplex"
    return "needs public rewards" if profile.known_rewards and public.rewards is None else ""


def users_needed(name: str, problem: "Problem") -> dict[str, Any] | None:
    """Return how many users an agent needed on a problem; None if nobody has measured it.

    `benchmarks/users_needed.py` measured it at epsilon = 1 and delta = 1e-5. `users` is the median
    number of users after which policies are, lastingly, 90 % of the way from uniform to optimal
    play. It is None if this does not happen within `episodes`.

    A figure is for the problem on which it was measured. Another problem of the same name has none.
    """
    file = importlib.resources.files("confide.agents").joinpath("users_needed.json")
    measurements: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    of_problem: dict[str, Any] = measurements.get(f"{problem.name}, H = {problem.horizon}", {})
    if name not in of_problem or not _is_measured(problem):
        return None
    measurement: dict[str, Any] = of_problem[name]
    return measurement


def _is_measured(problem: Any) -> bool:
    """Whether this is the problem that the catalogue makes under its name.

    Figures were measured on that problem.
    """
    identity = getattr(problem, "identity", None)
    if identity is None:
        return False
    return bool(identity().digest() == _digest_of(problem.name, problem.horizon))


@cache
def _digest_of(name: str, horizon: int) -> str | None:
    from confide.problems.catalogue import PROBLEMS, make

    try:
        problem: Any = make(name) if name in PROBLEMS else make(name, horizon=horizon)
    except ConfideError:
        return None
    digest: str = problem.identity().digest()
    return digest


def make_agent(
    name: str, problem: "Problem", *, episodes: int, privacy: Request, **options: Any
) -> Any:
    """Make the agent of that name, or of a class given as package.module:Class, for a problem.

    The agent decides about options that are None. Agents that take no privacy get none. A schedule
    may be anything that `schedule_of` reads.
    """
    kind = agent_class(name)
    accepted = inspect.signature(kind).parameters
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
    knows_truth = name in AGENTS and AGENTS[name].profile.knows_truth
    try:
        return kind(problem if knows_truth else problem.public, episodes=episodes, **given)
    except ConfideError:
        raise
    except (TypeError, AttributeError) as error:
        raise InvalidParameter(f"cannot make the agent {name}: {error}") from None


def _check_types(episodes: Any, privacy: Any, given: dict[str, Any]) -> None:
    """Refuse in one line what would otherwise fail somewhere inside of an agent."""
    if not isinstance(episodes, Integral):
        raise InvalidParameter.of("episodes", "must be a whole number", got=f"{episodes!r}")
    if not isinstance(privacy, Request):
        raise InvalidParameter.of(
            "privacy",
            "must be a privacy request, such as JointDP(1.0, 1e-5) or NoPrivacy()",
            got=f"{privacy!r}",
        )
    for key in _NUMBERS:
        if key in given and not isinstance(given[key], Real):
            raise InvalidParameter.of(key, "must be a number", got=f"{given[key]!r}")


def read_schedule(given: Any, episodes: int) -> "Schedule | BatchPlan":
    """Return a schedule as an agent takes it, from a schedule or from what `schedule_of` reads."""
    from confide.linear_mdps.batches import BatchPlan
    from confide.privatizers import Schedule

    if not isinstance(given, Schedule | BatchPlan | str | int):
        raise InvalidParameter.of(
            "schedule", "must be a Schedule, a name or a number of users", got=f"{given!r}"
        )
    return given if isinstance(given, Schedule | BatchPlan) else schedule_of(given, episodes)


def schedule_of(text: "str | int", episodes: int) -> "Schedule | BatchPlan":
    """Return a schedule by its name, or with a release after every N users for a number N.

    The names are geometric, every, and adaptive, which is for lsvi-ucb.
    """
    from confide.linear_mdps.batches import adaptive
    from confide.privatizers import every, every_episode, geometric

    if str(text).isdecimal():
        return every(int(text), episodes)
    named: dict[str, Any] = {"geometric": geometric, "every": every_episode, "adaptive": adaptive}
    if str(text) not in named:
        raise InvalidParameter.of(
            "schedule", f"must be geometric, every, adaptive or a number of users, got {text!r}"
        )
    schedule: Schedule | BatchPlan = named[str(text)](episodes)
    return schedule


def agent_class(name: str) -> Any:
    """Return the class of the agent of that name, or the one that package.module:Class names."""
    if name in AGENTS or ":" not in name:
        return AGENTS[name]
    look_in_working_directory()
    try:
        return load(name)
    except ConfideError:
        raise
    except Exception as error:
        # Whatever is wrong in somebody's own file becomes one line.
        problem = f"{error}"
        if not isinstance(error, ImportError | AttributeError):
            problem = f"{type(error).__name__}: {error}"
        raise InvalidParameter(f"cannot import the agent {name}: {problem}") from None


def private_agents() -> list[str]:
    """Return the names of the agents that learn from users."""
    return [name for name in AGENTS if AGENTS[name].profile.paper]


def takes_privacy(name: str) -> bool:
    """Whether an agent has a guarantee at all."""
    return "privacy" in inspect.signature(agent_class(name)).parameters


# The sentence that tables, lists and explanations show beside agents that have two calibrations.
CALIBRATION_DIFFERENCE = (
    'calibration "paper" runs the published algorithm with its printed constants. '
    '"tight", the default, is our form of it: some users explore, we chose the bonus and the '
    "schedule, and nobody has proved a bound on its regret."
)


def of_a_paper(name: str) -> bool:
    """Whether an agent has the name of a paper's algorithm. Its tight form is another algorithm."""
    return name in AGENTS and AGENTS[name].profile.paper not in ("", "confide")


def has_paper(name: str) -> bool:
    """Whether an agent offers the constants of its paper. If its class says nothing, assume so."""
    # Agents of our own, which stand in no paper, name "confide".
    if name in AGENTS and AGENTS[name].profile.paper in ("", "confide"):
        return False
    return "paper" in getattr(agent_class(name), "calibrations", ("paper",))
