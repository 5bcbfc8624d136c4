"""Calls of the public API with valid arguments, of which one or two are replaced by hostile values,
and what became of them.
"""

import copy
import inspect
import warnings
from collections import Counter
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from hostile import VALUES, TooLong, limit, place, short

import confide
from confide import (
    agents,
    audit,
    evaluation,
    logs,
    mechanisms,
    offline,
    policy,
    privacy,
    privatizers,
    problems,
    release,
    statistics,
)
from confide.errors import ConfideError
from confide.identity import Identity
from confide.mechanisms import counters
from confide.privacy import accounting
from confide.privacy.certificate import Mechanism
from confide.runs.sweep import Sweep

NAMESPACES = {
    "": confide,
    "agents": agents,
    "audit": audit,
    "evaluation": evaluation,
    "logs": logs,
    "mechanisms": mechanisms,
}
NAMESPACES |= {
    "offline": offline,
    "privacy": privacy,
    "privatizers": privatizers,
    "problems": problems,
    "release": release,
    "statistics": statistics,
}
# Protocols, unions of types, enumerations, modules, errors and warnings: nobody calls them.
NOT_CALLED = {
    "Agent",
    "ConfideError",
    "DeltaWarning",
    "InvalidParameter",
    "LogQuestion",
    "Logs",
    "Privatizer",
    "Problem",
    "Relation",
    "Request",
    "Trust",
    "accounting",
}
# Records that the library makes and nobody else: they check nothing, and hold what they are given.
RECORDS = {
    "Abilities",
    "Audit",
    "Batch",
    "Calibration",
    "Certificate",
    "Comparison",
    "Description",
    "LearnedPolicy",
    "PrivateModel",
    "RolloutValue",
    "Round",
    "Run",
    "ValueEstimate",
}


class Fresh:
    """An argument that a call uses up: made anew for each."""

    def __init__(self, make):
        self.make = make


@dataclass(frozen=True)
class Case:
    call: object
    # Arguments by name. "*" are the positional ones.
    valid: dict
    # The names of arguments that are somebody's data, which are not replaced here.
    data: frozenset = frozenset()

    def replaced(self, chosen):
        given = {
            name: value.make() if isinstance(value, Fresh) else value
            for name, value in self.valid.items()
        }
        return given | chosen


def _stays(dimension, s, _):
    """Features of a problem in which every state leads to itself."""
    return [s], np.ones((1, dimension))


def rng():
    return np.random.default_rng(0)


def source():
    return mechanisms.FastSource(rng())


PRIVATE = {"privacy": confide.JointDP(1.0, 1e-5)}
CENTRAL = confide.CentralDP(1.0, 1e-6)
LOSS = confide.GaussianDP(0.1)


def cases(folder: Path) -> dict[str, Case]:
    builders = {
        **_privacy(folder),
        **_mechanisms(folder),
        **_privatizers(),
        **_problems(folder),
        **_agents(),
        **_logs(folder),
    }
    return builders | _evaluation() | _roof(folder)


def _privacy(folder):
    guarantee = privacy.Guarantee(LOSS, CENTRAL, privacy.Trust.CENTRAL, 10, "fast")
    mechanism = Mechanism(
        "tree", "gaussian", norm=2, sensitivity=1.0, scale=3.7, parameters={"leaves": 4}, query="x"
    )
    cases_by_name = {}
    for kind in ("CentralDP", "JointDP", "LocalDP"):
        cases_by_name[kind] = Case(
            getattr(confide, kind), {"epsilon": 1.0, "delta": 1e-5, "relation": "replace"}
        )
    cases_by_name["DistributedDP"] = Case(
        confide.DistributedDP,
        {"epsilon": 1.0, "delta": 1e-5, "relation": "replace", "dropouts": 0.1},
    )
    cases_by_name["NoPrivacy"] = Case(confide.NoPrivacy, {})
    cases_by_name["GaussianDP"] = Case(confide.GaussianDP, {"mu": 0.5})
    cases_by_name["PureDP"] = Case(confide.PureDP, {"epsilon": 0.5})
    cases_by_name["ApproxDP"] = Case(confide.ApproxDP, {"epsilon": 0.5, "delta": 1e-5})
    for loss in (LOSS, confide.PureDP(0.5), confide.ApproxDP(0.5, 1e-5)):
        name = type(loss).__name__
        cases_by_name[f"{name}.epsilon_at"] = Case(loss.epsilon_at, {"delta": 1e-5})
        cases_by_name[f"{name}.delta_at"] = Case(loss.delta_at, {"epsilon": 1.0})
        cases_by_name[f"{name}.group"] = Case(loss.group, {"k": 2})
    cases_by_name["gaussian_delta"] = Case(accounting.gaussian_delta, {"epsilon": 1.0, "mu": 0.5})
    cases_by_name["gaussian_mu"] = Case(accounting.gaussian_mu, {"epsilon": 1.0, "delta": 1e-5})
    cases_by_name["gaussian_epsilon"] = Case(
        accounting.gaussian_epsilon, {"mu": 0.5, "delta": 1e-5}
    )
    given = {
        "loss": LOSS,
        "request": CENTRAL,
        "trust": privacy.Trust.CENTRAL,
        "users": 10,
        "source": "fast",
        "times": 1,
    }
    cases_by_name["Guarantee"] = Case(privacy.Guarantee, given)
    cases_by_name["Guarantee.participations"] = Case(guarantee.participations, {"k": 2})
    cases_by_name["billboard"] = Case(confide.billboard, {"guarantee": guarantee})
    cases_by_name["certify"] = Case(
        privacy.certify,
        {"guarantee": guarantee, "mechanisms": [mechanism], "subject": "x", "assumptions": ["x"]},
    )
    cases_by_name["compose"] = Case(
        privacy.compose, {"losses": [LOSS, confide.PureDP(0.5)], "delta": 1e-5}
    )
    cases_by_name["loss_for"] = Case(privacy.loss_for, {"request": CENTRAL})
    numbers = iter(range(10**9))
    total = {
        "epsilon": 3.0,
        "delta": 1e-5,
        "relation": "replace",
        "others_epsilon": 0.5,
        "others_delta": 1e-6,
    }
    cases_by_name["Ledger.init"] = Case(
        confide.Ledger.init, {"path": Fresh(lambda: folder / f"ledger-{next(numbers)}")} | total
    )
    ledger = confide.Ledger.init(folder / "ledger.sqlite", **total)
    cases_by_name["Ledger"] = Case(confide.Ledger, {"path": ledger.path})
    spend = {
        "id": Fresh(lambda: f"id {next(numbers)}"),
        "what": "x",
        "loss": confide.GaussianDP(1e-9),
        "relation": "replace",
    }
    cases_by_name["Ledger.spend"] = Case(ledger.spend, spend | {"release": lambda: b"x"})
    certificate = confide.privacy.certify(guarantee, [mechanism])
    certificate.save(folder / "certificate.json")
    cases_by_name["Certificate.load"] = Case(
        confide.Certificate.load, {"path": folder / "certificate.json"}
    )
    return cases_by_name


