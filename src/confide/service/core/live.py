"""One run in memory: its learner, what of it is public, and the open sum. All of it can be thrown away and read again from the store."""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter, StateError, StreamExhausted
from confide.learning.algorithm import Round
from confide.learning.learner import Learner
from confide.mechanisms.sources import noise_source
from confide.privacy.loss import GaussianDP, PureDP
from confide.privacy.request import Relation
from confide.privatizers import Message
from confide.service.core.round_document import round_document, shapes
from confide.service.core.spec import ServiceRunSpec, parse_spec
from confide.service.documents import ReleaseRow, SigningKey, Statement, digest
from confide.service.store.interface import OpenSum, RoundConflict, RunRow, SavedState, ServiceStore
from confide.service.store.keys import KeyFolder
from confide.service.store.marks import Marks, RolledBack, check_mark
from confide.trajectory import collect

Ints = npt.NDArray[np.int64]
Shapes = tuple[int, tuple[int, ...], tuple[int, ...]]
_TRIES = 5  # to read a run that other workers write


@dataclass(frozen=True, slots=True)
class Signed:
    """A public document, its digest and its signature."""

    body: bytes = field(repr=False)
    digest: str
    signature: bytes
    key: str


class LiveRun:
    """PRIVATE, but for `manifest`, `certificate`, `release` and `round`.

    A run is made without its round, which may take long to plan. Until it is `planned`, nobody can
    report to it, and its batch is not closed. A round is a pure function of releases, so it may be
    planned in any thread, but by one at a time.
    """

    def __init__(
        self, row: RunRow, state: SavedState, release: ReleaseRow, total: OpenSum, keys: KeyFolder
    ) -> None:
        self.name, self.spec, self.status = row.name, parse_spec(row.spec), row.status
        self.manifest = Signed(row.manifest, digest(row.manifest), row.signature, row.key)
        self.certificate, self.release = row.certificate, release
        self.pseudonyms = keys.pseudonyms(row.name)
        self.learner = made_learner(self.spec)
        self.learner.restore(state.data, released=row.generation)
        if (
            self.learner.released().generation != row.generation
            or total.generation != row.generation
        ):
            raise StateError(f"run {row.name}: state, sum and release are of different generations")
        self._shapes: Shapes | None = None
        self.episode_size = 0  # numbers in a report, at most; known once the first round is planned
        self.planned = False
        self.size = 0  # of the open batch
        self.coordinates = 0  # of a contribution
        self.users = total.users
        self._sum_bytes = len(total.total)
        self.round: Signed | None = None
        # what `round` says, with its generation: read by other threads
        self.served: tuple[int, Round] | None = None
        self.cost, self.cap = cost_of(self.learner), self.spec.cap

    @property
    def generation(self) -> int:
        return self.release.generation

    @property
    def full(self) -> bool:
        """The batch is closed by this, whatever the time is; never under `deadline`."""
        return self.spec.batch.rule == "count" and 0 < self.size <= self.users

    def due(self, now: float) -> bool:
        return (
            self.planned
            and self.status == "open"
            and (self.full or now >= self.spec.batch.deadline(self.generation))
        )

    def at_once(self, workers: int, most: int) -> int:
        """How many users a transaction may add while others add some, too, so that all of them together are covered by the guarantee; 0:
        each must be alone. The batch takes nobody any more when it is seen to be full; the other workers' transactions may come on top."""
        if workers == 1 or self.spec.batch.rule == "deadline":
            return most
        left = self.learner.episodes - self.learner.users - self.size
        return min(most, left // (workers - 1))

    def _nothing(self) -> Ints:
        return np.zeros(self.learner.coordinates, dtype=np.int64)

    def decoded(self, content: Any, generation: int) -> Ints | None:
        """What a device's message adds to the sum, or None if it is never added.

        A trajectory is looked at later. A message of another release cannot be decoded any more, so
        only its form is checked. What is no message is refused, whoever sent it.
        """
        if self.spec.trust == "joint":
            return None
        message = Message.from_bytes(content)
        if message.generation != generation:
            raise InvalidParameter("the report names another release than its message")
        if generation != self.generation or self.size == 0:
            return None
        return self.learner.decoded(message)

    def is_another_round(self, generation: int, answered: bytes | None) -> bool:
        """Whether a report names another round than the one that this process has planned from the same release."""
        if answered is None or generation != self.generation or self.size == 0:
            return False
        return answered != self.learner.current_round().digest

    def contribution(self, episodes: Sequence[Any]) -> Ints:
        """The sum of what these users contribute. What makes no sense contributes zero, and nothing that is seen depends on it."""
        assert self._shapes is not None, "nobody reports to a run that is not planned"
        horizon, state, action = self._shapes
        try:
            with np.errstate(all="ignore"):
                users = collect(episodes, horizon, state_shape=state, action_shape=action)
                return self.learner.contribution(users).steps
        except Exception:  # one user's data must not decide about others: each alone
            return (
                self._nothing()
                if len(episodes) == 1
                else sum((self.contribution([each]) for each in episodes), self._nothing())
            )

    def draw(self, key: SigningKey, total: OpenSum) -> tuple[ReleaseRow, bytes]:
        """Close the learner's batch: noise is drawn, and neither the release nor the state after it has left this process."""
        users = self.size if self.spec.batch.rule == "deadline" else total.users
        summed = (
            np.frombuffer(total.total, dtype="<i8").astype(np.int64)
            if total.total
            else self._nothing()
        )
        self.learner.close(summed, users)
        body, generation = self.learner.publish(self.name), self.learner.released().generation
        return signed_release(
            self, body, users, generation, self.release.digest, key
        ), self.learner.save()

    def follow(self, release: ReleaseRow) -> None:
        """The release is durable: show it. The round after it is planned later."""
        self.planned = False
        self.release = release
        self.round = None
        self.served = None
        self.size = 0
        self.users = 0
        self._sum_bytes = 0

    @property
    def exhausted(self) -> bool:
        """Asked after `draw`: no release is left, or no user."""
        return self.learner.is_exhausted

    def plan(self, key: SigningKey, store: ServiceStore) -> None:
        """Plan the open round, and all that depends on it. After the last release there is none.

        Until the store has confirmed the round, it is not shown and nobody can report.
        """
        with contextlib.suppress(StreamExhausted):
            self._plan_round(key, store)
        self.planned = True

    def check_round(self, store: ServiceStore) -> None:
        """Plan the open round, and refuse it if another process has planned a different one. Nothing is stored."""
        with contextlib.suppress(StreamExhausted):
            planned = self.learner.current_round().digest
            if self.status != "finished" and store.round_digest(self.name, self.generation) not in (
                None,
                planned,
            ):
                raise RoundConflict(self.name, self.generation)

    def _plan_round(self, key: SigningKey, store: ServiceStore) -> None:
        planned = self.learner.current_round()
        if self._shapes is None:
            self._shapes = shapes(self.learner, self.spec.world().public)
            self.episode_size = _episode_size(*self._shapes)
        self.coordinates = self.learner.coordinates
        if self._sum_bytes not in (0, 8 * self.coordinates):
            raise StateError(f"run {self.name}: the open sum has another size than a contribution")
        if self.status == "finished":
            # Its reports are refused whatever they answer, so it needs no round.
            return
        settled = store.round_digest(self.name, self.generation)
        if settled is None:
            with store.transaction() as tx:
                settled = tx.settle_round(self.name, self.generation, planned.digest)
        if settled != planned.digest:
            raise RoundConflict(self.name, self.generation)
        self.size = self.learner.batch_size
        body = round_document(self.name, self.learner)
        statement = Statement(
            "round",
            self.name,
            self.manifest.digest,
            self.generation,
            digest(body),
            self.release.digest,
        )
        self.round = Signed(body, statement.digest, key.sign(statement.to_bytes()), key.id)
        self.served = self.generation, planned


def _episode_size(horizon: int, state: tuple[int, ...], action: tuple[int, ...]) -> int:
    """How many numbers a report may hold at most: public."""
    return (horizon + 1) * (math.prod(state) + math.prod(action) + 1)


def signed_release(
    run: Any, body: bytes, users: int, generation: int, previous: str, key: SigningKey
) -> ReleaseRow:
    statement = Statement(
        "release", run.name, run.manifest.digest, generation, digest(body), previous
    )
    return ReleaseRow(
        run.name,
        generation,
        body,
        users,
        previous,
        statement.digest,
        key.sign(statement.to_bytes()),
        key.id,
    )


def made_learner(spec: ServiceRunSpec) -> Learner:
    learner = spec.learner(noise_source(spec.noise))
    learner.rng = np.random.default_rng(spec.seed)  # public: for posterior samples
    return learner


def cost_of(learner: Learner) -> Callable[[int], float]:
    """What the k-th report of a person costs, in mu^2.

    Joint: k records of a person in the same sums lose k mu together (group privacy), so the k-th adds k^2 - (k-1)^2 times mu^2. Local: each
    message has noise of its own, and mu^2 adds up. epsilon-DP is mu-GDP with mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)) [Dong22].

    An account adds up the losses of several runs, so all of them are measured under the relation `replace`.
    To replace a report is to take it away and to add another one. A run under `null` therefore costs twice its mu.
    """
    loss = learner.guarantee.loss
    match loss:
        case GaussianDP(mu):
            square = mu**2
        case PureDP(epsilon):
            square = _pure_mu(epsilon) ** 2
        case _:
            # (epsilon, delta) alone is no mu: only a service without budgets per person takes it
            square = math.inf
    if learner.guarantee.relation is Relation.NULL:
        square *= 4
    if learner.guarantee.trust.devices:
        return lambda _: square
    return lambda k: (2 * k - 1) * square


def _pure_mu(epsilon: float) -> float:
    from scipy.special import ndtri_exp

    return float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon)))  # Phi(-mu / 2) = 1 / (1 + e^epsilon)


