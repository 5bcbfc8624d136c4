"""A user's side: it believes signatures and nothing else, and sends one report."""

import numpy as np
import pytest
from service_bench import device, play, serving, spec


@pytest.mark.parametrize("trust", ["joint", "local"])
def test_learning_over_http(folder, trust):
    """Release by release, with devices that read rounds and know no planner."""
    rng = np.random.default_rng(0)
    with serving(folder, spec(trust=trust, users=40, every=20)) as http:
        for number in range(40):
            one = device(http, f"person {number}", trust=trust)
            one.join()
            assert one.report(*play(one, rng)) == "counted"
            assert one.report(*play(one, rng)) == "same"  # the same bytes, whatever is reported
        run = http.service.runs["demo"]
        assert (run.generation, run.status, run.learner.users) == (2, "finished", 40)
        assert http.service.store.participants("demo") == {0: 20, 1: 20}
