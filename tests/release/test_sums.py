"""Sums over a log, and the warning about a delta that protects nobody."""

import warnings

import pytest

from confide.release import DeltaWarning, delta_warning


def test_a_delta_of_one_over_the_users_causes_a_warning():
    with pytest.warns(DeltaWarning, match="records"):
        delta_warning(1000, 1e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        delta_warning(1000, 0.9e-3)
