"""Saved state: private bytes that open tomorrow, and refuse to take a release back.

A counter that is re-noised after a crash releases the same data twice. So every draw is part of the state, the state carries a
generation (how many leaves it has absorbed), and a state older than the last release is refused.
"""

import hashlib
import json
import os
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import StateError

_MAGIC = b"confide-state\n"
_FORMAT = 1
_TYPES = {"float64", "int64", "uint8"}


@dataclass(frozen=True, slots=True)
class State:
    """PRIVATE: what `pack` was given, checked."""

    kind: str
    generation: int
    facts: dict[str, Any]
    arrays: dict[str, npt.NDArray[Any]]

    def __repr__(self) -> str:
        return f"State(kind={self.kind!r}, generation={self.generation})"


def pack(kind: str, generation: int, facts: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> bytes:
    layout = {name: [str(array.dtype), list(array.shape)] for name, array in arrays.items()}
    header = json.dumps({"format": _FORMAT, "kind": kind, "generation": generation, "facts": facts, "arrays": layout}).encode()
    body = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays.values())
    content = _MAGIC + struct.pack(">Q", len(header)) + header + body
    return content + hashlib.sha256(content).digest()


def unpack(data: bytes, kind: str, *, released: int = 0) -> State:
    """The state in `data`; refused if it is damaged, of another kind or format, or older than generation `released`."""
    content, digest = data[:-32], data[-32:]
    if not content.startswith(_MAGIC):
        raise StateError("this is not a confide state")
    if hashlib.sha256(content).digest() != digest:
        raise StateError("the state is truncated or damaged: its checksum does not match")
    start = len(_MAGIC) + 8
    (length,) = struct.unpack(">Q", content[len(_MAGIC) : start])
    header = json.loads(content[start : start + length])
    if header["format"] != _FORMAT:
        raise StateError(f"the state has format {header['format']}, this version of confide reads format {_FORMAT}")
    if header["kind"] != kind:
        raise StateError(f"the state is of a {header['kind']}, expected a {kind}")
    if header["generation"] < released:
        raise StateError(
            f"the state is of generation {header['generation']}, but generation {released} was already released: "
            "going on from here would noise the same data twice"
        )
    arrays, at = {}, start + length
    for name, (dtype, shape) in header["arrays"].items():
        if dtype not in _TYPES:
            raise StateError("the state holds an array of an unexpected type")
        count = int(np.prod(shape, dtype=np.int64))
        arrays[name] = np.frombuffer(content, dtype=dtype, count=count, offset=at).reshape(shape).copy()
        at += arrays[name].nbytes
    return State(kind, header["generation"], header["facts"], arrays)


class StateFile:
    """A state on disk, mode 0600, replaced atomically, beside a mark of the newest generation that was ever written.

    `write` returns only when state and mark are on the disk: a release that leaves afterwards is covered. `read` refuses a state
    file that was put back from an older copy.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self._mark = self.path.with_name(self.path.name + ".generation")

    def write(self, data: bytes, generation: int) -> None:
        if generation < self.generation():
            raise StateError(f"generation {generation} is older than the generation {self.generation()} already written")
        _replace(self.path, data)
        _replace(self._mark, str(generation).encode())

    def read(self) -> bytes:
        try:
            return self.path.read_bytes()
        except OSError as error:
            raise StateError(f"cannot read the state file {self.path.name}: {error.strerror}") from None

    def remove(self) -> None:
        """Nothing will be resumed any more."""
        self.path.unlink(missing_ok=True)
        self._mark.unlink(missing_ok=True)

    def generation(self) -> int:
        """The newest generation that was written, and so may have been released; 0 if there is none."""
        try:
            return int(self._mark.read_text())
        except FileNotFoundError:
            return 0
        except (OSError, ValueError):
            raise StateError(f"the file {self._mark.name} beside the state is damaged") from None


def _replace(path: Path, data: bytes) -> None:
    """Write, sync, rename, sync the folder: after a crash the file is either the old one or the new one, whole."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
