"""Estimators by name, for the command line: importable without importing any of them."""

import difflib
import importlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confide.errors import InvalidParameter
from confide.evaluation.options import Declared, options_of
from confide.release.inputs import read_policy, read_table

ESTIMATORS = {
    "counts-and-sums": "confide.evaluation.counts_and_sums:CountsAndSums",
    "dp-lsw": "confide.evaluation.dp_lsw:DPLSW",
    "dp-lsl": "confide.evaluation.dp_lsl:DPLSL",
    "sufficient-statistics": "confide.evaluation.sufficient_statistics:SufficientStatistics",
    "lstd": "confide.evaluation.lstd:PrivateLSTD",
    "importance-sampling": "confide.evaluation.importance_sampling:ImportanceSampling",
    "weighted-importance-sampling": "confide.evaluation.importance_sampling:WeightedImportanceSampling",
}


def estimator_class(name: str) -> Any:
    if name not in ESTIMATORS:
        near = difflib.get_close_matches(name, ESTIMATORS, n=1)
        hint = f"; did you mean {near[0]}?" if near else f"; choose one of {', '.join(ESTIMATORS)}"
        raise InvalidParameter(f"unknown estimator {name!r}{hint}")
    module, _, attribute = ESTIMATORS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def options_by_estimator(*, planned: bool = False) -> dict[str, dict[str, Declared]]:
    """The options of every estimator, or of those whose error can be predicted."""
    classes = {name: estimator_class(name) for name in ESTIMATORS}
    return {
        name: options_of(kind)
        for name, kind in classes.items()
        if not planned or hasattr(kind, "plan")
    }


def make_estimator(
    name: str, *, states: int, discount: float, return_bound: float, **options: Any
) -> Any:
    """The estimator of that name. Options that are None are left to it; one that it does not take is refused. Both are public:

    `features` are a table [s, d] or its file, `weights` [s] or their file, `target` probabilities [h, s, a] or the file of a policy.
    """
    kind = estimator_class(name)
    declared = options_of(kind)
    given = {key: value for key, value in options.items() if value is not None}
    unknown = [key for key in given if key not in declared]
    if unknown:
        takers = [other for other, taken in options_by_estimator().items() if unknown[0] in taken]
        hint = f"; it is an option of --estimator {', '.join(takers)}" if takers else ""
        raise InvalidParameter(f"{name} has no option {_flag(unknown[0])}{hint}")
    missing = [key for key, each in declared.items() if each.needed and key not in given]
    if missing:
        raise InvalidParameter(f"{name} needs {_flag(missing[0])}")
    for key, value in given.items():
        if isinstance(value, str | Path) and (file := declared[key].option.file):
            given[key] = _READERS[file](value, key)
    _check_states(given, states)
    if name == "counts-and-sums" and "features" in given:
        # This is the only use that it has for features.
        given.setdefault("shrink", "empirical-bayes")
    parameters = {declared[key].parameter: value for key, value in given.items()}
    if "states" in kind.__dataclass_fields__:
        parameters["states"] = states
    return kind(discount=discount, return_bound=return_bound, **parameters)


def _check_states(given: dict[str, Any], states: int) -> None:
    features = given.get("features")
    if features is not None and (features.ndim != 2 or len(features) != states):
        raise InvalidParameter.of(
            "features",
            f"must be a table of {states} rows, one per state, got shape {features.shape}",
        )
    for name, noun in (("target", "target policy"), ("against", "policy of --against")):
        policy = given.get(name)
        if policy is not None and policy.shape[-2] != states:
            raise InvalidParameter(
                f"the {noun} has {policy.shape[-2]} states, and the log {states}"
            )


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


_READERS: dict[str, Callable[[str | Path, str], Any]] = {
    "table": read_table,
    "vector": lambda path, what: read_table(path, what).ravel(),
    "policy": lambda path, _: read_policy(path),
}
