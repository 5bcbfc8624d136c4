"""The digests that chain the rows of the audit, so that nobody can change or remove one unnoticed.

What `row_digest` hashes is a format: existing rows were written with it, so it never changes.
"""

import json
from collections.abc import Iterable

from confide.errors import StateError
from confide.service.documents import digest
from confide.service.store.interface import AuditRow


def row_digest(previous: str, number: int, at: str, actor: str, action: str, detail: str) -> str:
    """Return the digest of a row. `previous` is the digest of the row before it."""
    return digest(json.dumps([previous, number, at, actor, action, detail]).encode())


def check_rows(rows: Iterable[AuditRow]) -> int:
    """Return how many rows there are. A row that does not follow the one before is refused."""
    previous = ""
    count = 0
    for row in rows:
        count += 1
        expected = row_digest(previous, row.number, row.at, row.actor, row.action, row.detail)
        if row.number != count or row.digest != expected:
            raise StateError(
                f"audit row {row.number} was changed, or the one before it was removed"
            )
        previous = row.digest
    return count
