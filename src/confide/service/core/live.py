"""One run in memory: its learner, what of it is public, and the open sum.

All of it can be thrown away and read again from the store. What leaves this file: releases, rounds
and the state after a release, all of which the service makes durable before anybody sees them.

What may not be changed without a new proof: `LiveRun.contribution` clips every user before anything
depends on the user's data; `LiveRun.most_users_at_once` keeps several workers within the number of
users that the guarantee covers; `cost_of` is what a budget per person adds up. The rest may change,
as long as bytes that are signed stay the same for the same release.
"""

import contextlib
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

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

# A sum of contributions, in whole steps of the grid: one number per coordinate.
Ints = npt.NDArray[np.int64]
# The horizon of an episode, and the shapes of a state and of an action.
Shapes = tuple[int, tuple[int, ...], tuple[int, ...]]
# So often a run is read while other workers write it. A matter of taste.
_READ_ATTEMPTS = 5


@dataclass(frozen=True, slots=True)
class Signed:
    """A public document, its digest and its signature."""

    body: bytes = field(repr=False)
    digest: str
    signature: bytes
    key: str


class LiveRun:
    """A run in memory. PRIVATE, but for `manifest`, `certificate`, `release` and `round`.

    A run is made without its round, which may take long to plan. Until it is `planned`, nobody can
    report to it, and its batch is not closed. A round is a pure function of releases, so it may be
    planned in any thread, but by one at a time.
    """

    def __init__(
        self, row: RunRow, state: SavedState, release: ReleaseRow, total: OpenSum, keys: KeyFolder
    ) -> None:
        self.name = row.name
        self.spec = parse_spec(row.spec)
        self.status = row.status
        self.manifest = Signed(row.manifest, digest(row.manifest), row.signature, row.key)
        self.certificate = row.certificate
        self.release = release
        self.pseudonyms = keys.pseudonyms(row.name)
        self.learner = make_learner(self.spec)
        self.learner.restore(state.data, released=row.generation)
        generations = {self.learner.released().generation, total.generation, row.generation}
        if len(generations) > 1:
            raise StateError(f"run {row.name}: state, sum and release are of different generations")
        # Of the k-th report of a person, in mu^2.
        self.cost = cost_of(self.learner)
        self.users = total.users
        self._sum_bytes = len(total.total)
        # What follows is decided when the round is planned.
        self.planned = False
        self._shapes: Shapes | None = None
        # A report has at most so many numbers.
        self.episode_size = 0
        # The number of users of the open batch, and of the coordinates of a contribution.
        self.size = 0
        self.coordinates = 0
        self.round: Signed | None = None
        # What `round` says, with its generation. Other threads read the two together.
        self.served: tuple[int, Round] | None = None

    @property
    def generation(self) -> int:
        return self.release.generation

    @property
    def full(self) -> bool:
        """Whether the number of users closes the batch, whatever the time is.

        This never happens under `deadline`: there a close must not depend on who reported.
        """
        return self.spec.batch.rule == "count" and 0 < self.size <= self.users

    def due(self, now: float) -> bool:
        """Whether the open batch must be closed now."""
        if not self.planned or self.status != "open":
            return False
        return self.full or now >= self.spec.batch.deadline(self.generation)

    def most_users_at_once(self, workers: int, most: int) -> int:
        """Return how many users a transaction may add while other workers add some, too.

        It is at most `most`. 0 means that the transaction must be alone. Required for privacy: all
        users together must be covered by the guarantee. The batch takes nobody any more when it is
        seen to be full, but each other worker may have one transaction on its way.
        """
        if workers == 1 or self.spec.batch.rule == "deadline":
            return most
        spare_users = self.learner.episodes - self.learner.users - self.size
        return min(most, spare_users // (workers - 1))

    def zero_contribution(self) -> Ints:
        """Return the contribution of nobody."""
        return np.zeros(self.learner.coordinates, dtype=np.int64)

    def decode_message(self, content: Any, generation: int) -> Ints | None:
        """Return what a device's message adds to the sum, or None if it is never added.

        A trajectory is looked at later. A message of another release cannot be decoded any more, so
        only its form is checked. What is no message is refused, whoever sent it.
        """
        if self.spec.trust == "joint":
            return None
        message = Message.from_bytes(content)
        if message.generation != generation:
            raise InvalidParameter(
                f"the report and its message must name the same release, got {generation} "
                f"and {message.generation}"
            )
        if generation != self.generation or self.size == 0:
            return None
        return self.learner.decoded(message)

    def is_another_round(self, generation: int, answered: bytes | None) -> bool:
        """Whether a report names another round than the one that this process has planned.

        Both rounds are planned from the same release.
        """
        if answered is None or generation != self.generation or self.size == 0:
            return False
        return answered != self.learner.current_round().digest

    def contribution(self, episodes: Sequence[Any]) -> Ints:
        """Return the sum of what these users contribute. Every user is clipped.

        An episode that makes no sense contributes zero, and nothing that anybody sees depends on
        whether it does.
        """
        assert self._shapes is not None, "nobody reports to a run that is not planned"
        horizon, state_shape, action_shape = self._shapes
        try:
            with np.errstate(all="ignore"):
                users = collect(
                    episodes, horizon, state_shape=state_shape, action_shape=action_shape
                )
                return self.learner.contribution(users).steps
        except Exception:
            # One user's data must not decide about other users, so each is tried alone.
            if len(episodes) == 1:
                return self.zero_contribution()
            alone = (self.contribution([episode]) for episode in episodes)
            return sum(alone, self.zero_contribution())

    def draw(self, key: SigningKey, total: OpenSum) -> tuple[ReleaseRow, bytes]:
        """Close the learner's batch, and return the release and the state after it.

        Noise is drawn here. Until both are durable, neither may leave this process.
        """
        users = self.size if self.spec.batch.rule == "deadline" else total.users
        if total.total:
            batch_sum = np.frombuffer(total.total, dtype="<i8").astype(np.int64)
        else:
            batch_sum = self.zero_contribution()
        self.learner.close(batch_sum, users)
        release = signed_release(
            self,
            self.learner.publish(self.name),
            users=users,
            generation=self.learner.released().generation,
            previous=self.release.digest,
            key=key,
        )
        return release, self.learner.save()

    def follow(self, release: ReleaseRow) -> None:
        """Show a release that is durable. The round after it is planned later."""
        self.planned = False
        self.release = release
        self.round = None
        self.served = None
        self.size = 0
        self.users = 0
        self._sum_bytes = 0

    @property
    def exhausted(self) -> bool:
        """Whether no release is left, or no user. This is asked after `draw`."""
        return self.learner.is_exhausted

    def plan(self, key: SigningKey, store: ServiceStore) -> None:
        """Plan the open round, and all that depends on it. After the last release there is none.

        Until the store has confirmed the round, it is not shown and nobody can report.
        """
        with contextlib.suppress(StreamExhausted):
            self._plan_round(key, store)
        self.planned = True

    def check_round(self, store: ServiceStore) -> None:
        """Plan the open round, and refuse it if another process has planned a different one.

        Nothing is stored.
        """
        with contextlib.suppress(StreamExhausted):
            planned = self.learner.current_round().digest
            if self.status == "finished":
                return
            settled = store.round_digest(self.name, self.generation)
            if settled is not None and settled != planned:
                raise RoundConflict(self.name, self.generation)

    def _plan_round(self, key: SigningKey, store: ServiceStore) -> None:
        planned = self.learner.current_round()
        if self._shapes is None:
            self._shapes = shapes(self.learner, self.spec.make_problem().public)
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
            kind="round",
            run=self.name,
            manifest=self.manifest.digest,
            generation=self.generation,
            body=digest(body),
            previous=self.release.digest,
        )
        self.round = Signed(body, statement.digest, key.sign(statement.to_bytes()), key.id)
        self.served = (self.generation, planned)


