"""A user's device under local privacy: it plans from releases, and sends one noisy message.

What leaves this file: the message, and the saved state of the device, which has nothing but what
was sent. If the content of the state changes, its name in `pack` must change.
"""

import os
import threading
from pathlib import Path
from typing import NoReturn

import numpy as np

from confide.arguments import has, kind
from confide.errors import InvalidParameter, PrivacyError, StateError
from confide.identity import identify
from confide.learning.algorithm import Algorithm, Round
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


class LocalClient:
    """One device, one user, one report.

    Guarantee: one message is all that ever leaves the device about the user. It keeps `privacy`
    against everybody, whatever the server sends for planning. What the user did is bounded and
    noised here. An episode that makes no sense contributes zero under the same noise, without an
    error that somebody could see.

    - `noise` None: the device uses the secure source.
    - `loss` is that of the server (`server.loss`). It is None unless the constants of a paper add
      more noise than is needed. The server refuses messages with other noise than its own.
    - `store`: a device that may restart needs one, or keeps `save()` itself before it sends.
      Otherwise a message that was forgotten would be noised again, and two messages tell more than
      one. Without a store nobody knows of a second device of the same user. Such a device must be
      made after a fork, because a process that was forked refuses to report.

    A person with k devices is k users. Under `DistributedDP` a device is a `ShareClient`.
    """

    def __init__(
        self,
        algorithm: Algorithm,
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
        # Whether releases decide the bound of what the users of a round contribute.
        self._bound_changes = bool(getattr(algorithm, "changing", False))
        self._channel = channel or self._open_channel(algorithm.bound, privacy, loss)
        fits = self._bound_changes or self._channel.bound == algorithm.bound
        if self._channel.guarantee.request != privacy or not fits:
            raise InvalidParameter("the channel was made for another guarantee or another bound")
        # It chooses one of a round's policies. It is drawn once, before there are data.
        self._policy_number = int.from_bytes(self._source.token(16))
        # The round that was planned last, with the generation of its release.
        self._planned: tuple[Round, int] | None = None
        # The message, once it was made.
        self._sent = b""
        self._process = os.getpid()
        # Two threads that ask at once must not make two messages.
        self._lock = threading.Lock()
        self._store = StateFile(store) if isinstance(store, str | Path) else store
        if self._store is not None and self._store.exists():
            self.restore(self._store.read())

    def _open_channel(self, bound: Bound, privacy: Request, loss: Loss | None) -> Channel:
        if self._bound_changes:
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
        """Return the policy of this device's user, planned from what is public.

        Each of a round's policies serves its share of the users.
        """
        size = None if self._bound_changes else self._channel.bound.size
        return self.adopt(*plan_on_device(self._algorithm, released, self._channel.guarantee, size))

    def adopt(self, planned: Round, generation: int) -> Policy:
        """Do what `plan` does, with a round that somebody has planned from the same release.

        A simulation does not plan again for every user.
        """
        if self._bound_changes and planned.size is not None:
            bound, _ = planned.size
            if bound != self._channel.bound:
                request = self._channel.guarantee.request
                self._channel = report_channel(bound, request, source=self._source)
        self._planned = planned, generation
        return planned.draw_policy(self._policy_number)

    def report(self, trajectory: Trajectories) -> bytes:
        """Return the message about this user's episode.

        Every later call returns the same message, whatever episode it is about.
        """
        with self._lock:
            if not self._sent:
                self._check_alone()
            if not self._sent:
                message = self._make_message(trajectory)
                if self._store is not None:
                    self._store.write(self._pack(message))
                self._sent = message
            return self._sent

    def _make_message(self, trajectory: Trajectories) -> bytes:
        """Draw the noise. This happens once in the life of a device."""
        if self._planned is None:
            raise InvalidParameter("a report is about an episode that was planned: call plan first")
        planned, generation = self._planned
        contribution = contribution_on_device(planned, trajectory, self._channel.bound)
        message = self._channel.message(contribution, generation, self._source, planned.digest)
        return message.to_bytes()

    def _check_alone(self) -> None:
        """Make sure, before noise is drawn, that no other device of the user has sent anything.

        What another device with this store has sent is taken over. A copy that a fork made is
        refused.
        """
        if self._store is not None:
            if self._store.exists():
                self.restore(self._store.read())
        elif os.getpid() != self._process:
            raise PrivacyError(
                "a device without a store was copied by a fork, and both copies would noise "
                "the same data: pass store="
            )

    def save(self) -> bytes:
        """Return what was sent, so that the device sends the same bytes after a restart.

        There are no data in it, and nothing that was not sent.
        """
        return self._pack(self._sent)

    def restore(self, data: bytes) -> None:
        """Go on from what `save` returned."""
        state = unpack(data, "client", released=1 if self._sent else 0)
        sent = state.arrays["sent"].tobytes()
        if state.facts["made_for"] != self._settings():
            raise StateError("the state is of a device with another guarantee or another bound")
        if self._sent not in (b"", sent):
            raise StateError("this device has sent another message already")
        self._sent = sent
        self._policy_number = int(state.facts["which"])

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a device cannot be copied or pickled: two copies would noise the same data twice; "
            "use save and restore"
        )

    def _pack(self, sent: bytes) -> bytes:
        facts = {"made_for": self._settings(), "which": str(self._policy_number)}
        arrays = {"sent": np.frombuffer(sent, dtype=np.uint8)}
        return pack("client", 1 if sent else 0, facts, arrays)

    def _settings(self) -> str:
        return identify(self._channel.guarantee.request, self._algorithm.bound)
