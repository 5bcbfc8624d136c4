"""A simulation of secure aggregation: pairwise masks that cancel in a sum.

Each pair of neighbouring devices shares a seed; one adds the mask that follows from it, and the other subtracts it. A message is then
evenly distributed, and the sum over all devices is that of what they masked. If a device stays away, its neighbours tell the server the
seeds that they share with it, and the server removes these masks [Bonawitz17]. What is simulated is the arithmetic: keys are not agreed
on, there are no second masks against a server that says who is absent, and nobody sends a message after having been declared absent. So the
server must not choose who stays away: whoever uncovers all neighbours of one device reads its message, with its share of the noise alone.
"""

import hashlib
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
_NEIGHBOURS = 8  # on each side: with complete graphs, large batches would need millions of masks
SECRET = 16  # bytes


def neighbours(place: int, users: int) -> Iterator[int]:
    """The other devices with which this one shares masks: all of a small batch, those next to it on a circle in a large one."""
    if users <= 2 * _NEIGHBOURS + 1:
        yield from (other for other in range(users) if other != place)
    else:
        yield from ((place + far) % users for far in range(-_NEIGHBOURS, _NEIGHBOURS + 1) if far)


def seeds(secret: bytes, place: int, others: Iterable[int]) -> tuple[tuple[int, bytes], ...]:
    """(sign, seed) of the masks that a device shares with these others."""
    return tuple((1 if place < other else -1, _seed(secret, min(place, other), max(place, other))) for other in others)


def _seed(secret: bytes, low: int, high: int) -> bytes:
    return hashlib.blake2b(low.to_bytes(8) + high.to_bytes(8), key=secret, digest_size=32).digest()


def mask(pairs: Iterable[tuple[int, bytes]], size: int, modulus: int) -> Ints:
    """The sum of the masks that follow from seeds, modulo a power of two."""
    total = np.zeros(size, dtype=np.int64)
    for sign, seed in pairs:
        drawn = np.frombuffer(hashlib.shake_256(seed).digest(8 * size), dtype="<u8") & np.uint64(modulus - 1)
        total = (total + sign * drawn.astype(np.int64)) % modulus
    return total
