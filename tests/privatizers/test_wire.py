"""Releases as bytes: they come back as they were, and nothing else opens."""

import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import confide
from confide.agents import LikelihoodVI
from confide.errors import InvalidParameter
from confide.mechanisms.sources import noise_source
from confide.mechanisms.state import pack
from confide.privatizers.wire import decode_release, encode_release
from confide.problems import lock

WORLD = lock(0)
SERVER = LikelihoodVI(
    WORLD.public, episodes=100, privacy=confide.LocalDP(4.0, 1e-6), noise=noise_source("fast", 0)
)
SENT = SERVER.publish()


def test_a_device_plans_the_same_from_bytes():
    client = SERVER.client()
    np.testing.assert_array_equal(client.plan(SENT).actions, client.plan(SERVER.released()).actions)


def test_bytes_and_back():
    released = SERVER.released()
    again = decode_release(encode_release(released), SERVER.guarantee)
    np.testing.assert_array_equal(again.values, released.values)
    assert (again.noise, again.users, again.generation) == (
        released.noise,
        released.users,
        released.generation,
    )
    assert set(again.memory) == set(released.memory)


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        "text",
        None,
        SENT[:-1],
        SENT + b"x",
        pickle.dumps(SERVER.released().values),
        pack("run", 0, {}, {}),
        pack("release", 0, {"users": 0, "std": 0.0, "distribution": "none"}, {}),
        pack(
            "release",
            0,
            {"users": "many", "std": 0.0, "distribution": "none"},
            {"values": np.zeros(3)},
        ),
        pack(
            "release", 0, {"users": -1, "std": 0.0, "distribution": "none"}, {"values": np.zeros(3)}
        ),
        pack(
            "release",
            0,
            {"users": 0, "std": float("nan"), "distribution": "none"},
            {"values": np.zeros(3)},
        ),
        pack(
            "release",
            0,
            {"users": 0, "std": 0.0, "distribution": "none"},
            {"values": np.zeros(3, dtype=np.int64)},
        ),
    ],
    ids=range(12),
)
def test_nothing_else_opens(wrong):
    with pytest.raises(InvalidParameter):
        decode_release(wrong, SERVER.guarantee)


@given(st.binary(max_size=200))
def test_garbage_is_refused(data):
    with pytest.raises(InvalidParameter):
        SERVER.client().plan(data)