def _mechanisms(folder):
    cases_by_name = {
        "Tree": Case(mechanisms.Tree, {"leaves": 4}),
        "HonakerTree": Case(mechanisms.HonakerTree, {"leaves": 4}),
    }
    cases_by_name |= {
        name: Case(getattr(mechanisms, name), {"leaves": 4})
        for name in ("Exact", "Leaves", "Buffered", "Toeplitz", "Discounted")
    }
    cases_by_name["Toeplitz, bits"] = Case(mechanisms.Toeplitz, {"leaves": 4, "bits": 8})
    cases_by_name["Buffered, gaps"] = Case(mechanisms.Buffered, {"leaves": 4, "gaps": (0.1, 0.2)})
    for name in ("Tree", "HonakerTree", "Exact", "Leaves", "Buffered", "Toeplitz", "Discounted"):
        one = getattr(mechanisms, name)(4)
        cases_by_name[f"{name}.column_norm"] = Case(one.column_norm, {"order": 2})
        cases_by_name[f"{name}.row_norm"] = Case(one.row_norm, {"t": 2})
    bound = statistics.L2Ball(1.0, 3)
    given = {"factorisation": mechanisms.Tree(4), "bound": bound, "noise": Fresh(source)}
    names = list(inspect.signature(mechanisms.Counter).parameters)
    given |= (
        {"guarantee": privacy.Guarantee(LOSS, CENTRAL, privacy.Trust.CENTRAL, 4, "fast")}
        if "guarantee" in names
        else {}
    )
    given |= {"loss": LOSS} if "loss" in names else {}
    given |= {"request": CENTRAL} if "request" in names else {}
    given |= {"privacy": CENTRAL} if "privacy" in names else {}
    given |= {"relation": privacy.Relation.REPLACE} if "relation" in names else {}
    given |= {"users": 4} if "users" in names else {}
    cases_by_name["Counter"] = Case(
        mechanisms.Counter, {name: value for name, value in given.items() if name in names}
    )
    cases_by_name["FastSource"] = Case(mechanisms.FastSource, {"rng": Fresh(rng)})
    cases_by_name["SecureSource"] = Case(mechanisms.SecureSource, {})
    cases_by_name["noise_source"] = Case(mechanisms.noise_source, {"name": "fast", "seed": 0})
    cases_by_name["SmoothGaussian"] = Case(
        mechanisms.SmoothGaussian,
        {"epsilon": 1.0, "delta": 1e-5, "dimension": 2, "calibration": "tight"},
    )
    cases_by_name["StateFile"] = Case(mechanisms.StateFile, {"path": folder / "x.state"})
    cases_by_name["StateFile.write"] = Case(
        mechanisms.StateFile(folder / "y.state").write, {"data": b"x"}
    )
    cases_by_name["svec"] = Case(mechanisms.svec, {"matrices": np.eye(2)})
    cases_by_name["smat"] = Case(mechanisms.smat, {"vectors": np.ones(3), "dimension": 2})
    cases_by_name["dense"] = Case(counters.dense, {"factorisation": mechanisms.Tree(4)})
    cases_by_name["L2Ball"] = Case(statistics.L2Ball, {"radius": 1.0, "size": 3})
    cases_by_name["RegressionRows"] = Case(
        statistics.RegressionRows,
        {"steps": 2, "dimension": 3, "row_norm": 1.0, "target": 1.0, "balance": 1.0},
    )
    cases_by_name["WeightedRows"] = Case(
        statistics.WeightedRows, {"steps": 2, "dimension": 3, "balance": 1.0}
    )
    for one in (bound, statistics.RegressionRows(2, 3), statistics.WeightedRows(2, 3)):
        cases_by_name[f"{type(one).__name__}.sensitivity"] = Case(
            one.sensitivity, {"relation": privacy.Relation.NULL}
        )
    return cases_by_name


def _made(arguments):
    return {
        name: value.make() if isinstance(value, Fresh) else value
        for name, value in arguments.items()
    }


