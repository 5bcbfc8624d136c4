"""Prefix sums, and responses that are computed again and again from what is stored of all users.

Some algorithms ask about all users so far at each change of policy, and what they ask depends on
earlier releases. LSVI-UCB asks for the sum of phi (r + V(s')) under its newest V. So the curator
stores rows of all users until the last change. It answers from them with noise from a part of the
budget that is divided in advance.

What leaves this file: noisy prefix sums and responses, the mechanisms of a certificate, and the
state that `Batches` saves. Stored rows are PRIVATE, and are part of that state.
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

# A certificate says this of the responses.
QUERY = "responses, computed again at each change of policy"
# The arrays of stored rows have this prefix in a saved state.
_ROWS = "rows."


class StoredRows(Protocol):
    """What is stored of users to answer questions about them later. PRIVATE.

    These are counts of transitions, or rows of features. Users come in whatever form the rows are
    made from: trajectories, or counts of a simulated batch.
    """

    @property
    def bound(self) -> Bound:
        """The bound of what one user adds to a response."""

    def check(self, users: Any) -> object:
        """Raise an error for users whom `add` would refuse."""

    def add(self, users: Any) -> None:
        """Count these users in all responses from now on."""

    def response(self, step: int, values: Any, reward_weight: float = 0.0) -> Bounded:
        """Return a sum over users at a step, within `bound` for each of them.

        `values` and the weight of rewards are public. Counts of transitions need a number for each
        state as `values`, and rows of features need a function of features.
        """

    def arrays(self) -> Mapping[str, npt.NDArray[Any]]:
        """Return what is saved with the rest of the state. PRIVATE."""

    def restore(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Go on from what `arrays` returned."""


@dataclass(frozen=True, slots=True, eq=False)
class ContributionWithRows(Bounded):
    """A contribution, with the users whose rows are stored until the last response. PRIVATE."""

    stored: Any = field(default=None, repr=False)


# From a step, the public values and the weight of rewards to the noisy response and the standard
# deviation of its noise.
Ask = Callable[[int, Any, float], tuple[Array, float]]


class ResponseQuestions(Protocol):
    """Decides when responses are computed again and what is asked, from releases alone. PUBLIC."""

    def is_due(self, sums: Released, shown: Array, shown_std: float, changes: int) -> bool:
        """Whether the policy changes now.

        `shown` are the prefix sums of the last change, with noise of `shown_std`. `changes` is how
        many changes there were.
        """

    def ask(self, sums: Released, ask: Ask) -> None:
        """Ask for all responses that a change of policy needs."""


@dataclass(frozen=True, slots=True)
class ResponseBudget:
    """How much of the budget each response gets. It is fixed in advance.

    - `loss` is that of all responses together.
    - `shares` has one share of it for each response, in their order.
    - `per_change` is how many responses a change of policy needs at most.
    - `changes` is how many changes of policy there are at most.
    """

    loss: Loss
    shares: Sequence[float]
    per_change: int
    changes: int


