"""Bytes of any value, the same for equal values: what two runs publish is compared by them.

A digest must not leave out anything that somebody can read, otherwise an agent could leak there.
What cannot be read is reported, never ignored. Digests are compared within one process and are not
stored.
"""

import contextlib
import copy
import copyreg
import functools
import hashlib
import io
import re
import struct
import sys
import types
import weakref
from collections.abc import ItemsView, Iterator, KeysView, Mapping, ValuesView
from itertools import islice
from typing import Any

import numpy as np

_PLAIN = (str, bytes, int, float, complex)
_EXACT = {type(None), bool, *_PLAIN}
# Numbers and names of at most so many bytes stand for themselves, because most values are of this
# kind.
_SHORT = 40
# Iterators may be endless: so many elements of each are compared.
MOST_ELEMENTS = 1000
# Classes of these packages do not change while an agent runs, so their names are enough.
_LIBRARIES = {*sys.stdlib_module_names, "confide", "numpy", "scipy", "numba"}
# A flag of CPython. Classes without it are written in C and cannot be made at run time.
_MADE_IN_PYTHON = 1 << 9
# What `functools.lru_cache` makes of a function.
_CACHED_FUNCTION = functools._lru_cache_wrapper
_IN_EVERY_CLASS = {"__dict__", "__weakref__", "__module__", "_abc_impl"}


def canonical(value: Any, unread: dict[str, str] | None = None) -> bytes:
    """A digest of everything in a value.

    It covers arrays by their bytes, objects by all their attributes, functions by their code and
    what they enclose, iterators by their first elements, and coroutines by their result. Two values
    with the same digest are the same to whoever reads them, except for addresses in memory and for
    the parts that are added to `unread`, with the reason why they cannot be compared.
    """
    return _Reader({} if unread is None else unread).digest(value, frozenset())


def words_of(error: BaseException) -> list[tuple[str, str]]:
    """What is printed of an error: its kind, its text and its notes.

    Those of the errors that led to it follow.
    """
    printed: list[tuple[str, str]] = []
    current: BaseException | None = error
    while current is not None and len(printed) < MOST_ELEMENTS:
        text = "\n".join([str(current), *getattr(current, "__notes__", ())])
        printed.append((type(current).__qualname__, text))
        current = _error_before(current)
    return printed


def _error_before(error: BaseException) -> BaseException | None:
    """The error that is printed before this one, if there is one."""
    if error.__cause__ is not None or error.__suppress_context__:
        return error.__cause__
    return error.__context__


class _Unordered(list[Any]):
    """Parts that have no order."""


