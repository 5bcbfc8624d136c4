"""What operators see."""

from datetime import UTC, datetime, timedelta

import pytest

from confide.service.access import new_api_key, revoke_api_key
from confide.service.operator_view import age, operator_view

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "< 1 minute"), (60, "1 minute"), (7300, "2 hours"), (86_400 * 3, "3 days"), (86_400 * 800, "2 years")],
)
def test_ages(seconds, said):
    assert age((NOW - timedelta(seconds=seconds)).isoformat(), NOW) == said


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
    assert [(each.role, each.status, each.age) for each in seen["api_keys"]] == [("operator", "revoked", "< 1 minute")]
    assert seen["signing"][0].age == "< 1 minute" and seen["chain"].endswith("each follows the one before.")
    with bench.service.store.transaction() as tx:
        tx.audit((datetime.now(UTC) - timedelta(hours=5)).isoformat(timespec="seconds"), "test", "backup", "copy")
    assert operator_view(bench.service, {}, datetime.now(UTC))["backup"]["ago"] == "5 hours ago"
    with bench.service.store.transaction() as tx:
        for action in ("backup", "backup failed"):
            tx.audit(datetime.now(UTC).isoformat(timespec="seconds"), "test", action, "copy")
    assert operator_view(bench.service, {}, datetime.now(UTC))["backup"]["ago"] == "5 hours ago"
