"""Named problems with stable parameters and seeds, in one file for each family.

A published figure names a problem and a seed. So the instance that a seed generates must never
change: not the numbers, and not the order in which random numbers are used. To add a problem, write
a function that returns one, state its profile with `describe`, and add its name to `PROBLEMS` in
`problems/catalogue.py`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Builder = TypeVar("Builder", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ProblemProfile:
    """What there is to know about a named problem before it is made. `confide list` shows it.

    `family` is what an agent may know of it: mixture, linear MDP, linear bandit, linear control or
    table. `paper` is empty for our own problems. Rewards that are not public are learned. If
    `states_follow_horizon`, each further step adds a state.
    """

    about: str
    family: str
    paper: str = ""
    public_rewards: bool = True
    states_follow_horizon: bool = False


def describe(
    about: str,
    *,
    family: str,
    paper: str = "",
    public_rewards: bool = True,
    states_follow_horizon: bool = False,
) -> Callable[[Builder], Builder]:
    """State the profile of a function that makes a problem of `PROBLEMS`."""
    profile = ProblemProfile(about, family, paper, public_rewards, states_follow_horizon)

    def attach_profile(builder: Builder) -> Builder:
        builder.profile = profile  # type: ignore[attr-defined]
        return builder

    return attach_profile
