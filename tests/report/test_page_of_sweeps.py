"""The report of a comparison, as HTML and in a real browser."""

import csv
import io
import json
import math
import re

import numpy as np
import pytest

from confide.experiments.table import tidy
from confide.report.comparison import Comparison
from confide.report.words import headline

GAP = 1.06  # between optimal and uniform play


def cell(problem, agent, epsilon, seed, *, half=None, users=20_000, known=True, error=None):
    """A run that never happened: half of what there is to learn is learned within about `half` users."""
    facts = {"problem": problem, "agent": agent, "trust": "none" if epsilon is None else "joint", "epsilon": epsilon}
    facts |= {"delta": None if epsilon is None else 1e-5, "seed": seed, "episodes": users}
    promise = "" if epsilon is None else f" --epsilon {epsilon!r} --delta 1e-05"
    said = {"cell": facts, "command": f"confide run {agent} {problem}{promise} --episodes {users} --seed {seed}"}
    if error is not None:
        return said | {"status": "failed", "error": error}
    at = np.unique(np.geomspace(1, users, 120).astype(int))
    luck = math.exp(0.25 * np.random.default_rng(seed).normal() + 0.1 * np.random.default_rng([seed, len(agent)]).normal())
    lost = GAP * at if half is None else GAP * half * luck * np.log1p(at / (half * luck))
    value = 1.17 - np.gradient(lost, at)
    goal = None if half is None else int(9 * half * luck)
    return said | {
        "status": "done",
        "guarantee": "NO PRIVACY, 20000 users" if epsilon is None else f"JointDP(epsilon={epsilon}, delta=1e-05)",
        "true_epsilon": None if epsilon is None else epsilon / (900 if "paper" in agent else 1),
        "optimal_value": 1.17 if known else None,
        "uniform_value": 1.17 - GAP if known else None,
        "episodes_to_90": goal if known and goal is not None and goal < users else None,
        "users": at.tolist(),
        "regret": lost.tolist() if known else [None] * len(at),
        "value": value.tolist() if known else [None] * len(at),
        "mean_return": None if known else value.tolist(),
    }


def made(cells, name="made up"):
    return Comparison(name, tidy(name, ((f"key-{i}", one) for i, one in enumerate(cells))))


def everything(seeds=8, problems=("lock", "rand seed=1", "tree", "cartpole"), epsilons=(0.5, 1.0, 5.0, 10.0, None)):
    """Three agents, five promises, four problems, of one of which the values are not known; some runs failed."""
    cells = []
    for place, problem in enumerate(problems):
        known = problem != "cartpole"
        for agent, half in (("ucrl-vtr", 60.0), ("ucrl-vtr paper", 9000.0), ("likelihood-vi", 25.0)):
            for epsilon in epsilons:
                more = (1 + place) * half * (1 + (1 / epsilon if epsilon else 0))
                broken = problem == "tree" and agent == "likelihood-vi" and epsilon == 0.5
                for seed in range(seeds):
                    error = "the weights are not on the simplex" if broken and seed < 3 else None
                    cells.append(cell(problem, agent, epsilon, seed, half=more, known=known, error=error))
        cells += [cell(problem, "uniform", None, seed, known=known) for seed in range(seeds)]
    return made(cells)


EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\"'&<!--|,"


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Each page once; plotly.js is in all of them."""
    folder = tmp_path_factory.mktemp("comparisons")
    evil = [cell(EVIL, EVIL + str(i), epsilon, seed, half=30.0) for i in range(2) for epsilon in (1.0, None) for seed in range(2)]
    evil.append(cell(EVIL, EVIL, 1.0, 9, error=EVIL))
    unknown = [
        cell("cartpole", agent, e, s, half=50.0, known=False) for agent in ("a", "b") for e in (1.0, None) for s in range(3)
    ]
    return {
        "everything": everything().report(folder / "new" / "everything.html", command="confide compare made-up.toml"),
        "evil": made(evil, EVIL).report(folder / "evil.html", command=EVIL),
        "one seed": everything(1, ("lock",), (1.0, None)).report(folder / "one.html"),
        "unknown": made(unknown).report(folder / "unknown.html"),
        "long": made([cell("p" * 200, "a" * 200, 1.0, 0, half=30.0)], "n" * 200).report(folder / "long.html"),
        "failed": made([cell("lock", "ucrl-vtr", 1.0, 0, error="no")]).report(folder / "failed.html"),
    }


def body(path):
    """What is between the scripts and the style sheet."""
    return re.sub(r"<(script|style)[^>]*>.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)


def figures(path):
    return json.loads(re.search(r'id="figures">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1])


def test_headline_says_what_is_best_what_it_cost_and_what_is_luck():
    some = {"problems": ("lock", "tree"), "epsilons": (1.0, None)}
    said = headline(everything(**some).study)
    assert said.startswith("At ε = 1, likelihood-vi lost least on lock and tree: ")
    assert "Privacy cost it 1.8 times the regret without privacy." in said
    assert "12 of 12 differences between agents are statistically significant" in said
    few = headline(everything(4, **some).study)
    assert "none of 12 differences between agents can be significant" in few and "; 6 seeds could show one" in few


def test_headline_of_one_learner_of_reference_play_and_of_nothing():
    alone = made([cell("lock", "ucrl-vtr", 1.0, s, half=30.0) for s in range(3)])
    assert headline(alone.study).startswith("At ε = 1, ucrl-vtr lost 2")
    assert headline(made([cell("lock", "uniform", None, 0)]).study).startswith("No learner took part")
    assert headline(made([cell("lock", "ucrl-vtr", 1.0, 0, error="no")]).study) == "Nothing came out: every run failed."
    split = [
        cell(p, a, None, s, half=h)
        for s in range(2)
        for p, a, h in (("x", "A", 9), ("x", "B", 99), ("y", "A", 99), ("y", "B", 9))
    ]
    assert headline(made(split).study).startswith("Without privacy, the best was A on x and B on y: ")


def test_the_page_is_quiet_and_has_every_row_and_command(pages):
    text = body(pages["everything"])
    comparison = everything()
    assert text.count("<tr id=") == len(comparison.groups) == 64
    for group in comparison.groups:
        for command in group.commands:
            assert command.replace("'", "&#39;") in re.sub(r"<[^>]*>", "", text)
    assert "3 failed" in text and "the weights are not on the simplex" in text
    assert "really 0.0011" in text  # what the paper's noise gives
    assert "[Luyo21, Cor. 5]" in text and "not reached in 8 of 8" in text
    assert "http" not in re.sub(r"http-equiv", "", text)


def test_numbers_of_a_table_are_those_of_the_summary(pages):
    table = figures(pages["everything"])["tables"]["results"]["csv"]
    rows = [dict(zip(table["heads"], row, strict=True)) for row in table["rows"]]
    assert rows == json.loads(json.dumps(everything().summary()))


def test_anchors_are_unique_and_every_curve_has_one(pages):
    text, data = body(pages["everything"]), figures(pages["everything"])
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))
    drawn = {trace["curve"] for key, panel in data["panels"].items() if key.startswith("regret") for trace in panel["traces"]}
    assert drawn == set(re.findall(r'<tr id="([^"]+)"', text))
    assert "lock-ucrl-vtr-joint-0.5" in drawn and {f"commands-{name}" for name in drawn} <= set(names)
    alike = made([cell("lock", agent, 1.0, 0, half=30.0) for agent in ("a b", "a-b", "A_b")]).study
    assert len({row.anchor for row in alike.rows}) == 3


def test_the_ladder_needs_both_calibrations(pages):
    assert body(pages["everything"]).count("paper constants") == 3 * 4  # where regret is known, for each epsilon
    assert "paper constants" not in body(pages["unknown"])


def test_what_is_not_known_is_not_made_up(pages):
    text, data = body(pages["unknown"]), figures(pages["unknown"])
    assert "Average return" in text and "regret</button>" not in text
    assert data["panels"]["regret-0"]["y"] == {"title": "average return", "zero": False, "from": 50}
    assert "regret" not in data["tables"]["results"]["markdown"]["heads"]  # nor any other column that nothing is in
    assert "With one seed nothing can be said about statistical significance." in body(pages["one seed"])
    assert "low" not in figures(pages["one seed"])["panels"]["regret-0"]["traces"][0]


SCREENS = {"desktop": {"width": 1280, "height": 800}, "phone": {"width": 375, "height": 812}}


@pytest.fixture(scope="module")
def visit(browser, pages):
    """A page, opened once; whatever it asks the network for, and whatever it complains about, is kept."""
    opened = {}

    def page_of(name, anchor="", **more):
        if (name, anchor) not in opened:
            facts = {"viewport": SCREENS["desktop"], "color_scheme": "light"} | more
            opened[name, anchor] = page = browser.new_page(**facts)
            page.set_default_timeout(15_000)
            page.requests, page.complaints = [], []
            page.on("request", lambda request: page.requests.append(request.url))
            page.on("console", lambda said: page.complaints.append(said.text) if said.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: page.complaints.append(str(error)))
            page.on("dialog", lambda dialog: (page.complaints.append("a dialog opened"), dialog.dismiss()))
            page.goto(pages[name].as_uri() + anchor)
            page.wait_for_selector("html[data-drawn=yes]")
        return opened[name, anchor]

    return page_of


@pytest.fixture
def page(visit):
    """The page of everything; a test may change it, puts back what it changed, and must be quiet."""
    page = visit("everything")
    seen_on(page, "desktop")
    page.evaluate("() => { navigator.clipboard.writeText = async (text) => { window.copied = text; }; }")
    yield page
    assert page.complaints == []


def until(page, expression):
    """Wait for it. Not the page's own `wait_for_function`: that one evaluates strings, which the page's policy forbids."""
    for _ in range(200):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"never came true: {expression}")


def names(page, panel="regret-0"):
    """Of the curves that are drawn; bands have none."""
    return page.evaluate(f"document.getElementById('{panel}').data.filter((t) => t.name).map((t) => t.name)")


def place(page, panel, name, share=0.8):
    """Where a curve is on the screen."""
    return page.evaluate(
        """([panel, name, share]) => {
          const div = document.getElementById(panel);
          div.scrollIntoView({ block: "center" });
          const { xaxis, yaxis } = div._fullLayout, box = div.getBoundingClientRect();
          const t = div.data.find((one) => one.name === name), i = Math.floor(share * (t.x.length - 1));
          return [box.left + xaxis._offset + xaxis.d2p(t.x[i]), box.top + yaxis._offset + yaxis.d2p(t.y[i])];
        }""",
        [panel, name, share],
    )


SETTLED = """[...document.querySelectorAll(".plotly-graph-div")].every((div) => Math.abs(div._fullLayout.width - div.clientWidth) < 2)"""


def seen_on(page, screen):
    """The screen changes, and then the figures do."""
    page.set_viewport_size(SCREENS[screen])
    until(page, SETTLED)


WIDEST = """() => Math.max(document.documentElement.scrollWidth, ...[...document.querySelectorAll("main *")]
  .filter((e) => !e.closest(".scroll, .plotly-graph-div, pre, svg, dialog")).map((e) => e.getBoundingClientRect().right))"""


@pytest.mark.parametrize(
    ("name", "panels"), [("everything", 11), ("evil", 2), ("one seed", 2), ("unknown", 1), ("long", 2), ("failed", 0)]
)
def test_opens_quietly_offline_and_within_the_screen(visit, name, panels):
    page = visit(name)
    assert page.locator(".plotly-graph-div").count() == panels
    for screen in SCREENS:
        seen_on(page, screen)
        drawn = page.evaluate(
            """() => [...document.querySelectorAll(".plotly-graph-div")].map((div) => Math.max(0,
              ...[...div.querySelectorAll(".scatterlayer path.js-line")].map((path) => path.getTotalLength())))"""
        )
        assert all(length > 100 for length in drawn) or name == "long", drawn
        assert page.evaluate(WIDEST) <= SCREENS[screen]["width"]
    assert page.complaints == []
    assert [url for url in page.requests if not url.startswith(("file:", "data:", "blob:"))] == []


def test_one_promise_at_a_time_beside_no_privacy(page):
    learners = ["ucrl-vtr", "ucrl-vtr paper", "likelihood-vi"]
    shown = [f"{agent}, {promise}" for agent in learners for promise in ("ε = 1", "no privacy")]
    assert names(page) == [*shown, "uniform"]
    picks = page.locator("#regret .picks[aria-label=Guarantee]")
    picks.get_by_role("button", name="all").click()
    until(page, "document.getElementById('regret-0').data.length === 3 * 5 + 1")  # and no bands
    assert page.locator("[data-ladder='ε = 1']").is_visible()
    picks.get_by_role("button", name="ε = 5").click()
    until(page, "document.getElementById('regret-3').data.some((t) => t.name === 'ucrl-vtr, ε = 5')")
    assert not page.locator("[data-ladder='ε = 1']").is_visible() and page.locator("[data-ladder='ε = 5']").is_visible()
    picks.get_by_role("button", name="ε = 1", exact=True).click()
    until(page, "document.getElementById('regret-3').data.some((t) => t.name === 'ucrl-vtr, ε = 1')")


def test_chips_hide_an_agent_in_all_figures(page):
    first, second = (page.locator(f"{place} .chip", has_text="ucrl-vtr paper") for place in ("#regret", "#privacy"))
    first.click()
    until(page, "!document.getElementById('privacy-0').data.some((t) => t.name.startsWith('ucrl-vtr paper'))")
    assert not any("paper" in name for name in names(page)) and second.get_attribute("aria-pressed") == "false"
    second.focus()
    page.keyboard.press("Enter")
    until(page, "document.getElementById('regret-0').data.some((t) => t.name === 'ucrl-vtr paper, ε = 1')")
    assert first.get_attribute("aria-pressed") == "true"
    beside = page.locator("#regret .chip[data-beside]")
    beside.click()
    until(page, "!document.getElementById('regret-0').data.some((t) => t.name?.endsWith('no privacy'))")
    beside.click()


def test_axes_switch_between_logarithmic_and_linear(page):
    kinds = "['regret-0', 'privacy-0'].map((id) => document.getElementById(id)._fullLayout.yaxis.type).join()"
    assert page.evaluate(kinds) == "log,log"
    page.get_by_role("button", name="linear").click()
    until(page, f"{kinds} === 'linear,linear'")
    page.get_by_role("button", name="log", exact=True).click()
    until(page, f"{kinds} === 'log,log'")


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
    page.wait_for_selector(f"#{panel} .hoverlayer text")
    page.mouse.click(x, y)
    page.wait_for_selector("dialog[open]")
    assert page.locator("#shown-title").inner_text() == title
    problem = title.partition(" on ")[2]
    lines = page.locator("#shown-commands").inner_text().splitlines()
    assert len(lines) == 8 and all(line.startswith("confide run ") and problem in line for line in lines)
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
    assert (
        "below 0.5" in page.locator("#shown-facts").inner_text() or "the bound's 0.5" in page.locator("#shown-facts").inner_text()
    )
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
    assert len(rows) == 16 and costs == sorted(costs, reverse=True) and {row["epsilon"] for row in rows} == {"5", ""}
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
    page.evaluate("() => { navigator.clipboard.writeText = async () => { throw new Error('not allowed'); }; }")
    page.evaluate("() => { document.execCommand = () => { window.old = document.activeElement.value; return true; }; }")
    page.locator("#results").get_by_role("button", name="Copy as Markdown").click()
    until(page, "window.old?.startsWith('| agent')")
    assert page.locator("textarea").count() == 0


def test_what_comes_from_outside_stays_text(visit):
    page = visit("evil")
    seen_on(page, "desktop")
    assert page.locator("h1").inner_text() == EVIL
    x, y = place(page, "regret-0", page.evaluate("document.getElementById('regret-0').data.find((t) => t.name).name"), 0.9)
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    page.wait_for_selector("#regret-0 .hoverlayer text")
    assert "<img src=x" in page.locator("#regret-0 .hoverlayer").text_content()
    page.mouse.click(x, y)
    page.wait_for_selector("dialog[open]")
    assert "<img src=x" in page.locator("#shown-title").inner_text()
    page.keyboard.press("Escape")
    assert page.locator("img").count() == 0 and page.locator("script").count() == 3
    assert page.complaints == []


def test_the_figures_follow_the_screen_into_the_dark(page):
    line = "getComputedStyle([...document.querySelectorAll('#regret-0 path.js-line')].at(-1)).stroke"
    light = page.evaluate(line)
    page.emulate_media(color_scheme="dark")
    until(page, f"{line} !== '{light}'")
    page.emulate_media(color_scheme="light")
    until(page, f"{line} === '{light}'")


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


def test_text_has_contrast(page):
    """WCAG AA: 4.5 to 1 for every text, against the background it stands on."""
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        found = page.evaluate(WEAK)
        assert len(found) > 500
        assert [(text, ratio) for text, ratio in found if ratio < 4.5] == []
    page.emulate_media(color_scheme="light")
