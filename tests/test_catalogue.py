"""Names of agents, problems and estimators: listed without imports, looked up one by one."""

import pytest

from confide.catalogue import Catalogue
from confide.errors import InvalidParameter

MODULES = Catalogue("module", {"fractions": "fractions:Fraction", "nowhere": "no_such_module:X"})


def test_a_name_is_looked_up_and_the_others_are_not_imported():
    assert list(MODULES) == ["fractions", "nowhere"] and len(MODULES) == 2
    assert MODULES["fractions"](1, 2) == 0.5
    assert "nowhere" in MODULES and "else" not in MODULES and 3 not in MODULES
    assert MODULES.get("else") is None


def test_an_unknown_name_gets_the_nearest_one():
    with pytest.raises(InvalidParameter, match="unknown module 'Fraction'; did you mean fractions"):
        _ = MODULES["Fraction"]
    with pytest.raises(InvalidParameter, match="choose one of fractions, nowhere"):
        _ = MODULES["?"]
