"""QuestionsVI: our own agent for mixtures of known kernels, which asks each user few questions.

This file joins the private side (`contributions`) and the public side (`round_planning`) under the
agent's name. The name and the version of its identity are part of ledger ids, saved states and
messages. Privacy is proved (docs/agents/questions.md). Regret is measured
(benchmarks/results/questions.md).
"""

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from confide.errors import InvalidParameter
from confide.identity import Identity
from confide.learning.agent import Profile
from confide.learning.algorithm import Calibration, Description, Round
from confide.learning.arguments import check_choices, check_episodes_and_privacy
from confide.learning.learner import Learner
from confide.learning.question import Question
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.mixtures.footprint import questions_footprint
from confide.mixtures.questions.contributions import Answers, AnswerSums
from confide.mixtures.questions.policy_planning import QuestionProblem
from confide.mixtures.questions.round_planning import (
    MIN_GROWTH,
    plan_round,
    questions_in,
    questions_until,
)
from confide.mixtures.requirements import require_mixture, require_simplex
from confide.mixtures.value_features import by_transition, value_steps
from confide.planners.reward_features import RewardFeatures, centred_rewards
from confide.privacy.bounded import Released
from confide.privacy.request import LocalDP, Request
from confide.privatizers import AtMost, ExpectedNoise, expected_noise
from confide.problems.linear_mixture import LinearMixturePublic
from confide.problems.sizes import ProblemSizes

# The spread of posterior samples, in their standard deviations. Chosen for a small regret.
SPREAD = 0.4
# With noise, a round asks at most so many questions per step whose transitions or rewards are
# unknown. More questions have more noise each, so more are hardly ever chosen. A matter of taste.
MAX_QUESTIONS_PER_STEP = 3


@dataclass(frozen=True, slots=True, eq=False)
class QuestionPlanning:
    """Plans a round from a release, and says what its users contribute."""

    problem: QuestionProblem
    # How many numbers the users of a round contribute is decided from releases.
    changing: ClassVar[bool] = True

    @property
    def bound(self) -> Answers:
        """The bound of a round that asks one question per step. A round states its own."""
        return Answers(self.problem.steps)

    def plan(self, released: Released) -> Round:
        question_round = plan_round(self.problem, released)
        public = question_round.public
        statistic = AnswerSums(
            question_round.steps, question_round.signs, question_round.about_rewards
        )
        size = statistic.bound, question_round.users
        return Round(public.policies, statistic, public.memory, public.signal, public.shares, size)

    def questions(self, released: Released) -> list[Question]:
        """What was asked up to this release, and what was answered, in words."""
        return questions_until(self.problem, released)

    def questions_with_open_round(self, open_round: Round) -> list[Question]:
        """The same with the questions of the round that is still open."""
        return questions_in(self.problem, open_round.memory["table"])

    def describe(self) -> Description:
        return Description(
            "tight",
            f"policies for weights drawn from the posterior, {self.problem.spread:g} x its "
            "standard deviation, and two explorers; yes/no questions where the answer is most "
            "uncertain and matters most",
        )


