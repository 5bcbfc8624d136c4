"""Pages in a real browser.

Drawn, quiet, offline, as wide as the screen, and doing what their buttons say.
"""

import csv
import io

import pytest

pytestmark = pytest.mark.long

SCREENS = {"desktop": {"width": 1280, "height": 900}, "phone": {"width": 375, "height": 812}}


@pytest.fixture(scope="module")
def visit(browser, pages):
    """A page, opened once.

    Whatever it asks the network for, and whatever it complains about, is kept.
    """
    opened = {}

    def page_of(name, anchor="", **more):
        if (name, anchor) not in opened:
            facts = {"viewport": SCREENS["desktop"], "color_scheme": "light"} | more
            opened[name, anchor] = page = browser.new_page(**facts)
            page.set_default_timeout(15_000)
            page.requests, page.complaints = [], []
            page.on("request", lambda request: page.requests.append(request.url))
            page.on(
                "console",
                lambda said: (
                    page.complaints.append(said.text) if said.type in ("error", "warning") else None
                ),
            )
            page.on("pageerror", lambda error: page.complaints.append(str(error)))
            page.on(
                "dialog",
                lambda dialog: (page.complaints.append("a dialog opened"), dialog.dismiss()),
            )
            page.goto(pages[name].as_uri() + anchor)
            page.wait_for_selector("html[data-drawn=yes]")
        return opened[name, anchor]

    return page_of


@pytest.fixture
def page(visit):
    """The page of everything.

    A test may change it, puts back what it changed, and must be quiet.
    """
    page = visit("everything")
    seen_on(page, "desktop")
    page.evaluate(
        "() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }"
    )
    yield page
    assert page.complaints == []


def until(page, expression):
    """Wait for it.

    Not the page's own `wait_for_function`: that one evaluates strings, which the page's policy
    forbids.
    """
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never came true: {expression}")


def names_in(panel):
    """JavaScript for the names of the curves and levels that are drawn."""
    return f"[...document.querySelectorAll('#{panel} [data-name]')].map((one) => one.dataset.name)"


def names(page, panel="regret-0"):
    """Of the curves and levels that are drawn."""
    return page.evaluate(names_in(panel))


def place(page, panel, name, share=0.8):
    """Where a curve or a level is on the screen."""
    return page.evaluate(
        """([panel, name, share]) => {
          const div = document.getElementById(panel);
          div.scrollIntoView({ block: "center" });
          const curves = [...div.querySelectorAll("[data-name]")];
          const curve = curves.find((one) => one.dataset.name === name);
          const line = curve.querySelector(".line, line");
          const point = line.getPointAtLength(share * line.getTotalLength());
          const at = point.matrixTransform(line.getScreenCTM());
          return [at.x, at.y];
        }""",
        [panel, name, share],
    )


SETTLED = """[...document.querySelectorAll(".chart")]
  .every((div) => Math.abs(div.querySelector("svg").clientWidth - div.clientWidth) < 2)"""


def seen_on(page, screen):
    """The screen changes, and then the figures do."""
    page.set_viewport_size(SCREENS[screen])
    until(page, SETTLED)


WIDEST = """() => Math.max(
  document.documentElement.scrollWidth,
  ...[...document.querySelectorAll("main *")]
    .filter((e) => !e.closest(".scroll, .chart, pre, svg, dialog"))
    .map((e) => e.getBoundingClientRect().right)
)"""


