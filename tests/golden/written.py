"""What confide writes, in a form that can be compared between machines, versions and names of
classes.

    python tests/golden/written.py --write      writes tests/golden/written.json again
    python tests/golden/written.py --renamed    prints the same, with other names for all classes

Numbers are rounded to nine digits, because the last ones depend on the processor.
"""

import argparse
import dataclasses
import importlib
import inspect
import json
import math
import os
import pkgutil
import sys
import tempfile
from pathlib import Path
from unittest import mock

import numpy as np

GOLDEN = Path(__file__).with_name("written.json")
USERS = 26
# Of a certificate: when and by which version it was made.
OF_THE_DAY = ("created", "confide_version")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--renamed", action="store_true")
    given = parser.parse_args()
    if given.renamed:
        rename_everything()
    text = json.dumps(written(), indent=1, sort_keys=True) + "\n"
    if given.write:
        GOLDEN.write_text(text)
    else:
        print(text, end="")


def rename_everything():
    """Every class of the package gets another name, and neither repr nor the list of fields works
    any more.
    """
    import confide

    for module in pkgutil.walk_packages(confide.__path__, "confide."):
        if not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    modules = [module for name, module in sys.modules.items() if name.startswith("confide")]
    classes = {
        value
        for module in modules
        for value in vars(module).values()
        if inspect.isclass(value) and value.__module__.startswith("confide")
    }

    def no_text(_):
        raise AssertionError("something was written by the repr of an object")

    for number, cls in enumerate(sorted(classes, key=lambda each: each.__qualname__)):
        cls.__name__ = cls.__qualname__ = f"Renamed{number}"
        cls.__repr__ = no_text

    originals = {name: getattr(dataclasses, name) for name in ("fields", "asdict", "astuple")}

    def no_fields(name):
        def refuse(given, *more, **options):
            cls = given if isinstance(given, type) else type(given)
            if cls.__module__.startswith("confide"):
                raise AssertionError("something was written by the names of fields")
            return originals[name](given, *more, **options)

        return refuse

    for name, original in originals.items():
        replaced = no_fields(name)
        setattr(dataclasses, name, replaced)
        for module in modules:
            for key, value in list(vars(module).items()):
                if value is original:
                    setattr(module, key, replaced)


def written():
    """Everything that is written, by what it is."""
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            return {
                "learners": learners(),
                "devices": devices(),
                "shares": shares(),
                "runs": runs(),
                "ledger": ledger(),
                "problems": problems(),
                "documents": documents(),
            }
        finally:
            os.chdir(here)


def worlds():
    from confide import problems

    return {
        "mixture": problems.lock(0, states=5, actions=2, horizon=3, jump=2),
        "linear": problems.one_hot(states=3, horizon=3),
        "table": problems.riverswim(states=3, horizon=3),
        "bandit": problems.linear_bandit(3, 2, population=64),
        "control": problems.oscillator(horizon=3),
    }


def kinds():
    from confide import agents

    return {
        "mixture": [
            agents.UCRLVTR,
            agents.UCRLVTRPlus,
            agents.LinOptVI,
            agents.LinOptPO,
            agents.LikelihoodVI,
            agents.QuestionsVI,
        ],
        "linear": [agents.LSVIUCB, agents.NextStateVI],
        "table": [
            agents.TabularPSRL,
            agents.PUCB,
            agents.UCBVI,
            agents.UCBPO,
            agents.DPUCBVI,
            agents.LDPOBI,
        ],
        "bandit": [agents.LinTS, agents.LinUCB],
        "control": [agents.ThompsonLQ, agents.OFULQ, agents.CertaintyEquivalentLQ],
    }


def make(kind, world, privacy):
    from confide.mechanisms.sources import noise_source

    agent = kind(world.public, episodes=USERS, privacy=privacy, noise=noise_source("fast", 1))
    agent.rng = np.random.default_rng(2)
    return agent


