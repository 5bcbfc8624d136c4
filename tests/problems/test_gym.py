import sys

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason='needs pip install "confide[gym]"')

import confide.problems  # noqa: E402
from confide.agents import TabularPSRL  # noqa: E402
from confide.errors import InvalidParameter, MissingExtra  # noqa: E402
from confide.learning.agent import Batch  # noqa: E402
from confide.policy import (  # noqa: E402
    FeaturePolicy,
    RandomPolicy,
    StochasticPolicy,
    uniform_policy,
)
from confide.privacy.guarantee import no_guarantee  # noqa: E402
from confide.problems import (  # noqa: E402
    GymProblem,
    from_gymnasium,
    make,
    one_hot,
    reward_map,
    to_gymnasium,
)
from confide.problems.gym import has_table  # noqa: E402
from confide.runs.runner import run  # noqa: E402

# One false alarm in 2.6e7.
Z = 5.5


# Tables.


def raw_value(env, weights, horizon):
    """The expected sum of the environment's own rewards under weights [h, s, a], an episode ending
    when it ends.
    """
    P = env.unwrapped.P
    start = env.unwrapped.initial_state_distrib
    V = np.zeros(len(start))
    for h in reversed(range(horizon)):
        V = np.array(
            [
                sum(
                    weights[h, s, a]
                    * sum(p * (r + (0.0 if done else V[t])) for p, t, r, done in P[s][a])
                    for a in P[s]
                )
                for s in range(len(start))
            ]
        )
    return start @ V


@pytest.mark.parametrize(
    ("name", "horizon", "low", "high"),
    [
        ("FrozenLake-v1", 12, 0, 1),
        ("CliffWalking-v1", 15, -100, 0),
        ("CliffWalkingSlippery-v1", 10, -100, 0),
        ("Taxi-v4", 6, -10, 20),
    ],
)
def test_values_are_an_affine_image_of_the_environments_own(name, horizon, low, high):
    """The same map for every policy, those whose episodes end early included: policies keep their
    order.
    """
    problem = from_gymnasium(name, horizon)
    mapped = reward_map(name)
    env = gymnasium.make(name)
    assert (mapped.low, mapped.high) == (low, high)
    assert problem.rewards.min() >= 0 and problem.rewards.max() <= 1
    rng = np.random.default_rng(0)
    policies = [
        rng.dirichlet(np.full(problem.actions, 0.3), size=(horizon, problem.states))
        for _ in range(2)
    ]
    policies += [
        problem.optimal_policy.probabilities(),
        uniform_policy(horizon, problem.states, problem.actions).weights,
    ]
    for weights in policies:
        raw = raw_value(env, weights, horizon)
        assert mapped.original(problem.value(StochasticPolicy(weights)), horizon) == pytest.approx(
            raw, abs=1e-9 * (high - low)
        )


def test_published_optima():
    """FrozenLake .74 and .91 [Gymnasium's registry], Taxi 7.93, and the cliff's shortest path of
    13 steps.
    """
    for name, best, digits in (
        ("FrozenLake-v1", 0.74, 2),
        ("FrozenLake8x8-v1", 0.91, 2),
        ("Taxi-v4", 7.93, 2),
    ):
        problem = from_gymnasium(name)
        assert problem.horizon == gymnasium.spec(name).max_episode_steps
        assert (
            round(reward_map(name).original(problem.optimal_value, problem.horizon), digits) == best
        )
    cliff = from_gymnasium("CliffWalking-v1", 40)
    assert reward_map("CliffWalking-v1").original(cliff.optimal_value, 40) == pytest.approx(-13)


def test_episodes_that_end_early_stay_in_the_end():
    problem = from_gymnasium("CliffWalking-v1", 20, rewards="public")
    users = problem.sample(problem.optimal_policy, 3, np.random.default_rng(0))
    assert (
        problem.states == 49
        and (users.states[:, 13:] == 48).all()
        and (users.states[:, :13] != 48).all()
    )
    # the images of 0 and of -1
    assert (users.rewards[:, 13:] == 1.0).all() and np.allclose(users.rewards[:, :13], 0.99)


def test_the_name_says_how_rewards_were_mapped():
    assert from_gymnasium("FrozenLake-v1").name == "gym:FrozenLake-v1"
    assert from_gymnasium("Taxi-v4").name == "gym:Taxi-v4, rewards (r +10) / 30"
    assert make("gym:Taxi-v4", horizon=3).horizon == 3 and make("gym:FrozenLake-v1").horizon == 100


