"""numba's `njit`, with a cache on disk if there is a place to write one."""

from collections.abc import Callable
from typing import ParamSpec, TypeVar, cast

import numba

P = ParamSpec("P")
R = TypeVar("R")


def njit(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function on its first use, and cache the result on disk.

    In a read-only installation it is compiled in every process. A compiled loop releases the
    interpreter's lock, so a service answers other requests while it plans.
    """
    try:
        return cast(Callable[P, R], numba.njit(cache=True, nogil=True)(function))
    except RuntimeError:
        # "no locator available": neither the package nor the home folder is writable.
        return cast(Callable[P, R], numba.njit(nogil=True)(function))
