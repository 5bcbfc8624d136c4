"""Groups of options: a command takes dataclasses whose fields are options, instead of many parameters."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from typing import Any


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer reads it: one parameter for each option, in the order of the groups.

    A parameter whose annotation is a dataclass is a group. Its fields are options, and the command
    gets an object of it.
    """
    groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        kind = parameter.annotation
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = (kind, [option.name for option in fields(kind)])
            parameters += map(_parameter, fields(kind))
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def called_with_options(**values: Any) -> None:
        for name, (group, options) in groups.items():
            values[name] = group(**{option: values.pop(option) for option in options})
        command(**values)

    signature = inspect.Signature(parameters)
    called_with_options.__signature__ = signature  # type: ignore[attr-defined]
    called_with_options.__annotations__ = {each.name: each.annotation for each in parameters}
    return called_with_options


def _parameter(option: "Field[Any]") -> inspect.Parameter:
    default = inspect.Parameter.empty if option.default is MISSING else option.default
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(option.name, kind, default=default, annotation=option.type)
