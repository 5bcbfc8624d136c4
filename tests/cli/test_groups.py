"""Groups of options: Typer sees options, and the command gets objects."""

from dataclasses import dataclass
from typing import Annotated

import pytest
import typer
from typer.testing import CliRunner

from confide.cli.groups import with_groups


@dataclass(frozen=True, kw_only=True)
class Size:
    rows: Annotated[int, typer.Option(help="Number of rows.")]
    columns: Annotated[int, typer.Option(help="Number of columns.", min=1)] = 3


@dataclass(frozen=True, kw_only=True)
class WideSize(Size):
    columns: Annotated[int, typer.Option("--width", help="The width.")] = 80


def call(group, *arguments):
    seen = []
    app = typer.Typer(add_completion=False)

    @app.command()
    @with_groups
    def command(name: str, size: group, last: bool = False) -> None:
        seen.append((name, size, last))

    result = CliRunner().invoke(app, arguments)
    return seen, result


def test_a_command_gets_objects_of_its_groups():
    seen, _ = call(Size, "here", "--rows", "2", "--last")
    assert seen == [("here", Size(rows=2, columns=3), True)]
    seen, _ = call(WideSize, "here", "--rows", "2", "--width", "7")
    assert seen == [("here", WideSize(rows=2, columns=7), False)]


@pytest.mark.parametrize(
    "arguments", [("here",), ("here", "--rows", "2", "--columns", "0"), ("here", "--size", "2")]
)
def test_options_of_groups_are_checked(arguments):
    seen, result = call(Size, *arguments)
    assert (seen, result.exit_code) == ([], 2)


def test_help_shows_the_options_of_groups_in_their_order():
    _, result = call(Size, "--help")
    places = [
        result.output.index(each) for each in ("Number of rows", "Number of columns", "--last")
    ]
    assert places == sorted(places)
