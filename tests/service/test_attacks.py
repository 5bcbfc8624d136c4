"""Attacks over HTTP find nothing in an honest service, and find what broken twins do."""

import json
from dataclasses import replace

import pytest
from service_bench import URL, serving, spec, through

from confide.errors import InvalidParameter
from confide.mechanisms.sources import noise_source
from confide.service.attacks import NOT_TRIED, REFUSED, WORKED, attack_service
from confide.service.core import admission, live
from confide.service.core import service as core
from confide.service.core.live import signed_release
from confide.service.core.spec import Batching
from confide.service.web import reading
from confide.service.web.answers import release_answer

ALL = {"equivocation", "re-noise", "replay", "late", "early close"}
DEADLINE = Batching(rule="deadline", schedule=40, every=1e6, start=1000.0)


def attack(served, role="admin", **more):
    given = {
        "api_key": served.keys[role],
        "send": through(served),
        "sleep": lambda _: None,
        "reports": 40,
    }
    return attack_service(URL, "demo", **(given | more))


def attacked(folder, role):
    with serving(folder, spec(users=200, every=10)) as served:
        return attack(served, role)


def worked(found):
    return {each.attack for each in found.tried if each.verdict == WORKED}


@pytest.mark.parametrize(
    ("trust", "role"), [("joint", "admin"), ("local", "admin"), ("joint", "device")]
)
def test_an_honest_service(folder, trust, role):
    """Everything is tried and refused; with the key of a device alone, requests of an admin are not
    tried.
    """
    with serving(folder, spec(trust=trust, users=200, every=10)) as served:
        found = attack(served, role)
        left = {each.tried.split(":")[0] for each in found.tried if each.verdict != REFUSED}
        expected = {
            "compare with what an audit saw before a restart",
            "compare the newest release with the public times",
        }
        assert left == expected | (
            {"close the batch by an admin's request"} if role == "device" else set()
        ), found.tried
        assert {each.attack for each in found.tried if each.verdict == REFUSED} == ALL
        assert not found.worked and not found.undecided
        # the first batch was filled, to be late for it
        assert served.service.runs["demo"].generation == 1
        assert found.spent == sum(served.service.store.participants("demo").values()) == 10
        again = attack(served, role, seen=found.seen)
        assert {each.verdict for each in again.tried if "before a restart" in each.tried} == {
            REFUSED
        } and again.spent == 2


def test_an_honest_service_with_deadlines(folder):
    now = [1000.0]
    clock = lambda: now[0]  # noqa: E731
    with serving(folder, spec(users=200, batch=DEADLINE), clock=clock) as served:
        now[0] += 1.5e6
        served.settle()  # batch 0 is closed
        found = attack(served, clock=clock)
        assert not found.worked and not found.undecided, found.tried
        refused = {each.attack for each in found.tried if each.verdict == REFUSED}
        assert refused == ALL and found.spent == 2
        alone = attack(served, "device", clock=clock)
        assert (
            any("enrolled" in each.happened and each.verdict == NOT_TRIED for each in alone.tried)
            and not alone.worked
        )


def counts_replays(patch):
    """It answers `same`, and counts the report."""
    admit = core.admit_reports

    def admit_again(*given, **limits):
        admitted = admit(*given, **limits)
        return replace(admitted, users=admitted.users + admitted.outcomes.count("same"))

    patch.setattr(core, "admit_reports", admit_again)


def says_that_it_counts_replays(patch):
    admit = admission.Admission.admit
    patch.setattr(
        admission.Admission,
        "admit",
        lambda *given: (lambda outcome: "counted" if outcome == "same" else outcome)(admit(*given)),
    )


def takes_late_ones(patch):
    refusal = admission.Admission._refusal

    def take_late(self, report, places):
        outcome = refusal(self, report, places)
        return "" if outcome == "late" else outcome

    patch.setattr(admission.Admission, "_refusal", take_late)


def two_faces(patch):
    """Whoever has an API key sees another release, which is signed, too."""
    honest = reading.Reading.old_release

    async def other(self, request):
        answer = await honest(self, request)
        run = self._service.runs["demo"]
        if (
            "authorization" not in request.headers
            or request.path_params["generation"] != run.generation
        ):
            return answer
        row = signed_release(
            run, run.release.body + b" ", 0, run.generation, run.release.previous, self._service.key
        )
        return release_answer(row, "no-cache")

    patch.setattr(reading.Reading, "old_release", other)


def closes_early(patch):
    patch.setattr(live.LiveRun, "full", property(lambda run: 0 < run.size <= 2 * run.users))


def closes_when_asked(patch):
    """Going on after a pause closes the open batch."""
    honest = core.Service.set_status

    def closing(self, name, status, actor):
        honest(self, name, status, actor)
        if status == "open":
            self._close(self.runs[name])

    patch.setattr(core.Service, "set_status", closing)


