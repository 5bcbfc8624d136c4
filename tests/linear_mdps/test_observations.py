"""LSVI-UCB on features of observations: it learns, and hostile features cost nobody else
anything.
"""

import importlib.util
import io
import sys
from pathlib import Path

import numpy as np
import pytest

gymnasium = pytest.importorskip("gymnasium", reason='needs pip install "confide[gym]"')

from confide.agents import NextStateVI  # noqa: E402
from confide.audit.verify import verify  # noqa: E402
from confide.errors import InvalidParameter, PrivacyError  # noqa: E402
from confide.linear_mdps.lsvi_ucb import LSVIUCB  # noqa: E402
from confide.mechanisms.sources import FastSource  # noqa: E402
from confide.policy import FeaturePolicy, RandomPolicy, load_policy  # noqa: E402
from confide.privacy import JointDP, NoPrivacy  # noqa: E402
from confide.problems import FeaturesPublic, GymProblem, make  # noqa: E402
from confide.problems.gym import open_environment  # noqa: E402
from confide.runs.runner import run  # noqa: E402
from confide.trajectory import Trajectories, counts_of_nobody  # noqa: E402

EXAMPLE = Path(__file__).parents[2] / "examples" / "corridor.py"
PRIVATE = JointDP(1.0, 1e-5)
PURE = JointDP(1.0, delta=0.0)


@pytest.fixture(scope="module")
def corridor():
    """The example, as a module that others can import by name."""
    spec = importlib.util.spec_from_file_location("corridor_example", EXAMPLE)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


@pytest.fixture
def problem(corridor):
    return GymProblem(corridor.Corridor(), corridor.features, corridor.HORIZON)


def agent_of(public, *, episodes=200, privacy=PRIVATE, seed=0, **more):
    noise = FastSource(np.random.default_rng(seed))
    return LSVIUCB(public, episodes=episodes, privacy=privacy, noise=noise, **more)


def value_of(problem, policy, users=300):
    return problem.sample(policy, users, np.random.default_rng(99)).rewards.sum(axis=1).mean()


def test_it_learns_on_a_continuous_observation_space(problem):
    """Without privacy 1,000 users are enough, and 5,000 with epsilon = 1."""
    uniform = value_of(problem, RandomPolicy(2))
    assert uniform < 0.5
    free = run(LSVIUCB(problem.public, episodes=1000, privacy=NoPrivacy()), problem, seed=0)
    assert value_of(problem, free.policy) > 2.5
    private = run(LSVIUCB(problem.public, episodes=5000, privacy=PRIVATE), problem, seed=0)
    assert private.guarantee.epsilon <= 1.0
    assert value_of(problem, private.policy) > 2.2
    verify(private.certificate)


@pytest.mark.parametrize("calibration", ["tight", "paper"])
@pytest.mark.parametrize("privacy", [PRIVATE, NoPrivacy()], ids=["private", "no-privacy"])
def test_a_resumed_agent_goes_on_bit_by_bit_the_same(problem, privacy, calibration):
    options = {"privacy": privacy, "calibration": calibration, "episodes": 60}
    first, second = (agent_of(problem.public, **options) for _ in range(2))
    users = problem.sample(RandomPolicy(2), 60, np.random.default_rng(0))
    at = 0
    while at < 60:
        size = min(first.next_batch().users, 7, 60 - at)
        first.observe(users[at : at + size])
        second.next_batch()
        second.observe(users[at : at + size])
        at += size
        saved = second.save()
        second = agent_of(problem.public, **options)
        second.restore(saved, released=0)
        np.testing.assert_array_equal(first.released().values, second.released().values)


def test_a_saved_policy_holds_numbers_and_a_name(corridor, problem, tmp_path):
    done = run(LSVIUCB(problem.public, episodes=200, privacy=PRIVATE), problem, seed=0)
    policy = done.policy
    assert isinstance(policy, FeaturePolicy)
    assert policy.features_name == "corridor_example:features"
    policy.save(tmp_path / "policy.npz")
    loaded = load_policy(tmp_path / "policy.npz")
    assert loaded.features_name == "corridor_example:features"
    place = np.array([0.2])
    rng = np.random.default_rng(0)
    with pytest.raises(InvalidParameter, match=r"features=.*corridor_example:features"):
        loaded.act(0, place, rng)
    for given in (corridor.features, "corridor_example:features"):
        ready = load_policy(tmp_path / "policy.npz", features=given)
        for step in range(6):
            for x in np.linspace(0, 1, 21):
                rows = corridor.features([x])
                np.testing.assert_array_equal(
                    ready.q_values(step, rows), policy.q_values(step, rows)
                )
        assert ready.act(0, place, rng) in (0, 1)
        assert ready.choose(0, corridor.features(place), rng) in (0, 1)
    done.save(tmp_path / "run")
    assert type(done).load(tmp_path / "run").policy.features_name == "corridor_example:features"


