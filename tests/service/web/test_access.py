"""API keys and rate limits."""

import time

import pytest

from confide.errors import InvalidParameter
from confide.service.web.access import Keyring, RateLimit, new_api_key, parse_expiry, revoke_api_key


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


def test_a_key_is_shown_once_and_found_by_its_secret(bench):
    store, clock = bench.service.store, Clock()
    key = new_api_key(store, "device", "phones", "test")
    ring = Keyring(store, clock)
    assert ring.find(key).role == "device"
    for wrong in (
        key[:-1],
        key + "x",
        "",
        "cfd__",
        "x" + key[1:],
        "cfd_ü_ü",
        key.replace("_", "-"),
    ):
        assert ring.find(wrong) is None
    assert key.split("_", 2)[2].encode() not in bench.folder.database.read_bytes()
    revoke_api_key(store, key.split("_")[1], "test")
    assert ring.find(key) is not None  # for some seconds
    clock.now = 6.0
    assert ring.find(key) is None
    with pytest.raises(InvalidParameter, match="no API key"):
        revoke_api_key(store, "none", "test")
    for odd in ("\udce9", "\0", "\ud800x"):
        with pytest.raises(InvalidParameter, match="name must be a printable text"):
            revoke_api_key(store, odd, "test")
    with pytest.raises(InvalidParameter, match="role must be one of"):
        new_api_key(store, "king", "", "test")


def test_a_key_expires(bench):
    clock, now = Clock(), Clock()
    now.now = time.time()
    key = new_api_key(bench.service.store, "device", "", "test", expires="2d")
    ring = Keyring(bench.service.store, clock, now)
    assert ring.find(key).expires == pytest.approx(now.now + 2 * 86_400, abs=60)
    now.now += 1.9 * 86_400
    assert ring.find(key) is not None
    now.now += 0.2 * 86_400
    assert ring.find(key) is None


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        ("1d", 86_401),
        ("1970-01-03", 172_800),
        ("1970-01-02T00:00+01:00", 82_800),
        ("1970-01-01T12:00", 43_200),
    ],
)
def test_expiry_is_a_number_of_days_or_a_date(written, seconds):
    assert parse_expiry(written, now=1.5) == seconds


OUTSIDE = "9999-12-31T23:59:59-23:59"  # the year 10000 in UTC


@pytest.mark.parametrize(
    "written", ["", "d", "0d", "-1d", "99999d", "tomorrow", "1970-01-01", OUTSIDE, 5, None]
)
def test_other_expiries_are_refused(written):
    with pytest.raises(InvalidParameter, match="expires"):
        parse_expiry(written, now=1.5)


def test_a_bucket_is_refilled_and_the_oldest_are_forgotten():
    clock = Clock()
    limit = RateLimit(2.0, 4.0, names=2, clock=clock)
    assert [limit.take("ann") for _ in range(4)] == [0.0] * 4
    assert limit.take("ann") == pytest.approx(0.5)
    clock.now = 0.5
    assert limit.take("ann") == 0.0 < limit.take("ann")
    assert limit.take("bob") == limit.take("cem") == 0.0
    assert limit.take("ann") == 0.0  # forgotten, and so full again