def learners():
    """The settings of every learner, its saved state before and after a release, and what it
    publishes.
    """
    from confide import JointDP

    digests = {}
    for family, world in worlds().items():
        for kind in kinds()[family]:
            agent = make(kind, world, JointDP(1.0, 1e-5))
            rng = np.random.default_rng(3)
            while agent.released().generation == 0:
                batch = agent.next_batch()
                agent.observe(world.sample(batch.policy, batch.users, rng))
            digests[agent.name] = {
                "settings": agent.settings,
                "state": state(agent.save()),
                "published": state(agent.publish("a run")),
            }
    return digests


def state(data):
    """The facts of a state, the states in it, and names, types and sizes of its arrays."""
    head, start = int.from_bytes(data[14:22]), 22
    header = json.loads(data[start : start + head])
    at, inner = start + head, {}
    for name, (dtype, shape) in header["arrays"].items():
        size = math.prod(shape) * np.dtype(dtype).itemsize
        if dtype == "uint8" and data[at : at + size].startswith(b"confide-state\n"):
            inner[name] = state(data[at : at + size])
            header["arrays"][name] = "state"
        at += size
    return rounded(header | inner)


def devices():
    """What devices send: everything but the noisy numbers themselves."""
    from confide import LocalDP, agents
    from confide.privatizers import Message

    digests = {}
    for family, kind in [
        ("mixture", agents.UCRLVTR),
        ("mixture", agents.LikelihoodVI),
        ("mixture", agents.QuestionsVI),
        ("table", agents.TabularPSRL),
        ("bandit", agents.LinTS),
        ("control", agents.ThompsonLQ),
    ]:
        for delta in (1e-6, 0.0):
            world = worlds()[family]
            agent = make(kind, world, LocalDP(4.0, delta))
            client = agent.client()
            policy = client.plan(agent.released())
            message = client.report(world.sample(policy, 1, np.random.default_rng(3)))
            sent = Message.from_bytes(message)
            agent.absorb(message)
            facts = {
                "header": message[: len(message) - 8 * sent.values.size].hex(),
                "numbers": sent.values.size,
                "index": sent.values.tolist() if sent.kind == "index" else None,
            }
            if kind is agents.QuestionsVI:
                # Processors choose different questions. The header holds the digest of the round.
                facts = {"numbers": sent.values.size}
            digests[f"{agent.name}, delta={delta}"] = facts | {
                "client": state(client.save()),
                "server": state(agent.save()),
                "certificate": certificate(agent),
            }
    return digests


def certificate(agent):
    from confide.privacy.certificate import certify

    document = certify(agent.guarantee, agent.mechanisms()).document
    return rounded({name: each for name, each in document.items() if name not in OF_THE_DAY})


def shares():
    from confide import DistributedDP, agents

    world = worlds()["table"]
    agent = make(agents.TabularPSRL, world, DistributedDP(1.0, 1e-5, dropouts=0.2))
    client = agent.shares.client()
    policy = client.plan(agent.released())
    client.contribute(
        world.sample(policy, 1, np.random.default_rng(3)), agent.shares.simulate_aggregation
    )
    batch = agent.shares.batch
    return {
        "batch": [batch.id.hex(), batch.round.hex(), batch.users, batch.least, batch.modulus],
        "server": state(agent.save()),
        "certificate": certificate(agent),
    }


def runs():
    """The folder of a run, without what depends on the day, and its certificate."""
    import confide
    from confide.mechanisms.state import StateFile

    digests = {}
    world = worlds()["mixture"]
    # QuestionsVI is not among them, because processors choose different questions.
    for number, kind in enumerate((confide.agents.UCRLVTR, confide.agents.LikelihoodVI)):
        agent = kind(world.public, episodes=USERS, privacy=confide.JointDP(1.0, 1e-5))
        file = StateFile(f"state of {number}")
        run = confide.run(agent, world, seed=4, state=file)
        saved = state(file.read())
        del saved["facts"]["seconds"]
        run.save(agent.name)
        facts = json.loads((Path(agent.name) / "run.json").read_text())
        for name in ("seconds", "versions"):
            del facts[name]
        document = json.loads((Path(agent.name) / "certificate.json").read_text())
        digests[agent.name] = {
            "run": rounded(facts),
            "state": saved,
            "certificate": rounded(
                {name: each for name, each in document.items() if name not in OF_THE_DAY}
            ),
        }
    return digests


