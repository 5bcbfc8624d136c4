"""Questions: our own learner for mixtures of known kernels, which asks each user little. Privacy is proved, regret is measured."""

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
from confide.mixtures.questions.round_planning import (
    LEAST,
    QuestionProblem,
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


@dataclass(frozen=True, slots=True, eq=False)
class QuestionPlanning:
    """Between two releases: estimate the weights from answers, draw plausible weights, plan for each, and decide what to ask next."""

    problem: QuestionProblem
    # how many numbers the users of a round contribute is decided from releases
    changing: ClassVar[bool] = True

    @property
    def bound(self) -> Answers:
        """Of a round that asks one question per step: how many it asks is decided from releases."""
        return Answers(self.problem.steps)

    def plan(self, released: Released) -> Round:
        planned = plan_round(self.problem, released)
        public = planned.public
        statistic = AnswerSums(planned.steps, planned.signs, planned.about_rewards)
        size = statistic.bound, planned.users
        return Round(public.policies, statistic, public.memory, public.signal, public.shares, size)

    def questions(self, released: Released) -> list[Question]:
        """What was asked up to this release, and what was answered, in words."""
        return questions_until(self.problem, released)

    def asked(self, planned: Round) -> list[Question]:
        """The same with the questions of the round that was planned from it, which is still open."""
        return questions_in(self.problem, planned.memory["table"])

    def describe(self) -> Description:
        planning = f"policies for weights drawn from the posterior, {self.problem.spread:g} x its standard deviation, and two explorers"
        return Description(
            "tight",
            f"{planning}; yes/no questions where the answer is most uncertain and matters most",
        )


def _unknown_rewards(public: LinearMixturePublic) -> RewardFeatures | None:
    if public.rewards is not None:
        return None
    if public.reward_features is None:
        raise InvalidParameter(
            "QuestionsVI needs known rewards, or features in which they are linear"
        )
    return centred_rewards(public.reward_features)


def rounds_of(episodes: int) -> AtMost:
    """As many rounds as there can be, if each has at least the share LEAST of all users before it."""
    return AtMost(episodes, 8 + math.ceil(math.log(max(episodes / 30, 1.0)) / math.log(1 + LEAST)))


class QuestionsVI(Learner):
    """Value iteration on mixture weights that are learned from few yes/no questions per user, chosen from earlier releases.

    Guarantee: joint DP (`JointDP`) for every user, by one query per user: the answers to the questions of its round, under K-norm noise;
    or local DP (`LocalDP`), by one index from each user's device, which answers a few of them by randomized response (`SignReport`).
    The guarantee is pure, epsilon alone, also where delta > 0: for few numbers this noise is smaller than the Gaussian. Policies,
    questions and the sizes of rounds are functions of releases and of a public seed. PRIVACY IS PROVED; REGRET IS MEASURED
    (docs/agents/mixtures.md), not proved.

    Unknown rewards, linear in public features, are learned from questions about them: whether the reward of a step was high in some states
    and low in others.

    Why it asks so little: at epsilon = 1 each number that a user sends costs noise on all of them, and most numbers that a user could send
    say nothing about what is still undecided. A question asks whether a transition speaks for one direction of the weights or against it.

    `bonus_scale` is the spread of the posterior samples in its standard deviations (default 0.4).
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
    def footprint(cls, sizes: ProblemSizes, *, episodes: int, **options: Any) -> Footprint:  # noqa: ARG003
        return questions_footprint(sizes, schedule=rounds_of(episodes))

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
                f'QuestionsVI is in no paper: calibration must be "tight", got calibration={calibration!r}'
            )
        check_choices(calibration, bonus_scale)
        check_episodes_and_privacy(episodes, privacy)
        schedule = rounds_of(episodes)
        steps, d = value_steps(public.horizon), public.dimension
        rewards = _unknown_rewards(public)
        unknown = 0 if rewards is None else rewards.dimension * public.horizon
        most = max((d - 1) * steps + unknown, 1)
        most = (
            most
            if privacy.epsilon == math.inf
            else min(most, 3 * (steps + (public.horizon if unknown else 0)))
        )
        stds = [
            expected_noise(Answers(D + 1), schedule, privacy=privacy, discrete=False).first
            for D in range(most)
        ]
        spread = 0.4 if bonus_scale is None else bonus_scale
        problem = QuestionProblem(
            public,
            episodes,
            tuple(stds),
            isinstance(privacy, LocalDP),
            spread,
            rewards,
            by_transition(public.kernels),
        )
        identity = Identity(self.name, 1, public=public, spread=spread)
        super().__init__(
            Calibration(QuestionPlanning(problem), schedule),
            privacy=privacy,
            identity=identity,
            noise=noise,
        )

    def questions(self) -> list[Question]:
        """All questions so far, those of the open round included: what was asked, when, why, and what was answered. Public."""
        algorithm = self.algorithm
        assert isinstance(algorithm, QuestionPlanning)
        return (
            algorithm.questions(self.released())
            if self.is_exhausted
            else algorithm.asked(self.current_round())
        )

    def expected_noise(self) -> ExpectedNoise:
        """Of the first round at least, and of a round with as many questions as there can be at most."""
        algorithm = self.algorithm
        assert isinstance(algorithm, QuestionPlanning)
        discrete = self.noise is not None and self.noise.discrete
        few, many = (
            expected_noise(Answers(asked), self.schedule, privacy=self.privacy, discrete=discrete)
            for asked in (1, len(algorithm.problem.stds))
        )
        return replace(many, first=few.first)
