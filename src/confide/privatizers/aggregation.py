"""How shares of noise reach an aggregator: the one place where secure aggregation is plugged in.

Under `DistributedDP` each device adds a share of the noise. A single share hides almost nothing, so
nobody may see one. The guarantee assumes an ideal aggregator, which the caller provides. confide
contains no cryptography.

An ideal aggregator does the following, and shows nothing else to anybody:

* It adds up, modulo `modulus`, shares whose batches are equal in all fields.
* It takes at most one share from each device.
* It opens the sum of a batch once, and only if at least `least` devices are in it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

import numpy as np
import numpy.typing as npt

from confide.arguments import whole
from confide.errors import InvalidParameter, PrivacyError

Ints = npt.NDArray[np.int64]
ID_BYTES = 16
ROUND_BYTES = 32


@dataclass(frozen=True, slots=True)
class ShareBatch:
    """A batch of devices whose shares are added up. Public, and the same for each of its devices.

    - `id` is random, so that no two batches have the same.
    - `generation` is the number of the release from which its devices plan.
    - `round` is the digest of the round that its devices answer. A device with another kind of
      processor may plan another round.
    - `users` is how many devices it has, and `least` of how many the noise must be in the sum.
    - `largest` is the size of the schedule's largest batch, for which the noise was computed.
    - `size` is how many whole numbers a share has. They are added up modulo `modulus`.
    """

    id: bytes
    generation: int
    round: bytes
    users: int
    least: int
    largest: int
    size: int
    modulus: int

    def __post_init__(self) -> None:
        if not isinstance(self.id, bytes) or len(self.id) != ID_BYTES:
            raise InvalidParameter(f"id must be {ID_BYTES} bytes")
        whole("generation", self.generation, at_least=0)
        if not isinstance(self.round, bytes) or len(self.round) != ROUND_BYTES:
            raise InvalidParameter(f"round must be {ROUND_BYTES} bytes")
        whole("users", self.users, at_least=1)
        whole("least", self.least, at_least=1, at_most=self.users)
        whole("largest", self.largest, at_least=self.users)
        whole("size", self.size, at_least=1)
        whole("modulus", self.modulus, at_least=2, at_most=2**53)


class DeviceShare:
    """PRIVATE: one device's contribution with its share of the noise, which hides almost nothing.

    It is made for the aggregation function alone. It has no text form, and cannot be copied or
    pickled.
    """

    __slots__ = ("_numbers",)

    def __init__(self, numbers: Ints) -> None:
        self._numbers = numbers

    def for_aggregation(self) -> Ints:
        """Return the numbers [size], each in 0..modulus - 1.

        They leave the device only through secure aggregation.
        """
        return self._numbers

    def __repr__(self) -> str:
        return "DeviceShare(hidden)"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a share cannot be copied or pickled, because it carries almost no noise: "
            "hand it to secure aggregation"
        )


# Runs on the device: it takes part in secure aggregation for this batch, with this share.
Aggregate = Callable[[ShareBatch, DeviceShare], None]


def check_sum(total: npt.ArrayLike, size: int, modulus: int) -> Ints:
    """Return the opened sum of a batch as an array, if it can be one."""
    try:
        numbers = np.asarray(total)
    except ValueError:
        raise InvalidParameter("total must be an array of whole numbers") from None
    if numbers.dtype.kind not in "iu" or numbers.shape != (size,):
        raise InvalidParameter(
            f"total must have {size} whole numbers, "
            f"got shape {numbers.shape} of the type {numbers.dtype}"
        )
    if numbers.min() < 0 or numbers.max() >= modulus:
        raise InvalidParameter(f"total must have numbers from 0 to {modulus - 1}")
    return numbers.astype(np.int64)
