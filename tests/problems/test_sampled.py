import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason='needs pip install "confide[gym]"')

from gymnasium import spaces  # noqa: E402

import confide  # noqa: E402
from confide.agents import TabularPSRL, Uniform  # noqa: E402
from confide.errors import InvalidParameter  # noqa: E402
from confide.policy import RandomPolicy, TabularPolicy, uniform_policy  # noqa: E402
from confide.problems import binned, environment, from_gymnasium, make  # noqa: E402

# One false alarm in 2.6e7.
Z = 5.5


def uniform(problem):
    return uniform_policy(problem.horizon, problem.states, problem.actions)


def returns(problem, policy, users):
    return problem.sample(policy, users, np.random.default_rng(3)).rewards.sum(axis=1)


class Corridor(gymnasium.Env):
    """Numbered 10..12; the right end pays 4 and ends the episode. `wrong` says what goes wrong in
    the second step.
    """

    observation_space = spaces.Discrete(3, start=10)
    action_space = spaces.Discrete(2, start=1)

    def __init__(self, wrong=""):
        self.wrong = wrong

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed, options=options)
        self.at = 10
        self.steps = 0
        return self.at, {}

    def step(self, action):
        assert action in (1, 2)
        move = 1 if action == 2 else -1
        self.at = min(12, max(10, self.at + move))
        self.steps += 1
        there = self.at == 12
        if self.wrong == "raises" and self.steps == 2:
            raise RuntimeError("no more fuel")
        seen = (
            {"observation": 13, "kind": 10.5}.get(self.wrong, self.at)
            if self.steps == 1
            else self.at
        )
        reward = {"reward": 5.0, "nan": float("nan"), "text": "x"}.get(
            self.wrong, 4.0 if there else -1.0
        )
        return seen, reward, there, False, {}


def test_a_corridor_step_by_step():
    problem = environment(Corridor(), 4, reward_range=(-1, 4))
    assert (problem.states, problem.actions, problem.horizon, problem.optimal_value) == (
        5,
        2,
        5,
        None,
    )
    public = problem.public
    assert (
        public.rewards is None
        and public.start[4] == 1
        and public.terminal.tolist() == [False] * 3 + [True, False]
    )
    assert public.terminal_reward == pytest.approx(0.2)
    right = TabularPolicy(np.ones((5, 5), int), 2)
    users = problem.sample(right, 2, np.random.default_rng(0))
    # Before, both cells, over.
    assert users.states.tolist() == [[4, 0, 1, 3, 3, 3]] * 2
    # The images of -1, 4 and 0.
    assert np.allclose(users.rewards, [0, 0, 1, 0.2, 0.2])
    left = problem.sample(TabularPolicy(np.zeros((5, 5), int), 2), 1, np.random.default_rng(0))
    assert left.states.tolist() == [[4, 0, 0, 0, 0, 0]]


def test_a_start_that_is_known_is_no_step_of_its_own():
    problem = environment(Corridor(), 3, reward_range=(-1, 4), start=[1, 0, 0])
    assert (problem.states, problem.horizon) == (4, 3) and problem.public.start.tolist() == [
        1,
        0,
        0,
        0,
    ]
    assert problem.sample(
        TabularPolicy(np.ones((3, 4), int), 2), 1, np.random.default_rng(0)
    ).states.tolist() == [[0, 1, 3, 3]]


def test_a_table_that_is_only_played_has_its_exact_values():
    """FrozenLake, Taxi in eight copies, and a table with early ends and negative rewards; |z| <
    5.5.
    """
    for name, scale, copies in (
        ("FrozenLake-v1", (0, 1), 1),
        ("Taxi-v4", (-10, 20), 8),
        ("CliffWalking-v1", (-100, 0), 3),
    ):
        played = name if copies == 1 else gymnasium.make_vec(name, num_envs=copies)
        problem = environment(played, 12, reward_range=scale)
        truth = from_gymnasium(name, 12)
        got = returns(problem, uniform(problem), 300)
        assert abs(got.mean() - truth.uniform_value) < Z * max(got.std(), 1e-3) / np.sqrt(300)


