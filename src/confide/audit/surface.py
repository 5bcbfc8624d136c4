"""The public surface of an agent: what somebody who holds it can read, or call without arguments.

It is found by inspection (`_public_names`). What is private by contract is declared by the agent,
with the reason (`private`), or is of a type of the library that holds private state. Nothing is
left out silently: whatever is not compared has its reason in the result.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from confide.audit.canonical import canonical, words_of
from confide.audit.tape import TapedSource
from confide.learning.client import LocalClient
from confide.learning.share_client import ShareClient
from confide.learning.share_server import ShareServer
from confide.mechanisms.counters.counter import Counter
from confide.mechanisms.sources import FastSource, SecureSource
from confide.mechanisms.state import StateFile
from confide.privatizers import Batches, SharedBudget

# A replay calls these itself, at the right moment, and compares what they give on channels of their
# own.
REPLAYED = {
    "next_batch": "policies and schedule",
    "close": "releases",
    "client": "messages",
    "channel": "messages",
    "observe": "the data come in here",
    "observe_crowd": "the data come in here",
    "absorb": "messages",
    "decoded": "messages",
}
# A service calls these methods with arguments that do not depend on anybody's data. Without an
# argument, `assign` would draw at random.
ARGUMENTS: Mapping[str, tuple[tuple[Any, ...], ...]] = {
    "assign": ((0,), (2**127,), (2**128 - 1,)),
    "publish": (("run",),),
    # What Python calls with an argument. Other arguments are not tried, and this is listed.
    "__getattr__": (("a_name_that_it_lacks",),),
    "__getitem__": ((0,), (1,), (-1,)),
}
# Special methods that make, copy or end an agent. Nobody calls them to read it.
_LIFE_CYCLE = {
    "__new__",
    "__init__",
    "__post_init__",
    "__init_subclass__",
    "__class_getitem__",
    "__subclasshook__",
    "__enter__",
    "__exit__",
    "__aenter__",
    "__aexit__",
    "__del__",
    "__copy__",
    "__deepcopy__",
    "__replace__",
    "__reduce__",
    "__reduce_ex__",
    "__getstate__",
    "__setstate__",
    "__getnewargs__",
    "__getnewargs_ex__",
    "__annotate_func__",
}
_HOLD_PRIVATE_STATE = {
    "a source of noise, which is private": (TapedSource, FastSource, SecureSource),
    "it holds exact sums, and its releases are compared": (
        Batches,
        SharedBudget,
        Counter,
        ShareServer,
    ),
    "a device, whose messages are compared": (LocalClient, ShareClient),
    "a file of private state": (StateFile,),
}


class Surface:
    """Reads the public surface of one agent again and again, and remembers what it leaves out."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        # Why members are not compared, by name.
        self.left_out: dict[str, str] = {}

    def read(self) -> Iterator[tuple[str, bytes]]:
        """The name and the bytes of every public attribute, property, and result of a method."""
        declared = self._declared_private()
        for name in _public_names(self._agent):
            if name in declared:
                self.left_out[name] = f"private by contract: {declared[name]}"
                continue
            value = _result_or_error(lambda name=name: getattr(self._agent, name))
            if not inspect.isroutine(value) and not isinstance(value, functools.partial):
                yield from self._digest(name, value)
            elif name not in REPLAYED:
                for arguments in self._arguments(name, value):
                    yield from self._digest(f"{name}()", _result_or_error(value, *arguments))

    def _declared_private(self) -> dict[str, str]:
        declared = getattr(self._agent, "private", {})
        if not isinstance(declared, Mapping):
            return {}
        return {str(name): str(why) for name, why in declared.items()}

    def _arguments(self, name: str, method: Callable[..., Any]) -> tuple[tuple[Any, ...], ...]:
        """The arguments of each call of a method. There is no call if it needs arguments."""
        if name in ARGUMENTS:
            if name.startswith("__"):
                tried = ", ".join(repr(each) for (each,) in ARGUMENTS[name])
                self.left_out[f"{name}() with other arguments"] = f"it was called with {tried} only"
            return ARGUMENTS[name]
        try:
            parameters = inspect.signature(method).parameters.values()
        except (TypeError, ValueError):
            self.left_out[f"{name}()"] = "it does not say which arguments it needs"
            return ()
        optional = [parameter.name for parameter in parameters if _is_optional(parameter)]
        needed = [parameter.name for parameter in parameters if not _is_optional(parameter)]
        if needed:
            self.left_out[f"{name}()"] = f"it needs arguments: {', '.join(needed)}"
            return ()
        if optional:
            self.left_out[f"{name}() with other arguments"] = (
                f"it was called without {', '.join(optional)}"
            )
        return ((),)

    def _digest(self, name: str, value: Any) -> Iterator[tuple[str, bytes]]:
        """The name with the digest of the value, unless the value holds private state."""
        for why, kinds in _HOLD_PRIVATE_STATE.items():
            if isinstance(value, kinds):
                self.left_out[name] = why
                return
        if value is self._agent:
            value = "the agent itself"
        if isinstance(value, str):
            value = without_address(value, self._agent)
        unread: dict[str, str] = {}
        digest = canonical(value, unread)
        self.left_out |= {f"{part} in {name}": why for part, why in unread.items()}
        yield name, digest


def without_address(text: str, agent: Any) -> str:
    """What an agent says about itself, without its address in memory.

    The text of any object has its address by default.
    """
    return text.replace(f"{id(agent):x}", "")


def _public_names(agent: Any) -> list[str]:
    """All names that somebody may read.

    These are the names without an underscore, also if `__dir__` does not list them, and the special
    methods that Python calls for str(agent), repr(agent), len(agent), iter(agent) and the like, if
    a class of the agent defines them.
    """
    listed = _result_or_error(lambda: list(dir(agent)))
    names = {*object.__dir__(agent), *listed}
    public = {name for name in names if isinstance(name, str) and not name.startswith("_")}
    special = {
        name
        for kind in type(agent).__mro__[:-1]
        for name, member in vars(kind).items()
        if name.startswith("__") and name.endswith("__") and _is_read(name, member)
    }
    return sorted(public | special)


def _is_read(name: str, member: Any) -> bool:
    return name not in _LIFE_CYCLE and (inspect.isroutine(member) or isinstance(member, property))


def _is_optional(parameter: inspect.Parameter) -> bool:
    return parameter.default is not parameter.empty or parameter.kind in (
        parameter.VAR_POSITIONAL,
        parameter.VAR_KEYWORD,
    )


def _result_or_error(function: Callable[..., Any], *arguments: Any) -> Any:
    """What a reader gets: a value, or an error in its own words."""
    try:
        return function(*arguments)
    except Exception as error:
        return words_of(error)
