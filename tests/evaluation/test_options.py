"""Options of the command line come from declarations on the estimators."""

from dataclasses import dataclass
from typing import Annotated

import pytest

from confide.cli.estimator_options import declared_options
from confide.errors import InvalidParameter
from confide.evaluation import CountsAndSums
from confide.evaluation.catalogue import ESTIMATORS, make_estimator, options_by_estimator
from confide.evaluation.options import Option, options_of


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class WithAnotherOption(CountsAndSums):
    """An estimator with one more option, which is declared nowhere else."""

    rounds: Annotated[int, Option("how often values are shrunk", at_least=1)] = 3


@pytest.fixture
def extended(monkeypatch):
    monkeypatch.setitem(ESTIMATORS, "with-another-option", f"{__name__}:WithAnotherOption")
    declared_options.cache_clear()
    yield
    declared_options.cache_clear()


@pytest.mark.usefixtures("extended")
def test_an_option_of_an_estimator_is_declared_in_one_place():
    estimator = make_estimator(
        "with-another-option", states=3, discount=1.0, return_bound=1.0, rounds=5
    )
    assert estimator.rounds == 5 and options_of(WithAnotherOption)["rounds"].default == "3"
    for planned in (False, True):
        (option,) = (each for each in declared_options(planned) if each.name == "rounds")
        assert option.help == "with-another-option: how often values are shrunk."
        assert option.opts == ["--rounds"]


def test_every_parameter_that_the_command_line_has_is_declared_by_an_estimator():
    declared = options_by_estimator()
    assert "visits" in declared["lstd"] and "visits" not in declared["dp-lsw"]
    assert declared["counts-and-sums"]["features"].parameter == "components"
    assert declared["dp-lsl"]["ridge"].needed and not declared["dp-lsl"]["weights"].needed
    assert set(options_by_estimator(planned=True)) == {"counts-and-sums"}


def test_options_that_an_estimator_does_not_have_or_lacks_are_refused():
    with pytest.raises(InvalidParameter, match="dp-lsw has no option --visits; it is an option of"):
        make_estimator("dp-lsw", states=3, discount=1.0, return_bound=1.0, visits=3)
    with pytest.raises(InvalidParameter, match="dp-lsl needs --ridge"):
        make_estimator("dp-lsl", states=3, discount=1.0, return_bound=1.0)
