"""A learner whose questions depend on its answers: prefix sums through a counter, and responses recomputed at each change of policy."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from confide._digest import digest
from confide.agents.batches import Batches
from confide.agents.learner import Learner, Round
from confide.mechanisms.counters import Factorisation
from confide.mechanisms.sources import NoiseSource
from confide.mechanisms.state import unpack
from confide.planners.value_regression import Answer, Question, Rule, Sums, answered, growth
from confide.privacy.bounded import Bound, NoiseLevel, Released
from confide.privacy.certificate import Mechanism
from confide.privacy.guarantee import Guarantee, billboard, no_guarantee
from confide.privacy.loss import NO_PRIVACY, Loss, compose
from confide.privacy.request import NoPrivacy, Request, Trust
from confide.privatizers import Questions
from confide.statistics.stored_transitions import StoredTransitions
from confide.trajectory import Trajectories, TransitionCounts

Array = npt.NDArray[np.float64]


class Asking(Protocol):
    """An algorithm that plans by asking: see `planners/value_regression.py`."""

    @property
    def bound(self) -> Bound: ...
    @property
    def rule(self) -> Rule: ...
    @property
    def horizon(self) -> int: ...
    @property
    def asked_steps(self) -> int:
        """How many questions a change of policy asks at most: of the steps 0, 1, ..."""

    def sums(self, values: Array, std: float) -> Sums: ...
    def plan(self, released: Released) -> Round: ...
    def round_of(self, Q: Array, sums: Sums, released: Released) -> Round:
        """What `plan` does after it has been told all answers."""


@dataclass(frozen=True, slots=True, eq=False)
class Budget:
    """How the loss is divided, in advance."""

    gram: Loss  # of all prefix sums
    responses: Loss  # of all answers
    shares: Sequence[float]  # of the latter, one for each question
    counter: Factorisation | None = None  # of prefix sums; None: the one with the least noise


class StoredLearner(Learner):
    """Between releases as every `Learner`; at each change of policy it asks about all users so far, a step at a time.

    What is kept of users is PRIVATE: counts of transitions (`StoredTransitions`), until the last change of policy, then nothing.
    A release is: the prefix sums as of the last change, the answers given then, and the standard deviations of their noise.
    """

    def __init__(
        self, algorithm: Asking, batches: Batches, budget: Budget, *, privacy: Request, noise: NoiseSource | None = None
    ) -> None:
        super().__init__(algorithm, batches.schedule, privacy=privacy, noise=noise, counter=budget.counter, loss=budget.gram)
        self.asking, self.batches, self.budget = algorithm, batches, budget
        self._stored: StoredTransitions | None = StoredTransitions(algorithm.rule.features, algorithm.horizon)
        self._ball = self._stored.bound
        self._shown = np.zeros(algorithm.bound.size), NoiseLevel(0.0, "none")  # as of the last change
        self._answers = np.zeros((algorithm.asked_steps, algorithm.rule.features.shape[2] + 1))
        self._switches = 0
        self._planned: tuple[Array, Sums] | None = None
        self._made_questions: Questions | None = None

    @property
    def settings(self) -> str:
        return digest((super().settings, self.batches, self.budget))

    @property
    def _questions(self) -> Questions:
        if self._made_questions is None:
            _ = self._privatizer  # checks the noise
            assert self.noise is not None
            self._made_questions = Questions(
                self._ball,
                self.budget.shares,
                loss=self.budget.responses,
                privacy=self.privacy,
                users=self.episodes,
                noise=self.noise,
            )
        return self._made_questions

    @property
    def loss(self) -> Loss | None:
        parts = [self.budget.gram, self.budget.responses] if len(self.budget.shares) else [self.budget.gram]
        return NO_PRIVACY if NO_PRIVACY in parts else compose(parts)

    @property
    def guarantee(self) -> Guarantee:
        return billboard(self._whole_guarantee)

    @cached_property
    def _whole_guarantee(self) -> Guarantee:
        """Of prefix sums and answers together. Made before the first user is served: constants that break the promise are refused here."""
        gram, questions = self._privatizer.guarantee, self._questions
        if isinstance(self.privacy, NoPrivacy):
            return no_guarantee(gram.users)
        together = compose([gram.loss, questions.loss()]) if len(questions) else gram.loss
        return Guarantee(together, self.privacy, Trust.CENTRAL, gram.users, gram.source)

    def mechanisms(self) -> list[Mechanism]:
        return [*super().mechanisms(), *self._questions.mechanisms("responses, asked again at each change of policy")]

    @property
    def switches(self) -> int:
        """How often the policy was changed so far. Public."""
        self._check_durable()
        return self._switches

    def released(self) -> Released:
        last, (values, level) = super().released(), self._shown
        everything = np.concatenate([values, self._answers.ravel(), [float(self._switches)]])
        return Released(everything, level, self._whole_guarantee, last.users, last.generation, last.memory)

    def current_round(self) -> Round:
        if self._round is None and self._planned is not None:  # asking was planning: the same round, without doing it again
            self._round = self.asking.round_of(*self._planned, self.released())
        return super().current_round()

    def _check_kept(self, users: Trajectories | TransitionCounts) -> None:
        if self._stored is not None:
            self._stored.check(users)

    def _keep(self, users: Trajectories | TransitionCounts) -> None:
        if self._stored is not None:
            self._stored.add(users)

    def _advance(self, before: int) -> None:
        if self._privatizer.generation > before and self._due():
            self._ask_again()
        if self.users == self.episodes or self._switches == self.batches.switches:
            self._stored = None  # nobody will ask again
        super()._advance(before)

    def _due(self) -> bool:
        """Whether the policy changes now: decided by releases alone."""
        if self._stored is None or self.users == self.episodes:
            return False
        if self.batches.growth is None or self._switches == 0:
            return True
        now = self._privatizer.release()
        sums, last = self.asking.sums(now.values, now.noise.std), self.asking.sums(self._shown[0], self._shown[1].std)
        norm = now.noise.std * math.sqrt(
            2 * sums.gram.shape[-1]
        )  # of the noise: below it a direction has not grown, it was drawn anew
        return growth(sums.gram, last.gram, ridge=1.0 + 2 * norm) > self.batches.growth

    def _ask_again(self) -> None:
        stored = self._stored
        assert stored is not None
        now, skipped = self._privatizer.release(), len(self._answers)
        sums = self.asking.sums(now.values, now.noise.std)
        answers = np.zeros_like(self._answers)

        def ask(question: Question) -> Answer:
            nonlocal skipped
            skipped -= 1
            values, std = self._questions.ask(stored.response(question.step, question.values, question.reward_weight))
            answers[question.step] = [*values, std]
            return Answer(values, std)

        self._planned = answered(self.asking.rule, sums, self.asking.horizon, ask), sums
        self._questions.skip(skipped)  # what was not worth asking is not saved up: shares belong to their place
        self._shown, self._answers, self._switches = (now.values, now.noise), answers, self._switches + 1

    def _more_state(self) -> dict[str, npt.NDArray[Any]]:
        stored = {} if self._stored is None else {f"stored.{key}": value for key, value in self._stored.arrays().items()}
        shown = {"shown": self._shown[0], "answers": self._answers, "switches": np.array([self._switches, self._shown[1].std])}
        return {"questions": np.frombuffer(self._questions.save(), dtype=np.uint8), **stored, **shown}

    def restore(self, data: bytes, *, released: int | None = None) -> None:
        super().restore(data, released=released)
        self._durable = False
        arrays = unpack(data, "learner", released=0).arrays
        self._questions.restore(arrays["questions"].tobytes())
        stored = {key.removeprefix("stored."): value for key, value in arrays.items() if key.startswith("stored.")}
        if not stored:
            self._stored = None
        elif self._stored is not None:
            self._stored.restore(stored)
        switches, std = arrays["switches"]
        self._switches, self._answers = int(switches), arrays["answers"]
        distribution = self._privatizer.release().noise.distribution if switches else "none"
        self._shown = arrays["shown"], NoiseLevel(float(std), distribution)
        self._durable = True
