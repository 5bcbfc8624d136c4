"""The keys of a service: for signatures, pseudonyms and the vault.

They are in files outside of its database.

Whoever has the database alone cannot tell who took part, because a pseudonym is HMAC-SHA256 under a
key that is not in it. What people reported is sealed with the vault's key (`vault.py`).

How pseudonyms are computed from the secret and a name is a format: another computation would no
longer recognise people, and everybody could report once more.
"""

import contextlib
import hmac
import os
import secrets
from pathlib import Path

from confide._durable import clean, create, make_private_folder, replace, sync
from confide.errors import StateError
from confide.service.documents import SigningKey

# Every secret has 256 bits. Required for privacy: 128 would do.
_KEY_BYTES = 32
# The names of the files. They are a format.
_PSEUDONYM_KEY = "pseudonym.key"
_VAULT_KEY = "vault.key"
_NEXT_VAULT_KEY = "vault.next.key"


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
        for name in (_PSEUDONYM_KEY, _VAULT_KEY):
            self._create(name, secrets.token_bytes(_KEY_BYTES))
        signing_files = sorted(self.folder.glob("signing-*.key"))
        written_files = [path for path in signing_files if path.stat().st_size]
        if written_files:
            return self.signing_key(written_files[0].stem.removeprefix("signing-"))
        for path in signing_files:
            path.unlink()
        return self.new_signing_key()

    def check(self, signing_key: str) -> None:
        """Raise `StateError` if a file is missing or damaged that a service needs to go on."""
        for name in (_PSEUDONYM_KEY, _VAULT_KEY):
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
        """Draw a signing key, and write its file."""
        secret = secrets.token_bytes(_KEY_BYTES)
        key = SigningKey(secret)
        create(self.folder / f"signing-{key.id}.key", secret, mode=0o600)
        return key

    def write_api_key(self, role: str, key: str) -> Path:
        """Write a file with an API key that nobody has seen yet, and return its path.

        The service does not read it: whoever has copied the key may delete it.
        """
        path = self.folder / f"api-{role}.key"
        replace(path, f"{key}\n".encode(), mode=0o600)
        return path

    def signing_key(self, name: str) -> SigningKey:
        """Return the signing key with this id."""
        key = SigningKey(self._read(f"signing-{name}.key"))
        if key.id != name:
            raise StateError(f"the file of the signing key {name} holds another key")
        return key

    def pseudonyms(self, run: str) -> "Pseudonyms":
        """Return what computes the pseudonyms of people in a run."""
        secret = self._read(_PSEUDONYM_KEY)
        return Pseudonyms(_derive_key(secret, f"run {run}"), _derive_key(secret, "account"))

    def vault_secrets(self) -> list[bytes]:
        """Return the secrets that open records; the last one seals.

        There are two while the key is being replaced.
        """
        names = [_VAULT_KEY]
        next_key = self.folder / _NEXT_VAULT_KEY
        if next_key.exists() and next_key.stat().st_size > 0:
            names.append(_NEXT_VAULT_KEY)
        return [self._read(name) for name in names]

    def begin_vault_replacement(self) -> None:
        """Create a new secret, which seals from now on. The old one can still open records."""
        self._read(_VAULT_KEY)
        self._create(_NEXT_VAULT_KEY, secrets.token_bytes(_KEY_BYTES))

    def finish_vault_replacement(self) -> None:
        """Delete the old secret, because every record is sealed with the new one."""
        os.replace(self.folder / _NEXT_VAULT_KEY, self.folder / _VAULT_KEY)
        sync(self.folder)

    def session_key(self) -> bytes:
        """Return the key of the sessions of operators' browsers."""
        return _derive_key(self._read(_PSEUDONYM_KEY), "sessions")

    def _read(self, name: str) -> bytes:
        try:
            data = (self.folder / name).read_bytes()
        except OSError as error:
            raise StateError(
                f"cannot read {name} in the folder of keys {self.folder}: {error.strerror}. "
                "Copy it there from your backup of the keys, or from another host"
            ) from None
        if len(data) != _KEY_BYTES:
            raise StateError(
                f"{name} in the folder of keys is damaged: it must have {_KEY_BYTES} bytes, got "
                f"{len(data)}. Copy it there from your backup of the keys"
            )
        return data


class Pseudonyms:
    """The pseudonyms of people: one for each run, and one for their account over all runs. PRIVATE.

    They are computed with different keys. A single copy of the database does not say which of them
    belong to one person. Somebody with two copies can link them, because a report changes the rows
    of both in one transaction.
    """

    def __init__(self, run: bytes, account: bytes) -> None:
        self._run = hmac.new(run, digestmod="sha256")
        self._account = hmac.new(account, digestmod="sha256")

    def who(self, subject: str) -> bytes:
        """Return the pseudonym of a person in the run."""
        return _tag(self._run, subject)

    def person(self, subject: str) -> bytes:
        """Return the pseudonym of a person's account over all runs."""
        return _tag(self._account, subject)

    def number(self, subject: str, generation: int) -> int:
        """Return a number below 2^128 for the policy of a person whose device does not draw one.

        It is the same again for the same release, and stored nowhere.
        """
        return int.from_bytes(_tag(self._run, f"{generation} {subject}")[:16])


def _tag(prepared: hmac.HMAC, text: str) -> bytes:
    """Return HMAC-SHA256 of a text. `prepared` has the key.

    `hmac.digest` releases the lock of the interpreter at each call. Under load the event loop would
    then wait for the writer to give it back.
    """
    tag = prepared.copy()
    tag.update(text.encode("utf-8", "surrogatepass"))
    return tag.digest()


def _derive_key(secret: bytes, use: str) -> bytes:
    return _tag(hmac.new(secret, digestmod="sha256"), use)
