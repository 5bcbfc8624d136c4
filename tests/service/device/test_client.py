"""A user's side: it believes signatures and nothing else, and sends one report."""

import base64
import json
import os
import pickle
import subprocess
import sys
import threading
from dataclasses import replace

import numpy as np
import pytest
from service_bench import device, play, serving, spec, through

from confide.errors import (
    AnotherRound,
    InvalidParameter,
    PrivacyError,
    PromiseBroken,
    SignatureError,
    StaleMessage,
    StateError,
)
from confide.service.device import client, transport
from confide.service.device.checks import check_manifest
from confide.service.device.client import Accepts, Device
from confide.service.device.transport import ServiceRefused


@pytest.mark.parametrize("trust", ["joint", "local"])
def test_learning_over_http(folder, trust):
    """Release by release, with devices that read rounds and know no planner."""
    rng = np.random.default_rng(0)
    with serving(folder, spec(trust=trust, users=40, every=20)) as http:
        for number in range(40):
            one = device(http, f"person {number}", trust=trust)
            one.join()
            assert one.report(*play(one, rng)) == "counted"
            # it was answered: nothing is sent, whatever is reported
            assert one.report(*play(one, rng)) == "same"
            http.settle()
        run = http.service.runs["demo"]
        assert (run.generation, run.status, run.learner.users) == (2, "finished", 40)
        assert http.service.store.participants("demo") == {0: 20, 1: 20}


def test_a_device_that_restarts_sends_the_same_bytes(folder, tmp_path, monkeypatch):
    sent = []
    with serving(folder, spec(trust="local")) as http:

        def lossy(method, url, headers, body):
            if method == "POST":
                sent.append((headers["Idempotency-Key"], body))
                if len(sent) <= 2:
                    raise ConnectionResetError
            return through(http)(method, url, headers, body)

        one = device(http, "ann", trust="local", store=tmp_path / "device", send=lossy)
        one.join()
        with monkeypatch.context() as patch:
            patch.setattr(transport, "_MAX_ATTEMPTS", 2)
            with pytest.raises(ServiceRefused):
                one.report(*play(one, np.random.default_rng(0)))
        again = device(http, "ann", trust="local", store=tmp_path / "device", send=lossy)
        again.join()
        assert again.report([0], [0], [0.0]) == "counted"
        assert len(sent) == 3 and len(set(sent)) == 1
        assert again.round.policy == one.round.policy  # drawn once
        with pytest.raises(StateError, match="another run"):
            device(http, "ann", run="other", store=tmp_path / "device")


