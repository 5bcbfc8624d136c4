"""Logs of other kinds: simulated, CSV, Minari."""

import numpy as np
import pyarrow.parquet as pq
import pytest

from confide.errors import InvalidParameter, LogError
from confide.logs import from_csv, from_minari, in_memory, simulate, write
from confide.logs import open as open_logs
from confide.policy import uniform_policy
from confide.problems import chain, riverswim


def test_simulated_chain(rng, tmp_path):
    problem = chain(states=5)
    policy = uniform_policy(problem.horizon, problem.states, problem.actions)
    blocks = list(simulate(problem, policy, 12_000, rng, end={4}))
    assert [block.count for block in blocks] == [5000, 5000, 2000]
    for block in blocks:
        last = block.trajectories[1:] - 1
        assert (block.states[last] == 4).all() and (block.rewards[last] == 1).all()  # that step is included
        assert block.rewards.sum() == block.count == (block.states == 4).sum()  # and ends the trajectory
    write(tmp_path / "chain.parquet", blocks)
    logs = open_logs(tmp_path / "chain.parquet", action="action", probability="probability")
    check = logs.check(states=5)
    assert (check.users, check.zero, check.gaps, check.over_steps) == (12_000, 0, 0, 0)
    again = list(logs.blocks(10**6))
    assert np.array_equal(np.concatenate([b.states for b in again]), np.concatenate([b.states for b in blocks]))


def test_simulated_without_an_end(rng):
    problem = riverswim()
    policy = uniform_policy(problem.horizon, problem.states, problem.actions)
    (block,) = in_memory(simulate(problem, policy, 30, rng)).blocks()
    assert (np.diff(block.trajectories) == problem.horizon).all()
    assert (block.probabilities == 0.5).all()
    with pytest.raises(InvalidParameter, match="end"):
        next(simulate(problem, policy, 3, rng, end={99}))


def test_csv(tmp_path):
    (tmp_path / "log.csv").write_text(
        "patient,stay,t,cluster,reward,other\n"
        "3,a,0,1,0.5,x\n3,a,1,2,1e-1,x\n"
        "10,b,0,7,.5,x\n10,b,1,seven,0.5,x\n"  # a number in words
        "11,c,0,7,nan,x\n"
        "12,d,0,,1,x\n"
        "13,d,0,3.5,1,x\n"
        "14,d, 0 ,+3,-1,x\n"
    )
    names = {"user": "patient", "trajectory": "stay", "step": "t", "state": "cluster"}
    from_csv(tmp_path / "log.csv", tmp_path / "log.parquet", **names)
    (block,) = open_logs(tmp_path / "log.parquet", **names).blocks()
    assert block.valid.tolist() == [True, False, False, False, False, True]
    assert block.states.tolist() == [1, 2, 3]
    assert block.rewards.tolist() == [0.5, 0.1, -1.0]
    assert pq.read_schema(tmp_path / "log.parquet").field("cluster").type == "int64"


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ("", "not a CSV file"),
        ("user,state\n1,2\n", "the header must name 'user', 'trajectory'"),
        ("user,trajectory,step,state,reward\n1,1,0,2\n", "not a CSV file with a header and equal rows"),
        ("user,trajectory,step,state,reward\n", "nothing after the header"),
    ],
)
def test_csv_that_is_none(tmp_path, text, match):
    (tmp_path / "log.csv").write_text(text)
    with pytest.raises(LogError, match=match):
        from_csv(tmp_path / "log.csv", tmp_path / "log.parquet")
    with pytest.raises(LogError, match="No such file"):
        from_csv(tmp_path / "absent.csv", tmp_path / "log.parquet")


def test_csv_ids_that_change_their_kind(tmp_path):
    rows = [f"{user},0,0,1,1\n" for user in range(100_000)]
    (tmp_path / "log.csv").write_text("user,trajectory,step,state,reward\n" + "".join(rows) + "secret,0,0,1,1\n")
    with pytest.raises(LogError, match="starts with whole numbers") as caught:
        from_csv(tmp_path / "log.csv", tmp_path / "log.parquet")
    assert "secret" not in str(caught.value)


@pytest.fixture
def minari_set(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "minari"))
    minari = pytest.importorskip("minari")
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    def make(observations, space):
        ends = {"terminations": [False, True], "truncations": [False, False], "infos": {}}
        episodes = [
            EpisodeBuffer(id=i, seed=0, observations=seen, actions=[0, 1], rewards=[0.5, 1.0], **ends)
            for i, seen in enumerate(observations)
        ]
        about = dict.fromkeys(("algorithm_name", "author", "author_email", "code_permalink", "description"), "test")
        return minari.create_dataset_from_buffers(
            "test/log-v0", episodes, observation_space=space, action_space=spaces.Discrete(2), data_format="arrow", **about
        )

    return make, spaces


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_minari(minari_set, tmp_path):
    make, spaces = minari_set
    data = make([[3, 4, 5], [5, 4, 3], [3, 3, 3]], spaces.Discrete(4, start=3))
    from_minari(data, tmp_path / "log.parquet")
    (block,) = open_logs(tmp_path / "log.parquet", action="action").blocks()
    assert (block.count, block.states.tolist(), block.actions.tolist()) == (3, [0, 1, 2, 1, 0, 0], [0, 1] * 3)
    assert block.rewards.tolist() == [0.5, 1.0] * 3
    from_minari("test/log-v0", tmp_path / "log.parquet", user=lambda episode: -(episode.id % 2))
    (block,) = open_logs(tmp_path / "log.parquet", max_trajectories=2).blocks()
    assert (block.users.tolist(), block.states.tolist()) == ([0, 1, 3], [2, 1, 0, 1, 0, 0])


@pytest.mark.filterwarnings("ignore::UserWarning:minari")
def test_minari_with_vectors(minari_set, tmp_path):
    make, spaces = minari_set
    data = make([[np.zeros(2, np.float32)] * 3], spaces.Box(-1, 1, (2,)))
    with pytest.raises(InvalidParameter, match="must be Discrete to be states, got Box"):
        from_minari(data, tmp_path / "log.parquet")
