import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from jinja2 import UndefinedError

from confide.comparison.comparison import Comparison
from confide.comparison.intervals import interval
from confide.privacy.certificate import Certificate
from confide.report.page import environment
from confide.runs.run import Segment

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\"'&<!--"


def write_report(runs, path, *, command="", **title):
    return Comparison.of_runs(runs, **title).report(path, command=command)


class Reader(HTMLParser):
    """The page as a browser would see it: elements, visible text, and what is in scripts."""

    def __init__(self):
        super().__init__(convert_charrefs=True)
        self.elements, self.words, self.scripts, self.open = [], [], [], []

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        self.open.append(name)
        if name == "script":
            self.scripts.append("")

    def handle_endtag(self, name):
        while self.open and self.open.pop() != name:
            pass

    def handle_data(self, data):
        if "script" in self.open:
            self.scripts[-1] += data
        elif "style" not in self.open:
            self.words.append(data)

    @property
    def text(self):
        return re.sub(r"[ \n]+", " ", " ".join(self.words))

    @property
    def figures(self):
        return json.loads(self.scripts[0])


def read(path):
    reader = Reader()
    reader.feed(path.read_text(encoding="utf-8"))
    return reader


@pytest.fixture(scope="module")
def page(made_up, tmp_path_factory):
    return read(
        write_report(made_up.study(), tmp_path_factory.mktemp("study") / "new" / "report.html")
    )


@pytest.fixture
def report(tmp_path):
    return lambda runs, **more: read(write_report(runs, tmp_path / "report.html", **more))


def test_one_file_that_needs_nothing_else(page):
    # the data, what draws charts, the page, the tables
    assert [name for name, _ in page.elements].count("script") == 4
    for name, attributes in page.elements:
        assert name not in ("link", "iframe", "object", "embed", "base", "form", "img")
        assert not {"src", "srcset", "action"} & set(attributes)
        assert attributes.get("href", "#").startswith("#")
        assert not [key for key in attributes if key.startswith("on")]
    (policy,) = [
        a["content"]
        for name, a in page.elements
        if a.get("http-equiv") == "Content-Security-Policy"
    ]
    assert policy.startswith("default-src 'none';") and "http" not in policy
    assert "unsafe" not in policy.split("script-src")[1]


def test_style_and_data_name_no_address(page, made_up, tmp_path):
    text = write_report(made_up.study(1), tmp_path / "report.html").read_text()
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    assert "url(" not in style and "@import" not in style and "//" not in style
    assert "http" not in page.scripts[0] + page.scripts[2]


def test_it_says_what_happened_and_what_is_promised(page):
    for said in (
        "At ε\u00a0=\u00a01, ucrl-vtr lost",
        "times the regret without privacy",
        "Joint differential privacy",
        "All other users together",
        "The curator, who has the raw data",
        "Replace: one user is replaced by any other user.",
        "What is NOT protected",
        "A user’s own actions",
        "Simulation only.",
        "NO PRIVACY",
        "Users are not protected.",
        "uniform, oracle: a fixed reference policy for all users. It does not use their data",
        "ucrl-vtr, no privacy: no noise was added",
        "python 3.11.2, confide 0.1.0, numpy 2.4.6.",
        "20 runs in",
    ):
        assert said in page.text, said
    assert "confide run ucrl-vtr lock --epsilon 1 --delta 1e-5" in page.text


def test_reference_policies_are_not_called_no_privacy(report, made_up):
    page = report([made_up.fixed("uniform", made_up.UNIFORM)])
    assert (
        "NO PRIVACY" not in page.text
        and "does not use their data" in page.text
        and "reference" in page.text
    )


