"""A command, called as from a shell."""

import sys

import pytest

from confide.cli import main


@pytest.fixture
def call(monkeypatch, capsys):
    def called(*arguments, code=0):
        monkeypatch.setattr(sys, "argv", ["confide", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main(list(map(str, arguments)))
        out, err = capsys.readouterr()
        assert stop.value.code == code, err
        if code == 2:
            assert out == ""
            assert err.startswith("error: ") and err.count("\n") == 1
        return err if code else out

    return called