def test_copies_play_different_users_and_go_on_bit_by_bit():
    problem = environment(gymnasium.make_vec("FrozenLake-v1", num_envs=4), 12, reward_range=(0, 1))
    first, again = (
        problem.sample(uniform(problem), 10, np.random.default_rng(1)) for _ in range(2)
    )
    assert first.users == 10 and np.array_equal(first.states, again.states)
    assert len(np.unique(first.states, axis=0)) > 5
    over = first.states == 16
    # whoever is over stays there, though the copy plays on
    assert (np.diff(over.astype(int), axis=1) >= 0).all()


@pytest.mark.parametrize(
    "mode",
    [None, gymnasium.vector.AutoresetMode.NEXT_STEP, gymnasium.vector.AutoresetMode.SAME_STEP],
)
def test_a_time_limit_at_the_horizon_ends_no_episode(mode):
    """Else every last step would seem to lead to the end of the episode; FrozenLake, whose limit
    is 6 steps here.
    """
    lake = {"is_slippery": False, "max_episode_steps": 6}
    if mode is None:
        problem = environment("FrozenLake-v1", 6, reward_range=(0, 1), **lake)
    else:
        copies = gymnasium.make_vec(
            "FrozenLake-v1", num_envs=2, vector_kwargs={"autoreset_mode": mode}, **lake
        )
        problem = environment(copies, 6, reward_range=(0, 1))
    down = TabularPolicy(np.ones((problem.horizon, problem.states), int), 4)
    assert (
        problem.sample(down, 2, np.random.default_rng(0)).states.tolist()
        == [[17, 0, 4, 8, 16, 16, 16, 16]] * 2
    )
    right = TabularPolicy(np.full((problem.horizon, problem.states), 2), 4)
    assert (
        problem.sample(right, 2, np.random.default_rng(0)).states.tolist()
        == [[17, 0, 1, 2, 3, 3, 3, 3]] * 2
    )


def test_observations_with_parts_are_numbered():
    problem = environment("Blackjack-v1", 8, reward_range=(-1, 1))
    assert problem.states == 32 * 11 * 2 + 2
    seen = problem.sample(uniform(problem), 50, np.random.default_rng(0)).states
    assert seen[:, 1].max() < 704 and (seen[:, 0] == 705).all()


def test_a_learner_learns_an_environment_and_the_run_says_with_which_interval():
    problem = environment("FrozenLake-v1", 12, reward_range=(0, 1), is_slippery=False)
    truth = None
    truth = from_gymnasium("FrozenLake-v1", 12, is_slippery=False)
    run = confide.run(
        TabularPSRL(problem.public, episodes=1500, privacy=confide.NoPrivacy()), problem, seed=0
    )
    assert np.isnan(run.regret).all() and truth.optimal_value == 1.0
    earned, low, high = run.last_return
    assert low <= earned <= high and earned > 0.9


def test_the_interval_is_that_of_the_users():
    problem = environment("FrozenLake-v1", 12, reward_range=(0, 1))
    run = confide.run(Uniform(problem.public, episodes=400), problem, seed=0)
    # A return is 0 or 1.
    p = run.segments[-1].mean_return
    assert run.segments[-1].users == 400 and run.last_return[2] - p == pytest.approx(
        1.959964 * np.sqrt(p * (1 - p) / 399)
    )
    exact = confide.run(
        Uniform(confide.problems.riverswim().public, episodes=4), confide.problems.riverswim()
    )
    assert exact.last_return is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("raises", r"gym:Corridor, .* failed in step\(\): RuntimeError: no more fuel"),
        ("observation", "an observation that is none of its 3 states"),
        ("kind", "an observation that is none of its 3 states"),
        ("reward", r"a reward that is not a number in reward_range=\(-1, 4\)"),
        ("nan", "a reward that is not a number in"),
        ("text", "a reward that is not a number in"),
    ],
)
def test_environments_that_go_wrong(wrong, message):
    problem = environment(Corridor(wrong), 4, reward_range=(-1, 4))
    with pytest.raises(InvalidParameter, match=message):
        problem.sample(TabularPolicy(np.ones((5, 5), int), 2), 1, np.random.default_rng(0))


