"""A user's device under distributed privacy: it hands one share to secure aggregation.

What leaves this file: the share, to the caller's function alone, and a mark in a store, which says
that the device has contributed.
"""

import os
import threading
from pathlib import Path
from typing import NoReturn

from confide.arguments import has, kind
from confide.errors import AnotherRound, InvalidParameter, PrivacyError, StaleMessage, StateError
from confide.learning.algorithm import Algorithm, Round
from confide.learning.device import contribution_on_device, plan_on_device
from confide.mechanisms.shares import share_noise
from confide.mechanisms.sources import NoiseSource, SecureSource, check_source
from confide.mechanisms.state import StateFile, pack
from confide.policy import Policy
from confide.privacy.bounded import Released
from confide.privacy.guarantee import Guarantee
from confide.privacy.request import DistributedDP, Trust
from confide.privatizers.aggregation import Aggregate, DeviceShare, ShareBatch
from confide.trajectory import Trajectories


class ShareClient:
    """One device, one user, one share of the noise.

    Guarantee: the sum of the device's batch keeps `privacy` against everybody, if the aggregator is
    ideal (`confide.privatizers.aggregation`). The share alone carries almost no noise. It is given
    to the caller's function `aggregate`, which must run secure aggregation. It must not leave the
    device in any other way: not in a message, a log or a file.

    The device computes its noise itself, and refuses a batch that does not fit `privacy`. It
    contributes once. It refuses a second attempt, which would draw other noise for the same data,
    and then counts as a device that dropped out. With a `store` this also holds after a restart.
    The store never contains the share. Without `noise` the device uses the secure source.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        privacy: DistributedDP,
        batch: ShareBatch,
        noise: NoiseSource | None = None,
        *,
        store: StateFile | str | Path | None = None,
    ) -> None:
        has("algorithm", algorithm, ("bound", "plan"), "an algorithm: agent.algorithm")
        kind("privacy", privacy, DistributedDP)
        self.batch: ShareBatch = kind("batch", batch, ShareBatch)
        self._algorithm = algorithm
        self._source = SecureSource() if noise is None else check_source(noise)
        bound = algorithm.bound
        self._noise = share_noise(bound, privacy, batch.largest)
        expected = (self._noise.honest(batch.users), bound.size, self._noise.modulus(bound.largest))
        if (batch.least, batch.size, batch.modulus) != expected:
            raise InvalidParameter("the batch was made for another guarantee or another bound")
        self.guarantee = Guarantee(
            self._noise.loss(privacy.delta),
            privacy,
            Trust.DISTRIBUTED,
            batch.users,
            self._source.name,
        )
        # It chooses one of a round's policies. It is drawn once, before there are data.
        self._policy_number = int.from_bytes(self._source.token(16))
        # The round that was planned last, with the generation of its release.
        self._planned: tuple[Round, int] | None = None
        self._contributed = False
        # Two threads that ask at once must not draw two shares.
        self._lock = threading.Lock()
        # A fork of this process must not draw another share.
        self._process = os.getpid()
        if store is not None:
            kind("store", store, StateFile, str, Path)
        self._store = StateFile(store) if isinstance(store, str | Path) else store

    def plan(self, released: Released | bytes) -> Policy:
        """Return the policy of this device's user, planned from what is public.

        Each of a round's policies serves its share of the users.
        """
        return self.adopt(
            *plan_on_device(self._algorithm, released, self.guarantee, self.batch.size)
        )

    def adopt(self, planned: Round, generation: int) -> Policy:
        """Do what `plan` does, with a round that somebody has planned from the same release.

        A simulation does not plan again for every user.
        """
        if generation != self.batch.generation:
            raise StaleMessage(
                f"the batch plans from release {self.batch.generation}, "
                f"got release {generation}: use the batch of that release"
            )
        if planned.digest != self.batch.round:
            raise AnotherRound(
                "the batch is of another round than this device plans from the same release, "
                "because the server has another kind of processor or other versions: "
                "this device cannot take part"
            )
        self._planned = planned, generation
        return planned.draw_policy(self._policy_number)

    def contribute(self, trajectory: Trajectories, aggregate: Aggregate) -> None:
        """Bound what this user did, add a share of the noise, and call `aggregate(batch, share)`.

        This happens once. If `aggregate` fails, nobody knows what it has sent, so the device does
        not try again.
        """
        if not callable(aggregate):
            raise InvalidParameter(
                "aggregate must be a function of a batch and a share, which runs secure aggregation"
            )
        if self._planned is None:
            raise InvalidParameter(
                "a contribution is about an episode that was planned: call plan first"
            )
        contribution = contribution_on_device(self._planned[0], trajectory, self._algorithm.bound)
        with self._lock:
            self._contribute_once()
            numbers = self._noise.add(contribution.values, self.batch.users, 1, self._source)
        aggregate(self.batch, DeviceShare(numbers % self.batch.modulus))

    def _contribute_once(self) -> None:
        """Record that no further share may be drawn, on the disk if there is a store."""
        if os.getpid() != self._process:
            raise StateError(
                "a fork of the process has a copy of this device: "
                "contribute in the process that made it"
            )
        if self._contributed or (self._store is not None and self._store.exists()):
            raise PrivacyError(
                "this device has contributed: another share of its data would have other noise"
            )
        if self._store is not None:
            # The store refuses to write one generation twice. So only one of two devices with the
            # same store goes on.
            self._store.write(pack("share-client", 1, {"batch": self.batch.id.hex()}, {}))
        self._contributed = True

    def __repr__(self) -> str:
        return f"ShareClient({self.guarantee})"

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a device cannot be copied or pickled: two copies would noise the same data twice"
        )
