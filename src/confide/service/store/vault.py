"""The vault seals everything private that a service keeps after a request: open sums and states.

Guarantee: an attacker copies the database, its log and its backups at any time, but has neither
the file `vault.key` nor the memory of the process. The sealed bytes tell this attacker nothing
about what people reported. Their content is encrypted. Their length depends on public numbers
only. A record is written for every group of reports that counts somebody, whatever these people
reported.

A record is AES-256-GCM ciphertext of the library `cryptography`. Its associated data name the
place that it belongs to: kind, run, generation, shard and number of users. A record that was
changed or moved to another place does not open.

Each generation of each run has its own key, which HKDF-SHA256 derives from `vault.key`. All
workers derive the same key, so nonces must differ only among the seals of one batch. They are 96
random bits. A batch seals its open sum once per transaction, also if the transaction fails, and
its state once per attempt to close it. After n seals, two nonces are equal with probability at
most n^2 / 2^97. This is at most 2^-57 for 2^20 seals, and at most 2^-33 for 2^32 seals, the limit
of NIST SP 800-38D. A batch would need more than four billion transactions to reach that limit.

The vault does not notice that an older record of the same place was put back. For releases, the
rollback marks notice it.
"""

import secrets
from dataclasses import dataclass

from confide.errors import StoreError
from confide.service.documents import missing_packages
from confide.service.store.keys import KeyFolder

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    raise missing_packages() from None

# What follows is the format of a record. Existing databases have it, so it never changes.
FORMAT = b"confide-vault-1\0"
KEY_ID_BYTES = 8
HEADER_BYTES = len(FORMAT) + KEY_ID_BYTES
NONCE_BYTES = 12
TAG_BYTES = 16
LENGTH_BYTES = 8
# What is sealed has a length that is a multiple of its block. An open sum consists of 8-byte
# integers, so nothing is added to it. The block of a state hides how many digits its numbers have.
BLOCK_BYTES = {"open-sum": 8, "state": 4096}
# So many derived keys are kept, to save time. A matter of taste.
KEYS_IN_MEMORY = 1024


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record belongs. Public, and authenticated with the record."""

    kind: str  # open-sum | state
    run: str
    generation: int
    shard: int = 0
    users: int = 0

    def to_bytes(self) -> bytes:
        # A run's name holds lower-case letters, digits and dashes, so two places never have the
        # same bytes. Required for privacy: otherwise a record could be opened at another place.
        return f"{self.kind}\0{self.run}\0{self.generation}\0{self.shard}\0{self.users}".encode()


class Vault:
    """Seals and opens records. PRIVATE. It reads the keys when the first record needs them."""

    def __init__(self, keys: KeyFolder) -> None:
        self._folder = keys
        self._secrets: dict[bytes, bytes] = {}
        self._ciphers: dict[tuple[bytes, str, int], AESGCM] = {}
        # The open sum that this process sealed last: its record, its place and the sum itself. Most
        # often it is opened next.
        self._last_sum: tuple[bytes, Place, bytes] | None = None

    def seal(self, place: Place, data: bytes) -> bytes:
        """Return the record of `data` at a place.

        Sealing the same data again gives other bytes of the same length.
        """
        header = self.header
        nonce = secrets.token_bytes(NONCE_BYTES)
        padded = _pad(data, BLOCK_BYTES[place.kind])
        associated = header + place.to_bytes()
        record = header + nonce + self._cipher(header, place).encrypt(nonce, padded, associated)
        if place.kind == "open-sum":
            self._last_sum = (record, place, data)
        return record

    def open(self, place: Place, record: bytes) -> bytes:
        """Return the data of a record.

        If the key is another one, or if the record does not belong here, `StoreError` names the
        run.
        """
        if self._last_sum is not None and self._last_sum[:2] == (record, place):
            return self._last_sum[2]
        # SQLite keeps any type in any column, so a damaged file may hold a number or nothing here.
        if not isinstance(record, bytes):
            raise self._not_opened(place, "it is damaged")
        header, nonce, ciphertext = _split(record)
        if not header.startswith(FORMAT) or len(ciphertext) < TAG_BYTES:
            raise self._not_opened(place, "it is damaged")
        if header not in self._secrets:
            # Another process may have replaced the key.
            self.reload()
        if header not in self._secrets:
            folder = self._folder.folder
            raise self._not_opened(
                place, f"it was sealed with another key than vault.key in {folder}"
            )
        try:
            padded = self._cipher(header, place).decrypt(
                nonce, ciphertext, header + place.to_bytes()
            )
        except InvalidTag:
            why = "it was changed, or it belongs to another place"
            raise self._not_opened(place, why) from None
        return _unpad(padded)

    @property
    def header(self) -> bytes:
        """How every record that is sealed now begins: the format, and a public name of the key."""
        if not self._secrets:
            self.reload()
        return next(reversed(self._secrets))

    def reload(self) -> None:
        """Read the keys again. Without a key this raises `StateError`."""
        secret_list = self._folder.vault_secrets()
        self._secrets = {FORMAT + _key_id(secret): secret for secret in secret_list}
        self._ciphers.clear()
        self._last_sum = None

    def follow(self, header: bytes) -> None:
        """Read the keys again if other processes have begun to seal with another key.

        `header` is the beginning of a run's state.
        """
        if self._secrets and header != self.header:
            self.reload()

    def _not_opened(self, place: Place, why: str) -> StoreError:
        what = {"open-sum": "open sum", "state": "state"}[place.kind]
        where = f"run {place.run} at generation {place.generation}"
        return StoreError(f"the {what} of {where} cannot be opened: {why}")

    def _cipher(self, header: bytes, place: Place) -> AESGCM:
        name = (header, place.run, place.generation)
        cipher = self._ciphers.get(name)
        if cipher is None:
            if len(self._ciphers) >= KEYS_IN_MEMORY:
                self._ciphers.clear()
            info = FORMAT + f"key\0{place.run}\0{place.generation}".encode()
            cipher = AESGCM(_derive(self._secrets[header], info, 32))
            self._ciphers[name] = cipher
        return cipher


def record_bytes(kind: str, data_bytes: int) -> int:
    """Return the length of the record of so many bytes."""
    return HEADER_BYTES + NONCE_BYTES + TAG_BYTES + _padded_bytes(data_bytes, BLOCK_BYTES[kind])


def _split(record: bytes) -> tuple[bytes, bytes, bytes]:
    nonce_end = HEADER_BYTES + NONCE_BYTES
    return record[:HEADER_BYTES], record[HEADER_BYTES:nonce_end], record[nonce_end:]


def _padded_bytes(data_bytes: int, block: int) -> int:
    return -(-(LENGTH_BYTES + data_bytes) // block) * block


def _pad(data: bytes, block: int) -> bytes:
    measured = len(data).to_bytes(LENGTH_BYTES, "big") + data
    return measured.ljust(_padded_bytes(len(data), block), b"\0")


def _unpad(padded: bytes) -> bytes:
    end = LENGTH_BYTES + int.from_bytes(padded[:LENGTH_BYTES], "big")
    return padded[LENGTH_BYTES:end]


def _key_id(secret: bytes) -> bytes:
    """Public: it says which key a record needs, and nothing about the key."""
    return _derive(secret, FORMAT + b"id", KEY_ID_BYTES)


def _derive(secret: bytes, info: bytes, length: int) -> bytes:
    return HKDF(algorithm=hashes.SHA256(), length=length, salt=None, info=info).derive(secret)
