"""What operators see: health, refusals, keys and their age, the audit.

It is not public, and under the rule deadline its numbers are PRIVATE.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from confide.errors import StateError
from confide.service.core.live import LiveRun
from confide.service.core.service import Service
from confide.service.store.audit_chain import check_rows
from confide.service.store.interface import AuditRow
from confide.service.web.access import format_time, key_status
from confide.service.web.answers import TITLES

# The page shows so many rows of the audit. A matter of taste.
MAX_AUDIT_ROWS = 50
# Units of an age, with their seconds.
_UNITS = ((86_400 * 365, "year"), (86_400, "day"), (3600, "hour"), (60, "minute"))


@dataclass(frozen=True, slots=True)
class ShownKey:
    """A line of the table of keys: a key of signatures or of the API."""

    id: str
    role: str
    status: str
    age: str
    label: str
    run: str = "all runs"
    expires: str = "never"


@dataclass(frozen=True, slots=True)
class ShownRefusal:
    """A line of the table of refusals. `run` is empty if no run saw the request."""

    reason: str
    run: str
    count: int
    meaning: str


def operator_view(service: Service, refused: dict[str, int], now: datetime) -> dict[str, Any]:
    """Return what the page shows, by the names of the template.

    This reads the store: call it in a thread.
    """
    audit_rows = list(service.store.audit_rows())
    runs = list(service.runs.values())
    return {
        "ready": service.ready,
        "not_ready": service.not_ready,
        "shared": service.store.workers > 1,
        "waiting": service.waiting,
        "backup": _last_backup(audit_rows, now),
        "signing": _shown_signing_keys(service, audit_rows, now),
        "api_keys": _shown_api_keys(service, audit_rows, now),
        "runs": [_shown_run(service, run) for run in runs],
        "private": any(run.spec.batch.rule == "deadline" for run in runs),
        "simulated": any(run.spec.noise == "fast" for run in runs),
        "refusals": _shown_refusals(service, refused),
        "audit": audit_rows[::-1][:MAX_AUDIT_ROWS],
        "rows": len(audit_rows),
        "chain": _describe_chain(audit_rows),
    }


def _shown_run(service: Service, run: LiveRun) -> dict[str, Any]:
    open_users, reports = service.people(run)
    return {
        "name": run.name,
        "status": run.status,
        "rule": run.spec.batch.rule,
        "generation": run.generation,
        "users": open_users,
        "size": run.size,
        "counted": reports,
    }


def _shown_signing_keys(
    service: Service, audit_rows: Sequence[AuditRow], now: datetime
) -> list[ShownKey]:
    created = _creation_times(audit_rows)
    return [
        ShownKey(
            id=key.id,
            role="signatures",
            status="retired" if key.retired else "in use",
            age=age(created.get(key.id), now),
            label="",
        )
        for key in service.store.signing_keys()
    ]


def _shown_api_keys(
    service: Service, audit_rows: Sequence[AuditRow], now: datetime
) -> list[ShownKey]:
    created = _creation_times(audit_rows)
    return [
        ShownKey(
            id=key.id,
            role=key.role,
            status=key_status(key, now.timestamp()),
            age=age(created.get(key.id), now),
            label=key.label,
            run=key.run or "all runs",
            expires="never" if key.expires is None else format_time(key.expires),
        )
        for key in service.store.api_keys()
    ]


def age(since: str | None, now: datetime) -> str:
    """Return the time since then in the largest unit that fits."""
    if since is None:
        return "not known"
    seconds = max((now - datetime.fromisoformat(since).astimezone(UTC)).total_seconds(), 0)
    for unit_seconds, unit in _UNITS:
        if seconds >= unit_seconds:
            count = int(seconds // unit_seconds)
            return f"{count} {unit}{'' if count == 1 else 's'}"
    return "< 1 minute"


def _creation_times(audit_rows: Sequence[AuditRow]) -> dict[str, str]:
    """Return when each key was made, by its id: the audit says so."""
    return {
        row.detail.split(" ")[0]: row.at
        for row in audit_rows
        if row.action in ("init", "rotate", "new API key")
    }


def _last_backup(audit_rows: Sequence[AuditRow], now: datetime) -> dict[str, str] | None:
    """Return when the last backup was made that did not fail.

    The audit says that a backup begins, and afterwards if it failed.
    """
    backups: list[AuditRow] = []
    for row in audit_rows:
        if row.action == "backup":
            backups.append(row)
        elif row.action == "backup failed":
            failed = next(backup for backup in reversed(backups) if backup.detail == row.detail)
            backups.remove(failed)
    if not backups:
        return None
    return {"at": backups[-1].at, "ago": f"{age(backups[-1].at, now)} ago"}


def _shown_refusals(service: Service, refused: dict[str, int]) -> list[ShownRefusal]:
    """Return the refusals since this process started, the most frequent first.

    Each worker process counts its own.
    """
    refusals = [
        ShownRefusal(outcome, run, count, TITLES[outcome])
        for (run, outcome), count in list(service.counts.items())
        if outcome not in ("counted", "same")
    ]
    refusals += [
        ShownRefusal(kind, "", count, TITLES[kind]) for kind, count in list(refused.items())
    ]
    return sorted(refusals, key=lambda refusal: -refusal.count)


def _describe_chain(audit_rows: Sequence[AuditRow]) -> str:
    try:
        return f"{check_rows(audit_rows)} rows, each follows the one before."
    except StateError as error:
        return f"DAMAGED: {error}."
