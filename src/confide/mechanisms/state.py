"""Saved state: private bytes that can be restored later, and never to before a release.

A counter that adds new noise to the same data after a crash releases them twice. So every draw is
part of the state, the state carries a generation (how many leaves it has absorbed), and a state
that is older than the last release is refused.

What leaves this file is the format of a state, which `_FORMAT` names, and the files of a
`StateFile`. Later versions must read them. All of it is PRIVATE.
"""

import contextlib
import hashlib
import json
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide import arguments
from confide._durable import leftovers, replace
from confide._locks import lock, open_lock
from confide.errors import StateError

_MAGIC = b"confide-state\n"
_FORMAT = "confide-state/3"
# The types of arrays that a state may hold.
_TYPES = {"float64", "int64", "uint8"}
# A SHA-256 checksum ends the file.
_CHECKSUM_BYTES = 32


@dataclass(frozen=True, slots=True)
class State:
    """What `pack` was given, after `unpack` has checked it. PRIVATE."""

    kind: str
    generation: int
    facts: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]

    def __repr__(self) -> str:
        """The kind and the generation. Facts and arrays are private, and are not shown."""
        return f"State(kind={self.kind!r}, generation={self.generation})"


def pack(
    kind: str, generation: int, facts: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]
) -> bytes:
    """A state as bytes: a header in JSON, the arrays, and a checksum."""
    for name, array in arrays.items():
        if str(array.dtype) not in _TYPES:
            raise StateError(
                f"a state holds arrays of {', '.join(sorted(_TYPES))}, {name} is {array.dtype}: "
                "it would not open again"
            )
    layout = {name: [str(array.dtype), list(array.shape)] for name, array in arrays.items()}
    header = json.dumps(
        {
            "format": _FORMAT,
            "kind": kind,
            "generation": generation,
            "facts": facts,
            "arrays": layout,
        }
    ).encode()
    body = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())
    content = _MAGIC + struct.pack(">Q", len(header)) + header + body
    return content + hashlib.sha256(content).digest()


def unpack(data: bytes, kind: str, *, released: int) -> State:
    """The state in `data`.

    It is refused if it is damaged, of another kind or format, or older than generation `released`.
    """
    arguments.whole("released", released, at_least=0)
    header, body = _open(data)
    if header["kind"] != kind:
        raise StateError(f"the state is of a {header['kind']}, expected a {kind}")
    if header["generation"] < released:
        raise StateError(
            f"the state is of generation {header['generation']}, but generation {released} was "
            "already released: going on from here would noise the same data twice"
        )
    arrays = {}
    offset = 0
    for name, (dtype, shape) in header["arrays"].items():
        if dtype not in _TYPES:
            raise StateError("the state holds an array of an unexpected type")
        count = int(np.prod(shape, dtype=np.int64))
        flat = np.frombuffer(body, dtype=dtype, count=count, offset=offset)
        arrays[name] = flat.reshape(shape).copy()
        offset += arrays[name].nbytes
    return State(kind, header["generation"], header["facts"], arrays)


def _open(data: bytes) -> tuple[dict[str, Any], bytes]:
    """The header of a state and the bytes of its arrays, after the checksum was compared."""
    if not isinstance(data, bytes | bytearray | memoryview):
        raise StateError(f"data must be the bytes of a state, got {type(data).__name__}")
    data = bytes(data)
    content = data[:-_CHECKSUM_BYTES]
    digest = data[-_CHECKSUM_BYTES:]
    if not content.startswith(_MAGIC):
        raise StateError("this is not a confide state")
    if hashlib.sha256(content).digest() != digest:
        raise StateError("the state is truncated or damaged: its checksum does not match")
    start = len(_MAGIC) + 8
    (length,) = struct.unpack(">Q", content[len(_MAGIC) : start])
    header: dict[str, Any] = json.loads(content[start : start + length])
    if header["format"] != _FORMAT:
        raise StateError(
            f"the state has format {header['format']}, this version of confide reads format "
            f"{_FORMAT}: go on with the version that saved it"
        )
    return header, content[start + length :]


class StateStore(Protocol):
    """Where a learner keeps its state.

    Each generation is written once, and a state that is older than the newest one is never read.
    """

    def hold(self) -> None:
        """Keep other processes from going on from this store, until this process ends.

        If another process holds it already, this is a `StateError`.
        """

    def exists(self) -> bool:
        """Whether a state was written."""

    def read(self) -> bytes: ...

    def write(self, data: bytes) -> None:
        """Write a state. It is durable when this returns."""

    def generation(self) -> int:
        """The newest generation that was written, so it may have been released. 0: none was."""


