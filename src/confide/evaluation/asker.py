"""Questions to a log, each for its share of one budget."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from confide.errors import InvalidParameter
from confide.mechanisms.counters import Counter, Exact
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Array, Bounded, Released
from confide.privacy.certificate import Certificate, Mechanism, certify
from confide.privacy.guarantee import Guarantee, no_guarantee
from confide.privacy.loss import NO_PRIVACY, compose, loss_for, share_of
from confide.privacy.request import NoPrivacy, Request, Trust
from confide.trajectory import LoggedUsers

Progress = Callable[..., None]


class Statistic(Protocol):
    """Turns whole users into one bounded contribution; picklable, so that partitions of a log can be added up anywhere."""

    def contribution(self, users: LoggedUsers) -> Bounded: ...


class Logs(Protocol):
    """Logged users, as `confide.logs.open` gives them."""

    @property
    def assumptions(self) -> Sequence[str]: ...

    def total(self, statistic: Any, *, progress: Any = None) -> Bounded:
        """The sum of the statistic over all users."""

    def blocks(self) -> Iterator[LoggedUsers]:
        """All users once, whole, in order. PRIVATE."""


class DeltaWarning(UserWarning):
    """delta is so large that publishing some users' records outright would keep the promise."""


def delta_warning(users: int, delta: float) -> None:
    """Warn where delta >= 1/users: to publish each record with probability delta is (0, delta)-DP, and somebody's record would go.

    The number of users is public under `replace`, whose neighbours have equally many; `Subsample` is that publication as a baseline.
    """
    if users >= 1 and delta * users >= 1:
        warnings.warn(
            f"delta={delta:g} is not below 1/{users}, one over the number of users: publishing {delta * users:.3g} records as they are "
            "would keep the same promise; use a smaller delta",
            DeltaWarning,
            stacklevel=3,
        )


@dataclass(frozen=True, slots=True, eq=False)
class Answer:
    """What one question got: noisy sums over all users, and the mechanism that made them."""

    released: Released
    mechanism: Mechanism

    @property
    def values(self) -> Array:
        return self.released.values

    @property
    def users(self) -> int:
        return self.released.users

    @property
    def noise_std(self) -> float:
        return self.released.noise.std


class Asker:
    """Asks a log for sums, each on its share of one budget. The shares are fixed in advance and add up to at most one.

    Promise: all answers together are what `privacy` asks for, although later questions depend on earlier answers: Gaussian losses of
    mu sqrt(share) compose to mu, pure ones of epsilon share to epsilon, adaptively.
    """

    def __init__(self, logs: Logs, *, privacy: Request, source: NoiseSource, progress: Progress | None) -> None:
        self._logs, self._privacy, self._source, self._progress = logs, privacy, source, progress
        self._answers: list[Answer] = []
        self._left = 1.0

    def ask(self, statistic: Statistic, share: float, query: str) -> Answer:
        self._left -= share
        if share <= 0 or self._left < -1e-9:
            raise InvalidParameter("the shares of a budget must be positive and add up to at most one")
        total = self._logs.total(statistic, progress=self._progress)
        if not self._answers:
            delta_warning(total.users, self._privacy.delta)
        loss = NO_PRIVACY if isinstance(self._privacy, NoPrivacy) else share_of(loss_for(self._privacy), min(share, 1.0))
        users = max(total.users, 1)
        counter = Counter(total.bound, Exact(1), loss=loss, request=self._privacy, users=users, noise=self._source)
        counter.absorb(total)
        answer = Answer(counter.release(), replace(counter.mechanism(), query=query))
        self._answers.append(answer)
        return answer

    def guarantee(self) -> Guarantee:
        """For everything that was answered, read together."""
        users = self._answers[0].released.guarantee.users
        if isinstance(self._privacy, NoPrivacy):
            return no_guarantee(users)
        losses = [answer.released.guarantee.loss for answer in self._answers]
        together = compose(losses, delta=self._privacy.delta)
        return Guarantee(together, self._privacy, Trust.CENTRAL, users, self._source.name)

    def certificate(self, subject: str) -> Certificate:
        mechanisms = [answer.mechanism for answer in self._answers]
        return certify(self.guarantee(), mechanisms, subject=subject, assumptions=said(self._logs, self._privacy))


def said(logs: Logs, privacy: Request) -> list[str]:
    """What a certificate assumes on top of the standing assumptions."""
    ids = "Users' ids, their order and the files they stand in are public; a user who contributes nothing keeps its place."
    public = [] if isinstance(privacy, NoPrivacy) else ["The number of users in the log is public.", ids]
    return [*logs.assumptions, *public]
