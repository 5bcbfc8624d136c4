"""What a device keeps, in a file or in memory.

Required for privacy: a message is in the store before it is sent. So a device that restarts sends
the same bytes, and never noises its data twice. The names of the values are a format: files of
earlier versions have them.
"""

import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confide._durable import replace
from confide._locks import lock, open_lock
from confide.errors import PrivacyError, StateError
from confide.service.device.policies import CHOICE_BITS
from confide.service.device.transport import FINAL_REFUSALS

# The values that are texts, if they are there.
_TEXTS = ("run", "key", "manifest", "digest", "sent", "nonce", "outcome", "salt", "person")
_SALT_BYTES = 16


class DeviceStore:
    """The store of one person's device in one run. PRIVATE while a report waits for its answer.

    | value | is |
    |---|---|
    | which | a random number that chooses one of several policies |
    | salt, person | a salted hash of the person's name |
    | run, key, manifest | the run, its first signing key, and the digest of its manifest |
    | generation, digest | of the newest release that was seen |
    | sent, nonce | a report that waits for its answer: its body and its idempotency key |
    | outcome, refused | what became of the report |
    """

    def __init__(self, path: str | Path | None, *, run: str, subject: str) -> None:
        self._run = run
        self._subject = subject
        # One name for the file, whatever links lead to it and wherever the process moves later.
        self._path = None if path is None else Path(os.path.realpath(path))
        self._process = os.getpid()
        self._lock = threading.Lock()
        salt = secrets.token_hex(_SALT_BYTES)
        # `which` is drawn before there are any data.
        self._values: dict[str, Any] = {
            "which": secrets.randbits(CHOICE_BITS),
            "salt": salt,
            "person": _hash_subject(salt, subject),
        }
        self._read_file()

    @property
    def values(self) -> Mapping[str, Any]:
        """What was read or written last. Other devices may have changed the file since."""
        return self._values

    @contextmanager
    def turn(self) -> Iterator[dict[str, Any]]:
        """Read the values again, for this device alone, and write what the block changes.

        What is changed is durable when the block ends. After an error nothing is changed.
        """
        with self._lock:
            if self._path is None:
                self._check_process()
                values = dict(self._values)
                yield values
                self._values = values
                return
            handle = open_lock(self._path.with_name(self._path.name + ".lock"))
            try:
                lock(handle)
                self._read_file()
                values = dict(self._values)
                yield values
                if values != self._values or not self._path.exists():
                    replace(self._path, json.dumps(values).encode(), mode=0o600)
                self._values = values
            finally:
                os.close(handle)

    def _check_process(self) -> None:
        if os.getpid() != self._process:
            raise PrivacyError(
                "a device without a store was copied by a fork, and both copies would noise the "
                "same data: give it a store"
            )

    def _read_file(self) -> None:
        if self._path is None or not self._path.exists():
            return
        try:
            values = json.loads(self._path.read_bytes())
            expected_person = _hash_subject(values["salt"], self._subject)
            is_same_person = hmac.compare_digest(values["person"], expected_person)
            is_valid = _has_valid_values(values)
        except (ValueError, KeyError, TypeError, AttributeError):
            is_valid = False
        if not is_valid:
            raise StateError("the store is damaged: it is not that of a device")
        if values.get("run", self._run) != self._run:
            raise StateError("the store is of a device in another run")
        if not is_same_person:
            raise StateError(
                "the store is of another person: give each person a store of their own"
            )
        self._values = values


def _has_valid_values(values: Mapping[str, Any]) -> bool:
    numbers = (values["which"], values.get("generation", 0))
    texts = [values.get(name, "") for name in _TEXTS]
    if any(type(number) is not int for number in numbers):
        return False
    if any(type(text) is not str for text in texts):
        return False
    if "refused" in values or values.get("outcome") == "refused":
        return values.get("outcome") == "refused" and tuple(values["refused"]) in FINAL_REFUSALS
    return True


def _hash_subject(salt: str, subject: str) -> str:
    """Return by what a store recognizes its person without their name in clear."""
    name = subject.encode("utf-8", "surrogatepass")
    return hmac.new(salt.encode(), name, hashlib.sha256).hexdigest()
