"""Pages that scripts write from the code and from other pages are current."""

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_reference_of_commands_is_what_the_commands_say():
    script = runpy.run_path(str(ROOT / "scripts" / "commands_page.py"))
    written = (ROOT / "docs" / "reference" / "commands.md").read_text()
    assert written == script["page"](), "run python scripts/commands_page.py"


def test_the_list_of_pages_for_language_models_is_current():
    script = runpy.run_path(str(ROOT / "scripts" / "llms_text.py"))
    written = (ROOT / "docs" / "llms.txt").read_text()
    assert written == script["text"](), "run python scripts/llms_text.py"


def test_every_page_of_the_menu_says_first_what_the_reader_gets():
    script = runpy.run_path(str(ROOT / "scripts" / "llms_text.py"))
    pages = [page for _, pages in script["menu"]() for page in pages]
    assert len(pages) > 30
    for page in pages:
        paragraph = script["first_paragraph"](page)
        assert not paragraph.startswith(("#", "|", "```", "!", "<")), page
        assert len(paragraph.split()) >= 8, page