class SumsAndResponses:
    """Prefix sums through a counter, and at each change of policy one noisy response per step.

    Guarantee: prefix sums and responses together have the loss `compose([loss of the counter, loss
    of the budget])` for every user. A user is in one batch of the prefix sums and in all later
    responses (`SharedBudget`). When and what is asked depends on releases alone. Constants that
    give less privacy than `privacy` are refused before the first user.
    """

    devices: ClassVar[bool] = False
    resumes_batch: ClassVar[bool] = True
    modulus: ClassVar[None] = None

    def __init__(
        self,
        sums: CounterNoise,
        rows: StoredRows,
        questions: ResponseQuestions,
        budget: ResponseBudget,
        *,
        schedule: Schedule,
        privacy: Request,
        noise: NoiseSource,
    ) -> None:
        self.sums = sums
        self.questions = questions
        # None after the last change of policy, because there are no more responses.
        self.rows: StoredRows | None = rows
        self._covered_users = schedule.users
        self._max_changes = budget.changes
        kinds = {share: Share(rows.bound, share, QUERY) for share in set(budget.shares)}
        self.budget = SharedBudget(
            [kinds[share] for share in budget.shares],
            privacy=privacy,
            noise=noise,
            users=schedule.users,
            loss=budget.loss,
        )
        self.guarantee = self._compose_guarantee(privacy)
        # How often the policy was changed.
        self.changes = 0
        # The prefix sums at the last change of policy, and the level of their noise.
        self._shown = np.zeros(sums.bound.size)
        self._level = NoiseLevel(0.0, "none")
        # The responses at that change, and the standard deviation of the noise on each of them.
        self._responses = np.zeros((budget.per_change, rows.bound.size + 1))  # [step, number]

    def _compose_guarantee(self, privacy: Request) -> Guarantee:
        sums = self.sums.guarantee
        if isinstance(privacy, NoPrivacy):
            return no_guarantee(sums.users)
        loss = compose([sums.loss, self.budget.loss()]) if len(self.budget) else sums.loss
        return Guarantee(loss, privacy, Trust.CENTRAL, sums.users, sums.source)

    @property
    def bound(self) -> Bound:
        return self.sums.bound

    def open(self, bound: Bound) -> None:
        """Do nothing, because the schedule has decided the size of every batch."""

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
        is_over = released.users == self._covered_users
        if self.rows is not None and not is_over:
            std = self._level.std
            if self.questions.is_due(released, self._shown, std, self.changes):
                self._ask(released, self.rows)
        if is_over or self.changes == self._max_changes:
            self.rows = None

    def _ask(self, released: Released, rows: StoredRows) -> None:
        """Release all responses that this change of policy needs."""
        responses = np.zeros_like(self._responses)
        unasked = len(responses)

        def ask(step: int, values: Any, reward_weight: float) -> tuple[Array, float]:
            nonlocal unasked
            unasked -= 1
            response = self.budget.release(rows.response(step, values, reward_weight))
            responses[step] = [*response.values, response.noise.std]
            return response.values, response.noise.std

        self.questions.ask(released, ask)
        # Each share belongs to its place in the order, so shares that were not used are lost.
        self.budget.skip(unasked)
        self._shown = released.values
        self._level = released.noise
        self._responses = responses
        self.changes += 1

    def release(self, users: int, generation: int) -> Released:
        """Return the prefix sums of the last change of policy, its responses, and its number."""
        values = np.concatenate([self._shown, self._responses.ravel(), [float(self.changes)]])
        return Released(values, self._level, self.guarantee, users, generation)

    def mechanisms(self, simulated: int) -> list[Mechanism]:
        return [*self.sums.mechanisms(simulated), *self.budget.mechanisms()]

    def settings(self) -> str:
        """Return nothing, because the counter and the budget compare their own states."""
        return ""

    def state(self) -> tuple[Facts, Arrays]:
        facts: Facts = {
            "changes": self.changes,
            "stores": self.rows is not None,
            "std": self._level.std,
            "distribution": self._level.distribution,
        }
        arrays: Arrays = {"shown": self._shown, "responses": self._responses}
        arrays |= self.sums.state()[1]
        arrays["budget"] = np.frombuffer(self.budget.save(), dtype=np.uint8)
        if self.rows is not None:
            for name, array in self.rows.arrays().items():
                arrays[_ROWS + name] = array
        return facts, arrays

    def restore(self, facts: Facts, arrays: Arrays, *, generation: int, resume: bool) -> None:
        self.sums.restore({}, arrays, generation=generation, resume=resume)
        self.budget.restore(arrays["budget"].tobytes())
        if not facts["stores"]:
            self.rows = None
        elif self.rows is not None:
            rows = {
                name.removeprefix(_ROWS): array
                for name, array in arrays.items()
                if name.startswith(_ROWS)
            }
            self.rows.restore(rows)
        self.changes = int(facts["changes"])
        self._shown = arrays["shown"]
        self._responses = arrays["responses"]
        self._level = NoiseLevel(facts["std"], facts["distribution"])


class ResponsePrivatizer(Batches):
    """The privatizer of a curator who answers from stored rows.

    Guarantee: that of `SumsAndResponses`.
    """

    def __init__(
        self,
        bound: Bound,
        schedule: Schedule,
        rows: StoredRows,
        questions: ResponseQuestions,
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
        self._batch_noise = SumsAndResponses(
            sums, rows, questions, budget, schedule=schedule, privacy=privacy, noise=noise
        )
        super().__init__(self._batch_noise, schedule)

    def release_sums(self) -> Released:
        """Return the newest prefix sums, also between two changes of policy."""
        self.check_ready()
        return self._batch_noise.sums.counter.release()
