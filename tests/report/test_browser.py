"""The report in a real browser: drawn, quiet, offline, and as wide as the screen."""

import pytest

from confide.privacy.certificate import Certificate
from confide.report import write_report

SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 390, "height": 844}}
EVIL = "<img src=x onerror=alert(1)><a href='https://example.org'>x</a></script><script>alert(2)</script>"


@pytest.fixture(scope="module")
def reports(made_up, tmp_path_factory):
    folder = tmp_path_factory.mktemp("reports")
    document = made_up.learner().certificate.document | {"subject": EVIL}
    evil = [made_up.learner(seed=i, agent=EVIL, problem=EVIL, command=EVIL, certificate=Certificate(document)) for i in range(2)]
    return {
        "study": write_report(made_up.study(), folder / "study.html"),
        "everything": write_report(made_up.everything(), folder / "everything.html"),
        "reference": write_report([made_up.fixed("uniform", made_up.UNIFORM)], folder / "reference.html"),
        "evil": write_report(evil, folder / "evil.html", title=EVIL, command=EVIL),
        "long": write_report([made_up.learner(agent="a" * 200, problem="p" * 200, command="c" * 900)], folder / "long.html"),
    }


@pytest.fixture(scope="module")
def visit(browser, reports):
    """A report, opened once; whatever it asks the network for, and whatever it complains about, is kept."""
    opened = {}

    def page_of(name):
        if name not in opened:
            opened[name] = page = browser.new_page(viewport=SCREENS["desktop"], color_scheme="light")
            page.set_default_timeout(15_000)
            page.requests, page.complaints = [], []
            page.on("request", lambda request: page.requests.append(request.url))
            page.on("console", lambda said: page.complaints.append(said.text) if said.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: page.complaints.append(str(error)))
            page.on("dialog", lambda dialog: (page.complaints.append("a dialog opened"), dialog.dismiss()))
            page.goto(reports[name].as_uri())
            page.wait_for_selector("html[data-drawn=yes]")
        return opened[name]

    return page_of


@pytest.fixture
def study(visit):
    """The report of the study, as it was opened; a test may change it and must be quiet."""
    page = visit("study")
    page.set_viewport_size(SCREENS["desktop"])
    page.emulate_media(color_scheme="light")
    yield page
    assert page.complaints == []


