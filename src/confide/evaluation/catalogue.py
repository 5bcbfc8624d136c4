"""Estimators by name, for the command line: importable without importing any of them."""

import difflib
import importlib
import tokenize
from collections.abc import Callable
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confide.arguments import regular
from confide.errors import InvalidParameter, MissingExtra

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass(frozen=True, slots=True)
class Entry:
    """Where an estimator is defined, what it is, and its options besides the discount and the range of returns."""

    place: str  # package.module:Class
    about: str
    takes: tuple[str, ...]  # parameters of the class, under their names on the command line
    needs: tuple[str, ...] = ()  # those of them that have no default
    called: tuple[tuple[str, str], ...] = ()  # where the class calls a parameter otherwise
    noise: str = "lattice"  # lattice (Gaussian, or Laplace at delta = 0) | smooth | none
    reads: int = 1  # how often it reads the log


ESTIMATORS = {
    "counts-and-sums": Entry(
        "confide.evaluation.counts_and_sums:CountsAndSums",
        "noisy counts and sums of returns for every state at once, then shrinkage; public confidence intervals",
        ("states", "visits", "shrink", "features", "prior_std", "centre", "second_moments"),
        needs=("states",),
        called=(("features", "components"),),
    ),
    "dp-lsw": Entry(
        "confide.evaluation.dp_lsw:DPLSW",
        "least squares on average returns, noise on smooth sensitivity [Balle16]",
        ("states", "features", "weights", "calibration"),
        needs=("states",),
        noise="smooth",
    ),
    "dp-lsl": Entry(
        "confide.evaluation.dp_lsl:DPLSL",
        "ridge regression on returns, noise on smooth sensitivity [Balle16]",
        ("states", "features", "weights", "ridge", "calibration"),
        needs=("states", "ridge"),
        noise="smooth",
    ),
    "sufficient-statistics": Entry(
        "confide.evaluation.sufficient_statistics:SufficientStatistics",
        "linear values from the noisy statistics of a regression on returns; public confidence intervals",
        ("features", "weights", "visits", "centre", "interval_share"),
        needs=("features",),
        reads=2,
    ),
    "lstd": Entry(
        "confide.evaluation.lstd:PrivateLSTD",
        "linear values from noisy temporal differences; public confidence intervals",
        ("features", "weights", "visits", "centre", "interval_share"),
        needs=("features",),
        reads=2,
    ),
    "importance-sampling": Entry(
        "confide.evaluation.importance_sampling:ImportanceSampling",
        "the value of another policy, from returns weighted by likelihood",
        ("target", "behaviour", "clip", "per_decision", "centre", "interval_share"),
        needs=("target",),
        reads=2,
    ),
    "weighted-importance-sampling": Entry(
        "confide.evaluation.importance_sampling:WeightedImportanceSampling",
        "the same, over the sum of the weights: a little bias for much less variance",
        ("target", "behaviour", "clip", "centre", "interval_share"),
        needs=("target",),
        reads=2,
    ),
}


