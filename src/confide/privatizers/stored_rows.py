"""Prefix sums, and responses that are computed again from what is stored of all users so far. PRIVATE until noise is added.

Some algorithms ask at each change of policy about all users so far, and what they ask depends on earlier releases (LSVI-UCB: the sum of
phi (r + V(s')) under its newest V). So the curator stores rows of all users until the last change, and answers from them with noise
from a part of the budget that is divided in advance.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn, Protocol

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter, PrivacyError
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.sources import NoiseSource
from confide.privacy.bounded import Array, Bound, Bounded, NoiseLevel, Released
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee, no_guarantee
from confide.privacy.loss import Loss, compose
from confide.privacy.request import NoPrivacy, Request, Trust
from confide.privatizers.batches import Arrays, Batches, Facts
from confide.privatizers.central import CounterNoise
from confide.privatizers.schedule import Schedule
from confide.privatizers.shared_budget import Share, SharedBudget

QUERY = "responses, computed again at each change of policy"


class StoredRows(Protocol):
    """What is stored of users, to answer what is asked about them later: counts of transitions, or rows of features. PRIVATE.

    A user comes in whatever form the rows are made from (trajectories, counts of a simulated batch).
    """

    @property
    def bound(self) -> Bound:
        """Of what one user adds to a response."""

    def check(self, users: Any) -> object:
        """Raise for users whom `add` would refuse."""

    def add(self, users: Any) -> None:
        """These users are in all responses from now on."""

    def response(self, step: int, values: Any, reward_weight: float = 0.0) -> Bounded:
        """A sum over users at a step, within `bound` for each of them. What `values` are is up to the rows: counts of transitions need a
        number for each state, rows of features a function of features. They are public, like the weight of rewards."""

    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """PRIVATE: to be saved with the rest of the state."""

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None: ...


@dataclass(frozen=True, slots=True, eq=False)
class ContributionWithRows(Bounded):
    """A contribution, and the users whose rows are stored until the last response. PRIVATE."""

    stored: Any = field(default=None, repr=False)


# A step, what is asked about it and the weight of rewards -> the noisy response and the standard deviation of its noise.
Ask = Callable[[int, Any, float], tuple[Array, float]]


class Questions(Protocol):
    """Decides from releases alone when responses are computed again, and what is asked. PUBLIC."""

    def is_due(self, sums: Released, shown: Array, shown_std: float, changes: int) -> bool:
        """Whether the policy changes now. `shown` are the prefix sums of the last change, `changes` says how many there were."""

    def ask(self, sums: Released, ask: Ask) -> None:
        """Ask for all responses that a change of policy needs."""


@dataclass(frozen=True, slots=True)
class ResponseBudget:
    """How much of the budget each response gets, fixed in advance."""

    loss: Loss
    # For each response one after the other.
    shares: Sequence[float]
    # How many responses a change of policy needs at most, and how many changes there are at most.
    per_change: int
    changes: int


class SumsAndResponses:
    """How a batch becomes a release: prefix sums through a counter, and at each change of policy one noisy response per step.

    Guarantee: prefix sums and responses together are `compose([counter's loss, budget's loss])` for every user, who is in one batch
    of the prefix sums and in all later responses (`SharedBudget`). When responses are asked, and what, depends on releases alone. Constants
    that give more than `privacy` are refused before the first user.
    """

    devices: ClassVar[bool] = False
    resumes_batch: ClassVar[bool] = True
    modulus: ClassVar[None] = None

    def __init__(
        self,
        sums: CounterNoise,
        rows: StoredRows,
        questions: Questions,
        budget: ResponseBudget,
        *,
        schedule: Schedule,
        privacy: Request,
        noise: NoiseSource,
    ) -> None:
        self.sums, self.questions = sums, questions
        # None after the last change of policy: there are no more responses.
        self.rows: StoredRows | None = rows
        self._covered, self._changes_at_most = schedule.users, budget.changes
        kinds = {share: Share(rows.bound, share, QUERY) for share in set(budget.shares)}
        self.budget = SharedBudget(
            [kinds[share] for share in budget.shares],
            privacy=privacy,
            noise=noise,
            users=schedule.users,
            loss=budget.loss,
        )
        self.guarantee = self._together(privacy)
        self.changes = 0
        # As of the last change of policy: prefix sums, and a response and the standard deviation of its noise for each step.
        self._shown, self._level = np.zeros(sums.bound.size), NoiseLevel(0.0, "none")
        self._responses = np.zeros((budget.per_change, rows.bound.size + 1))

    def _together(self, privacy: Request) -> Guarantee:
        sums = self.sums.guarantee
        if isinstance(privacy, NoPrivacy):
            return no_guarantee(sums.users)
        loss = compose([sums.loss, self.budget.loss()]) if len(self.budget) else sums.loss
        return Guarantee(loss, privacy, Trust.CENTRAL, sums.users, sums.source)

    @property
    def bound(self) -> Bound:
        return self.sums.bound

    def open(self, bound: Bound) -> None:
        """A schedule has decided it."""

    def check(self, contribution: Bounded) -> None:
        self.sums.check(contribution)
        if not isinstance(contribution, ContributionWithRows) or contribution.stored is None:
            raise InvalidParameter("a contribution must come with its users, who are stored")
        if self.rows is not None:
            self.rows.check(contribution.stored)

    def join(self, contribution: Bounded, size: int) -> Array:
        assert isinstance(contribution, ContributionWithRows) and contribution.stored is not None
        if self.rows is not None:
            self.rows.add(contribution.stored)
        return self.sums.join(contribution, size)

    def check_total(self, total: Array, users: int) -> NoReturn:  # noqa: ARG002
        raise PrivacyError("responses need the rows of all users, which a sum does not have")

    def close(self, total: Array, users: int, absent: int) -> None:
        self.sums.close(total, users, absent)
        released = self.sums.counter.release()
        is_over = released.users == self._covered
        if self.rows is not None and not is_over:
            std = self._level.std
            if self.questions.is_due(released, self._shown, std, self.changes):
                self._ask(released, self.rows)
        if is_over or self.changes == self._changes_at_most:
            self.rows = None

    def _ask(self, released: Released, rows: StoredRows) -> None:
        responses = np.zeros_like(self._responses)
        left = len(responses)

        def ask(step: int, values: Any, reward_weight: float) -> tuple[Array, float]:
            nonlocal left
            left -= 1
            made = self.budget.release(rows.response(step, values, reward_weight))
            responses[step] = [*made.values, made.noise.std]
            return made.values, made.noise.std

        self.questions.ask(released, ask)
        # What was not asked is not saved up: shares belong to their place.
        self.budget.skip(left)
        self._shown, self._level, self._responses = released.values, released.noise, responses
        self.changes += 1

    def release(self, users: int, generation: int) -> Released:
        """The prefix sums as of the last change of policy, the responses released then, and how often the policy was changed."""
        values = np.concatenate([self._shown, self._responses.ravel(), [float(self.changes)]])
        return Released(values, self._level, self.guarantee, users, generation)

    def mechanisms(self, simulated: int) -> list[Mechanism]:
        return [*self.sums.mechanisms(simulated), *self.budget.mechanisms()]

    def made_for(self) -> str:
        """The counter and the budget compare their own states."""
        return ""

    def state(self) -> tuple[Facts, Arrays]:
        facts: Facts = {"changes": self.changes, "stores": self.rows is not None}
        facts |= {"std": self._level.std, "distribution": self._level.distribution}
        arrays: Arrays = {"shown": self._shown, "responses": self._responses}
        arrays |= self.sums.state()[1]
        arrays["budget"] = np.frombuffer(self.budget.save(), dtype=np.uint8)
        if self.rows is not None:
            arrays |= {f"rows.{name}": array for name, array in self.rows.arrays().items()}
        return facts, arrays

    def restore(self, facts: Facts, arrays: Arrays, *, generation: int, resume: bool) -> None:
        self.sums.restore({}, arrays, generation=generation, resume=resume)
        self.budget.restore(arrays["budget"].tobytes())
        if not facts["stores"]:
            self.rows = None
        elif self.rows is not None:
            self.rows.restore(
                {
                    name.removeprefix("rows."): array
                    for name, array in arrays.items()
                    if name.startswith("rows.")
                }
            )
        self.changes = int(facts["changes"])
        self._shown, self._responses = arrays["shown"], arrays["responses"]
        self._level = NoiseLevel(facts["std"], facts["distribution"])


class ResponsePrivatizer(Batches):
    """The privatizer of a curator who answers from stored rows. Its guarantee is that of `SumsAndResponses`."""

    def __init__(
        self,
        bound: Bound,
        schedule: Schedule,
        rows: StoredRows,
        questions: Questions,
        budget: ResponseBudget,
        *,
        privacy: Request,
        noise: NoiseSource,
        counter: Factorisation | None = None,
        loss: Loss | None = None,
    ) -> None:
        sums = CounterNoise(
            bound, schedule, privacy=privacy, noise=noise, counter=counter, loss=loss
        )
        self._made = SumsAndResponses(
            sums, rows, questions, budget, schedule=schedule, privacy=privacy, noise=noise
        )
        super().__init__(self._made, schedule)

    def release_sums(self) -> Released:
        """The newest prefix sums, also between two changes of policy."""
        self.check_ready()
        return self._made.sums.counter.release()
