"""Two neighbouring inputs of a service with the same releases: everything public must be the same
bytes.

One person, the target, sends something else in the second run, or stays away where taking part is
protected. The noise of the second run is chosen so that its releases are those of the first one
(`confide.audit.tape`). Then every public answer, at every time, must be the same. The endpoints are
found by inspection of the application's routes, so a new one cannot be forgotten.
"""

import base64
import json
import shutil
import time
import types

import numpy as np
import pytest
from allowed_differences import OF_THE_SERVICE
from service_bench import serving

from confide.audit.tape import Tape, TapedSource
from confide.learning.client import LocalClient
from confide.mechanisms.sources import noise_source
from confide.problems.catalogue import make
from confide.service.core import live
from confide.service.core import service as core
from confide.service.core.folder import ServiceFolder
from confide.service.core.spec import Batching, ServiceRunSpec
from confide.service.web import pages
from confide.trajectory import collect

RUN = "run"
TARGET = "target"
# The token of a login form is drawn at random for each reader. The test fixes it, and compares the
# rest of the page.
# (name, agent, problem, trust, rule): rounds of questions-vi change their size from release to
# release.
RUNS = [
    ("tables", "tabular-psrl", "riverswim", "joint", "count"),
    ("mixtures", "likelihood-vi", "lock", "joint", "deadline"),
    ("bandits", "lin-ts", "linear-bandit", "joint", "count"),
    ("control", "thompson-lq", "oscillator", "joint", "deadline"),
    ("questions", "questions-vi", "lock", "joint", "deadline"),
    ("questions-by-count", "questions-vi", "lock", "joint", "count"),
    ("local", "likelihood-vi", "lock", "local", "count"),
    ("local-questions", "questions-vi", "lock", "local", "deadline"),
]
# What the target sends in the second run, besides an extreme episode.
NONSENSE = ({}, {"states": ["x"]}, {"states": 7, "actions": None, "rewards": [1e308]})
STAYS_AWAY = None


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


def describe_run(agent, problem, trust, rule):
    batch = Batching(
        rule=rule, schedule=None if agent == "questions-vi" else 5, every=100.0, start=1000.0
    )
    if rule == "count":
        batch = Batching(schedule=batch.schedule)
    return ServiceRunSpec(
        name=RUN,
        agent=agent,
        problem=problem,
        trust=trust,
        epsilon=4.0,
        delta=0.0 if agent == "questions-vi" else 1e-5,
        users=30,
        noise="fast",
        batch=batch,
    )


class PublicBytes:
    """Everything that anybody can read, in the order in which it was read."""

    def __init__(self, served):
        self._served = served
        self.read = []
        routes = served.application.routes
        self._paths = [
            route.path for route in routes if "GET" in (getattr(route, "methods", None) or ())
        ]

    def look(self, generation):
        for path in self._paths:
            address = path.replace("{run}", RUN).replace("{path:path}", "site.css")
            for number in (
                (0, generation, generation + 1) if "{generation:int}" in address else (0,)
            ):
                self._get(address.replace("{generation:int}", str(number)))

    def _get(self, address):
        answer = self._served.get(address)
        self.read.append(
            (address, answer.status_code, sorted(answer.headers.items()), answer.content)
        )

    def wait(self):
        """Until the writer has done all that came before: the answer to a report of the future
        comes after it.

        While a round is planned the answer is 503. How long that takes depends on compiled kernels,
        and not on people.
        """
        body = {"subject": "nobody", "generation": 10**9, "trajectory": {}, "message": ""}
        headers = {"Idempotency-Key": "0" * 16}
        address = f"/v1/runs/{RUN}/reports"
        deadline = time.monotonic() + 120
        answer = self._served.post(address, "device", json=body, headers=headers)
        if answer.status_code == 503:
            # A run whose close fails is planned, and answers 503 all the same.
            while not self._served.service.runs[RUN].planned and time.monotonic() < deadline:
                time.sleep(0.01)
            answer = self._served.post(address, "device", json=body, headers=headers)
        self.note("an answer to somebody else", answer)

    def provoke_errors(self, generation):
        """What anybody may send: without a key, to another run, in a form that is no report, in
        another name, or too late.
        """
        report = {
            "subject": "nobody",
            "generation": generation,
            "trajectory": {},
            "message": "AAAA",
        }
        path = f"/v1/runs/{RUN}/reports"
        headers = {"Idempotency-Key": "0" * 16}
        for name, role, address, body in (
            ("an error without a key", None, path, report),
            ("an error of another role", "auditor", path, report),
            ("an error of a run that does not exist", "device", "/v1/runs/none/reports", report),
            ("an error of a body that is no report", "device", path, {"subject": TARGET}),
            ("an error of a message that is none", "device", path, {**report, "trajectory": None}),
            ("an error of a late report", "device", path, {**report, "generation": generation - 1}),
        ):
            self.note(name, self._served.post(address, role, json=body, headers=headers))

    def note(self, name, answer):
        self.read.append((name, answer.status_code, sorted(answer.headers.items()), answer.content))

    def different(self, other):
        """The names of what differs and must not; the lists must be equally long."""
        assert [each[0] for each in self.read] == [each[0] for each in other.read]
        names = {mine[0] for mine, its in zip(self.read, other.read, strict=True) if mine != its}
        return sorted(names - OF_THE_SERVICE.keys())


