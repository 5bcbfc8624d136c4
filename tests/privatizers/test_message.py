"""The device's half of the seam: messages that anybody may forge, and noise of the stated scale."""

import contextlib
import math
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import InvalidParameter, PromiseBroken
from confide.mechanisms.sources import noise_source
from confide.privacy import GaussianDP, JointDP, LocalDP, PureDP
from confide.privacy.accounting import gaussian_mu
from confide.privacy.bounded import Bounded, L2Ball
from confide.privacy.loss import loss_for
from confide.privatizers import Message, open_channel

BOUND = L2Ball(1.0, 3)
NONCE = bytes(range(16))
CHANNEL = bytes(8)
GOOD = Message(7, NONCE, CHANNEL, np.array([1.0, -2.5, 1e300]), round=bytes(range(32))).to_bytes()
HEADER = 74


def test_bytes_and_back():
    back = Message.from_bytes(GOOD)
    assert (back.generation, back.nonce, back.round) == (7, NONCE, bytes(range(32)))
    assert list(back.values) == [1.0, -2.5, 1e300]
    assert back.to_bytes() == GOOD
    assert len(GOOD) == HEADER + 8 * 3
    with pytest.raises(ValueError, match="read-only"):
        back.values[0] = 0.0


def with_values(*values):
    return (
        GOOD[: HEADER - 4]
        + struct.pack(">I", len(values))
        + struct.pack(f"<{len(values)}d", *values)
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a message"),
        (GOOD[:20], "not a message"),
        (b"\x80\x04" + GOOD, "not a message"),
        (GOOD[:-1], "truncated"),
        (GOOD + b"\0", "too long"),
        # as devices sent it before there were kinds
        (GOOD[:4] + b"\x01" + GOOD[6:], "version 1, this confide reads version 3"),
        (GOOD[:4] + b"\x02" + GOOD[5:], "version 2, this confide reads version 3"),
        (GOOD[:5] + b"\x02" + GOOD[6:], "kind 2"),
        (GOOD[:5] + b"\x01" + GOOD[6:], "one whole number from 0 to 1023"),
        (GOOD[: HEADER - 4] + b"\xff\xff\xff\xff" + GOOD[HEADER:], "announces 4294967295 numbers"),
        (with_values(), "between 1 and"),
        (with_values(1.0, math.nan, 0.0), "finite"),
        (with_values(1.0, -math.inf, 0.0), "finite"),
        (GOOD[:6] + b"\xff" * 8 + GOOD[14:], "generation"),
        ("text", "must be bytes, got str"),
        (None, "must be bytes, got NoneType"),
    ],
)
def test_what_is_not_a_message_is_refused(data, message):
    with pytest.raises(InvalidParameter, match=message):
        Message.from_bytes(data)


@given(st.binary(max_size=80) | st.binary(max_size=60).map(lambda tail: GOOD[:HEADER] + tail))
def test_arbitrary_bytes_are_read_or_refused(data):
    with contextlib.suppress(InvalidParameter):
        assert Message.from_bytes(data).to_bytes() == data


@pytest.mark.parametrize(
    "make_message",
    [
        lambda: Message(-1, NONCE, CHANNEL, np.ones(2)),
        lambda: Message(True, NONCE, CHANNEL, np.ones(2)),
        lambda: Message(0, b"short", CHANNEL, np.ones(2)),
        lambda: Message(0, NONCE, CHANNEL, np.ones((2, 2))),
        lambda: Message(0, NONCE, CHANNEL, np.array([np.nan])),
        lambda: Message(0, NONCE, CHANNEL, np.array([1024.0]), "index"),
        lambda: Message(0, NONCE, CHANNEL, np.array([0.5]), "index"),
        lambda: Message(0, NONCE, CHANNEL, np.array([-1.0]), "index"),
        lambda: Message(0, NONCE, CHANNEL, np.ones(2), "index"),
        lambda: Message(0, NONCE, CHANNEL, np.ones(1), "vector"),
    ],
)
def test_no_such_message_can_be_made(make_message):
    with pytest.raises(InvalidParameter):
        make_message()


