"""Estimators by name, for the command line. Importing this file imports none of them."""

import difflib
import importlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from confide.errors import InvalidParameter
from confide.evaluation.options import Declared, options_of
from confide.release.inputs import read_policy, read_table

_IMPORTANCE_SAMPLING = "confide.evaluation.importance_sampling"
# The names are public: they are values of --estimator.
ESTIMATORS = {
    "counts-and-sums": "confide.evaluation.counts_and_sums:CountsAndSums",
    "dp-lsw": "confide.evaluation.dp_lsw:DPLSW",
    "dp-lsl": "confide.evaluation.dp_lsl:DPLSL",
    "sufficient-statistics": "confide.evaluation.sufficient_statistics:SufficientStatistics",
    "lstd": "confide.evaluation.lstd:PrivateLSTD",
    "importance-sampling": f"{_IMPORTANCE_SAMPLING}:ImportanceSampling",
    "weighted-importance-sampling": f"{_IMPORTANCE_SAMPLING}:WeightedImportanceSampling",
}


def estimator_class(name: str) -> Any:
    if name not in ESTIMATORS:
        similar = difflib.get_close_matches(name, ESTIMATORS, n=1)
        if similar:
            hint = f"did you mean {similar[0]}?"
        else:
            hint = f"choose one of {', '.join(ESTIMATORS)}"
        raise InvalidParameter(f"unknown estimator {name!r}; {hint}")
    module, _, attribute = ESTIMATORS[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


def options_by_estimator(*, planned: bool = False) -> dict[str, dict[str, Declared]]:
    """The options of every estimator, or with `planned` of those whose error can be predicted."""
    classes = {name: estimator_class(name) for name in ESTIMATORS}
    return {
        name: options_of(kind)
        for name, kind in classes.items()
        if not planned or hasattr(kind, "plan")
    }


def make_estimator(
    name: str, *, states: int, discount: float, return_bound: float, **options: Any
) -> Any:
    """The estimator of that name.

    An option that is None is left to the estimator. An option that it does not take is refused. All
    options are public. `features` are a table [s, d] or its file, `weights` [s] or their file, and
    `target` probabilities [h, s, a] or the file of a policy.
    """
    kind = estimator_class(name)
    declared = options_of(kind)
    given = {option: value for option, value in options.items() if value is not None}
    _check_options(name, declared, given)
    for option, value in given.items():
        content = declared[option].option.file
        if content and isinstance(value, str | Path):
            given[option] = _READERS[content](value, option)
    _check_states(given, states)
    if name == "counts-and-sums" and "features" in given:
        # This is the only use that it has for features.
        given.setdefault("shrink", "empirical-bayes")
    parameters = {declared[option].parameter: value for option, value in given.items()}
    if "states" in kind.__dataclass_fields__:
        parameters["states"] = states
    return kind(discount=discount, return_bound=return_bound, **parameters)


def _check_options(name: str, declared: Mapping[str, Declared], given: Mapping[str, Any]) -> None:
    unknown = [option for option in given if option not in declared]
    if unknown:
        first = unknown[0]
        takers = [other for other, taken in options_by_estimator().items() if first in taken]
        hint = f"; it is an option of --estimator {', '.join(takers)}" if takers else ""
        raise InvalidParameter(f"{name} has no option {_flag(first)}{hint}")
    missing = [option for option, each in declared.items() if each.needed and option not in given]
    if missing:
        raise InvalidParameter(f"{name} needs {_flag(missing[0])}")


def _check_states(given: Mapping[str, Any], states: int) -> None:
    features = given.get("features")
    if features is not None and (features.ndim != 2 or len(features) != states):
        raise InvalidParameter.of(
            "features",
            f"must be a table of {states} rows, one per state, got shape {features.shape}",
        )
    for option, noun in (("target", "target policy"), ("against", "policy of --against")):
        policy = given.get(option)
        if policy is not None and policy.shape[-2] != states:
            raise InvalidParameter(
                f"the {noun} has {policy.shape[-2]} states, and the log {states}"
            )


def _flag(option: str) -> str:
    return "--" + option.replace("_", "-")


# How the file of an option is read, by what it contains (`Option.file`).
_READERS: dict[str, Callable[[str | Path, str], Any]] = {
    "table": read_table,
    "vector": lambda path, what: read_table(path, what).ravel(),
    "policy": lambda path, _: read_policy(path),
}