class Crowd:
    """Thirty people whose episodes are drawn once. The target's is replaced in the second run."""

    def __init__(self, spec, target_sends):
        self.spec = spec
        self._problem = make(spec.problem, seed=0)
        self._target_sends = target_sends
        self._tape_of_devices = {}

    def with_tapes(self, tapes):
        self._tape_of_devices = tapes
        return self

    def content(self, person, learner):
        number = int(person[1:]) if person != TARGET else 1000
        episode = self._episode(number, learner)
        if person == TARGET and self._target_sends != "the first run":
            episode = self._target_sends
        if self.spec.trust == "joint":
            return {"trajectory": episode if isinstance(episode, dict) else {}}
        return {"message": self._message(person, number, learner, episode)}

    def _episode(self, number, learner):
        rng = np.random.default_rng(number)
        policy = learner.current_round().policies[0]
        drawn = self._problem.sample(policy, 1, rng)
        parts = {name: getattr(drawn, name)[0] for name in ("states", "actions", "rewards")}
        # There is no context after the last step of a bandit, which JSON cannot express.
        return {name: np.nan_to_num(part).tolist() for name, part in parts.items()}

    def _message(self, person, number, learner, episode):
        """A device under local privacy, whose message in the second run is that of the
        first one.
        """
        recorded = self._tape_of_devices.get(person)
        tape = Tape(recorded)
        self._tape_of_devices[person] = tape
        source = TapedSource(noise_source("fast", number), tape)
        client = LocalClient(learner.algorithm, learner.privacy, source, loss=learner.loss)
        client.plan(learner.released())
        parts = [
            episode.get(name) if isinstance(episode, dict) else None
            for name in ("states", "actions", "rewards")
        ]
        public = self._problem.public
        try:
            trajectory = collect([tuple(parts)], public.horizon)
        except Exception:
            trajectory = collect([([0], [], [])], public.horizon)
        return base64.b64encode(client.report(trajectory)).decode()


def drive(folder, crowd, clock, *, target_comes=True):
    """Serve thirty people over HTTP, and read everything public at every stage."""
    deadline = crowd.spec.batch.rule == "deadline"
    with serving(folder, clock=clock) as served:
        public = PublicBytes(served)
        run = served.service.runs[RUN]
        people = iter([f"p{number}" for number in range(40)])
        for generation in range(3):
            clock.now = 1000.0 + 100.0 * generation + 10.0
            public.wait()
            size = run.size = served.service.runs[RUN].size
            arrivals = [next(people) for _ in range(size - 1)]
            arrivals.insert(1, TARGET) if generation == 0 else arrivals.append(next(people))
            if deadline:
                body = {"subjects": arrivals, "generation": generation}
                public.note(
                    "enrolments", served.post(f"/v1/runs/{RUN}/enrolments", "admin", json=body)
                )
            public.look(generation)
            learner = served.service.runs[RUN].learner
            for person in arrivals:
                if person == TARGET and not target_comes:
                    public.read.append(("the answer to the target", None, [], b""))
                    public.wait()
                    public.look(generation)
                    continue
                body = {
                    "subject": person,
                    "generation": generation,
                    **crowd.content(person, learner),
                }
                headers = {"Idempotency-Key": f"{person:->16}"}
                answer = served.post(
                    f"/v1/runs/{RUN}/reports", "device", json=body, headers=headers
                )
                if person != TARGET:
                    public.note("an answer to somebody else", answer)
                    continue
                public.note("the answer to the target", answer)
                public.wait()
                public.look(generation)
            public.wait()
            public.look(generation)
            public.provoke_errors(generation)
            clock.now = 1000.0 + 100.0 * (generation + 1) + 1.0
            public.wait()
            public.look(generation + 1)
        public.read.append(("releases", served.service.runs[RUN].generation, [], b""))
    return public


