"""Every public method of public objects, called with hostile arguments, and what became of it."""

import inspect
from collections import Counter
from itertools import count
from pathlib import Path

import numpy as np
from calls import Case, call
from hostile import VALUES, short

import confide
from confide import evaluation, logs, mechanisms, offline, policy, privatizers, problems, statistics
from confide.agents.catalogue import AGENTS, fits, make_agent
from confide.problems.catalogue import PROBLEMS
from confide.trajectory import Trajectories

PRIVATE = confide.JointDP(1.0, 1e-5)
CENTRAL = confide.CentralDP(1.0, 1e-6)
# Methods of protocols that only the library calls, with what it has checked: a counter and a source
# of noise are called in inner loops, a learner's `footprint` by the estimate of its memory, and
# `queries` and `answer` of a question to a log by `release`.
INTERNAL = {
    "adopt",
    "answer",
    "decode",
    "encode",
    "footprint",
    "private_memory",
    "public_memory",
    "for_release",
    "ball",
    "choose",
    "cube",
    "gaussian",
    "laplace",
    "laplace_sum",
    "lattice_gaussian",
    "uniform",
    "expected_noise",
    "queries",
}


def rng():
    return np.random.default_rng(0)


def source():
    return mechanisms.FastSource(rng())


def makers(folder: Path):
    """Functions that make one object each, by its name: a call may use it up."""
    builders = {
        **_learners(),
        **_policies(),
        **_problems(),
        **_privatizers(),
        **_statistics(),
        **_data(folder),
    }
    builders |= {"StateFile": lambda: mechanisms.StateFile(folder / "state")}
    return builders


def _learners():
    cases_by_name = {}
    worlds = [
        problems.make(name)
        for name in ("lock", "lock-rewards", "one-hot", "riverswim", "linear-bandit", "oscillator")
    ]
    for name, kind in AGENTS.items():
        world = next(world for world in worlds if fits(name, world.public))
        privacy = PRIVATE if kind.profile.paper else confide.NoPrivacy()

        def make(name=name, world=world, privacy=privacy):
            agent = make_agent(name, world, episodes=50, privacy=privacy)
            if not isinstance(privacy, confide.NoPrivacy):
                agent.noise = source()
                agent.next_batch()
            return agent

        cases_by_name[type(make()).__name__] = make
    local = confide.LocalDP(1.0, 1e-5)
    river = worlds[3]
    cases_by_name["TabularPSRL, local"] = lambda: confide.agents.TabularPSRL(
        river.public, episodes=50, privacy=local, noise=source()
    )
    cases_by_name["LocalClient"] = lambda: cases_by_name["TabularPSRL, local"]().client()
    assert len(PROBLEMS) > len(worlds)
    return cases_by_name


def _policies():
    tabular = policy.TabularPolicy(np.zeros((2, 3), int), 2)
    stochastic = policy.StochasticPolicy(np.full((2, 3, 2), 0.5))
    linear = policy.LinearPolicy(np.zeros((2, 1, 3)))
    context = policy.ContextPolicy(np.zeros(3))
    random = policy.RandomPolicy(2)
    return {
        type(one).__name__: (lambda one=one: one)
        for one in (tabular, stochastic, linear, context, random)
    }


def _problems():
    worlds = [
        problems.make(name)
        for name in ("lock", "one-hot", "riverswim", "linear-bandit", "oscillator")
    ]
    return {type(world).__name__: (lambda world=world: world) for world in worlds}


def _privatizers():
    bound, schedule = statistics.L2Ball(1.0, 3), privatizers.geometric(100)
    central = privatizers.CentralPrivatizer, CENTRAL
    local = privatizers.LocalPrivatizer, confide.LocalDP(1.0, 1e-5)
    distributed = privatizers.DistributedPrivatizer, confide.DistributedDP(1.0, 1e-5)
    cases_by_name = {}
    for kind, privacy in (central, local, distributed):
        cases_by_name[kind.__name__] = lambda kind=kind, privacy=privacy: kind(
            bound, schedule, privacy=privacy, noise=source()
        )
    shares = [privatizers.Share(bound, 0.5, "x")] * 2
    cases_by_name["SharedBudget"] = lambda: privatizers.SharedBudget(
        shares, privacy=CENTRAL, noise=source(), users=10
    )
    cases_by_name["Schedule"] = lambda: schedule
    for name in ("Tree", "Buffered", "Toeplitz", "Discounted"):
        cases_by_name[name] = lambda name=name: getattr(mechanisms, name)(4)
    cases_by_name["FastSource"], cases_by_name["SecureSource"] = source, mechanisms.SecureSource
    return cases_by_name


