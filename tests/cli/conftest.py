"""A command, called as from a shell, but in this process.

Only what is about the process itself needs one of its own.
"""

import sys
from types import SimpleNamespace

import pytest

from confide.cli import main


@pytest.fixture
def confide(monkeypatch, capsys):
    """What a command printed, and its exit code.

    `cwd` is the folder it is called in; modules in it can be imported, and are forgotten.
    """
    known = set(sys.modules)
    folders = []

    def called(*arguments, cwd=None):
        said = list(map(str, arguments))
        monkeypatch.setattr(sys, "argv", ["confide", *said])
        if cwd is not None:
            folders.append(str(cwd))
            monkeypatch.chdir(cwd)
            monkeypatch.syspath_prepend(cwd)
        with pytest.raises(SystemExit) as stop:
            main(said)
        out, err = capsys.readouterr()
        return SimpleNamespace(returncode=stop.value.code, stdout=out, stderr=err)

    yield called
    for name in set(sys.modules) - known:
        if str(getattr(sys.modules[name], "__file__", None) or "").startswith(
            tuple(folders) or ("?",)
        ):
            del sys.modules[name]


@pytest.fixture
def call(confide):
    """What a command printed that ends with this exit code; errors are one line."""

    def called(*arguments, code=0, lines=1):
        done = confide(*arguments)
        assert done.returncode == code, done.stderr
        if code == 2:
            assert done.stdout == ""
            assert lines is None or (
                done.stderr.startswith("error: ") and done.stderr.count("\n") == lines
            )
        return done.stderr if code else done.stdout

    return called