def _episode_size(horizon: int, state_shape: tuple[int, ...], action_shape: tuple[int, ...]) -> int:
    """Return how many numbers a report may hold at most. Public."""
    return (horizon + 1) * (math.prod(state_shape) + math.prod(action_shape) + 1)


class _SignedRun(Protocol):
    """A run that has a manifest: a live one, or one that is being made."""

    @property
    def name(self) -> str: ...
    @property
    def manifest(self) -> Signed: ...


def signed_release(
    run: _SignedRun, body: bytes, users: int, generation: int, previous: str, key: SigningKey
) -> ReleaseRow:
    """Return a release with its signature. `previous` is the digest of the statement before it."""
    statement = Statement(
        kind="release",
        run=run.name,
        manifest=run.manifest.digest,
        generation=generation,
        body=digest(body),
        previous=previous,
    )
    return ReleaseRow(
        run=run.name,
        generation=generation,
        body=body,
        users=users,
        previous=previous,
        digest=statement.digest,
        signature=key.sign(statement.to_bytes()),
        key=key.id,
    )


def make_learner(spec: ServiceRunSpec) -> Learner:
    """Make the learner of a run from public choices alone: a restart makes the same one."""
    learner = spec.make_learner(noise_source(spec.noise))
    # The seed is public. Posterior samples are drawn with it, and never privacy noise.
    learner.rng = np.random.default_rng(spec.seed)
    return learner