@pytest.mark.parametrize(
    ("name", "panels"),
    [
        ("everything", 11),
        ("evil", 2),
        ("one seed", 2),
        ("unknown", 1),
        ("long", 2),
        ("failed", 0),
        ("runs", 3),
        ("all runs", 6),
        ("reference", 2),
        ("evil runs", 3),
        ("long runs", 3),
    ],
)
def test_opens_quietly_offline_and_within_the_screen(visit, name, panels):
    page = visit(name)
    assert page.locator(".chart").count() == panels
    for screen in SCREENS:
        seen_on(page, screen)
        drawn = page.evaluate(
            """() => [...document.querySelectorAll(".chart")].map((div) => Math.max(0,
              ...[...div.querySelectorAll("path.line")].map((path) => path.getTotalLength())))"""
        )
        assert all(length > 100 for length in drawn) or name.startswith("long"), drawn
        assert page.evaluate(WIDEST) <= SCREENS[screen]["width"]
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_one_promise_at_a_time_beside_no_privacy(page):
    learners = ["ucrl-vtr", "ucrl-vtr paper", "likelihood-vi"]
    shown = [f"{agent}, {promise}" for agent in learners for promise in ("ε = 1", "no privacy")]
    assert names(page) == [*shown, "uniform"]
    picks = page.locator("#regret .picks[aria-label=Guarantee]")
    picks.get_by_role("button", name="all").click()
    until(page, f"{names_in('regret-0')}.length === 3 * 5 + 1")
    assert page.locator("#regret-0 .band").count() == 0
    assert page.locator("[data-ladder='1.0-none-none']").is_visible()
    picks.get_by_role("button", name="ε = 5").click()
    until(page, f"{names_in('regret-3')}.includes('ucrl-vtr, ε = 5')")
    assert (
        not page.locator("[data-ladder='1.0-none-none']").is_visible()
        and page.locator("[data-ladder='5.0-none-none']").is_visible()
    )
    picks.get_by_role("button", name="ε = 1", exact=True).click()
    until(page, f"{names_in('regret-3')}.includes('ucrl-vtr, ε = 1')")


def test_chips_hide_an_agent_in_all_figures(page):
    first, second = (
        page.locator(f"{place} .chip", has_text="ucrl-vtr paper")
        for place in ("#regret", "#privacy")
    )
    first.click()
    until(
        page,
        f"!{names_in('privacy-0')}.some((name) => name.startsWith('ucrl-vtr paper'))",
    )
    assert (
        not any("paper" in name for name in names(page))
        and second.get_attribute("aria-pressed") == "false"
    )
    second.focus()
    page.keyboard.press("Enter")
    until(
        page,
        f"{names_in('regret-0')}.includes('ucrl-vtr paper, ε = 1')",
    )
    assert first.get_attribute("aria-pressed") == "true"
    beside = page.locator("#regret .chip[data-beside]")
    beside.click()
    until(
        page,
        f"!{names_in('regret-0')}.some((name) => name.endsWith('no privacy'))",
    )
    beside.click()


def test_axes_switch_between_logarithmic_and_linear(page):
    scale = "document.querySelector(`#${id} svg`).dataset.scale"
    kinds = f"['regret-0', 'privacy-0'].map((id) => {scale}).join()"
    assert page.evaluate(kinds) == "log,log"
    page.get_by_role("button", name="linear").click()
    until(page, f"{kinds} === 'linear,linear'")
    page.get_by_role("button", name="log", exact=True).click()
    until(page, f"{kinds} === 'log,log'")


def test_a_curve_says_its_value_and_its_interval(page, sweeps):
    x, y = place(page, "regret-0", "likelihood-vi, ε = 1", 1.0)
    page.mouse.move(x - 2, y)
    page.mouse.move(x, y)
    page.wait_for_selector("#regret-0 .tip")
    (row,) = (row for row in sweeps.everything().on("lock") if row.label == "likelihood-vi, ε = 1")
    ends = f"({row.regret.low:.3g} to {row.regret.high:.3g})"
    assert page.locator("#regret-0 .tip").inner_text().splitlines() == [
        "likelihood-vi, ε = 1",
        f"{row.regret.estimate:.4g} {ends}",
        "after 20,000 users",
    ]
    page.mouse.move(x, y - 150)
    page.wait_for_selector("#regret-0 .tip", state="hidden")


def test_a_part_of_a_chart_can_be_enlarged(page):
    ticks = "[...document.querySelectorAll('#value-0 text')].map((one) => one.textContent).join()"
    before = page.evaluate(ticks)
    x, y = place(page, "value-0", "ucrl-vtr, ε = 1", 0.5)
    page.mouse.move(x - 60, y - 40)
    page.mouse.down()
    page.mouse.move(x + 60, y + 40, steps=4)
    page.mouse.up()
    until(page, f"{ticks} !== '{before}'")
    assert page.locator("dialog[open]").count() == 0
    page.get_by_role("button", name="Show all").click()
    until(page, f"{ticks} === '{before}'")


