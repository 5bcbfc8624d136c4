"""The crash matrix: a service that is killed anywhere loses nobody, counts nobody twice, and never
shows two faces of one release.
"""

import pytest
from crash_harness import CLOSES, POINTS, AnswersBeforeCommit, Crashes, ShowsBeforeCommit


@pytest.mark.process
@pytest.mark.parametrize("trust", ["joint", "local"])
@pytest.mark.parametrize("point", POINTS)
def test_killed_again_and_again_nothing_is_lost(folder, point, trust):
    crashes = Crashes(folder, trust=trust, users=12, every=4)
    for nth in (1, 2, 1):
        crashes.run(point, nth)
    assert crashes.kills >= (2 if point in CLOSES else 3)
    while crashes.run("nowhere"):
        pass
    assert crashes.problems() == []
    assert len(crashes.shown) == 4 and max(crashes.shown) == 3
    assert sum(bool(told & {"counted", "same"}) for told in crashes.told.values()) >= 10


@pytest.mark.process
@pytest.mark.parametrize(
    ("twin", "point"), [(AnswersBeforeCommit, "summed"), (ShowsBeforeCommit, "drawn")]
)
def test_broken_twins_are_caught(folder, twin, point):
    crashes = Crashes(folder, trust="joint", service=twin, users=12, every=4)
    crashes.run(point, 1)
    crashes.run("nowhere")
    assert any("lost" in problem or "two releases" in problem for problem in crashes.problems())
