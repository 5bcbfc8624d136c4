"""Commands whose options are declared by the estimators.

The estimators are imported only when such a command is used.
"""

import inspect
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer

from confide.cli.help_pages import PanelCommand

if TYPE_CHECKING:
    from confide.evaluation.options import Declared

# The heading of a help page below which the options of the estimators stand.
_PANEL = "Options of the estimators"
# The choices of the options that take a name.
_CHOICES = {"shrink": "fixed|empirical-bayes", "calibration": "tight|paper|supplement"}


class EstimatorCommand(PanelCommand):
    """A command with the options of all estimators.

    `context.obj` has the values that were given, by name.
    """

    planned = False

    def get_params(self, ctx: Any) -> list[Any]:
        *own_params, help_option = super().get_params(ctx)
        return [*own_params, *declared_options(self.planned), help_option]

    def invoke(self, ctx: Any) -> Any:
        names = [option.name for option in declared_options(self.planned)]
        values = {name: ctx.params.pop(name) for name in names}
        # A flag that was not given is left to the estimator.
        ctx.obj = {name: None if value is False else value for name, value in values.items()}
        return super().invoke(ctx)


class PlannedEstimatorCommand(EstimatorCommand):
    """The same for the estimators whose error can be predicted."""

    planned = True


@cache
def declared_options(planned: bool) -> Sequence[Any]:
    """The options of all estimators, or of those whose error can be predicted (`planned`)."""
    from confide.evaluation.catalogue import options_by_estimator

    by_option: dict[str, dict[str, Declared]] = {}
    for estimator, options in options_by_estimator(planned=planned).items():
        for name, declared in options.items():
            by_option.setdefault(name, {})[estimator] = declared

    def command(**_: Any) -> None:
        """Typer reads its options from a signature."""

    parameters = [_parameter(name, by_estimator) for name, by_estimator in by_option.items()]
    signature = inspect.Signature(parameters)
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return typer.main.get_command(app).params


def _parameter(name: str, by_estimator: "dict[str, Declared]") -> inspect.Parameter:
    first = next(iter(by_estimator.values()))
    is_flag = first.type is bool
    option = typer.Option(
        *(["--" + name.replace("_", "-")] if is_flag else []),
        metavar=_metavar(first),
        help=_help(by_estimator),
        min=None if is_flag else first.option.at_least,
        show_default=False if is_flag else first.default or False,
        rich_help_panel=_PANEL,
    )
    annotation: Any = Annotated[first.type if is_flag else first.type | None, option]
    default = False if is_flag else None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _metavar(declared: "Declared") -> str | None:
    """What the help shows for a value. Numbers need no name of their own."""
    if declared.option.file == "policy":
        return "POLICY"
    return "FILE" if declared.option.file else _CHOICES.get(declared.parameter)


def _help(by_estimator: "dict[str, Declared]") -> str:
    """What the option means, for each estimator that has it."""
    estimators: dict[str, list[str]] = {}
    for estimator, declared in by_estimator.items():
        estimators.setdefault(declared.option.help, []).append(estimator)
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in estimators.items()) + "."
