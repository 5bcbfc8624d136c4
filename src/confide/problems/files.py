"""Read a problem from its file: arrays in an .npz, never a pickle. `saving.py` writes it.

The file may come from anybody. It is checked like the arguments of a problem, and refused if it
needs more memory than is available.
"""

import tokenize
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from confide._memory import refuse_more_than_available
from confide.arguments import COPIES, regular_file
from confide.errors import ConfideError, InvalidParameter
from confide.problems.bandit import LinearBandit
from confide.problems.feature_mixture import FeatureMixtureMDP
from confide.problems.headers import read_headers
from confide.problems.linear_mdp import LinearMDP
from confide.problems.linear_mixture import LinearMixtureMDP
from confide.problems.lq import LQSystem
from confide.problems.saving import FORMAT, ROWS, save_problem
from confide.problems.tabular import TabularMDP
from confide.problems.transitions import sparse_rows

SavedProblem = (
    TabularMDP | LinearMixtureMDP | FeatureMixtureMDP | LinearMDP | LQSystem | LinearBandit
)
Stored = dict[str, npt.NDArray[Any]]

_KINDS: dict[str, type[SavedProblem]] = {
    TabularMDP.kind: TabularMDP,
    LinearMixtureMDP.kind: LinearMixtureMDP,
    FeatureMixtureMDP.kind: FeatureMixtureMDP,
    LinearMDP.kind: LinearMDP,
    LQSystem.kind: LQSystem,
    LinearBandit.kind: LinearBandit,
}
__all__ = ["SavedProblem", "load_problem", "save_problem"]

# What NumPy and zipfile raise for a damaged file. The last two are about headers of arrays.
_DAMAGE = (
    ValueError,
    TypeError,
    EOFError,
    NotImplementedError,
    RuntimeError,
    zipfile.BadZipFile,
    zlib.error,
    SyntaxError,
    tokenize.TokenError,
)


def load_problem(path: str | Path) -> SavedProblem:
    """A problem that was saved, checked like any other."""
    stored = _read(path)
    kind = _KINDS[_text(stored.pop("kind"))]
    values: dict[str, Any] = {
        key: array.item() if array.ndim == 0 else array for key, array in stored.items()
    }
    try:
        if kind is TabularMDP:
            rows = {key: values.pop(key) for key in ROWS}
            values["transitions"] = sparse_rows(**rows)
        if kind is FeatureMixtureMDP:
            return FeatureMixtureMDP.from_arrays(**values)
        return kind(**values)
    except ConfideError as error:
        raise InvalidParameter(f"{path} contains a problem that is not valid: {error}") from None
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidParameter(f"{path} is not a saved problem: {error}") from None


def _read(path: str | Path) -> Stored:
    """The arrays of a file of our format and of a kind we know, without the format."""
    try:
        refuse_more_than_available(
            COPIES * read_headers(path).total, f"the problem in {path}", "save a smaller problem"
        )
        # If np.load opened a damaged file itself, the file would stay open.
        with open(regular_file(path), "rb") as file, np.load(file, allow_pickle=False) as data:
            stored = {key: data[key] for key in data.files}
    except ConfideError:
        raise
    except FileNotFoundError:
        raise InvalidParameter(f"no such file: {path}") from None
    except OSError as error:
        raise InvalidParameter(f"{path} is not a saved problem, or is damaged: {error}") from None
    except _DAMAGE:
        # NumPy's own message advises to load the file unsafely.
        raise InvalidParameter(f"{path} is not a saved problem, or is damaged") from None
    file_format = _text(stored.pop("format", None))
    if not file_format:
        raise InvalidParameter(f"{path} is not a saved problem: it names no format")
    if file_format != FORMAT:
        raise InvalidParameter(
            f"{path} is not a saved problem: it is of format {file_format}, "
            f"and this version of confide reads {FORMAT}"
        )
    if _text(stored.get("kind")) not in _KINDS:
        raise InvalidParameter(
            f"{path} is not a saved problem: its kind must be one of {', '.join(_KINDS)}"
        )
    return stored


def _text(array: npt.NDArray[Any] | None) -> str:
    """The text in an array without dimensions; empty if it is something else."""
    return str(array) if array is not None and array.ndim == 0 and array.dtype.kind == "U" else ""
