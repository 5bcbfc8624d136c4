"""Public inputs of a question, from files."""

import tokenize
from pathlib import Path

import numpy as np
import numpy.typing as npt

from confide.arguments import regular_file
from confide.errors import InvalidParameter
from confide.policy import FinitePolicy, load_policy


def read_table(path: str | Path, what: str) -> npt.NDArray[np.float64]:
    """Public numbers from a .npy or .csv file; never a pickle."""
    if not Path(path).exists():
        raise InvalidParameter(f"cannot read the {what}: no such file: {path}")
    try:
        regular_file(path)
        if str(path).endswith(".npy"):
            table = np.asarray(np.load(path, allow_pickle=False), dtype=float)
        else:
            table = np.loadtxt(path, delimiter=",", ndmin=2)
    except OSError as error:
        raise InvalidParameter(
            f"cannot read the {what} in {path}: {error.strerror or 'damaged'}"
        ) from None
    # The last two are about a header that is damaged.
    except (ValueError, TypeError, EOFError, SyntaxError, tokenize.TokenError):
        raise InvalidParameter(
            f"the {what} in {path} must be a table of numbers, as .npy or as .csv without a header"
        ) from None
    if not np.isfinite(table).all():
        raise InvalidParameter(f"the {what} in {path} must be finite, and some are NaN or infinite")
    return table


def read_policy(path: str | Path) -> npt.NDArray[np.float64]:
    """The probabilities of actions [h, s, a] of a saved policy."""
    policy = load_policy(path)
    if not isinstance(policy, FinitePolicy):
        raise InvalidParameter(
            f"{path} must contain a policy over finitely many states and actions, got "
            f"{type(policy).__name__}"
        )
    return policy.probabilities()