def test_devices_that_share_a_store_send_one_message(folder, tmp_path):
    """Eight of them are made before the first report, and report at once, each in a thread of its
    own.
    """
    posts = []
    with serving(folder, spec(trust="local")) as http:

        def watching(method, url, headers, body):
            if method == "POST":
                posts.append((headers["Idempotency-Key"], body))
            return through(http)(method, url, headers, body)

        devices = [
            device(http, "ann", trust="local", store=tmp_path / "device", send=watching)
            for _ in range(8)
        ]
        for one in devices:
            one.join()
        assert len({json.dumps(one.round.policy) for one in devices}) == 1
        episodes = [play(one, np.random.default_rng(number)) for number, one in enumerate(devices)]
        outcomes = []

        def report(number):
            outcomes.append(devices[number].report(*episodes[number]))

        threads = [threading.Thread(target=report, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(outcomes) <= {"counted", "same"} and len(outcomes) == 8
        assert len(set(posts)) == 1
        assert http.service.store.participants("demo") == {0: 1}


@pytest.mark.process
def test_processes_that_share_a_store_send_one_message(folder, tmp_path):
    """Both have a device before either reports; what they would send is in files."""
    with serving(folder, spec(trust="local")) as http:

        def written(method, url, headers, body):
            if method == "POST":
                (tmp_path / f"sent {os.getpid()}").write_bytes(
                    headers["Idempotency-Key"].encode() + body
                )
                return client.HttpResponse(201, {}, b'{"outcome": "counted"}')
            return through(http)(method, url, headers, body)

        devices = [
            device(http, "ann", trust="local", store=tmp_path / "device", send=written)
            for _ in range(2)
        ]
        for one in devices:
            one.join()
        episodes = [play(one, np.random.default_rng(number)) for number, one in enumerate(devices)]
        children = []
        for one, episode in zip(devices, episodes, strict=True):
            child = os.fork()
            if child == 0:
                try:
                    one.report(*episode)
                finally:
                    os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        sent = [path.read_bytes() for path in tmp_path.glob("sent *")]
        assert sent and len(set(sent)) == 1


def test_a_store_belongs_to_one_person(folder, tmp_path):
    """Otherwise the second person is told that their report was sent, and never sends one."""
    store = tmp_path / "device"
    with serving(folder, spec()) as http:
        early = device(http, "bob", store=store)
        ann = device(http, "ann", store=store)
        ann.join()
        assert b"ann" not in store.read_bytes()
        assert ann.report(*play(ann, np.random.default_rng(0))) == "counted"
        with pytest.raises(StateError, match="the store is of another person"):
            device(http, "bob", store=store)
        with pytest.raises(StateError, match="the store is of another person"):
            early.join()
        again = device(http, "ann", store=store)
        again.join()
        assert again.report(*play(again, np.random.default_rng(1))) == "same"


@pytest.mark.parametrize("person", ["ann", 5, None, "\u00e9"])
def test_a_store_without_its_person_is_damaged_or_of_another_one(tmp_path, person):
    store = tmp_path / "device"
    store.write_text(json.dumps({"which": 1, "salt": "00", "person": person}))
    with pytest.raises(StateError, match="the store is"):
        Device(
            "http://service",
            "demo",
            subject="ann",
            api_key="key",
            accepts=Accepts(1.0),
            store=store,
        )


@pytest.mark.process
def test_a_device_without_a_store_refuses_after_a_fork(folder):
    """Both copies would noise the same data, and neither could know of the other."""
    with serving(folder, spec(trust="local")) as http:
        one = device(http, "ann", trust="local")
        one.join()
        episode = play(one, np.random.default_rng(0))
        child = os.fork()
        if child == 0:
            status = 1
            try:
                one.report(*episode)
            except PrivacyError as error:
                status = 17 if "copied by a fork" in str(error) else 1
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 17
        assert one.report(*episode) == "counted"
        with pytest.raises(PrivacyError, match="cannot be copied"):
            pickle.dumps(one)


@pytest.mark.parametrize("trust", ["joint", "local"])
@pytest.mark.parametrize("late", [False, True], ids=["counted", "late"])
def test_a_report_that_is_answered_is_not_kept(folder, tmp_path, trust, late):
    """It is in the store when it is sent, and gone when the service has said what became of it."""
    store, posts = tmp_path / "device", []
    with serving(folder, spec(trust=trust, every=2)) as http:

        def watching(method, url, headers, body):
            if method == "POST":
                posts.append(base64.b64encode(body) in store.read_bytes())
            return through(http)(method, url, headers, body)

        one = device(http, "ann", trust=trust, store=store, send=watching)
        one.join()
        for other in "bc" if late else "":
            other = device(http, other, trust=trust)
            other.join()
            other.report([0] * 6, [0] * 5, [0.5] * 5)
        for asked in range(2):
            again = (
                one if asked == 0 else device(http, "ann", trust=trust, store=store, send=watching)
            )
            if late:
                with pytest.raises(StaleMessage, match="was not counted"):
                    again.report([1, 2, 3], [1, 2], [0.0, 0.123456789])
            else:
                assert (
                    again.report([1, 2, 3], [1, 2], [0.0, 0.123456789])
                    == ("counted", "same")[asked]
                )
            kept = json.loads(store.read_text())
            assert (
                "sent" not in kept
                and "nonce" not in kept
                and kept["outcome"] in ("late", "counted")
            )
    assert posts == [True]


def test_a_device_that_joins_while_a_batch_closes_is_in_the_next_round(folder):
    with serving(folder, spec(every=2)) as http:
        asked = []

        def slow(method, url, headers, body):
            asked.append(url.rsplit("/", 1)[1])
            if asked == ["manifest", "keys", "release", "0"]:
                for name in "bc":
                    other = device(http, name)
                    other.join()
                    other.report([0] * 6, [0] * 5, [0.5] * 5)
                http.settle()
            return through(http)(method, url, headers, body)

        one = device(http, "ann", send=slow)
        assert one.join().generation == 1
        assert asked == ["manifest", "keys", "release", "0", "release", "1"]
        http.post("/v1/runs/demo/finish", "admin")
        http.service.runs["demo"].round = None
        with pytest.raises(ServiceRefused) as refused:  # nobody is served any more
            device(http, "bob").join()
        assert refused.value.status == 410


def test_a_device_waits_as_long_as_it_is_asked_but_not_for_ever(folder):
    asked, waited = iter(["7", "999999999999", "soon", "nan"]), []
    with serving(folder, spec()) as http:

        def busy(method, url, headers, body):
            said = next(asked, None)
            return (
                through(http)(method, url, headers, body)
                if said is None
                else client.HttpResponse(429, {"retry-after": said}, b"")
            )

        device(http, "ann", send=busy, sleep=waited.append).join()
    assert waited[0] == 7 and waited[1] == 300 and max(waited[2:]) < 2


def test_a_device_that_is_late_does_not_send_its_data_again(folder):
    with serving(folder, spec(every=4)) as http:
        slow = device(http, "slow")
        slow.join()
        for number in range(4):
            one = device(http, f"person {number}")
            one.join()
            one.report(*play(one, np.random.default_rng(number)))
        with pytest.raises(StaleMessage, match="was not counted"):
            slow.report(*play(slow, np.random.default_rng(9)))


@pytest.mark.parametrize(
    ("accepts", "why"),
    [
        (Accepts(0.5, 1e-5, simulation=True), "epsilon=1"),
        (Accepts(2.0, 1e-6, simulation=True), "delta"),
        (Accepts(2.0, 1e-5, trust="local", simulation=True), "raw data"),
        (Accepts(2.0, 1e-5), "simulation"),
    ],
    ids=["epsilon", "delta", "trust", "simulation"],
)
def test_a_promise_that_is_weaker_than_accepted_is_refused(folder, accepts, why):
    with serving(folder, spec()) as http, pytest.raises(PromiseBroken, match=why):
        device(http, "ann", accepts=accepts).join()


@pytest.mark.parametrize(
    "wrong",
    [
        {"trust": "Local"},
        {"trust": None},
        {"simulation": "no"},
        {"simulation": 0},
        {"relation": "Null"},
        {"relation": None},
    ],
    ids=str,
)
def test_what_a_person_accepts_has_no_misspelt_words(wrong):
    """A word that nobody knows must not mean the weaker choice."""
    with pytest.raises(InvalidParameter, match=f"{next(iter(wrong))} must be"):
        Accepts(1.0, 1e-5, **wrong)


def test_a_weaker_relation_must_be_accepted(folder):
    with serving(folder, spec(relation="null")) as http:
        strict = Accepts(1.0, 1e-5, simulation=True)
        with pytest.raises(PromiseBroken, match="no data at all"):
            device(http, "ann", accepts=strict).join()
        device(http, "ann", accepts=replace(strict, relation="null")).join()


@pytest.mark.parametrize("way", ["a link to the file", "a link to the folder", "another folder"])
def test_a_store_is_one_store_however_it_is_reached(folder, tmp_path, monkeypatch, way):
    place = tmp_path / "place"
    place.mkdir()
    (tmp_path / "folder").symlink_to(place)
    (tmp_path / "link").symlink_to(place / "device")
    store = {
        "a link to the file": tmp_path / "link",
        "a link to the folder": tmp_path / "folder" / "device",
    }.get(way, "device")
    with serving(folder, spec(trust="local")) as http:
        monkeypatch.chdir(place)
        first = device(http, "ann", trust="local", store=place / "device")
        second = device(http, "ann", trust="local", store=store)
        monkeypatch.chdir(tmp_path)
        for one in (first, second):
            one.join()
        episode = play(first, np.random.default_rng(0))
        assert first.report(*episode) == "counted"
        assert second.report(*episode) == "same"
    assert (tmp_path / "link").is_symlink()


@pytest.mark.parametrize(
    "field",
    ["generation", "run", "key", "manifest", "digest", "sent", "nonce", "outcome", "refused"],
)
def test_a_damaged_store_is_a_state_error(folder, tmp_path, field):
    store = tmp_path / "device"
    with serving(folder, spec()) as http:
        device(http, "ann", store=store).join()
        store.write_text(json.dumps(json.loads(store.read_text()) | {field: ["x"]}))
        with pytest.raises(StateError, match="damaged"):
            device(http, "ann", store=store)


def changed(http, path, change):
    """A network that changes what is read at one address."""

    def send(method, url, headers, body):
        answer = through(http)(method, url, headers, body)
        return change(answer) if url.endswith(path) else answer

    return send


def refusing(http, status, kind, posts):
    """A network on which the first report is refused, and that keeps what is posted."""

    def send(method, url, headers, body):
        if method == "POST":
            posts.append((headers["Idempotency-Key"], body))
            if len(posts) == 1:
                return client.HttpResponse(status, {}, json.dumps({"type": kind}).encode())
        return through(http)(method, url, headers, body)

    return send


@pytest.mark.parametrize("trust", ["joint", "local"])
@pytest.mark.parametrize(
    ("status", "kind"),
    [(400, "invalid"), (403, "over-budget"), (409, "another-report"), (413, "too-large")],
)
def test_a_report_that_is_refused_for_good_is_deleted_and_none_is_sent_again(
    folder, tmp_path, trust, status, kind
):
    """Otherwise the noisy message is sent for ever, or a second one of the same person."""
    store, posts = tmp_path / "device", []
    with serving(folder, spec(trust=trust)) as http:
        send = refusing(http, status, f"/problems/{kind}", posts)
        one = device(http, "ann", trust=trust, store=store, send=send)
        one.join()
        restarted = device(http, "ann", trust=trust, store=store, send=send)
        for each in (one, one, restarted):
            with pytest.raises(ServiceRefused, match=f"{status}: {kind}") as refused:
                each.report([0] * 6, [0] * 5, [0.5] * 5)
            assert (refused.value.status, refused.value.kind) == (status, kind)
            kept = json.loads(store.read_text())
            assert (kept["outcome"], kept["refused"]) == ("refused", [status, kind])
            assert "sent" not in kept and "nonce" not in kept
        # also after it has joined again
        restarted.join()
        with pytest.raises(ServiceRefused, match=kind):
            restarted.report([0] * 6, [0] * 5, [0.5] * 5)
    assert len(posts) == 1


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, "unauthorised"),
        (403, "forbidden"),
        (403, "not-enrolled"),
        (404, "unknown"),
        (405, "invalid"),
        (413, "<html>"),
    ],
)
def test_a_refusal_that_may_end_keeps_the_report(folder, tmp_path, status, kind):
    posts = []
    with serving(folder, spec(trust="local")) as http:
        send = refusing(http, status, f"/problems/{kind}", posts)
        one = device(http, "ann", trust="local", store=tmp_path / "device", send=send)
        one.join()
        with pytest.raises(ServiceRefused, match=str(status)):
            one.report([0] * 6, [0] * 5, [0.5] * 5)
        again = device(http, "ann", trust="local", store=tmp_path / "device", send=send)
        assert again.report([], [], []) == "counted"
    assert len(posts) == 2 and len(set(posts)) == 1