def until(page, expression):
    """Wait for it. Not the page's own `wait_for_function`: that one evaluates strings, which the report's policy forbids."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never came true: {expression}")


def curves(page):
    """For each figure: the lengths of the lines that are really drawn; the edges of bands have no width."""
    return page.evaluate(
        """() => {
          const lines = (div) => [...div.querySelectorAll("svg .scatterlayer path.js-line")];
          const wide = (path) => parseFloat(getComputedStyle(path).strokeWidth) > 0;
          const lengths = (div) => lines(div).filter(wide).map((path) => path.getTotalLength());
          return Object.fromEntries([...document.querySelectorAll(".plotly-graph-div")].map((div) => [div.id, lengths(div)]));
        }"""
    )


WIDEST = """() => Math.max(document.documentElement.scrollWidth, ...[...document.querySelectorAll("main *")]
  .filter((e) => !e.closest(".scroll, .plotly-graph-div, pre, svg")).map((e) => e.getBoundingClientRect().right))"""


@pytest.mark.parametrize(("name", "figures"), [("study", 3), ("everything", 5), ("reference", 2), ("evil", 3), ("long", 3)])
def test_every_figure_is_drawn_quietly_offline_and_within_the_screen(visit, name, figures):
    page = visit(name)
    for screen in SCREENS.values():
        page.set_viewport_size(screen)
        until(page, f"[...document.querySelectorAll('.main-svg')].every((svg) => svg.clientWidth < {screen['width']})")
        drawn = curves(page)
        assert len(drawn) == figures
        assert all(any(length > 100 for length in lengths) for lengths in drawn.values()), drawn
        assert page.evaluate(WIDEST) <= screen["width"]
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_bands_and_lines_of_the_study(study):
    assert study.locator("#regret-0 .scatterlayer path.js-fill").count() == 2
    assert len(curves(study)["regret-0"]) == 3
    assert study.locator("#value-0 .annotation-text").all_text_contents() == ["optimal play 1.17", "uniform play 0.11"]


def test_what_comes_from_outside_stays_text(visit):
    page = visit("evil")
    page.set_viewport_size(SCREENS["desktop"])
    assert page.locator("h1").inner_text() == EVIL
    page.locator("#regret-0 .nsewdrag").hover()
    page.wait_for_selector("#regret-0 .hoverlayer text")
    assert "<img src=x" in page.locator("#regret-0 .hoverlayer").text_content()
    assert page.locator("img, a").count() == 0  # also within the figures: plotly.js reads labels as HTML
    assert page.complaints == []


def test_axes_switch_between_logarithmic_and_linear(study):
    figure, axis = study.locator("figure.regret"), "document.getElementById('regret-0')._fullLayout.yaxis.type"
    log, linear = (figure.get_by_role("button", name=name, exact=True) for name in ("log", "linear"))
    assert study.evaluate(axis) == "log"
    linear.click()
    until(study, f"{axis} === 'linear'")
    assert [button.get_attribute("aria-pressed") for button in (log, linear)] == ["false", "true"]
    assert any(length > 100 for length in curves(study)["regret-0"])
    log.click()
    until(study, f"{axis} === 'log'")


def test_a_series_can_be_hidden_in_all_figures(study):
    lines = "document.querySelectorAll('#noise-0 path.js-line').length"
    before = {key: len(lengths) for key, lengths in curves(study).items()}
    study.locator("figure.regret .chip").first.click()
    until(study, f"{lines} === 0")
    assert len(curves(study)["value-0"]) < before["value-0"]
    chip = study.locator("figure.noise .chip")
    assert chip.get_attribute("aria-pressed") == "false"
    chip.click()
    until(study, f"{lines} === 2")
    assert {key: len(lengths) for key, lengths in curves(study).items()} == before


def test_the_table_fits_a_small_desktop(study):
    study.set_viewport_size({"width": 1100, "height": 900})
    assert study.evaluate("[...document.querySelectorAll('.scroll')].every((e) => e.scrollWidth <= e.clientWidth)")


def test_the_table_sorts(study):
    head, cells = study.get_by_role("button", name="regret, mean"), study.locator("table tbody tr td:nth-child(5)")

    def keys():
        return [float(cell.get_attribute("data-key")) for cell in cells.all()]

    head.click()
    assert keys() == sorted(keys())
    head.click()
    assert keys() == sorted(keys(), reverse=True) and len(set(keys())) > 2
    assert study.locator("th[aria-sort=descending]").count() == 1


def test_command_and_certificate_are_copied(study, made_up):
    study.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    study.get_by_role("button", name="Copy the command").click()
    until(study, "[...document.querySelectorAll('.copy')].some((button) => button.textContent === 'Copied')")
    assert study.evaluate("window.copied") == made_up.COMMAND
    assert not study.locator("#certificate-0").is_visible()
    study.locator("summary").first.click()
    study.get_by_role("button", name="Copy the certificate of ucrl-vtr, ε = 1").click()
    until(study, "window.copied.startsWith('{')")
    assert study.evaluate("JSON.parse(window.copied).promise.trust") == "joint"


def test_without_a_clipboard_the_text_is_selected(study, made_up):
    study.evaluate("() => { navigator.clipboard.writeText = async () => { throw new Error('not allowed'); }; }")
    study.get_by_role("button", name="Copy the command").click()
    until(study, "getSelection().toString().length > 0")
    assert study.evaluate("getSelection().toString()") == made_up.COMMAND


def test_the_figures_follow_the_screen_into_the_dark(study):
    line = "getComputedStyle([...document.querySelectorAll('#regret-0 path.js-line')].at(-1)).stroke"
    light, back = study.evaluate(line), study.evaluate("getComputedStyle(document.body).backgroundColor")
    study.emulate_media(color_scheme="dark")
    until(study, f"{line} !== '{light}'")
    assert study.evaluate("getComputedStyle(document.body).backgroundColor") != back


WEAK = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = (e) => {
    const colour = rgb(getComputedStyle(e).backgroundColor);
    return colour[3] === 0 && e.parentElement ? behind(e.parentElement) : colour;
  };
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const said = (e) => [...e.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  return [...document.querySelectorAll("main *")].filter((e) => said(e) && !e.closest("svg, .plotly-graph-div"))
    .map((e) => [e.textContent.slice(0, 40), contrast(luminance(rgb(getComputedStyle(e).color)), luminance(behind(e)))]);
}"""


def test_text_has_contrast(visit):
    """WCAG AA: 4.5 to 1 for every text, against the background it stands on."""
    page = visit("everything")
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate(WEAK)
        assert len(found) > 100
        assert [(text, ratio) for text, ratio in found if ratio < 4.5] == []
