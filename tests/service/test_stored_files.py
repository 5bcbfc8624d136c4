"""Copies of all files after each report reveal nobody's contribution.

Services that do not seal are caught.
"""

import zlib

import pytest
from stored_files import attacked

from confide.service.store.keys import KeyFolder
from confide.service.store.vault import Vault

# Enough people that a batch closes, and that the next one is open at the end.
SIZES = {"sqlite": (8, 5), "postgres": (3, 2)}


def attack_with_keys(tmp_path, database, seed):
    keys = KeyFolder(tmp_path / "keys")
    keys.init()
    people, batch = SIZES[database]
    return attacked(database, people=people, batch=batch, seed=seed, keys=keys.folder)


@pytest.mark.process
@pytest.mark.parametrize("database", SIZES)
def test_copies_reveal_nobody_and_look_the_same_whatever_people_report(tmp_path, database):
    """The people, their random numbers and the times are the same in both runs; what they report is
    not.
    """
    one, other = (attack_with_keys(tmp_path, database, seed) for seed in (0, 1))
    for recovered in (one, other):
        assert recovered.people == SIZES[database][0]
        assert (recovered.by_copies, recovered.by_log) == (0, 0)
        assert (recovered.exact_sums_in_files, recovered.states_in_files) == (0, 0)
    assert sum(len(writes) for writes, _, _ in one.patterns) >= 2 * one.people
    assert one.patterns == other.patterns
    assert one.record_lengths == other.record_lengths


def test_a_service_that_does_not_seal_is_caught(tmp_path, monkeypatch):
    monkeypatch.setattr(Vault, "seal", lambda *given: given[-1])
    monkeypatch.setattr(Vault, "open", lambda *given: given[-1])
    recovered = attack_with_keys(tmp_path, "sqlite", 0)
    assert recovered.by_copies == recovered.people and recovered.by_log == 4
    assert recovered.exact_sums_in_files > 0 and recovered.states_in_files == recovered.people


def test_lengths_that_depend_on_what_was_reported_are_caught(tmp_path, monkeypatch):
    """A vault that compresses before it seals."""
    seal, unseal = Vault.seal, Vault.open
    monkeypatch.setattr(
        Vault, "seal", lambda vault, place, data: seal(vault, place, zlib.compress(data))
    )
    monkeypatch.setattr(
        Vault, "open", lambda vault, place, record: zlib.decompress(unseal(vault, place, record))
    )
    one, other = (attack_with_keys(tmp_path, "sqlite", seed) for seed in (0, 1))
    assert one.record_lengths != other.record_lengths and one.patterns != other.patterns