def _privatizers():
    bound, schedule = statistics.L2Ball(1.0, 3), privatizers.geometric(100)
    usual = {
        "bound": bound,
        "schedule": schedule,
        "privacy": CENTRAL,
        "noise": Fresh(source),
        "counter": None,
        "loss": None,
    }
    local = usual | {"privacy": confide.LocalDP(1.0, 1e-5)}
    cases_by_name = {
        "CentralPrivatizer": Case(privatizers.CentralPrivatizer, usual | {"store": None})
    }
    cases_by_name["LocalPrivatizer"] = Case(privatizers.LocalPrivatizer, local)
    distributed = usual | {"privacy": confide.DistributedDP(1.0, 1e-5)}
    cases_by_name["DistributedPrivatizer"] = Case(privatizers.DistributedPrivatizer, distributed)
    away = privatizers.DistributedPrivatizer(**_made(distributed)).stay_away
    cases_by_name["DistributedPrivatizer.stay_away"] = Case(away, {"users": 1})
    opened = privatizers.DistributedPrivatizer(**_made(distributed)).receive_sum
    cases_by_name["DistributedPrivatizer.receive_sum"] = Case(
        opened, {"batch_id": b"x" * 16, "total": [0, 0, 0], "devices": 1}
    )
    sizes = {"generation": 0, "users": 10, "least": 9, "largest": 10, "size": 3, "modulus": 2**20}
    cases_by_name["ShareBatch"] = Case(
        privatizers.ShareBatch, {"id": b"x" * 16, "round": b"x" * 32} | sizes
    )
    cases_by_name["Batches"] = Case(
        privatizers.Batches,
        {
            "noise": privatizers.CentralPrivatizer(**_made(usual))._batch_noise,
            "schedule": usual["schedule"],
            "store": None,
        },
    )
    cases_by_name["make_privatizer"] = Case(privatizers.make_privatizer, usual)
    expected = {
        name: usual[name] for name in ("bound", "schedule", "privacy", "counter", "loss")
    } | {"discrete": False}
    cases_by_name["expected_noise"] = Case(privatizers.expected_noise, expected)
    cases_by_name["open_channel"] = Case(
        privatizers.open_channel,
        {
            "bound": bound,
            "privacy": confide.LocalDP(1.0, 1e-5),
            "source": Fresh(source),
            "users": 1,
            "loss": None,
        },
    )
    total = privacy.bounded.Bounded(np.zeros(3), bound, 10)
    cases_by_name["release_once"] = Case(
        privatizers.release_once, {"total": total, "privacy": CENTRAL, "noise": Fresh(source)}
    )
    shares = [privatizers.Share(bound, 0.5), privatizers.Share(statistics.L2Ball(2.0, 2), 0.5)]
    given = {
        "shares": shares,
        "privacy": CENTRAL,
        "noise": Fresh(source),
        "users": 10,
        "loss": None,
    }
    cases_by_name["SharedBudget"] = Case(privatizers.SharedBudget, given)
    cases_by_name["Share"] = Case(privatizers.Share, {"bound": bound, "share": 0.5, "query": "x"})
    message = {"generation": 0, "nonce": b"n" * 16, "channel": b"c" * 16, "values": np.zeros(3)}
    cases_by_name["Message"] = Case(privatizers.Message, message)
    channel = privatizers.open_channel(bound, confide.LocalDP(1.0, 1e-5), source=source())
    cases_by_name["Channel"] = Case(
        privatizers.Channel,
        {name: getattr(channel, name) for name in ("bound", "noise", "guarantee")},
    )
    rounds = usual | {"schedule": privatizers.AtMost(100, 9)}
    cases_by_name["CentralPrivatizer of rounds"] = Case(privatizers.CentralPrivatizer, rounds)
    cases_by_name["Batches.open"] = Case(
        privatizers.CentralPrivatizer(**_made(rounds)).open, {"bound": bound, "users": 3}
    )
    cases_by_name["LocalPrivatizer of rounds"] = Case(
        privatizers.LocalPrivatizer, local | {"schedule": privatizers.AtMost(100, 9)}
    )
    cases_by_name["AtMost"] = Case(privatizers.AtMost, {"users": 100, "leaves": 9})
    cases_by_name["Schedule"] = Case(privatizers.Schedule, {"times": (1, 2, 5)})
    cases_by_name["custom"] = Case(privatizers.custom, {"times": [1, 2, 5]})
    cases_by_name["every"] = Case(privatizers.every, {"interval": 2, "episodes": 10})
    cases_by_name["every_episode"] = Case(privatizers.every_episode, {"episodes": 10})
    cases_by_name["geometric"] = Case(
        privatizers.geometric, {"episodes": 100, "first": 30, "ratio": 1.3}
    )
    best = {"leaves": 4, "privacy": CENTRAL, "discrete": False, "users": 10}
    cases_by_name["best_counter"] = Case(privatizers.best_counter, best)
    cases_by_name["counter_of_rates"] = Case(
        privatizers.counter_of_rates, {"schedule": privatizers.geometric(100), "privacy": CENTRAL}
    )
    cases_by_name["worst_std"] = Case(
        privatizers.worst_std, {"factorisation": mechanisms.Tree(4), "order": 2}
    )
    return cases_by_name


