"""The keys of a service, in files outside of its database: for signatures, pseudonyms and the vault.

Whoever has the database alone cannot tell who took part, because a pseudonym is HMAC-SHA256 under a
key that is not in it. What people reported is sealed with the vault's key (`vault.py`).
"""

import contextlib
import hmac
import os
import secrets
from pathlib import Path

from confide._durable import clean, create, make_private_folder, replace, sync
from confide.errors import StateError
from confide.service.documents import SigningKey

_BYTES = 32
_VAULT, _NEXT_VAULT = "vault.key", "vault.next.key"


class KeyFolder:
    """PRIVATE: a folder of mode 0700, with a file for each key.

    Without `pseudonym.key` nobody is recognised any more. Without `vault.key` no run can go on.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def init(self) -> SigningKey:
        """Create what is missing: keys for pseudonyms and for the vault, and a first signing key.

        Existing keys stay. So the call can be repeated after a kill, and a copied folder works.
        """
        make_private_folder(self.folder, ("*.key", "*.part"))
        clean(self.folder)
        for name in ("pseudonym.key", _VAULT):
            self._create(name, secrets.token_bytes(_BYTES))
        existing = sorted(self.folder.glob("signing-*.key"))
        whole = [path for path in existing if path.stat().st_size]
        if whole:
            return self.signing_key(whole[0].stem.removeprefix("signing-"))
        for path in existing:
            path.unlink()
        return self.new_signing_key()

    def check(self, signing_key: str) -> None:
        """`StateError` if a file is missing or damaged that a service needs to go on."""
        for name in ("pseudonym.key", _VAULT):
            self._read(name)
        self.signing_key(signing_key)

    def _create(self, name: str, secret: bytes) -> None:
        """Create a file. A kill may have left an empty one on a file system without hard links."""
        path = self.folder / name
        if path.exists() and path.stat().st_size == 0:
            path.unlink()
        with contextlib.suppress(FileExistsError):
            create(path, secret, mode=0o600)

    def new_signing_key(self) -> SigningKey:
        secret = secrets.token_bytes(_BYTES)
        made = SigningKey(secret)
        create(self.folder / f"signing-{made.id}.key", secret, mode=0o600)
        return made

    def write_api_key(self, role: str, key: str) -> Path:
        """A file for an API key that nobody has seen yet. The service does not read it: whoever has copied the key may delete it."""
        path = self.folder / f"api-{role}.key"
        replace(path, f"{key}\n".encode(), mode=0o600)
        return path

    def signing_key(self, name: str) -> SigningKey:
        made = SigningKey(self._read(f"signing-{name}.key"))
        if made.id != name:
            raise StateError(f"the file of the signing key {name} holds another key")
        return made

    def pseudonyms(self, run: str) -> "Pseudonyms":
        master = self._read("pseudonym.key")
        return Pseudonyms(_derived(master, f"run {run}"), _derived(master, "account"))

    def vault_secrets(self) -> list[bytes]:
        """Return the secrets that open records; the last one seals.

        There are two while the key is being replaced.
        """
        replacement = self.folder / _NEXT_VAULT
        replaced = replacement.exists() and replacement.stat().st_size > 0
        return [self._read(name) for name in ((_VAULT, _NEXT_VAULT) if replaced else (_VAULT,))]

    def begin_vault_replacement(self) -> None:
        """Create a new secret, which seals from now on. The old one can still open records."""
        self._read(_VAULT)
        self._create(_NEXT_VAULT, secrets.token_bytes(_BYTES))

    def finish_vault_replacement(self) -> None:
        """Delete the old secret, because every record is sealed with the new one."""
        os.replace(self.folder / _NEXT_VAULT, self.folder / _VAULT)
        sync(self.folder)

    def session_key(self) -> bytes:
        """For the sessions of operators' browsers."""
        return _derived(self._read("pseudonym.key"), "sessions")

    def _read(self, name: str) -> bytes:
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise StateError(
                f"cannot read {name} in the folder of keys {self.folder}: {error.strerror}. "
                "Copy it there from your backup of the keys, or from another host"
            ) from None
        if len(data) != _BYTES:
            raise StateError(f"{name} in the folder of keys is damaged")
        return data


class Pseudonyms:
    """Of people: one for each run, and one for their account over all runs. PRIVATE.

    They are computed with different keys. A single copy of the database does not say which of them belong to one person.
    Somebody with two copies can link them, because a report changes the rows of both in one transaction.
    """

    def __init__(self, run: bytes, account: bytes) -> None:
        self._run = hmac.new(run, digestmod="sha256")
        self._account = hmac.new(account, digestmod="sha256")

    def who(self, subject: str) -> bytes:
        return _tag(self._run, subject)

    def person(self, subject: str) -> bytes:
        return _tag(self._account, subject)

    def number(self, subject: str, generation: int) -> int:
        """Out of 2^128, for the policy of a person who does not draw one: the same again for the same release, and stored nowhere."""
        return int.from_bytes(_tag(self._run, f"{generation} {subject}")[:16])


def _tag(prepared: hmac.HMAC, text: str) -> bytes:
    """HMAC-SHA256 of a text. `prepared` has the key.

    `hmac.digest` lets go of the interpreter at each call. Under load the event loop would wait for the writer to give it back.
    """
    tag = prepared.copy()
    tag.update(text.encode("utf-8", "surrogatepass"))
    return tag.digest()


def _derived(master: bytes, use: str) -> bytes:
    return _tag(hmac.new(master, digestmod="sha256"), use)
