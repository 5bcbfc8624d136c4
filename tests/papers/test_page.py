"""The page, the numbers and the figures of a reproduction."""

import json
import math
from dataclasses import replace

import pytest

from papers.findings import (
    Algorithm,
    Claim,
    Erratum,
    Figure,
    Line,
    Measurement,
    Panel,
    Reproduction,
    Table,
    plus_minus,
    short,
)
from papers.page import as_json, document, markdown, prose, write

pytestmark = pytest.mark.long

SMALL = Reproduction(
    "small16",
    "[Small16]",
    "A small paper",
    False,
    (
        Claim(
            "Thm. 1",
            "||x|| <= 1 for <x, y>",
            "2 * 2",
            True,
            "`mixtures/printed.py`",
            {"x": math.inf},
        ),
        Claim("Thm. 2", "everything", "nothing", False, "by hand"),
    ),
    (
        Algorithm(
            "Alg. 1",
            "Small",
            "mixtures/printed.py: Small",
            (Measurement("lock", None, "regret", 3.0, 0.5, "uniform 9"),),
        ),
    ),
    (Claim("Fig. 1", "it falls", "it does", None, "by eye"),),
    (
        Erratum(1, "(1)", "a*b", "b*a", "1 = 1", True, "arithmetic", {"one": 1.0}),
        Erratum(2, "(2)", "teh", "the", "", None),
        Erratum(3, "(3)", "x", "y", "x = y", False),
    ),
    (Table("numbers", ("a", "b|c"), (("1", "2"),), "a note"),),
    (
        Figure(
            "small16",
            "Two lines",
            (
                Panel(
                    "p",
                    "x",
                    "y",
                    (
                        Line("l", (1.0, 10.0), (1.0, 5.0), (0.1, 0.2), 0),
                        Line("m", (1.0, 10.0), (2.0, 2.0)),
                    ),
                ),
            ),
        ),
    ),
)


def test_the_page_has_everything():
    page = markdown(SMALL)
    for part in (
        "# [Small16] reproduced",
        "## Constants and theorems",
        "## Algorithms",
        "## Errata",
        "**does not hold**",
        "a note",
    ):
        assert part in page
    assert "Claims checked: 3. Claims that do not hold: 1." in page
    assert "Claims that the runs could not test: 0. Errata: 3." in page
    paragraph = page.split("\n\n")[1]
    assert paragraph.startswith("This page shows which claims of the paper hold")
    assert paragraph.endswith("The paper is A small paper.")
    assert (
        "| Thm. 1 | \\|\\|x\\|\\| &lt;= 1 for &lt;x, y> | 2 \\* 2 | holds | `mixtures/printed.py` |"
        in page
    )
    assert (
        "| Alg. 1 | Small | `mixtures/printed.py: Small` | lock | - | regret 3 ± 0.5 | uniform 9 |"
        in page
    )
    first = "**1. (1).** *The paper says*: a\\*b *Correct*: b\\*a *Computed*: 1 = 1 (arithmetic)"
    assert first in page
    assert "**2. (2).** *The paper says*: teh *Correct*: the (An error in the text.)" in page
    assert "The computation does not confirm this erratum." in page
    assert "![Figure: small16](small16.svg)" in page


def test_slack_has_a_list_of_its_own():
    page = markdown(
        replace(SMALL, errata=(*SMALL.errata, Erratum(4, "(4)", "5", "4", "", None, slack=True)))
    )
    errors, _, slack = page.partition("## Looser than needed, and left out")
    assert "**3. (3).**" in errors and "**4. (4).**" not in errors
    assert "**4. (4).**" in slack and "Errata: 3." in page
    assert "## Looser than needed" not in markdown(SMALL)


def test_claims_that_runs_cannot_test_say_so():
    claim = Claim("Thm. 3", "sqrt(K)", "the bound is above uniform play", "not tested", "by runs")
    page = markdown(replace(SMALL, empirical=(claim,)))
    assert "| the bound is above uniform play | not tested |" in page
    assert "Claims that the runs could not test: 1." in page
    assert (
        json.loads(as_json(replace(SMALL, empirical=(claim,))))["empirical"][0]["holds"]
        == "not tested"
    )


def test_json_is_json():
    parsed = json.loads(as_json(SMALL))
    assert parsed == document(SMALL)
    assert parsed["calibrations"][0]["numbers"] == {"x": "inf"}
    assert [claim["verdict"] for claim in parsed["calibrations"]] == ["holds", "does not hold"]
    assert parsed["broken"] == [3]
    assert [erratum["verdict"] for erratum in parsed["errata"]] == ["shown", "text", "NOT SHOWN"]


def test_the_same_findings_are_the_same_bytes(tmp_path):
    first, second = (write(SMALL, tmp_path / name) for name in ("a", "b"))
    assert [path.name for path in first] == ["small16.svg", "small16.md", "small16.json"]
    assert all(
        one.read_bytes() == other.read_bytes() for one, other in zip(first, second, strict=True)
    )


def test_computations_and_runs_are_the_same_twice(quick_reproduction):
    from confide.privacy.request import JointDP
    from papers.runs import case, regrets
    from papers.zhou22 import errata as zhou22_errata

    assert zhou22_errata.errata() == quick_reproduction("zhou22").errata
    spec = case("ucrl-vtr", "lock", JointDP(1.0, 1e-5), 1_000)
    assert (regrets(spec, range(2)) == regrets(spec, range(2))).all()


def test_numbers_as_people_read_them():
    assert [short(value) for value in (0.0, 0.5, 12.34, 1234.5, 123456.0, 1e-5)] == [
        "0",
        "0.5",
        "12.3",
        "1,234",
        "1.23e+05",
        "1e-05",
    ]
    assert plus_minus(2.0, None) == "2" and plus_minus(2.0, 0.123) == "2 ± 0.12"
    assert prose("a * b < `c * d`") == "a \\* b &lt; `c * d`"
