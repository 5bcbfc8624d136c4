"""One release of a log: a question is asked once, charged once, and answered with noise.

An estimator is a question, and so is a model. What is the same for all of them stands here. A
question says what it sums up over users, and what it makes of the noisy sums.

- What leaves this file: a release with its charge in a ledger. Its id is made of `identity`.
- What may not be changed: the order in `release`. All that can be refused without the data is
  refused first, then the ledger is charged, and only then is the log read.
- What a new question may do freely: everything in `answer` after `sums.release`, because it is
  post-processing. Before that it may use the log only through `sums`.
"""

import warnings
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic

import numpy as np

from confide.arguments import kind
from confide.errors import ConfideWarning, InvalidParameter
from confide.identity import Identity
from confide.mechanisms.sources import NoiseSource
from confide.privacy.ledger import Ledger
from confide.privacy.loss import NO_PRIVACY, Loss, loss_for
from confide.privacy.request import CentralDP, NoPrivacy, Request
from confide.privatizers import Share
from confide.release.charge import Answer, answer_once, release_id
from confide.release.noise import given_source, source_for
from confide.release.parameters import described
from confide.release.sums import LogSource, LogSums, Progress


class LogQuestion(ABC, Generic[Answer]):
    """What is asked of a log. Its parameters are public, and they name the release in a ledger.

    The log is read by `answer` alone, after the ledger has agreed.
    """

    __slots__ = ()
    # What an answer is called in messages. It is also the name of its file.
    noun: ClassVar[str] = "answer"
    # Whether secure noise is on a lattice, as OpenDP draws it.
    lattice: ClassVar[bool] = True
    # Whether noise is Gaussian at delta > 0 also without a ledger, where pure noise may be smaller.
    gaussian: ClassVar[bool] = False

    def __repr__(self) -> str:
        return described(self)

    @abstractmethod
    def queries(self, logs: LogSource, privacy: Request) -> Sequence[Share]:
        """The sums over users that will be released, in their order, each on its share of the
        budget.

        Whatever can be refused without the data is refused here.
        """

    @abstractmethod
    def answer(self, sums: LogSums) -> Answer:
        """Read the log through `sums`, which adds the noise, and make the answer."""

    @abstractmethod
    def read_answer(self, data: bytes) -> Answer:
        """An answer that a ledger has stored."""

    @abstractmethod
    def counted(self, trajectories: int, steps: int) -> str:
        """What counts of a log with these caps, and what is clipped, in words: all of it public."""

    def loss(self, privacy: Request) -> Loss:
        """What a release is charged to a ledger: known before the log is touched."""
        return NO_PRIVACY if isinstance(privacy, NoPrivacy) else loss_for(privacy)

    def warnings(self, answer: Answer) -> list[ConfideWarning]:  # noqa: ARG002
        """Warnings about an answer, as functions of what was released: by default none."""
        return []

    @abstractmethod
    def identity(self) -> Identity:
        """What is asked, by its public parameters: it names the release in a ledger."""

    def release(
        self,
        logs: LogSource,
        *,
        privacy: Request,
        ledger: Ledger | None = None,
        rng: np.random.Generator | None = None,
        noise: NoiseSource | None = None,
        progress: Progress | None = None,
        id: str | None = None,
    ) -> Answer:
        """Ask this question of a log. See `confide.release.release`.

        `rng` seeds fast noise, for simulation; `noise` is a source; with neither, noise is secure.
        """
        source = given_source(rng, noise)
        return release(
            self, logs, privacy=privacy, budget=ledger, noise=source, progress=progress, id=id
        )


def release(
    question: LogQuestion[Answer],
    logs: LogSource,
    *,
    privacy: Request,
    budget: Ledger | None = None,
    noise: NoiseSource | None = None,
    progress: Progress | None = None,
    id: str | None = None,
) -> Answer:
    """Release the answer and charge the budget once.

    The same question to the same log is answered from the ledger at no cost. Without `noise` the
    noise is secure. A new `id` makes a new release. Fast noise is drawn from the seed
    and from what is released, because the same seed in two releases must not cancel the noise.
    """
    kind("question", question, LogQuestion)
    check_request(privacy)
    check_call(logs, budget, progress, id)
    # Fast noise is mixed with this name. Where a ledger is charged, the name is for this log alone.
    log_names = [] if budget is None else [*logs.assumptions, getattr(logs, "identity", "")]
    release_name = release_id(question.identity(), privacy, [*log_names, id or ""])
    source = source_for(noise, privacy, release_name=release_name, lattice=question.lattice)
    queries = question.queries(logs, privacy)
    loss = question.loss(privacy)
    # A ledger adds up what this release and others lose. Losses of Gaussian noise add up as roots
    # of squares. The least noise for one release may be pure, and epsilons just add up.
    gaussian = privacy.delta > 0 and (budget is not None or question.gaussian)
    sums = LogSums(
        logs,
        queries,
        privacy=privacy,
        source=source,
        progress=progress,
        loss=loss if gaussian else None,
    )
    answer = answer_once(
        question.identity(),
        logs,
        make=lambda: question.answer(sums),
        read=question.read_answer,
        privacy=privacy,
        loss=loss,
        ledger=budget,
        id=id,
    )
    for warning in question.warnings(answer):
        warnings.warn(warning, stacklevel=3)
    return answer


def check_request(privacy: Request) -> None:
    """Refuse a request that a log cannot satisfy: its curator has the raw data of all users."""
    if not isinstance(privacy, CentralDP | NoPrivacy):
        raise InvalidParameter(
            f"a log is evaluated under CentralDP or NoPrivacy, got {type(privacy).__name__}"
        )


def check_call(
    logs: LogSource,
    ledger: Ledger | None = None,
    progress: Progress | None = None,
    id: str | None = None,
) -> None:
    """Refuse arguments of the wrong type now: otherwise they would fail after the charge."""
    if not hasattr(logs, "assumptions"):
        raise InvalidParameter.of(
            "logs",
            "must be a log, as confide.logs.open(path) or in_memory(users) is, got "
            f"{type(logs).__name__}",
        )
    if not isinstance(ledger, Ledger | None):
        raise InvalidParameter.of(
            "ledger", f"must be a Ledger, as confide.Ledger(path) is, got {type(ledger).__name__}"
        )
    if not (progress is None or callable(progress)):
        raise InvalidParameter.of(
            "progress",
            f"must be a function of the parts done and of all parts, got {type(progress).__name__}",
        )
    if not isinstance(id, str | None):
        raise InvalidParameter.of("id", f"must be text, got {type(id).__name__}")
