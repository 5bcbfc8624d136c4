"""Releases of one log on one budget: the estimate, how far sampling may have moved it, and the value of the logged policy."""

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

BANDS = 12  # of residuals: norms from the worst case down to 1/2048 of it
RESIDUALS = "second moments of residuals, in bands"


@dataclass(frozen=True, slots=True)
class Returns:
    """The public range of returns, centre +- radius: from `return_bound`, [0, return_bound] unless a centre is given."""

    centre: float
    radius: float


def with_logged_value(shares: Sequence[Share]) -> list[Share]:
    """The shares of a budget, each a little smaller, and one for the value of the logged policy."""
    smaller = [replace(each, share=each.share * (1 - LOGGED_SHARE)) for each in shares]
    return [*smaller, Share(ReturnMoments(), LOGGED_SHARE, "returns of the logged policy")]


def release_logged_value(
    sums: LogSums, returns: Returns, *, states: int, discount: float
) -> dict[str, Array]:
    """The value of the logged policy, as a `ValueEstimate` keeps it: from the last share of the budget."""
    statistic = LoggedReturns(states, float(discount), returns.centre, returns.radius)
    ratio: Ratio = statistic.value(sums.release(statistic))
    return {"logged": ratio.to_array()}


class TwoReleases(Estimator):
    """An estimator that reads the log once for the estimate and once for how far sampling may have moved it: charged once, for both."""

    __slots__ = ()
    discount: float
    return_bound: float
    centre: float | None
    interval_share: float

    def _keep_shared(self) -> None:
        """Check the public parameters that all estimators with two releases have."""
        keep_returns(self)
        keep(
            self, interval_share=real("interval_share", self.interval_share, "in [0, 0.9]", 0, 0.9)
        )

    @property
    def _returns(self) -> Returns:
        return Returns(
            self.return_bound / 2 if self.centre is None else self.centre, self.return_bound / 2
        )

    @property
    def _range(self) -> str:
        returns = self._returns
        return f"[{returns.centre - returns.radius:g}, {returns.centre + returns.radius:g}]"

    def _shares(self, statistic: Bound, query: str, residuals: Bound) -> list[Share]:
        """The budget: most of it for the estimate, the rest for how far sampling may have moved it."""
        first = Share(statistic, 1 - self.interval_share, query)
        if self.interval_share == 0:
            return [first]
        return [first, Share(residuals, self.interval_share, RESIDUALS)]
