"""Check an installation: its versions, its compiled kernels and its noise.

`confide doctor` prints the results, and with --json writes them. The names of the fields of
`InstallationCheck` are part of this JSON.
"""

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
    """The result of one check: whether it holds, what it says, and how many seconds it took."""

    name: str
    holds: bool
    says: str
    seconds: float


def system() -> dict[str, str]:
    """The versions of confide and Python, and the machine."""
    return {
        "confide": version("confide") or "not installed as a package",
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }


def self_test() -> Iterator[InstallationCheck]:
    """Yield each check as soon as it is done."""
    checks: dict[str, Callable[[], str]] = {
        "compiled kernels": _check_kernels,
        "noise": _check_fast_noise,
        "secure noise": _check_secure_noise,
    }
    for name, check in checks.items():
        started = time.monotonic()
        try:
            says = check()
            holds = True
        except (
            ConfideError,
            AssertionError,
            ImportError,
            OSError,
            ArithmeticError,
            ValueError,
        ) as error:
            says = " ".join(f"{error}".split()) or type(error).__name__
            holds = False
        yield InstallationCheck(name, holds, says, time.monotonic() - started)


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ArithmeticError(otherwise)


def _check_kernels() -> str:
    """Compare a compiled kernel with the same computation in NumPy."""
    import numpy as np

    from confide.planners.riccati import riccati

    # A linear system x' = A x + B u with unit costs, and P, the costs from each step on.
    A = np.array([[0.9, 0.1], [0.0, 0.8]])
    B = np.array([[0.0], [1.0]])
    P, policy = riccati(A, B, np.eye(2), np.eye(1), 2)
    by_hand = -np.linalg.solve(np.eye(1) + B.T @ P[1] @ B, B.T @ P[1] @ A)
    _require(np.allclose(policy.gains[0], by_hand), "compiled kernels and NumPy disagree")
    return "compiled, and equal to NumPy"


def _check_fast_noise() -> str:
    """Compare the standard deviation of 40,000 draws with the requested one.

    It is off by more than 2 % in one of 1e8 installations that are sound.
    """
    from confide.mechanisms.sources import noise_source

    std = float(noise_source("fast", 0).gaussian(3.0, (40_000,)).std())
    _require(abs(std / 3 - 1) < 0.02, f"expected a standard deviation of 3, got {std:.3f}")
    return f"standard deviation {std:.3f}, expected 3"


def _check_secure_noise() -> str:
    """Draw secure noise, and check roughly that draws differ and have the requested scale."""
    if not has_extra("secure"):
        return "not installed; for real data: pip install 'confide[secure]'"
    from confide.mechanisms.sources import noise_source

    # Secure noise is whole numbers, so draws of this scale rarely repeat.
    draws = noise_source("secure").gaussian(1e6, (64,))
    differ = len(set(draws.tolist())) > 60
    _require(differ and 5e5 < draws.std() < 2e6, "draws repeat, or have a wrong scale")
    return "drawn from the system's entropy by OpenDP"
