"""The privatizer of local privacy: every user's device adds noise, and a server that need not be trusted sums the messages."""

import json
import math
from dataclasses import replace
from typing import ClassVar

import numpy as np

from confide.arguments import array, flag, kind
from confide.errors import InvalidParameter, PrivacyError, StaleMessage
from confide.identity import identify
from confide.mechanisms.additive import AdditiveNoise, check_bound
from confide.mechanisms.codebook import Report, best_report
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.sources import FastSource, NoiseSource
from confide.privacy.bounded import Array, Bound, Bounded, NoiseLevel, Released
from confide.privacy.certificate import Mechanism, describe
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import Request
from confide.privatizers.batches import Arrays, Batches, Facts, check_bound_of
from confide.privatizers.message import (
    Channel,
    Message,
    local_noise,
    open_channel,
    report_channel,
)
from confide.privatizers.privatizer import ExpectedNoise
from confide.privatizers.rounds import refuse_options
from confide.privatizers.schedule import AtMost, Schedule


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


class MessageNoise:
    """Nothing is drawn here: each message was noised where it was made, and the server adds messages up.

    Guarantee: that of the channel, made by the devices; here nothing is private any more, and no release costs anything. A schedule's
    releases are prefix sums. A round is about its own users alone, and by an index (`report_channel`), which is epsilon-DP for arbitrary
    contributions; what it asks, and how many users it has, is decided by `open`, from earlier messages.
    """

    devices: ClassVar[bool] = True
    resumes_batch: ClassVar[bool] = True
    modulus: ClassVar[None] = None

    def __init__(
        self,
        bound: Bound,
        schedule: Schedule | AtMost,
        *,
        privacy: Request,
        noise: NoiseSource,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
    ) -> None:
        self._users, self._privacy = schedule.users, privacy
        self._rounds = isinstance(schedule, AtMost)
        if self._rounds:
            refuse_options(counter, loss)
            self.channel = report_channel(bound, privacy, source=noise, users=self._users)
        elif counter is not None:
            raise InvalidParameter(
                "messages go through no counter: each of them is noised once, on its device"
            )
        else:
            self.channel = open_channel(bound, privacy, source=noise, users=self._users, loss=loss)
        self.source = noise.fork()
        self._summed: Array = np.zeros(0 if self._rounds else bound.size)
        distribution = "none" if self._rounds else self.channel.noise.distribution
        self._level = NoiseLevel(0.0, distribution)
        self._seen = 0

    @property
    def bound(self) -> Bound:
        return self.channel.bound

    @property
    def guarantee(self) -> Guarantee:
        return self.channel.guarantee

    def open(self, bound: Bound) -> None:
        if self.channel.bound != bound:
            self.channel = report_channel(
                bound, self._privacy, source=self.source, users=self._users
            )

    def check(self, contribution: Bounded) -> None:
        if not isinstance(self.source, FastSource):
            raise PrivacyError(
                "no server of real users takes contributions under LocalDP: each device sends its own message (agent.client()); "
                "crowds are for simulations, which have fast noise"
            )
        check_bound_of(contribution, self.bound)

    def join(self, contribution: Bounded, size: int) -> Array:  # noqa: ARG002
        """SIMULATION: what the messages of these users' devices would add up to. The noise is drawn here, at once.

        In law, for additive noise: the sum of n Gaussian draws is Gaussian, of n Laplace draws a difference of two Gamma(n) ones. The
        noise of a codebook is exactly Gaussian in all directions but one for each user, that of the contribution, which a sum does not
        tell: there, too, a Gaussian variable of the same variance is drawn. That is an approximation, and the certificate says so.

        No message comes this way: it takes a contribution before its noise, which no server of real users has. Needs fast noise.
        """
        source, noise, users = self.source, self.channel.noise, contribution.users
        assert isinstance(source, FastSource)
        shape = contribution.values.shape
        if isinstance(noise, AdditiveNoise) and noise.distribution == "laplace":
            drawn = source.laplace_sum(noise.scale, users, shape)
        else:
            drawn = source.gaussian(noise.std * math.sqrt(users), shape)
        return contribution.values + drawn

    def check_total(self, total: Array, users: int) -> Array:
        """The sum of so many decoded messages, from outside. It may be any numbers, but of nobody it is zero."""
        values: Array = array("total", total, ndim=1)
        if values.shape != (self.bound.size,):
            raise InvalidParameter(
                f"total must have shape ({self.bound.size},), got {values.shape}"
            )
        if users == 0 and values.any():
            raise InvalidParameter("total must be zero for zero users")
        return values

    def close(self, total: Array, users: int, absent: int) -> None:  # noqa: ARG002
        if self._rounds:
            self._summed, self._seen = np.zeros(total.shape), 0
        self._summed = self._summed + total
        self._seen += users
        noise = self.channel.noise
        self._level = NoiseLevel(noise.std * math.sqrt(self._seen), noise.distribution)

    def release(self, users: int, generation: int) -> Released:
        return Released(self._summed.copy(), self._level, self.guarantee, users, generation)

    def mechanisms(self, simulated: int) -> list[Mechanism]:
        """Of the open round: how many numbers a message is about changes from round to round, and its epsilon does not."""
        return [channel_mechanism(self.channel, simulated)]

    def made_for(self) -> str:
        if self._rounds:
            return identify(self._privacy, self.source.name)
        public = channel_mechanism(self.channel, 0).to_json()
        return json.dumps(public | {"query": "", "source": self.source.name}, sort_keys=True)

    def state(self) -> tuple[Facts, Arrays]:
        level = {"std": self._level.std, "distribution": self._level.distribution}
        return {"source": self.source.state(), "seen": self._seen, **level}, {"sum": self._summed}

    def restore(self, facts: Facts, arrays: Arrays, *, generation: int, resume: bool) -> None:  # noqa: ARG002
        self._summed, self._seen = arrays["sum"], facts["seen"]
        self._level = NoiseLevel(facts["std"], facts["distribution"])
        if resume:
            self.source.restore(facts["source"])
        else:
            self.source.refresh()


