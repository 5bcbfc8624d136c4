"""Write docs/reference/commands.md, the reference of the command line.

python scripts/commands_page.py

The page is made from the commands themselves. A test compares it with what this script writes, so
run the script after every change of a command, an option or a help text.
"""

import enum
import inspect
import re
import textwrap
import typing
from pathlib import Path
from typing import Any

import typer
import typer.main

from confide.cli import app

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "commands.md"

INTRODUCTION = """# Commands

This page lists every command of `confide` with its options. It is generated from the code, so it
says the same as `confide COMMAND --help`.

Commands print tables, or JSON with `--json`. Progress is shown on a terminal only. An error is one
line on standard error, with exit code 2. `confide audit` and `confide service verify` end with exit
code 1 if a guarantee is refuted or a check fails.

An agent is a name from `confide list`, or a class of your own as `package.module:Class`. A problem
is a name from `confide list`, the file of a saved problem, or an environment as `gym:ID`.
"""


def page() -> str:
    """The whole page."""
    sections = [INTRODUCTION]
    sections += [command_section(name, command) for name, command in commands()]
    return "\n".join(sections)


def commands() -> list[tuple[str, Any]]:
    """Return all commands in the order of the help, with names such as `confide logs import`."""
    commands_by_name: list[tuple[str, Any]] = []

    def collect(name: str, command: Any) -> None:
        children = getattr(command, "commands", None)
        if children is None:
            commands_by_name.append((name, command))
            return
        for child_name, child in children.items():
            if not child.hidden:
                collect(f"{name} {child_name}", child)

    collect("confide", typer.main.get_command(app))
    return commands_by_name


def command_section(name: str, command: Any) -> str:
    """One command: what it does, how it is called, and a table of options for each panel."""
    # The options of estimators are read from a context, because they are declared elsewhere.
    parameters = command.get_params(typer.Context(command))
    options = [each for each in parameters if each.param_type_name == "option"]
    options = [each for each in options if not each.hidden and each.name != "help"]
    arguments = [each for each in parameters if each.param_type_name == "argument"]
    usage = " ".join([name, *map(argument_usage, arguments), "[OPTIONS]" if options else ""])
    lines = [f"## `{name}`", "", help_text(command.help), "", "```text", usage.rstrip(), "```", ""]
    panels: dict[str, list[Any]] = {}
    for each in [*arguments, *options]:
        if each.param_type_name == "argument":
            panel = "Arguments"
        else:
            panel = getattr(each, "rich_help_panel", None) or "Options"
        panels.setdefault(panel, []).append(each)
    for panel, members in panels.items():
        lines += [f"| {panel.lower()} | what it says | default |", "|---|---|---|"]
        lines += [parameter_row(each) for each in members]
        lines.append("")
    return "\n".join(lines)


def argument_usage(argument: Any) -> str:
    word = (argument.metavar or argument.name).strip("{}[]")
    word = word.removesuffix("...").upper() + ("..." if argument.nargs == -1 else "")
    return word if argument.required else f"[{word}]"


def help_text(text: str | None) -> str:
    """Return the help of a command as Markdown.

    The commands below `Example:` or `Examples:` become code.
    """
    before, *rest = re.split(r"^Examples?:\n", inspect.cleandoc(text or ""), flags=re.MULTILINE)
    examples = "".join(rest)
    paragraphs = [escape(" ".join(each.split())) for each in before.split("\n\n")]
    if examples:
        code = textwrap.dedent(examples.strip("\n")).rstrip()
        paragraphs.append(f"```text\n{code}\n```")
    return "\n\n".join(each for each in paragraphs if each)


def parameter_row(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        name = f"`{argument_usage(parameter).strip('[]')}`"
    else:
        both = [*parameter.opts, *parameter.secondary_opts]
        value = "" if parameter.is_flag else (parameter.metavar or value_word(parameter))
        name = ", ".join(f"`{option}`" for option in both) + (f" {code(value)}" if value else "")
    return f"| {name} | {escape(parameter.help or '')} | {default_of(parameter)} |"


def code(value: str) -> str:
    """A value in a table. A bar would end the cell, so choices are separated by slashes."""
    return f"`{value.replace('|', ' / ')}`"


def value_word(parameter: Any) -> str:
    """What stands for the value of an option that has no word of its own."""
    annotation = parameter.type_descriptor.annotation
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return " / ".join(str(member.value) for member in annotation)
    if typing.get_origin(annotation) is typing.Literal:
        return " / ".join(map(str, typing.get_args(annotation)))
    return "NUMBER" if annotation in (int, float) else "VALUE"


def default_of(parameter: Any) -> str:
    if parameter.required:
        return "required"
    shown = parameter.show_default if isinstance(parameter.show_default, str) else None
    if shown:
        return escape(shown)
    if parameter.default is None or parameter.default in ((), [], False) or parameter.is_flag:
        return ""
    value = getattr(parameter.default, "value", parameter.default)
    if callable(value):
        return ""
    return escape(" ".join(map(str, value)) if isinstance(value, tuple | list) else str(value))


def escape(text: str) -> str:
    """Text inside of a table: one line, no bar, and nothing that Markdown would read as HTML."""
    text = re.sub(r"\[/?[a-z ]*\]", "", " ".join(text.split()))
    return text.replace("|", "\\|").replace("<", "&lt;").replace("*", "\\*").replace("_", "\\_")


if __name__ == "__main__":
    PAGE.write_text(page())
    print(f"wrote {len(commands())} commands into {PAGE.relative_to(PAGE.parents[2])}")
