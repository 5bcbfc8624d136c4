"""Commands whose options are declared by the estimators, which are imported only when such a command is used."""

import inspect
from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

if TYPE_CHECKING:
    from confide.evaluation.options import Declared


class EstimatorCommand(TyperCommand):
    """A command with the options of all estimators. `context.obj` has the values that were given, by name."""

    planned = False

    def get_params(self, ctx: Any) -> list[Any]:
        *own, help_option = super().get_params(ctx)
        return [*own, *declared_options(self.planned), help_option]

    def invoke(self, ctx: Any) -> Any:
        given = {
            option.name: ctx.params.pop(option.name) for option in declared_options(self.planned)
        }
        # A flag that was not given is left to the estimator.
        ctx.obj = {name: None if value is False else value for name, value in given.items()}
        return super().invoke(ctx)


class PlannedEstimatorCommand(EstimatorCommand):
    """The same for the estimators whose error can be predicted."""

    planned = True


@cache
def declared_options(planned: bool) -> Sequence[Any]:
    from confide.evaluation.catalogue import options_by_estimator

    by_name: dict[str, dict[str, Declared]] = {}
    for estimator, options in options_by_estimator(planned=planned).items():
        for name, option in options.items():
            by_name.setdefault(name, {})[estimator] = option

    def command(**_: Any) -> None:
        """Typer reads its options from a signature."""

    parameters = [_parameter(name, declared) for name, declared in by_name.items()]
    signature = inspect.Signature(parameters)
    command.__signature__ = signature  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in parameters}
    app = typer.Typer(add_completion=False)
    app.command()(command)
    return typer.main.get_command(app).params


def _parameter(name: str, declared: "dict[str, Declared]") -> inspect.Parameter:
    first = next(iter(declared.values()))
    option = typer.Option(
        help=_help(declared), min=first.option.at_least, show_default=first.default or False
    )
    flag = first.type is bool
    if flag:
        option = typer.Option("--" + name.replace("_", "-"), help=_help(declared))
    annotation: Any = Annotated[first.type if flag else first.type | None, option]
    default = False if flag else None
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def _help(declared: "dict[str, Declared]") -> str:
    """What the option is for each estimator that has it."""
    estimators: dict[str, list[str]] = {}
    for estimator, each in declared.items():
        estimators.setdefault(each.option.help, []).append(estimator)
    return "; ".join(f"{', '.join(names)}: {text}" for text, names in estimators.items()) + "."
