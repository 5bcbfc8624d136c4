"""Answers to yes/no questions about one transition each. PRIVATE until a privatizer has added noise."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.privacy.bounded import Array, Bounded, grid_for
from confide.privacy.request import Relation
from confide.statistics.transitions import valid_transitions
from confide.trajectory import Trajectories, TransitionCounts


@dataclass(frozen=True, slots=True)
class Answers:
    """Yes, no or no answer to each of `questions` questions: 1/2, -1/2 or 0.

    Enforced: an answer is looked up in a public table of signs, so whatever a user's data are, it is one of the three.

    Sensitivity: replacing a user moves each answer by 1 at most, and all of them together by `questions` in L1 and its root in L2. Under
    null a user's answers become 0: half as much.
    """

    questions: int

    def __post_init__(self) -> None:
        if not isinstance(self.questions, int) or self.questions < 1:
            raise InvalidParameter(f"questions must be a whole number, at least 1, got questions={self.questions}")

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
        return f"answers to {self.questions} yes/no questions, about one transition each"

    def sensitivity(self, relation: Relation) -> float:
        return self.l1_sensitivity(relation) / float(np.sqrt(self.questions))

    def l1_sensitivity(self, relation: Relation) -> float:
        return self.questions * (0.5 if relation == Relation.NULL else 1.0)

    def contains(self, values: Array) -> bool:
        return bool(np.isin(values, (-0.5, 0.0, 0.5)).all())


class AnswerSums:
    """Turns the users of a round into the sums of their answers. A step or a state that does not exist answers 0."""

    def __init__(self, steps: npt.NDArray[np.int64], signs: npt.NDArray[np.int8]) -> None:
        """Question q is about the transition of steps[q], and signs[q, s, a, s'] is its answer."""
        self.bound = Answers(len(steps))
        self._steps, self._signs = steps, signs

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        _, S, A, _ = self._signs.shape
        seen = valid_transitions(users, int(self._steps.max()) + 1, S, A)
        sums = np.zeros(len(self._steps))
        for q, step in enumerate(self._steps):
            here = seen.step == step
            said = self._signs[q, seen.state[here], seen.action[here], seen.next_state[here]]
            sums[q] = int((said * seen.count[here]).sum())  # whole numbers: exact
        return Bounded(sums / 2, self.bound, seen.users)
