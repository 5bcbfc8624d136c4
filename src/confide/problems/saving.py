"""How a problem becomes a file: arrays in an .npz, never a pickle.

The arrays are those of `problem.identity()`, with `format` and `kind`. `load_problem` reads them.
"""

from pathlib import Path
from typing import Any

import numpy as np

from confide import arguments
from confide.errors import InvalidParameter

FORMAT = "confide-problem/1"
# The arrays of a table that describe its sparse transitions.
ROWS = ("layers", "states", "actions", "indptr", "successors", "probabilities")


def save_problem(problem: Any, path: str | Path) -> None:
    """Save a problem, including what is hidden from agents; `load_problem` restores it exactly."""
    target = arguments.path("path", path)
    # The class's own kind, because a subclass would not be the same when it is loaded.
    kind = vars(type(problem)).get("kind")
    if kind is None:
        raise InvalidParameter(
            "only TabularMDP, LinearMixtureMDP, FeatureMixtureMDP, LinearMDP, LQSystem and "
            f"LinearBandit can be saved, got {type(problem).__name__}"
        )
    values = problem.identity().values
    arrays = {key: np.asarray(value) for key, value in values.items() if value is not None}
    try:
        # A file object, because np.savez would add an ending of its own to a name.
        with open(target, "wb") as file:
            np.savez_compressed(
                file, allow_pickle=False, format=np.array(FORMAT), kind=np.array(kind), **arrays
            )
    except IsADirectoryError:
        raise InvalidParameter(
            f"cannot write to {target}: it is a folder; choose another file"
        ) from None
