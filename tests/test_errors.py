import pickle

import pytest

from confide import arguments
from confide.errors import InvalidParameter, StaleMessage


def test_an_error_carries_the_name_of_its_parameter():
    with pytest.raises(InvalidParameter) as caught:
        arguments.real("epsilon", -1.0, above=0)
    error = caught.value
    assert error.parameter == "epsilon"
    assert str(error) == "epsilon must be positive and finite, got epsilon=-1.0"
    assert error.about("--epsilon") == "--epsilon must be positive and finite, got --epsilon -1.0"


def test_only_the_name_and_not_the_same_word_elsewhere_becomes_an_option():
    error = InvalidParameter.of(
        "delta", "must be at least the delta of this loss", got="0", advice=": use a larger delta"
    )
    assert (
        str(error)
        == "delta must be at least the delta of this loss, got delta=0: use a larger delta"
    )
    assert error.about("--delta") == (
        "--delta must be at least the delta of this loss, got --delta 0: use a larger delta"
    )


def test_an_error_without_a_value_and_one_with_a_sentence_of_its_own():
    assert InvalidParameter.of("key", "must be stated").about("--key") == "--key must be stated"
    own = InvalidParameter("there is no option kye", parameter="kye")
    assert own.about("--kye") == str(own) == "there is no option kye"
    assert InvalidParameter("wrong").parameter == ""


def test_it_comes_back_from_another_process():
    error = StaleMessage.of("generation", "must be current", got="3")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is StaleMessage and str(again) == str(error)
    assert (again.parameter, again.about("--generation")) == (
        "generation",
        error.about("--generation"),
    )
