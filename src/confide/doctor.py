"""Check an installation: its versions, its compiled kernels and its noise."""

import os
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from confide._extras import has_extra, version
from confide.errors import ConfideError

CORE = ("numpy", "scipy", "numba", "joblib", "threadpoolctl", "jsonschema", "typer", "rich")


@dataclass(frozen=True, slots=True)
class InstallationCheck:
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


def self_test() -> Iterator[InstallationCheck]:
    """Yield each check as soon as it is done."""
    checks: dict[str, Callable[[], str]] = {
        "compiled kernels": _kernels,
        "noise": _noise,
        "secure noise": _secure,
    }
    for name, check in checks.items():
        started = time.monotonic()
        try:
            holds, says = True, check()
        except (
            ConfideError,
            AssertionError,
            ImportError,
            OSError,
            ArithmeticError,
            ValueError,
        ) as error:
            holds, says = False, " ".join(f"{error}".split()) or type(error).__name__
        yield InstallationCheck(name, holds, says, time.monotonic() - started)


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


def _noise() -> str:
    """Of 40 000 draws the standard deviation is off by more than 2 % in one of 1e8 installations that are sound."""
    from confide.mechanisms.sources import noise_source

    found = float(noise_source("fast", 0).gaussian(3.0, (40_000,)).std())
    _must(abs(found / 3 - 1) < 0.02, f"expected a standard deviation of 3, got {found:.3f}")
    return f"standard deviation {found:.3f}, expected 3"


def _secure() -> str:
    if not has_extra("secure"):
        return "not installed; for real data: pip install 'confide[secure]'"
    from confide.mechanisms.sources import noise_source

    draws = noise_source("secure").gaussian(1e6, (64,))  # in whole numbers
    _must(
        len(set(draws.tolist())) > 60 and 5e5 < draws.std() < 2e6,
        "draws repeat, or have a wrong scale",
    )
    return "drawn from the system's entropy by OpenDP"
