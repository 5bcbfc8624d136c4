"""A compared in words.

What is best, what it cost, what is significant, and where nobody learned.
"""

import math

import pytest

from confide.comparison.comparison import Comparison
from confide.comparison.intervals import Interval
from confide.comparison.words import headline, interval, nobody_learned, remarks, share_ends
from confide.report.words import number, percent
from confide.runs.run import Segment


def test_the_headline_of_a_learner_beside_itself_without_privacy(made_up):
    compared = Comparison.of_runs(made_up.study())
    said = headline(compared)
    assert said.startswith("At ε = 1, ucrl-vtr lost ") and "of what uniform play loses" in said
    assert (
        f"Privacy cost it {number(compared.rows[0].of_no_privacy.estimate, 2)} times the regret "
        "without privacy." in said
    )


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (
            lambda m: [m.learner(half=1e12)],
            "No agent learned on lock: after 100,000 users no learner is better than",
        ),
        (lambda m: [m.learner(segments=(Segment(100_000, 0.0, 0.0),))], "No agent learned on lock"),
        (
            lambda m: [m.learner(half=1e12, seed=i) for i in range(3)],
            "no learner is significantly better than uniform play",
        ),
        (lambda m: [m.learner(kind="none")], "Without privacy, ucrl-vtr lost"),
        (lambda m: [m.learner(exact=False)], "At ε = 1, ucrl-vtr earned"),
        (
            lambda m: [m.fixed("uniform", m.UNIFORM)],
            "No learner took part. Uniform play loses 106,000 on lock",
        ),
        (
            lambda m: [m.fixed("uniform", None, exact=False)],
            "No learner took part: reference policies only",
        ),
        (lambda m: [m.learner(epsilon=5.0), m.learner(epsilon=0.9)], "At ε = 0.9, ucrl-vtr lost"),
        (
            lambda m: [m.learner(agent="b", half=10.0), m.learner(agent="a")],
            "At ε = 1, b lost least on lock",
        ),
        (
            lambda m: [m.learner(seed=i, kind=k) for i in range(4) for k in ("joint", "none")],
            "is not statistically significant",
        ),
    ],
)
def test_headlines_say_what_happened(made_up, runs, words):
    assert words in headline(Comparison.of_runs(runs(made_up)))


def test_nobody_is_named_where_nobody_learned(made_up):
    compared = Comparison.of_runs(
        [made_up.learner(seed=i, half=1e12, agent=agent) for i in range(3) for agent in ("a", "b")]
    )
    assert "lost least" not in headline(compared) and "the best" not in headline(compared)
    assert nobody_learned(compared) == [
        "lock: no agent learned: none is significantly better than uniform play"
    ]
    assert nobody_learned(Comparison.of_runs(made_up.study())) == []


def test_interrupted_and_silent_runs_are_pointed_out(made_up):
    said = remarks(Comparison.of_runs(made_up.everything()))
    assert (
        "ucrl-vtr, ε = 1 was interrupted (seed 4 after 31,000 of 100,000 users): excluded from "
        "all figures." in said
    )
    assert any("so no noise is shown" in one for one in said)
    alone = remarks(Comparison.of_runs([made_up.learner(stop=500)]))
    assert any("the figures stop at 500 users" in one for one in alone)


def test_numbers_are_read_by_people():
    assert [number(x) for x in (371.4, 105_700.0, 0.1234, 1.0, 0.0, -2500.0, 1e-7)] == [
        "371", "106,000", "0.123", "1", "0", "-2,500", "1e-07",
    ]  # fmt: skip
    assert number(9.96, 2) == "10" and number(371.4, 2) == "370" and number(math.nan) == "unknown"
    assert [percent(x) for x in (1.0, 0.99996, 0.5, 0.0102, 1e-6, 1e-12, 25.0)] == [
        "100\u202f%", ">\u202f99.9\u202f%", "50\u202f%", "1\u202f%", "<\u202f0.01\u202f%",
        "0\u202f%", "2,500\u202f%",
    ]  # fmt: skip
    wide = Interval(350.0, 100.0, 420.0, 50.0, 0.95, 3)
    assert (
        interval(wide) == "350 (100 to 420)"
        and interval(Interval(350.0, None, None, None, 0.95, 1)) == "350"
    )
    assert share_ends(Interval(0.9, 0.8, 1.0, 0.1, 0.95, 3)) == "80\u202f% to 100\u202f%"
