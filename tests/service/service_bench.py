"""A service in a folder of its own, with fast noise, and devices that talk to it in the same
process.
"""

import asyncio
import os
import secrets
import threading
import time
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

from confide.mechanisms.sources import noise_source
from confide.policy import TabularPolicy
from confide.problems import lock
from confide.service.core.admission import Report
from confide.service.core.spec import Batching, ServiceRunSpec
from confide.service.device.client import Accepts, Device
from confide.service.device.transport import HttpResponse
from confide.service.web.access import new_api_key
from confide.service.web.http import app

WORLD = lock(0)
URL = "http://service"


def spec(name="demo", *, trust="joint", users=60, every=20, batch=None, **more):
    given = {
        "agent": "likelihood-vi",
        "problem": "lock",
        "noise": "fast",
        "epsilon": 1.0 if trust == "joint" else 4.0,
        "delta": 1e-5,
    }
    chosen = batch or Batching(schedule=every)
    return ServiceRunSpec(name=name, trust=trust, users=users, batch=chosen, **(given | more))


def still_open(path):
    """Files of this process that are the database, its log or its index."""
    links = (Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd"))
    return [
        found
        for link in links
        if link.is_symlink() and (found := os.readlink(link)).startswith(str(path))
    ]


class Bench:
    """A service that a test drives by hand: `handle` is the writer's work, without its thread."""

    def __init__(self, folder, **more):
        self.folder = folder
        if not folder.exists():
            folder.init()
        self.service = folder.open(**more)
        self.rng = np.random.default_rng(0)

    def create(self, *given, **more):
        made = spec(*given, **more)
        self.service.create(made)
        return self.service.runs[made.name]

    def report(self, subject, run="demo", *, nonce=None, generation=None, content=None):
        live = self.service.runs[run]
        at = live.generation if generation is None else generation
        return Report(
            run,
            live.pseudonyms.who(subject),
            live.pseudonyms.person(subject),
            nonce or secrets.token_bytes(16),
            at,
            content if content is not None else self.content(run),
        )

    def content(self, run="demo"):
        live = self.service.runs[run]
        policy = live.learner.assign(int(self.rng.integers(2**62)) << 66).policy
        episode = WORLD.sample(policy, 1, self.rng)
        if live.spec.trust == "local":
            client = live.learner.client()
            client.plan(live.learner.released())
            return client.report(episode)
        return tuple(
            part[0].tolist() for part in (episode.states, episode.actions, episode.rewards)
        )

    def send(self, *reports):
        answers = []
        self.service.handle([(report, answers.append) for report in reports])
        return [answer.outcome for answer in answers]

    def stop(self):
        self.service.stop()
        self.folder.let_go()

    def restart(self, **more):
        self.stop()
        return Bench(self.folder, **more)


class Http:
    """The application in a thread of its own, without a socket."""

    def __init__(self, application):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._client = httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url=URL)
        self.application = application

    def request(self, method, url, **more):
        return asyncio.run_coroutine_threadsafe(
            self._client.request(method, url, **more), self._loop
        ).result()

    def get(self, url, role=None, **headers):
        return self.request("GET", url, headers=headers | self._key(role))

    def post(self, url, role=None, *, headers=None, **more):
        return self.request("POST", url, headers=(headers or {}) | self._key(role), **more)

    def _key(self, role):
        return {} if role is None else {"Authorization": f"Bearer {self.keys[role]}"}

    def settle(self, run="demo"):
        """Wait until the writer has done all that came before, closing and planning included.

        The writer answers a report of the future after all earlier ones. It answers 503 while the
        round after a release is planned.
        """
        body = {"subject": "nobody", "generation": 10**9, "trajectory": {}, "message": ""}
        deadline = time.monotonic() + 20
        while True:
            answer = self.post(
                f"/v1/runs/{run}/reports",
                "device",
                json=body,
                headers={"Idempotency-Key": "0" * 16},
            )
            if answer.status_code != 503 or time.monotonic() > deadline:
                break
            time.sleep(0.02)
        assert answer.status_code in (400, 410)

    def close(self):
        asyncio.run_coroutine_threadsafe(self._client.aclose(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def serving(folder, *specs, limits=None, **more):
    """The application with its writer's thread, and an API key of each role."""
    if not folder.exists():
        folder.init()
    service = folder.open(**more)
    for each in specs:
        service.create(each)
    keys = {
        role: new_api_key(service.store, role, "test", "test")
        for role in ("device", "operator", "admin", "auditor")
    }
    service.start()
    http = Http(app(service, limits))
    http.keys, http.service = keys, service
    try:
        yield http
    finally:
        http.close()
        service.stop()
        folder.let_go()


def through(http):
    """The transport of a `Device`."""

    def send(method, url, headers, body):
        answer = http.request(method, url, headers=dict(headers), content=body)
        return HttpResponse(answer.status_code, dict(answer.headers), answer.content)

    return send


def device(http, subject, *, trust="joint", run="demo", store=None, **more):
    accepts = Accepts(4.0, 1e-5, trust=trust, simulation=True)
    given = {
        "subject": subject,
        "api_key": http.keys["device"],
        "accepts": accepts,
        "send": through(http),
    }
    given |= {"source": noise_source("fast"), "sleep": lambda _: None}
    return Device(URL, run, store=store, **(given | more))


def play(one, rng, world=WORLD):
    """An episode of the lock by the device's policy."""
    policy = one.round.policy
    episode = world.sample(TabularPolicy(np.array(policy["actions"]), policy["choices"]), 1, rng)
    return episode.states[0], episode.actions[0], episode.rewards[0]


def report(http, subject="ann", *, nonce="n" * 16, role="device", run="demo", **more):
    body = {
        "subject": subject,
        "generation": 0,
        "trajectory": {"states": [0] * 6, "actions": [0] * 5, "rewards": [0.0] * 5},
    }
    return http.post(
        f"/v1/runs/{run}/reports", role, json=body | more, headers={"Idempotency-Key": nonce}
    )


def problem(answer, status, kind):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == f"/problems/{kind}" and answer.json()["status"] == status
    return answer
