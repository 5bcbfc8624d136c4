"""The privatizer of local privacy: every user's device adds noise, and a server that need not be trusted sums the messages."""

import json
import math
from dataclasses import replace
from typing import ClassVar, NoReturn

import numpy as np

from confide.arguments import array, flag, kind, private_kind
from confide.errors import (
    DuplicateMessage,
    InvalidParameter,
    PrivacyError,
    StaleMessage,
    StateError,
)
from confide.identity import identify
from confide.mechanisms.additive import AdditiveNoise
from confide.mechanisms.codebook import Report
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.sources import FastSource, NoiseSource
from confide.mechanisms.state import pack, unpack
from confide.privacy.bounded import Array, Bound, Bounded, NoiseLevel, Released
from confide.privacy.certificate import Mechanism, describe
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import Request
from confide.privatizers.message import Channel, Message, local_noise, open_channel
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.schedule import Schedule, check_batch, check_left


def channel_mechanism(channel: Channel, simulated: int) -> Mechanism:
    """What a certificate says of messages through this channel; those of so many users were simulated."""
    noise, how = (
        channel.noise,
        "one Gaussian sum with the messages' variance" if channel.kind == "index" else "one sum",
    )
    said = f"; simulated for {simulated} users, whose noise was drawn as {how}" if simulated else ""
    made = Mechanism(
        name="local",
        distribution=noise.distribution,
        norm=noise.norm,
        sensitivity=noise.radius if isinstance(noise, Report) else noise.sensitivity,
        scale=noise.std if isinstance(noise, Report) else noise.scale,
        bound=describe(channel.bound),
        query=f"one message from each user's device{said}",
        simulated=simulated > 0,
    )
    return (
        replace(made, parameters=noise.parameters)
        if isinstance(noise, Report)
        else replace(made, lattice=noise.step)
    )


def current(message: Message, channel: Channel, generation: int) -> Array:
    """What a message says, if it was planned with this release."""
    kind("message", message, Message)
    if message.generation != generation:
        raise StaleMessage(
            f"the message was planned with release {message.generation}, the current one is {generation}: it is stale"
        )
    return channel.decode(message)


def decoded_sum(total: Array, users: int, channel: Channel) -> Array:
    """The sum of so many decoded messages, from outside. It may be any numbers, but of nobody it is zero."""
    values: Array = array("total", total, ndim=1)
    if values.shape != (channel.bound.size,):
        raise InvalidParameter(f"total must have shape ({channel.bound.size},), got {values.shape}")
    if users == 0 and values.any():
        raise InvalidParameter("total must be zero for zero users")
    return values


