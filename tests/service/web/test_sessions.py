"""Sessions: a cookie is valid for its key, for some hours, until it is closed."""

import pytest

from confide.service.web.sessions import SESSION_SECONDS, Sessions


def test_a_session_ends():
    now = 0.0
    made = Sessions(b"k" * 32, clock=lambda: now)
    cookie = made.open("abc")
    assert made.owner(cookie) == "abc" and made.open("abc") != cookie
    # another process with the same key
    assert Sessions(b"k" * 32, clock=lambda: now).owner(cookie) == "abc"
    now = SESSION_SECONDS + 1.0
    assert made.owner(cookie) is None


def test_a_session_is_closed():
    made = Sessions(b"k" * 32)
    first, second = made.open("abc"), made.open("abc")
    made.close(first)
    assert made.owner(first) is None and made.owner(second) == "abc"


@pytest.mark.parametrize(
    "forged", ["", "abc", "abc.9999999999.x", "abc.9999999999.x.y", "ü.1.2.3", "...", "abc.x.y.z"]
)
def test_what_the_service_did_not_make_is_nothing(forged):
    assert Sessions(b"k" * 32).owner(forged) is None
    other = Sessions(b"other" * 7).open("abc")
    assert Sessions(b"k" * 32).owner(other) is None


def test_tokens_belong_to_cookies():
    made = Sessions(b"k" * 32)
    cookie = made.open("abc")
    assert made.fits(cookie, made.token(cookie))
    assert (
        not made.fits(made.open("abc"), made.token(cookie))
        and not made.fits("", made.token(""))
        and not made.fits(cookie, "ü")
    )