class _Reader:
    """Reads one value."""

    def __init__(self, unread: dict[str, str]) -> None:
        self._unread = unread
        # Classes that were read, with their digests. They are kept, so that no other class gets the
        # same id.
        self._classes: dict[int, tuple[type, bytes]] = {}

    def digest(self, value: Any, above: frozenset[int]) -> bytes:
        """Bytes that say what a value is. `above` are the ids of objects that it is a part of."""
        kind = type(value)
        if kind in _EXACT:
            return _plain_digest(value)
        value = _stand_in(value)
        kind = type(value)
        if (kind is np.ndarray or issubclass(kind, np.generic)) and not value.dtype.hasobject:
            return self._array_digest(value, above)
        if issubclass(kind, type):
            return self._class_digest(value)
        if id(value) in above:
            return b"a cycle"
        inside = above | {id(value)}
        digests = [self.digest(part, inside) for part in self._parts(value)]
        if kind is _Unordered:
            digests.sort()
        if not _of_a_library(kind):
            digests.append(self._class_digest(kind))
        return _hash(kind, *digests)

    def _array_digest(self, value: Any, above: frozenset[int]) -> bytes:
        """An array by its bytes, its layout, and all of what it is a view of."""
        array = np.asarray(value)
        dtype = array.dtype.str if array.dtype.names is None else str(array.dtype)
        flags = array.flags
        layout = flags.c_contiguous, flags.f_contiguous, flags.writeable
        shape = f"{dtype}{array.shape}{layout}{_notes_of(array.dtype)}".encode()
        inside = above | {id(value)}
        bases = [
            self.digest(base, inside) for base in _arrays_below(value) if id(base) not in inside
        ]
        return _hash(type(value), shape + np.ascontiguousarray(array).tobytes(), *bases)

    def _class_digest(self, kind: type) -> bytes:
        """A class of a library by its name, any other class by all its members."""
        if _of_a_library(kind):
            return _hash(type, kind.__module__.encode(), kind.__qualname__.encode())
        if id(kind) not in self._classes:
            self._classes[id(kind)] = kind, b"a class that refers to itself"
            members = {
                name: member for name, member in vars(kind).items() if name not in _IN_EVERY_CLASS
            }
            parts = [kind.__module__, kind.__qualname__, type(kind), kind.__bases__, members]
            self._classes[id(kind)] = kind, self.digest(parts, frozenset())
        return self._classes[id(kind)][1]

    def _parts(self, value: Any) -> list[Any]:
        """What a value consists of, in an order that is the same in every run."""
        kind = type(value)
        if kind is tuple or kind is list:
            return list(value)
        attributes = _attributes(value)
        try:
            content = self._content(value)
        except Exception as error:
            content = [type(error).__qualname__, str(error)]
        if content is None and (not attributes or _says_how_it_is_saved(value)):
            content = self._saved_form(value, attributes)
        return [*(content or ()), *attributes, len(attributes)] if attributes else content or []

    def _content(self, value: Any) -> list[Any] | None:
        """What is inside an object besides its attributes, if its type holds other objects."""
        kind = type(value)
        for plain in _PLAIN:
            if issubclass(kind, plain):
                return [plain.__repr__(value)]
        if issubclass(kind, np.ndarray):
            array = np.asarray(value)
            return [array] if not array.dtype.hasobject else [array.shape, array.ravel().tolist()]
        if issubclass(kind, memoryview):
            return [value.format, value.shape, value.tobytes(), value.obj]
        if issubclass(kind, Mapping):
            items = list(dict.items(value) if issubclass(kind, dict) else value.items())
            # The factory makes the values of keys that are missing.
            return [items, getattr(value, "default_factory", None)]
        if issubclass(kind, BaseException):
            return [*(self._saved_form(value, []) or ()), _error_before(value)]
        if isinstance(value, _CACHED_FUNCTION):
            return [self._function_of_cache(value)]
        if issubclass(kind, set | frozenset):
            return [_Unordered(value)]
        for ordered in (list, tuple):
            if issubclass(kind, ordered):
                return list(ordered.__iter__(value))
        if issubclass(kind, KeysView | ValuesView | ItemsView):
            return list(value)
        return self._content_to_run(value)

    def _function_of_cache(self, cached: Any) -> Any:
        """The function behind a cache, whose content nobody can read."""
        function = cached.__wrapped__
        is_own = str(function.__module__).partition(".")[0] not in _LIBRARIES
        if is_own and cached.cache_info().currsize:
            self._unread[f"the cache of {function.__qualname__}"] = "its content cannot be read"
        return function

    def _content_to_run(self, value: Any) -> list[Any] | None:
        """What coroutines and iterators give. Other objects are code."""
        kind = type(value)
        if issubclass(kind, types.CoroutineType):
            return self._result(value)
        if issubclass(kind, types.AsyncGeneratorType):
            return self._elements(value, self._awaited_elements(value))
        if issubclass(kind, Iterator) and not issubclass(kind, io.IOBase):
            return self._elements(value, _copy_if_possible(value))
        return _of_code(value)

    def _elements(self, value: Any, elements: Iterator[Any]) -> list[Any]:
        """The first elements of an iterator, up to an error that it raises."""
        first: list[Any] = []
        try:
            first.extend(islice(elements, MOST_ELEMENTS))
            if len(first) == MOST_ELEMENTS:
                first += islice(elements, 1)
        except Exception as error:
            first.append((type(error).__qualname__, str(error)))
        if len(first) > MOST_ELEMENTS:
            self._unread[f"later elements of a {type(value).__qualname__}"] = (
                f"only the first {MOST_ELEMENTS} were compared"
            )
        return first

    def _awaited_elements(self, generator: types.AsyncGeneratorType[Any, Any]) -> Iterator[Any]:
        while element := self._result(generator.__anext__()):
            yield element[0]

    def _result(self, awaitable: Any) -> list[Any]:
        """The result of a coroutine that waits for nothing.

        There is no event loop, so any other coroutine is not run to its end.
        """
        try:
            awaitable.send(None)
        except StopIteration as end:
            return [end.value]
        except StopAsyncIteration:
            return []
        except RuntimeError:
            # It asks for the event loop.
            self._unread["a coroutine"] = "it waits for something else"
            raise
        self._unread["a coroutine"] = "it waits for something else"
        return []

    def _saved_form(self, value: Any, attributes: list[Any]) -> list[Any] | None:
        """What would be saved of an object, one level deep.

        An object that cannot be saved and has no attributes is opaque.
        """
        try:
            reduce = copyreg.dispatch_table.get(type(value))
            saved = reduce(value) if reduce else value.__reduce_ex__(4)
        except Exception as error:
            if attributes:
                return [type(error).__qualname__, str(error)]
            kind = type(value)
            self._unread[f"a {kind.__qualname__}"] = "its content cannot be read"
            return [re.sub(r" at 0x[0-9a-f]+", "", repr(value))]
        if isinstance(saved, str):
            return [saved]
        function, arguments, state, *iterators = (*saved, None, None, None)[:5]
        state = None if state is getattr(value, "__dict__", None) else state
        return [function, arguments, state, *(list(elements or ()) for elements in iterators)]