def _row(name: str, store: ServiceStore) -> RunRow:
    row = store.run(name)
    if row is None:
        raise InvalidParameter(f"there is no run {name}")
    return row


def load(
    name: str, store: ServiceStore, keys: KeyFolder, marks: Marks, *, must_be_marked: bool
) -> LiveRun:
    """The run as the store has it, which may be shown from now on."""
    run = read_run(name, store, keys, marks, must_be_marked=must_be_marked)
    # A crash may come after the commit and before the mark.
    marks.write(name, run.generation, run.release.digest)
    return run


def read_run(
    name: str, store: ServiceStore, keys: KeyFolder, marks: Marks, *, must_be_marked: bool
) -> LiveRun:
    """The run as the store has it; refused if it is older than what was shown.

    `must_be_marked`: refuse a run without a mark, unless nobody has reported to it. A mark is written when a run is
    made, so a run that has reports and no mark may come from an old backup whose marks were removed.
    """
    marked = marks.read(name)  # first: another worker may close a batch meanwhile
    for _ in range(_TRIES):
        row = _row(name, store)
        total = store.open_sum(name)
        state = store.state(name)
        if row.generation == total.generation == state.generation:
            break
    release = store.release(name, row.generation)
    if release is None:
        raise StateError(f"run {name} has no release {row.generation}: the database is damaged")
    check_mark(name, marked, row.generation, release.digest)
    if must_be_marked and marked is None and (row.generation or total.users):
        raise RolledBack(
            f"run {name} has reports or releases, and no mark in {marks.folder} says which release was shown last. "
            "Give --marks as before. On a new host, or if the marks are lost and no backup was put back, "
            "confide service mark FOLDER writes them"
        )
    return LiveRun(row, state, release, total, keys)