def test_a_chart_is_saved_as_a_picture(page):
    page.locator("figure[data-panel=regret-0]").hover()
    with page.expect_download() as saved:
        page.locator("button[data-chart=regret-0]").click()
    assert saved.value.suggested_filename == "regret-0.png"
    assert saved.value.path().read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("panel", "name", "share", "title"),
    [
        ("regret-1", "likelihood-vi, ε = 1", 0.9, "likelihood-vi, ε = 1, on rand seed=1"),
        ("privacy-0", "ucrl-vtr", 1.0, "ucrl-vtr, ε = 10, on lock"),
        ("privacy-0", "ucrl-vtr, no privacy", 0.35, "ucrl-vtr, no privacy, on lock"),
    ],
)
def test_a_curve_leads_to_its_commands(page, panel, name, share, title):
    x, y = place(page, panel, name, share)
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    page.wait_for_selector(f"#{panel} .tip")
    page.mouse.click(x, y)
    page.wait_for_selector("dialog[open]")
    assert page.locator("#shown-title").inner_text() == title
    problem = title.partition(" on ")[2]
    lines = page.locator("#shown-commands").inner_text().splitlines()
    assert len(lines) == 8 and all(
        line.startswith("confide run ") and problem in line for line in lines
    )
    assert [int(line.rpartition(" ")[2]) for line in lines] == list(range(8))
    page.get_by_role("button", name="Copy the commands of this curve").click()
    until(page, "window.copied?.startsWith('confide run')")
    assert page.evaluate("window.copied").splitlines() == lines
    page.keyboard.press("Escape")
    assert page.locator("dialog[open]").count() == 0


def test_rows_lead_to_commands_by_keyboard(page):
    link = page.locator("#table-results a").first
    link.focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog[open]")
    assert page.locator("#shown-title").inner_text() == "ucrl-vtr, ε = 0.5, on lock"
    assert page.evaluate("location.hash") == "#lock-ucrl-vtr-joint-0.5"
    facts = page.locator("#shown-facts").inner_text()
    # The agent ran in the tight form, so no theorem stands beside it.
    assert facts.startswith("20,000 users · seeds 0, 1") and "bound" not in facts
    page.get_by_role("button", name="Close").click()
    assert page.evaluate("document.activeElement.dataset.curve") == "lock-ucrl-vtr-joint-0.5"


def test_a_link_to_a_curve_opens_it_on_a_phone_and_shows_its_row(visit):
    page = visit("one seed", "#lock-ucrl-vtr-joint-1", viewport=SCREENS["phone"], has_touch=True)
    page.wait_for_selector("dialog[open]")
    assert page.locator("#shown-commands").inner_text().count("confide run") == 1
    assert page.evaluate("document.getElementById('shown').getBoundingClientRect().right") <= 375
    page.locator("#shown-row").click()
    until(page, "document.querySelector('tr:target')?.id === 'lock-ucrl-vtr-joint-1'")
    x, y = place(page, "regret-0", "likelihood-vi, no privacy", 0.95)
    page.touchscreen.tap(x, y)
    page.wait_for_selector("dialog[open]")
    assert page.locator("#shown-title").inner_text() == "likelihood-vi, no privacy, on lock"
    assert page.complaints == []


def keys(page, column):
    cells = page.locator(f"#table-results tbody tr:not([hidden]) td:nth-child({column})")
    return cells.evaluate_all("(cells) => cells.map((cell) => cell.dataset.key)")


