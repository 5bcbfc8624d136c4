"""ICU-Sepsis: treating sepsis in intensive care [Choudhary24]. Needs `confide[icu]`.

It is a real MDP, estimated from MIMIC-III. The package's own file of numbers is read. The package
itself is never imported, because it imports the old gym, which warns.
"""

import importlib.util
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from confide.arguments import check_size, whole
from confide.errors import InvalidParameter, MissingExtra
from confide.policy import StochasticPolicy
from confide.problems.tabular import TabularMDP
from confide.problems.transitions import Transitions, sparse_rows
from confide.problems.zoo import describe

Array = npt.NDArray[np.float64]

# The states after the 713 of a patient in treatment.
DEATH = 713
SURVIVAL = 714
END = 715


@describe(
    "treatment of sepsis, estimated from MIMIC-III; needs confide[icu]",
    family="table",
    paper="Choudhary24",
)
def icu_sepsis(*, horizon: int = 100) -> TabularMDP:
    """Give fluids and vasopressors at five levels each, so that the patient survives.

    There are 716 states and 25 actions. The reward is 1 in the survival state, which like death
    leads to the absorbing end. So a survivor's return is 1, and anybody else's 0. The package pays
    on arrival. Here the reward comes one step later, so that it depends on the state alone. A
    patient who is still in treatment after `horizon` steps counts as lost: under the clinicians'
    policy 13 % of them after 20 steps, 3 in 100,000 after 100.
    """
    rewards = np.zeros((END + 1, 25))
    rewards[SURVIVAL] = 1.0
    return TabularMDP(_transitions(), rewards, _read("d_0"), horizon=horizon, name="icu-sepsis")


def icu_sepsis_expert(*, horizon: int = 100) -> StochasticPolicy:
    """What clinicians did: public side information, to be evaluated or improved upon.

    Once treatment is over it plays at random.
    """
    weights = _read("expert_policy")
    check_size(
        horizon=whole("horizon", horizon, at_least=1), states=len(weights), actions=weights.shape[1]
    )
    weights[DEATH:] = 1 / weights.shape[1]
    return StochasticPolicy(np.repeat(weights[None], horizon, axis=0))


def icu_sepsis_centres() -> Array:
    """The average vital signs and laboratory values of each state's patients [state, 47].

    They are normalised, and public side information.
    """
    return _read("state_cluster_centers")


@cache
def _transitions() -> Transitions:
    """Sparse, because one entry in eight is not zero: this takes 30 MB instead of 103."""
    dense = _read("tx_mat")  # [s, a, s']
    S, A, _ = dense.shape
    flat = dense.reshape(S * A, S)
    rows, successors = np.nonzero(flat)
    indptr = np.searchsorted(rows, np.arange(S * A + 1))
    return sparse_rows(S, A, indptr, successors, flat[rows, successors])


def _read(key: str) -> Array:
    # This finds the package and does not import it.
    package = importlib.util.find_spec("icu_sepsis")
    if package is None or not package.submodule_search_locations:
        raise MissingExtra(
            "icu-sepsis needs the data of the icu-sepsis package: pip install 'confide[icu]'"
        )
    path = Path(package.submodule_search_locations[0]) / "envs" / "assets" / "dynamics.npz"
    try:
        with np.load(path, allow_pickle=False) as data:
            return np.asarray(data[key], dtype=float)
    except (OSError, KeyError, ValueError) as error:
        raise InvalidParameter(
            f"the installed icu-sepsis does not contain the {key} of version 2: {error}"
        ) from None
