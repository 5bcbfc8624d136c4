"""The device's side of the interface under local privacy: a bounded contribution in, one noisy message out."""

import hashlib
import json
import struct
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from confide.arguments import array, choice, kind, whole
from confide.errors import InvalidParameter
from confide.identity import identify
from confide.mechanisms.additive import AdditiveNoise, additive_noise, check_bound
from confide.mechanisms.codebook import (
    COORDINATES,
    VECTORS,
    Codebook,
    Report,
    SignReport,
    best_report,
)
from confide.mechanisms.counters import Exact
from confide.mechanisms.sources import NoiseSource, check_source
from confide.privacy.bounded import Array, Bound, Bounded
from confide.privacy.certificate import describe
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss, loss_for
from confide.privacy.request import LocalDP, Relation, Request, Trust

# magic, version, kind, generation, nonce, channel, round, how many numbers follow (little-endian doubles)
_HEADER = struct.Struct(">4sBBQ16s8s32sI")
_MAGIC, _VERSION = b"cfdm", 3
KINDS = ("numbers", "index")
_NONCE, _CHANNEL, _ROUND = 16, 8, 32
_MOST = 2**22  # coordinates: 32 MB
_REACH = {"gaussian": 12.0, "laplace": 40.0}  # in units of the scale: see `Channel.decode`


