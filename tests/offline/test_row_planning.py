"""Rows from noisy counts: distributions whatever the noise, the truth without noise, and evidence
that actions share.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from confide.offline import _row_kernels, row_planning
from confide.offline.gain_planning import _draw_next_states
from confide.offline.row_planning import moves_of, rows_of, simplex, visits_of
from confide.tables.support_features import support_of

S, A = 12, 3
SUPPORT = support_of(None, layers=1, states=S, actions=A, terminal=None)


def sparse_rows(rng, *, shared=True):
    """Three successors for each row: the same ones for all actions of a state, or not."""
    P = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            where = (
                np.random.default_rng(s).choice(S, 3, replace=False)
                if shared
                else rng.choice(S, 3, replace=False)
            )
            P[s, a, where] = rng.dirichlet(np.full(3, 2.0))
    return P


def released(P, visits, noise, rng, weight=0.5):
    counts = rng.poisson(visits * P).astype(float)
    noisy = (counts + noise * rng.normal(size=counts.shape)).ravel()
    totals = counts.sum(axis=2).ravel() + noise / weight * rng.normal(size=S * A)
    return rows_of(noisy, totals, noise, weight, SUPPORT)


def error(rows, P):
    return np.abs(rows.probabilities.reshape(P.shape) - P).sum(axis=2).mean()


def test_without_noise_rows_are_the_shares_of_counts():
    P = sparse_rows(np.random.default_rng(0))
    rows = released(P, 1e5, 0.0, np.random.default_rng(1))
    assert error(rows, P) < 0.02 and rows.method == "exact" and rows.missed < 0.01


def test_few_successors_are_told_from_noise():
    """Cells of 30 to 700 under noise of 30: dividing and clipping alone would be wrong by about a
    half.
    """
    rng = np.random.default_rng(2)
    P = sparse_rows(rng, shared=False)
    rows = released(P, 800.0, 30.0, rng)
    assert error(rows, P) < 0.25


def test_actions_share_what_can_follow():
    rng = np.random.default_rng(3)
    found = {}
    for shared in (True, False):
        P = sparse_rows(rng, shared=shared)
        found[shared] = np.mean([error(released(P, 500.0, 30.0, rng), P) for _ in range(5)])
    assert found[True] < 0.9 * found[False]


def test_variances_are_about_right():
    """Squared errors over variances, for cells that are there: near one (0.5 to 2, in 36 x 3
    cells).
    """
    rng = np.random.default_rng(4)
    P = sparse_rows(rng)
    rows = released(P, 2000.0, 30.0, rng)
    there = P.ravel() > 0.05
    ratio = np.mean((rows.probabilities - P.ravel())[there] ** 2) / np.mean(rows.variances[there])
    assert 0.5 < ratio < 2


def test_dense_rows_are_projected():
    """60 successors of about 5 visits each, under noise of 15: none is seen by itself."""
    rng, size = np.random.default_rng(5), 60
    P = rng.dirichlet(np.full(size, 50.0), size=(size, 1))
    counts = 300 * P + 15 * rng.normal(size=P.shape)
    support = support_of(None, layers=1, states=size, actions=1, terminal=None)
    rows = rows_of(counts.ravel(), 300 + 30 * rng.normal(size=size), 15.0, 0.5, support)
    assert rows.method == "projection" and rows.missed > row_planning.MAX_MISSED_SHARE
    np.testing.assert_allclose(rows.probabilities.reshape(P.shape).sum(axis=2), 1)


@pytest.mark.parametrize(("dense", "method"), [(False, "empirical-bayes"), (True, "projection")])
def test_some_states_of_a_large_table_stand_for_all(monkeypatch, dense, method):
    """Bins are fitted to a quarter of the states, and these decide how rows are made: nearly the
    same probabilities come out.
    """
    rng = np.random.default_rng(6)
    P = rng.dirichlet(np.full(S, 50.0), size=(S, A)) if dense else sparse_rows(rng)
    found = []
    for fitted in (2**19, S * A * S // 4):
        monkeypatch.setattr(row_planning, "FITTED_CELLS", fitted)
        found.append(released(P, 60.0 if dense else 2000.0, 15.0, np.random.default_rng(7)))
    assert [rows.method for rows in found] == [method] * 2
    assert np.abs(found[0].probabilities - found[1].probabilities).max() < 0.05


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.floats(-4, 4), st.floats(0.0, 1e4))
def test_rows_are_distributions_whatever_was_released(seed, scale, noise):
    rng = np.random.default_rng(seed)
    counts, totals = rng.normal(size=S * A * S) * 10**scale, rng.normal(size=S * A) * 10**scale
    rows = rows_of(counts, totals, noise, 0.5, SUPPORT)
    P = rows.probabilities.reshape(S, A, S)
    assert (
        (P >= 0).all()
        and np.allclose(P.sum(axis=2), 1)
        and np.isfinite(rows.variances).all()
        and (rows.variances >= 0).all()
    )


def test_visits_are_the_best_mean_of_totals_and_cells():
    """Noise variance s^2 (1 + 0) / (1/M + w^2), by 20,000 draws: within 5 %."""
    rng, noise = np.random.default_rng(6), 3.0
    small = support_of(
        None, layers=1, states=4, actions=1, terminal=np.array([False, True, True, True])
    )
    found = []
    for _ in range(20_000):
        counts, totals = noise * rng.normal(size=4), np.zeros(4)
        totals[0] = noise / 0.5 * rng.normal()
        visits, std = visits_of(counts, totals, noise, 0.5, small)
        found.append(visits[0])
    assert (
        np.std(found)
        == pytest.approx(std[0], rel=0.05)
        == pytest.approx(noise / np.sqrt(1 / 4 + 1 / 4), rel=0.05)
    )


def test_the_projection_is_the_nearest_point():
    rng = np.random.default_rng(7)
    counts = rng.normal(size=6)
    nearest = _row_kernels.project(counts, np.array([2.0]), np.array([0, 6]))
    assert nearest.min() >= 0 and nearest.sum() == pytest.approx(2.0)
    others = 2 * rng.dirichlet(np.ones(6), size=2000)
    assert np.linalg.norm(nearest - counts) <= np.linalg.norm(others - counts, axis=1).min() + 1e-12
    assert simplex(-np.ones(4)).tolist() == [0.25] * 4


def test_noise_that_leaves_no_visit_leaves_finite_moves():
    """Otherwise whether a release fails after the charge would depend on its noise."""
    support = support_of(None, layers=1, states=2, actions=1, terminal=None)
    visits = np.array([-3.0, -0.5])
    moves, stds = moves_of(np.array([1e4, -2e4]), visits, np.ones(2), 1e4, support)
    assert np.isfinite(moves).all() and np.isfinite(stds).all()


def test_trajectories_stop_in_a_model_without_cells():
    no_cells = sparse.csr_matrix((2, 2))
    start = np.array([0, 1, 0])
    alive, state = _draw_next_states(
        no_cells, np.zeros(1), start, np.ones(3, bool), start, np.random.default_rng(0)
    )
    assert not alive.any() and (state == start).all()
