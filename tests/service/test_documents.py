"""Signatures are about statements, and keys follow keys."""

import hmac

import pytest

from confide.errors import SignatureError, StateError
from confide.service.documents import (
    SigningKey,
    Statement,
    canonical,
    check_chain,
    check_signature,
    endorsed,
)
from confide.service.store.keys import KeyFolder, Pseudonyms
from confide.service.store.marks import Marks


def row(key, by=None):
    endorsement = "" if by is None else by.sign(endorsed(key.public)).hex()
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
    assert set(check_chain(rows, first.public)) == {first.id, second.id, third.id}
    for wrong in (
        [row(first), row(third, second)],
        [row(first), row(stranger)],
        [row(first), row(second, first) | {"endorsement": "00"}],
    ):
        with pytest.raises(SignatureError):
            check_chain(wrong, first.public)


def test_pseudonyms_need_the_key_and_differ_from_run_to_run(tmp_path):
    keys = KeyFolder(tmp_path / "keys")
    keys.init()
    one, two = keys.pseudonyms("one"), keys.pseudonyms("two")
    assert one.who("ann") == keys.pseudonyms("one").who("ann") != two.who("ann")
    assert one.person("ann") == two.person("ann") != one.who("ann")
    assert one.number("ann", 1) != one.number("ann", 2) and 0 <= one.number("ann", 1) < 2**128
    other = KeyFolder(tmp_path / "other")
    other.init()
    assert other.pseudonyms("one").who("ann") != one.who("ann")
    assert {path.stat().st_mode & 0o777 for path in keys.folder.iterdir()} == {0o600}
    before = {path.name: path.read_bytes() for path in keys.folder.iterdir()}
    keys.init()
    assert {path.name: path.read_bytes() for path in keys.folder.iterdir()} == before
    (keys.folder / "pseudonym.key").write_bytes(b"short")
    with pytest.raises(StateError, match="damaged"):
        keys.pseudonyms("one")
    with pytest.raises(StateError, match="cannot read"):
        keys.signing_key("none")


def test_tags_are_hmac_sha256():
    for key in (b"k" * 32, b"", b"k" * 64):
        for text in ("", "ann", "ü" * 500):
            names, tag = Pseudonyms(key, key), hmac.digest(key, text.encode(), "sha256")
            assert names.who(text) == names.person(text) == tag


def test_a_mark_refuses_what_is_older_or_other(tmp_path):
    marks = Marks(tmp_path / "marks")
    assert marks.read("demo") is None
    marks.write("demo", 3, "x")
    marks.check("demo", 4, "y")
    marks.check("demo", 3, "x")
    for generation, digest in ((2, "w"), (3, "y")):
        with pytest.raises(StateError):
            marks.check("demo", generation, digest)
    (tmp_path / "marks" / "demo.mark").write_text("{")
    with pytest.raises(StateError, match="damaged"):
        marks.read("demo")
