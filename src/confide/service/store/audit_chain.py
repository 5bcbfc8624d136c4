"""The digests that chain audit rows: a row that is changed or taken out is found."""

import json
from collections.abc import Iterable

from confide.errors import StateError
from confide.service.documents import digest
from confide.service.store.interface import AuditRow


def chained(previous: str, number: int, at: str, actor: str, action: str, detail: str) -> str:
    return digest(json.dumps([previous, number, at, actor, action, detail]).encode())


def check_rows(rows: Iterable[AuditRow]) -> int:
    """How many rows there are; `StateError` where one does not follow the one before."""
    previous, count = "", 0
    for row in rows:
        count += 1
        if row.number != count or row.digest != chained(
            previous, row.number, row.at, row.actor, row.action, row.detail
        ):
            raise StateError(
                f"audit row {row.number} was changed, or the one before it was removed"
            )
        previous = row.digest
    return count
