import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from confide.errors import StateError
from confide.mechanisms import state as module
from confide.mechanisms.state import StateFile, pack, unpack

ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3),
    "b": np.array([2**62], dtype=np.int64),
    "c": np.array([1, 2], dtype=np.uint8),
}


def test_round_trip():
    state = unpack(pack("counter", 7, {"x": 2**100}, ARRAYS), "counter", released=7)
    assert (state.kind, state.generation, state.facts) == ("counter", 7, {"x": 2**100})
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(state.arrays[name], array)
        assert state.arrays[name].dtype == array.dtype
    assert "2.0" not in repr(state)


@given(st.integers(0, 1000))
def test_every_truncation_and_every_flipped_bit_is_noticed(at):
    data = pack("counter", 1, {}, ARRAYS)
    at %= len(data)
    with pytest.raises(StateError):
        unpack(data[:at], "counter", released=0)
    flipped = bytearray(data)
    flipped[at] ^= 1
    with pytest.raises(StateError):
        unpack(bytes(flipped), "counter", released=0)


def test_wrong_kind_format_and_generation(monkeypatch):
    data = pack("counter", 3, {}, ARRAYS)
    with pytest.raises(StateError, match="of a counter, expected a privatizer"):
        unpack(data, "privatizer", released=0)
    with pytest.raises(StateError, match="generation 3, but generation 4 was already released"):
        unpack(data, "counter", released=4)
    monkeypatch.setattr(module, "_FORMAT", 2)
    older = pack("counter", 3, {}, ARRAYS)
    monkeypatch.undo()
    with pytest.raises(
        StateError,
        match="has format 2, this version of confide reads format confide-state/3: "
        "go on with the version that saved it",
    ):
        unpack(older, "counter", released=0)


def packed(generation):
    return pack("counter", generation, {}, ARRAYS)


def test_a_file_is_private_whole_and_never_older(tmp_path):
    file = StateFile(tmp_path / "agent.state")
    assert file.generation() == 0
    file.write(packed(1))
    copy = file.read()
    (tmp_path / "agent.state.0123456789abcdef.part").write_bytes(
        b"left by a writer that was killed"
    )
    (tmp_path / "agent.state2.0123456789abcdef.part").write_bytes(
        b"of another store, still being written"
    )
    file.write(packed(2))
    assert (file.read(), file.generation()) == (packed(2), 2)
    (tmp_path / "agent.state2.0123456789abcdef.part").unlink()
    assert all(oct(os.stat(path).st_mode & 0o777) == "0o600" for path in tmp_path.iterdir())
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "agent.state",
        "agent.state.generation",
        "agent.state.lock",
    ]
    for generation in (1, 2):
        with pytest.raises(StateError, match="must not be drawn twice"):
            file.write(packed(generation))
    # Somebody restores a backup.
    file.path.write_bytes(copy)
    with pytest.raises(StateError, match="older than generation 2"):
        file.read()
    file.remove()
    assert [path.name for path in tmp_path.iterdir()] == ["agent.state.lock"]
    with pytest.raises(StateError, match="removed or put back after generation 2"):
        # who had gone on from the state that was removed cannot release what others may have
        # released
        file.write(packed(3))


@pytest.mark.parametrize("link", ["file", "folder"])
def test_a_state_is_one_state_however_it_is_reached(tmp_path, monkeypatch, link):
    place = tmp_path / "place"
    place.mkdir()
    (tmp_path / "folder").symlink_to(place)
    (tmp_path / "file").symlink_to(place / "state")
    linked = StateFile(tmp_path / link if link == "file" else tmp_path / link / "state")
    monkeypatch.chdir(place)
    relative = StateFile("state")
    monkeypatch.chdir(tmp_path)
    linked.write(packed(1))
    for other in (relative, StateFile(place / "state")):
        assert other.generation() == 1
        with pytest.raises(StateError, match="must not be drawn twice"):
            other.write(packed(1))


def test_a_crash_between_state_and_mark_is_covered(tmp_path):
    file = StateFile(tmp_path / "agent.state")
    file.path.write_bytes(packed(3))
    assert file.generation() == 3
    with pytest.raises(StateError, match="must not be drawn twice"):
        file.write(packed(3))


def test_missing_and_damaged_files(tmp_path):
    with pytest.raises(StateError, match=r"cannot read the state file nothing\.state"):
        StateFile(tmp_path / "nothing.state").read()
    (tmp_path / "x.state.generation").write_text("many")
    with pytest.raises(StateError, match="damaged"):
        StateFile(tmp_path / "x.state").generation()


def test_a_failed_write_leaves_the_old_state(tmp_path, monkeypatch):
    file = StateFile(tmp_path / "agent.state")
    file.write(packed(1))
    monkeypatch.setattr(module.os, "fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        file.write(packed(2))
    assert file.read() == packed(1)
    assert len(list(tmp_path.iterdir())) == 3
