"""Two questions to one log on one budget: first the estimate, then how far sampling may have moved it."""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from confide.errors import InvalidParameter
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.estimator import (
    Logs,
    Progress,
    Statistic,
    check_noise,
    check_request,
    delta_warning,
    publish,
    said,
    source_of,
)
from confide.mechanisms.counters import Counter, Exact
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Array, Bound, Released
from confide.privacy.certificate import Certificate, Mechanism, certify
from confide.privacy.guarantee import Guarantee, no_guarantee
from confide.privacy.ledger import Ledger
from confide.privacy.loss import NO_PRIVACY, GaussianDP, Loss, PureDP, compose, loss_for
from confide.privacy.request import NoPrivacy, Request, Trust


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
        loss = part_of(loss_for(self._privacy), share) if not isinstance(self._privacy, NoPrivacy) else NO_PRIVACY
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


def part_of(loss: Loss, share: float) -> Loss:
    """The loss of a mechanism that may use this share of the budget: shares add up to the loss."""
    match loss:
        case GaussianDP(mu):
            return GaussianDP(mu * math.sqrt(share))
        case PureDP(epsilon):
            return PureDP(epsilon * share)
    raise InvalidParameter("only Gaussian and pure losses are divided")


@dataclass(frozen=True, slots=True)
class Returns:
    """The public range of returns, centre +- radius: from `return_bound`, [0, return_bound] unless a centre is given."""

    centre: float
    radius: float


def returns_within(discount: float, return_bound: float, centre: float | None, interval_share: float) -> Returns:
    """Checks the public parameters that all estimators with two questions have."""
    if not 0 <= discount <= 1:
        raise InvalidParameter(f"discount must be in [0, 1], got discount={discount}")
    if not 1e-50 < return_bound < 1e50:
        raise InvalidParameter(f"return_bound must be positive and finite, got return_bound={return_bound}")
    if not (centre is None or abs(centre) < 1e50):
        raise InvalidParameter(f"centre must be finite, got centre={centre}")
    if not 0 <= interval_share <= 0.9:
        raise InvalidParameter(f"interval_share must be in [0, 0.9], got interval_share={interval_share}")
    return Returns(return_bound / 2 if centre is None else float(centre), return_bound / 2)


Questions = tuple[Sequence[Bound], Callable[[Asker], ValueEstimate]]


class AsksTwice(ABC):
    """An estimator that asks the log once for the estimate and once for how far sampling may have moved it: charged once, for both."""

    __slots__ = ()
    discount: float
    return_bound: float
    centre: float | None
    interval_share: float

    @property
    def _returns(self) -> Returns:
        return returns_within(self.discount, self.return_bound, self.centre, self.interval_share)

    @abstractmethod
    def _questions(self, logs: Logs, privacy: Request) -> Questions:
        """The bounds of what will be asked, and the asking; whatever can be refused without the data is refused here."""

    def release(
        self,
        logs: Logs,
        *,
        privacy: Request,
        ledger: Ledger | None = None,
        rng: np.random.Generator | None = None,
        noise: NoiseSource | None = None,
        progress: Progress | None = None,
        id: str | None = None,
    ) -> ValueEstimate:
        """As of every estimator: the ledger is charged, the log is read, the answer is stored."""
        check_request(privacy)
        bounds, estimate = self._questions(logs, privacy)
        source = source_of(rng, noise, privacy)
        for bound in bounds:
            check_noise(bound, privacy, source)
        loss = NO_PRIVACY if isinstance(privacy, NoPrivacy) else loss_for(privacy)

        def make() -> ValueEstimate:
            return estimate(Asker(logs, privacy=privacy, source=source, progress=progress))

        return publish(self, logs, make, privacy=privacy, loss=loss, ledger=ledger, id=id)