def test_rewards_are_learned_unless_they_are_said_to_be_public():
    """What a terminal state earns is public, or nobody would walk to the end of the cliff."""
    for name, ended in (("FrozenLake-v1", 0.0), ("CliffWalking-v1", 1.0), ("Taxi-v4", 1 / 3)):
        hidden = from_gymnasium(name, 10)
        with_rewards = from_gymnasium(name, 10, rewards="public")
        assert hidden.public.rewards is None and hidden.public.terminal_reward == pytest.approx(
            ended
        )
        assert (
            np.array_equal(with_rewards.public.rewards, hidden.rewards)
            and hidden.optimal_value == with_rewards.optimal_value
        )
    assert make("gym:FrozenLake-v1").public.rewards is None
    assert make("gym:FrozenLake-v1", rewards="public").public.rewards is not None


def earned_in_the_table(name, mapped, ended):
    """What each (state, action, next state) can earn by the environment's table, in [0, 1]."""
    rewards = {}
    for s, row in gymnasium.make(name).unwrapped.P.items():
        for a, outcomes in row.items():
            for p, t, r, done in outcomes:
                if p > 0:
                    rewards.setdefault((s, a, ended if done else t), set()).add(
                        round(mapped.apply(r), 9)
                    )
    return rewards


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalkingSlippery-v1", "Taxi-v4"])
def test_users_earn_what_the_environment_pays(name, tmp_path):
    """As trajectories, as counts, in an exported environment, and after the problem was saved."""
    problem = from_gymnasium(name, 12)
    problem.save(tmp_path / "problem.npz")
    uniform = uniform_policy(12, problem.states, problem.actions)
    possible = earned_in_the_table(name, reward_map(name), problem.states - 1)
    rng = np.random.default_rng(0)
    for world in (problem, confide.problems.load_problem(tmp_path / "problem.npz")):
        users = world.sample(uniform, 300, rng)
        counts = world.count(uniform, 300, rng)
        rows = zip(
            users.states[:, :-1].flat,
            users.actions.flat,
            users.states[:, 1:].flat,
            users.rewards.flat,
            strict=True,
        )
        counted = zip(counts.state, counts.action, counts.next_state, counts.reward, strict=True)
        for s, a, t, r in (*rows, *counted):
            earned = (
                possible[s, a, t]
                if s < problem.states - 1
                else {round(problem.public.terminal_reward, 9)}
            )
            assert round(float(r), 9) in earned
        for mean in (users.rewards.sum() / 300, counts.reward @ counts.count / 300):
            assert abs(mean - problem.uniform_value) < Z * 12 / np.sqrt(300)
    played = to_gymnasium(problem)
    state, _ = played.reset(seed=0)
    for _ in range(12):
        action = int(rng.integers(problem.actions))
        after, reward, *_ = played.step(action)
        assert state == problem.states - 1 or round(reward, 9) in possible[state, action, after]
        state = after


def test_outcome_rewards_are_checked():
    table = {
        "transitions": [[[0.5, 0.5]]] * 2,
        "start": [1.0, 0.0],
        "horizon": 2,
        "stochastic_rewards": True,
    }
    means = [[0.5], [0.25]]
    outcomes = [0.0, 1.0, 0.5, 0.0]
    problem = confide.problems.TabularMDP(**table, rewards=means, outcome_rewards=outcomes)
    assert np.array_equal(problem.outcome_rewards, outcomes)
    wrong = [
        ({"outcome_rewards": [0.0, 1.0, 0.5]}, "4 numbers"),
        ({"outcome_rewards": [0.0, 1.0, 0.5, 2.0]}, r"in \[0, 1\]"),
        ({"outcome_rewards": [0.0, 1.0, 0.5, np.nan]}, "finite"),
        ({"rewards": [[0.5], [0.3]]}, "the means of outcome_rewards"),
        ({"stochastic_rewards": False}, "are for stochastic_rewards=True"),
    ]
    for change, message in wrong:
        with pytest.raises(InvalidParameter, match=message):
            confide.problems.TabularMDP(
                **(table | {"rewards": means, "outcome_rewards": outcomes} | change)
            )


def test_a_stated_range_wins_over_that_of_the_table():
    problem = from_gymnasium("CliffWalking-v1", 10, reward_range=(-200, 100))
    assert problem.public.terminal_reward == pytest.approx(2 / 3) and problem.name.endswith(
        "(r +200) / 300"
    )