def cost_of(learner: Learner) -> Callable[[int], float]:
    """Return what the k-th report of a person costs, in mu^2, as a function of k.

    Joint: k records of a person in the same sums lose k mu together (group privacy). So the k-th
    one adds k^2 - (k-1)^2 times mu^2. Local: each message has noise of its own, and mu^2 adds up.
    epsilon-DP is mu-GDP with mu = 2 Phi^-1(e^epsilon / (1 + e^epsilon)) [Dong22].

    An account adds up the losses of several runs, so all of them are measured under the relation
    `replace`. To replace a report is to take it away and to add another one. A run under `null`
    therefore costs twice its mu.

    All of this is proved, and required for privacy.
    """
    loss = learner.guarantee.loss
    match loss:
        case GaussianDP(mu):
            mu_squared = mu**2
        case PureDP(epsilon):
            mu_squared = _mu_of_pure_dp(epsilon) ** 2
        case _:
            # (epsilon, delta) alone is no mu. Only a service without budgets per person takes it.
            mu_squared = math.inf
    if learner.guarantee.relation is Relation.NULL:
        mu_squared *= 4
    if learner.guarantee.trust.devices:
        return lambda _: mu_squared
    return lambda k: (2 * k - 1) * mu_squared


def _mu_of_pure_dp(epsilon: float) -> float:
    from scipy.special import ndtri_exp

    # Phi(-mu / 2) = 1 / (1 + e^epsilon)
    return float(-2 * ndtri_exp(-np.logaddexp(0.0, epsilon)))


def _row(name: str, store: ServiceStore) -> RunRow:
    row = store.run(name)
    if row is None:
        raise InvalidParameter(f"there is no run {name}")
    return row


def load(
    name: str, store: ServiceStore, keys: KeyFolder, marks: Marks, *, must_be_marked: bool
) -> LiveRun:
    """Read the run from the store and mark its release, which may be shown from now on."""
    run = read_run(name, store, keys, marks, must_be_marked=must_be_marked)
    # A crash may come after the commit and before the mark.
    marks.write(name, run.generation, run.release.digest)
    return run


def read_run(
    name: str, store: ServiceStore, keys: KeyFolder, marks: Marks, *, must_be_marked: bool
) -> LiveRun:
    """Read the run from the store. It is refused if it is older than what was shown.

    `must_be_marked`: refuse a run without a mark, unless nobody has reported to it. A mark is
    written when a run is made, so a run that has reports and no mark may come from an old backup
    whose marks were removed.
    """
    # The mark is read before the store, because another worker may close a batch meanwhile. A
    # store that is newer than the mark is no rollback.
    marked = marks.read(name)
    for _ in range(_READ_ATTEMPTS):
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
            f"run {name} has reports or releases, and no mark in {marks.folder} says which release "
            "was shown last. Give --marks as before. On a new host, or if the marks are lost and "
            "no backup was put back, confide service mark FOLDER writes them"
        )
    return LiveRun(row, state, release, total, keys)
