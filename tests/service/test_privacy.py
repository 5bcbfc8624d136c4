"""Planted people are found in no file, log line, metric, page or answer; what is public does not
depend on who reported.
"""

import base64
import hashlib
import json
import logging
import shutil
import subprocess

import numpy as np
import pytest
from postgres_cluster import programs
from service_bench import serving, spec

from confide.mechanisms.sources import noise_source
from confide.service.core import live
from confide.service.core.folder import ServiceFolder
from confide.service.core.spec import Batching
from confide.trajectory import collect

SUBJECT = "planted-subject-4711"
# it adds zero
NONSENSE = {
    "states": [70001, 70003, 70007],
    "actions": [80009, 80011],
    "rewards": [0.777123456, 0.777654321],
}
EPISODE = {
    "states": [3, 1, 4, 1, 5, 2],
    "actions": [2, 3, 1, 3, 2],
    "rewards": [0.123456789, 0.987654321, 0.5, 0.25, 0.111222333],
}
PUBLIC = (
    "manifest",
    "certificate",
    "keys",
    "release",
    "release/0",
    "release/1",
    "release/2",
    "round/0",
    "round/1",
    "round/2",
)
SITE = (
    "/",
    "/runs/demo",
    "/v1/runs",
    "/v1/openapi.json",
    "/health",
    "/ready",
    "/metrics",
    "/v1/runs/demo/status",
    "/operator/none",
)


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def metrics(served):
    from prometheus_client import CollectorRegistry, generate_latest

    from confide.service.web.metrics import Collector

    registry = CollectorRegistry()
    registry.register(Collector(served.service, served.application.state.gate.refused))
    return generate_latest(registry)


def shown(served):
    """Everything that anybody can read: status codes, headers and bodies."""
    asked = [*(f"/v1/runs/demo/{path}" for path in PUBLIC), *SITE]
    return {
        path: (answer.status_code, sorted(answer.headers.items()), answer.content)
        for path in asked
        for answer in [served.get(path)]
    }


def report(served, subject, generation=0, nonce="n" * 16, **content):
    body = {"subject": subject, "generation": generation, **(content or {"trajectory": {}})}
    return served.post(
        "/v1/runs/demo/reports", "device", json=body, headers={"Idempotency-Key": nonce}
    )


def test_public_bytes_of_a_run_with_deadlines_do_not_depend_on_who_reported_or_how_many(
    tmp_path, monkeypatch
):
    """Two databases that were the same when people were enrolled. In one nobody comes; in the
    other all do, twice, late and uninvited.
    Their episodes are empty, so that with the same noise all releases are the same: then all that
    is public must be, at any time.
    """
    monkeypatch.setattr(live, "noise_source", lambda _: noise_source("fast", 0))
    batch = Batching(rule="deadline", schedule=4, every=100.0, start=1000.0)
    first, clock = ServiceFolder(tmp_path / "one"), Clock()
    with serving(first, spec(users=12, batch=batch), clock=clock) as served:
        for generation, people in enumerate((["a", "b", "c", "d"], ["e", "f"])):
            served.post(
                "/v1/runs/demo/enrolments",
                "admin",
                json={"subjects": people, "generation": generation},
            )
    shutil.copytree(tmp_path / "one", tmp_path / "two")
    seen = []
    for place, come in (("one", False), ("two", True)):
        clock.now, found = 1000.0, []
        with serving(ServiceFolder(tmp_path / place), clock=clock) as served:
            for now, generation, people in (
                (1050.0, 0, "abcdabe?"),
                (1150.0, 1, "efaz"),
                (1250.0, 2, "bz"),
                (1350.0, 3, "z"),
            ):
                clock.now = now
                codes = (
                    [report(served, person, generation).status_code for person in people]
                    if come
                    else []
                )
                assert (
                    not come or generation > 0 or codes == [201, 201, 201, 201, 200, 200, 403, 403]
                )
                report(served, "nobody", 10**9)  # answered when the writer has closed what was due
                found.append(shown(served))
            counted = served.service.store.participants("demo")
        assert counted == ({0: 4, 1: 2} if come else {})
        seen.append(found)
    for alone, together in zip(*seen, strict=True):
        assert alone.keys() == together.keys()
        for path in alone:
            assert alone[path] == together[path], path
    # there were releases
    assert seen[0][0]["/v1/runs/demo/release"][2] != seen[0][3]["/v1/runs/demo/release"][2]
    # metrics count arrivals: they are on a port of their own
    assert seen[0][0]["/metrics"][0] == 404