def test_the_figures_and_their_data(page, made_up):
    panels = page.figures["charts"]
    assert list(panels) == ["regret-0", "value-0", "noise-0"]
    regret = panels["regret-0"]
    assert [one["name"] for one in regret["series"]] == [
        "ucrl-vtr, ε = 1",
        "ucrl-vtr, no privacy",
        "uniform",
    ]
    private = regret["series"][0]
    users = regret["xs"][private["at"]]
    assert len(users) == len(private["y"]) == len(private["low"]) == len(private["high"])
    assert users[-1] == 100_000 and private["low"][-1] < private["y"][-1] < private["high"][-1]
    assert "low" not in regret["series"][2]  # uniform play is the same for every seed
    assert [line["y"] for line in panels["value-0"]["levels"]] == [made_up.OPTIMAL, made_up.UNIFORM]
    assert len(panels["noise-0"]["series"]) == 2  # noise and signal of the private learner
    described = [a["aria-label"] for _, a in page.elements if a.get("class") == "chart"]
    assert len(described) == 3 and "ucrl-vtr, ε = 1:" in described[0]


def test_the_same_seeds_have_the_same_interval_in_the_figure_the_table_and_the_summary(
    page, made_up
):
    regrets = [run.regret[-1] for run in made_up.study()[:5]]
    found = interval(regrets, positive=True)
    table = page.figures["tables"]["results"]["csv"]
    row = dict(zip(table["heads"], table["rows"][0], strict=True))
    assert (row["regret"], row["regret_low"], row["regret_high"]) == (
        found.estimate,
        found.low,
        found.high,
    )
    drawn = page.figures["charts"]["regret-0"]["series"][0]
    ends = [float(f"{end:.6g}") for end in (found.estimate, found.low, found.high)]
    assert [drawn[part][-1] for part in ("y", "low", "high")] == ends


def test_final_figures_over_seeds(page, made_up):
    keys = [float(a["data-key"]) for name, a in page.elements if name == "td" and a.get("data-key")]
    regrets = [run.regret[-1] for run in made_up.study()[:5]]
    assert keys[:3] == [1.0, 5.0, pytest.approx(sum(regrets) / 5)]


def test_uniform_play_is_drawn_even_if_nobody_ran_it(report, made_up):
    traces = report([made_up.learner()]).figures["charts"]["regret-0"]["series"]
    assert traces[-1]["name"] == "uniform play" and traces[-1]["y"] == [1.06, 106_000]


def test_a_learner_without_noise_says_so(report, made_up):
    page = report([made_up.learner(kind="none")])
    assert "noise-0" not in page.figures["charts"]
    assert "so no noise is shown" in page.text and "Simulation only" not in page.text


@pytest.mark.parametrize(
    ("kind", "against", "trusted"),
    [
        ("central", "Everybody who reads the releases", "The curator"),
        ("joint", "All other users together", "The curator"),
        ("local", "Everybody, including the server", "Only the user’s own device"),
    ],
)
def test_the_privacy_panel_says_whom_to_trust(report, made_up, kind, against, trusted):
    text = report([made_up.learner(kind=kind)]).text
    assert against in text and trusted in text
    assert ("exact sums and saved state must stay secret" in text) is (kind != "local")


def test_secure_noise_has_no_warning(report, made_up):
    text = report(
        [
            made_up.learner(
                certificate=None, guarantee=made_up.guarantee_of("joint", source="secure")
            )
        ]
    ).text
    assert "Simulation only" not in text and "from the system’s entropy" in text


def test_returns_where_values_are_unknown(report, made_up):
    page = report([made_up.learner(exact=False, seed=i) for i in range(3)])
    assert list(page.figures["charts"]) == ["regret-0", "noise-0"]
    assert (
        page.figures["charts"]["regret-0"]["y"]["title"] == "average return"
        and "ucrl-vtr earned" in page.text
    )
    assert "The average returns in this report" in page.text  # measured on raw data, and it says so


def test_the_last_policys_return_has_an_interval_over_its_users(report, made_up):
    """Of two seeds, with margins .03 and .04: that of their average is half of .05."""
    runs = [
        made_up.fixed(
            "uniform",
            None,
            exact=False,
            seed=seed,
            segments=(Segment(10, None, 0.5, return_error=margin / 1.959964),),
        )
        for seed, margin in ((0, 0.03), (1, 0.04))
    ]
    assert "0.475 to 0.525" in report(runs).text
    assert "0.47 to 0.53" in report(runs[:1]).text


