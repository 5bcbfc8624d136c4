from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from confide.agents import UCRLVTR, NoData, Oracle, Uniform
from confide.errors import InvalidParameter
from confide.privacy.request import JointDP
from confide.problems import lock
from confide.runs.metrics import episodes_to
from confide.runs.run import Run, Segment
from confide.runs.runner import run

PROBLEM = lock(0)


def run_of(*segments, optimal=1.0, uniform=0.0):
    """A run of (users, value) segments."""
    users = sum(n for n, _ in segments)
    parts = tuple(Segment(n, value, None) for n, value in segments)
    return Run("agent", "problem", 0, users, parts, None, optimal, uniform, "", None, 0.0, {})


def brute_force(segments, fraction):
    """The definition, window by window, in exact arithmetic."""
    E = [Fraction(0)]
    for users, value in segments:
        E += [E[-1] + (i + 1) * (Fraction(value) - fraction) for i in range(users)]
    K = len(E) - 1

    def at(x):
        whole = int(x)
        return E[whole] + (x - whole) * (E[whole + 1] - E[whole]) if whole < K else E[K]

    good = [None, *(at(Fraction(5 * j, 4)) >= at(Fraction(j)) for j in range(1, 4 * K // 5 + 1))]
    return next(
        (k for k in range(1, len(good)) if all(good[k : min(10 * k, len(good) - 1) + 1])), None
    )


quarters = st.integers(-4, 8).map(lambda n: n / 4)


@settings(max_examples=400, deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 60), quarters), min_size=1, max_size=12),
    st.sampled_from([0.125, 0.5, 0.75]),
)
def test_it_is_the_definition(segments, fraction):
    assert episodes_to(run_of(*segments), fraction) == brute_force(segments, Fraction(fraction))


@settings(max_examples=200, deadline=None)
@given(st.lists(quarters, min_size=1, max_size=200))
def test_it_is_the_definition_with_a_policy_per_user(values):
    segments = [(1, value) for value in values]
    assert episodes_to(run_of(*segments), 0.5) == brute_force(segments, Fraction(1, 2))


def test_a_step_is_found_to_the_user():
    # (j, 1.25 j] with x bad users first has 90 % if x <= 0.1 x 0.25 j: j + 0.025 j >= 1000
    assert episodes_to(run_of((1000, 0.0), (99_000, 1.0))) == 976
    assert episodes_to(run_of((10**12, 0.0), (99 * 10**12, 1.0))) == -(-1000 * 10**12 // 1025)


def test_a_lapse_counts_until_ten_times_later():
    def lapse(at):
        return episodes_to(run_of((100, 0.0), (at - 100, 1.0), (at, 0.0), (100_000 - 2 * at, 1.0)))

    assert lapse(900) == 1800 * 1000 // 1025 + 1
    assert lapse(2000) == 98


def test_the_ends_of_the_scale():
    assert episodes_to(run_of((100, 0.0))) is None
    # No window fits.
    assert episodes_to(run_of((1, 1.0))) is None
    assert episodes_to(run_of((100, 1.0)), 1.0) == 1
    # Good, but not for a whole window.
    assert episodes_to(run_of((100, 0.0), (20, 1.0))) is None
    K = 2000
    assert run(Oracle(PROBLEM, episodes=K), PROBLEM).episodes_to(1.0) == 1
    assert run(Uniform(PROBLEM.public, episodes=K), PROBLEM).episodes_to(0.0) == 1
    assert run(Uniform(PROBLEM.public, episodes=K), PROBLEM).episodes_to() is None
    assert run(NoData(PROBLEM.public, episodes=K), PROBLEM).episodes_to() is None


def test_a_learner_gets_there():
    done = run(UCRLVTR(PROBLEM.public, episodes=20_000, privacy=JointDP(5.0, 1e-5)), PROBLEM)
    k = done.episodes_to()
    values = np.concatenate([np.full(s.users, s.value) for s in done.segments])
    goal = PROBLEM.uniform_value + 0.9 * (PROBLEM.optimal_value - PROBLEM.uniform_value)
    assert 1 < k < 20_000
    assert values[k : k + k // 4].mean() >= goal - 0.01
    assert done.episodes_to(0.5) <= k <= (done.episodes_to(0.95) or 20_000)


def test_unknown_values_and_wrong_fractions_are_refused():
    with pytest.raises(InvalidParameter, match="not known"):
        episodes_to(run_of((10, None)))
    with pytest.raises(InvalidParameter, match="not known"):
        episodes_to(run_of((10, 1.0), optimal=None))
    for fraction in (1.5, float("nan")):
        with pytest.raises(InvalidParameter, match="fraction must be"):
            episodes_to(run_of((10, 1.0)), fraction)
