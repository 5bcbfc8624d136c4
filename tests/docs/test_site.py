"""The documentation site: built strictly, complete, quiet in a real browser, offline, and as
wide as the screen."""

import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import threading
from contextlib import contextmanager
from html.parser import HTMLParser
from pathlib import Path

import pytest
import typer.main

import confide
from confide import (
    agents,
    audit,
    evaluation,
    logs,
    mechanisms,
    privacy,
    privatizers,
    problems,
    statistics,
)
from confide.cli import app

pytestmark = pytest.mark.long

ROOT = Path(__file__).parent.parent.parent
DOCS = ROOT / "docs"
SCREENS = {"desktop": {"width": 1280, "height": 800}, "phone": {"width": 375, "height": 812}}
PACKAGES = (
    agents,
    audit,
    evaluation,
    logs,
    mechanisms,
    privacy,
    privatizers,
    problems,
    statistics,
)


def build(folder):
    """Run Zensical in a folder with a configuration. With --strict a broken link ends in an
    error."""
    command = [sys.executable, "-m", "zensical", "build", "--clean", "--strict"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True)


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the built site. A link to a page or an anchor that does not exist fails
    here."""
    folder = tmp_path_factory.mktemp("site")
    shutil.copy(ROOT / "mkdocs.yml", folder)
    shutil.copytree(DOCS, folder / "docs")
    (folder / "src").symlink_to(ROOT / "src")
    finished = build(folder)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return folder / "build" / "site"


@contextmanager
def served(site, index=None):
    """The site's address. An `index` takes the place of the words that search knows."""

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *said):
            pass

        def end_headers(self):
            # styles and scripts are the same on every page
            self.send_header("Cache-Control", "max-age=600")
            super().end_headers()

        def translate_path(self, path):
            return (
                str(index)
                if index and path.endswith("/search.json")
                else super().translate_path(path)
            )

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=site)
    ) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.fixture(scope="module")
def address(site):
    with served(site) as address:
        yield address


def addresses(site):
    """Of every page, as a browser asks for them; the search index and the page for what is not
    found are none."""
    return sorted(str(page.parent.relative_to(site)) for page in site.rglob("index.html"))