@pytest.mark.parametrize("kind", ["fast", "secure"])
@pytest.mark.parametrize("privacy", [LocalDP(2.0, 1e-5), LocalDP(2.0, delta=0.0)])
def test_noise_is_sensitivity_over_loss(kind, privacy):
    """The mean size of 1000 x 3 draws, within 4.5 / sqrt(3000) = 8 %: a false alarm of 1e-5.

    A scale wrong by 20 % is rejected.
    """
    source = noise_source(kind, 0) if kind == "fast" else noise_source(kind)
    channel = open_channel(BOUND, privacy, source=source, loss=loss_for(privacy))
    assert channel.guarantee.epsilon == pytest.approx(2.0)
    one = BOUND.clip(np.array([1.0, 0.0, 0.0]))
    draws = np.concatenate(
        [channel.message(one, 0, source).values - one.values for _ in range(1000)]
    )
    if privacy.delta > 0:
        scale = 2 / gaussian_mu(2.0, 1e-5)
        size = math.sqrt(2 / math.pi)
    else:
        scale = 2 * math.sqrt(3) / 2.0
        size = 1.0
    assert channel.noise.scale == pytest.approx(scale, rel=1e-5)
    relative_size = np.abs(draws).mean() / (size * scale)
    allowed = 4.5 / math.sqrt(draws.size)
    assert abs(relative_size - 1) < allowed
    assert abs(0.8 * relative_size - 1) > allowed and abs(1.2 * relative_size - 1) > allowed
    assert abs(draws.mean()) < 5 * channel.noise.std / math.sqrt(draws.size)


def test_secure_messages_live_on_the_lattice():
    source = noise_source("secure")
    channel = open_channel(
        BOUND, LocalDP(1.0, 1e-5), source=source, loss=loss_for(LocalDP(1.0, 1e-5))
    )
    steps = channel.message(BOUND.clip(np.full(3, 0.3)), 0, source).values / BOUND.grid
    assert (steps == np.rint(steps)).all()


def test_the_noise_is_the_smaller_of_both():
    fast = noise_source("fast", 0)
    for privacy, distribution in (
        (LocalDP(1.0, delta=0.0), "codebook"),
        (LocalDP(5.0, 1e-5), "codebook"),
        (LocalDP(60.0, 1e-5), "gaussian"),
    ):
        channel = open_channel(BOUND, privacy, source=fast)
        added = open_channel(BOUND, privacy, source=fast, loss=loss_for(privacy))
        assert channel.noise.distribution == distribution and channel.noise.std <= added.noise.std
        assert channel.guarantee.loss == (
            PureDP(privacy.epsilon) if distribution == "codebook" else added.guarantee.loss
        )
    assert (
        open_channel(L2Ball(1.0, 2**14 + 1), LocalDP(1.0, 1e-5), source=fast).noise.distribution
        == "gaussian"
    )


def test_all_messages_of_a_codebook_have_one_length():
    source = noise_source("fast", 0)
    channel = open_channel(BOUND, LocalDP(1.0, delta=0.0), source=source)
    for values in (np.zeros(3), np.array([1.0, 0.0, 0.0]), np.full(3, np.nan)):
        assert len(channel.message(BOUND.clip(values), 0, source).to_bytes()) == HEADER + 8


def test_promises_that_a_channel_cannot_keep_are_refused():
    fast = noise_source("fast", 0)
    with pytest.raises(InvalidParameter, match="messages need LocalDP, got JointDP"):
        open_channel(BOUND, JointDP(1.0, delta=0.0), source=fast)
    with pytest.raises(PromiseBroken, match="more than the requested epsilon=1"):
        open_channel(BOUND, LocalDP(1.0, 1e-5), source=fast, loss=GaussianDP(0.5))
    # printed constants add more noise
    more = open_channel(BOUND, LocalDP(1.0, 1e-5), source=fast, loss=GaussianDP(0.1))
    assert more.guarantee.epsilon < 0.5
    channel = open_channel(BOUND, LocalDP(1.0, delta=0.0), source=fast, loss=PureDP(0.5))
    with pytest.raises(InvalidParameter, match="of one user"):
        channel.message(Bounded(np.zeros(3), BOUND, 2), 0, fast)
    with pytest.raises(InvalidParameter, match="another bound"):
        channel.message(L2Ball(2.0, 3).clip(np.zeros(3)), 0, fast)
    with pytest.raises(InvalidParameter, match="made for fast noise, the source is secure"):
        channel.message(Bounded(np.zeros(3), BOUND), 0, noise_source("secure"))
