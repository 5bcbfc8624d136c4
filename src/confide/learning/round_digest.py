"""The digest of a round. A device's message names it, so that a server refuses other answers.

The digest is part of messages, so everything in this file is a protocol: a change makes devices and
servers of different versions refuse each other. The first bytes that are hashed name the version.
"""

import hashlib
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.policy import (
    ContextPolicy,
    LinearPolicy,
    Policy,
    RandomPolicy,
    StochasticPolicy,
    TabularPolicy,
    is_rule,
)

# Two processors compute the same number with different last bits. A number counts to so many bits
# of the largest one in its table, so that such rounds have the same digest.
_BITS = 20
# The largest number of a table is rounded up to a power of two. It is first made larger by this
# factor: a number that is one but for its last bits must not be rounded up on one processor only.
_ROOM = 1 + 2.0**-10
# The place of a kind in this tuple is hashed.
_KINDS: tuple[type, ...] = (
    TabularPolicy,
    StochasticPolicy,
    LinearPolicy,
    ContextPolicy,
    RandomPolicy,
)


def round_digest(
    policies: Sequence[Policy], shares: Sequence[float] | None, statistic: Any, size: int | None
) -> bytes:
    """Return 32 bytes for all tables that serve users and turn episodes into contributions.

    A statistic gives its tables by `tables()`. A statistic without them is the same in all rounds,
    and only the number of coordinates `size` counts.
    """
    digest = hashlib.sha256(b"confide-round-digest/1")
    tables = getattr(statistic, "tables", None)
    parts: list[Any] = [[-1 if size is None else size], [] if shares is None else shares]
    for policy in policies:
        parts += _policy_tables(policy)
    if tables is not None:
        parts += tables()
    for part in parts:
        digest.update(_plain_bytes(np.asarray(part)))
    return digest.digest()


def _policy_tables(policy: Policy) -> Iterator[Any]:
    if is_rule(policy):
        yield [-1]
        yield from policy.tables()  # type: ignore[union-attr]
        return
    yield [_KINDS.index(type(policy))]
    match policy:
        case TabularPolicy():
            yield [policy.choices]
            yield policy.actions
        case StochasticPolicy():
            yield policy.weights
        case LinearPolicy():
            yield policy.gains
        case ContextPolicy():
            yield policy.weights
            yield [] if policy.widths is None else policy.widths
        case RandomPolicy():
            yield [policy.choices]


def _plain_bytes(table: npt.NDArray[Any]) -> bytes:
    """Return the shape, the exponent of the largest number, and all numbers as whole ones."""
    largest = float(np.abs(table.astype(float)).max(initial=0.0))
    if table.dtype.kind in "biu" and largest < 2**_BITS:
        exponent = 0
        whole_numbers = table.astype(np.int64)
    else:
        exponent = int(np.frexp(largest * _ROOM)[1])
        scaled = np.ldexp(np.nan_to_num(table.astype(float)), _BITS - exponent)
        whole_numbers = np.rint(scaled).astype(np.int64)
    head = struct.pack(f"<{table.ndim + 2}q", table.ndim, *table.shape, exponent)
    return head + np.ascontiguousarray(whole_numbers).astype("<i8").tobytes()
