"""Who may do what: API keys with roles, and rate limits. In memory are addresses of peers, for the limits; none is written anywhere."""

import hashlib
import hmac
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
MAY = {  # which roles may use what only some may use
    "report": ("device", "admin"),
    "operate": ("operator", "admin"),
    "administer": ("admin",),
    "audit": ("auditor", "admin"),
}
_DAYS = re.compile(r"([1-9][0-9]{0,3})d")
_FRESH = 5.0  # seconds: another process may revoke a key


@dataclass(frozen=True, slots=True)
class DrawnApiKey:
    """A key that was drawn, and is not in the store yet. `text` is what its owner sends; the store has a hash of it."""

    text: str = field(repr=False)
    row: ApiKeyRow

    def add_to(self, tx: Transaction, actor: str) -> None:
        row = self.row
        scope = "" if row.run is None else f" for run {row.run}"
        until = "" if row.expires is None else f" until {shown_time(row.expires)}"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        tx.audit(now, actor, "new API key", f"{row.id} {row.role}{scope}{until} {row.label}")
        tx.add_api_key(row)


def draw_api_key(
    role: str, label: str, *, run: str | None = None, expires: int | None = None
) -> DrawnApiKey:
    """256 random bits need no slow hash."""
    choice("role", role, ROLES)
    text("label", label)
    name = secrets.token_hex(6)
    secret = secrets.token_urlsafe(32)
    return DrawnApiKey(
        f"cfd_{name}_{secret}", ApiKeyRow(name, role, _hash(secret), label, False, run, expires)
    )


def new_api_key(
    store: ServiceStore,
    role: str,
    label: str,
    actor: str,
    run: str | None = None,
    expires: str | None = None,
) -> str:
    """The key, shown once. `run`: the only run that it may be used for. `expires`: as `parse_expiry` reads it."""
    if run is not None and text("run", run) not in store.runs():
        raise InvalidParameter(f"there is no run {run}: create the run before a key for it")
    key = draw_api_key(
        role,
        label,
        run=run,
        expires=None if expires is None else parse_expiry(expires, time.time()),
    )
    with store.transaction() as tx:
        key.add_to(tx, actor)
    return key.text


def parse_expiry(written: str, now: float) -> int:
    """When a key expires, in seconds since 1970: a number of days such as 90d, or a date or time such as 2027-01-31 in UTC."""
    wanted = "expires must be a number of days such as 90d, or a date such as 2027-01-31"
    days = _DAYS.fullmatch(text("expires", written))
    if days:
        return int(now) + 86_400 * int(days[1])
    try:
        moment = datetime.fromisoformat(written)
        # A time of another zone may lie outside of the years 1 to 9999 in UTC.
        seconds = (
            moment.astimezone(UTC) if moment.tzinfo else moment.replace(tzinfo=UTC)
        ).timestamp()
    except (ValueError, OverflowError):
        raise InvalidParameter(f"{wanted}, got {written!r}") from None
    if seconds <= now:
        raise InvalidParameter(f"expires must lie in the future, got {written!r}")
    return int(seconds)


def shown_time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="minutes")


def key_status(key: ApiKeyRow, now: float) -> str:
    if key.revoked:
        return "revoked"
    return "expired" if key.expires is not None and key.expires <= now else "in use"


def revoke_api_key(store: ServiceStore, name: str, actor: str) -> None:
    # A name with other characters than those of a text cannot be looked for in a database.
    text("name", name)
    with store.transaction() as tx:
        tx.audit(datetime.now(UTC).isoformat(timespec="seconds"), actor, "revoke API key", name)
        if not tx.revoke_api_key(name):
            raise InvalidParameter(f"there is no API key {name} in use")


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
        self._store, self._clock, self._now, self._read = store, clock, now, -1e9
        self._keys: dict[str, ApiKeyRow] = {}

    def find(self, key: str) -> ApiKeyRow | None:
        """The row of a key that was sent, if it is one."""
        parts = key.split("_", 2)
        if len(parts) != 3 or parts[0] != "cfd" or not key.isascii():
            return None
        row = self.named(parts[1])
        return row if row is not None and hmac.compare_digest(row.secret, _hash(parts[2])) else None

    def named(self, name: str) -> ApiKeyRow | None:
        """The key of this id, if it is in use."""
        if self._clock() - self._read > _FRESH:
            self.refresh()
        key = self._keys.get(name)
        return key if key is not None and key_status(key, self._now()) == "in use" else None

    def refresh(self) -> None:
        self._keys, self._read = (
            {row.id: row for row in self._store.api_keys() if not row.revoked},
            self._clock(),
        )


class RateLimit:
    """A bucket of `burst` tokens for each name, refilled at `rate` per second. The names that were not seen for longest are forgotten."""

    def __init__(
        self,
        rate: float,
        burst: float,
        *,
        names: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rate, self._burst, self._names, self._clock = rate, burst, names, clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def wait(self, name: str) -> float:
        """Seconds to wait, 0 if a token was taken."""
        now = self._clock()
        tokens, seen = self._buckets.pop(name, (self._burst, now))
        tokens = min(self._burst, tokens + (now - seen) * self._rate)
        allowed = tokens >= 1
        self._buckets[name] = (tokens - 1 if allowed else tokens), now
        if len(self._buckets) > self._names:
            self._buckets.popitem(last=False)
        return 0.0 if allowed else (1 - tokens) / self._rate
