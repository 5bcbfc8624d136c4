"""What planning on sums of codes remembers from release to release.

PUBLIC, and part of what is saved and sent: the names, axes and types in `LAYOUT` are a format,
which saved agents and devices have. The last rounds are kept as they were, because their visits are
predicted again at each release. Those before them are kept as the state of a filter. Where each
release has everything so far, only the last one is looked at, and earlier visits are kept.
"""

import math
from dataclasses import dataclass

import numpy as np

from confide.mixtures.likelihood_planning import CodeSums, FilterState, WeightPosterior, prior_state
from confide.planners.history import LAST_RELEASE, Arrays, History, Layout, Reals, Wholes
from confide.planners.visits import SERVED, fold, users_of_round
from confide.privacy.bounded import Released

# Rounds that are looked at again at each release. More are slower and hardly better.
ROUNDS = 16
_CODE_SUMS: Arrays = {
    "sums": Reals(("leaf", "planned step", "code")),
    "stds": Reals(("leaf",), at_least=0),
    "rounds": Wholes(("policy",), below="leaf"),
}
_FILTER_STATE: Arrays = {
    "mean": Reals(("planned step", "unknown")),
    "covariance": Reals(("planned step", "unknown", "unknown")),
}
LAYOUT = Layout(SERVED | LAST_RELEASE | _CODE_SUMS | _FILTER_STATE)


@dataclass(frozen=True, slots=True)
class CodeSizes:
    """The sizes of a problem, and how the sums that are released about it belong together.

    `code_length` is how many numbers a code has, and `policies` how many a round has at most.
    `ratio` is that of discounted releases. It is 0 for sums of separate rounds, and None for sums
    whose noise is shared in another way.
    """

    horizon: int
    steps: int
    states: int
    actions: int
    dimension: int
    code_length: int
    policies: int
    ratio: float | None

    @property
    def recent_policies(self) -> int:
        """How many policies are remembered as they were."""
        return ROUNDS * self.policies


def recall_rounds(released: Released, sizes: CodeSizes) -> History:
    """The rounds so far, the one that the release has just closed included."""
    history = LAYOUT.recall(
        released,
        {
            "step": sizes.horizon,
            "planned step": sizes.steps,
            "state": sizes.states,
            "action": sizes.actions,
            "code": sizes.code_length,
            "number": sizes.steps * sizes.code_length,
            "unknown": sizes.dimension + sizes.code_length,
        },
        {
            "leaf": ROUNDS,
            "policy": sizes.recent_policies,
            "shown policy": sizes.recent_policies,
        },
    )
    if released.generation == 0:
        before = prior_state(sizes.steps, sizes.dimension, sizes.code_length)
        return history.replace(mean=before.mean, covariance=before.covariance)
    number = history.count("leaf")
    values = released.values
    noise_std = released.noise.std
    if sizes.ratio is None:
        # The release is the only round, and all policies belong to it.
        number = 0
        history = history.select("leaf", slice(0))
    elif sizes.ratio == 0:
        values, variance = history.without_last(released)
        noise_std = math.sqrt(variance)
    else:
        values = values - sizes.ratio * history["last"]
    users = users_of_round(history, released)
    sums = values.reshape(sizes.steps, sizes.code_length)
    history = history.append("leaf", sums=sums, stds=np.float64(noise_std))
    return history.extend(
        "policy", policies=history["shown"], users=users, rounds=np.full(len(users), number)
    )


def code_sums_in(history: History) -> CodeSums:
    return CodeSums(history["sums"], history["stds"], history["rounds"])


def filter_state_in(history: History) -> FilterState:
    """The state of the filter before the rounds that are looked at again."""
    return FilterState(history["mean"], history["covariance"])


def fold_oldest(history: History, posterior: WeightPosterior, sizes: CodeSizes) -> History:
    """Make room for one more round: forget the oldest one but for what it said."""
    if sizes.ratio is None:
        return fold(history, posterior.states, sizes.recent_policies)
    if history.count("leaf") < ROUNDS:
        return history
    history = history.select("policy", history["rounds"] > 0).select("leaf", slice(1, None))
    return history.replace(
        rounds=history["rounds"] - 1,
        mean=posterior.after_first.mean,
        covariance=posterior.after_first.covariance,
    )
