"""Named problems with stable parameters and seeds: one file each family."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

Builder = TypeVar("Builder", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ProblemProfile:
    """What there is to know about a named problem before it is made. `confide list` shows it."""

    about: str
    # what an agent may know of it: mixture, linear MDP, linear bandit, linear control or table
    family: str
    # empty: our own
    paper: str = ""
    # whether rewards are public; otherwise they are learned
    public_rewards: bool = True
    # whether a longer horizon has as many more states
    states_follow_horizon: bool = False


def named(
    about: str,
    *,
    family: str,
    paper: str = "",
    public_rewards: bool = True,
    states_follow_horizon: bool = False,
) -> Callable[[Builder], Builder]:
    """State the profile of a function that makes a problem of `PROBLEMS`."""
    profile = ProblemProfile(about, family, paper, public_rewards, states_follow_horizon)

    def state(builder: Builder) -> Builder:
        builder.profile = profile  # type: ignore[attr-defined]
        return builder

    return state