class Loads(HTMLParser):
    """What a page asks a browser to load by itself: a link that a reader may follow is none of
    it."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        named = {"src", "srcset", "data", "poster", "xlink:href"} | (
            {"href"} if tag in ("link", "image", "use") else set()
        )
        kept = dict(attributes)
        if kept.get("rel") != "canonical":
            self.found += [value for name, value in attributes if name in named and value]


def test_every_page_is_there(site):
    written = {str(page.relative_to(DOCS).with_suffix("")) for page in DOCS.rglob("*.md")}
    assert {page.removesuffix("index").rstrip("/") or "." for page in written} == set(
        addresses(site)
    )


def test_every_page_is_in_the_menu():
    """Zensical does not notice a page that no menu leads to."""
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2].partition("\n\n")[0]
    in_menu = re.findall(r"([\w/-]+\.md)", menu)
    assert len(in_menu) == len(set(in_menu))
    assert set(in_menu) == {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("# Title\n[up](#title)", False),
        ("# Title\n[up](#nowhere)", True),
        ("# Title\n[away](nowhere.md)", True),
    ],
)
def test_a_broken_link_fails_the_build(tmp_path, text, fails):
    configuration = (ROOT / "mkdocs.yml").read_text()
    validation = configuration[configuration.index("\nvalidation:") :]
    (tmp_path / "mkdocs.yml").write_text(f"site_name: confide\nnav: [index.md]\n{validation}")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "index.md").write_text(text)
    assert (build(tmp_path).returncode != 0) == fails


def test_nothing_is_loaded_from_elsewhere(site):
    elsewhere = re.compile(r"^(?:\w+:)?//")
    assert Loads("<script src='//cdn.example/x.js'></script>").found == ["//cdn.example/x.js"]
    for page in site.rglob("*.html"):
        loaded = Loads(page.read_text()).found
        assert len(loaded) > 3
        assert [url for url in loaded if elsewhere.match(url)] == [], page
    for style in [*site.rglob("*.css"), *site.rglob("*.svg"), *site.rglob("*.html")]:
        assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:\w+:)?//", style.read_text()) == [], style


def test_every_public_name_and_command_is_in_the_reference(site):
    reference = "".join(page.read_text() for page in (site / "reference").rglob("index.html"))
    anchors = set(re.findall(r'id="(confide[\w.]*)"', reference))
    named = {f"{package.__name__}.{name}" for package in PACKAGES for name in package.__all__}
    # of a function whose file has its name
    twice = {name: f"{name}.{name.rpartition('.')[2]}" for name in named}
    assert [name for name in sorted(named) if not {name, twice[name]} & anchors] == []
    errors = {
        f"confide.errors.{name}"
        for name, kind in vars(confide.errors).items()
        if isinstance(kind, type)
    }
    assert errors | {"confide.run", "confide.explain", "confide.Run"} <= anchors
    commands = typer.main.get_command(app).commands
    assert [name for name in commands if f"<code>confide {name}" not in reference] == []


WIDEST = """() => {
  const scrolls = ".md-typeset__scrollwrap, .katex, .katex-display, pre, .highlight, .md-tabs, "
    + "[data-md-component=sidebar]";
  let widest = document.documentElement, edge = widest.scrollWidth;
  const visit = (e) => {
    const box = e.getBoundingClientRect();
    if (box.width && box.right > edge) [edge, widest] = [box.right, e];
    if (!e.matches(scrolls)) [...e.children].forEach(visit);
  };
  document.querySelectorAll("main, footer").forEach((e) => visit(e));
  return [edge, widest.outerHTML.slice(0, 120)];
}"""


TITLES_AND_MISSING_IMAGES = """() => [
  document.querySelectorAll("h1").length, [...document.images].filter((image) =>
    !image.naturalWidth).map((image) => image.src)
]"""


def visit(browser, screen):
    """A tab that keeps whatever the page complains about, and whatever it asks others for."""
    page = browser.new_page(viewport=SCREENS[screen], reduced_motion="reduce")
    page.set_default_timeout(30_000)
    page.complaints, page.requests = [], []

    def failed(request):
        # what we do ourselves, by leaving a page before its search is there
        if request.failure != "net::ERR_ABORTED":
            page.complaints.append(f"{request.url}: {request.failure}")

    page.on(
        "console",
        lambda said: (
            page.complaints.append(said.text) if said.type in ("error", "warning") else None
        ),
    )
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("requestfailed", failed)
    page.on(
        "response",
        lambda answer: (
            page.complaints.append(f"{answer.url}: {answer.status}")
            if answer.status >= 400
            else None
        ),
    )
    page.on("request", lambda request: page.requests.append(request.url))
    return page


@pytest.fixture
def address_of_pages(site, tmp_path):
    """Every page would index all words anew, a third of the time: search has a test of its own."""
    index = tmp_path / "search.json"
    whole_index = json.loads((site / index.name).read_text())
    index.write_text(json.dumps(whole_index | {"items": whole_index["items"][:1]}))
    with served(site, index) as address:
        yield address


def test_every_page_opens_quietly_offline_and_within_the_screen(browser, site, address_of_pages):
    """Every second page is opened on the phone, the others on the desktop; then the screen
    changes."""
    address, page, wide, screens = address_of_pages, visit(browser, "desktop"), [], list(SCREENS)
    for name in addresses(site):
        page.goto(f"{address}{name}/".replace("/./", "/"), wait_until="load")
        for screen in screens:
            if page.viewport_size != SCREENS[screen]:
                page.set_viewport_size(SCREENS[screen])
            edge, element = page.evaluate(WIDEST)
            wide += [(name, screen, edge, element)] if edge > SCREENS[screen]["width"] else []
        screens.reverse()
        assert page.evaluate(TITLES_AND_MISSING_IMAGES) == [1, []], name
        assert page.complaints == [], name
    assert wide == []
    assert [url for url in page.requests if not url.startswith((address, "data:", "blob:"))] == []
    page.close()


def test_too_wide_and_too_loud_is_noticed(browser, address):
    """The twin of the test above: a page with a wide picture, a missing file, and a word on the
    console."""
    page = visit(browser, "phone")
    page.goto(address)
    with page.expect_response("**/no.png"):
        page.evaluate("""() => {
          const added = "<div style='width: 500px; height: 1px'></div><img src='/no.png'>";
          document.querySelector("article").insertAdjacentHTML("beforeend", added);
          console.error("loud");
        }""")
    assert page.evaluate(WIDEST)[0] > SCREENS["phone"]["width"]
    assert "loud" in page.complaints
    assert any(said.endswith("no.png: 404") for said in page.complaints)
    page.close()


def test_a_wide_table_scrolls_inside_its_box(browser, address):
    page = visit(browser, "phone")
    page.goto(address + "agents/")
    box = page.locator(".md-typeset__scrollwrap").first
    box.wait_for()
    widths = box.evaluate("(e) => [e.scrollWidth, e.clientWidth]")
    assert widths[0] > widths[1] <= SCREENS["phone"]["width"]
    page.close()


def test_search_works_without_a_network(browser, address):
    page = visit(browser, "desktop")
    page.goto(address)
    page.locator(".md-search__button").click()
    page.get_by_role("combobox").fill("billboard")
    page.locator("a[href*='h=billboard']").first.wait_for()
    links = [link.get_attribute("href") for link in page.locator("a[href*='h=billboard']").all()]
    assert any("threat_model" in link for link in links)
    assert page.complaints == []
    assert all(url.startswith((address, "data:", "blob:")) for url in page.requests)
    page.close()


FORMULA = "<p>The noise is \\(\\sigma = \\Delta / \\mu\\).</p>"


def test_formulas_are_typeset(browser, address):
    page = visit(browser, "desktop")
    page.goto(address)
    page.evaluate("(text) => document.querySelector('article').innerHTML = text", FORMULA)
    page.evaluate("() => document.dispatchEvent(new Event('DOMContentLoaded'))")
    assert page.locator("article .katex").count() == 1
    assert page.complaints == []
    page.close()


TEXTS = """() => {
  const box = document.documentElement.viewBox.baseVal;
  const texts = [...document.querySelectorAll("text")].map((e) => [e.textContent, e.getBBox()]);
  const outside = texts.filter(([, b]) => b.x < 4 || b.y < 4 || b.x + b.width > box.width - 4 ||
    b.y + b.height > box.height - 4);
  const apart = (a, b) => a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y +
    3 || b.y + b.height <= a.y + 3;
  const clashes = texts.flatMap(([s, a], i) => texts.slice(i + 1).filter(([, b]) => !apart(a,
    b)).map(([t]) => [s, t]));
  return [texts.length, outside.map(([s]) => s), clashes];
}"""


def test_the_text_of_pictures_stays_inside_and_apart(browser, address):
    page = visit(browser, "desktop")
    pictures = sorted((DOCS / "pictures").glob("*.svg"))
    assert len(pictures) >= 6
    for picture in pictures:
        page.goto(f"{address}pictures/{picture.name}")
        count, outside, clashes = page.evaluate(TEXTS)
        assert count > 3 and (outside, clashes) == ([], []), picture.name
    page.close()