def entry_of(name: str) -> Entry:
    if name not in ESTIMATORS:
        near = difflib.get_close_matches(name, ESTIMATORS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; choose one of {', '.join(ESTIMATORS)}"
        raise InvalidParameter(f"unknown estimator {name!r}{hint}")
    return ESTIMATORS[name]


def make_estimator(
    name: str, *, states: int, discount: float, return_bound: float, **options: Any
) -> Any:
    """The estimator of that name. Options that are None are left to it; one that it does not take is refused. Both are public:

    `features` are a table [s, d] or its file, `weights` [s] or their file, `target` probabilities [h, s, a] or the file of a policy.
    """
    entry = entry_of(name)
    given = {key: value for key, value in options.items() if value is not None}
    unknown = [key for key in given if key not in entry.takes]
    if unknown:
        others = ", ".join(other for other, each in ESTIMATORS.items() if unknown[0] in each.takes)
        hint = f"; it is an option of --estimator {others}" if others else ""
        raise InvalidParameter(f"{name} has no option {_option(unknown[0])}{hint}")
    if "states" in entry.takes:
        given["states"] = states
    missing = [key for key in entry.needs if key not in given]
    if missing:
        raise InvalidParameter(f"{name} needs {_option(missing[0])}")
    for key, read in _READ.items():
        if isinstance(given.get(key), str | Path):
            given[key] = read(given[key])
    _check_states(given, states)
    if name == "counts-and-sums" and "features" in given:
        given.setdefault("shrink", "empirical-bayes")  # the only use it has for them
    renamed = dict(entry.called)
    return _load(entry)(
        discount=discount,
        return_bound=return_bound,
        **{renamed.get(key, key): value for key, value in given.items()},
    )


def _check_states(given: dict[str, Any], states: int) -> None:
    features, target = given.get("features"), given.get("target")
    if features is not None and (features.ndim != 2 or len(features) != states):
        raise InvalidParameter(
            f"features must be a table of {states} rows, one per state, got shape {features.shape}"
        )
    if target is not None and target.shape[-2] != states:
        raise InvalidParameter(
            f"the target policy has {target.shape[-2]} states, and the log {states}"
        )


def _option(name: str) -> str:
    return "--" + name.replace("_", "-")


def can_plan(name: str) -> bool:
    return hasattr(_load(entry_of(name)), "plan")


def _load(entry: Entry) -> Any:
    module, _, attribute = entry.place.partition(":")
    return getattr(importlib.import_module(module), attribute)


def read_table(path: str | Path, what: str) -> "npt.NDArray[np.float64]":
    """Public numbers from a .npy or .csv file; never a pickle."""
    import numpy as np

    if not Path(path).exists():
        raise InvalidParameter(f"cannot read the {what}: no such file: {path}")
    try:
        regular(path)
        if str(path).endswith(".npy"):
            table = np.asarray(np.load(path, allow_pickle=False), dtype=float)
        else:
            table = np.loadtxt(path, delimiter=",", ndmin=2)
    except OSError as error:
        raise InvalidParameter(
            f"cannot read the {what} in {path}: {error.strerror or 'damaged'}"
        ) from None
    # of a header that is damaged
    except (ValueError, TypeError, EOFError, SyntaxError, tokenize.TokenError):
        raise InvalidParameter(
            f"the {what} in {path} must be a table of numbers, as .npy or as .csv without a header"
        ) from None
    if not np.isfinite(table).all():
        raise InvalidParameter(f"the {what} in {path} must be finite, and some are NaN or infinite")
    return table


def read_policy(path: str | Path) -> "npt.NDArray[np.float64]":
    from confide.policy import FinitePolicy, load_policy

    policy = load_policy(path)
    if not isinstance(policy, FinitePolicy):
        raise InvalidParameter(
            f"{path} must contain a policy over finitely many states and actions, got {type(policy).__name__}"
        )
    return policy.probabilities()


_READ: dict[str, Callable[[str | Path], Any]] = {
    "features": lambda path: read_table(path, "features"),
    "weights": lambda path: read_table(path, "weights").ravel(),
    "target": read_policy,
}


@dataclass(frozen=True, slots=True)
class Noise:
    """Which noise, and why, in words."""

    source: str
    why: str
    seed: int | None = None


def noise_for(kind: str, source: str | None, seed: int | None, no_privacy: bool) -> Noise:
    """Secure noise, unless fast noise was requested. Without OpenDP what needs it (`kind` lattice) is refused before the log is read."""
    if source not in ("fast", "secure", None):
        raise InvalidParameter(f"source must be fast or secure, got {source!r}")
    if seed is not None and source != "fast":
        raise InvalidParameter(
            "--seed needs --source fast: noise that can be reproduced can be subtracted"
        )
    if no_privacy:
        return Noise("none", "none", seed)
    if source == "fast":
        return Noise(
            "fast", "FAST, as requested: for simulation. Use secure noise for real data.", seed
        )
    if kind == "lattice" and find_spec("opendp") is None:
        raise MissingExtra(
            "secure noise needs OpenDP, which is not installed: pip install 'confide[secure]', or add --source fast for a simulation"
        )
    return Noise("secure", _SECURE[kind])


_SECURE = {
    "lattice": "secure: discrete, exactly sampled, from the system's entropy.",
    "smooth": "secure: normal, to 120 digits, from the system's entropy, and rounded to a public grid.",
}
