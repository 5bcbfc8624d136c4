"""What operators see."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client import CollectorRegistry
from service_bench import serving, spec

from confide.service.web.access import new_api_key, revoke_api_key
from confide.service.web.metrics import Collector
from confide.service.web.operator_view import age, operator_view

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "< 1 minute"),
        (60, "1 minute"),
        (7300, "2 hours"),
        (86_400 * 3, "3 days"),
        (86_400 * 800, "2 years"),
    ],
)
def test_ages(seconds, said):
    assert age((NOW - timedelta(seconds=seconds)).isoformat(), NOW) == said


@pytest.mark.parametrize("folder", ["postgres"], indirect=True)
def test_counts_are_of_all_workers_and_the_page_recommends_what_works(folder):
    with serving(folder, spec()) as one, serving(folder) as other:
        for http, subject in ((one, "ann"), (other, "bob"), (other, "cem")):
            body = {"subject": subject, "generation": 0, "trajectory": {}}
            headers = {"Idempotency-Key": f"a random number {subject}"}
            assert (
                http.post("/v1/runs/demo/reports", "device", json=body, headers=headers).status_code
                == 201
            )
        for http in (one, other):
            (run,) = operator_view(http.service, {}, datetime.now(UTC))["runs"]
            assert (run["counted"], run["users"]) == (3, 3)
            status = http.get("/v1/runs/demo/status", "operator").json()
            assert (status["reports"], status["users"]) == (3, 3)
            registry = CollectorRegistry()
            registry.register(Collector(http.service, {}))
            assert registry.get_sample_value("confide_open_users", {"run": "demo"}) == 3
        form = re.search(r'name="token" value="([0-9a-f]{64})"', one.get("/operator").text).group(1)
        one.post("/operator/login", data={"token": form, "key": one.keys["admin"]})
        page = one.get("/operator").text
        assert "pg_dump" in page and "confide service backup" not in page


def test_keys_refusals_and_backups(bench):
    bench.create(every=4, users=8)
    key = new_api_key(bench.service.store, "operator", "on call", "test")
    revoke_api_key(bench.service.store, key.split("_")[1], "test")
    bench.send(bench.report("ann", nonce=b"a" * 16))
    assert bench.send(bench.report("ann")) == ["another-report"]
    seen = operator_view(bench.service, {"unauthorised": 3}, datetime.now(UTC))
    assert [(each.reason, each.run, each.count) for each in seen["refusals"]] == [
        ("unauthorised", "", 3),
        ("another-report", "demo", 1),
    ]
    assert seen["ready"] and seen["backup"] is None and seen["runs"][0]["users"] == 1
    assert [(each.role, each.status, each.age) for each in seen["api_keys"]] == [
        ("operator", "revoked", "< 1 minute")
    ]
    assert seen["signing"][0].age == "< 1 minute" and seen["chain"].endswith(
        "each follows the one before."
    )
    with bench.service.store.transaction() as tx:
        tx.audit(
            (datetime.now(UTC) - timedelta(hours=5)).isoformat(timespec="seconds"),
            "test",
            "backup",
            "copy",
        )
    assert operator_view(bench.service, {}, datetime.now(UTC))["backup"]["ago"] == "5 hours ago"
    with bench.service.store.transaction() as tx:
        for action in ("backup", "backup failed"):
            tx.audit(datetime.now(UTC).isoformat(timespec="seconds"), "test", action, "copy")
    assert operator_view(bench.service, {}, datetime.now(UTC))["backup"]["ago"] == "5 hours ago"
