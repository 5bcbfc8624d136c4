"""What estimators release beside their statistic, on the same budget.

There are two such parts: how far sampling may have moved the estimate, and the value of the logged
policy. The texts of queries and the shares of the budget are in certificates and ledgers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from confide.evaluation.estimator import Estimator
from confide.evaluation.parameters import keep_returns, real
from confide.privacy.bounded import Array, Bound
from confide.privatizers import Share
from confide.release.logged_returns import LOGGED_SHARE, LoggedReturns, ReturnMoments
from confide.release.parameters import keep
from confide.release.sums import LogSums
from confide.release.value import Ratio

# How many bands of norms residuals are sorted into: from the worst case down to 1/2048 of it.
# A matter of taste: the sensitivity does not depend on it.
BANDS = 12
RESIDUALS = "second moments of residuals, in bands"


@dataclass(frozen=True, slots=True)
class Returns:
    """The public range of returns, centre +- radius.

    It is [0, return_bound] unless a centre is given.
    """

    centre: float
    radius: float


def with_logged_value(shares: Sequence[Share]) -> list[Share]:
    """The shares of a budget, each a little smaller, and one for the value of the logged policy."""
    smaller = [replace(share, share=share.share * (1 - LOGGED_SHARE)) for share in shares]
    return [*smaller, Share(ReturnMoments(), LOGGED_SHARE, "returns of the logged policy")]


def release_logged_value(
    sums: LogSums, returns: Returns, *, states: int, discount: float
) -> dict[str, Array]:
    """The logged policy's value, as a `ValueEstimate` keeps it. It has the budget's last share."""
    statistic = LoggedReturns(states, float(discount), returns.centre, returns.radius)
    ratio: Ratio = statistic.value(sums.release(statistic))
    return {"logged": ratio.to_array()}


class TwoReleases(Estimator):
    """An estimator that reads the log twice and is charged once, for both.

    The first release gives the estimate. The second one, on `interval_share` of the budget, says
    how far sampling may have moved it.
    """

    __slots__ = ()
    discount: float
    return_bound: float
    centre: float | None
    interval_share: float

    def _keep_shared(self) -> None:
        """Check the public parameters that all estimators with two releases have."""
        keep_returns(self)
        share = real("interval_share", self.interval_share, "in [0, 0.9]", 0, 0.9)
        keep(self, interval_share=share)

    @property
    def _returns(self) -> Returns:
        centre = self.return_bound / 2 if self.centre is None else self.centre
        return Returns(centre, self.return_bound / 2)

    @property
    def _range(self) -> str:
        returns = self._returns
        return f"[{returns.centre - returns.radius:g}, {returns.centre + returns.radius:g}]"

    def _shares(self, statistic: Bound, query: str, residuals: Bound) -> list[Share]:
        """The budget: most of it for the estimate, the rest for the error that sampling makes."""
        estimate = Share(statistic, 1 - self.interval_share, query)
        if self.interval_share == 0:
            return [estimate]
        return [estimate, Share(residuals, self.interval_share, RESIDUALS)]