def test_loading_a_policy_imports_nothing(problem, tmp_path):
    """The name in the file is a text: a module of that name is not imported unless the caller names
    it.
    """
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')\n")
    done = run(LSVIUCB(problem.public, episodes=100, privacy=PRIVATE), problem, seed=0)
    file = io.BytesIO()
    parameters = ("weights", "widths", "offsets", "tops")
    FeaturePolicy(
        *(getattr(done.policy, name) for name in parameters),
        choices=2,
        features_name="trap:features",
    ).save(file)
    file.seek(0)
    sys.path.insert(0, str(tmp_path))
    try:
        assert load_policy(file).features_name == "trap:features"
    finally:
        sys.path.remove(str(tmp_path))
    assert "trap" not in sys.modules
    RandomPolicy(2).save(tmp_path / "random.npz")
    with pytest.raises(InvalidParameter, match="does not act on features"):
        load_policy(tmp_path / "random.npz", features=np.eye)


def test_a_policy_acts_whatever_the_function_does(problem):
    done = run(LSVIUCB(problem.public, episodes=100, privacy=NoPrivacy()), problem, seed=0)
    policy = done.policy

    def fail(observation):
        raise ValueError(observation)

    for function in (fail, lambda _: np.nan, lambda _: np.zeros((3, 12)), lambda _: "text"):
        file = io.BytesIO()
        policy.save(file)
        file.seek(0)
        loaded = load_policy(file, features=function)
        rng = np.random.default_rng(0)
        actions = {loaded.act(0, np.array([0.5]), rng) for _ in range(40)}
        assert actions == {0, 1}


def hostile(user, how):
    """The data of one user, spoilt."""
    states, actions, rewards = (
        np.array(part, dtype=float) for part in (user.states, user.actions, user.rewards)
    )
    spoil = {
        "nan": lambda: states.__setitem__((0, 2), np.nan),
        "one nan": lambda: states.__setitem__((0, 5, 1, 3), np.nan),
        "infinite": lambda: states.__setitem__((0, 1, 0, 0), np.inf),
        "an action that does not exist": lambda: actions.__setitem__((0, 3), 2),
        "half an action": lambda: actions.__setitem__((0, 3), 0.5),
        "no action": lambda: actions.__setitem__((0, 0), np.nan),
        "a reward that is no number": lambda: rewards.__setitem__((0, 5), np.nan),
        "an infinite reward": lambda: rewards.__setitem__((0, 5), -np.inf),
    }
    spoil[how]()
    return Trajectories(states, actions, rewards)


SPOILT = [
    "nan",
    "one nan",
    "infinite",
    "an action that does not exist",
    "half an action",
    "no action",
    "a reward that is no number",
    "an infinite reward",
]


@pytest.mark.parametrize("how", SPOILT)
def test_a_hostile_user_contributes_zero_and_nobody_elses_rows_change(problem, how):
    agent = agent_of(problem.public)
    agent.next_batch()
    users = problem.sample(RandomPolicy(2), 9, np.random.default_rng(0))
    spoilt = hostile(users[4:5], how)
    together = Trajectories(
        *(
            np.concatenate(
                [getattr(users[:4], part), getattr(spoilt, part), getattr(users[5:], part)]
            )
            for part in ("states", "actions", "rewards")
        )
    )
    others = agent.contribution(users[:4]) + agent.contribution(users[5:])
    contribution = agent.contribution(together)
    np.testing.assert_array_equal(contribution.values, others.values)
    assert contribution.users == 9
    assert not agent.contribution(spoilt).values.any()
    whole = contribution.stored
    before = agent.contribution(users).stored
    for part in ("features", "actions", "rewards"):
        rows = getattr(whole, part)
        assert not rows[4].any()
        rest = np.arange(9) != 4
        np.testing.assert_array_equal(rows[rest], getattr(before, part)[rest])


