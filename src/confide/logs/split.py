"""People of a log in two parts, by a keyed hash of their ids: to learn from, and to test on.

Privacy. Neighbouring logs differ in the data of one user, who keeps their id. So they are split in
the same way, and differ in one part only. Let the learning part be released, and then the testing
part, with a question that may depend on the first answer, each with loss at most L. If the user is
in the testing part, the first answer has the same law on both logs, and given it the second one
loses at most L. If they are in the learning part, the second answer is computed from the first one
and from data that are the same on both logs: it is post-processing. So both answers together lose
at most L for every user: the larger loss, not the sum. A ledger counts in this way
(`confide.privacy.ledger`). This needs that the part depends on the id alone. The key may be public,
and need not be random.

The hash of an id is a format: with another hash the same log would be split anew, and charged anew.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.privacy.assumption import Assumption
from confide.trajectory import LoggedUsers

Flags = npt.NDArray[np.bool_]
# The number of different hashes of an id.
HASHES = 2**64


@dataclass(frozen=True, slots=True)
class SplitPart:
    """The users whose hash is below `holdout` (`test`), or the others.

    `key` is a digest of the holder's key. `split` names the log's files and how they are split, for
    a ledger: the users of two parts of one split are different people. It is PRIVATE, because it is
    computed from the sizes and times of the files. `public_name` is what a certificate says. It is
    computed from the share, the key, and the random tokens of users who are in memory.
    """

    split: str = field(repr=False)
    public_name: str
    test: bool
    holdout: float
    key: bytes = field(repr=False)

    @property
    def name(self) -> str:
        return "test" if self.test else "learn"

    @property
    def other(self) -> "SplitPart":
        return replace(self, test=not self.test)

    @property
    def assumed(self) -> Assumption:
        """What a certificate says about it. A test on the other part looks for its values."""
        rule = "each person has one id, which decides the part and depends on nothing else"
        return Assumption(
            "part-of-split",
            f"Part {self.name!r} of split {self.public_name}: {rule}.",
            {"split": self.public_name, "part": self.name},
        )

    def holds(self, ids: Sequence[Any]) -> list[bool]:
        """Whether these users are in this part. PRIVATE ids stay here."""
        limit = round(self.holdout * HASHES)
        return [(_hash(user, self.key) < limit) == self.test for user in ids]


def digest_of_key(key: str) -> bytes:
    return hashlib.blake2b(key.encode(), digest_size=32).digest()


def _hash(user: Any, key: bytes) -> int:
    """The same number for the same id, whether its column is of a wide or a narrow type."""
    if isinstance(user, bytes):
        data = user
    elif isinstance(user, int):
        data = f"i{user}".encode()
    else:
        data = f"s{user}".encode()
    return int.from_bytes(hashlib.blake2b(data, key=key, digest_size=8).digest(), "big")


def select_users(users: LoggedUsers, keep: Flags) -> LoggedUsers:
    """The users whose flag [user] is set, whole."""
    trajectories = np.repeat(keep, np.diff(users.users))
    lengths = np.diff(users.trajectories)
    rows = np.repeat(trajectories, lengths)
    return LoggedUsers(
        users.states[rows],
        users.rewards[rows],
        np.append(0, np.cumsum(lengths[trajectories])),
        np.append(0, np.cumsum(np.diff(users.users)[keep])),
        users.valid[keep],
        None if users.actions is None else users.actions[rows],
        None if users.probabilities is None else users.probabilities[rows],
        None if users.gaps is None else users.gaps[rows],
    )
