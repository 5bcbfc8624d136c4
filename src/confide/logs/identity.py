"""Ids of users under the holder's key.

The same person has the same number, and without the key nobody can tell whose it is. How an id
becomes a number is a format: with another rule, a log that is imported again has other numbers for
the same people.
"""

import hashlib
import secrets
import stat
from pathlib import Path
from typing import Any

import numpy as np

from confide import _durable
from confide.arguments import read_text
from confide.errors import LogError
from confide.logs import _import_kernels as kernels
from confide.logs.arrays import Ints

Words = kernels.Words
# The name of a key where none is given.
KEY = "confide.key"
# Required for privacy: a shorter key could be guessed.
_KEY_BYTES = 32
# The number of slots of the smallest and of the largest table of known ids (128 MB). A matter of
# taste.
_FEWEST_SLOTS = 1 << 12
_MOST_SLOTS = 1 << 23


def read_or_make_key(path: Path) -> bytes:
    """The key in a file that only its owner can read. If there is none, it is made."""
    if not path.exists():
        _make_key(path)
    try:
        text = read_text(path, 1000).strip()
        mode = path.stat().st_mode
    except (OSError, UnicodeDecodeError):
        raise LogError(
            f"{path}: not a key that can be read; name another one with --key, "
            "or remove it for a new one"
        ) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise LogError(f"{path}: others can read this key: chmod 600 {path}")
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) < _KEY_BYTES or len(key) > hashlib.blake2b.MAX_KEY_SIZE:
        raise LogError(
            f"{path}: a key is {2 * _KEY_BYTES} hexadecimal digits; "
            "remove the file, and a new key is made"
        )
    return key


def _make_key(path: Path) -> None:
    try:
        _durable.create(path, secrets.token_hex(_KEY_BYTES).encode() + b"\n", mode=0o600)
    except FileExistsError:
        # Another import was faster: its key is the one.
        pass
    except OSError as error:
        raise LogError(
            f"{path}: the key cannot be written here: {error.strerror}; "
            "choose another place with --key"
        ) from None


class PseudonymTable:
    """Ids, batch by batch, as whole numbers in [0, 2^63).

    They are the first bits of keyed BLAKE2b of the id's text. Two of n users share a number with
    probability below n^2 / 2^64. They then count as one user, whose contribution is bounded as
    anybody's. The spaces around an id are no part of it, and the numbers 17 and 17.0 are the text
    17: one person must not be two users.

    The hash table remembers numbers of known ids. It only saves work.
    """

    def __init__(self, key: bytes) -> None:
        self._key = key
        self._seed = secrets.randbits(62)
        self._clear(_FEWEST_SLOTS)

    def _clear(self, slots: int) -> None:
        # Fast hashes of known ids, 0 in an empty slot, and their numbers [slot].
        self._hashes = np.zeros(slots, np.uint64)
        self._numbers = np.zeros(slots, np.uint64)
        self._count = 0

    def numbers(self, column: Any, where: str) -> tuple[Words, Any]:
        """The numbers, and which rows have one."""
        hashes = hash_ids(column, self._seed, where)
        self._make_room(len(hashes))
        slots = np.empty(len(hashes), np.int64)
        new_rows = np.empty(len(hashes), np.int64)
        new = kernels.find(hashes, self._hashes, slots, new_rows)
        self._numbers[slots[new_rows[:new]]] = self._digests(column, new_rows[:new])
        self._count += new
        has_number = slots >= 0
        return np.where(has_number, self._numbers[slots], np.uint64(0)), has_number

    def _digests(self, column: Any, rows: Ints) -> Words:
        """The numbers of the ids in these rows."""
        digests = []
        for id_ in column.take(rows).to_pylist():
            text = id_ if isinstance(id_, bytes) else str(id_).encode()
            digest = hashlib.blake2b(_without_spaces(text), key=self._key, digest_size=8)
            digests.append(digest.digest())
        return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64) >> np.uint64(1)

    def _make_room(self, rows: int) -> None:
        """Make the table so large that it is half empty.

        A table that would be too large starts anew, since it only saves work.
        """
        size = len(self._hashes)
        while size < 2 * (self._count + rows):
            size *= 2
        if size == len(self._hashes):
            return
        kept = np.flatnonzero(self._hashes)
        if size > _MOST_SLOTS:
            kept = kept[:0]
            size = max(_FEWEST_SLOTS, 1 << (4 * rows).bit_length())
        hashes = self._hashes[kept]
        numbers = self._numbers[kept]
        self._clear(size)
        self._count = len(kept)
        slots = np.empty(len(kept), np.int64)
        kernels.find(hashes, self._hashes, slots, np.empty(len(kept), np.int64))
        self._numbers[slots] = numbers


def _without_spaces(text: bytes) -> bytes:
    """The id without spaces around it and without a decimal part of zero."""
    if text[:1].isalnum() and text[-1:].isalnum() and not text.endswith(b".0"):
        # Most ids are like this.
        return text
    low, high = kernels.bare(np.frombuffer(text, np.uint8), 0, len(text))
    return text[low:high]


def hash_ids(column: Any, seed: int, where: str) -> Words:
    """A fast hash of each id of a column: equal for equal ids in one import, 0 for no id."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        of_labels = hash_ids(column.dictionary, seed, where)
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        hashes = of_labels[codes] if len(of_labels) else np.zeros(len(codes), np.uint64)
    elif pa.types.is_integer(kind) and kind != pa.uint64():
        hashes = np.empty(len(column), np.uint64)
        ids = column.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False)
        kernels.hash_numbers(ids, seed, hashes)
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        hashes = np.empty(len(column), np.uint64)
        _, offsets, data = column.buffers()
        stop = column.offset + len(column) + 1
        cells = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        kernels.hash_texts(
            np.frombuffer(offsets, np.int32)[column.offset : stop], cells, seed, hashes
        )
    else:
        raise LogError(f"{where} must contain whole numbers or text, got {kind}")
    if column.null_count:
        hashes[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return hashes
