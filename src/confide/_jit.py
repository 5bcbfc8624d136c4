"""numba's njit with its cache, where there is a place to write one."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def njit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile on first use and cache the result on disk; in a read-only installation compile in every process.

    A compiled loop lets go of the interpreter, so that a service answers other requests while it plans.
    """
    try:
        return cast(Callable[P, R], numba.njit(cache=True, nogil=True)(function))
    # "no locator available": neither the package nor the home folder is writable
    except RuntimeError:
        return cast(Callable[P, R], numba.njit(nogil=True)(function))
