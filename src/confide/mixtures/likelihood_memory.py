"""What planning on sums of codes remembers from release to release. All of it is public.

The last rounds are kept as they were, because their visits are predicted again at each release; those before them are folded into what they
say about the weights (`Evidence`), or, where only the last release is looked at, into their visits.
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.mixtures.likelihood_planning import Evidence, Leaves, Posterior, prior
from confide.planners.visits import Served, fold, recall, remember
from confide.privacy.bounded import Memory, Released

Array = npt.NDArray[np.float64]
ROUNDS = 16  # that are looked at again


@dataclass(frozen=True, slots=True)
class Shape:
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


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """The rounds so far, the one that the last release has closed included."""

    leaves: Leaves
    served: Served
    before: Evidence

    def folded(self, known: Posterior, shape: Shape) -> "History":
        """Room for one more round."""
        if shape.ratio is None:
            served = fold(self.served, known.states, shape.recent)
            return replace(
                self,
                served=served,
                leaves=replace(self.leaves, rounds=np.zeros(len(served.users), dtype=np.int64)),
            )
        if len(self.leaves.stds) < ROUNDS:
            return self
        later = self.leaves.rounds > 0
        leaves = Leaves(self.leaves.sums[1:], self.leaves.stds[1:], self.leaves.rounds[later] - 1)
        served = replace(
            self.served, policies=self.served.policies[later], users=self.served.users[later]
        )
        return History(leaves, served, known.first)

    def remembered(
        self, released: Released, shown: npt.NDArray[np.int64], shares: Array
    ) -> dict[str, npt.NDArray[np.generic]]:
        """With the policies [p, h, s] that serve these shares of the users to come."""
        return {
            "seed": released.memory["seed"],
            **remember(self.served, shown, released.users, shares),
            "sums": self.leaves.sums,
            "stds": self.leaves.stds,
            "rounds": self.leaves.rounds,
            "mean": self.before.mean,
            "covariance": self.before.covariance,
            "last": released.values,
            "last_std": np.array(released.noise.std),
        }


def remembered(released: Released, shape: Shape) -> History:
    """From the memory of the round that the release has closed. On a device a server says this: nothing in it is taken on faith."""
    memory, steps, codes = released.memory, shape.steps, shape.codes
    served = recall(
        memory,
        released.users,
        horizon=shape.horizon,
        steps=steps,
        states=shape.states,
        actions=shape.actions,
        recent=shape.recent,
    )
    before = prior(steps, shape.dimension, codes)
    if set(memory) == {"seed"}:
        return History(
            Leaves(np.zeros((0, steps, codes)), np.zeros(0), np.zeros(0, dtype=np.int64)),
            served,
            before,
        )
    _check(memory, before, steps, codes)
    latest = released.values.reshape(1, steps, codes)
    if shape.ratio is None:
        one = Leaves(
            latest, np.array([released.noise.std]), np.zeros(len(served.users), dtype=np.int64)
        )
        return History(one, served, before)
    last, std = memory["last"].reshape(1, steps, codes), released.noise.std
    leaf = latest - (shape.ratio or 1.0) * last
    alone = (
        std if shape.ratio else float(np.sqrt(max(std**2 - float(memory["last_std"]) ** 2, 0.0)))
    )
    number = len(memory["stds"])
    leaves = Leaves(
        np.concatenate([memory["sums"], leaf]),
        np.append(memory["stds"], alone),
        np.concatenate(
            [memory["rounds"], np.full(len(served.users) - len(memory["rounds"]), number)]
        ),
    )
    return History(leaves, served, Evidence(memory["mean"], memory["covariance"]))


def _check(memory: Memory, before: Evidence, steps: int, codes: int) -> None:
    rounds = len(memory["stds"])
    shapes = {
        "sums": (rounds, steps, codes),
        "stds": (rounds,),
        "mean": before.mean.shape,
        "covariance": before.covariance.shape,
        "last": (steps * codes,),
        "last_std": (),
    }
    fits = (
        rounds <= ROUNDS
        and memory["rounds"].dtype == np.int64
        and memory["rounds"].shape == memory["users"].shape
    )
    for name, shape in shapes.items():
        numbers = memory[name]
        fits = (
            fits
            and numbers.dtype == np.float64
            and numbers.shape == shape
            and bool(np.isfinite(numbers).all())
        )
    if (
        not fits
        or not ((memory["rounds"] >= 0) & (memory["rounds"] < max(rounds, 1))).all()
        or (memory["stds"] < 0).any()
    ):
        raise InvalidParameter("the memory of earlier rounds does not fit this problem")