def test_values_over_the_bound_are_clipped(corridor):
    """Features ten times as long give the same rows as features of the stated norm, and other users
    keep theirs.
    """
    long = GymProblem(corridor.Corridor(), lambda seen: 10 * corridor.features(seen), 6)
    users = long.sample(RandomPolicy(2), 5, np.random.default_rng(0))
    agent = agent_of(long.public)
    agent.next_batch()
    rows = agent.contribution(users).stored.features / 2**24
    norms = np.linalg.norm(rows, axis=3)
    assert norms.max() <= 1
    assert norms[norms > 0].min() > 1 - 1e-6
    stated = GymProblem(
        corridor.Corridor(), lambda seen: 10 * corridor.features(seen), 6, feature_norm=10.0
    )
    scaled = agent_of(stated.public)
    scaled.next_batch()
    np.testing.assert_allclose(
        scaled.contribution(users).stored.features / 2**24, users.states[:, :6] / 10, atol=1e-7
    )


def test_episodes_that_end_early_contribute_nothing_after_their_end(problem):
    """Users by hand: `collect` calls the function, and what is over is zero."""
    public = problem.public
    whole = ([np.array([0.1])] * 7, [1] * 6, [0.5] * 6)
    short = ([np.array([0.1]), np.array([0.3])], [1], [0.5])
    broken = ([np.array([0.1]), None], [1], [0.5])
    users = public.collect([whole, short, broken, ([], [], []), 3])
    assert users.states.shape == (5, 7, 2, 12)
    np.testing.assert_array_equal(users.states[0, 3], public.features([0.1]))
    assert np.isnan(users.states[2]).all()
    assert np.isnan(users.states[4]).all()
    assert not users.states[1, 2:].any()
    assert not users.rewards[1, 2:].any()
    assert not users.states[3].any()
    agent = agent_of(public)
    agent.next_batch()
    agent.observe(users)
    assert agent.users == 5


def test_what_is_refused(problem):
    agent = agent_of(problem.public)
    agent.next_batch()
    with pytest.raises(InvalidParameter, match="cannot be counted"):
        agent.observe(counts_of_nobody(3, 6))
    wrong = Trajectories(np.zeros((1, 7, 3, 12)), np.zeros((1, 6)), np.zeros((1, 6)))
    with pytest.raises(
        InvalidParameter, match=r"must have shape \(7, 2, 12\) and the actions \(6,\)"
    ):
        agent.observe(wrong)
    with pytest.raises(InvalidParameter, match="needs a linear MDP"):
        NextStateVI(problem.public, episodes=10, privacy=PRIVATE)
    with pytest.raises(InvalidParameter, match="GymProblem"):
        LSVIUCB(make("lock").public, episodes=10, privacy=PRIVATE)
    with pytest.raises(InvalidParameter, match="feature_norm must be positive"):
        GymProblem(open_environment("CartPole-v1", {}), lambda _: np.eye(2), 5, feature_norm=0)
    with pytest.raises(InvalidParameter, match="horizon must be at least 1"):
        FeaturesPublic(np.eye, 0, 2, 2)


def test_a_service_refuses_it_in_one_sentence(monkeypatch, problem):
    """A service seals sums.

    Rows of users would be kept outside of them, so the agent is not served.
    """
    spec = pytest.importorskip("confide.service.core.spec")
    requested = spec.ServiceRunSpec(
        name="corridor", agent="lsvi-ucb", problem="corridor", epsilon=1.0, users=100
    )
    monkeypatch.setattr(spec.ServiceRunSpec, "make_problem", lambda _: problem)
    with pytest.raises(PrivacyError, match="lsvi-ucb cannot be served: it keeps its users' data"):
        requested.make_learner(FastSource(np.random.default_rng(0)))
    with pytest.raises(InvalidParameter, match="features"):
        spec.parse_spec(
            'name = "a"\nagent = "lsvi-ucb"\nproblem = "gym:CartPole-v1"\nepsilon = 1.0\n'
            'users = 10\nfeatures = "corridor:features"\n'
        )