def canonical(value: Any) -> bytes:
    """JSON as RFC 8785 writes it, in which a number that is not whole is the text of its bits, after it was rounded to nine digits:
    the same bytes in every language."""
    return json.dumps(
        _plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False
    ).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, float):
        return struct.pack(">d", float(f"{value:.9g}")).hex()
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """All that ever leaves a device. Its length is decided by the bound, so it is the same for every user and everything users do."""

    generation: int  # of the release that the device planned with
    nonce: bytes
    channel: bytes  # which bound and which noise it was made with: see `Channel.id`
    values: Array = field(repr=False)  # noisy numbers, or the one index of a report
    kind: str = "numbers"
    round: bytes = bytes(_ROUND)  # the digest of the round that it answers; zeros name none

    def __post_init__(self) -> None:
        whole("generation", self.generation, at_least=0, at_most=2**63 - 1)
        if not isinstance(self.nonce, bytes) or len(self.nonce) != _NONCE:
            raise InvalidParameter(f"a message's nonce must be {_NONCE} bytes")
        if not isinstance(self.channel, bytes) or len(self.channel) != _CHANNEL:
            raise InvalidParameter(f"a message's channel must be {_CHANNEL} bytes")
        if not isinstance(self.round, bytes) or len(self.round) != _ROUND:
            raise InvalidParameter(f"a message's round must be {_ROUND} bytes")
        values = array("values", self.values, finite=False).copy()  # nobody else can write into it
        if values.ndim != 1 or not 1 <= values.size <= _MOST:
            raise InvalidParameter(
                f"a message has between 1 and {_MOST} numbers in one row, got shape {values.shape}"
            )
        if not np.isfinite(values).all():
            raise InvalidParameter("a message's numbers must be finite")
        choice("kind", self.kind, KINDS)
        if self.kind == "index" and not (
            values.size == 1 and 0 <= (index := float(values[0])) < VECTORS and index.is_integer()
        ):
            raise InvalidParameter(
                f"a message of kind index has one whole number from 0 to {VECTORS - 1}"
            )
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def to_bytes(self) -> bytes:
        header = _HEADER.pack(
            _MAGIC,
            _VERSION,
            KINDS.index(self.kind),
            self.generation,
            self.nonce,
            self.channel,
            self.round,
            self.values.size,
        )
        return header + self.values.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Message":
        """The message in bytes from anybody: whatever is not exactly one message is refused."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidParameter(f"a message must be bytes, got {type(data).__name__}")
        data = bytes(data)
        if len(data) <= len(_MAGIC) or not data.startswith(_MAGIC):
            raise InvalidParameter("these bytes are not a message of confide")
        if (version := data[len(_MAGIC)]) != _VERSION:
            raise InvalidParameter(
                f"the message has version {version}, this confide reads version {_VERSION}: the device and the server need the same confide"
            )
        if len(data) < _HEADER.size:
            raise InvalidParameter("these bytes are not a message of confide")
        _, _, sort, generation, nonce, channel, answered, size = _HEADER.unpack_from(data)
        if sort >= len(KINDS):
            raise InvalidParameter(f"the message has kind {sort}, which is none of {len(KINDS)}")
        if len(data) != _HEADER.size + 8 * size:
            raise InvalidParameter(
                f"the message announces {size} numbers, its length is not theirs: truncated, or too long"
            )
        return cls(
            generation,
            nonce,
            channel,
            np.frombuffer(data, dtype="<f8", offset=_HEADER.size),
            KINDS[sort],
            answered,
        )


@dataclass(frozen=True, slots=True)
class Channel:
    """How contributions become messages: public, and the same on the server and on all devices.

    Guarantee: a message is `guarantee.loss` for the user it comes from, whoever reads it. With additive noise all of a user's numbers are
    one query of the bound's sensitivity, noised once; with a report (`Codebook`, `SignReport`) they are one index. Generation, kind and
    length are public, and the nonce is random: it is drawn before anything that depends on the data.

    `id` is the same for a server and a device that count on the same noise; public, and the same for all devices. Numbers are in it to
    nine digits: the last ones are the machine's.
    """

    bound: Bound
    noise: AdditiveNoise | Report
    guarantee: Guarantee
    id: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_bound(self.bound), kind("noise", self.noise, AdditiveNoise, Codebook, SignReport)
        kind("guarantee", self.guarantee, Guarantee)
        noise = self.noise
        if isinstance(noise, Report):
            fits = noise.size == self.bound.size
            drawn: dict[str, Any] = {"radius": noise.radius, **noise.parameters}
        else:
            true = (
                self.bound.sensitivity(Relation.REPLACE)
                if noise.norm == 2
                else self.bound.l1_sensitivity(Relation.REPLACE)
            )
            fits = noise.sensitivity >= true and noise.stream_norm >= 1
            drawn = {"scale": noise.scale, "step": noise.step}
        named = {
            "bound": describe(self.bound) or identify(self.bound),
            "noise": {"distribution": noise.distribution, **drawn},
        }
        if not fits or noise.loss() != self.guarantee.loss:
            raise InvalidParameter("the guarantee is not what this noise gives for this bound")
        if self.bound.size > _MOST:
            raise InvalidParameter(
                f"a message has at most {_MOST} numbers, the bound has {self.bound.size}"
            )
        object.__setattr__(self, "id", hashlib.sha256(canonical(named)).digest()[:_CHANNEL])

    @property
    def kind(self) -> str:
        """Of its messages."""
        return "index" if isinstance(self.noise, Report) else "numbers"

    def message(
        self,
        contribution: Bounded,
        generation: int,
        source: NoiseSource,
        answered: bytes = bytes(_ROUND),
    ) -> Message:
        """One user's contribution, noised, to the round with the digest `answered`.

        Two messages about the same user would be two releases: a device asks once.
        """
        if contribution.bound is not self.bound and contribution.bound != self.bound:
            raise InvalidParameter(
                "the contribution was clipped by another bound than the channel's"
            )
        if contribution.users != 1:
            raise InvalidParameter("a message is of one user")
        if source.name != self.guarantee.source:
            raise InvalidParameter(
                f"the channel is made for {self.guarantee.source} noise, the source is {source.name}"
            )
        nonce = source.token(_NONCE)
        if isinstance(self.noise, Report):
            sent: Array = np.array(
                [self.noise.draw(contribution.values, nonce, source)], dtype=float
            )
        else:
            sent = self.noise.add(self.noise.to_lattice(contribution.values)[None], source)[0]
        return Message(generation, nonce, self.id, sent, self.kind, answered)

    def decode(self, message: Message) -> Array:
        """What a message says about the contribution: an unbiased estimate, whose noise has `noise.std` on each coordinate.

        Each number is clipped to what the bound allows plus 12 standard deviations of Gaussian noise (40 b of Laplace): this protects what
        is learned from devices that send 1e300, and nobody's privacy. It touches an honest number with probability 4e-33 (4e-18). An index
        needs no clip: no vector of a codebook is longer than 5.8 in a coordinate.
        """
        if message.channel != self.id or message.kind != self.kind:
            raise InvalidParameter(
                "the message was made for another bound or with other noise than this server counts on"
            )
        if isinstance(self.noise, Report):
            return self.noise.decode(int(message.values[0]), message.nonce)
        if message.values.size != self.bound.size:
            raise InvalidParameter(
                f"a message must have {self.bound.size} numbers, got {message.values.size}"
            )
        limit = self.bound.largest + _REACH[self.noise.distribution] * self.noise.scale
        return np.clip(message.values, -limit, limit)


def local_noise(
    bound: Bound, privacy: Request, *, discrete: bool, users: int = 1, loss: Loss | None = None
) -> AdditiveNoise | Report:
    """The noise of a device: additive or that of a report, whichever has less. A report is pure, and serves requests with delta > 0, too.

    A `loss` is that of printed constants, which are about additive noise.
    """
    given = loss_for(privacy) if loss is None else loss
    added = additive_noise(bound, given, Relation.REPLACE, Exact(1), discrete=discrete, users=users)
    if loss is not None or bound.size > COORDINATES:
        return added
    coded = best_report(bound, privacy.epsilon)
    return coded if coded.std < added.std else added


def open_channel(
    bound: Bound, privacy: Request, *, source: NoiseSource, users: int = 1, loss: Loss | None = None
) -> Channel:
    """The least noise that keeps `privacy`, or that of a smaller `loss` (printed constants add more than is needed)."""
    if not isinstance(privacy, LocalDP):
        raise InvalidParameter(f"messages need LocalDP, got {type(privacy).__name__}")
    check_source(source, "source")
    noise = local_noise(bound, privacy, discrete=source.discrete, users=users, loss=loss)
    return Channel(bound, noise, Guarantee(noise.loss(), privacy, Trust.LOCAL, users, source.name))


def report_channel(
    bound: Bound, privacy: Request, *, source: NoiseSource, users: int = 1
) -> Channel:
    """By an index alone, whatever the bound is: pure epsilon-DP. For rounds, whose bounds differ while their guarantee does not."""
    if not isinstance(privacy, LocalDP):
        raise InvalidParameter(f"messages need LocalDP, got {type(privacy).__name__}")
    check_bound(bound), check_source(source, "source")
    noise = best_report(bound, privacy.epsilon)
    return Channel(bound, noise, Guarantee(noise.loss(), privacy, Trust.LOCAL, users, source.name))
