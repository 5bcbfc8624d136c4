"""confide doctor: what is sound is said to be, and what is broken is found."""

import json

import numpy as np
import pytest

from confide import _extras, doctor
from confide.cli import main
from confide.mechanisms import sources
from confide.planners import riccati
from confide.policy import LinearPolicy


def test_a_sound_installation(capsys):
    with pytest.raises(SystemExit) as stop:
        main(["doctor", "--json"])
    report = json.loads(capsys.readouterr().out)
    assert stop.value.code == 0
    assert all(check["holds"] for check in report["checks"]) and len(report["checks"]) == 3
    assert all(report["core"].values()) and report["extras"]["secure"]["opendp"]


BROKEN = {
    "noise": (sources.FastSource, "gaussian", lambda _self, _std, shape: np.ones(shape)),
    "compiled kernels": (
        riccati,
        "riccati",
        lambda A, *_: (np.stack([A, A]), LinearPolicy(np.zeros((2, 1, 2)))),
    ),
    "secure noise": (sources.SecureSource, "gaussian", lambda _self, _std, shape: np.ones(shape)),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_found(name, monkeypatch, capsys):
    place, attribute, instead = BROKEN[name]
    monkeypatch.setattr(place, attribute, instead)
    assert not {check.name: check for check in doctor.self_test()}[name].holds
    with pytest.raises(SystemExit) as stop:
        main(["doctor"])
    assert stop.value.code == 1 and "FAILED" in capsys.readouterr().out


def test_what_is_not_installed_is_named(monkeypatch, capsys):
    monkeypatch.setattr(_extras, "EXTRAS", {"secure": ("no-such-package",)})
    monkeypatch.setattr(doctor, "self_test", lambda: iter(()))
    with pytest.raises(SystemExit):
        main(["doctor"])
    assert "not installed: pip install 'confide[secure]'" in capsys.readouterr().out
