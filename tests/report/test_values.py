"""The values of states: table, figure and page."""

import csv
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from confide.evaluation import ValueEstimate
from confide.privacy import words as privacy_words
from confide.privacy.certificate import Mechanism, certify
from confide.privacy.loss import PureDP
from confide.report import values
from confide.report.values import (
    ValueReport,
    cells,
    heads,
    plot_values,
    rows,
    titles,
    words,
    write_values,
)

EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\"'&<!--"


def estimate(made_up, *, states=5, kind="central", bars=True, subject="values"):
    """Counts fall with the number of the state, but for the last, which has the most.

    The first has too few for an interval.
    """
    guarantee = made_up.guarantee_of(kind, users=1000, source="secure")
    plain = kind == "none"
    mechanism = Mechanism(
        "exact", "none" if plain else "gaussian", 2, 1.0, 0.0 if plain else 3.0, {"leaves": 1}
    )
    counts = np.append(0.5, 10.0 * np.arange(1, states))
    values = np.linspace(0, 1, states)
    ratio = {
        "counts": counts,
        "sums": counts * (2 * values - 1),
        "count_std": np.ones(states),
        "sum_std": np.ones(states),
        "sampling_variance": np.ones(states),
    }
    noise = np.full(states, 0.05) if bars or plain else None
    certificate = certify(guarantee, [mechanism], subject=subject)
    return ValueEstimate(
        values, noise, guarantee, certificate, 0.0, 1.0, released=ratio if bars else {}
    )


def shown(made_up, title="The values of 5 states", **options):
    return ValueReport(
        estimate(made_up, **options), title, remarks=(("counted", "returns are clipped."),)
    )


def test_rows_in_the_order_of_visits(made_up):
    one = shown(made_up)
    assert heads(one) == ["state", "value", "low", "high", "noise_std", "visits"]
    assert [row[0] for row in rows(one)] == [4, 3, 2, 1, 0]
    assert [row[0] for row in rows(one, 2)] == [4, 3]
    assert titles(one) == ["state", "value", "90 % interval", "noise std", "visits (noisy)"]
    assert cells(one, rows(one)[0])[:2] == ["4", "1.000"]
    assert cells(one, rows(one)[-1])[2] == "not estimated"
    assert "1 interval is not estimated" in dict(words(one))["intervals"]


def test_what_intervals_are_about_and_why_they_are_the_whole_range(made_up):
    one = shown(made_up)
    assert "covers the true value with probability 90 %" in dict(words(one))["intervals"]
    assert (
        "because it would be the whole range: there are too few data for this much noise."
        in dict(words(one))["intervals"]
    )
    linear = ValueReport(one.estimate, "", about="the best linear fit")
    assert "covers the best linear fit with probability" in dict(words(linear))["intervals"]
    one.estimate.released["sampling_variance"][:] = np.inf
    linear = ValueReport(one.estimate, "")
    assert (
        "5 intervals are not estimated, because it would be the whole range: with this much "
        "noise the matrix" in dict(words(linear))["intervals"]
    )


def test_without_error_bars_it_says_why(made_up):
    one = shown(made_up, bars=False)
    assert heads(one) == ["state", "value"]
    assert [row[0] for row in rows(one)] == [0, 1, 2, 3, 4]
    assert "depends on the data" in dict(words(one))["intervals"]
    assert cells(one, rows(one)[1]) == ["1", "0.250"]


def test_promises_in_words(made_up):
    said = privacy_words.consequence(made_up.guarantee_of("central", relation="null"))
    assert "if any one of the 100,000 users had contributed nothing" in said
    assert "e^epsilon = 2.72" in said
    assert "users are not protected" in privacy_words.consequence(made_up.guarantee_of("none"))


@pytest.mark.parametrize("states", [1, 5, 200])
@pytest.mark.parametrize("bars", [True, False])
def test_figures(made_up, states, bars):
    figure = plot_values(shown(made_up, states=states, bars=bars))
    (ax,) = figure.axes
    assert ax.get_xlabel() == ("states, ordered by value" if states > 60 else "state")
    assert len(ax.lines[0].get_xdata()) == states
    assert ("no intervals" in ax.get_ylabel()) == (not bars)
    if bars and states <= 60:
        (lines,) = ax.collections
        assert lines.get_zorder() > ax.lines[0].get_zorder()


def test_files(made_up, tmp_path):
    one = shown(made_up)
    page = write_values(one, tmp_path / "new", command="confide evaluate log.parquet").read_text()
    names = {path.name for path in (tmp_path / "new").rglob("*") if path.is_file()}
    assert names == {
        "estimate.npz",
        "certificate.json",
        "values.csv",
        "values.svg",
        "values.png",
        "report.html",
    }
    with (tmp_path / "new/values.csv").open() as file:
        table = list(csv.DictReader(file))
    assert [float(row["value"]) for row in table] == one.estimate.values.tolist()
    assert "confide evaluate log.parquet" in page
    assert "What is NOT protected" in page
    assert "default-src 'none'" in page and page.count("<script") == 1
    assert not re.search(r"(src|href)=\"(?!data:)", page)


def test_one_value_is_one(made_up, tmp_path):
    page = write_values(shown(made_up, states=1), tmp_path).read_text()
    assert "1 value<" in page and "1 values" not in page


def test_nothing_is_taken_for_markup(made_up, tmp_path):
    page = write_values(
        shown(made_up, title=EVIL, subject=EVIL), tmp_path, command=EVIL
    ).read_text()
    assert page.count("<script") == 1 and "<img src=x" not in page


def test_no_privacy_is_loud(made_up, tmp_path):
    page = write_values(shown(made_up, kind="none"), tmp_path).read_text()
    assert page.index("NO PRIVACY") < page.index("data:image/svg+xml")
    assert "visits (exact)" in page


@pytest.mark.parametrize(
    ("above", "effective", "said"),
    [
        (0.0, 400.0, "no weight is above the clip"),
        (50.0, 400.0, "50 of 1,000 users have a weight above the clip"),
        (50.0, 20.0, "the model of `confide learn`"),
    ],
)
def test_weights_say_what_was_clipped_what_is_left_and_which_estimator_to_use(
    above, effective, said
):
    policies = SimpleNamespace(
        users=1000,
        counted=1000.0,
        per_decision=True,
        above=lambda _policy: (above, 0.0),
        effective_users=lambda _policy: effective,
    )
    told = values._explain_weights(policies)
    assert said in told and f"{effective:,.0f} of 1,000 users" in told


def test_a_page_leads_with_the_number_that_matters(made_up, tmp_path):
    page = write_values(shown(made_up), tmp_path).read_text()
    assert page.index("From 1,000 users: the values of 5 states range from") < page.index("<img")
    # What is revealed about one user, with the numbers of the header and of the full guarantee.
    assert page.index("Revealed about one user") < page.index("<img")


def test_a_page_states_one_delta_for_pure_privacy(made_up, tmp_path):
    report = shown(made_up)
    pure = replace(report.estimate.guarantee, loss=PureDP(1.0))
    object.__setattr__(report.estimate, "guarantee", pure)
    assert pure.delta > 0
    page = write_values(report, tmp_path).read_text()
    assert "delta=0)" in page and "δ = 0" in page and "at delta = 0" in page
    assert "1e-0" not in page.partition("<details>")[0]
