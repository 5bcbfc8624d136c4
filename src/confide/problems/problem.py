"""What a problem is for agents, runs and audits. A problem of your own has these members.

A problem has two sides. `public` is all that an agent may know, and everything else is the truth,
which only the simulation uses. Nothing in this package is private: users are simulated.
"""

from typing import Any, Protocol

import numpy as np

from confide.trajectory import Trajectories


class Problem(Protocol):
    """A problem that users can be simulated in. It knows the truth, and agents get `public` only.

    A problem without exact values has no optimal value. Problems with finitely many states and
    actions can do more (`FiniteProblem`), such as simulating many users by their counts.
    """

    @property
    def name(self) -> str: ...
    @property
    def horizon(self) -> int:
        """Steps of an episode."""

    @property
    def public(self) -> Any:
        """Everything that an agent may know. Each family of agents has a class for it."""

    @property
    def optimal_value(self) -> float | None:
        """The largest expected return, if it is known."""

    @property
    def uniform_value(self) -> float | None:
        """The expected return of uniform play, if it is known."""

    def sample(self, policy: Any, users: int, rng: np.random.Generator) -> Trajectories: ...
