"""The page of a sweep: what it says, and the data of its figures."""

import json
import re

from confide.cli.results import print_rows
from confide.comparison.words import headline


def body(path):
    """What is between the scripts and the style sheet."""
    return re.sub(
        r"<(script|style)[^>]*>.*?</\1>", "", path.read_text(encoding="utf-8"), flags=re.DOTALL
    )


def figures(path):
    return json.loads(
        re.search(r'id="figures">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)[1]
    )


def test_headline_says_what_is_best_what_it_cost_and_what_is_luck(sweeps):
    some = {"problems": ("lock", "tree"), "epsilons": (1.0, None)}
    said = headline(sweeps.everything(**some))
    assert said.startswith("At ε = 1, likelihood-vi lost least on lock and tree: ")
    assert "Privacy cost it 1.8 times the regret without privacy." in said
    assert "12 of 12 differences between agents are statistically significant" in said
    few = headline(sweeps.everything(4, **some))
    assert (
        "none of 12 differences between agents can be significant" in few
        and "; 6 seeds could show one" in few
    )


def test_headline_of_one_learner_of_reference_play_and_of_nothing(sweeps):
    alone = sweeps.made([sweeps.cell("lock", "ucrl-vtr", 1.0, s, half=30.0) for s in range(3)])
    assert headline(alone).startswith("At ε = 1, ucrl-vtr lost 2")
    assert headline(sweeps.made([sweeps.cell("lock", "uniform", None, 0)])).startswith(
        "No learner took part"
    )
    assert (
        headline(sweeps.made([sweeps.cell("lock", "ucrl-vtr", 1.0, 0, error="no")]))
        == "There are no results: every run failed."
    )
    split = [
        sweeps.cell(p, a, None, s, half=h)
        for s in range(2)
        for p, a, h in (("x", "A", 9), ("x", "B", 99), ("y", "A", 99), ("y", "B", 9))
    ]
    assert headline(sweeps.made(split)).startswith(
        "Without privacy, the best was A on x and B on y: "
    )


def test_the_page_is_quiet_and_has_every_row_and_command(pages, sweeps):
    text = body(pages["everything"])
    comparison = sweeps.everything()
    assert text.count("<tr id=") == len(comparison.rows) == 64
    for row in comparison.rows:
        for command in row.commands:
            assert command.replace("'", "&#39;") in re.sub(r"<[^>]*>", "", text)
    assert "3 failed" in text and "the weights are not on the simplex" in text
    assert "true ε 0.0011" in text  # what the paper's noise gives
    assert "[Luyo21, Cor. 5]" in text and "not reached in 8 of 8" in text
    assert "http" not in re.sub(r"http-equiv", "", text)


def test_numbers_of_a_table_are_those_of_the_summary(pages, sweeps):
    table = figures(pages["everything"])["tables"]["results"]["csv"]
    rows = [dict(zip(table["heads"], row, strict=True)) for row in table["rows"]]
    assert rows == json.loads(json.dumps(sweeps.everything().summary()))


def test_a_page_is_small(pages):
    """Three agents under five guarantees on four problems with eight seeds.

    And the smallest page.
    """
    assert pages["everything"].stat().st_size < 1e6 and pages["reference"].stat().st_size < 1e5


def test_anchors_are_unique_and_every_curve_has_one(pages, sweeps):
    text, data = body(pages["everything"]), figures(pages["everything"])
    names = re.findall(r'\bid="([^"]+)"', text)
    assert len(names) == len(set(names))
    drawn = {
        anchor
        for key, chart in data["charts"].items()
        if key.startswith("regret")
        for series in chart["series"]
        for anchor in series["rows"]
    }
    assert drawn == set(re.findall(r'<tr id="([^"]+)"', text))
    assert "lock-ucrl-vtr-joint-0.5" in drawn and {f"commands-{name}" for name in drawn} <= set(
        names
    )
    alike = sweeps.made(
        [sweeps.cell("lock", agent, 1.0, 0, half=30.0) for agent in ("a b", "a-b", "A_b")]
    )
    assert len({row.anchor for row in alike.rows}) == 3


def test_the_ladder_needs_both_calibrations(pages):
    # where regret is known, for each epsilon
    assert body(pages["everything"]).count("paper constants") == 3 * 4
    assert "paper constants" not in body(pages["unknown"])


def test_what_is_not_known_is_not_made_up(pages):
    text, data = body(pages["unknown"]), figures(pages["unknown"])
    assert "Average return" in text and "regret</button>" not in text
    axis = data["charts"]["regret-0"]["y"]
    assert (axis["title"], axis["log"], axis["settled"]) == ("average return", None, 50)
    # nor any other column that nothing is in
    assert "regret" not in data["tables"]["results"]["markdown"]["heads"]
    assert "With one seed nothing can be said about statistical significance." in body(
        pages["one seed"]
    )
    assert "low" not in figures(pages["one seed"])["charts"]["regret-0"]["series"][0]


def test_the_table_of_results_fits_80_columns_and_breaks_no_word(sweeps, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "80")
    agents = ("certainty-equivalent-lq paper", "ucrl-vtr-plus")
    cells = [
        sweeps.cell("rand seed=1", agent, epsilon, seed, half=2000, users=2_000_000)
        for agent in agents
        for epsilon in (0.125, None)
        for seed in range(3)
    ]
    print_rows(sweeps.made(cells))
    table = capsys.readouterr().out.partition("% of optimal:")[0]
    assert max(map(len, table.splitlines())) <= 80
    words = table.split()
    for word in ("certainty-equivalent-lq", "optimal", "private", "users", "0.125"):
        assert word in words
    # Each interval stands on one line.
    assert len(re.findall(r"\([\d,.kM]+ to [\d,.kM]+\)", table)) == 4
