"""Identities: what names a value in a ledger, a saved state, a message and a seed of fast noise.

An identity is written from explicit facts: a kind, a version and named values. Nothing in it is
read off the code, so a class, a field or a module can be renamed and the identity stays the same.
The version grows when the meaning of the values changes.
"""

import hashlib
import struct
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from confide.errors import InvalidParameter

if TYPE_CHECKING:
    import numpy as np


class Identity:
    """A kind, a version, and named values.

    Values are None, numbers, text, bytes, arrays, lists and mappings of these, other identities,
    and objects with an `identity()`. Numbers keep all their bits.
    """

    __slots__ = ("kind", "values", "version")

    def __init__(self, kind: str, version: int = 1, /, **values: Any) -> None:
        self.kind = kind
        self.version = version
        self.values = values

    def identity(self) -> "Identity":
        """An identity can stand among the values of another one."""
        return self

    def digest(self) -> str:
        """16 hexadecimal digits, the same in every process and in every version of confide."""
        hash = hashlib.sha256(b"confide-identity/1")
        for part in _parts(self):
            hash.update(part)
        return hash.hexdigest()[:16]

    def to_json(self) -> dict[str, Any]:
        """The kind and the values, if all of them are plain numbers and text."""
        for name, value in self.values.items():
            if not isinstance(value, bool | int | float | str | None):
                raise InvalidParameter.of(name, "must be a number or text to be written as JSON")
        return {"kind": self.kind, "version": self.version, **self.values}


class Identified(Protocol):
    """What has an identity."""

    def identity(self) -> Identity: ...


def identify(*values: Any) -> str:
    """16 hexadecimal digits that name these values together."""
    return Identity("values", 1, values=values).digest()


def _parts(value: Any) -> Iterator[bytes]:
    """The value in bytes, piece by piece.

    Each piece says its type and its length, so different values never give the same bytes. Ledger
    ids and seeds are made from them: existing cases must stay as they are.
    """
    import numpy as np

    match value:
        case None:
            yield b"none;"
        case bool() | np.bool_():
            yield b"true;" if value else b"false;"
        case int() | np.integer():
            yield f"int {int(value)};".encode()
        case float() | np.floating():
            yield b"float " + struct.pack(">d", float(value))
        case str():
            text = value.encode()
            yield f"text {len(text)} ".encode() + text
        case bytes():
            yield f"bytes {len(value)} ".encode() + value
        case np.ndarray():
            yield from _array_parts(value)
        case range():
            yield f"range {value.start} {value.stop} {value.step};".encode()
        case list() | tuple():
            yield f"list {len(value)} ".encode()
            for item in value:
                yield from _parts(item)
        case Mapping():
            yield f"mapping {len(value)} ".encode()
            for name in sorted(value):
                yield from _parts(name)
                yield from _parts(value[name])
        case Identity():
            yield b"identity "
            yield from _parts(value.kind)
            yield from _parts(value.version)
            yield from _parts(value.values)
        case _:
            yield from _parts(identity_of(value))


def _array_parts(value: "np.ndarray[Any, Any]") -> Iterator[bytes]:
    if value.dtype.kind not in "biuf":
        raise InvalidParameter(f"an array of {value.dtype} has no identity: only numbers have one")
    plain = value.astype(value.dtype.newbyteorder("<"), copy=False)
    yield f"array {value.dtype.kind}{value.dtype.itemsize} {value.shape};".encode()
    yield plain.tobytes()


def identity_of(value: Any) -> Identity:
    """The identity of an object, which must say it itself."""
    write_identity = getattr(value, "identity", None)
    identity = write_identity() if callable(write_identity) else None
    if not isinstance(identity, Identity):
        raise InvalidParameter(
            f"{type(value).__name__} must have a method identity() that returns an Identity, "
            "because it is a part of what is saved, sent or charged"
        )
    return identity