def test_the_end_of_an_episode_is_worth_its_reward_to_a_learner():
    """A cliff of which rewards are learned: whoever thought that the end earns nothing would never
    go there.
    """
    problem = from_gymnasium("CliffWalking-v1", 25)
    agent = TabularPSRL(problem.public, episodes=20_000, privacy=confide.NoPrivacy())
    result = run(agent, problem, seed=0)
    walks = problem.sample(result.policy, 1, np.random.default_rng(0)).states[0]
    assert walks[-1] == 48
    assert (result.value[-1] - problem.uniform_value) / (
        problem.optimal_value - problem.uniform_value
    ) > 0.95


def test_a_wrapper_that_changes_what_is_seen_hides_the_table():
    turned = gymnasium.wrappers.TransformObservation(
        gymnasium.make("FrozenLake-v1"), lambda s: 15 - s, gymnasium.spaces.Discrete(16)
    )
    with pytest.raises(InvalidParameter, match="a wrapper may change"):
        from_gymnasium(turned, 10)


def test_options_and_environments_are_taken():
    dry = from_gymnasium("FrozenLake-v1", 20, is_slippery=False)
    assert dry.optimal_value == 1.0
    assert (
        from_gymnasium(gymnasium.make("FrozenLake-v1", is_slippery=False), 20).optimal_value == 1.0
    )
    with pytest.raises(InvalidParameter, match="options are for environments given by name"):
        from_gymnasium(gymnasium.make("FrozenLake-v1"), 20, is_slippery=False)


class Endless(gymnasium.Env):
    """Two states, no end, rewards between 2 and 5."""

    _OUTCOMES = {a: [(1.0, a, 5.0 if a else 2.0, False)] for a in (0, 1)}  # noqa: RUF012
    P = {0: _OUTCOMES, 1: _OUTCOMES}  # noqa: RUF012
    initial_state_distrib = (1.0, 0.0)


def test_a_world_without_an_end_gets_none():
    problem = from_gymnasium(Endless(), 4)
    assert (
        problem.states == 2
        and problem.optimal_value == 4.0
        and problem.name == "gym:Endless, rewards (r -2) / 3"
    )
    assert reward_map(Endless()).original(problem.optimal_value, 4) == 20.0


class Flipped(gymnasium.Wrapper):
    """Says that it changes rewards in no way that Gymnasium knows of."""

    def step(self, action):
        observation, reward, *rest = self.env.step(action)
        return observation, 1 - reward, *rest