def _problems(folder):
    sizes = {"seed": 0, "states": 6, "actions": 2, "horizon": 3}
    cases_by_name = {
        name: Case(getattr(problems, name), sizes | {"jump": 2})
        for name in ("lock", "lock_rewards")
    }
    cases_by_name |= {
        name: Case(getattr(problems, name), sizes | {"dimension": 2}) for name in ("rand", "latent")
    }
    cases_by_name["liao_hard"] = Case(
        problems.liao_hard, {"seed": 0, "episodes": 10_000, "dimension": 3, "horizon": 3}
    )
    cases_by_name["one_hot"] = Case(problems.one_hot, {"states": 4, "horizon": 3})
    cases_by_name["riverswim"] = Case(problems.riverswim, {"states": 4, "horizon": 3})
    cases_by_name["riverswim_stage"] = Case(
        problems.riverswim_stage, {"states": 4, "horizon": 3, "seed": 0}
    )
    cases_by_name["double_chain"] = Case(problems.double_chain, {"states": 5, "horizon": 3})
    garnet = {"states": 5, "actions": 2, "branches": 2, "rewarded": 1, "horizon": 3, "seed": 0}
    cases_by_name["garnet"] = Case(problems.garnet, garnet)
    cases_by_name["chain"] = Case(problems.chain, {"states": 4, "stay": 0.5, "horizon": 5})
    cases_by_name["chain_values"] = Case(
        problems.chain_values, {"states": 4, "stay": 0.5, "discount": 0.9}
    )
    cases_by_name["deep_sea"] = Case(problems.deep_sea, {"size": 3, "seed": 0})
    bandit = {"dimension": 5, "actions": 3, "seed": 0, "contexts": "news", "population": 8}
    cases_by_name["linear_bandit"] = Case(problems.linear_bandit, bandit)
    cases_by_name["news"] = Case(problems.news, {"actions": 3, "seed": 0})
    cases_by_name["LinearBandit"] = Case(
        problems.LinearBandit,
        {"parameter": np.full(2, 0.1), "contexts": np.full((3, 2, 2), 0.5), "name": "bandit"},
    )
    cases_by_name |= {
        name: Case(getattr(problems, name), {"horizon": 3})
        for name in ("oscillator", "thermal", "glucose")
    }
    cases_by_name["double_integrator"] = Case(problems.double_integrator, {"dt": 0.5, "horizon": 3})
    cases_by_name["pendulum"] = Case(problems.pendulum, {"length": 1.0, "dt": 0.05, "horizon": 3})
    cases_by_name["mass_chain"] = Case(problems.mass_chain, {"masses": 2, "dt": 0.5, "horizon": 3})
    cases_by_name["random_lq"] = Case(
        problems.random_lq,
        {"seed": 0, "states": 2, "inputs": 1, "spectral_radius": 0.9, "horizon": 3},
    )
    cases_by_name["icu_sepsis"] = Case(problems.icu_sepsis, {"horizon": 5})
    cases_by_name["icu_sepsis_expert"] = Case(problems.icu_sepsis_expert, {"horizon": 5})
    cases_by_name["icu_sepsis_centres"] = Case(problems.icu_sepsis_centres, {})
    cases_by_name["make"] = Case(problems.make, {"name": "lock", "seed": 0, "horizon": 3})
    given = {
        "name": "gym:FrozenLake-v1",
        "horizon": 3,
        "rewards": "public",
        "reward_range": (0.0, 1.0),
    }
    cases_by_name["make, gym"] = Case(problems.make, given)
    world = problems.riverswim(states=4, horizon=3)
    problems.save_problem(world, folder / "problem.npz")
    cases_by_name["save_problem"] = Case(
        problems.save_problem, {"problem": world, "path": folder / "saved.npz"}
    )
    cases_by_name["load_problem"] = Case(problems.load_problem, {"path": folder / "problem.npz"})
    table = {
        "transitions": np.full((3, 2, 3), 1 / 3),
        "rewards": np.zeros((3, 2)),
        "start": np.full(3, 1 / 3),
        "horizon": 4,
    }
    cases_by_name["TabularMDP"] = Case(
        problems.TabularMDP,
        table
        | {"stochastic_rewards": False, "name": "table", "terminal": None, "outcome_rewards": None},
    )
    mixture = problems.lock(states=4, actions=2, horizon=3, jump=1)
    given = {
        name: getattr(mixture, name)
        for name in ("kernels", "weights", "rewards", "start", "reward_features", "name")
    }
    cases_by_name["LinearMixtureMDP"] = Case(problems.LinearMixtureMDP, given)
    features = np.zeros((2, 1, 2, 2))
    features[0, 0], features[1, 0, 1] = [[0.5, -0.5], [0.5, 0.5]], [1.0, 0.0]
    signed = problems.SuccessorFeatures.from_dense(features)
    names = ("states", "actions", "indptr", "successors", "features")
    rows = {name: getattr(signed, name) for name in names}
    cases_by_name["SuccessorFeatures"] = Case(problems.SuccessorFeatures, rows)
    cases_by_name["SuccessorFeatures.from_dense"] = Case(
        problems.SuccessorFeatures.from_dense, {"features": features}
    )
    given = {"function": partial(_stays, 2), "states": 2, "actions": 1, "dimension": 2}
    cases_by_name["SuccessorFeatures.from_function"] = Case(
        problems.SuccessorFeatures.from_function, given
    )
    given = {
        "features": signed,
        "weights": np.array([[1.0, -0.5]]),
        "rewards": np.zeros((2, 1)),
        "start": np.eye(2)[0],
        "weight_bound": 1.2,
    }
    cases_by_name["FeatureMixtureMDP"] = Case(
        problems.FeatureMixtureMDP,
        given | {"value_bound": 1.2, "reward_features": None, "name": "signed"},
    )
    cases_by_name["FeatureMixtureMDP.from_table"] = Case(
        problems.FeatureMixtureMDP.from_table, {"table": world}
    )
    linear = problems.one_hot(states=3, horizon=3)
    names = ("features", "measures", "reward_weights", "start", "stochastic_rewards", "name")
    cases_by_name["LinearMDP"] = Case(
        problems.LinearMDP, {name: getattr(linear, name) for name in names}
    )
    system = problems.oscillator()
    names = ("A", "B", "Q", "R", "horizon", "noise_radius", "parameter_bound", "gain_bound", "name")
    cases_by_name["LQSystem"] = Case(
        problems.LQSystem, {name: getattr(system, name) for name in names}
    )
    given = {
        "statespace": problems.to_control(system),
        "Q": np.eye(2),
        "R": np.eye(1),
        "horizon": 5,
        "noise_radius": 0.1,
    }
    given |= {
        "dt": None,
        "method": "zoh",
        "state_observed": True,
        "parameter_bound": None,
        "gain_bound": 1.2,
        "name": "x",
    }
    cases_by_name["from_control"] = Case(problems.from_control, given)
    cases_by_name["to_control"] = Case(problems.to_control, {"system": system, "dt": 0.5})
    imported = {
        "env": "FrozenLake-v1",
        "horizon": 5,
        "rewards": "learned",
        "reward_range": (0.0, 1.0),
    }
    cases_by_name["from_gymnasium"] = Case(problems.from_gymnasium, imported)
    played = {
        "env": "FrozenLake-v1",
        "horizon": 5,
        "reward_range": (0.0, 1.0),
        "states": 16,
        "actions": 4,
        "start": np.eye(16)[0],
    }
    cases_by_name["environment"] = Case(problems.environment, played)
    cases_by_name["SampledProblem"] = Case(problems.SampledProblem, played)
    sampled = problems.environment("FrozenLake-v1", 2, reward_range=(0.0, 1.0), start=np.eye(16)[0])
    given = {"policy": policy.uniform_policy(2, 17, 4), "users": 3, "rng": Fresh(rng)}
    cases_by_name["SampledProblem.sample"] = Case(sampled.sample, given)
    cases_by_name["binned"] = Case(
        problems.binned, {"env": "CartPole-v1", "bins": [[], [0.0], [-0.1, 0.1], []]}
    )
    cases_by_name["reward_map"] = Case(problems.reward_map, {"env": "FrozenLake-v1"})
    cases_by_name["to_gymnasium"] = Case(problems.to_gymnasium, {"problem": world})
    cases_by_name["FeaturesPublic"] = Case(
        problems.FeaturesPublic,
        {"features": np.asarray, "horizon": 5, "actions": 2, "dimension": 3, "feature_norm": 1.0},
    )
    cart = {
        "env": "CartPole-v1",
        "features": lambda seen: np.outer([1.0, -1.0], seen),
        "horizon": 5,
        "feature_norm": 1.0,
        "reward_range": (0.0, 1.0),
    }
    cases_by_name["GymProblem"] = Case(problems.GymProblem, cart)
    observed = problems.FeaturesPublic(lambda seen: np.outer([1.0, -1.0], seen), 2, 2, 3)
    episode = (np.zeros((3, 3)), [0, 1], [0.0, 1.0])
    cases_by_name["FeaturesPublic.collect"] = Case(observed.collect, {"episodes": [episode]})
    on_features = policy.FeaturePolicy(
        np.zeros((2, 3)), np.zeros((2, 3, 3)), np.zeros(2), np.ones(2), choices=2
    )
    cases_by_name["FeaturePolicy"] = Case(
        policy.FeaturePolicy,
        {
            "weights": np.zeros((2, 3)),
            "widths": np.zeros((2, 3, 3)),
            "offsets": np.zeros(2),
            "tops": np.ones(2),
            "choices": 2,
            "feature_norm": 1.0,
        },
    )
    cases_by_name["FeaturePolicy.choose"] = Case(
        on_features.choose, {"step": 0, "rows": np.zeros((2, 3)), "rng": Fresh(rng)}
    )
    cases_by_name["TabularPolicy"] = Case(
        policy.TabularPolicy, {"actions": np.zeros((2, 3), int), "choices": 2}
    )
    cases_by_name["StochasticPolicy"] = Case(
        policy.StochasticPolicy, {"weights": np.full((2, 3, 2), 0.5)}
    )
    cases_by_name["LinearPolicy"] = Case(policy.LinearPolicy, {"gains": np.zeros((2, 1, 2))})
    cases_by_name["ContextPolicy"] = Case(
        policy.ContextPolicy, {"weights": np.ones(2), "widths": np.eye(2)}
    )
    cases_by_name["RandomPolicy"] = Case(policy.RandomPolicy, {"choices": 2})
    cases_by_name["uniform_policy"] = Case(
        policy.uniform_policy, {"horizon": 2, "states": 3, "actions": 2}
    )
    policy.uniform_policy(2, 3, 2).save(folder / "policy.npz")
    cases_by_name["evaluate_policy"] = Case(
        confide.evaluate_policy,
        {
            "policy": policy.RandomPolicy(4),
            "env": "FrozenLake-v1",
            "episodes": 2,
            "horizon": 3,
            "seed": 0,
            "level": 0.9,
            "states": None,
        },
    )
    cases_by_name["load_policy"] = Case(policy.load_policy, {"path": folder / "policy.npz"})
    cases_by_name["policy.save"] = Case(
        policy.uniform_policy(2, 3, 2).save, {"path": folder / "saved-policy.npz"}
    )
    uniform = policy.uniform_policy(3, 4, 2)
    cases_by_name["problem.sample"] = Case(
        world.sample, {"policy": uniform, "users": 3, "rng": Fresh(rng)}
    )
    cases_by_name["problem.count"] = Case(
        world.count, {"policy": uniform, "users": 3, "rng": Fresh(rng)}
    )
    cases_by_name["problem.value"] = Case(world.value, {"policy": uniform})
    return cases_by_name


