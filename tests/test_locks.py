"""Locks on files: one holder, or several that share; and the same by ranges of bytes, as Windows
has them.
"""

import os
import subprocess
import sys
import types

import pytest

from confide import _locks


class Ranges:
    """`msvcrt.locking` on files of this process: ranges of bytes from the current place, each of
    one handle.
    """

    LK_NBLCK, LK_UNLCK = 2, 0

    def __init__(self):
        self.taken = {}

    def locking(self, handle, mode, size):
        start = os.lseek(handle, 0, os.SEEK_CUR)
        place = start, start + size
        if mode == self.LK_UNLCK:
            if self.taken.pop((handle, *place), None) is None:
                raise PermissionError
            return
        if any(first < place[1] and place[0] < last for _, first, last in self.taken):
            raise PermissionError
        self.taken[(handle, *place)] = True


@pytest.fixture(params=["flock", "ranges"])
def lock(request, monkeypatch):
    if request.param == "flock":
        return _locks.lock
    fake = Ranges()
    monkeypatch.setitem(
        sys.modules, "msvcrt", types.SimpleNamespace(locking=fake.locking, LK_NBLCK=2, LK_UNLCK=0)
    )
    return lambda handle, *, wait=True, shared=False: _locks._lock_range(handle, wait, shared)


@pytest.fixture
def handles(tmp_path):
    handles = [_locks.open_lock(tmp_path / "lock") for _ in range(3)]
    yield handles
    for handle in handles:
        os.close(handle)


def test_one_holder_at_a_time(lock, handles):
    lock(handles[0], wait=False)
    with pytest.raises(BlockingIOError):
        lock(handles[1], wait=False)
    with pytest.raises(BlockingIOError):
        lock(handles[1], wait=False, shared=True)


def test_a_shared_lock_takes_the_place_of_an_exclusive_one(lock, handles):
    lock(handles[0], wait=False)
    lock(handles[0], shared=True)
    lock(handles[1], shared=True)
    with pytest.raises(BlockingIOError):
        lock(handles[2], wait=False)


def test_a_lock_ends_with_its_process(tmp_path):
    code = (
        "import sys; from pathlib import Path; from confide import _locks\n"
        f"_locks.lock(_locks.open_lock(Path({str(tmp_path / 'lock')!r})))\n"
        "print('held', flush=True)\n"
        "sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    handle = _locks.open_lock(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        _locks.lock(handle, wait=False)
    process.kill()
    process.wait()
    _locks.lock(handle, wait=False)
    os.close(handle)
    process.stdin.close(), process.stdout.close()


def test_the_file_of_a_lock_is_no_link(tmp_path):
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"):
        _locks.open_lock(tmp_path / "lock")
