"""Extras: what is missing is named with the extra that has it, before anything is charged or
computed.
"""

import inspect
import tomllib
from importlib import metadata
from pathlib import Path

import pytest

import confide
from confide import _extras
from confide.cli.serve import serve
from confide.errors import MissingExtra
from confide.privacy.loss import compose

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
OFFERED = PROJECT["optional-dependencies"]


def call_command(command, **values):
    """Call a command of the command line with the defaults of all other options."""
    parameters = inspect.signature(command).parameters.values()
    command(**{option.name: option.default for option in parameters} | values)


@pytest.fixture
def without(monkeypatch):
    """As if a package were not installed."""

    def hide(*packages):
        real_version = metadata.version

        def version(package):
            if package in packages:
                raise metadata.PackageNotFoundError(package)
            return real_version(package)

        monkeypatch.setattr(metadata, "version", version)

    return hide


def named(requirements):
    """Packages of an extra, with those of extras that it names."""
    for requirement in requirements:
        if requirement.startswith("confide["):
            for extra in requirement.removeprefix("confide[").removesuffix("]").split(","):
                yield from named(OFFERED[extra])
        else:
            yield requirement.split(">=")[0].split("[")[0]


@pytest.mark.parametrize("extra", sorted(_extras.EXTRAS))
def test_an_extra_has_what_it_is_said_to_have(extra):
    offered = {"distributed" if name == "dask" else name for name in named(OFFERED[extra])}
    assert set(_extras.EXTRAS[extra]) <= offered


def test_all_has_every_extra_for_users():
    assert set(named(OFFERED["all"])) == {
        name for extra in set(OFFERED) - {"docs", "dev"} for name in named(OFFERED[extra])
    }


@pytest.mark.parametrize(
    ("package", "extra", "call"),
    [
        ("pyarrow", "logs", lambda path: confide.logs.open(path / "log.parquet")),
        ("pyarrow", "logs", lambda _: confide.logs.in_memory([])),
        (
            "pyarrow",
            "logs",
            lambda path: confide.logs.import_log(path / "raw.csv", path / "log.parquet"),
        ),
        ("pyarrow", "logs", lambda path: confide.logs.write(path / "log.parquet", [])),
        ("pyarrow", "compare", lambda path: confide.compare(path / "sweep.toml")),
        ("starlette", "service", lambda _: call_command(serve, demo=True)),
        (
            "dp-accounting",
            "accounting",
            lambda _: compose([confide.PureDP(0.1), confide.GaussianDP(0.1)], delta=1e-5),
        ),
    ],
)
def test_what_is_missing_is_named_with_its_extra(without, tmp_path, package, extra, call):
    without(package)
    with pytest.raises(MissingExtra, match=rf"needs {package}: pip install 'confide\[{extra}\]'"):
        call(tmp_path)