def _learner(public, noise):
    return agents.UCRLVTR(public, episodes=10, privacy=confide.JointDP(1.0, 1e-5), noise=noise)


def _agents():
    mixture = problems.lock(states=4, actions=2, horizon=3, jump=1).public
    linear, system = problems.one_hot(states=3, horizon=3).public, problems.oscillator().public
    cases_by_name = {}
    for name, public in {
        **dict.fromkeys(
            ("UCRLVTR", "UCRLVTRPlus", "LinOptVI", "LinOptPO", "LikelihoodVI", "QuestionsVI"),
            mixture,
        ),
        **dict.fromkeys(("LSVIUCB", "NextStateVI"), linear),
        **dict.fromkeys(("LinTS", "LinUCB"), problems.linear_bandit(3, 2, population=8).public),
        **dict.fromkeys(
            ("TabularPSRL", "PUCB", "UCBVI", "UCBPO", "LDPOBI", "DPUCBVI"),
            problems.riverswim(states=3, horizon=3).public,
        ),
        **dict.fromkeys(("OFULQ", "ThompsonLQ", "CertaintyEquivalentLQ"), system),
    }.items():
        learner = getattr(agents, name)
        usual = {
            "public": public,
            "episodes": 50,
            "noise": Fresh(source),
            "calibration": "tight",
            "schedule": None,
        }
        usual |= {
            "bonus_scale": 0.5,
            "failure": 0.1,
            "step": None,
            "regularizer": None,
            "support": None,
        } | PRIVATE
        accepted = inspect.signature(learner).parameters
        cases_by_name[name] = Case(
            learner, {key: value for key, value in usual.items() if key in accepted}
        )
    cases_by_name |= {
        name: Case(getattr(agents, name), {"public": mixture, "episodes": 50})
        for name in ("Uniform", "NoData")
    }
    cases_by_name["Oracle"] = Case(agents.Oracle, {"problem": problems.riverswim(), "episodes": 50})

    def agent(trust=confide.JointDP):
        learner = agents.UCRLVTR(mixture, episodes=50, privacy=trust(1.0, 1e-5))
        learner.noise = source()
        return learner

    learner = {
        "calibration": agents.Calibration(agent().algorithm, privatizers.geometric(50)),
        "identity": Identity("own agent"),
        "noise": Fresh(source),
    }
    cases_by_name["Learner"] = Case(agents.Learner, learner | PRIVATE)
    device = {
        "algorithm": agent().algorithm,
        "privacy": confide.LocalDP(1.0, 1e-5),
        "noise": Fresh(source),
        "loss": None,
    }
    cases_by_name["LocalClient"] = Case(
        agents.LocalClient, device | {"channel": None, "store": None}
    )
    shared, promise = problems.lock(seed=0).public, confide.DistributedDP(1.0, 1e-5)
    server = agents.LikelihoodVI(shared, episodes=50, privacy=promise, noise=source())
    share = {
        "algorithm": server.algorithm,
        "privacy": promise,
        "batch": server.shares.batch,
        "noise": Fresh(source),
    }
    cases_by_name["ShareClient"] = Case(agents.ShareClient, share | {"store": None})
    one = server.shares.client()
    one.plan(server.released())
    cases_by_name["ShareClient.contribute"] = Case(
        one.contribute, {"trajectory": object(), "aggregate": lambda *_: None}
    )
    saved = agent().save()
    cases_by_name["agent.restore"] = Case(
        lambda data, released: agent().restore(data, released=released),
        {"data": saved, "released": 0},
    )
    cases_by_name["agent.observe"] = Case(lambda users: agent().observe(users), {"users": object()})
    local = agent(confide.LocalDP)
    cases_by_name["agent.absorb"] = Case(local.absorb, {"message": b"x"})
    cases_by_name["client.plan"] = Case(local.client().plan, {"released": local.released()})
    return cases_by_name


