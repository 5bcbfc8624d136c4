"""The TypeScript client in Node: its types, and its own tests."""

import pytest

pytestmark = pytest.mark.long


@pytest.mark.process
def test_types(npx):
    assert npx("tsc", "--noEmit", "--project", "tsconfig.check.json").strip() == ""


@pytest.mark.process
def test_its_own_tests(npx):
    assert "test/vectors.test.ts" in npx("vitest", "run", "--reporter=verbose")
