"""Codes of transitions: public tables, and how far apart their rows are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.mixtures import code_features as transition_codes
from confide.mixtures.code_features import (
    best_codes,
    directions,
    mean_codes,
    measure_codes,
    responsibilities,
)
from confide.problems import lock, rand


def kernels(seed, d=3, S=4, A=2, concentration=0.2):
    kernels = np.random.default_rng(seed).dirichlet(np.full(S, concentration), size=(d, S, A))
    return kernels / kernels.sum(axis=-1, keepdims=True)


def brute_force(table):
    rows = np.vstack([table.reshape(-1, table.shape[-1]), np.zeros(table.shape[-1])])
    differences = rows[:, None] - rows[None]
    return np.linalg.norm(differences, axis=-1).max(), np.abs(differences).sum(axis=-1).max()


@given(st.integers(0, 10**6), st.integers(2, 5), st.floats(0.02, 5.0))
@settings(max_examples=30)
def test_diameters_are_those_of_all_pairs_and_of_zero(seed, d, concentration):
    P = kernels(seed, d=d, concentration=concentration)
    for table in (responsibilities(P), directions(P)):
        codes = measure_codes("x", table)
        assert (codes.diameter, codes.l1_diameter) == pytest.approx(brute_force(table), rel=1e-12)


def test_many_codes_are_bounded_by_their_norms(monkeypatch):
    table = directions(kernels(1))
    exact = measure_codes("x", table)
    monkeypatch.setattr(transition_codes, "MAX_COMPARED_CODES", 3)
    bounded = measure_codes("x", table)
    assert bounded.diameter == pytest.approx(2.0) and bounded.diameter >= exact.diameter
    assert bounded.l1_diameter >= exact.l1_diameter


def test_responsibilities_are_points_of_the_simplex_and_directions_unit_vectors():
    P = kernels(2)
    assert responsibilities(P).sum(axis=-1) == pytest.approx(0.0, abs=1e-12)
    assert (responsibilities(P) >= -1 / 3 - 1e-12).all()
    norms = np.linalg.norm(directions(P), axis=-1)
    assert ((np.abs(norms - 1) < 1e-9) | (norms == 0)).all()


def test_a_transition_that_no_kernel_knows_has_the_code_zero():
    P = kernels(3)
    P[:, 0, 0] = [1.0, 0.0, 0.0, 0.0]
    for table in (responsibilities(P), directions(P)):
        assert not table[0, 0, 1:].any()
        # All kernels agree: nothing to learn.
        assert not table[0, 0, 0].any()


def test_means_are_what_each_kernel_gives_on_average():
    P = kernels(4)
    table = directions(P)
    G = mean_codes(table, P)
    for i in range(3):
        assert G[1, 0, :, i] == pytest.approx(sum(P[i, 1, 0, t] * table[1, 0, t] for t in range(4)))


def test_each_world_gets_the_codes_that_suit_it():
    """Measured: at epsilon = 1 directions lose 180 users on lock where responsibilities lose 220;
    on rand 59 against 54.
    """
    assert best_codes(lock(0).public.kernels, size="diameter").name == "directions"
    assert best_codes(rand(0).public.kernels, size="diameter").name == "responsibilities"