def _logs(folder):
    world = problems.chain(states=4, horizon=6)
    uniform = policy.uniform_policy(6, 5, 1)
    users = list(logs.simulate(world, uniform, 30, rng()))
    logs.write(folder / "log.parquet", users)
    (folder / "log.csv").write_text("user,trajectory,step,state,reward\n0,0,0,1,0.5\n")
    columns = {
        "user": "user",
        "trajectory": "trajectory",
        "step": "step",
        "state": "state",
        "reward": "reward",
    }
    columns |= {"action": None, "probability": None}
    opened = logs.open(folder / "log.parquet")
    cases_by_name = {
        "Caps": Case(logs.Caps, {"trajectories": 1, "steps": 10}),
        "Columns": Case(logs.Columns, columns),
    }
    cases_by_name["open"] = Case(
        logs.open,
        {"paths": folder / "log.parquet", **columns, "max_trajectories": 1, "max_steps": 10},
    )
    raw = {
        "source": folder / "log.csv",
        "out": folder / "out.parquet",
        "user": "user",
        "stay": "trajectory",
        "time": "step",
    }
    raw |= {
        "state": "state",
        "reward": "reward",
        "action": None,
        "probability": None,
        "states": 2,
        "actions": None,
    }
    raw |= {
        "in_order": False,
        "rows": "last",
        "rewards": "sum",
        "drop": "row",
        "fill_reward": None,
        "fill_state": None,
        "fill_action": None,
    }
    raw |= {
        "terminal": (1,),
        "time_format": None,
        "every": None,
        "delimiter": ",",
        "decimal": ".",
        "key": None,
        "progress": None,
    }
    cases_by_name["import_log"] = Case(logs.import_log, raw)
    cases_by_name["from_minari"] = Case(
        logs.from_minari,
        {"dataset": None, "out": folder / "out.parquet", "user": None, "key": None},
    )
    cases_by_name["Labels"] = Case(logs.Labels, {"state": ("a", "b"), "action": ()})
    cases_by_name["in_memory"] = Case(
        logs.in_memory, {"users": users, "max_trajectories": 1, "max_steps": 10}
    )
    simulated = {"problem": world, "policy": uniform, "users": 5, "rng": Fresh(rng), "end": (4,)}
    accepted = inspect.signature(logs.simulate).parameters
    cases_by_name["simulate"] = Case(
        lambda **given: list(logs.simulate(**given)),
        {key: value for key, value in simulated.items() if key in accepted},
    )
    cases_by_name["write"] = Case(
        logs.write, {"path": folder / "written.parquet", "users": users, "lists": False, "rows": 10}
    )
    cases_by_name["logs.check"] = Case(opened.check, {"states": 5, "workers": 1})
    cases_by_name["logs.on"] = Case(opened.on, {"backend": "local", "workers": 1})
    return cases_by_name


