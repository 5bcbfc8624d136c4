"""What planning remembers of earlier batches of a linear system: one experiment for each batch.

All of it is public. What leaves this file is the memory between two rounds, with the names of
arrays in `LAYOUT`. On a device this memory comes from a server, so the layout checks all of it
before anything is used. Runs that were saved hold these names, so renaming one needs a new version
of the agent.
"""

import math

import numpy as np
import numpy.typing as npt

from confide.control.identification_planning import NOT_RELEASED, Experiment, SystemEstimate
from confide.control.residual_features import released_moments, unpack_residuals
from confide.planners.history import LAST_RELEASE, History, Layout, Reals, Wholes
from confide.privacy.bounded import Released

Array = npt.NDArray[np.float64]
LAYOUT = Layout(
    LAST_RELEASE
    | {
        "sums": Reals(("experiment", "row", "row")),
        "residuals": Reals(("experiment", "row", "state")),
        "sums_std": Reals(("experiment",), at_least=0),
        "std": Reals(("experiment",), at_least=0),
        "guess": Reals(("experiment", "row", "state")),
        "gains": Reals(("experiment", "policy", "step", "input", "state")),
        "users": Reals(("experiment",), at_least=0),
        "kept": Reals(("experiment",), at_least=0),
        "lost": Reals(("experiment",), at_least=0),
        "before": Reals(("experiment", "row", "row")),
        "scales": Reals(("experiment", "row"), above=0),
        # What belongs to the open batch.
        "open_guess": Reals(("row", "state")),
        "open_covariance": Reals(("row", "row")),
        "open_gains": Reals(("policy", "step", "input", "state")),
        "open_scales": Reals(("row",), above=0),
        "open_clip": Reals(above=0),
        "open_cap": Reals(above=0),
        "open_kept": Reals(above=0),
        "open_lost": Reals(at_least=0),
        # What was there before the open batch.
        "total": Wholes(at_most="users"),
    }
)


def recall_experiments(
    released: Released, sizes: dict[str, int], *, weight: float, batches: int
) -> History:
    """All batches so far, the one that the release has just closed included.

    Its second moments have this weight (0: not released).
    """
    dimension = sizes["row"]
    states = sizes["state"]
    numbers = {"number": released_moments(dimension, weight) + dimension * states}
    history = LAYOUT.recall(released, sizes | numbers, {"experiment": batches - 1})
    if released.generation == 0:
        return history
    values, variance = history.without_last(released)
    std = math.sqrt(variance)
    clip = float(history["open_clip"])
    cap = float(history["open_cap"])
    scales = history["open_scales"]
    scaled_sums, scaled_residuals = unpack_residuals(values, dimension, states, weight)
    sums = np.zeros((dimension, dimension))
    sums_std = NOT_RELEASED
    if scaled_sums is not None:
        sums = cap * scaled_sums / np.outer(scales, scales)
        sums_std = cap * std / weight
    return history.append(
        "experiment",
        sums=sums,
        residuals=clip * scaled_residuals / scales[:, None],
        sums_std=sums_std,
        std=clip * std,
        guess=history["open_guess"],
        gains=history["open_gains"],
        users=float(released.users - int(history["total"])),
        kept=history["open_kept"],
        lost=history["open_lost"],
        before=history["open_covariance"],
        scales=scales,
    )


def experiments_in(history: History) -> list[Experiment]:
    """All batches that were released, in their order."""
    return [
        Experiment(
            sums=history["sums"][i],
            residuals=history["residuals"][i],
            sums_std=float(history["sums_std"][i]),
            std=float(history["std"][i]),
            guess=history["guess"][i],
            gains=history["gains"][i],
            users=float(history["users"][i]),
            kept=float(history["kept"][i]),
            lost=float(history["lost"][i]),
            before=history["before"][i],
            scales=history["scales"][i],
        )
        for i in range(history.count("experiment"))
    ]


def last_estimate(history: History) -> SystemEstimate:
    """The estimate from which the batch was planned that the release has just closed."""
    return SystemEstimate(history["open_guess"], history["open_covariance"])
