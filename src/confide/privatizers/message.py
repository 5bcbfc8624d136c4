"""The device's side under local privacy: a bounded contribution in, one noisy message out.

What leaves this file are messages. Their layout (`_HEADER`), the id of a channel (`canonical`) and
what random bytes become in them are a protocol: `clients/typescript` writes the same bytes, and
`clients/vectors.json` says which. A change of the layout needs another `_VERSION`.
"""

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

# Magic, version, kind, generation, nonce, channel, round, and how many numbers follow. The numbers
# are little-endian doubles.
_HEADER = struct.Struct(">4sBBQ16s8s32sI")
_MAGIC = b"cfdm"
_VERSION = 3
KINDS = ("numbers", "index")
_NONCE_BYTES = 16
_CHANNEL_BYTES = 8
_ROUND_BYTES = 32
# A message that names no round has this digest.
_NO_ROUND = bytes(_ROUND_BYTES)
# The most numbers of a message: 32 MB (a matter of taste).
_MAX_NUMBERS = 2**22
# How far a message's number may be from what the bound allows, in units of the scale of its noise.
# An honest number is farther with probability 4e-33 (Gaussian) or 4e-18 (Laplace).
_REACH = {"gaussian": 12.0, "laplace": 40.0}
# The numbers of a channel's id are rounded to so many digits, because the last digits differ from
# machine to machine.
_ID_DIGITS = 9


def canonical(value: Any) -> bytes:
    """Return JSON as RFC 8785 writes it, with numbers that are the same in every language.

    A number that is not whole is rounded to nine digits, and the text of its bits stands for it.
    """
    plain = _without_floats(value)
    return json.dumps(plain, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def _without_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_floats(part) for name, part in value.items()}
    if isinstance(value, float):
        return struct.pack(">d", float(f"{value:.{_ID_DIGITS}g}")).hex()
    return value


