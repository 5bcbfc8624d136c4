"""Keys and pseudonyms."""

import hmac

import pytest

from confide.errors import StateError
from confide.service.store.keys import KeyFolder, Pseudonyms


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
