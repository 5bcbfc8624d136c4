"""A user's device under local and distributed privacy: it plans from releases, and sends one noisy message in total."""

import threading
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from confide.arguments import has, kind
from confide.errors import ConfideError, InvalidParameter, PrivacyError, StateError
from confide.mechanisms.sources import NoiseSource, SecureSource, check_source
from confide.mechanisms.state import StateFile, pack, unpack
from confide.policy import Policy
from confide.privacy.bounded import Bound, Bounded, Released
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import Request, requested
from confide.privatizers.distributed import Place
from confide.privatizers.message import Channel, open_channel, report_channel
from confide.privatizers.wire import decode_release
from confide.trajectory import Trajectories

if TYPE_CHECKING:
    from confide.learning.learner import Algorithm, Round


class LocalClient:
    """One device, one user, one report.

    Guarantee: everything that ever leaves the device about the user is one message, and that keeps `privacy` against everybody, whatever
    the server sends to be planned with. What the user did is bounded and noised here; an episode that makes no sense contributes zero
    under the same noise, without an error that somebody could see.

    Without `noise` the device uses the secure source. `loss` is the server's (`server.loss`): None but for printed constants, which add
    more noise than is needed; a message with other noise than the server counts on is refused there. Under `DistributedDP` the message has
    a share of the noise and is masked, and `channel` is the device's place in its batch. A device that may restart needs a `store` (or
    keeps `save()` itself before it sends): a message that was forgotten would be noised again, and two of them tell more than one. A
    person with k devices is k users.
    """

    def __init__(
        self,
        algorithm: "Algorithm",
        privacy: Request,
        noise: NoiseSource | None = None,
        *,
        loss: Loss | None = None,
        channel: Channel | Place | None = None,
        store: StateFile | str | Path | None = None,
    ) -> None:
        self._source = SecureSource() if noise is None else check_source(noise)
        has("algorithm", algorithm, ("bound", "plan"), "an algorithm: agent.algorithm")
        requested(privacy)
        if channel is not None:
            kind("channel", channel, Channel, Place)
        if store is not None:
            kind("store", store, StateFile, str, Path)
        self._algorithm = algorithm
        self._changing = bool(getattr(algorithm, "changing", False))  # what a round's users contribute is decided from releases
        self._channel = channel or self._opened(algorithm.bound, privacy, loss)
        fits = self._changing or self._channel.bound == algorithm.bound
        if self._channel.guarantee.request != privacy or not fits:
            raise InvalidParameter("the channel was made for another guarantee or another bound")
        self._which = int.from_bytes(self._source.token(16))  # of several policies: drawn once, before there are any data
        self._planned: tuple[Round, int] | None = None  # with the generation of its release
        self._sent = b""
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
    def channel(self) -> Channel | Place:
        """How its contribution becomes a message. Public."""
        return self._channel

    def plan(self, released: Released | bytes) -> Policy:
        """The policy of this device's user, from what is public: each of a round's policies serves its share of the users."""
        if not isinstance(released, Released):
            released = decode_release(released, self._channel.guarantee)
        if not self._changing and released.values.shape != (self._channel.bound.size,):
            raise InvalidParameter(f"a release must have {self._channel.bound.size} numbers, got shape {released.values.shape}")
        if not (np.isfinite(released.values).all() and 0 <= released.noise.std < np.inf):
            raise InvalidParameter("a release must be finite, and so must its noise")
        if not (0 <= released.generation < 2**63 and 0 <= released.users < 2**63):
            raise InvalidParameter("a release must be of a whole number of users and generations")
        try:
            planned = self._algorithm.plan(released)
        except ConfideError:
            raise
        except Exception as error:  # of what a server sent: the user's data are not in it
            raise InvalidParameter(f"the release does not fit this algorithm: {type(error).__name__}") from None
        return self.adopt(planned, released.generation)

    def adopt(self, planned: "Round", generation: int) -> Policy:
        """`plan`, by somebody who has planned from the same release already: a simulation does not do it again for every user."""
        if self._changing and planned.size is not None and planned.size[0] != self._channel.bound:
            self._channel = report_channel(planned.size[0], self._channel.guarantee.request, source=self._source)
        self._planned = planned, generation
        return planned.drawn(self._which)

    def report(self, trajectory: Trajectories) -> bytes:
        """The message about this user's episode. Asked again, about whatever episode, it is the same one."""
        with self._lock:
            if not self._sent:
                if self._planned is None:
                    raise InvalidParameter("a report is about an episode that was planned: call plan first")
                planned, generation = self._planned
                contribution = self._contribution(planned, trajectory)
                sent = self._channel.message(contribution, generation, self._source).to_bytes()
                if self._store is not None:
                    self._store.write(self._pack(sent))
                self._sent = sent
            return self._sent

    def _contribution(self, planned: "Round", trajectory: Trajectories) -> Bounded:
        if not isinstance(trajectory, Trajectories) or trajectory.users != 1:
            raise InvalidParameter("a device reports the Trajectories of exactly one user")
        try:
            with np.errstate(all="ignore"):  # neither may a warning depend on the data
                return planned.statistic.contribution(trajectory)
        except Exception:  # an error tells whoever sees it, or misses the message, something about the data
            return Bounded(np.zeros(self._channel.bound.size), self._channel.bound)

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
        return pack("client", 1 if sent else 0, facts, {"sent": np.frombuffer(sent, dtype=np.uint8)})

    def _made_for(self) -> str:
        return f"{self._channel.guarantee.request!r}, {self._algorithm.bound!r}"
