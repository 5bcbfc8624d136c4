"""Signatures are about statements, and keys follow keys."""

import pytest

from confide.errors import SignatureError
from confide.service.documents import (
    SigningKey,
    Statement,
    canonical,
    check_key_chain,
    check_signature,
    endorsement_bytes,
)


def row(key, by=None):
    endorsement = "" if by is None else by.sign(endorsement_bytes(key.public)).hex()
    return {
        "public": key.public.hex(),
        "endorsed_by": "" if by is None else by.id,
        "endorsement": endorsement,
    }


def test_statements_have_the_same_bytes_everywhere():
    assert (
        canonical({"b": 1.0, "a": 1e-5, "ä": "é"}) == b'{"a":0.00001,"b":1,"\xc3\xa4":"\xc3\xa9"}'
    )
    statement = Statement("release", "demo", "m" * 64, 3, "b" * 64, "p" * 64)
    assert statement.to_bytes().startswith(b'{"body":"bbb') and len(statement.digest) == 64
    assert statement.digest != Statement("release", "demo", "m" * 64, 4, "b" * 64, "p" * 64).digest


def test_a_signature_is_of_one_key_about_one_text():
    key, other = SigningKey(b"1" * 32), SigningKey(b"2" * 32)
    check_signature(key.public, key.sign(b"text"), b"text")
    for public, signature, data in (
        (other.public, key.sign(b"text"), b"text"),
        (key.public, key.sign(b"text"), b"test"),
        (key.public, b"", b"text"),
        (b"short", key.sign(b"text"), b"text"),
    ):
        with pytest.raises(SignatureError):
            check_signature(public, signature, data)


def test_keys_are_trusted_by_the_ones_before_them():
    first, second, third, stranger = (SigningKey(bytes([i]) * 32) for i in range(4))
    rows = [row(first), row(second, first), row(third, second)]
    assert set(check_key_chain(rows, first.public)) == {first.id, second.id, third.id}
    for wrong in (
        [row(first), row(third, second)],
        [row(first), row(stranger)],
        [row(first), row(second, first) | {"endorsement": "00"}],
    ):
        with pytest.raises(SignatureError):
            check_key_chain(wrong, first.public)
