"""A ledger is charged once for a question to a log.

If the same question is asked again, the ledger hands out the answer that it has.

- What leaves this file: the id of a release in a ledger, and the line that the ledger shows.
- What may not be changed: of what the id is made, because ledgers that exist would charge the same
  question again; and the order of charge, data and answer, because a crash between them must never
  give data without a charge.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from confide.errors import CHARGED
from confide.identity import Identity, identify
from confide.privacy.assumption import Assumption
from confide.privacy.ledger import Ledger
from confide.privacy.loss import Loss
from confide.privacy.request import NoPrivacy, Relation, Request
from confide.release.sums import LogSource


class Published(Protocol):
    """What is released. A ledger stores it, and hands it out again."""

    def to_bytes(self) -> bytes:
        """Everything that is released, as `read` of `answer_once` takes it."""


Answer = TypeVar("Answer", bound=Published)


def answer_once(
    question: Identity,
    logs: LogSource,
    *,
    make: Callable[[], Answer],
    read: Callable[[bytes], Answer],
    privacy: Request,
    loss: Loss,
    ledger: Ledger | None,
    id: str | None,
) -> Answer:
    """Make the answer, through the ledger if there is one.

    If too little of the budget is left, the ledger refuses before the log is touched. The charge is
    on the disk before the data are read, and the answer before it is returned. After a crash the
    same call goes on and pays nothing, and an error carries a note that says so.

    The id is made of the question: its public parameters, the request, and the log's files, columns
    and caps. If it is asked again, the ledger hands out the answer that it has, and `read` makes it
    of its bytes. With another `id` the same question is another one, as after the log has grown. No
    `id` makes one question of two, because the ledger compares what was asked as well.
    """
    if ledger is None or isinstance(privacy, NoPrivacy):
        return make()
    name = question.kind
    release_name = release_id(question, privacy, [*logs.assumptions, getattr(logs, "identity", "")])
    # The ledger refuses an id that stands for another question. It compares this line, so the line
    # is made of values.
    asked_for = f"{privacy.kind}(epsilon={privacy.epsilon:g}, delta={privacy.delta:g})"
    what = f"{name}, {asked_for}, question {release_name[-8:]}"

    def release() -> bytes:
        try:
            return make().to_bytes()
        except BaseException as error:
            error.add_note(CHARGED)
            raise

    # If the log is a part of a split log, the other part has other people, and costs these nothing.
    part = getattr(logs, "part", None)
    stored = ledger.spend(
        id or release_name, what, loss, Relation(privacy.relation), release=release, part=part
    )
    return read(stored)


def release_id(question: Identity, privacy: Request, log: Sequence[Assumption | str]) -> str:
    """A name for one release of one log, from public things alone."""
    return f"{question.kind}-{identify(question, privacy, list(log))}"