def test_a_table_is_not_taken_for_what_a_wrapper_makes_of_it():
    lake = gymnasium.make("FrozenLake-v1")
    assert (
        has_table(lake)
        and has_table(gymnasium.wrappers.RecordEpisodeStatistics(lake))
        and not has_table(Flipped(lake))
    )
    with pytest.raises(
        InvalidParameter, match="a wrapper may change what the table of FrozenLakeEnv says"
    ):
        from_gymnasium(Flipped(lake), 5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: from_gymnasium("Blackjack-v1", 5), "BlackjackEnv has no table P .*GymProblem"),
        (lambda: from_gymnasium("FrozenLake-v1", 5, rewards="known"), "rewards must be"),
        (
            lambda: from_gymnasium("Taxi-v4", 5, reward_range=(0, 1)),
            r"contain all rewards, which are in \[-10, 20\]",
        ),
        (lambda: from_gymnasium("Taxi-v4", 5, reward_range=(1, 0)), "low < high"),
        (lambda: from_gymnasium("Nothing-v0", 5), "Gymnasium cannot make 'Nothing-v0'"),
        (lambda: from_gymnasium("CliffWalking-v1"), "no time limit: give a horizon"),
        (lambda: from_gymnasium("FrozenLake-v1", 0), "horizon must be at least 1"),
        (
            lambda: from_gymnasium("Taxi-v4", fickle_passenger=True),
            "fickle passenger is not in the table",
        ),
        (lambda: to_gymnasium(3), "only finite problems and linear systems"),
    ],
)
def test_what_cannot_be_imported_or_exported(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call()


def test_without_gymnasium(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "confide.problems.gym")
    monkeypatch.delattr(confide.problems, "gym")
    monkeypatch.delitem(sys.modules, "confide.problems.sampled", raising=False)
    monkeypatch.delattr(confide.problems, "sampled", raising=False)
    for name in ("from_gymnasium", "to_gymnasium", "GymProblem", "environment", "binned"):
        with pytest.raises(MissingExtra, match=r"pip install 'confide\[gym\]'"):
            getattr(confide.problems, name)


# Step by step.


class AtRandom:
    """Plays at random; what a policy for step-by-step worlds must be able to do."""

    def act(self, step, state, rng):  # noqa: ARG002
        return int(rng.integers(len(state)))

    def save(self, path):
        path.write_text("at random")


def cart_features(observation):
    """[action, i]: the observation, in the half that belongs to the action."""
    return np.kron(np.eye(2), np.tanh(observation)) / 2


def test_any_environment_is_played_step_by_step():
    problem = GymProblem("CartPole-v1", cart_features, horizon=60)
    assert (
        problem.optimal_value is None
        and problem.uniform_value is None
        and problem.name == "gym:CartPole-v1"
    )
    assert (problem.public.horizon, problem.public.actions, problem.public.dimension) == (60, 2, 8)
    assert problem.chunk * 61 * 2 * 8 * 8 <= 2**26
    users = problem.sample(AtRandom(), 30, np.random.default_rng(0))
    assert users.states.shape == (30, 61, 2, 8) and users.actions.shape == users.rewards.shape == (
        30,
        60,
    )
    # One point per step.
    lengths = users.rewards.sum(axis=1).astype(int)
    assert lengths.min() < 60
    for i, length in enumerate(lengths):
        assert users.states[i, :length].any(axis=(1, 2)).all()
        # what is over has no features, no rewards and no actions
        over = length + 1 if length == 60 else length
        assert (
            not users.states[i, over:].any()
            and not users.rewards[i, length:].any()
            and not users.actions[i, length:].any()
        )


def test_features_are_those_of_the_observations():
    problem = GymProblem("CartPole-v1", cart_features, horizon=20)
    rng = np.random.default_rng(5)
    users = problem.sample(AtRandom(), 1, rng)
    env = gymnasium.make("CartPole-v1")
    observation, _ = env.reset(seed=int(np.random.default_rng(5).integers(2**31)))
    for h in range(int(users.rewards.sum())):
        assert np.array_equal(users.states[0, h], cart_features(observation))
        observation = env.step(int(users.actions[0, h]))[0]


def test_the_same_generator_gives_the_same_episodes_and_can_be_taken_up():
    problem = GymProblem("CartPole-v1", cart_features, horizon=20)
    rng = np.random.default_rng(1)
    whole = problem.sample(AtRandom(), 6, np.random.default_rng(1))
    problem.sample(AtRandom(), 2, rng)
    fresh = np.random.default_rng()
    fresh.bit_generator.state = rng.bit_generator.state
    rest = GymProblem("CartPole-v1", cart_features, horizon=20).sample(AtRandom(), 4, fresh)
    assert np.array_equal(whole.states[2:], rest.states) and np.array_equal(
        whole.actions[2:], rest.actions
    )


def test_a_known_problem_played_step_by_step_has_its_known_value():
    """one-hot, exported and played through its features: 4000 users, |z| < 5.5."""
    truth = one_hot()
    problem = GymProblem(to_gymnasium(truth), lambda state: truth.features[state], horizon=5)
    returns = problem.sample(AtRandom(), 4000, np.random.default_rng(2)).rewards.sum(axis=1)
    assert problem.name == "gym:confide/one-hot" and problem.dimension == 10
    assert abs(returns.mean() - truth.uniform_value) < Z * returns.std() / np.sqrt(4000)


class Player:
    """An agent that learns nothing."""

    name = "player"

    def __init__(self, episodes):
        self.episodes = episodes
        self.guarantee = no_guarantee(episodes)

    def next_batch(self):
        return Batch(AtRandom(), 10)

    def observe(self, users):
        assert users.states.ndim == 4


def test_the_runner_reports_returns_where_regret_is_unknown():
    result = run(Player(25), GymProblem("CartPole-v1", cart_features, horizon=30))
    assert result.optimal_value is None and np.isnan(result.regret).all()
    assert result.complete and 5 < result.mean_return[-1] <= 30


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: GymProblem("Pendulum-v1", cart_features, 5), "finitely many actions"),
        (
            lambda: GymProblem("CartPole-v1", cart_features, 501),
            "at most 500, after which the environment stops, got horizon=501",
        ),
        (
            lambda: GymProblem("CartPole-v1", lambda x: x, 5),
            r"must have shape \(2, dimension\), got \(4,\)",
        ),
        (
            lambda: GymProblem("CartPole-v1", lambda _: np.eye(3), 5),
            r"must have shape \(2, dimension\), got \(3, 3\)",
        ),
        (
            lambda: GymProblem("CartPole-v1", cart_features, 5).sample(
                uniform_policy(5, 1, 2), 1, None
            ),
            "acts on features, got StochasticPolicy",
        ),
    ],
)
def test_what_cannot_be_played(call, message):
    with pytest.raises(InvalidParameter, match=message):
        call()


