"""One run in memory: its learner, what of it is public, and the open sum. All of it can be thrown away and read again from the store."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter, StateError, StreamExhausted
from confide.learning.learner import Learner, Round
from confide.mechanisms.sources import noise_source
from confide.privacy.loss import GaussianDP, PureDP
from confide.service.documents import ReleaseRow, SigningKey, Statement, digest
from confide.service.keys import KeyFolder
from confide.service.marks import Marks, RolledBack, check_mark
from confide.service.round_document import round_document, shapes
from confide.service.spec import RunSpec, parse_spec
from confide.service.store import OpenSum, RunRow, Store
from confide.trajectory import collect

Ints = npt.NDArray[np.int64]
_TRIES = 5  # to read a run that other workers write


@dataclass(frozen=True, slots=True)
class Signed:
    """A public document, its digest and its signature."""

    body: bytes = field(repr=False)
    digest: str
    signature: bytes
    key: str


class LiveRun:
    """PRIVATE, but for `manifest`, `certificate`, `release` and `round`."""

    def __init__(self, row: RunRow, release: ReleaseRow, total: OpenSum, keys: KeyFolder) -> None:
        self.name, self.spec, self.status = row.name, parse_spec(row.spec), row.status
        self.manifest = Signed(row.manifest, digest(row.manifest), row.signature, row.key)
        self.certificate, self.release = row.certificate, release
        self.pseudonyms = keys.pseudonyms(row.name)
        self.learner = made_learner(self.spec)
        self.learner.restore(row.state, released=row.generation)
        if self.learner.released().generation != row.generation or total.generation != row.generation:
            raise StateError(f"run {row.name}: state, sum and release are of different generations")
        self._shapes = shapes(self.learner, self.spec.world().public)
        self.episode_size = _episode_size(*self._shapes)
        self.size = self._open_size()
        self.users = total.users
        self.coordinates = self._nothing().size  # of a contribution
        if total.total and len(total.total) != 8 * self.coordinates:
            raise StateError(f"run {row.name}: the open sum has another size than a contribution")
        self.round: Signed | None = None
        self.served: tuple[int, Round] | None = None  # what `round` says, with its generation: read by other threads
        self.cost, self.cap = cost_of(self.learner), self.spec.cap

    @property
    def generation(self) -> int:
        return self.release.generation

    @property
    def full(self) -> bool:
        """The batch is closed by this, whatever the time is; never under `deadline`."""
        return self.spec.batch.rule == "count" and 0 < self.size <= self.users

    def due(self, now: float) -> bool:
        return self.status == "open" and (self.full or now >= self.spec.batch.deadline(self.generation))

    def at_once(self, workers: int, most: int) -> int:
        """How many users a transaction may add while others add some, too, so that all of them together are covered by the guarantee; 0:
        each must be alone. The batch takes nobody any more when it is seen to be full; the other workers' transactions may come on top."""
        if workers == 1 or self.spec.batch.rule == "deadline":
            return most
        left = self.learner.episodes - self.learner.users - self.size
        return min(most, left // (workers - 1))

    def _open_size(self) -> int:
        """How many users the open batch has; none after the last release. Earlier ones may have had more than their size."""
        try:
            return min(self.learner.batch_size, self.learner.episodes - self.learner.users)
        except (StreamExhausted, StateError):
            return 0

    def _nothing(self) -> Ints:
        size = self.learner.current_round().size
        return np.zeros((self.learner.algorithm.bound if size is None else size[0]).size, dtype=np.int64)

    def decoded(self, content: Any, generation: int) -> Ints | None:
        """What a device's message adds to the sum; None of a trajectory, which is looked at later. What is no message is refused."""
        if self.spec.trust == "joint":
            return None
        if not isinstance(content, bytes):
            raise InvalidParameter("a report of a local run has a message")
        if generation != self.generation:
            return None  # late: nobody looks at it
        return self.learner.decoded(content)

    def contribution(self, episodes: Sequence[Any]) -> Ints:
        """The sum of what these users contribute. What makes no sense contributes zero, and nothing that is seen depends on it."""
        horizon, state, action = self._shapes
        self.learner.current_round()
        try:
            with np.errstate(all="ignore"):
                users = collect(episodes, horizon, state_shape=state, action_shape=action)
                return self.learner.contribution(users).steps
        except Exception:  # one user's data must not decide about others: each alone
            return (
                self._nothing() if len(episodes) == 1 else sum((self.contribution([each]) for each in episodes), self._nothing())
            )

    def draw(self, key: SigningKey, total: OpenSum) -> tuple[ReleaseRow, bytes]:
        """Close the learner's batch: noise is drawn, and neither the release nor the state after it has left this process."""
        users = self.size if self.spec.batch.rule == "deadline" else total.users
        summed = np.frombuffer(total.total, dtype="<i8").astype(np.int64) if total.total else self._nothing()
        self.learner.close(summed, users)
        body, generation = self.learner.publish(self.name), self.learner.released().generation
        return signed_release(self, body, users, generation, self.release.digest, key), self.learner.save()

    def follow(self, release: ReleaseRow) -> None:
        """The release is durable: show it. The round after it is planned later."""
        self.release, self.round, self.served = release, None, None
        self.size, self.users = self._open_size(), 0
        self.coordinates = self._nothing().size

    @property
    def exhausted(self) -> bool:
        """Asked after `draw`: no release is left, or no user."""
        return self.learner.users >= self.learner.episodes or self.learner.released().generation >= self.learner.schedule.leaves

    def plan(self, key: SigningKey) -> None:
        body = round_document(self.name, self.learner)
        statement = Statement("round", self.name, self.manifest.digest, self.generation, digest(body), self.release.digest)
        self.round = Signed(body, statement.digest, key.sign(statement.to_bytes()), key.id)
        self.served = self.generation, self.learner.current_round()


def _episode_size(horizon: int, state: tuple[int, ...], action: tuple[int, ...]) -> int:
    """How many numbers a report may hold at most: public."""
    return (horizon + 1) * (math.prod(state) + math.prod(action) + 1)


def signed_release(run: Any, body: bytes, users: int, generation: int, previous: str, key: SigningKey) -> ReleaseRow:
    statement = Statement("release", run.name, run.manifest.digest, generation, digest(body), previous)
    return ReleaseRow(run.name, generation, body, users, previous, statement.digest, key.sign(statement.to_bytes()), key.id)


def made_learner(spec: RunSpec) -> Learner:
    learner = spec.learner(noise_source(spec.noise))
    learner.rng = np.random.default_rng(spec.seed)  # public: for posterior samples
    return learner


def cost_of(learner: Learner) -> Callable[[int], float]:
    """What the k-th report of a person costs, in mu^2.

    Joint: k records of a person in the same sums lose k mu together (group privacy), so the k-th adds k^2 - (k-1)^2 times mu^2. Local: each
    message has noise of its own, and mu^2 adds up. epsilon-DP is mu-GDP with mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)) [Dong22].
    """
    loss = learner.guarantee.loss
    match loss:
        case GaussianDP(mu):
            square = mu**2
        case PureDP(epsilon):
            square = _pure_mu(epsilon) ** 2
        case _:
            square = math.inf  # (epsilon, delta) alone is no mu: only a service without budgets per person takes it
    if learner.guarantee.trust.devices:
        return lambda _: square
    return lambda k: (2 * k - 1) * square


def _pure_mu(epsilon: float) -> float:
    from scipy.special import ndtri_exp

    return float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon)))  # Phi(-mu / 2) = 1 / (1 + e^epsilon)


def _row(name: str, store: Store) -> RunRow:
    row = store.run(name)
    if row is None:
        raise InvalidParameter(f"there is no run {name}")
    return row


def load(name: str, store: Store, keys: KeyFolder, marks: Marks) -> LiveRun:
    """The run as the store has it; refused if it is older than what was shown."""
    marked = marks.read(name)  # first: another worker may close a batch meanwhile
    row, total = _row(name, store), store.open_sum(name)
    for _ in range(_TRIES):
        if total.generation == row.generation:
            break
        row, total = _row(name, store), store.open_sum(name)
    release = store.release(name, row.generation)
    if release is None:
        raise StateError(f"run {name} has no release {row.generation}: the database is damaged")
    check_mark(name, marked, row.generation, release.digest)
    if marked is None and row.generation and store.workers == 1:  # marked before its first close; another host has its own
        raise RolledBack(
            f"run {name} has release {row.generation}, and no mark in {marks.folder} says whether a later one was shown: give --marks as "
            "before. If the marks are lost, and no backup was put back, confide service mark writes them again"
        )
    made = LiveRun(row, release, total, keys)
    marks.write(name, row.generation, release.digest)  # a crash may come after the commit and before the mark
    return made
