"""Policies as an analyst writes them."""

import json

import numpy as np
import pytest

from confide.errors import InvalidParameter
from confide.logs.labels import Labels
from confide.policy import StochasticPolicy
from confide.release.targets import Space, read_target

LABELS = Labels(state=("mild", "severe"), action=("wait", "treat"))
NAMED = Space(2, None, LABELS)
NUMBERED = Space(2, 2, Labels())


def csv_file(folder, *rows, header="state,action,probability"):
    path = folder / "policy.csv"
    path.write_text("\n".join([header, *rows]) + "\n")
    return path


@pytest.mark.parametrize(
    ("space", "text", "words"),
    [(NAMED, "always treat", "always treat"), (NUMBERED, "always 1", "always 1")],
)
def test_one_action_is_read_by_its_label_or_its_number(space, text, words):
    target = read_target(text, space)
    assert target.words == words
    np.testing.assert_array_equal(target.probabilities, [[[0, 1], [0, 1]]])


def test_a_csv_of_probabilities_is_read_by_label(tmp_path):
    rows = ["mild,wait,0.25", "severe,treat,1", "mild,treat,0.75"]
    target = read_target(csv_file(tmp_path, *rows), NAMED)
    np.testing.assert_allclose(target.probabilities, [[[0.25, 0.75], [0, 1]]])
    header = "probability, action, state"
    other = csv_file(tmp_path, "1,1,0", "1,0,1", header=header)
    np.testing.assert_array_equal(read_target(other, NUMBERED).probabilities, [[[0, 1], [1, 0]]])


def learned_policy(folder, states, actions, weights):
    StochasticPolicy(np.array(weights)[None]).save(folder / "policy.npz")
    facts = {
        "format": "confide-policy/1",
        "actions": list(actions),
        "policy": dict.fromkeys(states, "as logged"),
    }
    (folder / "policy.json").write_text(json.dumps(facts))


def test_the_policy_of_learn_is_read_by_its_labels(tmp_path):
    learned_policy(tmp_path, ("severe", "mild"), ("treat", "wait"), [[0.9, 0.1], [0.2, 0.8]])
    for path in (tmp_path, tmp_path / "policy.json"):
        target = read_target(path, NAMED)
        np.testing.assert_allclose(target.probabilities, [[[0.8, 0.2], [0.1, 0.9]]])
    plain = read_target(tmp_path / "policy.npz", NUMBERED)
    np.testing.assert_allclose(plain.probabilities, [[[0.9, 0.1], [0.2, 0.8]]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (["mild,wait,0.5", "mild,treat,0.4", "severe,wait,1"], "for state mild, they sum to 0.9"),
        (["mild,wait,1"], "for state severe, it has no row"),
        (["mild,sleep,1"], "line 2: unknown action 'sleep'; the actions are wait, treat"),
        (["grave,wait,1"], "line 2: unknown state 'grave'; the states are mild, severe"),
        (["mild,wait,much"], "must be a number from 0 to 1, got 'much'"),
        (["mild,wait,nan"], "must be a number from 0 to 1, got 'nan'"),
        (["mild,wait,-0.1"], "must be a number from 0 to 1"),
        (["mild,wait,1", "mild,wait,1"], "line 3: this state and action have a row already"),
        (["mild,wait"], "line 2: must have three cells"),
        (["mild,wait,1,2"], "line 2: must have three cells"),
    ],
)
def test_tables_that_are_no_policy_are_refused(tmp_path, rows, message):
    with pytest.raises(InvalidParameter, match=message):
        read_target(csv_file(tmp_path, *rows), NAMED)


def test_other_files_are_refused(tmp_path):
    with pytest.raises(InvalidParameter, match="first line must be state,action,probability"):
        read_target(csv_file(tmp_path, "1,2", header="a,b"), NAMED)
    with pytest.raises(InvalidParameter, match='must be "always ACTION"'):
        read_target("policy.txt", NAMED)
    with pytest.raises(InvalidParameter, match="cannot read --target"):
        read_target(tmp_path / "missing.csv", NAMED)
    (tmp_path / "some.json").write_text("[1, 2]")
    with pytest.raises(InvalidParameter, match="not a policy that confide learn has written"):
        read_target(tmp_path / "some.json", NAMED)
    with pytest.raises(InvalidParameter, match="unknown action 'sleep'"):
        read_target("always sleep", NAMED)
    with pytest.raises(InvalidParameter, match="say how many actions there are with --actions"):
        read_target("always 1", Space(2, None, Labels()))
    learned_policy(tmp_path, ("severe", "grave"), ("treat", "wait"), [[1, 0], [1, 0]])
    with pytest.raises(InvalidParameter, match="the policy has the states severe, grave"):
        read_target(tmp_path / "policy.json", NAMED)
    StochasticPolicy(np.full((1, 3, 2), 0.5)).save(tmp_path / "three.npz")
    with pytest.raises(InvalidParameter, match="has 3 states, and the log 2"):
        read_target(tmp_path / "three.npz", NAMED)
    StochasticPolicy(np.full((1, 2, 4), 0.25)).save(tmp_path / "four.npz")
    with pytest.raises(InvalidParameter, match="has 4 actions, and the log 2"):
        read_target(tmp_path / "four.npz", NAMED)
