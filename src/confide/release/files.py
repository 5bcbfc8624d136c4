"""One release of a log in files, as an analyst asks for it on the command line.

It says what is checked before the charge, and how a release goes on after a crash. What leaves this
file is the id in a ledger (`FileRelease.id`): if it were made of other things, a release that
crashed would be charged again. Messages may be changed freely.
"""

import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic

from confide._durable import output
from confide.arguments import regular_file
from confide.errors import (
    BudgetExceeded,
    ConfideWarning,
    InvalidParameter,
    LogError,
    StateError,
)
from confide.identity import identify
from confide.logs import Logs
from confide.logs import open as open_logs
from confide.privacy.accounting import gaussian_epsilon
from confide.privacy.ledger import Account, Ledger, Spend
from confide.privacy.loss import GaussianDP
from confide.privacy.request import Request
from confide.release.charge import Answer, release_id
from confide.release.noise import ChosenNoise
from confide.release.question import LogQuestion, release
from confide.release.sums import Progress


@dataclass(frozen=True, slots=True)
class FileRelease(Generic[Answer]):
    """What is asked of which files, and who is charged. All fields but the ledger are public."""

    question: LogQuestion[Answer]
    privacy: Request
    noise: ChosenNoise
    files: list[str]
    # Columns and caps, as `confide.logs.open` takes them.
    layout: dict[str, Any]
    ledger: Ledger | None = None
    # A name from the analyst. A new name makes a new release.
    name: str | None = None
    # The share of people that are not used, and the key that chooses them.
    holdout: tuple[float, str] | None = None

    @property
    def id(self) -> str:
        """The id in a ledger.

        Other files, columns or caps make another release; changes of the files' contents are not
        detected.
        """
        paths = [os.path.realpath(path) for path in self.files]
        where = [
            *paths,
            identify(self.layout),
            self.noise.name,
            *map(str, self.holdout or ()),
        ]
        release_name = release_id(self.question.identity(), self.privacy, where)
        # A name never stands for two releases.
        return f"{self.name} {release_name}" if self.name else release_name

    def spend(self) -> Spend | None:
        """The line in the ledger, if this release was charged already."""
        if self.ledger is None:
            return None
        return next((spend for spend in self.ledger.spends if spend.id == self.id), None)

    def check_budget(self, subject: str) -> None:
        """Refuse what the ledger does not cover, and state what it would cover."""
        if self.ledger is None:
            return
        account = self.ledger.account
        loss = self.question.loss(self.privacy)
        try:
            account.admit(loss)
        except BudgetExceeded:
            left = account.left
            if isinstance(loss, GaussianDP):
                largest = largest_request(account, self.privacy.delta)
                left += f"; {largest} is the largest request that fits"
            raise BudgetExceeded(f"{self.privacy} for {subject}", left) from None

    @contextmanager
    def folder(self, out: Path | None, *, again: bool) -> Iterator[None]:
        """A folder that can be written to and contains no other result, unless this release was
        charged before (`again`).
        """
        if out is None:
            yield
            return
        with output(out):
            if not again and self._answer_in(out) is not None:
                noun = self.question.noun
                article = "an" if noun[0] in "aeiou" else "a"
                raise InvalidParameter(
                    f"{out} already contains {article} {noun}: choose another folder"
                )
            yield

    def check_folder(self, out: Path | None, answer: Answer) -> None:
        """Refuse a folder that contains the answer to another question."""
        stored = None if out is None else self._answer_in(out)
        if stored is not None and stored != answer.to_bytes():
            raise InvalidParameter(
                f"{out} contains another {self.question.noun}: choose another folder"
            )

    def _answer_in(self, out: Path) -> bytes | None:
        """The bytes of the answer in a folder, or None.

        An answer that was cut off when it was written does not count.
        """
        try:
            data = regular_file(out / f"{self.question.noun}.npz").read_bytes()
            return self.question.read_answer(data).to_bytes()
        except (OSError, StateError):
            return None

    def open(self) -> tuple[Logs, Logs | None]:
        """The log, or the parts of it that are released first and held out."""
        logs = open_logs(self.files, **self.layout)
        if not logs.parts:
            raise LogError("the log is empty: it has no rows")
        states = getattr(self.question, "states", None)
        labelled = len(logs.labels.state)
        # Labels are public.
        if states is not None and labelled > states:
            raise InvalidParameter(
                f"the log declares {labelled:,} states, and --states {states:,} leaves some out: "
                f"say --states {labelled}"
            )
        if self.holdout is None:
            return logs, None
        share, key = self.holdout
        return logs.split(share, key=key)

    def answer(self, logs: Logs, progress: Progress | None) -> Answer:
        """Charge the ledger, read the log, and release the answer, or take the one of the ledger.

        Warnings are left out: they are functions of the answer, and are due for a stored one, too.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConfideWarning)
            return release(
                self.question,
                logs,
                privacy=self.privacy,
                budget=self.ledger,
                noise=self.noise.source(),
                progress=progress,
                id=self.id if self.ledger else None,
            )


def largest_request(account: Account, delta: float) -> str:
    """What one more release with Gaussian noise may ask for, rounded down."""
    epsilon = math.floor(1000 * gaussian_epsilon(account.remaining.mu, delta)) / 1000
    return f"epsilon={epsilon:g} at delta={delta:g}"
