"""What all estimators share: requests, charging a ledger, and checks before anything is charged."""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol, TypeVar

import numpy as np

from confide._digest import digest
from confide.errors import CHARGED, ConfideWarning, InvalidParameter
from confide.evaluation.estimate import ValueEstimate
from confide.evaluation.log_sums import Logs, Progress
from confide.evaluation.parameters import described
from confide.mechanisms.sources import FastSource, NoiseSource, SecureSource, noise_source
from confide.privacy.ledger import Ledger
from confide.privacy.loss import NO_PRIVACY, Loss, loss_for
from confide.privacy.request import CentralDP, NoPrivacy, Relation, Request


class Published(Protocol):
    """What is released: a ledger stores it, and hands it out again."""

    def to_bytes(self) -> bytes: ...


Made = TypeVar("Made", bound=Published)


class Estimator(ABC):
    """An estimator holds public parameters only; the log is touched by `release`, and after the ledger has agreed."""

    __slots__ = ()
    lattice: ClassVar[bool] = True  # whether its secure noise is on a lattice, as OpenDP draws it

    @property
    def about(self) -> str:
        """What its intervals hold with the probability that they state."""
        return "the true value"

    def __repr__(self) -> str:
        return described(self)

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
        """Release the estimate and charge the ledger once: the same release of the same log is returned from the ledger at no cost.

        `rng` seeds fast noise, for simulation; `noise` is a source; with neither, noise is secure. A new `id` makes a new release. Fast
        noise is drawn from the seed and from what is released: the same seed in two releases must not cancel the noise.
        """
        check_request(privacy)
        check_call(logs, ledger, progress, id)
        source = source_of(
            rng,
            noise,
            privacy,
            asked=asked_for(self, logs, privacy, ledger, id),
            lattice=self.lattice,
        )
        make = self._prepare(logs, privacy, source, progress, charged=ledger is not None)
        made = publish(
            self,
            logs,
            make,
            ValueEstimate.from_bytes,
            privacy=privacy,
            loss=self.loss(privacy),
            ledger=ledger,
            id=id,
        )
        for said in self.warnings(made):
            warnings.warn(said, stacklevel=2)
        return made

    def warnings(self, estimate: ValueEstimate) -> list[ConfideWarning]:  # noqa: ARG002 - by default there are none
        """Warnings about an estimate, as functions of what was released."""
        return []

    def loss(self, privacy: Request) -> Loss:
        """What a release is charged to a ledger: known before the log is touched."""
        return NO_PRIVACY if isinstance(privacy, NoPrivacy) else loss_for(privacy)

    @abstractmethod
    def counted(self, trajectories: int, steps: int) -> str:
        """What counts of a log with these caps, and what is clipped, in words: all of it public."""

    @abstractmethod
    def _prepare(
        self,
        logs: Logs,
        privacy: Request,
        source: NoiseSource,
        progress: Progress | None,
        *,
        charged: bool,
    ) -> Callable[[], ValueEstimate]:
        """Refuse whatever can be refused without the data; what is returned reads them. `charged`: to a ledger, see `LogSums`."""


def source_of(
    rng: np.random.Generator | None,
    noise: NoiseSource | None,
    privacy: Request,
    *,
    asked: str = "",
    lattice: bool = True,
) -> NoiseSource:
    """`rng` seeds fast noise, `noise` is a source; with neither, secure noise. `asked` names the release, for fast noise of its own."""
    if rng is not None and noise is not None:
        raise InvalidParameter(
            "give rng (fast noise, for simulation) or noise (a source), not both"
        )
    if not isinstance(rng, np.random.Generator | None):
        raise InvalidParameter(
            f"rng must be a NumPy generator, as np.random.default_rng(0) is, got {type(rng).__name__}"
        )
    if noise is not None and not all(
        hasattr(noise, part) for part in ("name", "discrete", "gaussian", "laplace")
    ):
        raise InvalidParameter(
            f'noise must be a source, as noise_source("secure") is, got {type(noise).__name__}'
        )
    if rng is not None:
        noise = FastSource(rng)
    if isinstance(noise, FastSource):
        return noise.for_release(asked)
    if noise is not None:
        return noise
    return noise_source("fast") if isinstance(privacy, NoPrivacy) else SecureSource(lattice=lattice)


def publish(
    estimator: Any,
    logs: Logs,
    make: Callable[[], Made],
    read: Callable[[bytes], Made],
    *,
    privacy: Request,
    loss: Loss,
    ledger: Ledger | None,
    id: str | None,
) -> Made:
    """Make the estimate, through the ledger if there is one: too little left is refused before the log is touched.

    The charge is on the disk before the data are read, and the estimate before it is returned; after a crash the same call goes on and
    pays nothing, and an error carries a note that says so. The id is made of the question (estimator, its public parameters, the promise,
    the log's files, columns and caps): asked again, the ledger hands out the answer it has, and `read` makes it of its bytes. With another
    `id` the same question is another one, as after the log has grown; no id makes one question of two.
    """
    if ledger is None or isinstance(privacy, NoPrivacy):
        return make()
    name = type(estimator).__name__
    asked = release_id(estimator, privacy, [*logs.assumptions, getattr(logs, "identity", "")])
    # the ledger refuses an id that stands for another question
    what = f"{name}, {privacy}, question {asked[-8:]}"

    def release() -> bytes:
        try:
            return make().to_bytes()
        except BaseException as error:
            error.add_note(CHARGED)
            raise

    # of a split log: other people's part costs these people nothing
    part = getattr(logs, "part", None)
    return read(
        ledger.spend(
            id or asked, what, loss, Relation(privacy.relation), release=release, part=part
        )
    )


def asked_for(
    estimator: Any, logs: Logs, privacy: Request, ledger: Ledger | None, id: str | None
) -> str:
    """What fast noise is mixed with; where a ledger is charged, for this log alone."""
    which = [] if ledger is None else [*logs.assumptions, getattr(logs, "identity", "")]
    return release_id(estimator, privacy, [*which, id or ""])


def release_id(estimator: Any, privacy: Request, log: Sequence[str]) -> str:
    """A name for one release of one log, from public things alone."""
    return f"{type(estimator).__name__}-{digest((estimator, privacy, list(log)))}"


def check_request(privacy: Request) -> None:
    """A log is evaluated by its data holder: central privacy, or none."""
    if not isinstance(privacy, CentralDP | NoPrivacy):
        raise InvalidParameter(
            f"a log is evaluated under CentralDP or NoPrivacy, got {type(privacy).__name__}"
        )


def check_call(
    logs: Logs,
    ledger: Ledger | None = None,
    progress: Progress | None = None,
    id: str | None = None,
) -> None:
    """Arguments of the wrong type would be found out after the charge."""
    if not hasattr(logs, "assumptions"):
        raise InvalidParameter(
            f"logs must be a log, as confide.logs.open(path) or in_memory(users) is, got {type(logs).__name__}"
        )
    if not isinstance(ledger, Ledger | None):
        raise InvalidParameter(
            f"ledger must be a Ledger, as confide.Ledger(path) is, got {type(ledger).__name__}"
        )
    if not (progress is None or callable(progress)):
        raise InvalidParameter(
            f"progress must be a function of the parts done and of all parts, got {type(progress).__name__}"
        )
    if not isinstance(id, str | None):
        raise InvalidParameter(f"id must be text, got {type(id).__name__}")