@pytest.mark.parametrize(
    ("twin", "role", "caught"),
    [
        (counts_replays, "admin", {"replay", "early close"}),
        (says_that_it_counts_replays, "device", {"replay", "early close"}),
        (takes_late_ones, "device", {"late", "early close"}),
        (two_faces, "device", {"equivocation"}),
        (closes_early, "device", {"early close"}),
        (closes_when_asked, "admin", {"early close"}),
    ],
    ids=lambda given: getattr(given, "__name__", ""),
)
def test_broken_twins_are_caught(folder, monkeypatch, twin, role, caught):
    twin(monkeypatch)
    assert worked(attacked(folder, role)) == caught


def test_who_counts_replays_in_secret_is_suspected_with_the_key_of_a_device(folder, monkeypatch):
    """Answers say nothing, but a batch closes that nobody has filled: this is not decided, because
    other people may have come.
    """
    counts_replays(monkeypatch)
    found = attacked(folder, "device")
    assert found.undecided


def test_a_deadline_that_does_not_wait_is_caught(folder, monkeypatch):
    """It closes when somebody has come."""
    monkeypatch.setattr(live.LiveRun, "due", lambda run, _: run.status == "open" and run.users > 0)
    clock = lambda: 1000.0 + 10  # noqa: E731
    with serving(folder, spec(users=200, batch=DEADLINE), clock=clock) as served:
        assert worked(attack(served, clock=clock)) == {"early close"}


def draws_again(service):
    """What a service would show that draws the noise of its newest release anew when it starts."""
    run = service.runs["demo"]
    learner = live.make_learner(replace(run.spec, seed=1))
    learner.next_batch()
    learner.close(run.zero_contribution(), run.release.users)
    run.release = signed_release(
        run, learner.publish("demo"), run.release.users, 1, run.release.previous, service.key
    )


def test_noise_that_is_drawn_again_at_a_restart_is_caught(folder):
    with serving(folder, spec(users=200, every=10)) as served:
        seen = attack(served).seen
        assert set(seen) == {"manifest", "certificate", "release/0", "release/1"}
    with serving(folder) as honest:
        assert not attack(honest, seen=seen).worked
    with serving(folder) as served:
        draws_again(served.service)
        found = attack(served, seen=seen)
    assert worked(found) == {"re-noise"}
    assert [each.happened for each in found.tried if each.verdict == WORKED] == [
        "not the same, or gone: release/1"
    ]


def test_a_release_that_is_drawn_for_each_reader_is_caught(folder, monkeypatch):
    async def drawn(self, _):
        run = self._service.runs["demo"]
        body = run.release.body + bytes([noise_source("fast").token(1)[0]])
        return release_answer(
            signed_release(run, body, 0, 0, run.release.previous, self._service.key), "no-cache"
        )

    monkeypatch.setattr(reading.Reading, "old_release", drawn)
    with serving(folder, spec(users=200, every=10)) as served:
        assert {"equivocation", "re-noise"} <= worked(attack(served, reports=0))


def test_a_changed_chain_ends_the_attack(folder):
    with serving(folder, spec(users=200, every=10)) as served:
        found = attack(served, signing_key="0" * 64)
    assert (
        len(found.tried) == 1 and found.worked and "another signing key" in found.tried[0].happened
    )


def test_real_runs_are_attacked_only_if_somebody_says_so(folder):
    with serving(folder, spec(users=200, every=10, noise="secure")) as served:
        with pytest.raises(InvalidParameter, match="no simulation"):
            attack(served)
        assert served.service.store.participants("demo") == {}
        found = attack(served, real_run=True, reports=2)
        assert not found.worked and found.spent == 2
        assert any("raise --reports" in each.happened for each in found.tried)


@pytest.mark.parametrize("action", ["pause", "finish"])
def test_a_run_that_takes_no_reports(folder, action):
    with serving(folder, spec(users=200, every=10)) as served:
        served.post(f"/v1/runs/demo/{action}", "admin")
        found = attack(served)
        assert not found.worked and found.spent == 0
        assert {each.attack for each in found.tried if each.verdict == REFUSED} >= {
            "equivocation",
            "re-noise",
        }
        assert (
            served.service.runs["demo"].status == {"pause": "paused", "finish": "finished"}[action]
        )


def test_a_service_that_says_something_strange(folder):
    with serving(folder, spec(users=200, every=10)) as served:
        honest = through(served)

        def strange(method, url, headers, body):
            answer = honest(method, url, headers, body)
            return (
                replace(answer, body=json.dumps([]).encode()) if url.endswith("/status") else answer
            )

        found = attack(served, send=strange)
    assert found.undecided and not found.worked