def _raise(observation):
    raise ValueError(f"the cart is at {observation[0]}")


@pytest.mark.parametrize(
    "fail",
    [
        _raise,
        lambda _: np.full((2, 4), np.nan),
        lambda _: np.full((2, 4), np.inf),
        lambda seen: seen,
        lambda _: "nothing",
        lambda _: None,
        lambda _: [[1.0], [1.0, 2.0]],
        lambda _: np.full((2, 4), 1j),
    ],
    ids=["raises", "nan", "infinite", "shape", "text", "none", "ragged", "complex"],
)
@pytest.mark.parametrize("learned", [False, True], ids=["uniform", "learned"])
def test_a_user_whose_features_cannot_be_computed_has_none(fail, learned, capsys, recwarn):
    """The function fails where the cart drifts to the right; all other users have the features
    that they had.
    """
    policy = AtRandom()
    if learned:
        # Only some actions are ties, so that users differ in how often they draw.
        widths = np.zeros((10, 4, 4))
        ones = np.ones(10)
        policy = FeaturePolicy(np.full((10, 4), 0.2), widths, 0.5 * ones, ones / 2, choices=2)

    def hostile(observation):
        return fail(observation) if observation[1] > 0.9 else np.outer([1.0, -1.0], observation)

    def harmless(observation):
        return np.outer([1.0, -1.0], observation)

    problem = GymProblem("CartPole-v1", hostile, 10)
    users = problem.sample(policy, 40, np.random.default_rng(0))
    failed = np.isnan(users.states).all(axis=(1, 2, 3))
    assert 3 < failed.sum() < 37
    assert np.isfinite(users.states[~failed]).all()
    same = GymProblem("CartPole-v1", harmless, 10).sample(policy, 40, np.random.default_rng(0))
    for part in ("states", "actions", "rewards"):
        np.testing.assert_array_equal(getattr(users, part)[~failed], getattr(same, part)[~failed])
    assert capsys.readouterr() == ("", "")
    assert not recwarn.list


def test_a_function_that_remembers_is_refused():
    seen = []

    def growing(observation):
        seen.append(observation)
        return np.full((2, 3), len(seen) / 10)

    def overwriting(observation):
        observation /= 2
        return np.outer([1.0, -1.0], observation)

    for function in (growing, overwriting):
        with pytest.raises(InvalidParameter, match="two answers for the same observation"):
            GymProblem("CartPole-v1", function, 10)


def test_rewards_are_mapped_from_their_stated_range():
    problem = GymProblem(
        "MountainCar-v0", lambda seen: np.outer(np.eye(3)[0], seen), 20, reward_range=(-1, 0)
    )
    users = problem.sample(RandomPolicy(3), 2, np.random.default_rng(0))
    assert not users.rewards.any()
    assert problem.public.terminal_reward == 1.0
    assert problem.name == "gym:MountainCar-v0, rewards (r +1) / 1"
    with pytest.raises(InvalidParameter, match=r"not a number in reward_range=\(0, 1\)"):
        GymProblem("MountainCar-v0", lambda seen: np.outer(np.eye(3)[0], seen), 20).sample(
            RandomPolicy(3), 1, np.random.default_rng(0)
        )
    with pytest.raises(InvalidParameter, match="must contain 0"):
        GymProblem("CartPole-v1", cart_features, 5, reward_range=(1, 2))


def test_features_can_be_named():
    problem = GymProblem("CartPole-v1", f"{__name__}:cart_features", 5)
    assert problem.public.features is cart_features
    assert problem.public.features_name == f"{__name__}:cart_features"
    assert GymProblem("CartPole-v1", cart_features, 5).public.features_name == (
        f"{__name__}:cart_features"
    )
    assert GymProblem("CartPole-v1", lambda seen: cart_features(seen), 5).public.features_name == ""
    for name, message in (
        ("cart_features", "must be package.module:function"),
        ("nowhere:cart_features", "ModuleNotFoundError"),
        (f"{__name__}:nothing", "AttributeError"),
        (f"{__name__}:pytest", "must be a function"),
    ):
        with pytest.raises(InvalidParameter, match=message):
            GymProblem("CartPole-v1", name, 5)
