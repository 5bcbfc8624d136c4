"""Every snippet of README and docs runs, in the order of the page, in an empty folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCK.search(page.read_text())], ids=lambda page: page.name)
def test_snippets_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace = {}
    for kind, code in BLOCK.findall(page.read_text()):
        if kind == "python":
            exec(compile(code, page.name, "exec"), namespace)
            printed = capsys.readouterr().out
            for expected in re.findall(r"^# (.*)$", code, re.MULTILINE):  # a comment line after a print is its output
                assert expected in printed
        else:
            for line in code.splitlines():
                command, _, comment = line.removeprefix("$ confide ").partition("#")
                done = subprocess.run(
                    [sys.executable, "-c", "from confide.cli import main; main()", *command.split()],
                    capture_output=True,
                    text=True,
                )
                assert done.returncode == (1 if "exit 1" in comment else 0), done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_and_named_files_exist(page):
    text = page.read_text()
    for target in re.findall(r"\]\(([^)#]+)\)", text):
        if "://" not in target:
            assert (page.parent / target).exists(), target
    for named in re.findall(r"`((?:tests|agents|mechanisms|planners|privacy|benchmarks)/[\w/]+\.py)`", text):
        assert any((base / named).exists() for base in (ROOT, ROOT / "src/confide")), named


def test_every_document_and_paper_that_the_code_names_exists():
    notation = (ROOT / "docs" / "NOTATION.md").read_text()
    for path in (ROOT / "src").rglob("*.py"):
        text = path.read_text()
        for named in re.findall(r"docs/[\w/]+\.md", text):
            assert (ROOT / named).exists(), f"{path.name} names {named}"
        for key in re.findall(r"\[([A-Z][a-z]+\d\d)[,\]]", text):
            assert f"[{key}]" in notation, f"{path.name} names [{key}]"
