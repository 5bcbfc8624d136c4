"""The privatizer of local privacy: each user's device adds noise, and a server adds up messages.

Nobody has to trust the server. What leaves this file: the mechanism of a certificate, and the state
that `Batches` saves.
"""

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
from confide.privatizers.batches import Arrays, Batches, Facts, check_clipped_by
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
    """Return the mechanism of messages through this channel, if those of so many were simulated."""
    noise = channel.noise
    query = "one message from each user's device"
    if simulated:
        is_index = channel.kind == "index"
        drawn_as = "one Gaussian sum with the messages' variance" if is_index else "one sum"
        query += f"; simulated for {simulated} users, whose noise was drawn as {drawn_as}"
    mechanism = Mechanism(
        name="local",
        distribution=noise.distribution,
        norm=noise.norm,
        sensitivity=noise.radius if isinstance(noise, Report) else noise.sensitivity,
        scale=noise.std if isinstance(noise, Report) else noise.scale,
        bound=describe(channel.bound),
        query=query,
        simulated=simulated > 0,
    )
    if isinstance(noise, Report):
        return replace(mechanism, parameters=noise.parameters)
    return replace(mechanism, lattice=noise.step)


class MessageNoise:
    """Sums of messages that devices have noised. The server draws no noise.

    Guarantee: that of the channel. The devices make it, so nothing is private here any more, and a
    release costs nothing. The releases of a schedule are prefix sums.

    A round (`AtMost`) is about its own users alone. Each of them sends one index
    (`report_channel`), which is epsilon-DP for any contribution. `open` decides what a round asks
    and how many users it has, from earlier messages.
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
        self._users = schedule.users
        self._privacy = privacy
        self._has_rounds = isinstance(schedule, AtMost)
        if self._has_rounds:
            refuse_options(counter, loss)
            self.channel = report_channel(bound, privacy, source=noise, users=self._users)
        elif counter is not None:
            raise InvalidParameter(
                "messages go through no counter: each of them is noised once, on its device"
            )
        else:
            self.channel = open_channel(bound, privacy, source=noise, users=self._users, loss=loss)
        self.source = noise.fork()
        # What is released: the sum of the messages of `_summed_users` users, with noise `_level`.
        self._sum: Array = np.zeros(0 if self._has_rounds else bound.size)
        self._summed_users = 0
        distribution = "none" if self._has_rounds else self.channel.noise.distribution
        self._level = NoiseLevel(0.0, distribution)

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
                "no server of real users takes contributions under LocalDP: each device sends "
                "its own message (agent.client()); crowds are for simulations, "
                "which have fast noise"
            )
        check_clipped_by(self.bound, contribution)

    def join(self, contribution: Bounded, size: int) -> Array:  # noqa: ARG002
        """SIMULATION: return what the messages of these users' devices would add up to.

        The noise of all devices is drawn here, at once, from a fast source. No message of a real
        user comes this way, because no server has a contribution without its noise.

        Additive noise has the right law: the sum of n Gaussian draws is Gaussian, and the sum of n
        Laplace draws is the difference of two Gamma(n) draws. The noise of a codebook is exactly
        Gaussian in all directions but one for each user: that of the user's contribution. The sum
        does not say what it is, so a Gaussian draw of the same variance stands for it. This is an
        approximation, and the certificate says so.
        """
        source = self.source
        assert isinstance(source, FastSource)
        noise = self.channel.noise
        users = contribution.users
        shape = contribution.values.shape
        if isinstance(noise, AdditiveNoise) and noise.distribution == "laplace":
            summed_noise = source.laplace_sum(noise.scale, users, shape)
        else:
            summed_noise = source.gaussian(noise.std * math.sqrt(users), shape)
        return contribution.values + summed_noise

    def check_total(self, total: Array, users: int) -> Array:
        """Return a sum of so many decoded messages that somebody else added up.

        It may have any numbers, except that the sum over nobody is zero.
        """
        values: Array = array("total", total, ndim=1)
        if values.shape != (self.bound.size,):
            raise InvalidParameter(
                f"total must have shape ({self.bound.size},), got {values.shape}"
            )
        if users == 0 and values.any():
            raise InvalidParameter("total must be zero for zero users")
        return values

    def close(self, total: Array, users: int, absent: int) -> None:  # noqa: ARG002
        if self._has_rounds:
            self._sum = np.zeros(total.shape)
            self._summed_users = 0
        self._sum = self._sum + total
        self._summed_users += users
        noise = self.channel.noise
        std = noise.std * math.sqrt(self._summed_users)
        self._level = NoiseLevel(std, noise.distribution)

    def release(self, users: int, generation: int) -> Released:
        return Released(self._sum.copy(), self._level, self.guarantee, users, generation)

    def mechanisms(self, simulated: int) -> list[Mechanism]:
        """Return the mechanism of the open round.

        The number of coordinates changes from round to round, and epsilon does not.
        """
        return [channel_mechanism(self.channel, simulated)]

    def settings(self) -> str:
        if self._has_rounds:
            return identify(self._privacy, self.source.name)
        public = channel_mechanism(self.channel, 0).to_json()
        return json.dumps(public | {"query": "", "source": self.source.name}, sort_keys=True)

    def state(self) -> tuple[Facts, Arrays]:
        facts: Facts = {
            "source": self.source.state(),
            "seen": self._summed_users,
            "std": self._level.std,
            "distribution": self._level.distribution,
        }
        return facts, {"sum": self._sum}

    def restore(
        self,
        facts: Facts,
        arrays: Arrays,
        *,
        generation: int,  # noqa: ARG002
        resume: bool,
    ) -> None:
        self._sum = arrays["sum"]
        self._summed_users = facts["seen"]
        self._level = NoiseLevel(facts["std"], facts["distribution"])
        if resume:
            self.source.restore(facts["source"])
        else:
            self.source.refresh()


class LocalPrivatizer(Batches):
    """Adds up the messages of devices, and releases sums at the schedule's times or round by round.

    Guarantee: that of `MessageNoise`. Privacy does not need a store. If a crash loses a message,
    the device sends the same bytes again. A message that was planned with another release, or comes
    twice, is refused.
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
        """How a device of the open batch makes its message. Public."""
        return self._messages.channel

    def device_source(self) -> NoiseSource:
        """Return noise of this server's kind for one more device in the same process."""
        return self._messages.source.device()

    def receive(self, message: Message) -> None:
        """Add one device's message. A message that is refused changes nothing."""
        kind("message", message, Message)
        self._absorb_message(lambda: self.decoded(message), message.nonce)

    def decoded(self, message: Message) -> Array:
        """Return what a message of the open batch adds to its sum."""
        kind("message", message, Message)
        if message.generation != self.generation:
            raise StaleMessage(
                f"the message was planned with release {message.generation}, "
                f"the current one is {self.generation}: it is stale"
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
        counter: Factorisation | None = None,  # noqa: ARG003
        loss: Loss | None = None,
    ) -> ExpectedNoise:
        """Return the noise of a privatizer made with these arguments.

        For rounds, the first release is that of a round of one user, and the last one that of a
        round of all users. Both have as many numbers as `bound`.
        """
        flag("discrete", discrete)
        kind("schedule", schedule, Schedule, AtMost)
        noise: AdditiveNoise | Report
        if isinstance(schedule, AtMost):
            noise = best_report(check_bound(bound), privacy.epsilon)
            first_users = 1
        else:
            noise = local_noise(bound, privacy, discrete=discrete, users=schedule.users, loss=loss)
            first_users = schedule.times[0]
        last = noise.std * math.sqrt(schedule.users)
        return ExpectedNoise(
            "local",
            noise.distribution,
            noise.norm,
            noise.radius if isinstance(noise, Report) else noise.sensitivity,
            noise.loss(),
            first=noise.std * math.sqrt(first_users),
            last=last,
            worst=last,
        )
