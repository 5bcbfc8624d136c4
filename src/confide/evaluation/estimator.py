"""What all estimators share: what they ask of a log, how they pay, and the warning about a delta that promises nothing."""

import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

import numpy as np

from confide._digest import digest
from confide.errors import InvalidParameter
from confide.evaluation.estimate import ValueEstimate
from confide.mechanisms.additive import additive_noise
from confide.mechanisms.counters import Counter, Exact
from confide.mechanisms.sources import FastSource, NoiseSource, noise_source
from confide.privacy.bounded import Bound, Bounded, Released
from confide.privacy.certificate import Mechanism
from confide.privacy.ledger import Ledger
from confide.privacy.loss import NO_PRIVACY, Loss, loss_for
from confide.privacy.request import CentralDP, NoPrivacy, Relation, Request
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


class Estimator(Protocol):
    """An estimator holds public parameters only; the log is touched by `release`, once, and after the ledger has agreed."""

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
    ) -> ValueEstimate: ...


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


def source_of(
    rng: np.random.Generator | None, noise: NoiseSource | None, privacy: Request, *, continuous: bool = False
) -> NoiseSource:
    """`rng` seeds fast noise, `noise` is a source; with neither, secure noise (fast where only noise on the reals will do)."""
    if rng is not None and noise is not None:
        raise InvalidParameter("give rng (fast noise, for simulation) or noise (a source), not both")
    if noise is not None:
        return noise
    if rng is not None:
        return FastSource(rng)
    return noise_source("fast") if continuous or isinstance(privacy, NoPrivacy) else noise_source("secure")


def publish(
    estimator: Any,
    logs: Logs,
    make: Callable[[], ValueEstimate],
    *,
    privacy: Request,
    loss: Loss,
    ledger: Ledger | None,
    id: str | None,
) -> ValueEstimate:
    """Make the estimate, through the ledger if there is one: too little left is refused before the log is touched.

    The charge is on the disk before the data are read, and the estimate before it is returned; after a crash the same call goes on and
    pays nothing. The id is made of the question (estimator, its public parameters, the promise, the log's files, columns and caps): asked
    again, the ledger hands out the answer it has. With another `id` the same question is another one, as after the log has grown; no id
    makes one question of two.
    """
    if ledger is None or isinstance(privacy, NoPrivacy):
        return make()
    name = type(estimator).__name__
    asked = question(estimator, privacy, [*logs.assumptions, getattr(logs, "identity", "")])
    what = f"{name}, {privacy}, question {asked[-8:]}"  # the ledger refuses an id that stands for another question
    stored = ledger.spend(
        id or asked,
        what,
        loss,
        Relation(privacy.relation),
        release=lambda: make().to_bytes(),
    )
    return ValueEstimate.from_bytes(stored)


def question(estimator: Any, privacy: Request, log: Sequence[str]) -> str:
    """A name for one question to one log, from public things alone."""
    return f"{type(estimator).__name__}-{digest((estimator, privacy, list(log)))}"


def check_request(privacy: Request) -> None:
    """Whoever evaluates a log holds it: central privacy, or none."""
    if not isinstance(privacy, CentralDP | NoPrivacy):
        raise InvalidParameter(f"a log is evaluated under CentralDP or NoPrivacy, got {type(privacy).__name__}")


def check_noise(bound: Bound, privacy: Request, source: NoiseSource) -> None:
    """Raise now, before anything is paid or read, where this noise cannot be drawn for this bound."""
    loss = NO_PRIVACY if isinstance(privacy, NoPrivacy) else loss_for(privacy)
    additive_noise(bound, loss, Relation(privacy.relation), Exact(1), discrete=source.discrete, users=1)


def noised(total: Bounded, privacy: Request, source: NoiseSource) -> tuple[Released, Mechanism]:
    """One sum over users, noised once, as in `release_once`, with what a certificate says of it."""
    loss = NO_PRIVACY if isinstance(privacy, NoPrivacy) else loss_for(privacy)
    counter = Counter(total.bound, Exact(1), loss=loss, request=privacy, users=max(total.users, 1), noise=source)
    counter.absorb(total)
    return counter.release(), counter.mechanism()


def said(logs: Logs, privacy: Request) -> list[str]:
    """What a certificate assumes on top of the standing assumptions."""
    ids = "Users' ids, their order and the files they stand in are public; a user who contributes nothing keeps its place."
    public = [] if isinstance(privacy, NoPrivacy) else ["The number of users in the log is public.", ids]
    return [*logs.assumptions, *public]
