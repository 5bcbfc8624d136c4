"""The tables that say which line of a paper's algorithm is where: every name in them exists."""

import re
from pathlib import Path

import pytest

import confide
from confide.mixtures.linopt_po import LinOptPO
from confide.mixtures.linopt_vi import LinOptVI
from confide.mixtures.ucrl_vtr import UCRLVTR
from confide.mixtures.ucrl_vtr_plus import UCRLVTRPlus

SOURCE = "\n".join(path.read_text() for path in sorted(Path(confide.__file__).parent.rglob("*.py")))


def lines(agent):
    """The cells of the table in a docstring."""
    rows = [line.strip() for line in agent.__doc__.splitlines() if line.strip().startswith("|")]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in rows[2:]]


@pytest.mark.parametrize(
    ("agent", "least"), [(UCRLVTR, 12), (UCRLVTRPlus, 12), (LinOptVI, 12), (LinOptPO, 11)]
)
def test_every_name_of_a_table_is_defined(agent, least):
    table = lines(agent)
    assert len(table) >= least
    for row in table:
        names = re.findall(r"`([^`]+)`", row[-1])
        assert names or "zero" in row[-1] or "LinOptVI" in row[-1], row
        for name in names:
            last = name.split(".")[-1].split("=")[0]
            defined = rf"(def|class) {last}\b|\b{last}: |\b{last} ="
            assert re.search(defined, SOURCE), name
