"""A fork copies users' data and the state of the noise. Only one of the two processes may go on."""

import os

from confide.errors import StateError


class OneProcess:
    """Which process takes in users' data: the first one that does."""

    def __init__(self) -> None:
        self._process: int | None = None

    def check(self) -> None:
        """Refuse a copy that a fork made. Call it before data are taken in."""
        if self._process is None:
            self._process = os.getpid()
        elif self._process != os.getpid():
            raise StateError(
                "a fork copied this agent or privatizer after users had reported, and both copies would noise the same data: "
                "go on in the process that they reported to, or restore a saved state"
            )
