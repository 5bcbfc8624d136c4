"""Answers to yes/no questions about one step each. PRIVATE until a privatizer has added noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.privacy.bounded import Array, Bounded, grid_for
from confide.privacy.request import Relation
from confide.statistics.transitions import outcomes, valid_transitions
from confide.trajectory import Indices, Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class Answers:
    """Yes, no or no answer to each of `questions` questions: 1/2, -1/2 or 0; of rewards in [0, 1], anything between.

    Enforced: an answer about a transition is looked up in a public table of signs, so whatever a user's data are, it is one of the three.
    An answer about a reward is such a sign times r - 1/2, r clipped to [0, 1] and rounded to the grid; 0 where the reward is no number.

    Sensitivity: replacing a user moves each answer by 1 at most, and all of them together by `questions` in L1 and its root in L2. Under
    null a user's answers become 0: half as much.
    """

    questions: int

    def __post_init__(self) -> None:
        if not isinstance(self.questions, int) or self.questions < 1:
            raise InvalidParameter(
                f"questions must be a whole number, at least 1, got questions={self.questions}"
            )

    def identity(self) -> Identity:
        return Identity("answers", 1, questions=self.questions)

    @property
    def size(self) -> int:
        return self.questions

    @property
    def largest(self) -> float:
        return 0.5

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    @property
    def about(self) -> str:
        return f"answers to {self.questions} yes/no questions, about one step each"

    def sensitivity(self, relation: Relation) -> float:
        return self.l1_sensitivity(relation) / float(np.sqrt(self.questions))

    def l1_sensitivity(self, relation: Relation) -> float:
        return self.questions * (0.5 if relation == Relation.NULL else 1.0)

    def contains(self, values: Array) -> bool:
        return bool((np.abs(values) <= 0.5).all())


class AnswerSums:
    """Turns the users of a round into the sums of their answers. A step or a state that does not exist answers 0."""

    def __init__(
        self,
        steps: npt.NDArray[np.int64],
        signs: npt.NDArray[np.int8],
        rewards: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        """Question q is about steps[q]: signs[q, s, a, s'] is its answer, or where `rewards` [q] signs[q, s, a, 0] times the reward's."""
        self.bound = Answers(len(steps))
        self._steps, self._signs = steps, signs
        self._rewards = np.zeros(len(steps), dtype=bool) if rewards is None else rewards

    def plain(self) -> dict[str, Any]:
        """For clients: the answer to question q is half of signs[q][s][a][s'] at steps[q], or signs[q][s][a][0] (r - 1/2), r in [0, 1],
        where it is about rewards. Public."""
        steps, signs, rewards = self._steps.tolist(), self._signs.tolist(), self._rewards.tolist()
        return {"kind": "answers", "steps": steps, "signs": signs, "rewards": rewards}

    def tables(self) -> list[npt.NDArray[Any]]:
        return [self._steps, self._signs, self._rewards]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        _, S, A, _ = self._signs.shape
        longest = int(self._steps.max()) + 1
        seen, sums = valid_transitions(users, longest, S, A), np.zeros(len(self._steps))
        for q in np.flatnonzero(~self._rewards):
            here = seen.step == self._steps[q]
            said = self._signs[q, seen.state[here], seen.action[here], seen.next_state[here]]
            sums[q] = int((said * seen.count[here]).sum()) / 2  # whole numbers: exact
        if self._rewards.any():
            sums[self._rewards] = self._rewarded(*outcomes(users, longest, S, A))
        return Bounded(sums, self.bound, seen.users)

    def _rewarded(
        self, step: Indices, state: Indices, action: Indices, reward: Array, count: Indices
    ) -> Array:
        """Of all rewards in [0, 1]: whole grid steps, so that sums are exact."""
        grid, found = self.bound.grid, []
        high = np.rint((reward - 0.5) / grid)
        for q in np.flatnonzero(self._rewards):
            here = step == self._steps[q]
            found.append(
                float(
                    (self._signs[q, state[here], action[here], 0] * high[here] * count[here]).sum()
                )
                * grid
            )
        return np.array(found)
