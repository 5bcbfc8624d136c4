"""The server's half of local privacy: it makes devices, and takes their messages."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.errors import AnotherRound, PrivacyError
from confide.learning.client import LocalClient
from confide.privatizers.batches import Batches
from confide.privatizers.local import LocalPrivatizer
from confide.privatizers.message import Channel, Message

if TYPE_CHECKING:
    from confide.learning.learner import Learner


class MessageServer:
    """What a learner does under `LocalDP`."""

    def __init__(self, learner: "Learner", privatizer: LocalPrivatizer) -> None:
        self._learner = learner
        self._privatizer = privatizer

    def client(self) -> LocalClient:
        """Make one more user's device, which lives in the same process."""
        return LocalClient(
            self._learner.algorithm,
            self._learner.privacy,
            self._privatizer.device_source(),
            channel=self._privatizer.channel,
        )

    def channel(self) -> Channel:
        """Return how a device of the open batch makes its message."""
        # A round may decide it.
        self._learner.current_round()
        return self._privatizer.channel

    def absorb(self, message: bytes | Message) -> None:
        """Take in what a device sent."""
        self._learner._prepare_release()
        self._privatizer.receive(self._read(message))

    def decoded(self, message: bytes | Message) -> npt.NDArray[np.int64]:
        """Return what a message adds to the sum of the open batch, in whole steps of the grid."""
        values = self._privatizer.decoded(self._read(message))
        return np.rint(values / self._learner.grid).astype(np.int64)

    def _read(self, data: bytes | Message) -> Message:
        """Read a device's message, and refuse an answer to another round.

        Such an answer would be decoded as if it were about the open round. The privatizer refuses a
        message to an earlier release.
        """
        message = data if isinstance(data, Message) else Message.from_bytes(data)
        digest = self._learner.current_round().digest
        if message.generation == self._privatizer.generation and message.round != digest:
            raise AnotherRound(
                "the message answers another round than the one that this server planned from the "
                "same release: it was not counted. The device planned on another kind of "
                "processor, or with another version; confide serve publishes rounds as tables"
            )
        return message


def message_server(learner: "Learner", privatizer: Batches) -> MessageServer:
    """Return the server of a learner whose users send messages; raise an error for others."""
    if isinstance(privatizer, LocalPrivatizer):
        return MessageServer(learner, privatizer)
    advice = "pass trajectories to observe"
    if privatizer.devices:
        advice = "a share alone carries almost no noise, so use ShareClient and shares.absorb_sum"
    raise PrivacyError(
        "clients and messages are for LocalDP, "
        f"but this agent has {type(learner.privacy).__name__}: {advice}"
    )
