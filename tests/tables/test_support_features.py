"""Which states can follow: the ways to say it, and what is refused."""

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.tables.support_features import layers_of, support_of

SIZES = {"layers": 1, "states": 3, "actions": 2, "terminal": None}
GRAPH = np.array([[1, 1, 0], [0, 1, 1], [1, 0, 1]], dtype=bool)


def test_a_mask_a_graph_and_a_list_say_the_same():
    mask = np.repeat(GRAPH[:, None], 2, axis=1)
    listed = np.argwhere(mask)[::-1]
    supports = [
        support_of(given, **SIZES)
        for given in (GRAPH, mask, listed, np.concatenate([listed, listed]).tolist())
    ]
    for support in supports:
        assert support.known and support.cells == 12 and support.open.all()
        np.testing.assert_array_equal(support.successors, [0, 1, 0, 1, 1, 2, 1, 2, 0, 2, 0, 2])
        np.testing.assert_array_equal(support.indptr, np.arange(0, 13, 2))


def test_nothing_said_every_state_can_follow_but_no_terminal_state_has_cells():
    ends = np.array([False, False, True])
    support = support_of(None, **SIZES | {"terminal": ends, "layers": 2})
    assert not support.known and support.cells == 2 * 4 * 3 and support.pairs == 12
    np.testing.assert_array_equal(support.open, np.tile([True] * 4 + [False] * 2, 2))
    assert support_of(GRAPH, **SIZES | {"terminal": ends}).cells == 8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (np.zeros((3, 3), dtype=bool), r"support\[s=0, a=0\] must have a successor"),
        (np.ones((3, 2), dtype=bool), "boolean array of shape"),
        (np.ones((3, 3)), "boolean array of shape"),
        ([(0, 0, 3)], r"got \(0, 0, 3\)"),
        ([(0, 0)], "boolean array of shape"),
        ("all", "boolean array of shape"),
        ([[0], [0, 1]], "must be an array"),
    ],
)
def test_what_is_no_support_is_refused(given, message):
    with pytest.raises(InvalidParameter, match=message):
        support_of(given, **SIZES)


@pytest.mark.parametrize(
    ("horizon", "known_rewards", "layers"),
    [(1, True, 1), (1, False, 1), (2, True, 2), (2, False, 2), (3, True, 2), (3, False, 3)],
)
def test_one_layer_stands_for_steps_that_are_alike(horizon, known_rewards, layers):
    assert layers_of(horizon, stationary=False, known_rewards=known_rewards) == layers
    assert layers_of(horizon, stationary=True, known_rewards=known_rewards) == 1


def test_a_table_where_every_episode_is_over_is_refused():
    with pytest.raises(InvalidParameter, match="at least one state must not be terminal"):
        support_of(None, **SIZES | {"terminal": np.ones(3, dtype=bool)})
