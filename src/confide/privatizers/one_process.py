"""A fork copies users' data and the state of the noise. Only one of the two processes may go on.

Required for privacy: two processes that go on would publish the same data with two noises, or two
data sets with the same noise.
"""

import os

from confide.errors import StateError


class OneProcess:
    """The process that takes in users' data: the first one that does."""

    def __init__(self) -> None:
        self._process: int | None = None

    def check(self) -> None:
        """Raise an error in a copy that a fork made. Call this before data are taken in."""
        if self._process is None:
            self._process = os.getpid()
        elif self._process != os.getpid():
            raise StateError(
                "a fork copied this agent or privatizer after users had reported, and both copies "
                "would noise the same data: go on in the process that they reported to, "
                "or restore a saved state"
            )
