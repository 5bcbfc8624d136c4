"""The TypeScript client in a real browser, against a real service: another origin, reloads, and a
network that goes away.
"""

import asyncio
import base64
import functools
import http.server
import json
import subprocess
import threading
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import uvicorn
from service_bench import WORLD, spec

from confide.privatizers.message import Message
from confide.service.core.folder import ServiceFolder
from confide.service.core.live import make_learner
from confide.service.core.round_document import plain_channel
from confide.service.device.episodes import contribution
from confide.service.web.access import new_api_key
from confide.service.web.http import app

pytestmark = pytest.mark.long

CLIENTS = Path(__file__).parents[2] / "clients"
SOON = 15_000  # milliseconds that anything may take on a busy machine
FROM_BASE64 = "const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0));"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


@contextmanager
def in_thread(work, stop):
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop()
        thread.join(30)


@pytest.fixture(scope="module")
def site(npx, tmp_path_factory):
    """The address of the example page; the library is beside it, as the global name `confide`."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "index.html").write_text(
        (CLIENTS / "typescript" / "example" / "index.html").read_text()
    )
    (folder / "empty.html").write_text(
        "<!doctype html><title>empty</title><link rel=icon href=data:,>"
    )
    npx(
        "esbuild",
        "example/main.ts",
        "--bundle",
        "--format=esm",
        "--log-level=error",
        f"--outfile={folder}/main.js",
    )
    options = ("--bundle", "--format=iife", "--global-name=confide", "--log-level=error")
    npx("esbuild", "src/index.ts", *options, f"--outfile={folder}/confide.js")
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))
    )
    with in_thread(server.serve_forever, server.shutdown):
        yield f"http://127.0.0.1:{server.server_port}"
    server.server_close()


@pytest.fixture(scope="module")
def page(browser, site):
    """An empty page with the library, for what needs no service."""
    made = browser.new_page()
    made.goto(f"{site}/empty.html")
    made.add_script_tag(url=f"{site}/confide.js")
    yield made
    made.close()


def test_vectors(page):
    """The same bytes as in Python and Node, from the same entropy."""
    vectors = json.loads((CLIENTS / "vectors.json").read_text())["messages"]
    script = f"""vectors => {{ {FROM_BASE64}
        return vectors.map(({{channel, statistic, episode, generation, round, entropy}}) => {{
            const stream = bytes(entropy);
            let used = 0;
            const take = size => stream.slice(used, used += size);
            const steps = confide.contribution(statistic, channel, episode);
            const made = confide.message(channel, steps, {{generation, round}}, take);
            return btoa(String.fromCharCode(...made));
        }});
    }}"""
    assert page.evaluate(script, vectors) == [vector["message"] for vector in vectors]


def test_hostile_rounds(page, npx, tmp_path):
    """Each is refused, or what would be sent is within its bound, as in Python and Node."""
    options = ("--bundle", "--format=iife", "--global-name=hostile", "--log-level=error")
    npx("esbuild", "test/hostile.ts", *options, f"--outfile={tmp_path}/hostile.js")
    page.add_script_tag(path=tmp_path / "hostile.js")
    cases = json.loads((CLIENTS / "hostile.json").read_text())
    outcomes = page.evaluate(
        "cases => cases.rounds.map(({text}) => hostile.outcomeOfText(text, cases))", cases
    )
    assert outcomes == ["refused" if case["refused"] else "sent" for case in cases["rounds"]]


@pytest.mark.parametrize(("epsilon", "distribution"), [(4.0, "codebook"), (60.0, "gaussian")])
def test_a_thousand_messages_are_absorbed(page, epsilon, distribution):
    """All different, all counted.

    Their mean is the contribution within 6 standard errors on each of 20 coordinates (false alarms
    4e-8), and the noise has its standard deviation within 10 %.
    """
    learner = make_learner(
        spec(trust="local", noise="secure", epsilon=epsilon, users=1_000, every=1_000)
    )
    channel, statistic = plain_channel(learner.channel()), learner.current_round().statistic.plain()
    assert channel["noise"]["distribution"] == distribution
    answered = {"generation": 0, "round": learner.current_round().digest.hex()}
    played = WORLD.sample(learner.current_round().policies[0], 1, np.random.default_rng(0))
    episode = {name: getattr(played, name)[0].tolist() for name in ("states", "actions", "rewards")}
    script = """([channel, statistic, episode, answered, epsilon]) => {
        const entropy = size => crypto.getRandomValues(new Uint8Array(size));
        return Array.from({length: 1000}, () => {
            const accepts = {epsilon, delta: 1e-5};
            const made = confide.messageOf(channel, statistic, episode, answered, accepts, entropy);
            return btoa(String.fromCharCode(...made));
        });
    }"""
    made = [
        base64.b64decode(each)
        for each in page.evaluate(script, [channel, statistic, episode, answered, epsilon])
    ]
    assert len(set(made)) == 1_000
    noisy = np.array([learner.channel().decode(Message.from_bytes(each)) for each in made])
    for each in made:
        learner.absorb(each)
    assert (learner.users, learner.released().generation) == (1_000, 1)
    exact = contribution(statistic, channel, tuple(episode.values())) * channel["grid"]
    assert exact.any()
    std = learner.channel().noise.std
    assert (np.abs(noisy.mean(axis=0) - exact) < 6 * std / 1_000**0.5).all()
    assert np.sqrt(((noisy - exact) ** 2).mean()) == pytest.approx(std, rel=0.1)


@contextmanager
def running(folder, site, *specs):
    """A service on a port of its own, which pages of `site` may call."""
    folder.init()
    service = folder.open()
    for each in specs:
        service.create(each)
    key = new_api_key(service.store, "device", "test", "test")
    service.start()
    server = uvicorn.Server(
        uvicorn.Config(app(service, origins=(site,)), port=0, log_level="error", lifespan="off")
    )
    ready = threading.Event()

    async def serve():
        task = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.005)
        ready.set()
        await task

    with in_thread(lambda: asyncio.run(serve()), lambda: setattr(server, "should_exit", True)):
        assert ready.wait(30)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield service, f"http://127.0.0.1:{port}", key
    service.stop()
    folder.let_go()


@pytest.fixture(scope="module")
def service(site, tmp_path_factory):
    folder = ServiceFolder(tmp_path_factory.mktemp("run") / "service")
    local = spec("local", trust="local", noise="secure", users=60, every=20)
    with running(folder, site, local, spec("joint", users=60, every=20)) as made:
        yield made


class Visit:
    """A person with the example page. What the page complains about, and what it sends, is kept."""

    def __init__(self, context, site, service, run, subject):
        self.context, self.site, self._service, self.run, self.subject = (
            context,
            site,
            service,
            run,
            subject,
        )
        self.page = context.new_page()
        self.page.set_default_timeout(SOON)
        self.complaints, self.posts = [], []
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("request", self._sent)
        self.page.goto(site)

    def _sent(self, request):
        if request.method == "POST":
            self.posts.append((request.headers["idempotency-key"], request.post_data))

    def join(self):
        _, url, key = self._service
        given = {
            "url": url,
            "run": self.run,
            "subject": self.subject,
            "apiKey": key,
            "epsilon": "4",
            "delta": "0.00001",
        }
        for name, value in given.items():
            self.page.fill(f"[name={name}]", value)
        self.page.select_option("[name=trust]", self.run)
        self.page.check("[name=simulation]")
        self.page.click("text=Join")
        self.page.wait_for_selector("#episode:not([hidden])")

    def play(self):
        for _ in range(5):
            self.page.fill("[name=state]", "1")
            self.page.click("text=Next")
        assert self.page.is_hidden("#episode")

    def says(self, text):
        self.page.wait_for_function(
            "text => document.getElementById('status').textContent.includes(text)", arg=text
        )

    def counted(self):
        live = self._service[0].runs[self.run]
        return live.users


@pytest.fixture
def visit(browser, site, service):
    opened = []

    def made(run, subject):
        opened.append(
            Visit(
                browser.new_context(viewport={"width": 375, "height": 812}),
                site,
                service,
                run,
                subject,
            )
        )
        return opened[-1]

    yield made
    for each in opened:
        assert each.complaints == []
        each.context.close()


@pytest.mark.parametrize("run", ["joint", "local"])
def test_a_person_takes_part(visit, run):
    """Join, five steps, one report; the page fits a phone."""
    one = visit(run, "somebody")
    before = one.counted()
    one.join()
    assert one.page.evaluate("document.documentElement.scrollWidth") <= 375
    one.play()
    one.says("was counted")
    assert one.counted() == before + 1
    kept = one.page.evaluate(
        "new Promise(done => { indexedDB.open('confide').onsuccess = "
        "e => e.target.result.transaction('devices')"
        ".objectStore('devices').getAll().onsuccess = got => done(got.target.result); })"
    )
    # a trajectory does not stay on the device
    assert len(kept) == 1 and "sent" not in json.loads(kept[0])


@pytest.mark.parametrize("run", ["joint", "local"])
@pytest.mark.parametrize("arrives", [True, False])
def test_a_reload_in_mid_send_sends_the_same_bytes(visit, run, arrives):
    """Whether the report had arrived or not, it is counted once, and noise is drawn once."""
    one = visit(run, f"reloads, {arrives}")
    before, held = one.counted(), []

    def hold(route):
        if route.request.method != "POST" or held:
            return route.continue_()
        held.append(route)  # no answer before the page is gone
        return route.fetch() if arrives else None

    one.page.route("**/reports", hold)
    one.join()
    one.play()
    while not held:
        one.page.wait_for_timeout(10)
    one.page.reload()
    one.says("had your report already" if arrives else "was counted")
    assert len(one.posts) == 2 and one.posts[0] == one.posts[1]
    assert one.counted() == before + 1


def test_offline_and_retry(visit):
    """The report waits on the device, also over a reload, and is sent when the network is back."""
    one = visit("local", "offline")
    before = one.counted()
    one.join()
    one.context.set_offline(True)
    one.play()
    one.says("Sending")
    one.page.wait_for_timeout(300)
    assert one.counted() == before
    one.context.set_offline(False)
    one.says("was counted")
    assert one.counted() == before + 1
    assert len(set(one.posts)) == 1 < len(one.posts)


@pytest.mark.process
def test_the_example_for_node(npx, service, tmp_path):
    """The one of the README: it reports, and a second time it has nothing to send."""
    live, url, key = service
    source = (CLIENTS / "typescript" / "example" / "node.ts").read_text()
    assert source in (CLIENTS / "typescript" / "README.md").read_text()
    # Node 18 has no global name for it
    older = "--banner:js=import { webcrypto } from 'node:crypto'; globalThis.crypto ??= webcrypto;"
    options = (
        "--bundle",
        "--platform=node",
        "--format=esm",
        "--log-level=error",
        older,
        f"--outfile={tmp_path}/node.mjs",
    )
    npx("esbuild", "example/node.ts", *options)
    before, command = (
        live.runs["local"].users,
        ["node", "node.mjs", url, "local", "a person in Node", key],
    )
    for outcome in ("counted", "same"):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
        assert done.stdout.strip() == outcome
    assert live.runs["local"].users == before + 1


def test_a_promise_that_is_too_weak_is_said(visit):
    one = visit("joint", "careful")
    one.page.select_option("[name=trust]", "local")
    _, url, key = one._service
    for name, value in {
        "url": url,
        "run": "joint",
        "subject": "careful",
        "apiKey": key,
        "epsilon": "4",
        "delta": "0.01",
    }.items():
        one.page.fill(f"[name={name}]", value)
    one.page.click("text=Join")
    one.says("accepts local privacy only")
    assert one.posts == []
