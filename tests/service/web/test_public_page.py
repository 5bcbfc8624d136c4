"""The public pages as text: a function of manifest and releases."""

import json
import math
import re

import pytest
from service_bench import Bench

from confide.privacy.accounting import gaussian_epsilon
from confide.service.core.spec import Batching
from confide.service.web.public_page import (
    digits,
    epsilon_of_all_reports,
    public_index,
    public_page,
    size,
    unbroken,
)

EVIL = "<img src=x onerror=alert(1)><script>alert(2)</script>\"'&"


def made(bench, name="demo"):
    run = bench.service.runs[name]
    return public_page(run.manifest.body, list(bench.service.store.releases(name)))


def test_the_page_says_everything_as_text(bench):
    run = bench.create(users=40, every=10)
    for batch in range(2):
        bench.send(*(bench.report(f"{batch} {i}") for i in range(10)))
    page = made(bench)
    assert (
        "SIMULATION" in page
        and "Whatever you do here, all other users together learn almost nothing about it" in page
    )
    assert "Release 3 is made when 10 more people have reported." in page
    assert "Learning curve" in page and page.count('<svg class="chart') == 4
    errors = re.findall(r"<span>± ([0-9.e-]+)</span>", page)
    low, high = map(float, re.search(r"95 % interval: <b>(.*?)</b> to <b>(.*?)</b>", page).groups())
    assert len(errors) == 2 and (high - low) / 2 <= sum(map(float, errors)) + 0.001
    for row in bench.service.store.releases("demo"):
        assert f'title="{row.digest}"' in page and f'title="{row.signature.hex()}"' in page
    assert f"confide verify {run.name}-certificate.json" in page
    assert "style=" not in page and "onclick" not in page and not re.search(r"<script>", page)
    assert not re.search(r"(src|href)=\"(https?:)?//", page)


@pytest.mark.parametrize("rule", ["count", "deadline"])
def test_arrivals_do_not_change_it(bench, rule):
    bench.create(users=40, batch=Batching(rule=rule, schedule=10))
    people = [str(i) for i in range(9)]
    if rule == "deadline":
        bench.service.enrol("demo", people, 0, "test")
    before = made(bench)
    assert bench.send(*map(bench.report, people)) == ["counted"] * 9
    assert made(bench) == before


def test_before_the_first_release_nothing_is_estimated(bench):
    bench.create()
    page = made(bench)
    assert (
        "from release 1 on" in page
        and "95 % interval" not in page
        and '<svg class="chart' not in page
    )


def test_a_run_that_is_finished(bench):
    bench.create(users=4, every=4)
    bench.send(*(bench.report(str(i)) for i in range(4)))
    assert "takes no more reports" in made(bench) and "Finished" in made(bench)


def test_agents_without_a_model_and_secure_noise(bench):
    bench.create(agent="ucrl-vtr", users=20, every=10, noise="secure")
    bench.send(*(bench.report(str(i)) for i in range(10)))
    page = made(bench)
    assert (
        "is not estimated here" in page
        and "SIMULATION" not in page
        and "standard deviation of" in page
    )


def test_deadlines_are_public(folder):
    bench = Bench(folder, clock=lambda: 1_000_000.0)
    bench.create(batch=Batching(rule="deadline", schedule=20, every=3600.0), person_epsilon=4.0)
    page = made(bench)
    assert (
        '<time data-deadline="1003600">1970-01-12 14:46 UTC</time>' in page
        and "places in closed batches" in page
    )
    assert "Over all runs" in page
    bench.stop()


def test_what_an_operator_writes_is_text(bench):
    run = bench.create(title=EVIL)
    assert EVIL not in made(bench) and "&lt;img src=x" in made(bench)
    listed = public_index([(run.manifest.body, run.release)])
    assert EVIL not in listed and "&lt;img src=x" in listed


def test_the_list_of_runs(folder):
    bench = Bench(folder)
    runs = [bench.create("one"), bench.create("two", trust="local", noise="secure")]
    page = public_index([(run.manifest.body, run.release) for run in runs])
    assert (
        'href="/runs/one"' in page and 'href="/runs/two"' in page and page.count("SIMULATION") == 2
    )
    assert "local privacy" in page and "no runs yet" in public_index([])
    bench.stop()


def test_only_the_newest_of_many_releases_are_listed(bench, monkeypatch):
    monkeypatch.setattr("confide.service.web.public_page.MAX_SHOWN_RELEASES", 2)
    bench.create(users=12, every=3)
    for batch in range(4):
        bench.send(*(bench.report(f"{batch} {i}") for i in range(3)))
    page = made(bench)
    assert "Older releases are at" in page and page.count('<tr><th scope="row"') == 2


def test_manifests_say_what_the_page_needs(bench):
    told = json.loads(bench.create(every=7, horizon=8).manifest.body)
    assert (told["batch"]["schedule"], told["problem"]["asked_horizon"]) == (7, 8)


def test_numbers_of_the_promise_stay_together():
    assert (
        unbroken("almost nothing (epsilon = 1, delta = 1e-05).")
        == "almost nothing (epsilon\u00a0=\u00a01, delta\u00a0=\u00a01e\u201105)."
    )


def test_sizes_have_no_exponent():
    assert [size(value) for value in (1583.2, 999.6, 31.04, 0.5, 1.2e6)] == [
        "1,583",
        "1,000",
        "31",
        "0.5",
        "1,200,000",
    ]


def test_digits():
    assert [digits(value) for value in (1.23456, 0.012, 0.0056789, 0.0, -0.5)] == [
        "1.235",
        "0.012",
        "0.0057",
        "0.000",
        "-0.500",
    ]


@pytest.mark.parametrize("trust", ["joint", "local"])
def test_what_all_reports_of_a_person_cost_is_said(bench, trust):
    """Two in the same sums are a group; two messages of a device add up."""
    run = bench.create(trust=trust, reports_per_person=2)
    page, together = (
        public_page(run.manifest.body, [run.release]),
        epsilon_of_all_reports(json.loads(run.manifest.body)),
    )
    assert "Whatever you do in one report, " in page and f"together ε = {together:.3g}." in page
    cost = run.cost(1) + run.cost(2)
    if trust == "joint":
        assert together == pytest.approx(gaussian_epsilon(math.sqrt(cost), 1e-5))
    assert run.spec.epsilon < together <= 2 * run.spec.epsilon + (trust == "joint")
