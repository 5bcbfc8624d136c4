"""Sessions of operators' browsers. Nothing is stored: a cookie is a text with a tag under a key that is not in the database."""

import hashlib
import hmac
import secrets
import time
from collections.abc import Callable

LASTS = 8 * 3600  # seconds


class Sessions:
    """A session belongs to an API key, and ends with it, after `LASTS`, or when its browser logs out of this process."""

    def __init__(self, key: bytes, clock: Callable[[], float] = time.time) -> None:
        self._key, self._clock = key, clock
        self._closed: dict[str, float] = {}

    def open(self, api_key: str) -> str:
        """The cookie of a new session, for the id of an API key."""
        said = f"{api_key}.{int(self._clock()) + LASTS}.{secrets.token_urlsafe(18)}"
        return f"{said}.{self._tag('session', said)}"

    def owner(self, cookie: str) -> str | None:
        """The id of the API key, while the session lasts."""
        said, _, tag = cookie.rpartition(".")
        if (
            not cookie.isascii()
            or not hmac.compare_digest(tag, self._tag("session", said))
            or cookie in self._closed
        ):
            return None
        api_key, ends, _ = said.split(".", 2)
        return api_key if self._clock() < int(ends) else None

    def close(self, cookie: str) -> None:
        now = self._clock()
        self._closed = {each: ends for each, ends in self._closed.items() if ends > now} | {
            cookie: now + LASTS
        }

    def token(self, cookie: str) -> str:
        """What a form must send beside the cookie: other sites can read neither."""
        return self._tag("form", cookie)

    def fits(self, cookie: str, token: str) -> bool:
        return bool(cookie) and token.isascii() and hmac.compare_digest(token, self.token(cookie))

    def _tag(self, use: str, text: str) -> str:
        return hmac.new(self._key, f"{use} {text}".encode(), hashlib.sha256).hexdigest()
