"""A run in one file."""

from datetime import UTC, datetime

import pytest

from confide.errors import InvalidParameter
from confide.service.core.spec import Batching, ServiceRunSpec, parse_spec, read_spec, write_spec

RESERVED = ("noise", "episodes", "privacy", "problem", "name", "horizon", "secure", "cls")
FULL = """
name = "clinic"
title = "Doses, \\"spring\\" term"
agent = "tabular-psrl"
problem = "riverswim"
epsilon = 1
delta = 1e-6
users = 500
trust = "local"
person_epsilon = 3.0
[batch]
rule = "deadline"
schedule = 100
every = 3600
start = 2026-11-16T12:00:00Z
[options]
bonus_scale = 0.5
"""


def test_a_file_and_back(tmp_path):
    (tmp_path / "run.toml").write_text(FULL)
    spec = read_spec(tmp_path / "run.toml")
    assert (spec.users, spec.batch.rule, spec.options) == (500, "deadline", (("bonus_scale", 0.5),))
    assert spec.batch.deadline(1) == datetime(2026, 11, 16, 14, tzinfo=UTC).timestamp()
    assert parse_spec(write_spec(spec)) == spec
    assert spec.privacy.epsilon == 1 and spec.noise == "secure"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (("name", '"Clinic 1"'), "lower-case"),
        (("name", '"../x"'), "lower-case"),
        (("users", "0"), "users must be at least 1"),
        (("trust", '"central"'), "trust must be one of"),
        (("epsilon", "-1"), "epsilon"),
        (("rule", '"full"'), "rule must be one of"),
        (("every", "0"), "every must be in"),
        (("every", "1e18"), "every must be"),
        (("start", "1e18"), "start must be"),
        (("problem", '"none"\nunknown = 1'), "unknown setting 'unknown'"),
        (("delta", "x"), "not TOML"),
    ],
    ids=str,
)
def test_what_makes_no_sense_is_refused(change, why):
    name, value = change
    lines = [
        f"{name} = {value}" if line.startswith(f"{name} ") else line for line in FULL.splitlines()
    ]
    with pytest.raises(InvalidParameter, match=why):
        parse_spec("\n".join(lines))


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ('problem = ["lock"]', "problem must be a printable text"),
        ("agent = 5", "agent must be a printable text"),
        ('horizon = "x"', "horizon must be a whole number"),
        ("horizon = inf", "horizon must be a whole number"),
        ("seed = 1" + "0" * 400, "more than 64 bits"),
        ("seed = 0x" + "f" * 5000, "more than 64 bits"),
        ("seed = " + "[" * 5000, "nested too deeply"),
        *(
            (f"[options]\n{name} = 1", f"got {name}: the run itself decides it")
            for name in RESERVED
        ),
    ],
    ids=lambda text: text[:24],
)
def test_hostile_files_are_refused_in_one_line(line, why):
    settings = {
        "name": '"x"',
        "agent": '"likelihood-vi"',
        "problem": '"lock"',
        "epsilon": "1.0",
        "users": "9",
    }
    settings.pop(line.split(" ")[0], None)
    lines = [f"{name} = {value}" for name, value in settings.items()]
    with pytest.raises(InvalidParameter, match=why) as error:
        parse_spec("\n".join([*lines, line]))
    assert "\n" not in str(error.value)


def test_missing_settings_and_files_are_named(tmp_path):
    with pytest.raises(InvalidParameter, match="agent is missing"):
        parse_spec('name = "x"')
    with pytest.raises(InvalidParameter, match="cannot read"):
        read_spec(tmp_path / "none.toml")
    with pytest.raises(InvalidParameter, match="must be tables"):
        parse_spec("batch = 1")
    with pytest.raises(InvalidParameter, match="reports_per_person must be 1"):
        ServiceRunSpec(
            name="x",
            agent="a",
            problem="p",
            epsilon=1.0,
            users=9,
            reports_per_person=2,
            batch=Batching(rule="deadline"),
        )


def test_a_file_that_is_not_where_it_was_is_named_with_its_run():
    chosen = ServiceRunSpec(
        name="mine", agent="likelihood-vi", problem="gone.npz", epsilon=1.0, users=10
    )
    with pytest.raises(
        InvalidParameter, match=r"run mine: no such file: gone\.npz\. A file is read at each start"
    ):
        chosen.make_problem()
