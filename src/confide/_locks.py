"""Locks on files, which end with the process that holds them, however it ends.

They are made with `flock`, and on Windows with locks on ranges of bytes.
"""

import os
import random
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

# A symbolic link is not followed. Windows has no such flag.
NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
# On Windows an exclusive lock takes so many bytes, and a shared lock any one of them. Taste.
_RANGE = 1 << 16
# The seconds between two tries on Windows. Taste.
_PAUSE = 0.05


def open_lock(path: Path, mode: int = 0o600) -> int:
    """Open the file of a lock. The lock ends when the returned handle is closed."""
    return os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, mode)


def lock(handle: int, *, wait: bool = True, shared: bool = False) -> None:
    """Take a lock. A shared lock takes the place of an exclusive one of the same handle.

    Without `wait`, a lock that somebody else holds raises BlockingIOError.
    """
    if sys.platform == "win32":
        _lock_range(handle, wait, shared)
    else:
        import fcntl

        operation = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        if not wait:
            operation |= fcntl.LOCK_NB
        fcntl.flock(handle, operation)


def _lock_range(handle: int, wait: bool, shared: bool) -> None:
    """Lock a range of bytes on Windows, which cannot wait for a lock by itself."""
    import msvcrt

    windows: Any = msvcrt
    if shared:
        _unlock(windows, handle)
    while True:
        os.lseek(handle, random.randrange(_RANGE) if shared else 0, os.SEEK_SET)
        try:
            windows.locking(handle, windows.LK_NBLCK, 1 if shared else _RANGE)
            return
        except PermissionError:
            if not wait:
                raise BlockingIOError("another process holds the lock") from None
            time.sleep(_PAUSE)


def _unlock(windows: Any, handle: int) -> None:
    os.lseek(handle, 0, os.SEEK_SET)
    # The process may not hold this lock.
    with suppress(OSError):
        windows.locking(handle, windows.LK_UNLCK, _RANGE)
