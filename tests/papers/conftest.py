"""Each paper's quick form, computed once for all tests that look at it."""

from functools import cache

import pytest

from papers import reproduce


@cache
def quick(paper):
    return reproduce(paper, quick=True)


@pytest.fixture(scope="session")
def quick_reproduction():
    return quick
