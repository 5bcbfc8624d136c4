"""Write docs/llms.txt, a list for language models of all pages with their first paragraphs.

python scripts/llms_text.py

The order is that of the menu in mkdocs.yml. A test compares the file with what this script writes.
"""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"

INTRODUCTION = """# confide

> confide is a Python library, command line and service for differentially private reinforcement
> learning. It learns and evaluates decision policies from people's data, with a proved limit on
> what its publications reveal about any one person.

Links are to the Markdown sources of the pages.
"""


def text() -> str:
    lines = [INTRODUCTION]
    for section, pages in menu():
        lines.append(f"## {section}\n")
        lines += [f"- [{title(page)}]({page}): {first_paragraph(page)}" for page in pages]
        lines.append("")
    return "\n".join(lines)


def menu() -> list[tuple[str, list[str]]]:
    """The sections of the menu, each with the files of its pages."""
    whole = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2].partition("\n\n")[0]
    sections: list[tuple[str, list[str]]] = []
    for line in whole.splitlines():
        section = re.fullmatch(r"  - ([^:]+):", line)
        page = re.search(r"([\w/-]+\.md)$", line)
        if section:
            sections.append((section[1], []))
        elif page:
            sections[-1][1].append(page[1])
    return sections


def title(page: str) -> str:
    heading = re.search(r"^# (.+)$", (DOCS / page).read_text(), re.MULTILINE)
    assert heading is not None, f"{page} has no heading"
    return heading[1]


def first_paragraph(page: str) -> str:
    """What the reader gets from the page, without links and marks."""
    after_heading = re.split(r"^# .+$", (DOCS / page).read_text(), maxsplit=1, flags=re.MULTILINE)[
        1
    ]
    paragraph = after_heading.strip().split("\n\n")[0]
    paragraph = re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", paragraph)
    return " ".join(paragraph.replace("*", "").split())


if __name__ == "__main__":
    (DOCS / "llms.txt").write_text(text())
    print("wrote docs/llms.txt")