class QuestionsVI(Learner):
    """Value iteration on mixture weights that are learned from few yes/no questions per user.

    Guarantee: joint DP (`JointDP`) for every user, by one query per user: the answers to the
    questions of its round, under K-norm noise. Or local DP (`LocalDP`), by one message from each
    user's device, which answers a few of them by randomized response (`SignReport`). The guarantee
    is pure epsilon-DP, also where delta > 0 is allowed, because for few numbers this noise is
    smaller than the Gaussian. Policies, questions and the sizes of rounds are functions of releases
    and of a public seed. PRIVACY IS PROVED; REGRET IS MEASURED
    (docs/agents/mixtures.md), not proved.

    Unknown rewards, linear in public features, are learned from questions about them: whether the
    reward of a step was high in some states and low in others.

    Why it asks so little: at epsilon = 1 each number that a user sends costs noise on all of them,
    and most numbers that a user could send say nothing about what is still undecided. A question
    asks whether a transition speaks for one direction of the weights or against it.

    `bonus_scale` is the spread of the posterior samples in their standard deviations (0.4).
    """

    name = "questions-vi"
    profile = Profile(
        "posterior sampling on few yes/no questions per user, chosen from releases",
        family="mixture",
        paper="confide",
        kernels=True,
    )
    abilities = replace(Learner.abilities, questions=True)

    @classmethod
    def footprint(
        cls,
        sizes: ProblemSizes,
        *,
        episodes: int,
        **options: Any,  # noqa: ARG003 - other options change nothing here
    ) -> Footprint:
        return questions_footprint(sizes, schedule=most_rounds(episodes))

    def __init__(
        self,
        public: LinearMixturePublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        bonus_scale: float | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        require_mixture(public, "QuestionsVI", known_rewards=False)
        require_simplex(public, "QuestionsVI")
        if not isinstance(calibration, str) or calibration != "tight":
            raise InvalidParameter(
                'calibration must be "tight" because QuestionsVI is in no paper, '
                f"got calibration={calibration!r}"
            )
        check_choices(calibration, bonus_scale)
        check_episodes_and_privacy(episodes, privacy)
        schedule = most_rounds(episodes)
        reward_features = unknown_rewards(public)
        noise_stds = [
            expected_noise(Answers(count), schedule, privacy=privacy, discrete=False).first
            for count in range(1, most_questions(public, reward_features, privacy) + 1)
        ]
        spread = SPREAD if bonus_scale is None else bonus_scale
        problem = QuestionProblem(
            public,
            episodes,
            tuple(noise_stds),
            noise_per_user=isinstance(privacy, LocalDP),
            spread=spread,
            reward_features=reward_features,
            kernels=by_transition(public.kernels),
        )
        super().__init__(
            Calibration(QuestionPlanning(problem), schedule),
            privacy=privacy,
            identity=Identity(self.name, 1, public=public, spread=spread),
            noise=noise,
        )

    def questions(self) -> list[Question]:
        """All questions so far, those of the open round included. Public.

        Each says what was asked, when and why, and what was answered.
        """
        planning = self._planning()
        if self.is_exhausted:
            return planning.questions(self.released())
        return planning.questions_with_open_round(self.current_round())

    def expected_noise(self) -> ExpectedNoise:
        """The noise of a round with as few questions as possible, and with as many as possible."""
        discrete = self.noise is not None and self.noise.discrete
        fewest, most = (
            expected_noise(Answers(count), self.schedule, privacy=self.privacy, discrete=discrete)
            for count in (1, len(self._planning().problem.noise_stds))
        )
        return replace(most, first=fewest.first)

    def _planning(self) -> QuestionPlanning:
        algorithm = self.algorithm
        assert isinstance(algorithm, QuestionPlanning)
        return algorithm


def unknown_rewards(public: LinearMixturePublic) -> RewardFeatures | None:
    """The features in which unknown rewards are linear, or None where rewards are known."""
    if public.rewards is not None:
        return None
    if public.reward_features is None:
        raise InvalidParameter(
            "QuestionsVI needs known rewards, or features in which they are linear"
        )
    return centred_rewards(public.reward_features)


def most_rounds(episodes: int) -> AtMost:
    """As many rounds as there can be if each is as small as planning allows.

    After 8 rounds of `MIN_USERS` or more, at least 30 users have come. From then on each round has
    the share `MIN_GROWTH` of the users before it.
    """
    later_rounds = math.log(max(episodes / 30, 1.0)) / math.log(1 + MIN_GROWTH)
    return AtMost(episodes, 8 + math.ceil(later_rounds))


def most_questions(
    public: LinearMixturePublic, reward_features: RewardFeatures | None, privacy: Request
) -> int:
    """As many questions as a round asks at most: without noise, one for each unknown number."""
    steps = value_steps(public.horizon)
    reward_steps = 0 if reward_features is None else public.horizon
    reward_dimension = 0 if reward_features is None else reward_features.dimension
    unknowns = max((public.dimension - 1) * steps + reward_dimension * reward_steps, 1)
    if privacy.epsilon == math.inf:
        return unknowns
    return min(unknowns, MAX_QUESTIONS_PER_STEP * (steps + reward_steps))