@pytest.fixture
def neighbours(tmp_path, monkeypatch):
    """Runs a service twice from copies of one folder; the second one gets the releases of the first
    one.
    """

    monkeypatch.setattr(
        pages, "secrets", types.SimpleNamespace(token_urlsafe=lambda size: "x" * size)
    )

    def play(case, replacements):
        name, *facts = case
        spec = describe_run(*facts)
        clock = Clock()
        monkeypatch.setattr(live, "noise_source", lambda _: noise_source("fast", 0))
        template = tmp_path / name
        with serving(ServiceFolder(template), spec, clock=clock):
            pass
        first_tape = Tape()
        device_tapes = {}

        def play_once(place, tape, crowd, **more):
            shutil.copytree(template, tmp_path / place)
            monkeypatch.setattr(
                live, "noise_source", lambda _: TapedSource(noise_source("fast", 0), tape)
            )
            clock.now = 1000.0
            return drive(ServiceFolder(tmp_path / place), crowd, clock, **more)

        first = play_once(
            f"{name}-first", first_tape, Crowd(spec, "the first run").with_tapes(device_tapes)
        )
        different = {}
        for number, replacement in enumerate(replacements):
            crowd = Crowd(spec, replacement).with_tapes(dict(device_tapes))
            place = f"{name}-{number}"
            second = play_once(
                place, Tape(first_tape), crowd, target_comes=replacement is not STAYS_AWAY
            )
            different[json.dumps(replacement)] = first.different(second)
        return first, different

    return play


@pytest.mark.parametrize("case", RUNS, ids=[case[0] for case in RUNS])
def test_public_bytes_of_a_service_are_the_same_for_neighbours_with_the_same_releases(
    case, neighbours
):
    _, _, problem, trust, rule = case
    replacements = [extreme_episode(problem), *NONSENSE]
    # Local privacy is about what a message says. That a device sent nothing is seen.
    if rule == "deadline" and trust == "joint":
        replacements.append(STAYS_AWAY)
    first, different = neighbours(case, replacements)
    assert first.read[-1] == ("releases", 3, [], b"")
    assert set(map(tuple, different.values())) == {()}, different


def extreme_episode(problem):
    """An episode that uses as much of its bound as it can: one state, one action, the largest
    rewards.
    """
    public = make(problem, seed=0).public
    horizon = public.horizon
    continuous = not hasattr(public, "states")
    state = [1e3] * getattr(public, "dimension", 2) if continuous else public.states - 1
    action = 0
    return {
        "states": [state] * (horizon + 1),
        "actions": [action] * horizon,
        "rewards": [1.0] * horizon,
    }


def break_by_a_missing_release(monkeypatch):
    """A first batch raises if its sum is not the one of the first run, so that there is no
    release.
    """
    draw = live.LiveRun.draw
    first_sums = []

    def refuse_other_sums(run, key, total):
        if run.generation == 0:
            first_sums.append(total.total)
        if first_sums[-1] != first_sums[0]:
            raise ValueError("another sum")
        return draw(run, key, total)

    monkeypatch.setattr(live.LiveRun, "draw", refuse_other_sums)


def break_by_a_status_that_counts(monkeypatch):
    """Readiness depends on how many people came to a batch with a deadline."""
    arrivals_of = core.Service.ready.fget

    def ready(service):
        return arrivals_of(service) and all(run.users != run.size for run in service.runs.values())

    monkeypatch.setattr(core.Service, "ready", property(ready))


def break_by_a_round_with_private_state(monkeypatch):
    """The published round holds a digest of the exact state."""
    document = live.round_document

    def leak(name, learner):
        body = json.loads(document(name, learner))
        private = np.frombuffer(learner.save(), dtype=np.uint8)
        return json.dumps(body | {"note": int(private.astype(np.int64).sum())}).encode()

    monkeypatch.setattr(live, "round_document", leak)


@pytest.mark.parametrize(
    ("spoil", "case", "leaks_in"),
    [
        (break_by_a_missing_release, RUNS[0], "releases"),
        (break_by_a_status_that_counts, RUNS[1], "/ready"),
        (break_by_a_round_with_private_state, RUNS[0], f"/v1/runs/{RUN}/round/1"),
    ],
)
def test_a_service_that_leaks_is_caught(spoil, case, leaks_in, neighbours, monkeypatch):
    spoil(monkeypatch)
    replacements = (
        [extreme_episode(case[2]), STAYS_AWAY]
        if case[-1] == "deadline"
        else [extreme_episode(case[2])]
    )
    _, different = neighbours(case, replacements)
    assert any(leaks_in in places for places in different.values()), different
