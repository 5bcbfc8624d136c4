"""Sums over a log, each on its share of one budget.

What leaves this file are releases with their noise, and the certificate that covers all of them.
The texts of assumptions stand in certificates. A question reads a log through `LogSums` alone, so
that no sum is released without its noise.
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from confide.arguments import real, whole
from confide.errors import ConfideWarning
from confide.mechanisms.sources import NoiseSource
from confide.privacy.assumption import Assumption
from confide.privacy.bounded import Bounded, Released
from confide.privacy.certificate import Certificate, certify
from confide.privacy.guarantee import Guarantee
from confide.privacy.loss import Loss
from confide.privacy.request import NoPrivacy, Request
from confide.privatizers import Share, SharedBudget
from confide.trajectory import LoggedUsers

if TYPE_CHECKING:
    from confide.logs.log import LogStatistic

Progress = Callable[..., None]


class LogSource(Protocol):
    """Logged users, as `confide.logs.open` gives them."""

    @property
    def assumptions(self) -> Sequence[Assumption]: ...

    def total(self, statistic: Any, *, progress: Any = None) -> Bounded:
        """The sum of the statistic over all users."""

    def blocks(self) -> Iterator[LoggedUsers]:
        """All users once, whole, in order. PRIVATE."""


class DeltaWarning(ConfideWarning):
    """delta is so large that publishing some records unchanged would satisfy the guarantee."""


def delta_warning(users: int, delta: float) -> None:
    """Warn where delta >= 1/users: publishing each record with probability delta is (0, delta)-DP,
    and publishes at least one on average.

    The number of users is public under `replace`, whose neighbours have equally many.
    """
    whole("users", users)
    real("delta", delta)
    if users >= 1 and delta * users >= 1:
        warnings.warn(
            f"delta={delta:g} is not below 1/{users}, one over the number of users: publishing "
            f"{delta * users:.3g} records "
            "unchanged would satisfy the same guarantee; use a smaller delta",
            DeltaWarning,
            stacklevel=3,
        )


class LogSums:
    """A log, summed up with noise on one budget.

    Its shares say what will be released, and in which order.

    `loss` is what all releases together lose. Without it, noise is the least that keeps the
    request. A loss that is smaller than what `privacy` allows adds more noise than is needed:
    printed constants do.
    """

    def __init__(
        self,
        logs: LogSource,
        shares: Sequence[Share],
        *,
        privacy: Request,
        source: NoiseSource,
        progress: Progress | None,
        loss: Loss | None = None,
    ) -> None:
        self.logs = logs
        self.privacy = privacy
        self.source = source
        self._progress = progress
        # Refuse what can be refused before the log is read.
        self._budget = SharedBudget(shares, privacy=privacy, noise=source, loss=loss)

    def release(self, statistic: "LogStatistic") -> Released:
        """The sum of the statistic over all users, with the noise of the next share."""
        total = self.total(statistic)
        if self._budget.asked == 0:
            delta_warning(total.users, self.privacy.delta)
        return self._budget.release(total)

    def total(self, statistic: "LogStatistic") -> Bounded:
        """The sum of the statistic over all users, without noise. PRIVATE."""
        return self.logs.total(statistic, progress=self._progress)

    @property
    def guarantee(self) -> Guarantee:
        """The guarantee of everything that was released so far, read together."""
        return self._budget.guarantee

    def certificate(self, subject: str, more: Sequence[Assumption | str] = ()) -> Certificate:
        """The certificate of what was released.

        `more` are assumptions that its reader must know besides those about the log.
        """
        assumptions = [*log_assumptions(self.logs, self.privacy), *more]
        return certify(
            self.guarantee, self._budget.mechanisms(), subject=subject, assumptions=assumptions
        )


def log_assumptions(logs: LogSource, privacy: Request) -> list[Assumption]:
    """What a certificate assumes on top of the standing assumptions."""
    if isinstance(privacy, NoPrivacy):
        return list(logs.assumptions)
    public_size = Assumption("public-size", "The number of users in the log is public.")
    public_ids = Assumption(
        "public-ids",
        "User ids put rows together and are in no result. The guarantee is about what users' rows "
        "contain: which ids the log has, their "
        "order and their files are not protected from somebody who sees its errors; a user who "
        "contributes zero remains in this order.",
    )
    return [*logs.assumptions, public_size, public_ids]
