"""The device's side of the interface under local privacy: a bounded contribution in, one noisy message out."""

import hashlib
import struct
from dataclasses import dataclass, field

import numpy as np

from confide.arguments import array, kind, whole
from confide.errors import InvalidParameter
from confide.mechanisms.additive import AdditiveNoise, additive_noise, check_bound
from confide.mechanisms.counters import Exact
from confide.mechanisms.sources import NoiseSource, check_source
from confide.privacy.bounded import Array, Bound, Bounded
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss, loss_for
from confide.privacy.request import LocalDP, Relation, Request, Trust

# magic, version, generation, nonce, channel, how many numbers follow (little-endian doubles)
_HEADER = struct.Struct(">4sBQ16s8sI")
_MAGIC, _VERSION = b"cfdm", 1
_NONCE, _CHANNEL = 16, 8
_MOST = 2**22  # coordinates: 32 MB


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """All that ever leaves a device. Its length is decided by the bound, so it is the same for every user and everything users do."""

    generation: int  # of the release that the device planned with
    nonce: bytes
    channel: bytes  # which bound and which noise it was made with: see `Channel.id`
    values: Array = field(repr=False)

    def __post_init__(self) -> None:
        whole("generation", self.generation, at_least=0, at_most=2**63 - 1)
        if not isinstance(self.nonce, bytes) or len(self.nonce) != _NONCE:
            raise InvalidParameter(f"a message's nonce must be {_NONCE} bytes")
        if not isinstance(self.channel, bytes) or len(self.channel) != _CHANNEL:
            raise InvalidParameter(f"a message's channel must be {_CHANNEL} bytes")
        values = array("values", self.values, finite=False).copy()  # nobody else can write into it
        if values.ndim != 1 or not 1 <= values.size <= _MOST:
            raise InvalidParameter(f"a message has between 1 and {_MOST} numbers in one row, got shape {values.shape}")
        if not np.isfinite(values).all():
            raise InvalidParameter("a message's numbers must be finite")
        values.flags.writeable = False
        object.__setattr__(self, "values", values)

    def to_bytes(self) -> bytes:
        header = _HEADER.pack(_MAGIC, _VERSION, self.generation, self.nonce, self.channel, self.values.size)
        return header + self.values.astype("<f8").tobytes()

    @classmethod
    def from_bytes(cls, data: bytes) -> "Message":
        """The message in bytes from anybody: whatever is not exactly one message is refused."""
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidParameter(f"a message must be bytes, got {type(data).__name__}")
        data = bytes(data)
        if len(data) < _HEADER.size or not data.startswith(_MAGIC):
            raise InvalidParameter("these bytes are not a message of confide")
        _, version, generation, nonce, channel, size = _HEADER.unpack_from(data)
        if version != _VERSION:
            raise InvalidParameter(f"the message has version {version}, this confide reads version {_VERSION}")
        if len(data) != _HEADER.size + 8 * size:
            raise InvalidParameter(f"the message announces {size} numbers, its length is not theirs: truncated, or too long")
        return cls(generation, nonce, channel, np.frombuffer(data, dtype="<f8", offset=_HEADER.size))


@dataclass(frozen=True, slots=True)
class Channel:
    """How contributions become messages: public, and the same on the server and on all devices.

    Guarantee: a message is `guarantee.loss` for the user it comes from, whoever reads it. All of a user's numbers are one query of the
    bound's sensitivity, noised once; generation and length are public, and the nonce is random.

    `id` is the same for a server and a device that count on the same noise; public, and the same for all devices. The scale is in it to
    nine digits: the last ones are the machine's.
    """

    bound: Bound
    noise: AdditiveNoise
    guarantee: Guarantee
    id: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_bound(self.bound), kind("noise", self.noise, AdditiveNoise), kind("guarantee", self.guarantee, Guarantee)
        true = self.bound.sensitivity(Relation.REPLACE) if self.noise.norm == 2 else self.bound.l1_sensitivity(Relation.REPLACE)
        if self.noise.sensitivity < true or self.noise.stream_norm < 1 or self.noise.loss() != self.guarantee.loss:
            raise InvalidParameter("the guarantee is not what this noise gives for this bound")
        if self.bound.size > _MOST:
            raise InvalidParameter(f"a message has at most {_MOST} numbers, the bound has {self.bound.size}")
        text = f"{self.bound!r} {self.noise.distribution} {self.noise.scale:.9g} {self.noise.step}"
        object.__setattr__(self, "id", hashlib.sha256(text.encode()).digest()[:_CHANNEL])

    def message(self, contribution: Bounded, generation: int, source: NoiseSource) -> Message:
        """One user's contribution, noised. Two messages about the same user would be two releases: a device asks once."""
        if contribution.bound is not self.bound and contribution.bound != self.bound:
            raise InvalidParameter("the contribution was clipped by another bound than the channel's")
        if contribution.users != 1:
            raise InvalidParameter("a message is of one user")
        if source.name != self.guarantee.source:
            raise InvalidParameter(f"the channel is made for {self.guarantee.source} noise, the source is {source.name}")
        noisy = self.noise.add(self.noise.to_lattice(contribution.values)[None], source)[0]
        return Message(generation, source.token(_NONCE), self.id, noisy)


def open_channel(bound: Bound, privacy: Request, *, source: NoiseSource, users: int = 1, loss: Loss | None = None) -> Channel:
    """The least noise that keeps `privacy`, or that of a smaller `loss` (printed constants add more than is needed)."""
    if not isinstance(privacy, LocalDP):
        raise InvalidParameter(f"messages need LocalDP, got {type(privacy).__name__}")
    check_source(source, "source")
    loss = loss_for(privacy) if loss is None else loss
    noise = additive_noise(bound, loss, Relation.REPLACE, Exact(1), discrete=source.discrete, users=users)
    return Channel(bound, noise, Guarantee(noise.loss(), privacy, Trust.LOCAL, users, source.name))
