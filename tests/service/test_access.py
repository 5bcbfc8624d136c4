"""API keys and rate limits."""

import pytest

from confide.errors import InvalidParameter
from confide.service.access import Keyring, RateLimit, new_api_key, revoke_api_key


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_key_is_shown_once_and_found_by_its_secret(bench):
    store, clock = bench.service.store, Clock()
    key = new_api_key(store, "device", "phones", "test")
    ring = Keyring(store, clock)
    assert ring.find(key).role == "device"
    for wrong in (key[:-1], key + "x", "", "cfd__", "x" + key[1:], "cfd_ü_ü", key.replace("_", "-")):
        assert ring.find(wrong) is None
    assert key.split("_", 2)[2].encode() not in bench.folder.database.read_bytes()
    revoke_api_key(store, key.split("_")[1], "test")
    assert ring.find(key) is not None  # for some seconds
    clock.now = 6.0
    assert ring.find(key) is None
    with pytest.raises(InvalidParameter, match="no API key"):
        revoke_api_key(store, "none", "test")
    with pytest.raises(InvalidParameter, match="role must be one of"):
        new_api_key(store, "king", "", "test")


def test_a_bucket_is_refilled_and_the_oldest_are_forgotten():
    clock = Clock()
    limit = RateLimit(2.0, 4.0, names=2, clock=clock)
    assert [limit.wait("ann") for _ in range(4)] == [0.0] * 4
    assert limit.wait("ann") == pytest.approx(0.5)
    clock.now = 0.5
    assert limit.wait("ann") == 0.0 < limit.wait("ann")
    assert limit.wait("bob") == limit.wait("cem") == 0.0
    assert limit.wait("ann") == 0.0  # forgotten, and so full again
