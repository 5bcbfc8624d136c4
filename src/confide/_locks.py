"""Locks on files, which end with the process that holds them, however it ends. By `flock`, and on Windows by locks on ranges of bytes."""

import os
import random
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)  # Windows has no such flag
_RANGE = 1 << 16  # bytes: an exclusive lock takes all of them, a shared one any
_PAUSE = 0.05  # seconds between two tries on Windows


def open_lock(path: Path, mode: int = 0o600) -> int:
    """The file of a lock. Closing what is returned ends the lock."""
    return os.open(path, os.O_RDWR | os.O_CREAT | NO_FOLLOW, mode)


def lock(handle: int, *, wait: bool = True, shared: bool = False) -> None:
    """Without `wait`, a lock that somebody else holds raises BlockingIOError. A shared lock takes the place of an exclusive one."""
    if sys.platform == "win32":
        _lock_range(handle, wait, shared)
    else:
        import fcntl

        fcntl.flock(
            handle, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB)
        )


def _lock_range(handle: int, wait: bool, shared: bool) -> None:
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
    with suppress(OSError):  # it may not hold one
        windows.locking(handle, windows.LK_UNLCK, _RANGE)
