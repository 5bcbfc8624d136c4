"""The server's half of distributed privacy.

It describes batches to devices, and takes the sums that an aggregator opens.
"""

from typing import TYPE_CHECKING

import numpy.typing as npt

from confide.arguments import kind
from confide.errors import AnotherRound, PrivacyError
from confide.learning.share_client import ShareClient
from confide.privatizers.aggregation import DeviceShare, ShareBatch
from confide.privatizers.batches import Batches
from confide.privatizers.distributed import DistributedPrivatizer

if TYPE_CHECKING:
    from confide.learning.learner import Learner


class ShareServer:
    """What a learner does under `DistributedDP`, as `agent.shares`."""

    def __init__(self, learner: "Learner", privatizer: DistributedPrivatizer) -> None:
        self._learner = learner
        self._privatizer = privatizer

    @property
    def batch(self) -> ShareBatch:
        """What devices and the aggregator must know of the open batch. Public."""
        return self._privatizer.share_batch(self._learner.current_round().digest)

    def absorb_sum(self, batch_id: bytes, total: npt.ArrayLike, devices: int) -> None:
        """Take in the sum of the open batch, with so many devices in it, and make a release.

        The aggregator has opened the sum. If too few devices are in it, `BatchNotOpened` is raised:
        nothing is released, and the batch begins again.
        """
        self._learner._prepare_release()
        self._privatizer.receive_sum(batch_id, total, devices)

    def client(self) -> ShareClient:
        """Make one more user's device of the open batch, which lives in the same process."""
        privatizer = self._privatizer
        return ShareClient(
            self._learner.algorithm, privatizer.privacy, self.batch, privatizer.device_source()
        )

    def simulate_aggregation(self, batch: ShareBatch, share: DeviceShare) -> None:
        """SIMULATION of an ideal aggregator, for `ShareClient.contribute`.

        It sees every share, so never use it for real users.
        """
        self._learner._prepare_release()
        if kind("batch", batch, ShareBatch).round != self._learner.current_round().digest:
            raise AnotherRound("the share answers another round than that of the open batch")
        self._privatizer.simulate_aggregation(batch, share)

    def stay_away(self, users: int) -> None:
        """SIMULATION: so many more devices of the open batch do not take part.

        The batch is opened without them. If more of them stay away than the guarantee allows,
        `BatchNotOpened` is raised: nothing is released, and the batch begins again.
        """
        self._learner._prepare_release()
        self._privatizer.stay_away(users)


def share_server(learner: "Learner", privatizer: Batches) -> ShareServer:
    """Return the server of a learner whose devices send shares; raise an error for others."""
    if not isinstance(privatizer, DistributedPrivatizer):
        raise PrivacyError(
            "shares of noise are for DistributedDP, "
            f"but this agent has {type(learner.privacy).__name__}"
        )
    return ShareServer(learner, privatizer)
