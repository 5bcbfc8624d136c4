"""Every snippet of README and docs runs, in the order of the page, in an empty folder."""

import ast
import json
import re
import runpy
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

import confide
from confide.cli import main

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(
    r'^```(python|console|toml)(?: title="([\w.]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL
)


def name(page):
    return str(page.relative_to(ROOT))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder to stand in, whose files can be imported, and are forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for key, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[key]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=name
)
def test_snippets_run(page, folder, capsys, monkeypatch):
    namespace = {}
    for kind, file, code in BLOCK.findall(page.read_text()):
        if file:
            # Readers are told to save this file.
            (folder / file).write_text(code)
        elif kind == "python":
            exec(compile(code, page.name, "exec"), namespace)
            printed = capsys.readouterr().out
            for expected in stated_output(code):
                assert expected in printed
        elif kind == "console":
            for line in code.replace("\\\n", "").splitlines():
                run_command(line, monkeypatch)


def stated_output(code):
    """Comment lines that state what was printed. They stand directly after a call or a statement
    that prints, or before a blank line.

    All other comment lines are about the code below them.
    """
    lines = [*code.splitlines(), ""]
    after_print = {
        statement.end_lineno
        for statement in ast.parse(code).body
        if isinstance(statement, ast.Expr) or "print(" in ast.get_source_segment(code, statement)
    }
    first = 0
    while first < len(lines):
        last = first
        while lines[last].startswith("# "):
            last += 1
        if first in after_print or not lines[last]:
            yield from (line.removeprefix("# ") for line in lines[first:last])
        first = last + 1


def run_command(line, monkeypatch):
    if line.startswith("$ python examples/"):
        script, *arguments = shlex.split(line.removeprefix("$ python "))
        monkeypatch.setattr(sys, "argv", [script, *arguments])
        runpy.run_path(str(ROOT / script), run_name="__main__")
        return
    assert line.startswith("$ confide "), f"not a command of ours: {line}"
    command, _, comment = line.removeprefix("$ confide ").partition("#")
    monkeypatch.setattr(sys, "argv", ["confide", *shlex.split(command)])
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(command))
    assert stop.value.code == (1 if "exit 1" in comment else 0), line


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_no_snippet_is_overlooked(page):
    """A fence that is indented, or has other words behind it, would be shown and not run."""
    text = page.read_text()
    run = [kind for kind, _, _ in BLOCK.findall(text) if kind != "toml"]
    assert len(
        re.findall(r"^\s*(?:```|~~~)\s*\{?\.?(?:python|py|console)\b", text, re.MULTILINE)
    ) == len(run)


FAST_NOISE = re.compile(r'"fast"|\bFastSource\(|--source[ =]fast')
SERVES_PEOPLE = re.compile(
    r"\.(?:assign|publish|client|channel|keep)\(|generation=|StateFile|open_service"
)


def code_samples():
    """Every code block of README, docs and clients, in any language, and every file of examples."""
    for page in [*PAGES, ROOT / "clients" / "typescript" / "README.md"]:
        for block in re.findall(
            r"^ *```\w.*?\n(.*?)^ *```$", page.read_text(), re.MULTILINE | re.DOTALL
        ):
            yield page, block
    for example in sorted((ROOT / "examples").glob("*.py")):
        yield example, example.read_text()


def misuses_fast_noise(code):
    """Whether code draws predictable noise and does not say that its data are simulated."""
    if not FAST_NOISE.search(code):
        return False
    comments = " ".join(re.findall(r"#(.*)", code))
    return "simulat" not in comments or bool(SERVES_PEOPLE.search(code))


def test_fast_noise_is_for_simulations_only():
    samples = list(code_samples())
    assert len(samples) > 100
    assert [name(page) for page, code in samples if misuses_fast_noise(code)] == []


@pytest.mark.parametrize(
    "code",
    [
        'agent = Agent(noise=noise_source("fast", 0))',
        'agent = Agent(noise=noise_source("fast", 0))  # simulated\ngiven = agent.assign()',
        "$ confide evaluate log.parquet --source fast",
        "agent = Agent(noise=FastSource(rng))  # simulated\nstate = StateFile(path)",
    ],
)
def test_fast_noise_for_people_is_found(code):
    assert misuses_fast_noise(code)


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_and_named_files_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
    for named in re.findall(
        r"`((?:tests|agents|mechanisms|planners|privacy|benchmarks|examples|evaluation)"
        r"/[\w/]+\.(?:py|md))`",
        text,
    ):
        assert any((base / named).exists() for base in (ROOT, ROOT / "src/confide")), named


def test_extras_that_are_named_exist():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    for page in PAGES:
        for named in re.findall(r"confide\[([\w,]+)\]", page.read_text()):
            assert set(named.split(",")) <= set(extras), f"{name(page)} names confide[{named}]"


def test_one_version_everywhere():
    client = ROOT / "clients" / "typescript"
    lock = json.loads((client / "package-lock.json").read_text())
    versions = {
        tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"],
        re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1],
        re.search(r"^## ([\d.]+) \(\d", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1],
        *re.findall(r"confide-([\d.]+)-py3", "".join(page.read_text() for page in PAGES)),
        json.loads((client / "package.json").read_text())["version"],
        lock["version"],
        lock["packages"][""]["version"],
    }
    assert versions == {confide.__version__}


def test_every_document_and_paper_that_the_code_names_exists():
    notation = (ROOT / "docs" / "reference" / "glossary.md").read_text()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        for named in re.findall(r"(?:docs|benchmarks)/[\w/-]+\.md", text):
            assert (ROOT / named).exists(), f"{path.name} names {named}"
        for key in re.findall(r"\[([A-Z][a-z]+\d\d)[,\]]", text):
            assert f"[{key}]" in notation, f"{path.name} names [{key}]"
