"""A ledger is charged once for a question to a log.

Asked again, it hands out the answer that it has.
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
    """What is released: a ledger stores it, and hands it out again."""

    def to_bytes(self) -> bytes: ...


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
    """Make the answer, through the ledger if there is one: too little left is refused before the
    log is touched.

    The charge is on the disk before the data are read, and the answer before it is returned. After
    a crash the same call goes on and pays nothing, and an error carries a note that says so. The id
    is made of the question (its public parameters, the request, the log's files, columns and caps).
    Asked again, the ledger hands out the answer that it has, and `read` makes it of its bytes. With
    another `id` the same question is another one, as after the log has grown; no id makes one
    question of two.
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

    # Of a split log: other people's part costs these people nothing.
    part = getattr(logs, "part", None)
    stored = ledger.spend(
        id or release_name, what, loss, Relation(privacy.relation), release=release, part=part
    )
    return read(stored)


def release_id(question: Identity, privacy: Request, log: Sequence[Assumption | str]) -> str:
    """A name for one release of one log, from public things alone."""
    return f"{question.kind}-{identify(question, privacy, list(log))}"