def test_a_second_report_of_a_person_is_refused_by_the_service_for_good(folder, tmp_path):
    with serving(folder, spec(trust="local")) as http:
        first, second = (
            device(http, "ann", trust="local", store=tmp_path / name) for name in ("one", "two")
        )
        for each in (first, second):
            each.join()
        assert first.report([0] * 6, [0] * 5, [0.5] * 5) == "counted"
        for _ in range(2):
            with pytest.raises(ServiceRefused, match="409: another-report"):
                second.report([0] * 6, [0] * 5, [0.5] * 5)
        assert "sent" not in json.loads((tmp_path / "two").read_text())


def test_the_last_answer_stands_if_two_devices_with_one_store_get_different_ones(folder, tmp_path):
    """The answer to one of them came while the other one waited for its own."""
    store, answers = tmp_path / "device", []
    with serving(folder, spec()) as http:

        def slow(method, url, headers, body):
            answer = through(http)(method, url, headers, body)
            if method == "POST":
                with pytest.raises(ServiceRefused, match="403: over-budget"):
                    quick.report([], [], [])
                answers.append(json.loads(store.read_text())["outcome"])
            return answer

        one = device(http, "ann", store=store, send=slow)
        quick = device(http, "ann", store=store, send=refusing(http, 403, "over-budget", []))
        one.join()
        assert one.report([0] * 6, [0] * 5, [0.5] * 5) == "counted" and answers == ["refused"]
        assert device(http, "ann", store=store).report([], [], []) == "same"


