"""Groups of options: a command takes dataclasses whose fields are options, not many parameters.

A group may have a class attribute `PANEL`, the heading below which a command's help shows its
options. An option that names another panel (`rich_help_panel`) keeps it.
"""

import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any

from typer.models import OptionInfo


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
            panel: str | None = getattr(kind, "PANEL", None)
            parameters += [_parameter(option, panel) for option in fields(kind)]
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def call_with_groups(**values: Any) -> None:
        for name, (group, options) in groups.items():
            values[name] = group(**{option: values.pop(option) for option in options})
        command(**values)

    signature = inspect.Signature(parameters)
    call_with_groups.__signature__ = signature  # type: ignore[attr-defined]
    call_with_groups.__annotations__ = {each.name: each.annotation for each in parameters}
    return call_with_groups


def _parameter(option: "Field[Any]", panel: str | None) -> inspect.Parameter:
    return inspect.Parameter(
        option.name,
        inspect.Parameter.KEYWORD_ONLY,
        default=inspect.Parameter.empty if option.default is MISSING else option.default,
        annotation=_in_panel(option.type, panel),
    )


def _in_panel(annotation: Any, panel: str | None) -> Any:
    """The annotation of an option, with the panel of its group if it names no other."""
    kind = annotation.__origin__
    metadata = []
    for each in annotation.__metadata__:
        if isinstance(each, OptionInfo) and each.rich_help_panel is None:
            # A copy, because several groups may share the option.
            each = copy(each)
            each.rich_help_panel = panel
        metadata.append(each)
    return Annotated[(kind, *metadata)]
