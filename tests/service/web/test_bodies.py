"""Bodies of requests: what does not fit is refused in one sentence, which repeats no value of a
person's report.
"""

import json
import math

import pytest

from confide.service.web.answers import HttpProblem
from confide.service.web.bodies import ActBody, EnrolBody, NewKeyBody, ReportBody, decode

REPORT = {"subject": "ann", "generation": 0, "trajectory": {"states": [0], "rewards": [0.5]}}
ENROL = {"subjects": ["ann"], "generation": 0}


def refusal(kind, data):
    with pytest.raises(HttpProblem) as refused:
        decode(data if isinstance(data, bytes) else json.dumps(data).encode(), kind)
    assert (refused.value.status, refused.value.kind) == (400, "invalid")
    return refused.value.detail


def test_a_report_is_decoded():
    body = decode(json.dumps(REPORT | {"round": "a" * 64}).encode(), ReportBody)
    assert (body.subject, body.generation, body.round, body.message) == ("ann", 0, "a" * 64, None)
    assert (body.trajectory.states, body.trajectory.actions) == ([0], None)


@pytest.mark.parametrize(
    "change",
    [
        {"subject": ""},
        {"subject": "planted" * 40},
        {"subject": 5},
        {"subject": None},
        {"subject": ["planted"]},
        {"generation": -1},
        {"generation": 2**53},
        {"generation": 10**400},
        {"generation": True},
        {"generation": 0.5},
        {"generation": math.nan},
        {"generation": math.inf},
        {"generation": "planted"},
        {"trajectory": ["planted"]},
        {"trajectory": "planted"},
        {"message": 5},
        {"round": "planted"},
        {"round": "A" * 64},
        {"round": "a" * 63 + "\n"},
        {"round": "a" * 64 + "\n"},
        {"planted": 1},
    ],
    ids=lambda change: str(change)[:40],
)
def test_what_is_no_report_is_refused_without_repeating_it(change):
    detail = refusal(ReportBody, REPORT | change)
    assert detail.startswith("the body must") and "planted" not in detail


@pytest.mark.parametrize("name", ["subject", "generation"])
def test_what_is_missing_is_named(name):
    assert name in refusal(ReportBody, {key: value for key, value in REPORT.items() if key != name})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"null",
        b"[]",
        b"5",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"subject":' * 100_000,
        b'{"subject": "planted"',
        b"9" * 9_000,
    ],
    ids=lambda data: str(data[:20]),
)
def test_what_is_no_object_is_refused(data):
    assert refusal(ReportBody, data) == "the body must be a JSON object"


@pytest.mark.parametrize("number", ["NaN", "Infinity", "9" * 5000, "1e999"])
def test_numbers_without_meaning_are_left_to_the_core(number):
    """If they were refused, a report would be answered otherwise than other nonsense, which is
    counted and adds zero.
    """
    data = f'{{"subject": "ann", "generation": 0, "trajectory": {{"states": [{number}]}}}}'
    assert not math.isfinite(decode(data.encode(), ReportBody).trajectory.states[0])


@pytest.mark.parametrize(
    ("kind", "given"),
    [
        (EnrolBody, ENROL | {"subjects": "ann"}),
        (EnrolBody, ENROL | {"subjects": ["ann", ""]}),
        (EnrolBody, ENROL | {"generation": 2**31}),
        (EnrolBody, ENROL | {"batch": 0}),
        (ActBody, {"subject": "ann", "step": 0}),
        (ActBody, {"subject": "ann", "step": True, "state": 0}),
        (ActBody, {"subject": 5, "step": 0, "state": 0}),
        (NewKeyBody, {"role": "king"}),
        (NewKeyBody, {"role": "device", "label": 5}),
        (NewKeyBody, {"role": "device", "run": 5}),
        # Somebody who misspells `expires` must not get a key that never expires.
        (NewKeyBody, {"role": "device", "expire": "90d"}),
    ],
    ids=str,
)
def test_other_bodies_are_checked_as_well(kind, given):
    refusal(kind, given)