def test_tables_sort_with_what_is_unknown_last_and_copy_what_they_show(page):
    head = page.locator("#table-results").get_by_role("button", name="× non-private")
    for down in (False, True):
        head.click()
        found = keys(page, 7)
        known = [float(key) for key in found if key]
        assert known == sorted(known, reverse=down) and len(set(known)) > 20
        assert found[len(known) :] == [""] * (len(found) - len(known)) and len(known) < len(found)
    page.locator("#results .picks").get_by_role("button", name="ε = 5").click()
    shown = page.locator("#table-results tbody tr:not([hidden])")
    assert shown.count() == 4 * (3 + 1)
    page.locator("#results").get_by_role("button", name="Copy as CSV").click()
    until(page, "window.copied?.startsWith('problem,')")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("window.copied"))))
    costs = [float(row["of_no_privacy"]) for row in rows if row["of_no_privacy"]]
    assert (
        len(rows) == 16
        and costs == sorted(costs, reverse=True)
        and {row["epsilon"] for row in rows} == {"5", ""}
    )
    page.locator("#results").get_by_role("button", name="Copy as Markdown").click()
    until(page, "window.copied?.startsWith('| agent')")
    lines = page.evaluate("window.copied").splitlines()
    assert len(lines) == 18 and set(lines[1]) == set("| -")
    page.locator("#results .picks").get_by_role("button", name="all").click()
    assert shown.count() == 64


def test_pairs_sort_and_copy(page):
    page.locator("#pairs summary").click()
    page.locator("#table-pairs").get_by_role("button", name="difference").click()
    found = page.locator("#table-pairs tbody td:nth-child(4)").evaluate_all(
        "(cells) => cells.map((cell) => Number(cell.dataset.key))"
    )
    assert found == sorted(found) and len(found) == 60
    page.locator("#pairs").get_by_role("button", name="Copy as CSV").click()
    until(page, "window.copied?.includes('p_after_holm')")
    rows = list(csv.DictReader(io.StringIO(page.evaluate("window.copied"))))
    assert [float(row["difference"]) for row in rows] == pytest.approx(found)
    page.locator("#pairs summary").click()


def test_without_a_clipboard_tables_are_copied_the_old_way(page):
    page.evaluate(
        "() => { navigator.clipboard.writeText = async () => { throw new Error('not allowed'); }; }"
    )
    page.evaluate(
        "() => { document.execCommand = () => { window.old = document.activeElement.value; "
        "return true; }; }"
    )
    page.locator("#results").get_by_role("button", name="Copy as Markdown").click()
    until(page, "window.old?.startsWith('| agent')")
    assert page.locator("textarea").count() == 0


@pytest.mark.parametrize("name", ["evil", "evil runs"])
def test_what_comes_from_outside_stays_text(visit, sweeps, name):
    page = visit(name)
    seen_on(page, "desktop")
    assert page.locator("h1").inner_text() == sweeps.EVIL
    x, y = place(
        page,
        "regret-0",
        names(page)[0],
        0.9,
    )
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    page.wait_for_selector("#regret-0 .tip")
    assert "<img src=x" in page.locator("#regret-0 .tip").text_content()
    page.mouse.click(x, y)
    if name == "evil":  # runs of one command have no commands of their own to show
        page.wait_for_selector("dialog[open]")
        assert "<img src=x" in page.locator("#shown-title").inner_text()
        page.keyboard.press("Escape")
    assert page.locator("img").count() == 0 and page.locator("script").count() == 4
    assert page.complaints == []


def test_the_figures_follow_the_screen_into_the_dark(page):
    line = "getComputedStyle([...document.querySelectorAll('#regret-0 path.line')].at(-1)).stroke"
    light = page.evaluate(line)
    page.emulate_media(color_scheme="dark")
    until(page, f"{line} !== '{light}'")
    page.emulate_media(color_scheme="light")
    until(page, f"{line} === '{light}'")


@pytest.fixture
def study(visit):
    """The page of runs; a test may change it and must be quiet."""
    page = visit("runs")
    seen_on(page, "desktop")
    yield page
    assert page.complaints == []


def curves(page):
    """For each chart: the lengths of its lines."""
    return page.evaluate(
        """() => {
          const lengths = (div) => [...div.querySelectorAll("path.line")].map((path) =>
            path.getTotalLength());
          return Object.fromEntries([...document.querySelectorAll(".chart")].map((div) =>
            [div.id, lengths(div)]));
        }"""
    )


