"""Who may do what: API keys with roles, and rate limits.

What leaves this file: the text of a new key, which is shown once, and rows of keys with hashes.
Addresses of peers are in memory, for the rate limits. Required for privacy: no address is written
anywhere, and the store has no secret of a key. The form of a key is a format (`cfd_id_secret`).
"""

import hashlib
import hmac
import math
import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal, get_args

from confide.arguments import choice, text
from confide.errors import InvalidParameter
from confide.service.store.interface import ApiKeyRow, ServiceStore, Transaction

Role = Literal["device", "operator", "admin", "auditor"]
ROLES: tuple[Role, ...] = get_args(Role)
# Which roles may use what only some may use.
MAY = {
    "report": ("device", "admin"),
    "operate": ("operator", "admin"),
    "administer": ("admin",),
    "audit": ("auditor", "admin"),
}
_DAYS = re.compile(r"([1-9][0-9]{0,3})d")
_SECONDS_PER_DAY = 86_400
# Keys are read again after so many seconds, because another process may revoke one. A matter of
# taste, which docs/privacy/threat_model.md mentions: a key is revoked within seconds.
_KEYS_FRESH_SECONDS = 5.0
# Both are required for security: a secret of 256 random bits cannot be guessed, so its hash needs
# neither salt nor time.
_SECRET_BYTES = 32
_ID_BYTES = 6


@dataclass(frozen=True, slots=True)
class DrawnApiKey:
    """A key that was drawn, and is not in the store yet.

    `text` is what its owner sends. The store has a hash of it.
    """

    text: str = field(repr=False)
    row: ApiKeyRow

    def add_to(self, tx: Transaction, actor: str) -> None:
        """Write the key, and who has made it."""
        row = self.row
        scope = "" if row.run is None else f" for run {row.run}"
        until = "" if row.expires is None else f" until {format_time(row.expires)}"
        detail = f"{row.id} {row.role}{scope}{until} {row.label}"
        tx.audit(_now(), actor, "new API key", detail)
        tx.add_api_key(row)


def draw_api_key(
    role: str, label: str, *, run: str | None = None, expires: int | None = None
) -> DrawnApiKey:
    """Draw a new key. `run` is the only run that it may be used for."""
    choice("role", role, ROLES)
    text("label", label)
    name = secrets.token_hex(_ID_BYTES)
    secret = secrets.token_urlsafe(_SECRET_BYTES)
    row = ApiKeyRow(name, role, _hash(secret), label, False, run, expires)
    return DrawnApiKey(f"cfd_{name}_{secret}", row)


def new_api_key(
    store: ServiceStore,
    role: str,
    label: str,
    actor: str,
    run: str | None = None,
    expires: str | None = None,
) -> str:
    """Make a key, and return its text, which is shown once.

    `run` is the only run that it may be used for. `expires` is a text that `parse_expiry` reads.
    """
    if run is not None and text("run", run) not in store.runs():
        raise InvalidParameter(f"there is no run {run}: create the run before a key for it")
    expiry = None if expires is None else parse_expiry(expires, time.time())
    key = draw_api_key(role, label, run=run, expires=expiry)
    with store.transaction() as tx:
        key.add_to(tx, actor)
    return key.text


def parse_expiry(written: str, now: float) -> int:
    """Return when a key expires, in seconds since 1970.

    It is written as a number of days such as 90d, or as a date or time such as 2027-01-31 in UTC.
    """
    days = _DAYS.fullmatch(text("expires", written))
    if days:
        return int(now) + _SECONDS_PER_DAY * int(days[1])
    try:
        moment = datetime.fromisoformat(written)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        # A time of another zone may lie outside of the years 1 to 9999 in UTC.
        seconds = moment.astimezone(UTC).timestamp()
    except (ValueError, OverflowError):
        raise InvalidParameter(
            "expires must be a number of days such as 90d, or a date such as 2027-01-31, "
            f"got {written!r}"
        ) from None
    if seconds <= now:
        raise InvalidParameter(f"expires must lie in the future, got {written!r}")
    return int(seconds)


def format_time(seconds: float) -> str:
    """Return a time in UTC as people read it."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="minutes")


def key_status(key: ApiKeyRow, now: float) -> str:
    """Return whether a key is in use, revoked or expired."""
    if key.revoked:
        return "revoked"
    return "expired" if key.expires is not None and key.expires <= now else "in use"


def revoke_api_key(store: ServiceStore, name: str, actor: str) -> None:
    """Revoke the key of this id, for good."""
    # A name with other characters than those of a text cannot be looked for in a database.
    text("name", name)
    with store.transaction() as tx:
        tx.audit(_now(), actor, "revoke API key", name)
        if not tx.revoke_api_key(name):
            raise InvalidParameter(f"there is no API key {name} in use")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


class Keyring:
    """The API keys in use, read again every few seconds."""

    def __init__(
        self,
        store: ServiceStore,
        clock: Callable[[], float] = time.monotonic,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._store = store
        self._clock = clock
        self._now = now
        self._last_read = -math.inf
        self._keys: dict[str, ApiKeyRow] = {}

    def find(self, key: str) -> ApiKeyRow | None:
        """Return the row of a key that was sent, if the key is in use."""
        parts = key.split("_", 2)
        if len(parts) != 3 or parts[0] != "cfd" or not key.isascii():
            return None
        _, name, secret = parts
        row = self.find_by_id(name)
        # Whether the hashes are equal must not be read from the time that the comparison takes.
        if row is None or not hmac.compare_digest(row.secret, _hash(secret)):
            return None
        return row

    def find_by_id(self, name: str) -> ApiKeyRow | None:
        """Return the key of this id, if it is in use."""
        if self._clock() - self._last_read > _KEYS_FRESH_SECONDS:
            self.refresh()
        key = self._keys.get(name)
        if key is None or key_status(key, self._now()) != "in use":
            return None
        return key

    def refresh(self) -> None:
        """Read the keys again."""
        self._keys = {row.id: row for row in self._store.api_keys() if not row.revoked}
        self._last_read = self._clock()


class RateLimit:
    """A bucket of `burst` tokens for each name, refilled at `rate` per second.

    The names that were not seen for longest are forgotten.
    """

    def __init__(
        self,
        rate: float,
        burst: float,
        *,
        names: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate = rate
        self._burst = burst
        self._max_names = names
        self._clock = clock
        # By name: tokens, and the time at which they were counted.
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, name: str) -> float:
        """Take a token, and return 0; if there is none, return for how many seconds to wait."""
        now = self._clock()
        tokens, last_time = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - last_time) * self._rate)
        allowed = tokens >= 1
        self._buckets[name] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > self._max_names:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self._rate