class LocalPrivatizer:
    """Adds up messages, each of them noised where it was made, and releases the sum at the schedule's times.

    Guarantee: that of the channel, made by the devices; here nothing is private any more, and no release costs anything. So there is no
    store either: messages that a crash loses are asked for again, and come back as the same bytes.

    A message that was planned with another release, or comes twice, is refused.
    """

    devices: ClassVar[bool] = True

    def __init__(
        self,
        bound: Bound,
        schedule: Schedule,
        *,
        privacy: Request,
        noise: NoiseSource,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
    ) -> None:
        if counter is not None:
            raise InvalidParameter(
                "messages go through no counter: each of them is noised once, on its device"
            )
        self.schedule: Schedule = kind("schedule", schedule, Schedule)
        self.channel: Channel = open_channel(
            bound, privacy, source=noise, users=schedule.users, loss=loss
        )
        self._source = noise.fork()
        self._prefix: Array = np.zeros(bound.size)  # as of the last release
        self._open: Array = np.zeros(bound.size)  # the messages since
        # of the messages since: earlier ones are stale whatever their nonce
        self._nonces: set[bytes] = set()
        self._users = self._begun = self._generation = self._simulated = 0

    @property
    def guarantee(self) -> Guarantee:
        return self.channel.guarantee

    @property
    def users(self) -> int:
        """How many messages were absorbed."""
        return self._users

    @property
    def generation(self) -> int:
        """How many releases were made."""
        return self._generation

    @property
    def batch(self) -> tuple[int, int]:
        return self._begun, self._begun + self.schedule.size(self.generation)

    def __repr__(self) -> str:
        return f"LocalPrivatizer({self.schedule.leaves} releases, {self.users} users so far, {self.guarantee})"

    def mechanism(self) -> Mechanism:
        """What a certificate says of the messages."""
        return channel_mechanism(self.channel, self._simulated)

    def device_source(self) -> NoiseSource:
        """Noise for one more device, of this server's kind: for devices that live in the same process."""
        return self._source.device()

    def device_channel(self) -> Channel:
        """How one more device makes its message: as all others do."""
        return self.channel

    def receive(self, message: Message) -> None:
        """One device's message; a refused one changes nothing."""
        self._check_room(1)
        values = self.decoded(message)
        if message.nonce in self._nonces:
            raise DuplicateMessage("this message was absorbed before")
        self._nonces.add(message.nonce)
        self._take(values, 1)

    def decoded(self, message: Message) -> Array:
        """What a message of the open batch adds to its sum."""
        return current(message, self.channel, self._generation)

    def absorb(self, contribution: Bounded) -> None:
        """SIMULATION: what the messages of `contribution.users` devices would add up to. The noise is drawn here, at once.

        In law, for additive noise: the sum of n Gaussian draws is Gaussian, of n Laplace draws a difference of two Gamma(n) ones. The
        noise of a codebook is exactly Gaussian in all directions but one for each user, that of the contribution, which a sum does not
        tell: there, too, a Gaussian variable of the same variance is drawn. That is an approximation, and the certificate says so.

        No message comes this way: it takes a contribution before its noise, which no server of real users has. Needs fast noise.
        """
        private_kind("contribution", contribution, Bounded)
        source, noise, users = self._source, self.channel.noise, contribution.users
        if not isinstance(source, FastSource):
            raise PrivacyError(
                "no server of real users takes contributions under LocalDP: each device sends its own message (agent.client()); "
                "crowds are for simulations, which have fast noise"
            )
        if (
            contribution.bound is not self.channel.bound
            and contribution.bound != self.channel.bound
        ):
            raise InvalidParameter(
                "the contribution was clipped by another bound than the privatizer's"
            )
        self._check_room(users)
        if isinstance(noise, AdditiveNoise) and noise.distribution == "laplace":
            drawn = source.laplace_sum(noise.scale, users, self._open.shape)
        else:
            drawn = source.gaussian(noise.std * math.sqrt(users), self._open.shape)
        self._simulated += users
        self._take(contribution.values + drawn, users)

    def release(self) -> Released:
        """The sum as of the last release time. Asking again gives the same answer."""
        level = NoiseLevel(
            self.channel.noise.std * math.sqrt(self._begun), self.channel.noise.distribution
        )
        return Released(self._prefix.copy(), level, self.guarantee, self._begun, self._generation)

    def save(self) -> bytes:
        """Everything needed to go on. With fast noise PRIVATE: it decides the noise of the devices made next."""
        facts = {
            "made_for": self._made_for(),
            "users": self._users,
            "begun": self._begun,
            "simulated": self._simulated,
            "noise": self._source.state(),
        }
        nonces = np.frombuffer(b"".join(sorted(self._nonces)), dtype=np.uint8)
        return pack(
            "local",
            self._generation,
            facts,
            {"prefix": self._prefix, "open": self._open, "nonces": nonces},
        )

    def restore(self, data: bytes, *, released: int, resume: bool = False) -> None:
        """Take over a saved state, into a privatizer made with the same arguments; older than generation `released` it is refused.

        Devices made after this have fresh noise: one that was made between the save and a crash may have used the next draws already, and
        two messages with the same noise cancel it. A simulated run that `resume`s repeats its own devices, and so their draws.
        """
        if self._users:
            raise StateError("this privatizer has already absorbed data: restore into a new one")
        state = unpack(data, "local", released=released)
        if state.facts["made_for"] != self._made_for():
            raise StateError(
                "the state belongs to a privatizer with another bound, schedule, loss or source"
            )
        self._prefix, self._open = state.arrays["prefix"], state.arrays["open"]
        nonces = state.arrays["nonces"].tobytes()
        self._nonces = {nonces[at : at + 16] for at in range(0, len(nonces), 16)}
        self._users, self._begun, self._simulated = (
            state.facts[name] for name in ("users", "begun", "simulated")
        )
        self._generation = state.generation
        if resume:
            self._source.restore(state.facts["noise"])
        else:
            self._source.refresh()

    @classmethod
    def expected_noise(
        cls,
        bound: Bound,
        schedule: Schedule,
        *,
        privacy: Request,
        discrete: bool,
        counter: Factorisation | None = None,  # noqa: ARG003 - there is none
        loss: Loss | None = None,
    ) -> ExpectedNoise:
        kind("schedule", schedule, Schedule), flag("discrete", discrete)
        made = local_noise(bound, privacy, discrete=discrete, users=schedule.users, loss=loss)
        size = made.radius if isinstance(made, Report) else made.sensitivity
        first, last = (made.std * math.sqrt(users) for users in (schedule.times[0], schedule.users))
        return ExpectedNoise(
            "local",
            made.distribution,
            made.norm,
            size,
            made.loss(),
            first=first,
            last=last,
            worst=last,
        )

    def __reduce__(self) -> NoReturn:
        raise PrivacyError(
            "a privatizer cannot be copied or pickled: two copies would give two devices the same noise; use save and restore"
        )

    def _check_room(self, users: int) -> None:
        check_left(self.schedule, self.generation)
        edge, after = self.batch[1], self._users + users
        if after > edge:
            raise InvalidParameter(
                f"users {self._users + 1} to {after} cross the release after user {edge}: split them there"
            )

    def _take(self, values: Array, users: int) -> None:
        self._open = self._open + values
        self._users += users
        if self._users == self.batch[1]:
            self.close()

    def close(self, total: Array | None = None, users: int = 0) -> None:
        """Release now, with the messages of the open batch that are here. Nothing is private here any more."""
        check_left(self.schedule, self.generation)
        if total is not None:
            check_batch(self.schedule.users, self._begun, self._users, users)
            self._open = decoded_sum(total, users, self.channel)
            self._users += users
        self._prefix, self._open = self._prefix + self._open, np.zeros_like(self._open)
        self._nonces = set()
        self._generation += 1
        self._begun = self._users

    def _made_for(self) -> str:
        """All that must agree between the privatizer that was saved and the one that goes on."""
        public = replace(self.mechanism(), query="", simulated=False).to_json() | {
            "schedule": identify(self.schedule),
            "source": self._source.name,
        }
        return json.dumps(public, sort_keys=True)
