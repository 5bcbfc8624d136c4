"""A user's side: it believes signatures and nothing else, and sends one report."""

import base64
import contextlib
import http.server
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest
from service_bench import URL, WORLD, device, play, serving, spec, through

from confide.errors import (
    AnotherRound,
    InvalidDocument,
    InvalidParameter,
    PrivacyError,
    PromiseBroken,
    SignatureError,
    StaleMessage,
    StateError,
)
from confide.mechanisms.sources import noise_source
from confide.policy import (
    ContextPolicy,
    LinearPolicy,
    RandomPolicy,
    StochasticPolicy,
    TabularPolicy,
)
from confide.privatizers import Message
from confide.service.core.round_document import plain_channel, plain_policy
from confide.service.device import client, transport
from confide.service.device.client import Accepts, Device, act
from confide.service.device.crowd import Crowd
from confide.service.device.episodes import contribution, message_bytes, sensitivity
from confide.service.device.transport import ServiceRefused, over_http
from confide.trajectory import collect


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


def test_a_crowd_of_devices_at_once(folder):
    with serving(folder, spec(users=100, every=25)) as http:
        crowd = Crowd(
            URL,
            "demo",
            WORLD,
            api_key=http.keys["device"],
            accepts=Accepts(1.0, 1e-5, simulation=True),
            source=lambda: noise_source("fast"),
            send=through(http),
        )
        crowd.come(300, at_once=4)
        assert (
            crowd.outcomes["counted"]
            == 100
            == sum(http.service.store.participants("demo").values())
        )
        assert set(crowd.outcomes) <= {"counted", "late", "finished"}
        assert http.service.runs["demo"].generation == 4


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
            patch.setattr(transport, "_TRIES", 2)
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
    """Eight of them are made before the first report, and report at once, each in a thread of its own."""
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
                return client.Response(201, {}, b'{"outcome": "counted"}')
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
                else client.Response(429, {"retry-after": said}, b"")
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
    "field", ["generation", "run", "key", "manifest", "digest", "sent", "nonce", "outcome"]
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


@pytest.mark.parametrize("path", ["manifest", "release", "round/0"])
def test_a_byte_that_is_changed_on_the_way_is_found(folder, path):
    with serving(folder, spec()) as http:

        def change(answer):
            return replace(answer, body=answer.body.replace(b"demo", b"emo ", 1))

        with pytest.raises((SignatureError, InvalidParameter)):
            device(http, "ann", send=changed(http, path, change)).join()


@pytest.mark.parametrize("trust", ["joint", "local"])
def test_a_report_that_answers_another_round_is_refused(folder, trust, tmp_path):
    """As from a worker on another processor. It is not counted, and the device says why and sends nothing again."""
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
    """A device remembers the newest release; a service that went back, or signs two of them, is caught."""
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


# the device's arithmetic


@pytest.mark.parametrize(
    ("agent", "problem", "more"),
    [
        ("likelihood-vi", "lock", {}),
        ("questions-vi", "lock", {"every": None, "users": 20_000}),
        ("questions-vi", "lock-rewards", {"every": None, "users": 20_000}),
        ("tabular-psrl", "riverswim", {}),
        ("tabular-psrl", "riverswim-stage", {}),
        ("tabular-psrl", "gym:FrozenLake-v1", {"horizon": 20}),
    ],
)
def test_contributions_from_tables_are_those_of_the_learner(bench, agent, problem, more):
    run = bench.create(agent=agent, problem=problem, trust="local", **more)
    document = json.loads(run.round.body)
    rng, world = np.random.default_rng(0), run.spec.world()
    episodes = []
    for _ in range(20):
        played = world.sample(run.learner.assign().policy, 1, rng)
        episodes.append(
            [part[0].tolist() for part in (played.states, played.actions, played.rewards)]
        )
    episodes += [
        ([0.5, "x", 2], [0, 1], [0.1]),
        ([], [], []),
        ([-1] * 6, [99] * 5, [1.0] * 5),
        ([True, 1, 2], [0, 1], [2.0, 3.0]),
    ]
    for episode in episodes:
        users = collect([episode], world.horizon)
        expected = run.learner.current_round().statistic.contribution(users).steps
        np.testing.assert_array_equal(
            contribution(document["statistic"], document["channel"], episode), expected
        )


def test_a_statistic_that_makes_no_sense_is_refused():
    channel = {"size": 3, "grid": 0.5}
    for statistic in (
        {"kind": "transitions", "steps": 1, "table": [[[[1, 2]]]]},
        {"kind": "answers"},
        None,
    ):
        with pytest.raises(InvalidDocument):
            contribution(statistic, channel, ([0, 0], [0], [1.0]))


def test_messages_have_the_bytes_of_the_library(bench):
    run = bench.create(trust="local")
    channel = plain_channel(run.learner.channel())
    made = Message(
        3,
        bytes(range(16)),
        bytes.fromhex(channel["id"]),
        np.array([17.0]),
        "index",
        bytes(range(32)),
    )
    assert (
        message_bytes(
            3, bytes(range(32)), bytes(range(16)), bytes.fromhex(channel["id"]), "index", [17.0]
        )
        == made.to_bytes()
    )


def test_a_server_cannot_raise_the_epsilon_of_a_message(folder):
    with serving(folder, spec(trust="local")) as http:
        one = device(http, "ann", trust="local")
        one.join()
        document = json.loads(json.dumps(one.round.document))
        document["channel"]["noise"]["epsilon"] = 40.0
        one.round = replace(one.round, document=document)
        with pytest.raises(PromiseBroken, match="epsilon=40"):
            one.report(*play(one, np.random.default_rng(0)))


