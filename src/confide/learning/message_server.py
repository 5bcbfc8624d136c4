"""The server's half of local privacy: it makes channels for devices, and takes their messages."""

from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from confide.errors import PrivacyError
from confide.learning.arguments import read_message
from confide.learning.client import LocalClient
from confide.privatizers.batches import Batches
from confide.privatizers.local import LocalPrivatizer
from confide.privatizers.message import Channel, Message

if TYPE_CHECKING:
    from confide.learning.learner import Learner


class MessageServer:
    """What a learner does under `LocalDP`."""

    def __init__(self, learner: "Learner", privatizer: LocalPrivatizer) -> None:
        self._learner, self._privatizer = learner, privatizer

    def client(self) -> LocalClient:
        """One more user's device, for devices that live in the same process."""
        learner, server = self._learner, self._privatizer
        return LocalClient(
            learner.algorithm, learner.privacy, server.device_source(), channel=server.channel
        )

    def channel(self) -> Channel:
        """How a device of the open batch makes its message."""
        self._learner.current_round()  # a round may decide it
        return self._privatizer.channel

    def absorb(self, message: bytes | Message) -> None:
        """What a device sent."""
        self._learner._prepare_release()
        self._privatizer.receive(self._read(message))

    def decoded(self, message: bytes | Message) -> npt.NDArray[np.int64]:
        """What a message adds to the sum of the open batch, in whole steps of the grid."""
        values = self._privatizer.decoded(self._read(message))
        return np.rint(values / self._learner.grid).astype(np.int64)

    def _read(self, message: bytes | Message) -> Message:
        digest = self._learner.current_round().digest
        return read_message(message, self._privatizer.generation, digest)


def message_server(learner: "Learner", privatizer: Batches) -> MessageServer:
    """There is one only where users send messages."""
    if isinstance(privatizer, LocalPrivatizer):
        return MessageServer(learner, privatizer)
    instead = "pass trajectories to observe"
    if privatizer.devices:
        instead = "a share alone carries almost no noise, so use ShareClient and shares.absorb_sum"
    raise PrivacyError(
        f"clients and messages are for LocalDP, but this agent has {type(learner.privacy).__name__}: {instead}"
    )
