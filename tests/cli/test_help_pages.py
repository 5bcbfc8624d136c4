"""Help pages: panels, examples that can be parsed, and values that are named in plain words."""

import re
import shlex

import pytest
import typer

from confide.cli import app
from confide.cli.help_pages import examples_of, value_name

# What stands for a value in the help, if it is not a choice such as fast|secure.
VALUE_NAMES = {
    *("NUMBER", "SHARE", "PROBABILITY", "GIGABYTES", "LOW HIGH", "NAME", "NAME=VALUE", "WORDS"),
    *("FILE", "FILES...", "FOLDER", "COLUMN", "FORMAT", "CHARACTER", "LENGTH", "KEY", "ID", "URL"),
    *("AGENT", "AGENTS...", "PROBLEM", "ESTIMATOR", "POLICY", "STATE", "ACTION", "SUBJECT", "RUN"),
    *("RUNS...", "MODULE:FUNCTION", "ADDRESS", "WHEN"),
}


def commands(command=None, names=()):
    """All commands and groups with the words that call them."""
    command = command or typer.main.get_command(app)
    yield names, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from commands(inner, (*names, name))


COMMANDS = dict(commands())
PAGES = pytest.mark.parametrize("names", COMMANDS, ids=lambda names: " ".join(names) or "confide")


@PAGES
def test_a_help_page_fits_80_columns_and_names_no_python_type(names, call, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = call(*names, "--help")
    assert max(map(len, page.splitlines())) <= 80
    assert "Example:" in page or "Examples:" in page
    assert not re.search(r"<\w+|\bTEXT\b|\bFLOAT\b|\bINTEGER\b|list\[", page)
    for parameter in COMMANDS[names].get_params(typer.Context(COMMANDS[names])):
        if not getattr(parameter, "is_flag", False) and not parameter.is_eager:
            name = value_name(parameter)
            assert name in VALUE_NAMES or "|" in name, (parameter.name, name)


@PAGES
def test_the_examples_of_a_help_page_are_valid_command_lines(names):
    examples = examples_of(COMMANDS[names].help)
    assert examples
    for example in examples:
        words = shlex.split(example)[1:]
        path = next(w for w in (words[:2], words[:1], []) if tuple(w) in COMMANDS)
        if words[0] != "COMMAND":
            assert path
            # Unknown options and missing arguments are errors.
            COMMANDS[tuple(path)].make_context(" ".join(path), words[len(path) :])


def test_commands_and_options_stand_in_panels(call):
    main = call("--help")
    headings = ["Agents and simulated users:", "Logged data:", "Live users:", "Checks:", "Options:"]
    assert [main.index(heading) for heading in headings] == sorted(map(main.index, headings))
    page = call("run", "--help")
    assert page.index("\nPrivacy:") < page.index("\n  --epsilon") < page.index("\nLearning:")
    assert page.index("\nOutput:") < page.index("\nOther options:") < page.index("\n  --help")
    # Numbers have separated thousands, and the second name of an option is shown.
    assert re.search(r"--episodes, --users NUMBER\s.*\[default:\s+100,000\]", page, re.DOTALL)


def test_users_is_another_name_of_episodes(call):
    explained = [call("explain", "ucrl-vtr", name, 500) for name in ("--episodes", "--users")]
    assert explained[0] == explained[1]
    assert "--users must be" in call("explain", "ucrl-vtr", "--users", -5, code=2)
