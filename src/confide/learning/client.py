"""A user's device under local privacy: it plans from releases, and sends one noisy message in total."""

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from confide.arguments import has, kind
from confide.errors import InvalidParameter, PrivacyError, StateError
from confide.identity import identify
from confide.learning.device import contribution_on_device, plan_on_device
from confide.mechanisms.sources import NoiseSource, SecureSource, check_source
from confide.mechanisms.state import StateFile, pack, unpack
from confide.policy import Policy
from confide.privacy.bounded import Bound, Released
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import Request, check_privacy_request
from confide.privatizers.message import Channel, open_channel, report_channel
from confide.trajectory import Trajectories

if TYPE_CHECKING:
    from confide.learning.algorithm import Algorithm, Round


class LocalClient:
    """One device, one user, one report.

    Guarantee: everything that ever leaves the device about the user is one message, and that keeps `privacy` against everybody, whatever
    the server sends to be planned with. What the user did is bounded and noised here; an episode that makes no sense contributes zero
    under the same noise, without an error that somebody could see.

    Without `noise` the device uses the secure source. `loss` is the server's (`server.loss`): None but for printed constants, which add
    more noise than is needed; a message with other noise than the server counts on is refused there. A device that may restart needs a
    `store` (or keeps `save()` itself before it sends): a message that was forgotten would be noised again, and two of them tell more than
    one. Without a store, nobody knows of a second device of the same user: keep one, and make it after a fork, because a process that was
    forked refuses to report. A person with k devices is k users. Under `DistributedDP` a device is a `ShareClient`.
    """

    def __init__(
        self,
        algorithm: "Algorithm",
        privacy: Request,
        noise: NoiseSource | None = None,
        *,
        loss: Loss | None = None,
        channel: Channel | None = None,
        store: StateFile | str | Path | None = None,
    ) -> None:
        self._source = SecureSource() if noise is None else check_source(noise)
        has("algorithm", algorithm, ("bound", "plan"), "an algorithm: agent.algorithm")
        check_privacy_request(privacy)
        if channel is not None:
            kind("channel", channel, Channel)
        if store is not None:
            kind("store", store, StateFile, str, Path)
        self._algorithm = algorithm
        # what a round's users contribute is decided from releases
        self._changing = bool(getattr(algorithm, "changing", False))
        self._channel = channel or self._opened(algorithm.bound, privacy, loss)
        fits = self._changing or self._channel.bound == algorithm.bound
        if self._channel.guarantee.request != privacy or not fits:
            raise InvalidParameter("the channel was made for another guarantee or another bound")
        # of several policies: drawn once, before there are any data
        self._which = int.from_bytes(self._source.token(16))
        self._planned: tuple[Round, int] | None = None  # with the generation of its release
        self._sent = b""
        self._process = os.getpid()
        self._lock = threading.Lock()  # two threads that ask at once must not make two messages
        self._store = StateFile(store) if isinstance(store, str | Path) else store
        if self._store is not None and self._store.exists():
            self.restore(self._store.read())

    def _opened(self, bound: Bound, privacy: Request, loss: Loss | None) -> Channel:
        if self._changing:
            return report_channel(bound, privacy, source=self._source)
        return open_channel(bound, privacy, source=self._source, loss=loss)

    @property
    def guarantee(self) -> Guarantee:
        return self._channel.guarantee

    @property
    def channel(self) -> Channel:
        """How its contribution becomes a message. Public."""
        return self._channel

    def plan(self, released: Released | bytes) -> Policy:
        """The policy of this device's user, from what is public: each of a round's policies serves its share of the users."""
        size = None if self._changing else self._channel.bound.size
        return self.adopt(*plan_on_device(self._algorithm, released, self._channel.guarantee, size))

    def adopt(self, planned: "Round", generation: int) -> Policy:
        """`plan`, by somebody who has planned from the same release already: a simulation does not do it again for every user."""
        if self._changing and planned.size is not None and planned.size[0] != self._channel.bound:
            self._channel = report_channel(
                planned.size[0], self._channel.guarantee.request, source=self._source
            )
        self._planned = planned, generation
        return planned.draw_policy(self._which)

    def report(self, trajectory: Trajectories) -> bytes:
        """The message about this user's episode. Asked again, about whatever episode, it is the same one."""
        with self._lock:
            if not self._sent:
                self._check_alone()
            if not self._sent:
                if self._planned is None:
                    raise InvalidParameter(
                        "a report is about an episode that was planned: call plan first"
                    )
                planned, generation = self._planned
                contribution = contribution_on_device(planned, trajectory, self._channel.bound)
                sent = self._channel.message(
                    contribution, generation, self._source, planned.digest
                ).to_bytes()
                if self._store is not None:
                    self._store.write(self._pack(sent))
                self._sent = sent
            return self._sent

    def _check_alone(self) -> None:
        """Before noise is drawn: what another device with this store has sent is taken over, and a copy that a fork made is refused."""
        if self._store is not None:
            if self._store.exists():
                self.restore(self._store.read())
        elif os.getpid() != self._process:
            raise PrivacyError(
                "a device without a store was copied by a fork, and both copies would noise the same data: pass store="
            )

    def save(self) -> bytes:
        """What was sent, if anything was: after a restart the same bytes. No data, and nothing that was not sent."""
        return self._pack(self._sent)

    def restore(self, data: bytes) -> None:
        state = unpack(data, "client", released=1 if self._sent else 0)
        sent = state.arrays["sent"].tobytes()
        if state.facts["made_for"] != self._made_for():
            raise StateError("the state is of a device with another guarantee or another bound")
        if self._sent not in (b"", sent):
            raise StateError("this device has sent another message already")
        self._sent, self._which = sent, int(state.facts["which"])

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a device cannot be copied or pickled: two copies would noise the same data twice; use save and restore"
        )

    def _pack(self, sent: bytes) -> bytes:
        facts = {"made_for": self._made_for(), "which": str(self._which)}
        return pack(
            "client", 1 if sent else 0, facts, {"sent": np.frombuffer(sent, dtype=np.uint8)}
        )

    def _made_for(self) -> str:
        return identify(self._channel.guarantee.request, self._algorithm.bound)
