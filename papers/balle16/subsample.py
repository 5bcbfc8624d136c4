"""A baseline that shows what a large delta allows.

It publishes the plain estimate of a few users, who are chosen at random, without noise.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from confide.errors import InvalidParameter
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.estimator import Estimator
from confide.evaluation.parameters import keep_returns, whole
from confide.evaluation.smooth_release import counts_one_trajectory
from confide.evaluation.visit_contributions import FirstVisitReturns, FirstVisits
from confide.identity import Identity
from confide.mechanisms.sources import FastSource, NoiseSource, SecureSource
from confide.privacy.bounded import Array, Bounded
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import ApproxDP, Loss
from confide.privacy.request import CentralDP, Request, Trust
from confide.privatizers import Share
from confide.release.parameters import keep
from confide.release.sums import LogSource, LogSums, delta_warning
from confide.trajectory import LoggedUsers


@dataclass(frozen=True, kw_only=True, slots=True, eq=False, repr=False)
class Subsample(Estimator):
    """Choose each user with probability delta, and publish the mean first-visit returns of these.

    Guarantee: (0, delta)-DP. Who is chosen depends on a user's place in the log and on nothing that
    users did. With probability 1 - delta a given user is not chosen, and then the output is the
    same whoever that user is. The users who are not chosen are protected completely, and the chosen
    ones not at all. So an estimator that does worse under the same delta is of no use, and a delta
    of 1/m or more protects nobody.

    There is no certificate, because the guarantee cannot be recomputed from numbers. States that no
    chosen user visits get return_bound/2. The name and the number in `identity` are in ledgers and
    must not change.
    """

    lattice: ClassVar[bool] = False
    gaussian: ClassVar[bool] = True
    states: int
    discount: float = 1.0
    return_bound: float

    def __post_init__(self) -> None:
        keep_returns(self)
        keep(self, states=whole("states", self.states))

    def identity(self) -> Identity:
        return Identity(
            "subsample",
            1,
            states=self.states,
            discount=self.discount,
            return_bound=self.return_bound,
        )

    def counted(self, trajectories: int, steps: int) -> str:  # noqa: ARG002
        """What counts of each user, whatever the log's limit on trajectories is."""
        one_trajectory = counts_one_trajectory(self.states, self.return_bound, steps)
        return f"only users who are chosen count; {one_trajectory}"

    def _statistic(self) -> FirstVisitReturns:
        R = self.return_bound / 2
        return FirstVisitReturns(FirstVisits(self.states, self.states), self.discount, R, R)

    def loss(self, privacy: Request) -> Loss:
        return ApproxDP(0.0, privacy.delta)

    def release(
        self, logs: LogSource, *, noise: NoiseSource | None = None, **more: Any
    ) -> ValueEstimate:
        if not isinstance(noise, FastSource | SecureSource | None):
            raise InvalidParameter(
                "subsample adds no noise: omit noise, or give rng, which chooses the users"
            )
        return Estimator.release(self, logs, noise=noise, **more)

    def queries(self, logs: LogSource, privacy: Request) -> Sequence[Share]:  # noqa: ARG002
        """There are none, because no noise is added to a sum."""
        if not isinstance(privacy, CentralDP) or privacy.delta == 0:
            raise InvalidParameter(
                "subsample publishes each user with probability delta: "
                "ask for CentralDP with a delta above 0"
            )
        return ()

    def answer(self, sums: LogSums) -> ValueEstimate:
        """Read users in the log's order, in this process.

        The choice must not depend on how users fall into blocks.
        """
        privacy = sums.privacy
        users, total = self._choose(sums.logs, privacy.delta, sums.source)  # type: ignore[arg-type]
        delta_warning(users, privacy.delta)
        counts, returns, _ = self._statistic().bound.unpack(total.values)
        mean: Array = np.divide(returns, counts, out=np.zeros_like(returns), where=counts > 0)
        guarantee = Guarantee(
            self.loss(privacy), privacy, Trust.CENTRAL, max(users, 1), sums.source.name
        )
        return ValueEstimate(
            self.return_bound / 2 * (1 + mean), None, guarantee, None, 0.0, self.return_bound
        )

    def _choose(
        self, logs: LogSource, share: float, source: FastSource | SecureSource
    ) -> tuple[int, Bounded]:
        statistic = self._statistic()
        users = 0
        total = Bounded(np.zeros(statistic.bound.size), statistic.bound, 0)
        for block in logs.blocks():
            chosen = source.uniform(block.count) < share
            users += block.count
            only = LoggedUsers(
                block.states, block.rewards, block.trajectories, block.users, block.valid & chosen
            )
            total = total + statistic.contribution(only)
        return users, total