@pytest.mark.parametrize(
    "change",
    [
        {"outcome": "refused"},
        {"outcome": "refused", "refused": None},
        {"outcome": "refused", "refused": [409]},
        {"outcome": "refused", "refused": [409, "late"]},
        {"outcome": "refused", "refused": "409 another-report"},
        {"outcome": "refused", "refused": [[409], {}]},
        {"outcome": "counted", "refused": [409, "another-report"]},
        {"refused": [409, "another-report"]},
    ],
    ids=str,
)
def test_a_refusal_that_no_service_gives_is_a_damaged_store(folder, tmp_path, change):
    store = tmp_path / "device"
    with serving(folder, spec()) as http:
        device(http, "ann", store=store).join()
        whole = json.loads(store.read_text())
        store.write_text(
            json.dumps(whole | {"outcome": "refused", "refused": [409, "another-report"]})
        )
        device(http, "ann", store=store)
        store.write_text(json.dumps(whole | change))
        with pytest.raises(StateError, match="damaged"):
            device(http, "ann", store=store)


@pytest.mark.parametrize("trust", ["joint", "local"])
def test_an_episode_that_is_longer_than_the_horizon_is_counted_up_to_it(folder, trust):
    """The service counts no later step, and would refuse the whole episode by its size."""
    bodies = []
    with serving(folder, spec(trust=trust)) as http:

        def watching(method, url, headers, body):
            if method == "POST":
                bodies.append(body)
            return through(http)(method, url, headers, body)

        one = device(http, "ann", trust=trust, send=watching)
        one.join()
        parts = [part.tolist() for part in play(one, np.random.default_rng(0))]
        longer = [part + [0] * 10_000 for part in parts]
        assert one.manifest["problem"]["horizon"] == len(parts[1]) == 5
        assert one.report(*longer) == "counted"
        if trust == "joint":
            names = ("states", "actions", "rewards")
            assert json.loads(bodies[0])["trajectory"] == dict(zip(names, parts, strict=True))
            run = http.service.runs["demo"]
            assert (run.contribution([longer]) == run.contribution([parts])).all()


