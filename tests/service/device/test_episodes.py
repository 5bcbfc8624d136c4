"""What an episode contributes, computed from the plain tables of a round."""

import json

import numpy as np
import pytest

from confide.errors import (
    InvalidDocument,
)
from confide.service.device.episodes import contribution
from confide.trajectory import collect


@pytest.mark.parametrize(
    ("agent", "problem", "more"),
    [
        ("likelihood-vi", "lock", {}),
        ("questions-vi", "lock", {"every": None, "users": 20_000}),
        ("questions-vi", "lock-rewards", {"every": None, "users": 20_000}),
        ("tabular-psrl", "riverswim", {}),
        ("tabular-psrl", "riverswim-stage", {}),
        ("tabular-psrl", "gym:FrozenLake-v1", {"horizon": 20}),
    ],
)
def test_contributions_from_tables_are_those_of_the_learner(bench, agent, problem, more):
    run = bench.create(agent=agent, problem=problem, trust="local", **more)
    document = json.loads(run.round.body)
    rng, world = np.random.default_rng(0), run.spec.make_problem()
    episodes = []
    for _ in range(20):
        played = world.sample(run.learner.assign().policy, 1, rng)
        episodes.append(
            [part[0].tolist() for part in (played.states, played.actions, played.rewards)]
        )
    episodes += [
        ([0.5, "x", 2], [0, 1], [0.1]),
        ([], [], []),
        ([-1] * 6, [99] * 5, [1.0] * 5),
        ([True, 1, 2], [0, 1], [2.0, 3.0]),
    ]
    for episode in episodes:
        users = collect([episode], world.horizon)
        expected = run.learner.current_round().statistic.contribution(users).steps
        np.testing.assert_array_equal(
            contribution(document["statistic"], document["channel"], episode), expected
        )


def test_a_statistic_that_makes_no_sense_is_refused():
    channel = {"size": 3, "grid": 0.5}
    for statistic in (
        {"kind": "transitions", "steps": 1, "table": [[[[1, 2]]]]},
        {"kind": "answers"},
        None,
    ):
        with pytest.raises(InvalidDocument):
            contribution(statistic, channel, ([0, 0], [0], [1.0]))
