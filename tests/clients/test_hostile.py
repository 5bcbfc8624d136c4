"""A hostile server: each round is refused, or what is sent stays within its bound.

Each other answer is refused.
"""

import importlib.util
import json
import os
import re
from pathlib import Path

import hostile_rounds
import numpy as np
import pytest

from confide.errors import ConfideError
from confide.service.device.client import Accepts, Device
from confide.service.device.transport import HttpResponse
from confide.service.documents import SigningKey, Statement, canonical, digest

pytestmark = pytest.mark.long

CLIENTS = Path(__file__).parents[2] / "clients"
HOSTILE = json.loads((CLIENTS / "hostile.json").read_text())
ROUNDS = int(os.environ.get("CONFIDE_RANDOM_ROUNDS", "300"))


def named(cases):
    return [pytest.param(case, id=case["name"]) for case in cases]


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("make_hostile", CLIENTS / "make_hostile.py")
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def test_the_hostile_rounds_are_current(script):
    """Otherwise: python clients/make_hostile.py"""
    assert json.loads(json.dumps(script.hostile())) == HOSTILE
    names = [case["name"] for case in HOSTILE["rounds"]]
    assert len(set(names)) == len(names) >= 60


def test_hostile_rounds():
    outcomes = {
        case["name"]: hostile_rounds.outcome_of_text(case["text"], HOSTILE)
        for case in HOSTILE["rounds"]
    }
    assert outcomes == {
        case["name"]: "refused" if case["refused"] else "sent" for case in HOSTILE["rounds"]
    }


def test_random_rounds(script):
    """10,000 of them: CONFIDE_RANDOM_ROUNDS=10000.

    Some are refused and some are sent, or this would show nothing.
    """
    rng, bases = np.random.default_rng(0), list(script.BASES.values())
    outcomes = [
        hostile_rounds.outcome_of(hostile_rounds.random_round(rng, bases), HOSTILE)
        for _ in range(ROUNDS)
    ]
    assert 0.05 < outcomes.count("sent") / ROUNDS < 0.95


class HostileService:
    """A service that signs whatever it says. One answer is changed, and posts are counted."""

    def __init__(self, base, path="", changes=None):
        self.key, self.base, self.path, self.changes = (
            SigningKey(bytes(range(32))),
            base,
            path,
            changes or {},
        )
        self.posts = []

    def __call__(self, method, url, _, body):
        path = url.split("/v1/runs/demo/")[1].split("/")[0]
        if method == "POST":
            self.posts.append(body)
        changes = self.changes if path == self.path else {}
        text, about = self._document(path)
        if path != "manifest":  # it is changed already
            text = said(text, changes)
        answered = self._signed(text.encode(), **about) if about else {}
        for name, value in changes.get("headers", {}).items():
            answered[name] = value
        kept = {name: value for name, value in answered.items() if value is not None}
        return HttpResponse(changes.get("status", 200), kept, text.encode())

    def _document(self, path):
        manifest = self._manifest()
        release = Statement(
            "release", "demo", digest(manifest), 0, digest(b"release"), digest(manifest)
        )
        match path:
            case "manifest":
                return manifest.decode(), {"kind": "manifest", "manifest": "", "previous": ""}
            case "keys":
                return '{"keys": []}', {}
            case "release":
                return "release", {
                    "kind": "release",
                    "manifest": digest(manifest),
                    "previous": digest(manifest),
                }
            case "round":
                return json.dumps(self.base), {
                    "kind": "round",
                    "manifest": digest(manifest),
                    "previous": release.digest,
                }
        return '{"outcome": "counted"}', {}

    def _manifest(self):
        """What it says as its manifest, of which the release names the digest.

        A device that believed it would go on.
        """
        promise = {"trust": "local", "epsilon": 1.0, "delta": 1e-5, "relation": "replace"}
        document = {
            "run": "demo",
            "simulation": False,
            "promise": promise,
            "key": {"public": self.key.public.hex()},
        }
        text = canonical(document).decode()
        return said(text, self.changes if self.path == "manifest" else {}).encode()

    def _signed(self, body, *, kind, manifest, previous):
        statement = Statement(kind, "demo", manifest, 0, digest(body), previous)
        signed = {
            "signature": self.key.sign(statement.to_bytes()).hex(),
            "digest": statement.digest,
            "key": self.key.id,
        }
        about = {**signed, "generation": "0", "previous": previous}
        return {f"confide-{name}": value for name, value in about.items()}


def said(text, changes):
    if "text" in changes:
        return changes["text"]
    return changed(text, changes["fields"]) if "fields" in changes else text


def changed(text, fields):
    document = json.loads(text)
    for path, value in fields.items():
        *parents, last = path.split(".")
        part = document
        for name in parents:
            part = part[name]
        part[last] = value
        if value == "@missing@":
            del part[last]
    return re.sub(r'"@([^@]*)@"', r"\1", json.dumps(document))


def device_of(service):
    accepts = Accepts(1.0, 1e-5, trust="local")
    return Device(
        "http://service",
        "demo",
        subject="ann",
        api_key="key",
        accepts=accepts,
        send=service,
        sleep=lambda _: None,
    )


EPISODE = tuple(HOSTILE["episodes"][0].values())


def test_the_honest_service_is_accepted(script):
    service = HostileService(script.BASES["transitions, gaussian"])
    one = device_of(service)
    one.join()
    assert one.report(*EPISODE) == "counted" and len(service.posts) == 1


@pytest.mark.parametrize("case", named(HOSTILE["answers"]))
def test_hostile_answers(script, case):
    service = HostileService(script.BASES["transitions, gaussian"], case["path"], case)
    one = device_of(service)
    with pytest.raises(ConfideError):
        one.join()
    with pytest.raises(ConfideError, match="call join first"):
        one.report(*EPISODE)
    assert service.posts == []


@pytest.mark.parametrize("case", named(HOSTILE["replies"]))
def test_hostile_replies(script, case):
    """The report stays stored, and is sent again as the same bytes."""
    service = HostileService(script.BASES["transitions, gaussian"], "reports", case)
    one = device_of(service)
    one.join()
    with pytest.raises(ConfideError):
        one.report(*EPISODE)
    service.changes = {}
    assert one.report(*EPISODE) == "counted"
    assert len(service.posts) == 2 and len(set(service.posts)) == 1


def test_an_answer_that_never_ends_is_refused(script, monkeypatch):
    service = HostileService(
        script.BASES["transitions, gaussian"], "release", {"text": "x" * 2**12}
    )
    monkeypatch.setattr("confide.service.device.transport._MAX_ANSWER_BYTES", 2**11)
    with pytest.raises(ConfideError, match="at most"):
        device_of(service).join()