def test_if_the_horizon_is_not_stated_the_whole_episode_is_sent(folder):
    with serving(folder, spec()) as http:
        one = device(http, "ann")
        one.join()
        for stated in ({}, {"problem": {}}, {"problem": {"horizon": 0}}):
            manifest = {name: one.manifest[name] for name in ("run", "promise", "key")}
            one.manifest = check_manifest({**manifest, "simulation": True, **stated})
            body = json.loads(one.body([0] * 31, [0] * 30, [0.5] * 30))
            assert [len(part) for part in body["trajectory"].values()] == [30, 30, 31]


@pytest.mark.parametrize("path", ["manifest", "release", "round/0"])
def test_a_byte_that_is_changed_on_the_way_is_found(folder, path):
    with serving(folder, spec()) as http:

        def change(answer):
            return replace(answer, body=answer.body.replace(b"demo", b"emo ", 1))

        with pytest.raises((SignatureError, InvalidParameter)):
            device(http, "ann", send=changed(http, path, change)).join()


@pytest.mark.parametrize("trust", ["joint", "local"])
def test_a_report_that_answers_another_round_is_refused(folder, trust, tmp_path):
    """As from a worker on another processor.

    It is not counted, and the device says why and sends nothing again.
    """
    with serving(folder, spec(trust=trust)) as http:
        one = device(http, "ann", trust=trust, store=tmp_path / "device")
        one.join()
        one.round = replace(one.round, document={**one.round.document, "round": "ab" * 32})
        for _ in range(2):
            with pytest.raises(
                AnotherRound, match="another round than the one that the report answers"
            ):
                one.report(*play(one, np.random.default_rng(0)))
        assert "sent" not in json.loads((tmp_path / "device").read_text())
        assert http.service.store.participants("demo") == {}
        other = device(http, "bob", trust=trust)
        other.join()
        assert (
            other.round.document["round"]
            == http.service.runs["demo"].learner.current_round().digest.hex()
        )
        assert other.report(*play(other, np.random.default_rng(0))) == "counted"


