"""The public surface of an agent: what somebody who holds it can read, or call without arguments.

It is found by inspection. What is private by contract is declared by the agent, with the reason (`private`), or is of a type of the
library that holds private state. Nothing is left out silently: whatever is not compared has its reason in the result.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from confide.audit.canonical import canonical
from confide.audit.tape import TapedSource
from confide.learning.client import LocalClient
from confide.learning.share_client import ShareClient
from confide.learning.share_server import ShareServer
from confide.mechanisms.counters.counter import Counter
from confide.mechanisms.sources import FastSource, SecureSource
from confide.mechanisms.state import StateFile
from confide.privatizers import (
    CentralPrivatizer,
    DistributedPrivatizer,
    LocalPrivatizer,
    LocalRoundsPrivatizer,
    RoundsPrivatizer,
    SharedBudget,
)

# A replay calls these itself, at the right moment, and compares what they give on channels of their own.
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
# A service calls these methods with arguments that depend on nobody's data. `assign` draws at random without one.
ARGUMENTS: Mapping[str, tuple[tuple[Any, ...], ...]] = {
    "assign": ((0,), (2**127,), (2**128 - 1,)),
    "publish": (("run",),),
}
_HOLD_PRIVATE_STATE = {
    "a source of noise, which is private": (TapedSource, FastSource, SecureSource),
    "it holds exact sums, and its releases are compared": (
        CentralPrivatizer,
        LocalPrivatizer,
        LocalRoundsPrivatizer,
        DistributedPrivatizer,
        RoundsPrivatizer,
        SharedBudget,
        Counter,
        ShareServer,
    ),
    "a device, whose messages are compared": (LocalClient, ShareClient),
    "a file of private state": (StateFile,),
}
# So many elements of an endless iterator are compared.
_MOST_ELEMENTS = 1000


class Surface:
    """Reads the public surface of one agent again and again, and remembers what it leaves out."""

    def __init__(self, agent: Any) -> None:
        self._agent = agent
        # Why members are not compared, by name.
        self.left_out: dict[str, str] = {}

    def read(self) -> Iterator[tuple[str, bytes]]:
        """The name and the bytes of every public attribute and property, and of every result of a method."""
        declared = self._declared()
        for name in sorted(name for name in dir(self._agent) if not name.startswith("_")):
            if name in declared:
                self.left_out[name] = f"private by contract: {declared[name]}"
                continue
            value = _result(lambda name=name: getattr(self._agent, name))
            if not inspect.isroutine(value):
                yield from self._compared(name, value)
            elif name not in REPLAYED:
                for given in self._arguments(name, value):
                    yield from self._compared(f"{name}()", _result(value, *given))

    def _declared(self) -> dict[str, str]:
        given = getattr(self._agent, "private", {})
        return (
            {str(name): str(why) for name, why in given.items()}
            if isinstance(given, Mapping)
            else {}
        )

    def _arguments(self, name: str, method: Callable[..., Any]) -> tuple[tuple[Any, ...], ...]:
        """With what a method is called; with nothing if it cannot be."""
        if name in ARGUMENTS:
            return ARGUMENTS[name]
        try:
            parameters = inspect.signature(method).parameters.values()
        except (TypeError, ValueError):
            self.left_out[f"{name}()"] = "it does not say which arguments it needs"
            return ()
        optional = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
        needed = [
            each.name
            for each in parameters
            if each.default is each.empty and each.kind not in optional
        ]
        if needed:
            self.left_out[f"{name}()"] = f"it needs arguments: {', '.join(needed)}"
            return ()
        return ((),)

    def _compared(self, name: str, value: Any) -> Iterator[tuple[str, bytes]]:
        for why, kinds in _HOLD_PRIVATE_STATE.items():
            if isinstance(value, kinds):
                self.left_out[name] = why
                return
        if inspect.isgenerator(value):
            value = list(islice(value, _MOST_ELEMENTS))
        yield name, canonical(value)


def _result(function: Callable[..., Any], *given: Any) -> Any:
    """What a reader gets: a value, or an error in its own words."""
    try:
        return function(*given)
    except Exception as error:
        return type(error).__qualname__, str(error)
