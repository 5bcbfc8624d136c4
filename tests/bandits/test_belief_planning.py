"""Beliefs from releases: weights of rounds, shrinkage, and what they say."""

from dataclasses import replace

import numpy as np
import pytest

from confide.bandits.belief_planning import (
    LAYOUT,
    combine_releases,
    estimate_belief,
    recall_releases,
    shrink_to_round,
)
from confide.errors import InvalidParameter
from confide.planners.history import History
from confide.privacy.bounded import NoiseLevel, Released
from confide.privacy.guarantee import no_guarantee


def history_of(releases, noises, users):
    return History(LAYOUT, {"releases": releases, "noises": noises, "users": users})


def test_exact_rounds_are_added_up():
    releases = np.array([[1.0, 2.0], [3.0, 4.0]])
    history = history_of(releases, np.zeros(2), np.array([10.0, 20.0]))
    values, noise = combine_releases(history, 0.0, 0.1)
    assert values == pytest.approx([4.0, 6.0], rel=1e-6) and noise == 0.0


@pytest.mark.parametrize("ratio", [0.0, 1 / 1.3])
def test_the_noise_of_the_combination_is_as_stated_and_its_mean_is_that_of_its_users(ratio):
    """With 1,000 draws the standard deviation has an error of 2.3 %, so 20 % would be seen."""
    rng = np.random.default_rng(0)
    users = 50 * 1.3 ** np.arange(12)
    discount = np.array(
        [[ratio ** (t - j) if j <= t else 0.0 for j in range(12)] for t in range(12)]
    )
    # Each user adds one.
    exact = discount @ users
    releases = exact[:, None] + 10 * rng.normal(size=(12, 1000))
    noises = np.full(12, 100.0)
    history = history_of(releases, noises, users)
    values, noise = combine_releases(history, ratio, 0.1)
    certain, _ = combine_releases(history_of(exact[:, None], noises, users), ratio, 0.1)
    assert values.std() == pytest.approx(noise, rel=0.08)
    assert values.mean() == pytest.approx(certain[0], abs=0.2 * noise)
    # Nobody counts twice.
    assert certain[0] <= users.sum() * (1 + 1e-9)


def test_discounted_rounds_know_the_whole_past_with_the_noise_that_is_promised():
    """(1 + 1/g) x the noise of a single release of everything: the docstring of `Discounted`."""
    g = 1.3
    rounds = 40
    users = g ** np.arange(rounds)
    noises = np.full(rounds, 1 / (1 - g**-2))
    exact = np.array([sum(g ** -(t - j) * users[j] for j in range(t + 1)) for t in range(rounds)])
    values, noise = combine_releases(history_of(exact[:, None], noises, users), 1 / g, 1e-12)
    assert noise / values[0] * users.sum() == pytest.approx(1 + 1 / g, rel=0.01)


def test_a_matrix_that_is_all_noise_becomes_round_and_one_without_noise_stays():
    rng = np.random.default_rng(0)
    Z = rng.normal(size=(8, 8))
    # GOE with a diagonal of variance 1.
    noise = (Z + Z.T) / 2
    assert shrink_to_round(100 * np.eye(8) + 0.5 * noise, 1.0) == pytest.approx(
        np.eye(8) * np.trace(100 * np.eye(8) + 0.5 * noise) / 8
    )
    assert shrink_to_round(noise, 0.0) == pytest.approx(noise)
    assert not shrink_to_round(np.zeros((2, 2)), 1.0).any()


def test_the_belief_finds_the_weights():
    theta = np.array([0.3, -0.4, 0.0])
    belief = estimate_belief(1e5 * np.eye(3), 1e5 * theta, noise=1.0, balance=2.0)
    assert belief.mean == pytest.approx(theta, abs=1e-4)
    assert np.diag(belief.root @ belief.root.T) == pytest.approx(0.25 / 1e5, rel=0.01)
    nothing = estimate_belief(np.zeros((3, 3)), np.zeros(3), noise=1e6, balance=2.0)
    assert not nothing.mean.any() and np.trace(nothing.root @ nothing.root.T) <= 1 + 1e-9


def test_a_device_checks_what_it_is_told():
    first = Released(
        np.zeros(4), NoiseLevel(0.0, "none"), no_guarantee(20), 0, 0, {"seed": np.array(0)}
    )
    memory = recall_releases(first, differences=True).arrays
    released = Released(np.ones(4), NoiseLevel(2.0, "gaussian"), no_guarantee(20), 10, 1, memory)
    history = recall_releases(released, differences=True)
    assert history["users"].tolist() == [10.0] and history["noises"].tolist() == [4.0]
    later = replace(released, values=3 * np.ones(4), users=20, generation=2, memory=history.arrays)
    assert recall_releases(later, differences=True)["releases"].tolist() == [[1.0] * 4, [2.0] * 4]
    for name, wrong in [
        ("releases", np.ones((2, 4))),
        ("noises", np.array([-1.0])),
        ("users", np.array([np.nan])),
        ("last", "x"),
        ("total", np.array(21)),
        ("another", np.zeros(1)),
    ]:
        tampered = replace(later, memory={**history.arrays, name: wrong})
        with pytest.raises(InvalidParameter, match="does not fit"):
            recall_releases(tampered, differences=True)
