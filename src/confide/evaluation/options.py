"""What the command line says about the parameters of an estimator, declared where the parameter is.

Texts and names here are public: they are the help and the options of `confide evaluate`. They have
no influence on what is computed.
"""

from dataclasses import MISSING, Field, dataclass, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args


@dataclass(frozen=True, slots=True)
class Option:
    """One option of `confide evaluate`. It stands in the annotation of a parameter:

    `visits: Annotated[int, Option("...")] = 20`.
    """

    help: str
    # The option's name on the command line, if it is not the name of the parameter.
    name: str = ""
    # What the option's file contains: table, vector or policy. Empty: the value itself is given.
    file: str = ""
    at_least: int | None = None
    # The default in words, if it is not the default of the parameter.
    default: str = ""


@dataclass(frozen=True, slots=True)
class Declared:
    """An option together with the parameter that it stands for."""

    parameter: str
    option: Option
    type: type
    needed: bool
    default: str


def options_of(estimator: type) -> dict[str, Declared]:
    """The options that an estimator declares, under their names on the command line."""
    options = {}
    for parameter in fields(estimator):
        annotation: Any = parameter.type
        for option in getattr(annotation, "__metadata__", ()):
            if isinstance(option, Option):
                kind = Path if option.file else _plain_type(annotation.__origin__)
                options[option.name or parameter.name] = Declared(
                    parameter.name,
                    option,
                    kind,
                    needed=parameter.default is MISSING,
                    default=option.default or _default_in_words(parameter),
                )
    return options


def _default_in_words(parameter: "Field[Any]") -> str:
    if parameter.default is MISSING or parameter.default is None:
        return ""
    if isinstance(parameter.default, float):
        return f"{parameter.default:g}"
    return str(parameter.default)


def _plain_type(annotation: Any) -> type:
    """`int` of `int | None`."""
    parts = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    kind: type = next(part for part in parts if part is not type(None))
    return kind


CENTRE = Option("middle of the range of returns", default="half the return bound")
FEATURES = Option("public features of states: .npy or .csv, one row per state", file="table")
WEIGHTS = Option(
    "public weights of states in the regression, .npy or .csv",
    file="vector",
    default="the same for all",
)
INTERVAL_SHARE = Option("share of the budget for confidence intervals")
CALIBRATION = Option(
    "tight (least noise), paper (printed constants) or supplement "
    "(those that the paper's supplement proves)"
)
TARGET = Option(
    'policy to evaluate, if it is not the one that made the log: "always ACTION", a .csv file with '
    "the columns state, action and probability, a saved policy (.npz), or the folder or "
    "policy.json of confide learn",
    file="policy",
)
AGAINST = Option(
    "policy with which the target is compared, as --target takes it",
    file="policy",
    default="the logged policy",
)
CLIP = Option("clip importance weights at this value")
BEHAVIOUR = Option(
    "public probabilities of the logged actions, where the log has none: .npz of a policy, .npy or "
    ".csv with a row per state, or the folder of a model that `confide learn --out` released",
    file="behaviour",
    default="the log's",
)
