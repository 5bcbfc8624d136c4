"""Bytes of any value, the same for equal values: what two runs publish is compared by them."""

import enum
import functools
import hashlib
import pickle
import re
import types
from collections.abc import Iterable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_PLAIN = (type(None), bool, int, float, complex, str, bytes, enum.Enum)


def canonical(value: Any) -> bytes:
    """A digest of everything in a value: arrays by their bytes, objects by all their attributes, functions by their code and what they
    enclose. Two values with the same digest are the same to whoever reads them; addresses in memory are left out."""
    return _digest(value, frozenset())


def _digest(value: Any, above: frozenset[int]) -> bytes:
    if id(value) in above and not isinstance(value, _PLAIN):
        return b"a cycle"
    found = hashlib.blake2b(type(value).__qualname__.encode(), digest_size=16)
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        array = np.asarray(value)
        found.update(
            f"{array.dtype.str}{array.shape}".encode() + np.ascontiguousarray(array).tobytes()
        )
        return found.digest()
    if isinstance(value, _PLAIN):
        found.update(repr(value).encode())
        return found.digest()
    inside = above | {id(value)}
    parts = [_digest(part, inside) for part in _parts(value)]
    if isinstance(value, set | frozenset | Mapping):
        parts = [b"".join(pair) for pair in _pairs(parts)] if isinstance(value, Mapping) else parts
        parts.sort()
    for part in parts:
        found.update(len(part).to_bytes(4, "big") + part)
    return found.digest()


def _pairs(parts: list[bytes]) -> Iterable[tuple[bytes, bytes]]:
    return zip(parts[::2], parts[1::2], strict=True)


def _parts(value: Any) -> list[Any]:
    """What a value consists of, in an order that is the same in every run."""
    if isinstance(value, np.ndarray):  # of objects
        return [value.shape, *value.ravel().tolist()]
    if isinstance(value, Mapping):
        return [part for pair in value.items() for part in pair]
    if isinstance(value, list | tuple | set | frozenset):
        return list(value)
    if isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
        return [getattr(value, "__module__", ""), getattr(value, "__qualname__", value.__name__)]
    if isinstance(value, np.random.Generator):
        return [dict(value.bit_generator.state)]
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if isinstance(value, types.MethodType):
        return [value.__func__, value.__self__]
    function = getattr(value, "py_func", value)  # of a compiled one
    if isinstance(function, types.FunctionType):
        return _function(function)
    return _attributes(value)


def _function(function: types.FunctionType) -> list[Any]:
    code = function.__code__
    constants = [
        each.co_code if isinstance(each, types.CodeType) else each for each in code.co_consts
    ]
    enclosed = [cell.cell_contents for cell in function.__closure__ or ()]
    return [
        function.__module__,
        function.__qualname__,
        code.co_code,
        constants,
        function.__defaults__,
        enclosed,
    ]


def _attributes(value: Any) -> list[Any]:
    kinds = type(value).__mro__
    slots = [
        name
        for kind in kinds
        for name in _names(getattr(kind, "__slots__", ()))
        if name not in ("__dict__", "__weakref__")
    ]
    own = list(vars(value)) if hasattr(value, "__dict__") else []
    listed = [field.name for field in fields(value)] if is_dataclass(value) else []
    names = sorted({*slots, *own, *listed})
    found: list[Any] = [(name, getattr(value, name)) for name in names if hasattr(value, name)]
    return found or [_opaque(value)]


def _opaque(value: Any) -> Any:
    """What has no attributes that can be seen: as it would be saved, else in its own words, without its address."""
    try:
        return pickle.dumps(value)
    except Exception:
        return re.sub(r" at 0x[0-9a-f]+", "", repr(value))


def _names(slots: Any) -> Iterable[str]:
    return (slots,) if isinstance(slots, str) else slots
