"""What operators see: health, refusals, keys and their age, the audit. Not public; under the rule deadline its numbers are PRIVATE."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from confide.errors import StateError
from confide.service.core.service import Service
from confide.service.store.audit_chain import check_rows
from confide.service.store.interface import AuditRow
from confide.service.web.access import key_status, shown_time
from confide.service.web.answers import TITLES

ROWS = 50  # of the audit
_UNITS = ((86_400 * 365, "year"), (86_400, "day"), (3600, "hour"), (60, "minute"))


@dataclass(frozen=True, slots=True)
class ShownKey:
    id: str
    role: str
    status: str
    age: str
    label: str
    run: str = "all runs"
    expires: str = "never"


@dataclass(frozen=True, slots=True)
class ShownRefusal:
    reason: str
    run: str
    count: int
    meaning: str


def operator_view(service: Service, refused: dict[str, int], now: datetime) -> dict[str, Any]:
    """By the names of the template. Reads the store: call it in a thread."""
    rows = list(service.store.audit_rows())
    made = _made(rows)
    runs = list(service.runs.values())
    people = {run.name: service.people(run) for run in runs}
    backups = _backups(rows)
    return {
        "ready": service.ready,
        "not_ready": service.not_ready,
        "shared": service.store.workers > 1,
        "waiting": service.waiting,
        "backup": {"at": backups[-1].at, "ago": f"{age(backups[-1].at, now)} ago"}
        if backups
        else None,
        "signing": [
            ShownKey(
                key.id,
                "signatures",
                "retired" if key.retired else "in use",
                age(made.get(key.id), now),
                "",
            )
            for key in service.store.signing_keys()
        ],
        "api_keys": [
            ShownKey(
                key.id,
                key.role,
                key_status(key, now.timestamp()),
                age(made.get(key.id), now),
                key.label,
                key.run or "all runs",
                "never" if key.expires is None else shown_time(key.expires),
            )
            for key in service.store.api_keys()
        ],
        "runs": [
            {
                "name": run.name,
                "status": run.status,
                "rule": run.spec.batch.rule,
                "generation": run.generation,
                "users": people[run.name][0],
                "size": run.size,
                "counted": people[run.name][1],
            }
            for run in runs
        ],
        "private": any(run.spec.batch.rule == "deadline" for run in runs),
        "simulated": any(run.spec.noise == "fast" for run in runs),
        "refusals": _refusals(service, refused),
        "audit": rows[::-1][:ROWS],
        "rows": len(rows),
        "chain": _chain(rows),
    }


def age(since: str | None, now: datetime) -> str:
    """In the largest unit that fits."""
    if since is None:
        return "not known"
    seconds = max((now - datetime.fromisoformat(since).astimezone(UTC)).total_seconds(), 0)
    for length, name in _UNITS:
        if seconds >= length:
            count = int(seconds // length)
            return f"{count} {name}{'' if count == 1 else 's'}"
    return "< 1 minute"


def _made(rows: Sequence[AuditRow]) -> dict[str, str]:
    """When each key was made, by its id: the audit says so."""
    return {
        row.detail.split(" ")[0]: row.at
        for row in rows
        if row.action in ("init", "rotate", "new API key")
    }


def _backups(rows: Sequence[AuditRow]) -> list[AuditRow]:
    """Those that did not fail: the audit says that one begins, and afterwards if it failed."""
    made: list[AuditRow] = []
    for row in rows:
        if row.action == "backup":
            made.append(row)
        elif row.action == "backup failed":
            made.remove(next(each for each in reversed(made) if each.detail == row.detail))
    return made


def _refusals(service: Service, refused: dict[str, int]) -> list[ShownRefusal]:
    """The most frequent first, since this process started. Each worker process counts its own."""
    found = [
        ShownRefusal(outcome, run, count, TITLES[outcome])
        for (run, outcome), count in list(service.counts.items())
        if outcome not in ("counted", "same")
    ]
    found += [ShownRefusal(kind, "", count, TITLES[kind]) for kind, count in list(refused.items())]
    return sorted(found, key=lambda each: -each.count)


def _chain(rows: Sequence[AuditRow]) -> str:
    try:
        return f"{check_rows(rows)} rows, each follows the one before."
    except StateError as error:
        return f"DAMAGED: {error}."
