"""Rollback marks."""

import pytest

from confide.errors import StateError
from confide.service.store.marks import Marks


def test_a_mark_refuses_what_is_older_or_other(tmp_path):
    marks = Marks(tmp_path / "marks")
    assert marks.read("demo") is None
    marks.write("demo", 3, "x")
    marks.check("demo", 4, "y")
    marks.check("demo", 3, "x")
    for generation, digest in ((2, "w"), (3, "y")):
        with pytest.raises(StateError):
            marks.check("demo", generation, digest)
    (tmp_path / "marks" / "demo.mark").write_text("{")
    with pytest.raises(StateError, match="damaged"):
        marks.read("demo")