# The files that were locked, by device and inode, and the id of the process that locked them. A
# forked process sees the id of its parent here, and does not hold the lock.
_held: dict[tuple[int, int], int] = {}


class StateFile:
    """A state on disk, and beside it a mark of the newest generation that was ever written.

    Only the owner can read the files, and a file is replaced as a whole.

    `write` takes each generation once, from the first process that writes it. So two services that
    go on from one state cannot both release the next generation, and neither can a service that
    starts anew on an old store. `write` returns when the state and the mark are on the disk, so a
    release that leaves afterwards is covered. `read` refuses a state file that was replaced by an
    older copy.
    """

    def __init__(self, path: str | Path) -> None:
        # One name for the file, whatever links lead to it and wherever the process moves later.
        self.path = Path(os.path.realpath(arguments.path("path", path)))
        self._mark = self.path.with_name(self.path.name + ".generation")
        # The newest generation that this object has read or written.
        self._newest = 0

    def hold(self) -> None:
        """Take a lock of the kernel on a file beside the state.

        It ends with the process, however the process ends.
        """
        path = self.path.with_name(self.path.name + ".owner")
        handle = open_lock(path)
        facts = os.fstat(handle)
        place = facts.st_dev, facts.st_ino
        if _held.get(place) == os.getpid():
            os.close(handle)
            return
        try:
            lock(handle, wait=False)
        except OSError:
            os.close(handle)
            raise StateError(
                f"another process goes on from {self.path.name}: "
                "two of them would release the same users twice"
            ) from None
        # The handle stays open, because closing it would end the lock.
        _held[place] = os.getpid()

    def exists(self) -> bool:
        return self.path.exists()

    def write(self, data: bytes) -> None:
        """Write a state, once for each generation. It is durable when this returns."""
        header, _ = _open(data)
        generation = header["generation"]
        with self._lock():
            if generation <= self.generation():
                raise StateError(
                    f"generation {generation} was already written (the newest is "
                    f"{self.generation()}): it must not be drawn twice"
                )
            if self.generation() < self._newest:
                raise StateError(
                    f"{self.path.name} was removed or put back after generation {self._newest}: "
                    "it cannot go on from there"
                )
            for leftover in self._leftovers():
                leftover.unlink(missing_ok=True)
            replace(self.path, data, mode=0o600)
            replace(self._mark, str(generation).encode(), mode=0o600)
            self._newest = generation

    def read(self) -> bytes:
        """The newest state. A file that is older than the mark beside it is refused."""
        try:
            data = self.path.read_bytes()
        except OSError as error:
            raise StateError(
                f"cannot read the state file {self.path.name}: {error.strerror}"
            ) from None
        header, _ = _open(data)
        if header["generation"] < self.generation():
            raise StateError(
                f"the state file {self.path.name} is older than generation {self.generation()}, "
                "which was already released"
            )
        self._newest = max(self._newest, self.generation())
        return data

    def remove(self) -> None:
        """Remove the state, because nothing will be restored any more.

        The file of the lock stays. Others may hold it, so it must not be replaced.
        """
        with self._lock():
            for path in (self.path, self._mark, *self._leftovers()):
                path.unlink(missing_ok=True)

    def _leftovers(self) -> list[Path]:
        """The temporary files of a writer that was killed. The lock keeps other writers out."""
        return leftovers(self.path.parent, self.path.name, self._mark.name)

    def generation(self) -> int:
        """The newest generation that was written, so it may have been released. 0: none was."""
        try:
            marked = int(self._mark.read_text())
        except FileNotFoundError:
            marked = 0
        except (OSError, ValueError):
            raise StateError(f"the file {self._mark.name} next to the state is damaged") from None
        if not self.path.exists():
            return marked
        # After a crash the state may be newer than the mark, because it is written first.
        header, _ = _open(self.path.read_bytes())
        written: int = header["generation"]
        return max(marked, written)

    @property
    def _lock_path(self) -> Path:
        return self.path.with_name(self.path.name + ".lock")

    @contextlib.contextmanager
    def _lock(self) -> Iterator[None]:
        handle = open_lock(self._lock_path)
        try:
            lock(handle)
            yield
        finally:
            os.close(handle)