@pytest.mark.parametrize(
    ("agent", "problem"), [("likelihood-vi", "lock"), ("tabular-psrl", "riverswim")]
)
def test_gaussian_noise_is_of_the_sensitivity_that_the_device_computes(folder, agent, problem):
    """A run for clients that draw numbers; the noise is not weaker than what the tables need, up to the rounding that the server adds."""
    made = spec(agent=agent, problem=problem, trust="local", local_noise="gaussian")
    with serving(folder, made) as http:
        run = http.service.runs["demo"]
        channel, statistic = (json.loads(run.round.body)[name] for name in ("channel", "statistic"))
        found, stated = sensitivity(statistic, channel["grid"])[0], channel["noise"]["sensitivity"]
        assert stated * (1 - 1e-5) <= found <= stated
        one = device(http, "ann", trust="local")
        one.join()
        world, rng = made.world(), np.random.default_rng(0)
        episode = world.sample(
            TabularPolicy(np.array(one.round.policy["actions"]), one.round.policy["choices"]),
            1,
            rng,
        )
        assert one.report(episode.states[0], episode.actions[0], episode.rewards[0]) == "counted"
        weak = json.loads(json.dumps(one.round.document))
        weak["channel"]["noise"]["scale"] *= 0.9
        other = device(http, "bob", trust="local")
        other.join()
        other.round = replace(other.round, document=weak)
        with pytest.raises(PromiseBroken, match="noise gives epsilon="):
            other.report([0, 0], [0], [0.0])


@pytest.mark.parametrize(
    ("policy", "state"),
    [
        (TabularPolicy(np.array([[1, 0]]), 2), 1),
        (StochasticPolicy(np.array([[[0.0, 1.0]]])), 0),
        (LinearPolicy(np.array([[[2.0, 1.0]]])), [1.0, 3.0]),
        (ContextPolicy(np.array([1.0, 0.0]), np.array([[0.0, 9.0]])), [[1.0, 0.0], [0.0, 1.0]]),
        (ContextPolicy(np.array([1.0, 0.0])), [[1.0, 0.0], [0.0, 1.0]]),
    ],
    ids=["tabular", "stochastic", "linear", "context", "certain"],
)
def test_plain_policies_act_as_those_of_the_library(policy, state):
    plain = json.loads(json.dumps(plain_policy(policy)))
    if isinstance(policy, ContextPolicy):
        expected = policy.choose(np.array([state]))[0]
    else:
        expected = policy.act(
            0, np.array(state) if isinstance(state, list) else state, np.random.default_rng()
        )
    np.testing.assert_array_equal(act(plain, 0, state), expected)


@pytest.mark.parametrize(
    ("step", "state"), [(0, -1), (-1, 0), (0, 2), (1, 0), (0, True), (0, 2**63), (0, None)]
)
@pytest.mark.parametrize(
    "policy", [TabularPolicy(np.array([[1, 0]]), 2), StochasticPolicy(np.full((1, 2, 2), 0.5))]
)
def test_a_step_or_a_state_that_does_not_exist_has_no_action(policy, step, state):
    """Python counts negative indices from the end, so a state of -1 got the action of the last state."""
    with pytest.raises(InvalidParameter, match="must be"):
        act(plain_policy(policy), step, state)
    with pytest.raises(InvalidParameter, match="must be"):
        policy.act(step, state, np.random.default_rng())
    with pytest.raises(InvalidParameter, match="step must be at least 0"):
        act(plain_policy(LinearPolicy(np.array([[[2.0, 1.0]]]))), -1, [1.0, 3.0])


def test_random_and_unknown_policies():
    assert act(plain_policy(RandomPolicy(3)), 0, None) in range(3)
    with pytest.raises(InvalidParameter, match="knows no policy"):
        act({"kind": "other"}, 0, 0)


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
    code = f"import sys, confide.service.device.client\nprint([name for name in {heavy!r} if name in sys.modules])"
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


def test_a_crowd_stops_when_it_is_told():
    """Also where the service is gone, and devices would try again for a while."""

    def gone(*_):
        raise ConnectionRefusedError

    answers = iter([False, False] + [True] * 100)
    crowd = Crowd(
        URL,
        "demo",
        WORLD,
        api_key="",
        accepts=Accepts(1.0, 1e-5),
        source=lambda: noise_source("fast"),
        send=gone,
    )
    crowd.come(50, at_once=1, stop=lambda: next(answers, True))
    assert crowd.outcomes == {"stopped": 1}


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


def test_a_service_that_is_away_has_not_answered(folder):
    def away(*_):
        raise ConnectionRefusedError

    with (
        serving(folder, spec(every=2)) as http,
        pytest.raises(ServiceRefused, match="cannot be reached: ConnectionRefusedError"),
    ):
        device(http, "ann", send=away).join()


def test_an_answer_that_never_ends_is_given_up():
    """A server sends one byte after the other, each of them within the timeout of a single read."""

    class Drip(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(200):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                    time.sleep(0.05)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Drip)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        with pytest.raises(TimeoutError, match="took too long"):
            over_http(timeout=0.3)("GET", f"http://127.0.0.1:{server.server_port}/", {}, None)
    finally:
        server.shutdown()
        server.server_close()