def _evaluation():
    usual = {"discount": 0.9, "return_bound": 1.0}
    states = {"states": 5, **usual}
    weighted = states | {"features": np.eye(5), "weights": np.full(5, 0.2)}
    cases_by_name = {
        "LSW": Case(evaluation.LSW, weighted),
        "LSL": Case(evaluation.LSL, weighted | {"ridge": 1.0}),
    }
    cases_by_name["DPLSW"] = Case(evaluation.DPLSW, weighted | {"calibration": "tight"})
    cases_by_name["DPLSL"] = Case(
        evaluation.DPLSL, weighted | {"ridge": 1.0, "calibration": "tight"}
    )
    more = {
        "visits": 4,
        "shrink": "fixed",
        "components": None,
        "prior_std": 0.3,
        "centre": None,
    }
    cases_by_name["CountsAndSums"] = Case(evaluation.CountsAndSums, states | more)
    cases_by_name["CountsAndSums, components"] = Case(
        evaluation.CountsAndSums,
        states | more | {"shrink": "empirical-bayes", "components": np.eye(5)[:, :2]},
    )
    weights = {
        "target": np.full((6, 5, 1), 1.0),
        **usual,
        "clip": 10.0,
        "centre": None,
        "interval_share": 0.1,
    }
    cases_by_name["ImportanceSampling"] = Case(
        evaluation.ImportanceSampling, weights | {"per_decision": False}
    )
    cases_by_name["WeightedImportanceSampling"] = Case(
        evaluation.WeightedImportanceSampling, weights
    )
    linear = {
        "features": np.eye(5),
        **usual,
        "visits": 4,
        "weights": np.full(5, 0.2),
        "centre": None,
        "interval_share": 0.1,
    }
    cases_by_name["PrivateLSTD"] = Case(evaluation.PrivateLSTD, linear | {"norm": None})
    cases_by_name["SufficientStatistics"] = Case(evaluation.SufficientStatistics, linear)
    cases_by_name["delta_warning"] = Case(release.delta_warning, {"users": 10, "delta": 1e-6})
    counted = evaluation.CountsAndSums(states=5, visits=4, return_bound=1.0)
    given = {
        "users": 100,
        "privacy": CENTRAL,
        "visit_shares": np.full(5, 0.2),
        "return_std": 0.3,
        "spread": 0.2,
        "trajectories": 1,
    }
    accepted = inspect.signature(counted.plan).parameters
    cases_by_name["CountsAndSums.plan"] = Case(
        counted.plan, {key: value for key, value in given.items() if key in accepted}
    )
    world = problems.chain(states=4, horizon=6)
    users = list(logs.simulate(world, policy.uniform_policy(6, 5, 1), 30, rng()))
    log = logs.in_memory(users, max_steps=6)
    given = {
        "logs": log,
        "privacy": CENTRAL,
        "ledger": None,
        "rng": Fresh(rng),
        "noise": None,
        "progress": None,
        "id": None,
    }
    cases_by_name["CountsAndSums.release"] = Case(counted.release, given)
    cases_by_name["DPLSW.release"] = Case(
        evaluation.DPLSW(states=5, return_bound=1.0).release, given
    )
    cases_by_name["release"] = Case(
        release.release,
        {"question": counted, "logs": log, "privacy": CENTRAL, "budget": None}
        | {"noise": Fresh(lambda: mechanisms.FastSource(rng())), "progress": None, "id": None},
    )
    estimate = counted.release(log, privacy=CENTRAL, rng=rng())
    cases_by_name["ValueEstimate.interval"] = Case(estimate.interval, {"level": 0.9})
    cases_by_name["ValueEstimate.from_bytes"] = Case(
        evaluation.ValueEstimate.from_bytes, {"data": estimate.to_bytes()}
    )
    cases_by_name["ValueEstimate.load"] = Case(evaluation.ValueEstimate.load, {"path": Path("x")})
    return cases_by_name | _offline(given)


def _offline(given):
    table = {
        "states": 5,
        "actions": 1,
        "discount": 0.9,
        "transitions": 3,
        "rewards": np.zeros((5, 1)),
        "reward_range": (0.0, 1.0),
    }
    table |= {
        "terminal": np.zeros(5, bool),
        "ends": False,
        "support": None,
        "start": np.full(5, 0.2),
    }
    model_release = offline.ModelRelease(**table)
    cases_by_name = {
        "ModelRelease": Case(
            offline.ModelRelease,
            table | {"return_bound": None, "total_weight": 0.5, "reward_weight": 0.5},
        )
    }
    cases_by_name["ModelRelease.release"] = Case(model_release.release, given)
    model = model_release.release(given["logs"], privacy=confide.NoPrivacy(), rng=rng())
    cases_by_name["PrivateModel.value"] = Case(model.value, {"policy": np.zeros(5, int)})
    cases_by_name["PrivateModel.plan"] = Case(model.plan, {"pessimism": 1.0})
    cases_by_name["PrivateModel.from_bytes"] = Case(
        offline.PrivateModel.from_bytes, {"data": model.to_bytes()}
    )
    learn, test = given["logs"].split(0.5)
    half = offline.ModelRelease(**table | {"rewards": np.eye(5)[:, :1]})
    # so little noise that nothing warns
    half = half.release(learn, privacy=confide.CentralDP(200.0, 1e-6), rng=rng())
    options = {key: value for key, value in given.items() if key not in ("logs", "privacy")}
    options |= {"policy": np.zeros(5, int), "holdout": test, "privacy": None, "method": "model"}
    cases_by_name["PrivateModel.improvement"] = Case(half.improvement, options)
    cases_by_name["Logs.split"] = Case(given["logs"].split, {"holdout": 0.5, "key": "k"})
    shown = half.improvement(np.zeros(5, int), test, rng=rng())
    cases_by_name["Improvement.from_bytes"] = Case(
        offline.Improvement.from_bytes, {"data": shown.to_bytes()}
    )
    cases_by_name["PrivateModel.load"] = Case(offline.PrivateModel.load, {"path": Path("x")})
    return cases_by_name