@dataclass(frozen=True, slots=True, eq=False)
class Message:
    """All that ever leaves a device.

    The bound decides its length, so it is the same for every user, whatever the user does.

    - `generation` is that of the release that the device planned with.
    - `nonce` is random.
    - `channel` is the id of the bound and the noise that it was made with (`Channel.id`).
    - `values` are noisy numbers, or the one index of a report.
    - `round` is the digest of the round that it answers. Zeros name no round.
    """

    generation: int
    nonce: bytes
    channel: bytes
    values: Array = field(repr=False)
    kind: str = "numbers"
    round: bytes = _NO_ROUND

    def __post_init__(self) -> None:
        whole("generation", self.generation, at_least=0, at_most=2**63 - 1)
        _check_bytes("nonce", self.nonce, _NONCE_BYTES)
        _check_bytes("channel", self.channel, _CHANNEL_BYTES)
        _check_bytes("round", self.round, _ROUND_BYTES)
        # A copy, so that nobody else can write into it.
        values = array("values", self.values, finite=False).copy()
        if values.ndim != 1 or not 1 <= values.size <= _MAX_NUMBERS:
            raise InvalidParameter(
                f"a message has between 1 and {_MAX_NUMBERS} numbers in one row, "
                f"got shape {values.shape}"
            )
        if not np.isfinite(values).all():
            raise InvalidParameter("a message's numbers must be finite")
        choice("kind", self.kind, KINDS)
        if self.kind == "index" and not _is_one_index(values):
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
        """Read a message from bytes that anybody may have written.

        Bytes that are not exactly one message are refused.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise InvalidParameter(f"a message must be bytes, got {type(data).__name__}")
        data = bytes(data)
        if len(data) <= len(_MAGIC) or not data.startswith(_MAGIC):
            raise InvalidParameter("these bytes are not a message of confide")
        version = data[len(_MAGIC)]
        if version != _VERSION:
            raise InvalidParameter(
                f"the message has version {version}, this confide reads version {_VERSION}: "
                "the device and the server need the same confide"
            )
        if len(data) < _HEADER.size:
            raise InvalidParameter("these bytes are not a message of confide")
        header = _HEADER.unpack_from(data)
        _, _, kind_number, generation, nonce, channel, round_digest, size = header
        if kind_number >= len(KINDS):
            raise InvalidParameter(
                f"the message has kind {kind_number}, which is none of {len(KINDS)}"
            )
        if len(data) != _HEADER.size + 8 * size:
            raise InvalidParameter(
                f"the message announces {size} numbers, its length is not theirs: "
                "truncated, or too long"
            )
        values = np.frombuffer(data, dtype="<f8", offset=_HEADER.size)
        return cls(generation, nonce, channel, values, KINDS[kind_number], round_digest)


def _check_bytes(name: str, value: Any, length: int) -> None:
    if not isinstance(value, bytes) or len(value) != length:
        raise InvalidParameter(f"a message's {name} must be {length} bytes")


def _is_one_index(values: Array) -> bool:
    """Whether the values are one index of a vector of a codebook."""
    if values.size != 1:
        return False
    index = float(values[0])
    return 0 <= index < VECTORS and index.is_integer()


@dataclass(frozen=True, slots=True)
class Channel:
    """How contributions become messages. Public, and the same on the server and on all devices.

    Guarantee: a message has the loss `guarantee.loss` for its user, whoever reads it. With additive
    noise all of a user's numbers are one query with the bound's sensitivity, noised once. With a
    report (`Codebook`, `SignReport`) they are one index. Generation, kind and length are public.
    The nonce is random, and is drawn before anything that depends on the data.

    `id` is the same for a server and a device that count on the same bound and noise.
    """

    bound: Bound
    noise: AdditiveNoise | Report
    guarantee: Guarantee
    id: bytes = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_bound(self.bound)
        kind("noise", self.noise, AdditiveNoise, Codebook, SignReport)
        kind("guarantee", self.guarantee, Guarantee)
        if not self._noise_fits_bound() or self.noise.loss() != self.guarantee.loss:
            raise InvalidParameter("the guarantee is not what this noise gives for this bound")
        if self.bound.size > _MAX_NUMBERS:
            raise InvalidParameter(
                f"a message has at most {_MAX_NUMBERS} numbers, the bound has {self.bound.size}"
            )
        object.__setattr__(self, "id", self._compute_id())

    def _noise_fits_bound(self) -> bool:
        """Whether the noise is made for contributions as large as the bound allows."""
        noise = self.noise
        if isinstance(noise, Report):
            return noise.size == self.bound.size
        if noise.norm == 2:
            sensitivity = self.bound.sensitivity(Relation.REPLACE)
        else:
            sensitivity = self.bound.l1_sensitivity(Relation.REPLACE)
        return noise.sensitivity >= sensitivity and noise.stream_norm >= 1

    def _compute_id(self) -> bytes:
        noise = self.noise
        facts: dict[str, Any] = {"distribution": noise.distribution}
        if isinstance(noise, Report):
            facts |= {"radius": noise.radius, **noise.parameters}
        else:
            facts |= {"scale": noise.scale, "step": noise.step}
        named = {"bound": describe(self.bound) or identify(self.bound), "noise": facts}
        return hashlib.sha256(canonical(named)).digest()[:_CHANNEL_BYTES]

    @property
    def kind(self) -> str:
        """The kind of its messages."""
        return "index" if isinstance(self.noise, Report) else "numbers"

    def message(
        self,
        contribution: Bounded,
        generation: int,
        source: NoiseSource,
        round_digest: bytes = _NO_ROUND,
    ) -> Message:
        """Return one user's contribution with noise, as an answer to the round with this digest.

        Two messages about the same user would be two releases, so a device calls this once.
        """
        if contribution.bound is not self.bound and contribution.bound != self.bound:
            raise InvalidParameter(
                "the contribution was clipped by another bound than the channel's"
            )
        if contribution.users != 1:
            raise InvalidParameter("a message is of one user")
        if source.name != self.guarantee.source:
            raise InvalidParameter(
                f"the channel is made for {self.guarantee.source} noise, "
                f"the source is {source.name}"
            )
        nonce = source.token(_NONCE_BYTES)
        values: Array
        if isinstance(self.noise, Report):
            index = self.noise.draw(contribution.values, nonce, source)
            values = np.array([index], dtype=float)
        else:
            exact = self.noise.to_lattice(contribution.values)
            values = self.noise.add(exact[None], source)[0]
        return Message(generation, nonce, self.id, values, self.kind, round_digest)

    def decode(self, message: Message) -> Array:
        """Return an unbiased estimate of the contribution.

        Its noise has the standard deviation `noise.std` in each coordinate.

        Each number is clipped to what the bound allows plus `_REACH` times the scale of the noise.
        This protects what is learned from devices that send 1e300, and nobody's privacy. An index
        needs no clip, because no vector of a codebook is longer than 5.8 in a coordinate.
        """
        if message.channel != self.id or message.kind != self.kind:
            raise InvalidParameter(
                "the message was made for another bound or with other noise "
                "than this server counts on"
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
    """Return the noise of a device: additive noise or that of a report, whichever is less.

    A report is pure, and serves requests with delta > 0, too. A `loss` is that of the constants of
    a paper, which are about additive noise.
    """
    additive = additive_noise(
        bound,
        loss_for(privacy) if loss is None else loss,
        Relation.REPLACE,
        Exact(1),
        discrete=discrete,
        users=users,
    )
    if loss is not None or bound.size > COORDINATES:
        return additive
    report = best_report(bound, privacy.epsilon)
    return report if report.std < additive.std else additive


def open_channel(
    bound: Bound, privacy: Request, *, source: NoiseSource, users: int = 1, loss: Loss | None = None
) -> Channel:
    """Return the channel with the least noise that keeps `privacy`.

    A `loss` is that of the constants of a paper, which may add more noise than is needed.
    """
    if not isinstance(privacy, LocalDP):
        raise InvalidParameter(f"messages need LocalDP, got {type(privacy).__name__}")
    check_source(source, "source")
    noise = local_noise(bound, privacy, discrete=source.discrete, users=users, loss=loss)
    return Channel(bound, noise, Guarantee(noise.loss(), privacy, Trust.LOCAL, users, source.name))


def report_channel(
    bound: Bound, privacy: Request, *, source: NoiseSource, users: int = 1
) -> Channel:
    """Return a channel whose messages are one index, whatever the bound is: pure epsilon-DP.

    It is for rounds, whose bounds differ although their guarantee does not.
    """
    if not isinstance(privacy, LocalDP):
        raise InvalidParameter(f"messages need LocalDP, got {type(privacy).__name__}")
    check_bound(bound)
    check_source(source, "source")
    noise = best_report(bound, privacy.epsilon)
    return Channel(bound, noise, Guarantee(noise.loss(), privacy, Trust.LOCAL, users, source.name))