def _statistics():
    kinds = (
        statistics.L2Ball(1.0, 3),
        statistics.RegressionRows(2, 3),
        statistics.WeightedRows(2, 3),
    )
    return {type(one).__name__: (lambda one=one: one) for one in kinds}


def _data(folder):
    chain = problems.chain(states=4, horizon=6)
    played = policy.uniform_policy(6, 5, 1)
    users = chain.sample(played, 30, rng())
    log = logs.in_memory(list(logs.simulate(chain, played, 30, rng())), max_steps=6)
    release = {"privacy": CENTRAL, "rng": rng()}
    usual = {"states": 5, "return_bound": 6.0}
    averages = evaluation.CountsAndSums(**usual)
    estimators = [averages, evaluation.DPLSW(**usual), evaluation.DPLSL(**usual, ridge=1.0)]
    estimate = averages.release(log, **release)
    table = {
        "states": 5,
        "actions": 1,
        "discount": 0.9,
        "transitions": 3,
        "rewards": np.zeros((5, 1)),
        "reward_range": (0.0, 1.0),
    }
    model_release = offline.ModelRelease(
        **table, terminal=np.zeros(5, bool), ends=False, start=np.full(5, 0.2)
    )
    model = model_release.release(log, privacy=confide.NoPrivacy(), rng=rng())
    objects = [*estimators, estimate, model_release, model, model.plan(), users]
    builders = {type(one).__name__: (lambda one=one: one) for one in objects}
    builders["Logs"] = lambda: log
    numbers = count()
    builders["Ledger"] = lambda: confide.Ledger.init(
        folder / f"{next(numbers)}.sqlite", epsilon=1.0, delta=1e-5
    )
    return builders


def methods(one: object) -> list[str]:
    """The names of its public methods."""
    method_names = []
    for name in dir(type(one)):
        member = inspect.getattr_static(type(one), name)
        is_method = inspect.isfunction(member) or isinstance(member, classmethod | staticmethod)
        if not name.startswith("_") and is_method and name not in INTERNAL:
            method_names.append(name)
    return method_names


def parameters(method) -> list[inspect.Parameter]:
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [
        each for each in inspect.signature(method).parameters.values() if each.kind not in kinds
    ]


def fuzz_methods(folder: Path, *, calls: int, seed: int, seconds: float, watch=None):
    """The outcomes of so many calls, as a count, and those that were not returned. Every method
    gets its turn.
    """
    objects = makers(folder)
    every = [(kind, name) for kind, make in objects.items() for name in methods(make())]
    draws, counts, failures = np.random.default_rng(seed), Counter(), []
    for number in range(calls):
        kind, name = every[number % len(every)]
        method = getattr(objects[kind](), name)
        chosen, positional = {}, []
        for parameter in parameters(method):
            if parameter.default is not inspect.Parameter.empty and draws.random() < 0.5:
                continue
            value = (
                USERS_DATA[draws.integers(len(USERS_DATA))]
                if draws.random() < 0.1
                else VALUES[draws.integers(len(VALUES))]
            )
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                positional.append(value)
            else:
                chosen[parameter.name] = value
        if watch:
            watch(number, f"{kind}.{name} {chosen!a}"[:500])
        outcome = call(
            Case(lambda *, m=method, p=tuple(positional), **given: m(*p, **given), {}),
            chosen,
            seconds,
        )
        counts[outcome.kind] += 1
        if outcome.kind not in ("returned", "refused"):
            failures.append(
                (outcome, f"{kind}.{name}", {key: short(value) for key, value in chosen.items()})
            )
    return counts, failures


USERS_DATA = [
    Trajectories(np.zeros((2, 3), int), np.zeros((2, 2), int), np.zeros((2, 2))),
    iter([]),
    (),
    [(0, 1)],
]
