"""Names of values: equal for equal ones, different for different ones."""

import subprocess
import sys
from dataclasses import dataclass, field

import numpy as np

from confide._digest import digest


@dataclass
class Thing:
    a: object
    _computed: float = field(default=0.0)


class Plain:
    def __init__(self, value):
        self.value = value


def test_different_values_have_different_names():
    values = [
        (1, (2, 3)),
        ((1, 2), 3),
        (1, 2, 3),
        ("ab", "c"),
        ("a", "bc"),
        np.zeros(4),
        np.zeros((2, 2)),
        np.zeros(4, dtype=np.float32),
        Thing(1),
        Thing(2),
        Thing(np.ones(2)),
        Plain(1),
        Plain(Thing(1)),
        1.0,
        None,
    ]
    assert len({digest(value) for value in values}) == len(values)


def test_equal_values_have_the_same_name_whatever_they_computed_for_themselves():
    assert digest(Thing(np.arange(3), 1.0)) == digest(Thing(np.arange(3), 2.0))
    assert digest(Plain(object)) == digest(Plain(object))


def test_the_name_is_the_same_in_another_process():
    code = "from confide._digest import digest; import numpy as np; print(digest((np.arange(3.0), 'x', 1e-5)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == digest((np.arange(3.0), "x", 1e-5))
