"""The keys of a service, in files of their own, outside of its database: for signatures, and for pseudonyms of people.

Whoever has the database alone cannot tell who took part: a pseudonym is HMAC-SHA256 under a key that is not in it.
"""

import hashlib
import secrets
from pathlib import Path

from confide._durable import create, make_folder
from confide.errors import StateError
from confide.service.documents import SigningKey

_BYTES = 32


class KeyFolder:
    """PRIVATE: a folder of mode 0700 with one file for pseudonyms and one for each signing key. Losing the first loses who took part."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def init(self) -> SigningKey:
        """A new key for pseudonyms and a first one for signatures. Nothing that is there already is replaced."""
        make_folder(self.folder)
        self.folder.chmod(0o700)
        try:
            create(self.folder / "pseudonym.key", secrets.token_bytes(_BYTES), mode=0o600)
        except FileExistsError:
            raise StateError(f"{self.folder} has keys already: they are never replaced") from None
        return self.new_signing_key()

    def new_signing_key(self) -> SigningKey:
        secret = secrets.token_bytes(_BYTES)
        made = SigningKey(secret)
        create(self.folder / f"signing-{made.id}.key", secret, mode=0o600)
        return made

    def signing_key(self, name: str) -> SigningKey:
        made = SigningKey(self._read(f"signing-{name}.key"))
        if made.id != name:
            raise StateError(f"the file of the signing key {name} holds another key")
        return made

    def pseudonyms(self, run: str) -> "Pseudonyms":
        master = self._read("pseudonym.key")
        return Pseudonyms(_derived(master, f"run {run}"), _derived(master, "account"))

    def session_key(self) -> bytes:
        """For the sessions of operators' browsers."""
        return _derived(self._read("pseudonym.key"), "sessions")

    def _read(self, name: str) -> bytes:
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise StateError(f"cannot read {name} in the folder of keys: {error.strerror}") from None
        if len(data) != _BYTES:
            raise StateError(f"{name} in the folder of keys is damaged")
        return data


class Pseudonyms:
    """Of people: one for each run, and one for their account over all runs, which cannot be linked without the key. PRIVATE."""

    def __init__(self, run: bytes, account: bytes) -> None:
        self._run, self._account = Tagger(run), Tagger(account)

    def who(self, subject: str) -> bytes:
        return self._run.tag(subject)

    def person(self, subject: str) -> bytes:
        return self._account.tag(subject)

    def number(self, subject: str, generation: int) -> int:
        """Out of 2^128, for the policy of a person who does not draw one: the same again for the same release, and stored nowhere."""
        return int.from_bytes(self._run.tag(f"{generation} {subject}")[:16])


class Tagger:
    """HMAC-SHA256 under a key of at most 64 bytes [RFC 2104], from two prepared states: `hmac.digest` lets go of the interpreter at each
    call, and under load the event loop would wait for the writer to give it back."""

    def __init__(self, key: bytes) -> None:
        padded = key.ljust(64, b"\0")
        self._inner, self._outer = (hashlib.sha256(bytes(each ^ pad for each in padded)) for pad in (0x36, 0x5C))

    def tag(self, text: str) -> bytes:
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text.encode("utf-8", "surrogatepass"))
        outer.update(inner.digest())
        return outer.digest()


def _derived(master: bytes, use: str) -> bytes:
    return Tagger(master).tag(use)
