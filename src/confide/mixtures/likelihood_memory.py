"""What planning on sums of codes remembers from release to release. All of it is public.

The last rounds are kept as they were, because their visits are predicted again at each release; those before them are folded into what they
say about the weights (`FilterState`), or, where only the last release is looked at, into their visits.
"""

import math
from dataclasses import dataclass

import numpy as np

from confide.mixtures.likelihood_planning import CodeSums, FilterState, WeightPosterior, prior
from confide.planners.history import LAST_RELEASE, History, Layout, Reals, Wholes
from confide.planners.visits import SERVED, fold, users_of_round
from confide.privacy.bounded import Released

ROUNDS = 16  # that are looked at again
LAYOUT = Layout(
    SERVED
    | LAST_RELEASE
    | {
        "sums": Reals(("leaf", "planned step", "code")),
        "stds": Reals(("leaf",), at_least=0),
        # of each policy
        "rounds": Wholes(("policy",), below="leaf"),
        "mean": Reals(("planned step", "unknown")),
        "covariance": Reals(("planned step", "unknown", "unknown")),
    }
)


@dataclass(frozen=True, slots=True)
class CodeSizes:
    """Of a problem and of the sums that are released about it."""

    horizon: int
    steps: int
    states: int
    actions: int
    dimension: int
    codes: int
    policies: int  # of a round, at most
    # of discounted releases; 0: sums of separate leaves; None: sums whose noise is shared in another way
    ratio: float | None

    @property
    def recent(self) -> int:
        """Policies that are remembered as they were."""
        return ROUNDS * self.policies


def recall_rounds(released: Released, shape: CodeSizes) -> History:
    """The rounds so far, the one that the release has just closed included."""
    history = LAYOUT.recall(
        released,
        {
            "step": shape.horizon,
            "planned step": shape.steps,
            "state": shape.states,
            "action": shape.actions,
            "code": shape.codes,
            "number": shape.steps * shape.codes,
            "unknown": shape.dimension + shape.codes,
        },
        {"leaf": ROUNDS, "policy": shape.recent, "shown policy": shape.recent},
    )
    if released.generation == 0:
        before = prior(shape.steps, shape.dimension, shape.codes)
        return history.replace(mean=before.mean, covariance=before.covariance)
    number = history.count("leaf")
    values, std = released.values, released.noise.std
    if shape.ratio is None:
        # The release is the only leaf, and all policies belong to it.
        number = 0
        history = history.select("leaf", slice(0))
    elif shape.ratio == 0:
        values, variance = history.without_last(released)
        std = math.sqrt(variance)
    else:
        values = values - shape.ratio * history["last"]
    users = users_of_round(history, released)
    history = history.append(
        "leaf", sums=values.reshape(shape.steps, shape.codes), stds=np.float64(std)
    )
    return history.extend(
        "policy", policies=history["shown"], users=users, rounds=np.full(len(users), number)
    )


def leaves_in(history: History) -> CodeSums:
    return CodeSums(history["sums"], history["stds"], history["rounds"])


def evidence_in(history: History) -> FilterState:
    """Of the rounds that are no longer looked at."""
    return FilterState(history["mean"], history["covariance"])


def fold_oldest(history: History, known: WeightPosterior, shape: CodeSizes) -> History:
    """Room for one more round."""
    if shape.ratio is None:
        return fold(history, known.states, shape.recent)
    if history.count("leaf") < ROUNDS:
        return history
    history = history.select("policy", history["rounds"] > 0).select("leaf", slice(1, None))
    return history.replace(
        rounds=history["rounds"] - 1, mean=known.first.mean, covariance=known.first.covariance
    )
