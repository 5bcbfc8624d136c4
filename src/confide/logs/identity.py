"""Ids of users under the holder's key: the same person has the same number, and without the key nobody can tell whose it is."""

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
KEY = "confide.key"  # the name of a key where none is given
_BYTES = 32
_SLOTS = 1 << 23  # of the largest table of known ids: 128 MB


def key_in(path: Path) -> bytes:
    """The key in a file that its owner alone can read; made there if there is none."""
    if not path.exists():
        try:
            _durable.create(path, secrets.token_hex(_BYTES).encode() + b"\n", mode=0o600)
        except FileExistsError:  # another import was faster: its key is the one
            pass
        except OSError as error:
            raise LogError(
                f"{path}: the key cannot be written here: {error.strerror}; choose another place with --key"
            ) from None
    try:
        found, mode = read_text(path, 1000).strip(), path.stat().st_mode
    except (OSError, UnicodeDecodeError):
        raise LogError(
            f"{path}: not a key that can be read; name another one with --key, or remove it for a new one"
        ) from None
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise LogError(f"{path}: others can read this key: chmod 600 {path}")
    try:
        key = bytes.fromhex(found)
    except ValueError:
        key = b""
    if len(key) < _BYTES or len(key) > hashlib.blake2b.MAX_KEY_SIZE:
        raise LogError(
            f"{path}: a key is {2 * _BYTES} hexadecimal digits; remove the file, and a new key is made"
        )
    return key


class PseudonymTable:
    """Ids, batch by batch, as whole numbers in [0, 2^63): the first bits of keyed BLAKE2b of the id's text.

    Two of n users share a number with probability below n^2 / 2^64. They then count as one user, whose contribution is bounded as
    anybody's. The spaces around an id are no part of it, and the numbers 17 and 17.0 are the text 17: one person must not be two users.
    """

    def __init__(self, key: bytes) -> None:
        self._key, self._seed = key, secrets.randbits(62)
        self._table, self._known, self._count = (
            np.zeros(1 << 12, np.uint64),
            np.zeros(1 << 12, np.uint64),
            0,
        )

    def numbers(self, column: Any, where: str) -> tuple[Words, Any]:
        """The numbers, and which rows have one."""
        hashes = hashed(column, self._seed, where)
        self._make_room(len(hashes))
        slots, fresh = np.empty(len(hashes), np.int64), np.empty(len(hashes), np.int64)
        new = kernels.find(hashes, self._table, slots, fresh)
        self._known[slots[fresh[:new]]] = self._digests(column, fresh[:new])
        self._count += new
        return np.where(slots >= 0, self._known[slots], np.uint64(0)), slots >= 0

    def _digests(self, column: Any, rows: Ints) -> Words:
        found = column.take(rows).to_pylist()
        texts = (each if isinstance(each, bytes) else str(each).encode() for each in found)
        data = b"".join(
            [hashlib.blake2b(_bare(text), key=self._key, digest_size=8).digest() for text in texts]
        )
        return np.frombuffer(data, ">u8").astype(np.uint64) >> np.uint64(1)

    def _make_room(self, rows: int) -> None:
        """A table that is half empty; one that would be too large starts anew, since it only saves work."""
        size = len(self._table)
        while size < 2 * (self._count + rows):
            size *= 2
        if size == len(self._table):
            return
        kept = np.flatnonzero(self._table)
        if size > _SLOTS:
            kept, size = kept[:0], max(1 << 12, 1 << (4 * rows).bit_length())
        hashes, known = self._table[kept], self._known[kept]
        self._table, self._known, self._count = (
            np.zeros(size, np.uint64),
            np.zeros(size, np.uint64),
            len(kept),
        )
        slots = np.empty(len(kept), np.int64)
        kernels.find(hashes, self._table, slots, np.empty(len(kept), np.int64))
        self._known[slots] = known


def _bare(text: bytes) -> bytes:
    if text[:1].isalnum() and text[-1:].isalnum() and not text.endswith(b".0"):
        return text  # most are
    low, high = kernels.bare(np.frombuffer(text, np.uint8), 0, len(text))
    return text[low:high]


def hashed(column: Any, seed: int, where: str) -> Words:
    """A hash of each id of a column, for equal ids in one import; 0 where there is none."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        inside = hashed(column.dictionary, seed, where)
        codes = column.indices.fill_null(0).to_numpy(zero_copy_only=False)
        found = inside[codes] if len(inside) else np.zeros(len(codes), np.uint64)
    elif pa.types.is_integer(kind) and kind != pa.uint64():
        found = np.empty(len(column), np.uint64)
        kernels.hash_numbers(
            column.fill_null(0).cast(pa.int64()).to_numpy(zero_copy_only=False), seed, found
        )
    elif pa.types.is_string(kind) or pa.types.is_binary(kind):
        found = np.empty(len(column), np.uint64)
        _, offsets, data = column.buffers()
        first = column.offset
        cells = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
        kernels.hash_texts(
            np.frombuffer(offsets, np.int32)[first : first + len(column) + 1], cells, seed, found
        )
    else:
        raise LogError(f"{where} must contain whole numbers or text, got {kind}")
    if column.null_count:
        found[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return found
