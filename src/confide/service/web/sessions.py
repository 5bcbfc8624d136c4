"""Sessions of operators' browsers.

Nothing is stored: a cookie is a text with a tag under a key that is not in the database. Required
for security: tags are compared in constant time, and the tag of a form differs from that of its
cookie, so that a page that can read one of them cannot make the other.
"""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

# A session lasts so many seconds: a day's work. A matter of taste.
SESSION_SECONDS = 8 * 3600


class Sessions:
    """The sessions of all browsers.

    A session belongs to an API key. It ends with the key, after `SESSION_SECONDS`, or when its
    browser logs out of this process.
    """

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key = key
        self._clock = clock
        # The cookies of sessions that were closed, and when they would have ended.
        self._closed: dict[str, float] = {}

    def open(self, api_key: str) -> str:
        """Return the cookie of a new session, for the id of an API key."""
        ends = int(self._clock()) + SESSION_SECONDS
        facts = f"{api_key}.{ends}.{secrets.token_urlsafe(18)}"
        return f"{facts}.{self._tag('session', facts)}"

    def owner(self, cookie: str) -> str | None:
        """Return the id of the API key, while the session lasts."""
        if not cookie.isascii() or cookie in self._closed:
            return None
        facts, _, tag = cookie.rpartition(".")
        if not hmac.compare_digest(tag, self._tag("session", facts)):
            return None
        api_key, ends, _ = facts.split(".", 2)
        return api_key if self._clock() < int(ends) else None

    def close(self, cookie: str) -> None:
        """End a session before its time."""
        now = self._clock()
        self._closed = {closed: ends for closed, ends in self._closed.items() if ends > now}
        self._closed[cookie] = now + SESSION_SECONDS

    def token(self, cookie: str) -> str:
        """Return what a form must send beside the cookie. Other sites can read neither."""
        return self._tag("form", cookie)

    def fits(self, cookie: str, token: str) -> bool:
        """Return whether a form with this token is from a page of this cookie."""
        return bool(cookie) and token.isascii() and hmac.compare_digest(token, self.token(cookie))

    def _tag(self, use: str, text: str) -> str:
        return hmac.new(self._key, f"{use} {text}".encode(), hashlib.sha256).hexdigest()