class LocalPrivatizer(Batches):
    """Adds up messages, each of them noised where it was made, and releases the sum at the schedule's times, or round by round.

    Guarantee: that of `MessageNoise`. A store is not needed for privacy: messages that a crash loses are asked for again, and come back as
    the same bytes. A message that was planned with another release, or comes twice, is refused.
    """

    def __init__(
        self,
        bound: Bound,
        schedule: Schedule | AtMost,
        *,
        privacy: Request,
        noise: NoiseSource,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
    ) -> None:
        kind("schedule", schedule, Schedule, AtMost)
        self._messages = MessageNoise(
            bound, schedule, privacy=privacy, noise=noise, counter=counter, loss=loss
        )
        super().__init__(self._messages, schedule)

    @property
    def channel(self) -> Channel:
        """How a device of the open batch makes its message."""
        return self._messages.channel

    def device_source(self) -> NoiseSource:
        """Noise for one more device, of this server's kind: for devices that live in the same process."""
        return self._messages.source.device()

    def receive(self, message: Message) -> None:
        """One device's message; a refused one changes nothing."""
        kind("message", message, Message)
        self._absorb_message(lambda: self.decoded(message), message.nonce)

    def decoded(self, message: Message) -> Array:
        """What a message of the open batch adds to its sum."""
        kind("message", message, Message)
        if message.generation != self.generation:
            raise StaleMessage(
                f"the message was planned with release {message.generation}, the current one is {self.generation}: it is stale"
            )
        return self.channel.decode(message)

    @classmethod
    def expected_noise(
        cls,
        bound: Bound,
        schedule: Schedule | AtMost,
        *,
        privacy: Request,
        discrete: bool,
        counter: Factorisation | None = None,  # noqa: ARG003 - there is none
        loss: Loss | None = None,
    ) -> ExpectedNoise:
        """Of rounds, for those that ask for as many numbers as `bound` has: of a round of one user, and of one of all users."""
        flag("discrete", discrete)
        made: AdditiveNoise | Report
        kind("schedule", schedule, Schedule, AtMost)
        if isinstance(schedule, AtMost):
            made, first = best_report(check_bound(bound), privacy.epsilon), 1
        else:
            made = local_noise(bound, privacy, discrete=discrete, users=schedule.users, loss=loss)
            first = schedule.times[0]
        size = made.radius if isinstance(made, Report) else made.sensitivity
        last = made.std * math.sqrt(schedule.users)
        return ExpectedNoise(
            "local",
            made.distribution,
            made.norm,
            size,
            made.loss(),
            first=made.std * math.sqrt(first),
            last=last,
            worst=last,
        )
