"""What follows from a release: values, plans, files."""

import json
import warnings

import numpy as np
import pytest

import confide
from confide.errors import ConfideWarning, InvalidParameter, StateError
from confide.logs import Labels, in_memory, simulate, write
from confide.offline import LearnedPolicy, ModelRelease, PrivateModel
from confide.policy import StochasticPolicy, TabularPolicy, load_policy, uniform_policy
from confide.problems import TabularMDP


def exact_values(world, policy, discount=0.9):
    P, r = world.transitions.dense()[0], world.rewards[0]
    mixed = np.einsum("sa,sat->st", policy, P)
    return np.linalg.solve(np.eye(len(P)) - discount * mixed, (policy * r).sum(axis=1))


def test_without_noise_values_and_rows_are_the_truth(exact, world):
    np.testing.assert_allclose(exact.transitions, world.transitions.dense()[0], atol=0.03)
    uniform = np.full((4, 2), 0.5)
    assert exact.value(uniform) == pytest.approx(
        world.start @ exact_values(world, uniform), abs=0.02
    )
    # root weights count repetitions less
    np.testing.assert_allclose(exact.behaviour, uniform, atol=0.08)


def test_values_satisfy_the_bellman_equation(model):
    policy = np.random.default_rng(0).dirichlet(np.ones(2), size=4)
    V = np.zeros(4)
    for _ in range(model.steps):
        V = (policy * (model.rewards + 0.9 * model.transitions @ V)).sum(axis=1)
    np.testing.assert_allclose(model.state_values(policy), V, atol=1e-9)


def test_all_kinds_of_policies_are_valued_alike(model):
    actions = np.array([1, 1, 0, 1])
    kinds = [
        actions,
        np.eye(2)[actions],
        TabularPolicy(actions[None], 2),
        StochasticPolicy(np.eye(2)[actions][None]),
    ]
    kinds.append(TabularPolicy(np.tile(actions, (5, 1)), 2))
    values = model.values(kinds)
    assert np.ptp(values) == 0 and values[0] == model.value(kinds[0])


@pytest.mark.parametrize(
    "wrong",
    [
        [0, 1],
        [0, 0, 0, 2],
        np.ones((4, 2)),
        np.full((3, 2), 0.5),
        uniform_policy(3, 5, 2),
        "policy",
        None,
    ],
)
def test_policies_that_do_not_fit_are_refused(model, wrong):
    with pytest.raises(InvalidParameter, match="policy"):
        model.value(wrong)


def test_policies_with_a_horizon_are_refused(model):
    with pytest.raises(InvalidParameter, match="same at every step"):
        model.value(TabularPolicy(np.array([[0, 0, 0, 0], [1, 1, 1, 1]]), 2))


def test_the_plan_is_optimal_without_noise_and_good_with_it(exact, model, world):
    best = world.start @ exact_values(world, np.eye(2)[[1, 1, 1, 1]])
    for found in (exact, model):
        policy = found.plan()
        assert world.start @ exact_values(
            world, policy.mixed(np.full((4, 2), 0.5))
        ) == pytest.approx(best)


@pytest.mark.filterwarnings("ignore:0 of 8 pairs")
def test_with_nothing_but_noise_everything_stays_as_logged(asked, people):
    few = in_memory(
        [
            type(people[0])(
                *(part[:42] for part in (people[0].states, people[0].rewards)),
                np.array([0, 21, 42]),
                np.arange(3),
                np.ones(2, bool),
                people[0].actions[:42],
            )
        ]
    )
    policy = asked.release(
        few, privacy=confide.CentralDP(1.0, 1e-6), rng=np.random.default_rng(0)
    ).plan(pessimism=2.0)
    assert not policy.changed.any() and policy.departures() == []


def test_an_action_that_nobody_took_is_not_taken_because_of_noise():
    """It pays more at once, and leads to where nothing is paid for ever.

    Noisy visits to it are positive in half of the runs.
    """
    P, pays = np.zeros((4, 2, 4)), np.array([[0.3, 0.5], [0.4, 0.6], [0.5, 0.7], [0.0, 0.0]])
    P[:3, 0] = [[0.7, 0.3, 0, 0], [0.3, 0.4, 0.3, 0], [0.1, 0.4, 0.5, 0]]
    P[:3, 1, 3] = P[3, :, 3] = 1
    world = TabularMDP(P, pays, np.eye(4)[0], horizon=21)
    first = TabularPolicy(np.zeros((21, 4), int), 2)
    log = in_memory(simulate(world, first, 3000, np.random.default_rng(0)), max_steps=21)
    asked, weak = (
        ModelRelease(states=4, actions=2, discount=0.95, rewards=pays, ends=False),
        confide.CentralDP(0.1, 1e-6),
    )
    with warnings.catch_warnings():
        # few pairs of state and action are told from noise
        warnings.simplefilter("ignore", ConfideWarning)
        plans = [
            asked.release(log, privacy=weak, rng=np.random.default_rng(seed)).plan()
            for seed in range(40)
        ]
    assert not any(plan.choices[0] == 1 for plan in plans)


