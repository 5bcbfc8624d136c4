"""Sweeps that never happened, and pages of them and of made-up runs."""

import json
import math
from types import SimpleNamespace

import numpy as np
import pytest

from confide.comparison.comparison import Comparison
from confide.comparison.table import tidy
from confide.privacy.certificate import Certificate
from confide.privacy.guarantee import Guarantee, no_guarantee
from confide.privacy.loss import loss_for
from confide.privacy.request import JointDP, Trust

GAP = 1.06  # between optimal and uniform play


def guarantee_of(agent, epsilon, users):
    """Printed constants give a smaller epsilon than requested."""
    if epsilon is None:
        return no_guarantee(users)
    noise = loss_for(JointDP(epsilon / (900 if "paper" in agent else 1), 1e-5))
    return Guarantee(noise, JointDP(epsilon, 1e-5), Trust.JOINT, users, "fast")


def cell(problem, agent, epsilon, seed, *, half=None, users=20_000, known=True, error=None):
    """A run that never happened.

    Half of what there is to learn is learned within about `half` users.
    """
    facts = {
        "problem": problem,
        "agent": agent,
        "variant": agent.removesuffix(" paper"),
        "calibration": "paper" if agent.endswith(" paper") else "tight",
        "trust": "none" if epsilon is None else "joint",
        "epsilon": epsilon,
    }
    facts |= {"delta": None if epsilon is None else 1e-5, "seed": seed, "episodes": users}
    promise = "" if epsilon is None else f" --epsilon {epsilon!r} --delta 1e-05"
    said = {
        "cell": facts,
        "command": f"confide run {agent} {problem}{promise} --episodes {users} --seed {seed}",
    }
    if error is not None:
        return said | {"status": "failed", "error": error}
    at = np.unique(np.geomspace(1, users, 120).astype(int))
    luck = math.exp(
        0.25 * np.random.default_rng(seed).normal()
        + 0.1 * np.random.default_rng([seed, len(agent)]).normal()
    )
    lost = GAP * at if half is None else GAP * half * luck * np.log1p(at / (half * luck))
    value = 1.17 - np.gradient(lost, at)
    goal = None if half is None else int(9 * half * luck)
    return said | {
        "status": "done",
        "guarantee": json.dumps(guarantee_of(agent, epsilon, users).to_json()),
        "true_epsilon": None if epsilon is None else epsilon / (900 if "paper" in agent else 1),
        "optimal_value": 1.17 if known else None,
        "uniform_value": 1.17 - GAP if known else None,
        "episodes_to_90": goal if known and goal is not None and goal < users else None,
        "users": at.tolist(),
        "regret": lost.tolist() if known else [None] * len(at),
        "value": value.tolist() if known else [None] * len(at),
        "mean_return": None if known else value.tolist(),
    }


def made(cells, name="made up"):
    return Comparison.of_table(tidy(name, ((f"key-{i}", one) for i, one in enumerate(cells))))


def everything(
    seeds=8,
    problems=("lock", "rand seed=1", "tree", "cartpole"),
    epsilons=(0.5, 1.0, 5.0, 10.0, None),
):
    """Three agents, five promises, four problems, of one of which the values are not known.

    Some runs failed.
    """
    cells = []
    for place, problem in enumerate(problems):
        known = problem != "cartpole"
        for agent, half in (
            ("ucrl-vtr", 60.0),
            ("ucrl-vtr paper", 9000.0),
            ("likelihood-vi", 25.0),
        ):
            for epsilon in epsilons:
                more = (1 + place) * half * (1 + (1 / epsilon if epsilon else 0))
                broken = problem == "tree" and agent == "likelihood-vi" and epsilon == 0.5
                for seed in range(seeds):
                    error = "the weights are not on the simplex" if broken and seed < 3 else None
                    cells.append(
                        cell(problem, agent, epsilon, seed, half=more, known=known, error=error)
                    )
        cells += [cell(problem, "uniform", None, seed, known=known) for seed in range(seeds)]
    return made(cells)


EVIL = "<img src=x onerror=alert(1)></script><script>alert(2)</script>\"'&<!--|,"


@pytest.fixture(scope="session")
def sweeps():
    return SimpleNamespace(cell=cell, made=made, everything=everything, EVIL=EVIL)


@pytest.fixture(scope="module")
def pages(made_up, tmp_path_factory):
    """Each page once."""
    folder = tmp_path_factory.mktemp("pages")
    evil = [
        cell(EVIL, EVIL + str(i), epsilon, seed, half=30.0)
        for i in range(2)
        for epsilon in (1.0, None)
        for seed in range(2)
    ]
    evil.append(cell(EVIL, EVIL, 1.0, 9, error=EVIL))
    unknown = [
        cell("cartpole", agent, e, s, half=50.0, known=False)
        for agent in ("a", "b")
        for e in (1.0, None)
        for s in range(3)
    ]
    document = made_up.learner().certificate.document | {"subject": EVIL}
    runs = [
        made_up.learner(
            seed=i, agent=EVIL, problem=EVIL, command=EVIL, certificate=Certificate(document)
        )
        for i in range(2)
    ]
    long = [made_up.learner(agent="a" * 200, problem="p" * 200, command="c" * 900)]
    return {
        "everything": everything().report(
            folder / "new" / "everything.html", command="confide compare made-up.toml"
        ),
        "evil": made(evil, EVIL).report(folder / "evil.html", command=EVIL),
        "one seed": everything(1, ("lock",), (1.0, None)).report(folder / "one.html"),
        "unknown": made(unknown).report(folder / "unknown.html"),
        "long": made([cell("p" * 200, "a" * 200, 1.0, 0, half=30.0)], "n" * 200).report(
            folder / "long.html"
        ),
        "failed": made([cell("lock", "ucrl-vtr", 1.0, 0, error="no")]).report(
            folder / "failed.html"
        ),
        "runs": Comparison.of_runs(made_up.study()).report(folder / "runs.html"),
        "all runs": Comparison.of_runs(made_up.everything()).report(folder / "all.html"),
        "reference": Comparison.of_runs([made_up.fixed("uniform", made_up.UNIFORM)]).report(
            folder / "reference.html"
        ),
        "evil runs": Comparison.of_runs(runs, name=EVIL).report(
            folder / "evil-runs.html", command=EVIL
        ),
        "long runs": Comparison.of_runs(long).report(folder / "long-runs.html"),
    }
