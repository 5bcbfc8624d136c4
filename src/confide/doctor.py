"""Check an installation: installed versions, and a self-test that takes a few seconds."""

import math
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confide._extras import has_extra, version
from confide.errors import ConfideError

CORE = ("numpy", "scipy", "numba", "joblib", "threadpoolctl", "jsonschema", "typer", "rich")


@dataclass(frozen=True, slots=True)
class Check:
    """One check: its result in words, and how long it took."""

    name: str
    holds: bool
    says: str
    seconds: float


def system() -> dict[str, str]:
    return {
        "confide": version("confide") or "not installed as a package",
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }


def self_test() -> Iterator[Check]:
    """Yield each check as soon as it is done."""
    checks: dict[str, Callable[[], str]] = {
        "compiled kernels": _kernels,
        "accounting": _accounting,
        "noise": _noise,
        "a private run": _run,
        "its certificate": _certificate,
        "secure noise": _secure,
        "files": _files,
    }
    for name, check in checks.items():
        started = time.monotonic()
        try:
            holds, says = True, check()
        except (ConfideError, AssertionError, ImportError, OSError, ArithmeticError, ValueError) as error:
            holds, says = False, " ".join(f"{error}".split()) or type(error).__name__
        yield Check(name, holds, says, time.monotonic() - started)


def _must(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ArithmeticError(otherwise)


def _kernels() -> str:
    """A compiled kernel against the same thing in NumPy."""
    import numpy as np

    from confide.planners.riccati import riccati

    A, B = np.array([[0.9, 0.1], [0.0, 0.8]]), np.array([[0.0], [1.0]])
    P, policy = riccati(A, B, np.eye(2), np.eye(1), 2)
    by_hand = -np.linalg.solve(np.eye(1) + B.T @ P[1] @ B, B.T @ P[1] @ A)
    _must(np.allclose(policy.gains[0], by_hand), "compiled kernels and NumPy disagree")
    return "compiled, and equal to NumPy"


def _accounting() -> str:
    """Our exact Gaussian accounting against its formula, and dp-accounting's where that is installed."""
    from scipy.special import ndtr

    from confide.privacy.loss import GaussianDP

    ours = GaussianDP(0.5).epsilon_at(1e-5)
    delta = float(ndtr(0.25 - ours / 0.5) - math.exp(ours) * ndtr(-0.25 - ours / 0.5))
    _must(abs(delta - 1e-5) < 1e-9, f"epsilon {ours} has delta {delta}, not 1e-5")
    if not has_extra("accounting"):
        return f"epsilon {ours:.4f} at delta 1e-5 for mu = 1/2, as the formula says"
    from dp_accounting import get_epsilon_gaussian

    theirs = get_epsilon_gaussian(2.0, 1e-5)
    _must(abs(ours - theirs) < 1e-6 * theirs, f"epsilon {ours} here, {theirs} in dp-accounting")
    return f"epsilon {ours:.4f} at delta 1e-5 for mu = 1/2, as in dp-accounting"


def _noise() -> str:
    """Of 40 000 draws the standard deviation is off by more than 2 % in one of 1e8 installations that are sound."""
    from confide.mechanisms.sources import noise_source

    found = float(noise_source("fast", 0).gaussian(3.0, (40_000,)).std())
    _must(abs(found / 3 - 1) < 0.02, f"expected a standard deviation of 3, got {found:.3f}")
    return f"standard deviation {found:.3f}, expected 3"


def _small_run() -> Any:
    import confide

    problem = confide.problems.lock(seed=0)
    agent: Any = confide.agents.UCRLVTR(problem.public, episodes=3_000, privacy=confide.JointDP(5.0, 1e-5))
    return confide.run(agent, problem, seed=0)


def _run() -> str:
    first, second = _small_run(), _small_run()
    _must(first.regret.tobytes() == second.regret.tobytes(), "two runs with the same seed gave different results")
    nothing = 3_000 * (first.optimal_value - first.uniform_value)
    return f"3,000 users, regret {first.regret[-1]:.0f} of {nothing:.0f} by uniform play; a second run is identical"


def _certificate() -> str:
    import confide
    from confide.audit.verify import verify
    from confide.privacy.certificate import Certificate

    made = _small_run().certificate
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "certificate.json"
        made.save(path)
        verify(Certificate.load(path))
        path.write_text(path.read_text().replace('"epsilon": 5.0', '"epsilon": 0.5'))
        try:
            verify(Certificate.load(path))
        except confide.ConfideError:
            return "saved, loaded and verified; an altered one is refused"
    raise ArithmeticError("a certificate with another epsilon was accepted")


def _secure() -> str:
    if not has_extra("secure"):
        return "not installed; for real data: pip install 'confide[secure]'"
    from confide.mechanisms.sources import noise_source

    draws = noise_source("secure").gaussian(1e6, (64,))  # in whole numbers
    _must(len(set(draws.tolist())) > 60 and 5e5 < draws.std() < 2e6, "draws repeat, or have a wrong scale")
    return "drawn from the system's entropy by OpenDP"


def _files() -> str:
    import confide
    from confide.problems.files import load_problem

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lock.npz"
        confide.problems.lock(seed=0).save(path)
        _must(
            load_problem(path).optimal_value == confide.problems.lock(seed=0).optimal_value,
            "a saved problem was different when loaded",
        )
    return "a problem was saved and loaded"
