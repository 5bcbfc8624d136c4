"""The privatizer of rounds under local privacy: each round asks other users other things, and every device answers by one index."""

import math
from typing import ClassVar

import numpy as np

from confide.arguments import kind
from confide.errors import DuplicateMessage, InvalidParameter, PrivacyError, StreamExhausted
from confide.mechanisms.additive import check_bound
from confide.mechanisms.codebook import best_report
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.sources import FastSource, NoiseSource
from confide.mechanisms.state import pack, unpack
from confide.privacy.bounded import Array, Bound, Bounded, NoiseLevel
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import Request
from confide.privatizers.local import channel_mechanism, current, decoded_sum
from confide.privatizers.message import Channel, Message, report_channel
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.rounds import RoundsPrivatizer
from confide.privatizers.schedule import AtMost


class LocalRoundsPrivatizer(RoundsPrivatizer):
    """Adds up the messages of one round after the other, each of them noised where it was made.

    Guarantee: that of the channel, epsilon-DP for whoever reads the message, whatever the round asks: a report by index is private for
    arbitrary contributions. What a round asks and how many users it has is decided by `open`, from earlier messages, which costs nothing.

    A message that was planned with another release, or comes twice, is refused.
    """

    devices: ClassVar[bool] = True

    def __init__(
        self,
        bound: Bound,
        schedule: AtMost,
        *,
        privacy: Request,
        noise: NoiseSource,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
    ) -> None:
        kind("schedule", schedule, AtMost)
        self._channel: Channel = report_channel(bound, privacy, source=noise, users=schedule.users)
        # of the open round: earlier messages are stale whatever their nonce
        self._nonces: set[bytes] = set()
        self._simulated = 0
        super().__init__(bound, schedule, privacy=privacy, noise=noise, counter=counter, loss=loss)

    def _check_trust(self, privacy: Request) -> None:
        """The channel has: it is for LocalDP."""

    @property
    def guarantee(self) -> Guarantee:
        return self._channel.guarantee

    def device_source(self) -> NoiseSource:
        """Noise for one more device, of this server's kind: for devices that live in the same process."""
        return self._source.device()

    def device_channel(self) -> Channel:
        """How a device of the open round makes its message."""
        return self._channel

    def open(self, bound: Bound, users: int) -> None:
        super().open(bound, users)
        if self._channel.bound != self._bound:
            self._channel = report_channel(
                self._bound, self._privacy, source=self._source, users=self.schedule.users
            )

    def receive(self, message: Message) -> None:
        """One device's message; a refused one changes nothing."""
        self._check_whole()
        self._check_room(1)
        values = self.decoded(message)
        if message.nonce in self._nonces:
            raise DuplicateMessage("this message was absorbed before")
        self._nonces.add(message.nonce)
        self._take(values, 1)

    def decoded(self, message: Message) -> Array:
        """What a message of the open round adds to its sum."""
        return current(message, self._channel, self._generation)

    def _checked(self, total: Array, users: int) -> Array:
        return decoded_sum(total, users, self._channel)

    def absorb(self, contribution: Bounded) -> None:
        """SIMULATION: what the messages of `contribution.users` devices would add up to, with Gaussian noise of their variance.

        No message comes this way: it takes a contribution before its noise, which no server of real users has. Needs fast noise.
        """
        self._check_whole()
        if not isinstance(self._source, FastSource):
            raise PrivacyError(
                "no server of real users takes contributions under LocalDP: each device sends its own message (agent.client()); "
                "crowds are for simulations, which have fast noise"
            )
        self._check_room(contribution.users)
        if contribution.bound != self._bound:
            raise InvalidParameter("the contribution was clipped by another bound than the round's")
        std = self._channel.noise.std * math.sqrt(contribution.users)
        self._simulated += contribution.users
        self._take(
            contribution.values + self._source.gaussian(std, self._leaf.shape), contribution.users
        )

    def _check_room(self, users: int) -> None:
        if self._users == self.schedule.users:
            raise StreamExhausted(
                f"the guarantee covers {self.schedule.users} users, and all were absorbed"
            )
        start, edge = self.batch
        if self._users + users > edge:
            raise InvalidParameter(
                f"the round has {edge - start} users: {users} more would be too many"
            )

    def _take(self, values: Array, users: int) -> None:
        self._leaf = self._leaf + values
        self._users += users
        if self._users == self.batch[1]:
            self._close()

    def _close(self) -> None:
        """The messages have their noise already."""
        noise, self._last = self._channel.noise, self._leaf
        self._level = NoiseLevel(
            noise.std * math.sqrt(self._users - self._begun), noise.distribution
        )
        self._next()
        self._nonces = set()

    def mechanism(self) -> Mechanism:
        """Of the open round: how many numbers a message is about changes from round to round, and its epsilon does not."""
        return channel_mechanism(self._channel, self._simulated)

    def save(self) -> bytes:
        """Everything needed to go on. With fast noise PRIVATE: it decides the noise of the devices made next."""
        nonces = np.frombuffer(b"".join(sorted(self._nonces)), dtype=np.uint8)
        own = {"inner": np.frombuffer(super().save(), dtype=np.uint8), "nonces": nonces}
        return pack("local-rounds", self._generation, {"simulated": self._simulated}, own)

    def restore(self, data: bytes, *, released: int, resume: bool = False) -> None:
        """Devices made after this have fresh noise, except in a simulated run that `resume`s: see `LocalPrivatizer.restore`."""
        state = unpack(data, "local-rounds", released=released)
        super().restore(state.arrays["inner"].tobytes(), released=released, resume=resume)
        nonces = state.arrays["nonces"].tobytes()
        self._nonces = {nonces[at : at + 16] for at in range(0, len(nonces), 16)}
        self._simulated = state.facts["simulated"]
        if not resume:
            self._source.refresh()

    @classmethod
    def expected_noise(
        cls,
        bound: Bound,
        schedule: AtMost,
        *,
        privacy: Request,
        discrete: bool,  # noqa: ARG003 - an index is whole
        counter: Factorisation | None = None,  # noqa: ARG003
        loss: Loss | None = None,  # noqa: ARG003
    ) -> ExpectedNoise:
        """For rounds that ask for as many numbers as `bound` has: of a round of one user, and of one of all users."""
        check_bound(bound)
        made = best_report(bound, privacy.epsilon)
        last = made.std * math.sqrt(schedule.users)
        return ExpectedNoise(
            "local", made.distribution, made.norm, made.radius, made.loss(), made.std, last, last
        )