def corridor_observed_as(space):
    env = Corridor()
    env.observation_space = space
    return env


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: environment("CartPole-v1", 5, reward_range=(0, 1)),
            r"observations must be numbered.*binned\(env",
        ),
        (
            lambda: environment("Pendulum-v1", 5, reward_range=(0, 1), states=3),
            "actions must be numbered.*TransformAction",
        ),
        (
            lambda: environment(
                corridor_observed_as(spaces.Dict({"a": spaces.Discrete(3)})),
                4,
                reward_range=(-1, 4),
            ),
            "Dict.*TransformObservation",
        ),
        (
            lambda: environment(
                corridor_observed_as(spaces.Box(0, 1, (7, 7))), 4, reward_range=(-1, 4)
            ),
            "Box.*TransformObservation",
        ),
        (
            lambda: environment("FrozenLake-v1", 5, reward_range=(0, 1), states=17),
            "has 16 elements, not 17",
        ),
        (
            lambda: environment("FrozenLake-v1", 101, reward_range=(0, 1)),
            "must be at most 100, after which the environment stops",
        ),
        (lambda: environment(Corridor(), reward_range=(-1, 4)), "no time limit: give a horizon"),
        (lambda: environment(Corridor(), 4, reward_range=(1, 4)), "must contain 0"),
        (lambda: environment(Corridor(), 4, reward_range=3), "reward_range"),
        (lambda: environment(Corridor(), 4, reward_range=(-1, 4), start=[1, 0]), r"shape \(3,\)"),
        (
            lambda: environment(Corridor(), 4, reward_range=(-1, 4)).sample(
                RandomPolicy(2), 1, None
            ),
            "TabularPolicy",
        ),
        (lambda: binned("FrozenLake-v1", [[1.0]]), "only vectors of numbers can be binned"),
        (lambda: binned("CartPole-v1", [[1.0]]), "each of 4 dimensions, got 1"),
        (lambda: binned("CartPole-v1", [[], [], [], [1, 0]]), "increasing edges"),
        (
            lambda: make("gym:Blackjack-v1", horizon=5),
            "no table: give the public range of its rewards, as in --reward-range",
        ),
        (
            lambda: make("gym:Blackjack-v1", horizon=5, rewards="public"),
            "no table: its rewards are learned",
        ),
        (lambda: make("lock", rewards="public"), "are for environments"),
        (lambda: make("gym:nowhere.at.all:Env"), "cannot make the environment nowhere.at.all:Env"),
    ],
)
def test_what_cannot_be_played(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call()


def test_vectors_are_binned_by_public_edges():
    env = binned("CartPole-v1", [[], [0.0], [-0.1, 0.1], []])
    assert env.observation_space.n == 6
    assert [
        env.observation(np.array(x)) for x in ([9, -1, -1, 0], [0, -1, 0, 9], [0, 0, 0.1, 9])
    ] == [0, 1, 5]
    problem = environment(env, 20, reward_range=(0, 1))
    assert problem.name == "gym:CartPole-v1" and problem.states == 8
    assert 5 < returns(problem, uniform(problem), 20).mean() < 20
    with pytest.raises(InvalidParameter, match="is in no bin"):
        env.observation(np.array([0, np.nan, 0, 0]))


def test_an_environment_of_ones_own_by_the_name_of_its_class(tmp_path, monkeypatch):
    (tmp_path / "mazes_of_mine.py").write_text(
        "import gymnasium\nfrom confide.problems import binned\n"
        "def cart():\n    return binned('CartPole-v1', [[], [], [0.0], []])\n"
        "lake = 'gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv'\n"
        "gymnasium.register('Lake-v0', entry_point=lake, max_episode_steps=9)\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert make("gym:mazes_of_mine:cart", horizon=7, reward_range=(0, 1)).states == 4
    assert make("gym:mazes_of_mine:Lake-v0").horizon == 9


@pytest.mark.parametrize("start", [None, [1.0, 0.0, 0.0]])
def test_a_policy_acts_in_the_environment_as_it_was_played(start):
    problem = environment(Corridor(), 4, reward_range=(-1, 4), start=start)
    rng = np.random.default_rng(0)
    first = problem.horizon - 4
    policy = TabularPolicy(rng.integers(2, size=(problem.horizon, problem.states)), 2)
    for step in range(4):
        assert [problem.act(policy, step, at, rng) for at in (10, 11, 12)] == (
            policy.actions[first + step, :3] + 1
        ).tolist()
    with pytest.raises(InvalidParameter, match="below the horizon, which is 4"):
        problem.act(policy, 4, 10, rng)
