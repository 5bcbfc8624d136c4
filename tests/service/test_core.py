"""Reports in, releases out: who is counted, once, and what is on the disk before anybody is told."""

import pytest


@pytest.mark.parametrize("trust", ["joint", "local"])
def test_a_person_is_counted_once(bench, trust):
    bench.create(trust=trust)
    report = bench.report("ann")
    assert bench.send(report, report) == ["counted", "same"]
    assert bench.send(report) == ["same"]
    assert bench.send(bench.report("ann")) == ["another-report"]
    assert bench.send(bench.report("bob", nonce=report.nonce)) == ["counted"]  # a nonce is a person's own
    assert bench.service.runs["demo"].users == 2
