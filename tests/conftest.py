import os
import shutil

import pytest
from hypothesis import settings

# Deadlines are timed asserts, and machines are noisy.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def missing(what, how):
    """A skip on somebody's machine; a failure where the tests are meant to be complete."""
    said = f"{what} is not installed, so pages are not looked at in a browser: {how}"
    (pytest.fail if os.environ.get("CI") else pytest.skip)(said)


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, without a window."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        missing("Chromium", "apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright", "pip install playwright")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=flags)
        yield launched
        launched.close()