def ledger():
    """What a ledger keeps of releases from one log: ids, descriptions and losses."""
    import confide
    from confide import evaluation, logs, offline, problems
    from confide.policy import uniform_policy

    world = problems.riverswim(states=3, horizon=6)
    policy = uniform_policy(6, 3, 2)
    users = logs.simulate(world, policy, 400, np.random.default_rng(5))
    logs.write("log.parquet", users)
    log = logs.open("log.parquet", max_steps=6, action="action", probability="probability")
    common = {"discount": 0.9, "return_bound": 6.0}
    features, target = np.eye(3), np.tile([0.7, 0.3], (3, 1))
    questions = {
        "counts-and-sums": evaluation.CountsAndSums(states=3, **common),
        "dp-lsw": evaluation.DPLSW(states=3, **common),
        "dp-lsl": evaluation.DPLSL(states=3, ridge=500.0, **common),
        "sufficient-statistics": evaluation.SufficientStatistics(features, **common),
        "lstd": evaluation.PrivateLSTD(features, **common),
        "importance-sampling": evaluation.ImportanceSampling(target, clip=3.0, **common),
        "weighted": evaluation.WeightedImportanceSampling(target, clip=3.0, **common),
    }
    learned = offline.ModelRelease(
        states=3, actions=2, discount=0.9, rewards=world.rewards[0], ends=False
    )
    privacy, digests = confide.CentralDP(1.0, 1e-6), {}
    # The id of a release contains the place of the log, and the name of a split the times of its
    # files.
    places = mock.patch("os.path.realpath", lambda path, **_: os.path.basename(path))
    times = mock.patch("confide.logs.log.Logs._stamps", property(lambda _: [0]))
    with places, times:
        confide.Ledger.init(
            "budget.sqlite", epsilon=50.0, delta=1e-4, others_epsilon=10.0, others_delta=1e-5
        )
        with confide.Ledger("budget.sqlite") as budget:
            for name, question in questions.items():
                estimate = question.release(
                    log, privacy=privacy, ledger=budget, rng=np.random.default_rng(6)
                )
                digests[name] = rounded(estimate.values.tolist())
            first, second = log.split(0.5)
            model = learned.release(
                first, privacy=privacy, ledger=budget, rng=np.random.default_rng(7)
            )
            plan = model.plan()
            digests["policy"] = rounded(plan.to_json())
            for method in ("weights", "model"):
                bound = model.improvement(
                    plan,
                    second,
                    method=method,
                    ledger=budget,
                    rng=np.random.default_rng(8),
                )
                digests[f"bound, {method}"] = rounded(bound.bound)
                digests[f"certificate, {method}"] = rounded(
                    {
                        name: each
                        for name, each in bound.certificate.document.items()
                        if name not in OF_THE_DAY
                    }
                )
            digests["spends"] = [
                rounded([spend.id, spend.what, str(spend.relation), spend.part])
                for spend in budget.spends
            ]
    return digests


def problems():
    """The names of the arrays in a saved problem, and its identity."""
    digests = {}
    for name, world in worlds().items():
        world.save(f"{name}.npz")
        with np.load(f"{name}.npz") as file:
            digests[name] = {
                "arrays": sorted(file.files),
                "public": world.public.identity().digest(),
            }
    return digests


def documents():
    from confide.service.documents import Statement

    statement = Statement("release", "demo", "a" * 64, 3, "b" * 64, "c" * 64)
    return {"statement": statement.to_bytes().decode()}


def rounded(value):
    if isinstance(value, dict):
        return {name: rounded(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    # A state keeps what its noise was made for as JSON.
    if isinstance(value, str) and value.startswith("{"):
        return json.dumps(rounded(json.loads(value)))
    if isinstance(value, float):
        return float(f"{value:.9g}") if math.isfinite(value) else str(value)
    return value


if __name__ == "__main__":
    main()