def _roof(folder):
    world = problems.lock(states=4, actions=2, horizon=3, jump=1)

    def agent():
        return agents.UCRLVTR(world.public, episodes=20, privacy=confide.JointDP(1.0, 1e-5))

    usual = {
        "agent": Fresh(agent),
        "problem": world,
        "episodes": 20,
        "seed": 0,
        "features": None,
        "horizon": None,
        "source": None,
    }
    cases_by_name = {
        "run": Case(
            confide.run, usual | {"state": None, "progress": None, "command": "", "counts": None}
        )
    }
    done = confide.run(agent(), world, seed=0)
    done.save(folder / "run")
    cases_by_name["Run.load"] = Case(confide.Run.load, {"folder": folder / "run"})
    cases_by_name["Run.save"] = Case(done.save, {"folder": folder / "again"})
    cases_by_name["Run.curve"] = Case(done.curve, {"name": "regret", "users": np.arange(1, 5)})
    cases_by_name["Run.episodes_to"] = Case(done.episodes_to, {"fraction": 0.9})
    cases_by_name["explain"] = Case(
        lambda one, other: confide.explain(one, other), {"one": agent(), "other": agent()}
    )
    given = {
        "agents": ["uniform"],
        "problems": ["lock"],
        "epsilons": [1.0],
        "delta": 1e-5,
        "trust": "joint",
        "no_privacy": False,
    }
    cases_by_name["Sweep"] = Case(Sweep, given | {"episodes": 20, "seeds": 1, "name": "x"})
    sweep = Sweep(**given | {"episodes": 20, "seeds": 1})
    accepted = inspect.signature(confide.compare).parameters
    given = {
        "sweep": sweep,
        "backend": "local",
        "workers": 1,
        "store": folder / "store",
        "again": False,
        "progress": None,
    }
    cases_by_name["compare"] = Case(
        confide.compare, {key: value for key, value in given.items() if key in accepted}
    )
    cases_by_name["subject"] = Case(
        audit.subject,
        {"name": "gaussian", "privacy": CENTRAL, "twin": None, "source": "fast", "trust": "joint"},
    )
    cases_by_name["subjects"] = Case(audit.subjects, {})
    attacked = audit.subject("gaussian", confide.CentralDP(1.0, 1e-2))
    cases_by_name["refute"] = Case(
        audit.refute,
        {"subject": attacked, "delta": 1e-2, "runs": 200, "confidence": 0.99, "rng": Fresh(rng)},
    )
    small = problems.lock(states=4, actions=2, horizon=3, jump=1)
    cases_by_name["replay"] = Case(
        audit.replay,
        {"make": partial(_learner, small.public), "problem": small, "neighbours": 1, "seed": 0},
    )
    cases_by_name["clopper_pearson"] = Case(
        audit.clopper_pearson, {"successes": 3, "trials": 10, "miss": 0.05}
    )
    cases_by_name["verify"] = Case(audit.verify, {"certificate": done.certificate})
    compared = confide.Comparison.of_runs([done])
    cases_by_name["Comparison.of_runs"] = Case(
        confide.Comparison.of_runs, {"runs": [done], "name": "x"}
    )
    cases_by_name["Comparison.plot"] = Case(compared.plot, {"what": "regret"})
    cases_by_name["Comparison.save_figures"] = Case(
        compared.save_figures, {"folder": folder / "figures"}
    )
    cases_by_name["Comparison.report"] = Case(
        compared.report, {"path": folder / "report.html", "command": "x"}
    )
    return cases_by_name


def public_names():
    """What must have a case, by name."""
    return (
        {name for module in NAMESPACES.values() for name in module.__all__} - NOT_CALLED - RECORDS
    )


@dataclass(frozen=True)
class Outcome:
    # "returned", "refused", "raw" or "endless".
    kind: str
    where: str = ""
    said: str = ""


def call(case: Case, chosen: dict, seconds: float) -> Outcome:
    try:
        given = case.replaced(chosen)
        with limit(seconds), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            case.call(**given)
    except TooLong as error:
        return Outcome("endless", place(error))
    except ConfideError as error:
        named = any(name in str(error) for name in chosen)
        return Outcome(
            "refused" if named else "refused, argument not named", type(error).__name__, str(error)
        )
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return Outcome("raw", place(error), f"{type(error).__name__}: {error}"[:200])
    return Outcome("returned")


def fuzz(folder: Path, *, calls: int, seed: int, seconds: float, watch=None):
    """The outcomes of so many calls, as a count, and the defects among them. Every case gets its
    turn.
    """
    valid_cases = {name: case for name, case in cases(folder).items() if case.valid}
    draws, counts, failures = np.random.default_rng(seed), Counter(), []
    names = sorted(valid_cases)
    for number in range(calls):
        name = names[number % len(names)]
        case = valid_cases[name]
        several = min(len(case.valid), 1 + int(draws.random() < 0.3))
        replaced = [
            str(one) for one in draws.choice(sorted(case.valid), size=several, replace=False)
        ]
        chosen = {one: _copied(VALUES[draws.integers(len(VALUES))]) for one in replaced}
        if watch:
            watch(number, f"{name} {chosen!a}"[:500])
        outcome = call(case, chosen, seconds)
        counts[outcome.kind] += 1
        if outcome.kind != "returned":
            failures.append((outcome, name, {key: short(value) for key, value in chosen.items()}))
    return counts, failures


def _copied(value):
    return copy.copy(value) if isinstance(value, list | dict | set | np.ndarray) else value