def planted(local):
    """As text, in the encodings that programs use, and as hashes: a hash of a small space can be
    searched.
    """
    parts = [
        SUBJECT.encode(),
        SUBJECT.encode("utf-16-le"),
        SUBJECT.encode().hex().encode(),
        base64.b64encode(SUBJECT.encode()),
    ]
    for hashed in (hashlib.sha256, hashlib.sha1, hashlib.md5):
        for data in (
            SUBJECT.encode(),
            json.dumps(EPISODE).encode(),
            json.dumps(EPISODE, separators=(",", ":")).encode(),
        ):
            parts += [hashed(data).digest(), hashed(data).hexdigest().encode()]
    # five actions may be a part of a public policy
    for numbers in (EPISODE["states"], NONSENSE["states"], NONSENSE["actions"]):
        texts = [sep.join(map(str, numbers)).encode() for sep in (", ", ",", " ")]
        parts += texts + [np.array(numbers, dtype=kind).tobytes() for kind in ("<i8", "<i4", "<f8")]
    for reward in (*EPISODE["rewards"][:2], *NONSENSE["rewards"]):
        parts += [
            str(reward).encode(),
            np.array(reward).tobytes(),
            np.array(reward, dtype=np.float32).tobytes(),
        ]
    return parts + [each for each in local if each]


def message_of(served, episode):
    """Of a device, in base64."""
    learner = served.service.runs["demo"].learner
    client = learner.client()
    client.plan(learner.released())
    return base64.b64encode(bytes(client.report(collect([episode], 5)))).decode()


def kept(folder, postgres=None):
    """Files of the service; of PostgreSQL a dump, and all files of the server."""
    found = {str(path): path.read_bytes() for path in folder.folder.rglob("*") if path.is_file()}
    if postgres is not None:
        found["pg_dump"] = subprocess.run(
            [programs() / "pg_dump", folder.address], check=True, capture_output=True
        ).stdout
        found |= {
            str(path): path.read_bytes() for path in postgres.folder.rglob("*") if path.is_file()
        }
    return found


def search(found, parts, clean):
    """Also as PostgreSQL prints bytes in a dump.

    What is `clean` has been searched before, for the same parts.
    """
    for name, data in found.items():
        content = name == "pg_dump", hashlib.sha256(data).digest()
        if content in clean:
            continue
        for part in parts:
            assert part not in data and (name != "pg_dump" or part.hex().encode() not in data), (
                name,
                part,
            )
        clean.add(content)


@pytest.mark.parametrize("trust", ["joint", "local"])
@pytest.mark.parametrize("folder", ["sqlite", "postgres"], indirect=True)
def test_planted_people_are_found_nowhere(folder, trust, request, caplog):
    """While the batch is open and after it is closed; of people who are counted, refused, late,
    enrolled, or who ask for an action.
    """
    caplog.set_level(logging.DEBUG)
    postgres = request.getfixturevalue("postgres") if folder.shared else None
    answers, sent, clean = [], [], set()
    with serving(folder, spec(trust=trust, every=4)) as served:
        content = {"trajectory": EPISODE}
        if trust == "local":
            written = message_of(served, tuple(EPISODE.values()))
            content, message = {"message": written}, base64.b64decode(written)
            sent = [message, written.encode(), message[:30], hashlib.sha256(message).digest()]
        search(kept(folder, postgres), planted(sent), clean)  # nothing is found by chance
        answers.append(report(served, SUBJECT, **content))
        assert answers[0].status_code == 201
        answers += [
            report(served, SUBJECT, nonce="m" * 16, **content),
            report(served, SUBJECT, generation=7, **content),
        ]
        answers.append(report(served, SUBJECT, nonce=SUBJECT, trajectory=SUBJECT, message=SUBJECT))
        answers.append(
            served.post(
                "/v1/runs/demo/act",
                "device",
                json={"subject": SUBJECT, "state": SUBJECT, "step": 0},
            )
        )
        answers.append(
            served.post(
                "/v1/runs/demo/enrolments", "admin", json={"subjects": [SUBJECT], "generation": 0}
            )
        )
        served.settle()
        opened = kept(folder, postgres)
        who = served.service.runs["demo"].pseudonyms.who(SUBJECT)
        assert any(
            who in data for data in opened.values()
        )  # the search looks where people are: the pseudonym is there, as is claimed
        search(opened, planted(sent), clean)
        for other in "bcd":
            more = (
                {"trajectory": NONSENSE}
                if trust == "joint"
                else {"message": message_of(served, ([0] * 6, [0] * 5, [0.0] * 5))}
            )
            assert report(served, other, **more).status_code == 201
        served.settle()
        assert served.service.runs["demo"].generation == 1
        answers.append(report(served, SUBJECT + "-late", **content))
        public = b"".join(repr(each).encode() for each in shown(served).values())
        told = b"".join(answer.content + repr(answer.headers).encode() for answer in answers)
        logged = "\n".join(
            record.getMessage() for record in caplog.records if not record.name.startswith("http")
        ).encode()
        audit = (
            served.get("/v1/audit", "auditor").content
            + served.get("/v1/runs/demo/status", "operator").content
        )
        search(
            {
                "metrics": metrics(served),
                "public": public,
                "answers": told,
                "logs": logged,
                "audit": audit,
            },
            planted(sent),
            clean,
        )
        search(kept(folder, postgres), planted(sent), clean)
    # The third report names another release than before. A message of a local run then contradicts
    # the report.
    again = 200 if trust == "joint" else 400
    assert [answer.status_code for answer in answers][1:4] == [409, again, 400] and answers[
        -1
    ].status_code == 410