def test_two_faces_of_a_release_and_old_ones_are_found(folder, tmp_path):
    """A device remembers the newest release; a service that went back, or signs two of them, is
    caught.
    """
    with serving(folder, spec(every=4)) as http:
        service, run = http.service, http.service.runs["demo"]
        one = device(http, "ann", store=tmp_path / "device")
        first = run.release
        one.join()
        for number in range(4):
            other = device(http, f"person {number}")
            other.join()
            other.report(*play(other, np.random.default_rng(number)))
        http.settle()
        one.join()
        second = run.release
        run.release = first
        with pytest.raises(SignatureError, match="has seen release 1"):
            device(http, "ann", store=tmp_path / "device").join()
        from confide.service.core.live import signed_release

        run.release = signed_release(run, second.body + b" ", 4, 1, first.digest, service.key)
        with pytest.raises(SignatureError, match="two different releases 1"):
            device(http, "ann", store=tmp_path / "device").join()
        run.release = signed_release(run, second.body, 4, 2, "0" * 64, service.key)
        with pytest.raises(SignatureError, match="does not follow"):
            device(http, "ann", store=tmp_path / "device").join()
        run.release = second


def test_keys_are_pinned_and_rotated(folder, tmp_path):
    with serving(folder, spec(every=4)) as http:
        public = json.loads(http.service.runs["demo"].manifest.body)["key"]["public"]
        one = device(http, "ann", key=public, store=tmp_path / "device")
        one.join()
        with pytest.raises(SignatureError, match="another key"):
            device(http, "ann", key="00" * 32).join()
        http.service.rotate("admin")
        for number in range(4):
            other = device(http, f"person {number}")
            other.join()
            other.report(*play(other, np.random.default_rng(number)))
        http.settle()
        assert one.join().generation == 1  # signed by the new key, which the old one endorsed
        assert http.service.runs["demo"].release.key != http.service.runs["demo"].manifest.key


def test_what_the_service_refuses_is_said(folder):
    with serving(folder, spec()) as http:
        one = device(http, "ann", api_key="cfd_x_y")
        one.join()
        with pytest.raises(ServiceRefused, match="401: unauthorised"):
            one.report(*play(one, np.random.default_rng(0)))
        with pytest.raises(ServiceRefused, match="404: unknown"):
            device(http, "ann", run="nothing").join()
        with pytest.raises(InvalidParameter, match="call join first"):
            device(http, "ann").report([], [], [])


@pytest.mark.process
def test_a_device_needs_no_compiler_and_no_planner():
    heavy = (
        "numba",
        "scipy",
        "opendp",
        "starlette",
        "httpx",
        "confide.learning",
        "confide.planners",
        "confide.problems",
    )
    code = (
        "import sys, confide.service.device.client\n"
        f"print([name for name in {heavy!r} if name in sys.modules])"
    )
    assert (
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.strip()
        == "[]"
    )


def test_what_is_stored_before_it_is_sent_is_what_is_sent(folder, tmp_path):
    """The message is on the disk when the network first sees it."""
    with serving(folder, spec(trust="local")) as http:
        seen = []

        def watching(method, url, headers, body):
            if method == "POST":
                kept = json.loads((tmp_path / "device").read_text())
                seen.append(
                    base64.b64decode(kept["sent"]) == body
                    and kept["nonce"] == headers["Idempotency-Key"]
                )
            return through(http)(method, url, headers, body)

        one = device(http, "ann", trust="local", store=tmp_path / "device", send=watching)
        one.join()
        one.report(*play(one, np.random.default_rng(0)))
        assert seen == [True] and (tmp_path / "device").stat().st_mode & 0o777 == 0o600


def test_an_episode_without_its_last_state_is_refused_on_the_device(folder):
    with serving(folder, spec(every=2)) as http:
        one = device(http, "ann")
        one.join()
        with pytest.raises(
            InvalidParameter,
            match="one more state than steps, got 5 states, 5 actions and 5 rewards",
        ):
            one.report([0] * 5, [0] * 5, [0.5] * 5)
        assert one.report([0] * 6, [0] * 5, [0.5] * 5) == "counted"
