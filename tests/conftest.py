import math
import os
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import settings

from confide.privacy.certificate import Mechanism, certify
from confide.privacy.guarantee import Guarantee, billboard, no_guarantee
from confide.privacy.loss import loss_for
from confide.privacy.request import CentralDP, JointDP, LocalDP
from confide.runs.run import Run, Segment

# Deadlines are timed asserts, and machines are noisy.
settings.register_profile("ci", deadline=None, derandomize=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


def pytest_collection_modifyitems(items):
    """Long tests come first: a worker without tests takes some from the end of another one's list.

    So the tests of a file that share a site or a browser stay together, and no long test is the
    last one.
    """
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def missing(what, how):
    """A skip on somebody's machine; a failure where the tests are meant to be complete."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(f"{what} is not installed: {how}")


@pytest.fixture(scope="session")
def npx():
    """Runs a tool of the TypeScript client in its folder, and gives what it said."""
    folder = Path(__file__).parents[1] / "clients" / "typescript"
    if shutil.which("npx") is None or not (folder / "node_modules").exists():
        missing(
            "the TypeScript client", "install Node 20, and then: npm ci --prefix clients/typescript"
        )

    def run(*given):
        done = subprocess.run(
            ["npx", "--no-install", *map(str, given)],
            cwd=folder,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="module")
def browser():
    """Debian's Chromium, without a window."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        missing("Chromium", "apt-get install chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        missing("Playwright", "pip install playwright")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=flags)
        yield launched
        launched.close()


# Runs that never happened, for the tests of what is computed and drawn from them.
OPTIMAL, UNIFORM = 1.17, 0.11
REQUESTS = {"joint": JointDP, "central": CentralDP, "local": LocalDP}
COMMAND = "confide run ucrl-vtr lock --epsilon 1 --delta 1e-5 --episodes 100000 --seeds 5"


def guarantee_of(kind, epsilon=1.0, users=100_000, source="fast", relation="replace"):
    if kind == "none":
        return no_guarantee(users)
    request = REQUESTS[kind](epsilon, 1e-5, relation)
    trust = CentralDP.trust if kind == "joint" else request.trust
    return (
        billboard(Guarantee(loss_for(request), request, trust, users, source))
        if kind == "joint"
        else Guarantee(loss_for(request), request, trust, users, source)
    )


def segments_of(rng, *, kind, epsilon, users, stop, half, exact):
    """Half of what there is to learn is learned within about `half` users: how soon depends on
    the seed."""
    half *= math.exp(rng.normal(0, 0.35))
    edges = np.unique(np.geomspace(1, users, 120).astype(int)).tolist()
    served = 0
    for edge in edges if stop is None else [*[edge for edge in edges if edge < stop], stop]:
        skill = (served / half) ** 1.6 / (1 + (served / half) ** 1.6)
        value = UNIFORM + (OPTIMAL - UNIFORM) * skill
        earned = value + rng.normal(0, 0.4) / math.sqrt(edge - served)
        noise = (
            (33.0 * math.log2(served + 2) ** 0.5 / epsilon, served / 5)
            if kind != "none" and served
            else (None, None)
        )
        yield Segment(edge - served, value if exact else None, earned, *noise)
        served = edge


def learner(
    *,
    seed=0,
    kind="joint",
    epsilon=1.0,
    users=100_000,
    stop=None,
    agent="ucrl-vtr",
    half=350.0,
    exact=True,
    **more,
):
    """A run; `exact=False` is a problem whose values nobody knows, `stop` an interruption."""
    rng = np.random.default_rng(seed)
    guarantee = guarantee_of(kind, epsilon, users)
    name = "exact" if kind == "none" else "toeplitz"
    mechanism = Mechanism(
        name,
        "gaussian",
        norm=2,
        sensitivity=1.0,
        scale=3.7,
        parameters={"leaves": 32},
        query="regression rows",
    )
    facts = {
        "agent": agent,
        "problem": "lock" if exact else "cartpole",
        "seed": seed,
        "planned_episodes": users,
        "segments": tuple(
            segments_of(
                rng, kind=kind, epsilon=epsilon, users=users, stop=stop, half=half, exact=exact
            )
        ),
        "policy": None,
        "optimal_value": OPTIMAL if exact else None,
        "uniform_value": UNIFORM if exact else None,
        "guarantee": guarantee,
        "certificate": certify(guarantee, [mechanism], subject=f"a run of {agent}"),
        "seconds": 1.5,
        "versions": {"python": "3.11.2", "confide": "0.1.0", "numpy": "2.4.6"},
        "command": COMMAND,
    }
    return Run(**(facts | more))


def fixed(agent, value, *, seed=0, users=100_000, **more):
    """Reference play: one policy for everybody."""
    facts = {
        "segments": (Segment(users, value, value),),
        "certificate": None,
        "seconds": 0.1,
        "command": "",
    }
    return learner(seed=seed, kind="none", users=users, agent=agent, **(facts | more))


def study(seeds=5):
    """A private learner, its non-private twin, and both ends of the scale."""
    return [
        *[learner(seed=i) for i in range(seeds)],
        *[learner(seed=i, kind="none", half=35.0) for i in range(seeds)],
        *[fixed("uniform", UNIFORM, seed=i) for i in range(seeds)],
        *[fixed("oracle", OPTIMAL - 1e-13, seed=i) for i in range(seeds)],
    ]


def everything():
    """Two problems, one of them without exact values; several promises; an interrupted run."""
    return [
        *[
            learner(seed=i, epsilon=epsilon, half=350 / epsilon)
            for epsilon in (0.5, 1.0, 5.0)
            for i in range(4)
        ],
        learner(seed=4, stop=31_000),
        *[learner(seed=i, kind="none", half=35.0) for i in range(4)],
        *[
            learner(seed=i, kind="local", epsilon=4.0, half=20_000, agent="ucrl-vtr-local")
            for i in range(4)
        ],
        *[learner(seed=i, exact=False) for i in range(3)],
        fixed("uniform", None, exact=False, segments=(Segment(100_000, None, 0.22),)),
    ]


@pytest.fixture(scope="session")
def made_up():
    return SimpleNamespace(
        learner=learner,
        fixed=fixed,
        study=study,
        everything=everything,
        guarantee_of=guarantee_of,
        OPTIMAL=OPTIMAL,
        UNIFORM=UNIFORM,
        COMMAND=COMMAND,
    )