def test_departures_say_why(model):
    policy = model.plan()
    found = policy.departures()
    assert found and {each.number for each in found} == set(np.flatnonzero(policy.changed))
    first = found[0]
    assert (
        first.gain > 0 and 0.5 < first.chance <= 1 and first.choice == policy.choices[first.number]
    )
    assert f"in state {first.state}: {first.action}" in str(first)


def test_more_pessimism_never_promises_a_higher_value(model):
    lower = [model.plan(pessimism) for pessimism in (0.0, 1.0, 3.0)]
    assert lower[0].value >= lower[2].value - 1e-9
    with pytest.raises(InvalidParameter, match="pessimism must be"):
        model.plan(-1.0)


def test_a_model_is_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "out")
    again = PrivateModel.load(tmp_path / "out")
    assert again.to_bytes() == model.to_bytes() and again.guarantee == model.guarantee
    assert again.value(again.plan()) == model.value(model.plan())
    assert (
        confide.Certificate.load(tmp_path / "out" / "certificate.json").document
        == model.certificate.document
    )


def test_damaged_files_are_refused(model, tmp_path):
    data = model.to_bytes()
    for wrong in (b"", b"x", data[: len(data) // 2]):
        with pytest.raises(StateError, match="not a saved model"):
            PrivateModel.from_bytes(wrong)
    with pytest.raises(StateError, match="cannot read a model"):
        PrivateModel.load(tmp_path / "nothing")


def test_a_file_whose_successors_do_not_exist_is_refused(model, tmp_path):
    with np.load(__import__("io").BytesIO(model.to_bytes())) as archive:
        held = dict(archive)
    held["successors"] = held["successors"] + 100
    np.savez(tmp_path / "model.npz", **held)
    with pytest.raises(StateError, match="not a saved model"):
        PrivateModel.load(tmp_path / "model.npz")


def test_a_policy_is_saved_with_labels(model, tmp_path):
    plan = model.plan()
    names = Labels(("bank", "shallow", "deep", "far bank"), ("left", "right"))
    policy = LearnedPolicy(
        **{name: getattr(plan, name) for name in LearnedPolicy.__slots__} | {"labels": names}
    )
    policy.save(tmp_path / "out")
    held = json.loads((tmp_path / "out" / "policy.json").read_text())
    assert held["policy"]["far bank"] in ("right", "as logged") and held["actions"] == [
        "left",
        "right",
    ]
    assert {each["state"] for each in held["departures"]} <= set(names.state)
    np.testing.assert_allclose(
        load_policy(tmp_path / "out" / "policy.npz").probabilities()[0], policy.weights
    )
    assert policy.described(3) in ("in state far bank: right", "in state far bank: as logged")


def test_labels_of_an_imported_log_are_used(people, tmp_path, world):
    import pyarrow.parquet as pq

    write(tmp_path / "plain.parquet", people)
    table = pq.read_table(tmp_path / "plain.parquet")
    labels = {"state": ["bank", "shallow", "deep", "far bank"], "action": ["left", "right"]}
    named = table.replace_schema_metadata(
        Labels(**{name: tuple(names) for name, names in labels.items()}).metadata()
    )
    pq.write_table(named, tmp_path / "log.parquet")
    log = confide.logs.open(tmp_path / "log.parquet", action="action", max_steps=21)
    made = ModelRelease(states=4, actions=2, discount=0.9, rewards=world.rewards[0], ends=False)
    model = made.release(log, privacy=confide.CentralDP(1.0, 1e-6), rng=np.random.default_rng(0))
    assert model.labels == Labels(tuple(labels["state"]), tuple(labels["action"]))
    assert model.plan(0.0).described(3) == "in state far bank: right"
    with pytest.raises(InvalidParameter, match="names for 4 states, got states=3"):
        ModelRelease(states=3, actions=2, discount=0.9, ends=True, reward_range=(0.0, 1.0)).release(
            log, privacy=confide.CentralDP(1.0, 1e-6)
        )


def test_rewards_are_learned_and_nothing_follows_an_end(people, world):
    """Without noise: rewards are found; and where trajectories end, the rest is worth nothing."""
    made = ModelRelease(states=4, actions=2, discount=0.9, ends=True, reward_range=(0.0, 1.0))
    cut, over = (
        made.release(
            in_memory(people, max_steps=steps),
            privacy=confide.NoPrivacy(),
            rng=np.random.default_rng(0),
        )
        for steps in (21, 100)
    )
    np.testing.assert_allclose(cut.rewards, world.rewards[0], atol=0.02)
    uniform = np.full((4, 2), 0.5)
    assert cut.value(uniform) == pytest.approx(world.start @ exact_values(world, uniform), abs=0.03)
    assert cut.transitions.shape == (4, 2, 5) and cut.transitions[..., 4].max() < 0.01
    # The last of 21 rows leads to the end if trajectories may have 100.
    assert 0.03 < over.transitions[..., 4].mean() < 0.08
