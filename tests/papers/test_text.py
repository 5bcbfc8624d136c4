"""The text of claims and errata beside the computations."""

import ast
from pathlib import Path

import pytest

import papers
from papers.text import Texts

pytestmark = pytest.mark.long

FOLDER = Path(papers.__file__).parent
FILES = sorted(FOLDER.rglob("*.toml"))


def keys_in_code(folder):
    for file in folder.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr in ("claim", "erratum")
            ):
                assert isinstance(node.args[0], ast.Constant)
                yield node.args[0].value


@pytest.mark.parametrize(
    "folder", sorted({file.parent for file in FILES}), ids=lambda folder: folder.name
)
def test_every_text_has_one_computation_and_every_computation_a_text(folder):
    written = [key for file in folder.glob("*.toml") for key in Texts(file).keys]
    assert sorted(written) == sorted(keys_in_code(folder))


def test_texts_are_filled_in(tmp_path):
    file = tmp_path / "errata.toml"
    file.write_text(
        '[one]\nnumber = 3\nlocator = "(1)"\nsays = "a"\ntrue = "b"\n'
        'computed = "it is {value:.1f}"\n'
    )
    erratum = Texts(file).erratum("one", True, {"value": 2.0}, value=2.0)
    assert (erratum.number, erratum.computed, erratum.how, erratum.numbers) == (
        3,
        "it is 2.0",
        "",
        {"value": 2.0},
    )
    assert Texts(file).erratum("one", None, value=1).numbers == {}


@pytest.mark.parametrize("values", [{}, {"value": 1.0, "other": 2.0}])
def test_values_that_do_not_fit_the_text_are_refused(tmp_path, values):
    file = tmp_path / "claims.toml"
    file.write_text(
        '[one]\nlocator = "(1)"\nsays = "a"\ncomputed = "{value:.1f}"\nhow = "by hand"\n'
    )
    with pytest.raises(ValueError, match=r"\[one\]: wanted \['value'\]"):
        Texts(file).claim("one", True, **values)
