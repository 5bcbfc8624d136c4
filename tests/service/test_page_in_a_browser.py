"""The pages in a real browser: live, quiet, without an outside request, as wide as the screen."""

import asyncio
import threading
import time

import pytest
import uvicorn
from service_bench import Bench, spec

from confide.service.core.folder import ServiceFolder
from confide.service.web.access import new_api_key
from confide.service.web.http import app

SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 375, "height": 812}}
WIDEST = """() => Math.max(
  document.documentElement.scrollWidth,
  ...[...document.querySelectorAll("body *")]
    .filter((e) => !e.closest(".scroll, pre, svg, .skip"))
    .map((e) => e.getBoundingClientRect().right))"""


class Site:
    """A service on a port of its own, whose writer the test plays."""

    def __init__(self, folder):
        self.bench = Bench(folder)
        self.bench.create(users=60, every=10, title="Which way through the lock?")
        self.service = self.bench.service
        self.service.create(spec("local", trust="local"))
        self.key = new_api_key(self.service.store, "operator", "on call", "test")
        self._server = uvicorn.Server(uvicorn.Config(app(self.service), port=0, log_level="error"))
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._server.serve()), daemon=True
        )
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)
        self.url = f"http://127.0.0.1:{self._server.servers[0].sockets[0].getsockname()[1]}"
        self._batch = 0

    def close_a_batch(self):
        self._batch += 1
        self.bench.send(*(self.bench.report(f"{self._batch} {i}") for i in range(10)))

    def stop(self):
        self._server.should_exit = True
        self._thread.join()
        self.bench.stop()


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    made = Site(ServiceFolder(tmp_path_factory.mktemp("site") / "service"))
    for _ in range(2):
        made.close_a_batch()
    yield made
    made.stop()


@pytest.fixture
def visit(browser, site):
    """A page on a screen; whatever it complains about, or asks others for, fails the test."""
    opened, complaints = [], []

    def page_of(path, screen="desktop", **more):
        context = browser.new_context(viewport=SCREENS[screen], **more)
        page = context.new_page()
        opened.append(context)
        page.set_default_timeout(15_000)
        page.on(
            "console",
            lambda said: (
                complaints.append(said.text) if said.type in ("error", "warning") else None
            ),
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on(
            "request",
            lambda request: (
                None if request.url.startswith(site.url) else complaints.append(request.url)
            ),
        )
        page.goto(site.url + path)
        return page

    yield page_of
    for context in opened:
        context.close()
    assert complaints == []


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("path", ["/", "/runs/demo", "/runs/local", "/operator"])
def test_pages_fit_the_screen(visit, path, screen):
    page = visit(path, screen)
    assert (
        page.locator("h1").is_visible()
        and page.get_by_text("SIMULATION", exact=True).first.is_visible()
    )
    assert page.evaluate(WIDEST) <= SCREENS[screen]["width"]


@pytest.mark.parametrize("screen", SCREENS)
def test_the_learning_curve_is_drawn(visit, screen):
    page = visit("/runs/demo", screen)
    charts = page.locator("#value .chart:visible")
    assert charts.count() == 1
    assert charts.locator("polyline.value").evaluate("line => line.getTotalLength()") > 100
    ticks = page.evaluate(
        "[...document.querySelectorAll('.tick')]"
        ".map((t) => t.getBoundingClientRect().height).filter(Boolean)"
    )
    assert min(ticks) >= 9  # pixels: readable on a phone
    assert page.locator(".error rect.sampling").bounding_box()["width"] > 1


def test_an_open_page_follows_the_releases(visit, site):
    page = visit("/runs/demo")
    page.locator(".beat").wait_for()
    before = site.service.runs["demo"].generation
    site.close_a_batch()
    page.locator(f"#releases tbody a:text-is('{before + 1}')").wait_for()
    assert page.locator(".beat").is_visible()


def test_it_works_without_scripts(visit):
    page = visit("/runs/demo", java_script_enabled=False)
    assert (
        page.locator("#value .chart:visible").count() == 1
        and not page.locator(".beat").is_visible()
    )


def test_operators_log_in_and_out(visit, site):
    page = visit("/operator", "phone")
    assert not page.get_by_role("heading", name="Audit").is_visible()
    page.get_by_label("API key").fill(site.key)
    page.get_by_role("button", name="Log in").click()
    page.get_by_role("heading", name="Audit").wait_for()
    assert (
        page.evaluate(WIDEST) <= SCREENS["phone"]["width"]
        and page.evaluate("document.cookie") == ""
    )
    page.get_by_role("button", name="Log out").click()
    page.get_by_label("API key").wait_for()