def _plain_digest(value: Any) -> bytes:
    """A number, a text or None."""
    kind = type(value)
    if kind is float and value != value:
        # A NaN has room for a number, which its text does not show.
        return b"float " + struct.pack("<d", value)
    text = f"{kind.__name__} {value!r}".encode()
    return text if len(text) <= _SHORT else _hash(kind, text)


def _hash(kind: type, *parts: bytes) -> bytes:
    digest = hashlib.blake2b(kind.__qualname__.encode(), digest_size=16)
    for part in parts:
        digest.update(len(part).to_bytes(4, "big") + part)
    return digest.digest()


def _of_a_library(kind: type) -> bool:
    """Whether a class cannot change while an agent runs.

    It is written in C, or is found by its name in a package that does not change.
    """
    if not kind.__flags__ & _MADE_IN_PYTHON:
        return True
    module = kind.__module__
    if not isinstance(module, str) or module.partition(".")[0] not in _LIBRARIES:
        return False
    named: Any = sys.modules.get(module)
    for name in kind.__qualname__.split("."):
        named = getattr(named, name, None)
    return named is kind


def _stand_in(value: Any) -> Any:
    """What is read in the place of a value.

    An imported module is known by its name, a compiled function by the function that was compiled.
    """
    kind = type(value)
    if issubclass(kind, types.ModuleType):
        name = value.__name__
        return f"module {name}" if sys.modules.get(name) is value else value
    if str(kind.__module__).startswith("numba.") and _of_a_library(kind):
        return getattr(value, "py_func", value)
    return value


def _of_code(value: Any) -> list[Any] | None:
    """Functions, and what refers to functions and objects."""
    kind = type(value)
    if issubclass(kind, types.FunctionType):
        return _function(value)
    if issubclass(kind, types.CodeType):
        return [value.co_code, value.co_names, value.co_varnames, value.co_consts]
    if issubclass(kind, types.MethodType):
        return [value.__func__, value.__self__]
    if issubclass(kind, types.BuiltinFunctionType):
        return [value.__module__, value.__qualname__, value.__self__]
    if issubclass(kind, functools.partial):
        return [value.func, value.args, value.keywords]
    if issubclass(kind, property):
        return [value.fget, value.fset, value.fdel]
    if issubclass(kind, functools.cached_property):
        return [value.func]
    if issubclass(kind, types.CellType):
        return [value.cell_contents]
    if issubclass(kind, weakref.ReferenceType):
        return [value()]
    if issubclass(kind, types.GetSetDescriptorType | types.MemberDescriptorType):
        return [value.__qualname__]
    if issubclass(kind, np.random.Generator):
        # The state does not say how many generators were spawned, and the next one depends on it.
        spawned = getattr(value.bit_generator.seed_seq, "n_children_spawned", 0)
        return [dict(value.bit_generator.state), spawned]
    return None


def _function(function: types.FunctionType) -> list[Any]:
    code = function.__code__
    module = sys.modules.get(function.__module__ or "")
    own_globals = function.__globals__ is not getattr(module, "__dict__", None)
    return [
        function.__module__,
        function.__qualname__,
        code,
        function.__defaults__,
        function.__kwdefaults__,
        function.__closure__,
        function.__doc__,
        function.__annotations__,
        [function.__globals__.get(name) for name in code.co_names] if own_globals else [],
    ]


def _arrays_below(array: Any) -> list[Any]:
    """What a view is a part of, because whoever has the view can read all of it."""
    below = getattr(array, "base", None)
    return [below] if isinstance(below, np.ndarray | bytes | bytearray | memoryview) else []


def _notes_of(dtype: np.dtype[Any]) -> str:
    return repr(sorted(map(repr, dtype.metadata.items()))) if dtype.metadata else ""


def _attributes(value: Any) -> list[Any]:
    """All attributes with their names, of slots too.

    What a cached property keeps beside them is one of them.
    """
    kind = type(value)
    if issubclass(kind, functools.cached_property):
        return []
    slots = {
        name: slot
        for parent in kind.__mro__
        if "__slots__" in vars(parent)
        for name, slot in vars(parent).items()
        if isinstance(slot, types.MemberDescriptorType)
    }
    attributes = dict(vars(value)) if hasattr(value, "__dict__") else {}
    for name, slot in slots.items():
        with contextlib.suppress(AttributeError):
            attributes[name] = slot.__get__(value)
    return [part for name in sorted(attributes, key=str) for part in (name, attributes[name])]


def _says_how_it_is_saved(value: Any) -> bool:
    return any(
        "__reduce__" in vars(parent) or "__reduce_ex__" in vars(parent)
        for parent in type(value).__mro__[:-1]
    )


def _copy_if_possible(iterator: Iterator[Any]) -> Iterator[Any]:
    """A copy where there can be one, so that whoever made the iterator can go on with it."""
    try:
        return iter(copy.copy(iterator))
    except Exception:
        return iterator
