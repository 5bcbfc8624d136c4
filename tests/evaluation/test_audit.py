"""The promises of the estimators survive an attack, and broken twins do not."""

import numpy as np
import pytest

from confide.audit import refute, subject
from confide.errors import InvalidParameter
from confide.privacy import CentralDP

GAUSSIAN, SMOOTH = CentralDP(4.0, 0.01), CentralDP(0.5, 0.01)
CASES = [
    (
        "counts-and-sums",
        GAUSSIAN,
        {None: 2000, "noise": 3000, "clip": 200, "redraw": 1500, "shared": 200},
    ),
    ("dp-lsw", SMOOTH, {None: 5000, "noise": 30_000, "clip": 300, "redraw": 12_000, "shared": 300}),
    ("dp-lsl", SMOOTH, {None: 5000, "noise": 30_000, "clip": 300, "redraw": 12_000, "shared": 300}),
]


@pytest.mark.parametrize(
    ("name", "privacy", "twin", "runs"),
    [(n, p, t, r) for n, p, twins in CASES for t, r in twins.items()],
)
def test_broken_twins_are_caught_and_honest_ones_are_not(name, privacy, twin, runs):
    attacked = subject(name, privacy, twin=twin)
    assert refute(
        attacked, delta=privacy.delta, runs=runs, rng=np.random.default_rng(0)
    ).refuted is (twin is not None)


def test_laplace_noise_is_attacked_too():
    honest = refute(
        subject("counts-and-sums", CentralDP(1.0, delta=0.0)),
        delta=0.0,
        runs=2000,
        rng=np.random.default_rng(0),
    )
    assert not honest.refuted and honest.epsilon_lower > 0.3
    with pytest.raises(InvalidParameter, match="delta"):
        subject("dp-lsw", CentralDP(1.0, delta=0.0))


@pytest.mark.parametrize(
    ("name", "twin", "runs"),
    [
        ("sufficient-statistics", None, 300),
        ("sufficient-statistics", "shared", 300),
        ("lstd", None, 1000),
        ("lstd", "shared", 100),
        ("importance-sampling", None, 300),
        ("importance-sampling", "redraw", 1000),
        ("importance-sampling", "noise", 4000),
        ("weighted-importance-sampling", None, 300),
        ("weighted-importance-sampling", "redraw", 1000),
    ],
)
def test_whole_releases_of_two_questions(name, twin, runs):
    attacked = subject(name, GAUSSIAN, twin=twin)
    result = refute(attacked, delta=GAUSSIAN.delta, runs=runs, rng=np.random.default_rng(0))
    assert result.refuted is (twin is not None)
    # LSTD: the user fills little of the ball; the others reach 0.7 and more
    assert result.mu_lower > 0.05 * result.mu
