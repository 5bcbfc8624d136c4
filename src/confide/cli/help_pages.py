"""Help pages: commands and options stand in panels, and every command has an example.

Typer draws its panels as boxes with three columns, in which 25 characters are left for the text
on a terminal of 80 columns. The pages here have headings and two columns instead. They use
Typer's own `rich_help_panel`, and change nothing but the help.

A command's page consists of its docstring and its parameters. The docstring may end with a
paragraph "Example:" or "Examples:", whose lines are printed as they stand.
"""

import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

# Texts of options begin in this column. A matter of taste: most names fit before it.
TEXT_COLUMN = 26
# With less room than this for a text, it stands below its option instead of beside it.
NARROWEST_TEXT = 24
# Panel of the options that a command does not put into another one.
OTHER_OPTIONS = "Other options"
# These panels come last, in this order.
_LAST_PANELS = ("Output", OTHER_OPTIONS)
_EXAMPLES = re.compile(r"^Examples?:\n", re.MULTILINE)


class CommandLine(typer.Typer):
    """A Typer app whose commands have help pages with panels."""

    def __init__(self, name: str, description: str, panel: str | None = None) -> None:
        super().__init__(
            name=name,
            cls=PanelGroup,
            help=description,
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            rich_markup_mode=None,
            rich_help_panel=panel,
        )

    def add(
        self,
        name: str,
        function: Callable[..., None],
        panel: str | None = None,
        kind: "type[PanelCommand] | None" = None,
    ) -> None:
        """Add a command. `panel` is the heading below which the list of commands has it."""
        self.command(name, cls=kind or PanelCommand, rich_help_panel=panel)(function)


class PanelCommand(TyperCommand):
    """A command whose help page has an example, and its options in panels."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [*_usage_of_arguments(self.get_params(ctx)), "[OPTIONS]"]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        _write_description(formatter, self.help or "")
        _write_parameters(formatter, self.get_params(ctx))


class PanelGroup(TyperGroup):
    """A command with commands, which its help page lists in panels."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self.format_usage(ctx, formatter)
        _write_description(formatter, self.help or "")
        commands = [self.commands[name] for name in self.list_commands(ctx)]
        for title, listed in _by_panel(commands, "Commands").items():
            rows = [(command.name or "", _first_paragraph(command.help)) for command in listed]
            longest_name = max(len(command.name or "") for command in commands)
            _write_panel(formatter, title, rows, text_column=longest_name + 4)
        _write_parameters(formatter, self.get_params(ctx))


def _usage_of_arguments(parameters: Iterable[Any]) -> list[str]:
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    return [value_name(each) if each.required else f"[{value_name(each)}]" for each in arguments]


def examples_of(description: str) -> list[str]:
    """The commands of the examples in a docstring; those of several lines are joined."""
    _, _, examples = _parts(description)
    joined = re.sub(r"\s*\\\n\s*", " ", examples)
    return [line.strip() for line in joined.splitlines() if line.strip().startswith("confide ")]


def _parts(description: str) -> tuple[str, str, str]:
    """A docstring's text, the heading of its examples, and the examples."""
    text = inspect.cleandoc(description)
    heading = _EXAMPLES.search(text)
    if heading is None:
        return text, "", ""
    return text[: heading.start()].strip(), heading[0].strip(), text[heading.end() :]


def _first_paragraph(description: str | None) -> str:
    return " ".join((description or "").split("\n\n")[0].split())


def _write_description(formatter: Any, description: str) -> None:
    text, heading, examples = _parts(description)
    for paragraph in text.split("\n\n"):
        formatter.write("\n")
        for line in _wrap(paragraph, formatter.width - 2):
            formatter.write(f"  {line}\n")
    if heading:
        formatter.write(f"\n{heading}\n")
        formatter.write(textwrap.indent(textwrap.dedent(examples).rstrip(), "  ") + "\n")


def _write_parameters(formatter: Any, parameters: Iterable[Any]) -> None:
    visible = [each for each in parameters if not getattr(each, "hidden", False)]
    arguments = [each for each in visible if each.param_type_name == "argument"]
    options = [each for each in visible if each.param_type_name == "option"]
    rows = [(value_name(each), _explain(each)) for each in arguments]
    if rows:
        _write_panel(formatter, "Arguments", rows, TEXT_COLUMN)
    panels = _by_panel(options, OTHER_OPTIONS)
    if set(panels) == {OTHER_OPTIONS}:
        panels = {"Options": panels[OTHER_OPTIONS]}
    for title in _LAST_PANELS:
        if title in panels:
            panels[title] = panels.pop(title)
    for title, listed in panels.items():
        rows = [(_names(each), _explain(each)) for each in listed]
        _write_panel(formatter, title, rows, TEXT_COLUMN)


def _by_panel(items: Iterable[Any], usual: str) -> dict[str, list[Any]]:
    """Commands or options by panel. A panel stands where its first member does."""
    panels: dict[str, list[Any]] = {}
    for item in items:
        panels.setdefault(getattr(item, "rich_help_panel", None) or usual, []).append(item)
    return panels


def _names(option: Any) -> str:
    """An option's names, and what its value is, such as `--epsilon NUMBER`."""
    names = ", ".join(option.opts)
    if option.secondary_opts:
        return f"{names} / {', '.join(option.secondary_opts)}"
    return names if option.is_flag else f"{names} {value_name(option)}"


def value_name(parameter: Any) -> str:
    """What stands for a value in the help: a word in capital letters, or the choices.

    Numbers need no name of their own. Every other parameter must state one, which a test checks.
    """
    if parameter.metavar is not None:
        return str(parameter.metavar)
    return "NUMBER" if parameter.type_descriptor.annotation in (int, float) else "?"


def _explain(parameter: Any) -> str:
    """The help of a parameter, and its default."""
    notes = []
    if getattr(parameter, "envvar", None):
        notes.append(f"environment: {parameter.envvar}")
    default = _default(parameter)
    if default:
        notes.append(f"default: {default}")
    if parameter.required:
        notes.append("required")
    return " ".join([parameter.help or "", *(f"[{note}]" for note in notes)]).strip()


def _default(parameter: Any) -> str:
    """The default in words, with the thousands of numbers separated; empty if none is shown."""
    value = parameter.default
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    if value is None or value == "" or not parameter.show_default or callable(value):
        return ""
    if isinstance(value, bool):
        names = parameter.opts if value else parameter.secondary_opts
        return str(names[0]) if parameter.secondary_opts else ""
    if isinstance(value, int):
        return f"{value:,}"
    # Python writes 1e-05.
    return re.sub(r"e-0(\d)$", r"e-\1", f"{value:g}") if isinstance(value, float) else str(value)


def _write_panel(formatter: Any, title: str, rows: list[tuple[str, str]], text_column: int) -> None:
    formatter.write(f"\n{title}:\n")
    beside = formatter.width - text_column >= NARROWEST_TEXT
    indent = " " * (text_column if beside else 6)
    for name, text in rows:
        lines = _wrap(text, max(formatter.width - len(indent), NARROWEST_TEXT // 2))
        if beside and lines and len(name) + 4 <= text_column:
            formatter.write(f"  {name:<{text_column - 2}}{lines.pop(0)}\n")
        else:
            formatter.write(f"  {name}\n")
        for line in lines:
            formatter.write(f"{indent}{line}\n")


def _wrap(text: str, width: int) -> list[str]:
    """The lines of a text. Names such as --max-steps are not divided."""
    return textwrap.wrap(text, width, break_on_hyphens=False, break_long_words=False)