def test_every_certificate_once(page, made_up):
    places = [
        a["id"] for name, a in page.elements if name == "pre" and a["id"].startswith("certificate")
    ]
    assert len(places) == 2  # one per series, not per seed
    assert made_up.learner().certificate.document["subject"] in page.text


def test_the_command_given_beats_the_commands_of_the_runs(report, made_up):
    page = report([made_up.learner()], command="make demo", name="A demo")
    assert "make demo" in page.text and "--epsilon 1" not in page.text and "A demo" in page.text
    assert "no command was recorded" in report([made_up.learner(command="")]).text


def test_nothing_that_comes_from_outside_becomes_markup(report, made_up):
    document = made_up.learner().certificate.document | {"subject": EVIL}
    runs = [
        made_up.learner(
            agent=EVIL,
            problem=EVIL,
            command=EVIL,
            certificate=Certificate(document),
            versions={EVIL: EVIL},
        ),
        made_up.learner(agent="b", problem=EVIL, certificate=None),
    ]
    page = report(runs, name=EVIL)
    names = [name for name, _ in page.elements]
    assert names.count("script") == 4 and "img" not in names
    assert not [a for _, a in page.elements if "onerror" in a]
    assert page.text.count("<img src=x onerror=alert(1)></script>") >= 6
    # charts.js writes names as text, and no < survives in the data.
    assert page.figures["charts"]["regret-0"]["series"][0]["name"] == f"{EVIL}, ε = 1"
    assert "<" not in page.scripts[0]


def test_names_are_no_templates(report, made_up):
    assert (
        "{{ title }} {% raw %} $body"
        in report([made_up.learner(agent="{{ title }} {% raw %} $body")]).text
    )


def test_odd_runs_make_a_page(report, made_up):
    odd = [
        made_up.learner(users=1, segments=(Segment(1, 1.0, 1.0, 0.0, 0.0),)),
        made_up.fixed("oracle", made_up.OPTIMAL),
        made_up.learner(uniform_value=None),
        made_up.learner(
            optimal_value=1.0, uniform_value=1.0, segments=(Segment(100_000, 1.0, 1.0),)
        ),
        made_up.learner(segments=(Segment(100_000, None, 1.0, 2.0, None),)),
    ]
    for run in odd:
        assert "Results" in report([run]).text


def test_templates_escape_and_know_their_names():
    with pytest.raises(UndefinedError):
        environment().from_string("{{ nobody }}").render()
    assert environment().from_string("<p>{{ text }}</p>").render(text="<b>") == "<p>&lt;b&gt;</p>"
    assert environment() is environment()


def test_questions_are_shown_folded_and_escaped(made_up, tmp_path):
    from confide.learning.question import Question

    def asked(number, **more):
        return Question(
            number,
            1 + 10 * (number - 1),
            10,
            "all users: <b>",
            EVIL,
            "yes to 1",
            "no to 2",
            0.25,
            1.0,
            **more,
        )

    run = replace(
        made_up.learner(),
        questions=(asked(1, answer=3.0, noise=1.0), asked(1, answer=-9.0, noise=1.0), asked(2)),
    )
    page = read(write_report([run], tmp_path / "asked.html"))
    folds = [attributes for name, attributes in page.elements if name == "details"]
    assert folds and not any("open" in attributes for attributes in folds)
    assert (
        "3 questions in 2 rounds" in page.text
        and "Round 1: users 1 to 10, 2 questions" in page.text
    )
    assert (
        "6 more yes than no (noise: ± 4); 2 more yes expected" in page.text
        and "18 more no than yes (noise: ± 4); 2 more yes expected: a surprise" in page.text
    )
    assert "expected to remove 25" in page.text and "not answered yet" in page.text
    assert EVIL in page.text and not any(name == "img" for name, _ in page.elements)


def test_no_questions_no_section(page):
    assert "questions" not in {attributes.get("id") for _, attributes in page.elements}
