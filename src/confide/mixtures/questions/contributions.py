"""Answers to yes/no questions about one step each.

PRIVATE until a privatizer has added noise. What leaves is their sum with noise, or under `LocalDP`
a message of each device. Required for privacy: each answer is looked up or clipped, so it is within
1/2 of zero whatever a user's data are (`Answers`). How questions are chosen is not decided here.
"""

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

# Yes is this, and no is minus this. Required for privacy: sensitivities follow from it.
LARGEST_ANSWER = 0.5


@dataclass(frozen=True, slots=True)
class Answers:
    """An answer to each of `questions` questions: yes (1/2), no (-1/2) or none (0).

    About rewards in [0, 1], an answer is any number from -1/2 to 1/2.

    Enforced: an answer about a transition is looked up in a public table of signs, so it is one of
    the three, whatever a user's data are. An answer about a reward is such a sign times r - 1/2,
    with r clipped to [0, 1] and rounded to the grid; it is 0 where the reward is no number.

    Sensitivity: replacing a user moves each answer by at most 1, and all of them together by
    `questions` in L1 and by its square root in L2. If the user contributes zero instead, an answer
    moves by at most 1/2, so everything is half as much.
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
        return LARGEST_ANSWER

    @property
    def grid(self) -> float:
        return grid_for(self.largest)

    @property
    def about(self) -> str:
        return f"answers to {self.questions} yes/no questions, about one step each"

    def sensitivity(self, relation: Relation) -> float:
        return self.l1_sensitivity(relation) / float(np.sqrt(self.questions))

    def l1_sensitivity(self, relation: Relation) -> float:
        largest_move = LARGEST_ANSWER if relation == Relation.NULL else 2 * LARGEST_ANSWER
        return self.questions * largest_move

    def contains(self, values: Array) -> bool:
        return bool((np.abs(values) <= LARGEST_ANSWER).all())


class AnswerSums:
    """Turns the users of a round into the sums of their answers.

    Question q is about step steps[q]. About a transition, its answer is half of signs[q, s, a, s'].
    Where `about_rewards` [q], its answer is signs[q, s, a, 0] (r - 1/2). A step or a state that
    does not exist adds 0.
    """

    def __init__(
        self,
        steps: npt.NDArray[np.int64],
        signs: npt.NDArray[np.int8],
        about_rewards: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.bound = Answers(len(steps))
        self._steps = steps
        self._signs = signs
        if about_rewards is None:
            about_rewards = np.zeros(len(steps), dtype=bool)
        self._about_rewards = about_rewards

    def plain(self) -> dict[str, Any]:
        """What a client needs to answer: it sends what the class docstring says. Public."""
        return {
            "kind": "answers",
            "steps": self._steps.tolist(),
            "signs": self._signs.tolist(),
            "rewards": self._about_rewards.tolist(),
        }

    def tables(self) -> list[npt.NDArray[Any]]:
        return [self._steps, self._signs, self._about_rewards]

    def contribution(self, users: Trajectories | TransitionCounts) -> Bounded:
        _, states, actions, _ = self._signs.shape
        steps = int(self._steps.max()) + 1
        seen = valid_transitions(users, steps, states, actions)
        sums = np.zeros(len(self._steps))
        for q in np.flatnonzero(~self._about_rewards):
            is_here = seen.step == self._steps[q]
            signs = self._signs[
                q, seen.state[is_here], seen.action[is_here], seen.next_state[is_here]
            ]
            # Signs and counts are whole numbers, so the sum is exact.
            sums[q] = int((signs * seen.count[is_here]).sum()) / 2
        if self._about_rewards.any():
            rewards = outcomes(users, steps, states, actions)
            sums[self._about_rewards] = self._reward_answers(*rewards)
        return Bounded(sums, self.bound, seen.users)

    def _reward_answers(
        self, step: Indices, state: Indices, action: Indices, reward: Array, count: Indices
    ) -> Array:
        """Sums over rewards in [0, 1]. They are counted in whole grid steps, so they are exact."""
        grid = self.bound.grid
        grid_steps = np.rint((reward - 0.5) / grid)
        sums = []
        for q in np.flatnonzero(self._about_rewards):
            is_here = step == self._steps[q]
            signs = self._signs[q, state[is_here], action[is_here], 0]
            sums.append(float((signs * grid_steps[is_here] * count[is_here]).sum()) * grid)
        return np.array(sums)
