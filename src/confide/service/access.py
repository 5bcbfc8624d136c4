"""Who may do what: API keys with roles, and rate limits. In memory are addresses of peers, for the limits; none is written anywhere."""

import hashlib
import hmac
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime

from confide.arguments import choice, text
from confide.errors import InvalidParameter
from confide.service.store import ApiKeyRow, Store

ROLES = ("device", "operator", "admin", "auditor")
MAY = {  # which roles may use what only some may use
    "report": ("device", "admin"),
    "operate": ("operator", "admin"),
    "administer": ("admin",),
    "audit": ("auditor", "admin"),
}
_FRESH = 5.0  # seconds: another process may revoke a key


def new_api_key(store: Store, role: str, label: str, actor: str) -> str:
    """The key, shown once: the store has a hash of it. 256 random bits need no slow hash."""
    choice("role", role, ROLES), text("label", label)
    name, secret = secrets.token_hex(6), secrets.token_urlsafe(32)
    with store.transaction() as tx:
        tx.audit(datetime.now(UTC).isoformat(timespec="seconds"), actor, "new API key", f"{name} {role} {label}")
        tx.add_api_key(ApiKeyRow(name, role, _hash(secret), label, False))
    return f"cfd_{name}_{secret}"


def revoke_api_key(store: Store, name: str, actor: str) -> None:
    with store.transaction() as tx:
        tx.audit(datetime.now(UTC).isoformat(timespec="seconds"), actor, "revoke API key", name)
        if not tx.revoke_api_key(name):
            raise InvalidParameter(f"there is no API key {name} in use")


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


class Keyring:
    """The API keys in use, read again every few seconds."""

    def __init__(self, store: Store, clock: Callable[[], float] = time.monotonic) -> None:
        self._store, self._clock, self._read = store, clock, -1e9
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
        return self._keys.get(name)

    def refresh(self) -> None:
        self._keys, self._read = {row.id: row for row in self._store.api_keys() if not row.revoked}, self._clock()


class RateLimit:
    """A bucket of `burst` tokens for each name, refilled at `rate` per second. The names that were not seen for longest are forgotten."""

    def __init__(self, rate: float, burst: float, *, names: int = 10_000, clock: Callable[[], float] = time.monotonic) -> None:
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
