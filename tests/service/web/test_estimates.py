"""What the planner's model says, from manifest and releases."""

import json

import pytest
from service_bench import Bench

from confide.service.web.estimates import NO_MODEL, NOT_MADE, TOO_LARGE, estimates, spec_of


def closed(bench, batches, size=10, run="demo"):
    for batch in range(batches):
        assert (
            bench.send(*(bench.report(f"{run} {batch} {i}", run) for i in range(size)))
            == ["counted"] * size
        )
    return list(bench.service.store.releases(run))


def test_every_release_has_a_value_and_the_newest_its_errors(bench):
    run = bench.create(users=40, every=10)
    releases = closed(bench, 3)
    found = estimates(run.manifest.body, releases)
    assert found.generations == (0, 1, 2, 3) and found.next_batch == 10 and found.reason == ""
    assert len(found.valued.values) == 4 and set(found.signals) == {1, 2, 3}
    assert found.valued.sampling > 0 and found.valued.privacy > 0
    assert estimates(run.manifest.body, releases) == found  # a function


def test_the_last_release_waits_for_nobody(bench):
    run = bench.create(users=20, every=10)
    found = estimates(run.manifest.body, closed(bench, 2))
    assert found.next_batch is None and found.valued is not None


@pytest.mark.parametrize(
    "more", [{}, {"trust": "local"}, {"trust": "local", "local_noise": "gaussian"}], ids=str
)
def test_the_manifest_makes_the_learner(folder, more):
    bench = Bench(folder)
    run = bench.create(horizon=6, options=(("bonus_scale", 0.5),), **more)
    made = spec_of(json.loads(run.manifest.body)).make_learner(run.learner.noise)
    assert made.settings == run.learner.settings
    assert (
        estimates(run.manifest.body, list(bench.service.store.releases("demo"))).valued is not None
    )
    bench.stop()


def test_an_agent_without_a_model_says_so(bench):
    run = bench.create(agent="ucrl-vtr", users=20, every=10)
    found = estimates(run.manifest.body, closed(bench, 1))
    assert found.valued is None and found.reason == NO_MODEL and found.generations == (0, 1)


def test_a_page_does_not_plan_for_large_problems(bench, monkeypatch):
    monkeypatch.setattr("confide.service.web.estimates.MAX_PROBLEM_SIZE", 10)
    monkeypatch.setattr("confide.service.web.estimates.learner_of", None)
    run = bench.create()
    found = estimates(run.manifest.body, list(bench.service.store.releases("demo")))
    assert found.valued is None and found.reason == TOO_LARGE


def test_another_learner_than_the_manifest_names_is_not_used(bench):
    run = bench.create()
    told = json.loads(run.manifest.body)
    told["agent"]["settings"] = "0" * 16
    found = estimates(json.dumps(told).encode(), list(bench.service.store.releases("demo")))
    assert found.valued is None and found.reason == NOT_MADE


def test_of_many_releases_some_are_looked_at(bench, monkeypatch):
    monkeypatch.setattr("confide.service.web.estimates.MAX_ROUNDS", 3)
    run = bench.create(users=60, every=10)
    found = estimates(run.manifest.body, closed(bench, 5))
    assert found.generations == (0, 2, 5) and len(found.valued.values) == 3
