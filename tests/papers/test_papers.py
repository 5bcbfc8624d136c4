"""What every paper's quick form must have, and what it must find. All seeds are fixed."""

import math

import pytest

from confide.errors import InvalidParameter
from papers import PAPERS, reproduce

pytestmark = pytest.mark.long

# Claims that the computations contradict. They do not depend on how many seeds were run.
REFUTED = {
    "balle16": {"Lemma 1", "Supplement, Lemma 12, Thm. 13, Cor. 14", "Supplement, Thm. 19"},
    "luyo21": set(),
    "zhou22": {"Thm. 6.4"},
    "chowdhury21": {
        "Thm. 2, for any epsilon",
        "Thm. 2, the algorithm",
        "Lemma 2",
        "Thm. 1, Thm. 3, in H",
    },
}
ERRATA = {"balle16": 11, "luyo21": 18, "zhou22": 10, "chowdhury21": 16}
# Entries of the same lists that are no errors. There the paper is looser than needed, or leaves
# something out.
SLACK = {
    "balle16": {9, 10, 11},
    "luyo21": {5, 6, 15, 16},
    "zhou22": {9},
    "chowdhury21": {6, 11, 15, 16},
}


@pytest.mark.parametrize("paper", PAPERS)
def test_every_erratum_is_shown(quick_reproduction, paper):
    errata = quick_reproduction(paper).errata
    assert [erratum.number for erratum in errata] == list(range(1, ERRATA[paper] + 1))
    assert [erratum.number for erratum in errata if erratum.stands is False] == []
    assert quick_reproduction(paper).broken == ()
    assert {erratum.number for erratum in quick_reproduction(paper).slack} == SLACK[paper]
    assert len(quick_reproduction(paper).wrong) + len(quick_reproduction(paper).slack) == len(
        errata
    )
    for erratum in errata:
        assert erratum.says and erratum.true and erratum.locator
        assert (erratum.stands is None) or erratum.computed  # what is shown has a computation


@pytest.mark.parametrize("paper", PAPERS)
def test_the_false_claims_are_found_and_no_other(quick_reproduction, paper):
    reproduction = quick_reproduction(paper)
    assert {
        claim.locator for claim in reproduction.calibrations if claim.holds is False
    } == REFUTED[paper]


@pytest.mark.parametrize(("paper", "claims"), [("luyo21", 7), ("zhou22", 2), ("chowdhury21", 1)])
def test_with_few_users_claims_about_regret_are_not_tested(quick_reproduction, paper, claims):
    """The bounds are far above the regret of uniform play, and regret is linear.

    The text has both numbers.
    """
    untested = [
        claim for claim in quick_reproduction(paper).empirical if claim.holds == "not tested"
    ]
    assert len(untested) == claims
    for claim in untested:
        assert claim.verdict == "not tested"
        assert "refused" in claim.computed or (
            claim.numbers["bound_over_uniform"] > 1
            and "times the regret of uniform play" in claim.computed
            and "power" in claim.computed
        )


@pytest.mark.parametrize("paper", PAPERS)
def test_all_parts_are_there_and_all_numbers_are_numbers(quick_reproduction, paper):
    reproduction = quick_reproduction(paper)
    assert (
        reproduction.quick
        and reproduction.key.startswith("[")
        and reproduction.calibrations
        and reproduction.empirical
        and reproduction.tables
        and reproduction.figures
    )
    for one in reproduction.algorithms:
        assert len(one.measured) >= 2
        assert all(math.isfinite(run.mean) and run.mean > 0 for run in one.measured)
        assert any(run.setting.startswith("paper, ") for run in one.measured)
        assert any(run.setting.startswith("tight, ") for run in one.measured)
    for finding in (*reproduction.calibrations, *reproduction.empirical, *reproduction.errata):
        assert all(math.isfinite(value) for value in finding.numbers.values()), finding.locator
        assert "nan" not in finding.computed.split()
    for table in reproduction.tables:
        assert all(len(row) == len(table.headings) for row in table.rows)


@pytest.mark.parametrize("paper", PAPERS)
def test_printed_noise_never_gives_more_than_it_should_where_it_is_run(quick_reproduction, paper):
    """A run whose constants do not give the guarantee is refused before the first user."""
    for one in quick_reproduction(paper).algorithms:
        for run in one.measured:
            nominal = run.setting.partition("epsilon=")[2].partition(",")[0]
            if nominal and run.true_epsilon is not None:
                assert run.true_epsilon <= float(nominal) * (1 + 1e-6)


def test_there_are_four_papers():
    with pytest.raises(
        InvalidParameter,
        match="unknown paper 'dwork06'; choose one of balle16, luyo21, zhou22, chowdhury21",
    ):
        reproduce("dwork06")