def test_bands_and_lines_of_runs(study):
    assert study.locator("#regret-0 .band").count() == 2
    assert len(curves(study)["regret-0"]) == 3
    assert study.locator("#value-0 .level-text").all_text_contents() == [
        "optimal play 1.17",
        "uniform play 0.11",
    ]


def test_a_series_can_be_hidden_in_all_figures(study):
    lines = "document.querySelectorAll('#noise-0 path.line').length"
    before = {key: len(lengths) for key, lengths in curves(study).items()}
    study.locator("#regret .chip").first.click()
    until(study, f"{lines} === 0")
    assert len(curves(study)["value-0"]) < before["value-0"]
    chip = study.locator("#noise .chip").first
    assert chip.get_attribute("aria-pressed") == "false"
    chip.click()
    until(study, f"{lines} === 2")
    assert {key: len(lengths) for key, lengths in curves(study).items()} == before


def test_the_table_fits_a_small_desktop(study):
    study.set_viewport_size({"width": 1100, "height": 900})
    assert study.evaluate(
        "[...document.querySelectorAll('.scroll')].every((e) => e.scrollWidth <= e.clientWidth)"
    )


def test_the_table_sorts(study):
    place = study.locator("#table-results thead th").all_inner_texts().index("regret") + 1
    head = study.locator(f"#table-results thead th:nth-child({place}) button")
    cells = study.locator(f"#table-results tbody tr > :nth-child({place})")

    def keys():
        return [float(cell.get_attribute("data-key")) for cell in cells.all()]

    head.click()
    assert keys() == sorted(keys())
    head.click()
    assert keys() == sorted(keys(), reverse=True) and len(set(keys())) > 2
    assert study.locator("th[aria-sort=descending]").count() == 1


def test_command_and_certificate_are_copied(study, made_up):
    study.evaluate(
        "() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }"
    )
    study.get_by_role("button", name="Copy the command").click()
    until(
        study,
        "[...document.querySelectorAll('.copy')].some((button) => button.textContent === 'Copied')",
    )
    assert study.evaluate("window.copied") == made_up.COMMAND
    assert not study.locator("#certificate-0").is_visible()
    study.locator("summary").first.click()
    study.get_by_role("button", name="Copy the certificate of ucrl-vtr, ε = 1").click()
    until(study, "window.copied.startsWith('{')")
    assert study.evaluate("JSON.parse(window.copied).guarantee.trust") == "joint"


def test_without_a_clipboard_the_text_is_selected(study, made_up):
    study.evaluate(
        "() => { navigator.clipboard.writeText = async () => { throw new Error('not allowed'); }; }"
    )
    study.get_by_role("button", name="Copy the command").click()
    until(study, "getSelection().toString().length > 0")
    assert study.evaluate("getSelection().toString()") == made_up.COMMAND


WEAK = """() => {
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) =>
    0.2126 * linear(r / 255) + 0.7152 * linear(g / 255) + 0.0722 * linear(b / 255);
  const behind = (e) => {
    const colour = rgb(getComputedStyle(e).backgroundColor);
    return colour[3] === 0 && e.parentElement ? behind(e.parentElement) : colour;
  };
  const contrast = (a, b) => (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  const isText = (node) => node.nodeType === 3 && node.textContent.trim();
  const hasText = (e) => [...e.childNodes].some(isText) && !e.closest("svg, .chart");
  const ink = (e) => luminance(rgb(getComputedStyle(e).color));
  return [...document.querySelectorAll("main *")].filter(hasText)
    .map((e) => [e.textContent.slice(0, 40), contrast(ink(e), luminance(behind(e)))]);
}"""


@pytest.mark.parametrize(("name", "texts"), [("everything", 500), ("all runs", 100)])
def test_text_has_contrast(visit, name, texts):
    """WCAG AA: 4.5 to 1 for every text, against the background it stands on."""
    page = visit(name)
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate(WEAK)
        assert len(found) > texts
        assert [(text, ratio) for text, ratio in found if ratio < 4.5] == []
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = false; })")
    page.emulate_media(color_scheme="light")
