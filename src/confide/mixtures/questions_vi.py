"""Questions: our own learner for mixtures of known kernels, which asks each user little. Privacy is proved, regret is measured."""

import math
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.learning.arguments import check_choices
from confide.learning.learner import Calibration, Description, Learner, Round
from confide.mechanisms.sources import NoiseSource
from confide.mixtures import _question_kernels as _kernels
from confide.mixtures.linopt_vi import known_mixture
from confide.mixtures.question_contributions import Answers, AnswerSums
from confide.mixtures.question_planning import (
    PRIOR,
    SMALL,
    Asked,
    Belief,
    Evidence,
    believe,
    candidates,
    choose,
    evaluate,
    relevance,
)
from confide.mixtures.value_features import value_steps
from confide.policy import TabularPolicy
from confide.privacy.bounded import Memory, Released
from confide.privacy.request import Request
from confide.privatizers import AtMost, expected_noise
from confide.privatizers.schedule import divided
from confide.problems.linear_mixture import LinearMixturePublic

Array = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SAMPLES, HOPES = 4, 32  # weights that are played, the estimate and samples, and samples among which the most valuable one is
TIES = 1e-6  # differences of value that are none
RECENT = 8  # rounds whose visits are predicted again at each release
FIRST, LEAST = 5, 0.3  # users of a round, at least; and against all users before it
EXPLORERS = 0.1  # of a round's users, at most, for each of two policies that look for what is better


@dataclass(frozen=True, slots=True, eq=False)
class Questions:
    """Between two releases: estimate the weights from answers, draw plausible weights, plan for each, and decide what to ask next."""

    public: LinearMixturePublic
    episodes: int
    stds: Array  # of the noise on each answer, if 1, 2, ... questions are asked
    spread: float  # of the samples, against the posterior's standard deviation
    _kernels: Array = field(repr=False)  # [s, a, s', i]

    @property
    def bound(self) -> Answers:
        """Of a round that asks one question per step: how many it asks is decided from releases."""
        return Answers(value_steps(self.public.horizon))

    def plan(self, released: Released) -> Round:
        rounds, folded = self._recall(released)
        belief, first = believe(rounds, folded, self._kernels, self.public.start)
        if len(rounds) > RECENT:
            rounds, folded = rounds[1:], first
        seed = released.memory["seed"]
        rng = np.random.default_rng([int(seed), released.generation])
        left = max(self.episodes - released.users, 1)
        rewards = self._rewards(rng)
        values, _ = _kernels.best_policies(self._kernels, rewards, belief.weights[None])
        policies, hopes, matters = self._policies(belief, rewards, rng)
        even = np.append(np.full(SAMPLES, 1 / SAMPLES), [0.0, 0.0])
        known = candidates(belief, policies, even, matters, self._kernels, self.public.start, rng)
        users = self._users(released.users, left, belief, known.rows, known.steps)
        shares = self._shares(users, left, float(self.public.start @ values[0, 0]), policies, hopes, belief.weights)
        known = candidates(belief, policies, shares, matters, self._kernels, self.public.start, rng)
        asked = choose(belief, known, users, self.stds)
        steps, thetas = known.steps[asked], np.ascontiguousarray(known.thetas[asked])
        signs = np.stack([_kernels.signs(self._kernels, theta, SMALL) for theta in thetas])
        memory = {"seed": seed, **_remembered(rounds, folded)}
        memory |= {"policies": policies, "shares": shares, "steps": steps, "thetas": thetas, "total": np.array(released.users)}
        shown = tuple(TabularPolicy(actions, self.public.actions) for actions in policies)
        signal = users * _clearest(belief, known.rows, known.steps)
        statistic = AnswerSums(steps, signs)
        return Round(shown, statistic, memory, signal if released.generation else None, tuple(shares), (statistic.bound, users))

    def _rewards(self, rng: np.random.Generator) -> Array:
        """Where actions are equally good they are played at random: there, too, users can show something."""
        assert self.public.rewards is not None
        rewards: Array = self.public.rewards + TIES * rng.random(self.public.rewards.shape)
        return rewards

    def _policies(self, belief: Belief, rewards: Array, rng: np.random.Generator) -> tuple[Ints, list[float], Array]:
        """Policies for the estimate and samples of the belief, and two explorers with their hopes: the most valuable sample, optimism.

        And how much the choice between the best policies of plausible weights depends on the weights of each step.
        """
        drawn = belief.samples(SAMPLES, self.spread, rng)
        drawn[0] = belief.weights
        _, played = _kernels.best_policies(self._kernels, rewards, drawn)
        plausible = belief.samples(HOPES, 1.0, rng)
        values, others = _kernels.best_policies(self._kernels, rewards, plausible)
        worth = values[:, 0] @ self.public.start
        width = math.sqrt(PRIOR * (1 - 1 / self.public.dimension))  # all of the simplex is in the prior's ellipsoid
        hoped, hopeful = _kernels.hopeful(self._kernels, rewards, belief.weights, belief.covariance, width)
        policies = np.concatenate([played, others[worth.argmax()][None], hopeful[None]])
        matters = relevance(_kernels.gradients(self._kernels, values, others, plausible, self.public.start) / values.max())
        return policies, [float(worth.max()), float(self.public.start @ hoped[0])], matters

    def _users(self, served: int, left: int, belief: Belief, rows: Array, steps: Ints) -> int:
        """So many that the clearest question is as large as its noise, within limits: few releases, and none too late."""
        std = float(self.stds[min(self.public.horizon - 1, len(self.stds)) - 1])
        wanted = std / max(_clearest(belief, rows, steps), 1e-12)
        most = served or self.episodes / 50
        return int(min(math.ceil(max(min(wanted, most), LEAST * served, FIRST, 3 * std)), left))

    def _shares(self, users: int, left: int, best: float, policies: Ints, hopes: list[float], weights: Array) -> Array:
        """Explorers get users by what they could gain in all users to come, against what they lose by the estimate."""
        least = max(3.0, 2 * float(self.stds[min(self.public.horizon - 1, len(self.stds)) - 1])) / 2
        explorers = []
        assert self.public.rewards is not None
        for actions, hope in zip(policies[SAMPLES:], hopes, strict=True):
            worth = evaluate(self._kernels, self.public.rewards, self.public.start, actions, weights)
            wanted = 0.005 * max(hope - best, 0.0) * left / max(best - worth, 1e-3)
            explorers.append(min(EXPLORERS * users, max(least, wanted)))
        return np.append(np.full(SAMPLES, (users - sum(explorers)) / SAMPLES), explorers) / users

    def _recall(self, released: Released) -> tuple[list[Asked], Evidence]:
        memory, (steps, d) = released.memory, (value_steps(self.public.horizon), self.public.dimension)
        if set(memory) == {"seed"}:
            return [], Evidence(np.zeros((steps, d, d)), np.zeros((steps, d)))
        rounds = [_asked(memory, str(number)) for number in range(int(memory["rounds"]))]
        users = np.array(divided(released.users - int(memory["total"]), memory["shares"]), dtype=np.float64)
        last = Asked(memory["policies"], users, memory["steps"], memory["thetas"], released.values, released.noise.std)
        return [*rounds, last], Evidence(memory["precision"], memory["information"])

    def describe(self) -> Description:
        planning = f"policies for weights drawn from the posterior, {self.spread:g} x its standard deviation, and two explorers"
        return Description("tight", f"{planning}; yes/no questions where the answer is most uncertain and matters most")


def _clearest(belief: Belief, rows: Array, steps: Ints) -> float:
    """The largest standard deviation of a question's answer under the belief, per user; rounding may make the smallest ones negative."""
    return float(np.sqrt(max(np.einsum("qi,qij,qj->q", rows, belief.covariance[steps], rows).max(), 0.0)))


_PARTS = ("policies", "users", "steps", "thetas", "answers")


def _remembered(rounds: list[Asked], folded: Evidence) -> dict[str, npt.NDArray[np.generic]]:
    memory: dict[str, npt.NDArray[np.generic]] = {"precision": folded.precision, "information": folded.information}
    for number, asked in enumerate(rounds):
        memory |= {f"{number}.{part}": getattr(asked, part) for part in _PARTS} | {f"{number}.std": np.array(asked.std)}
    return memory | {"rounds": np.array(len(rounds))}


def _asked(memory: Memory, number: str) -> Asked:
    policies, users, steps, thetas, answers = (memory[f"{number}.{part}"] for part in _PARTS)
    return Asked(policies, users, steps, thetas, answers, float(memory[f"{number}.std"]))


class QuestionsVI(Learner):
    """Value iteration on mixture weights that are learned from few yes/no questions per user, chosen from earlier releases.

    Guarantee: joint DP (`JointDP`) for every user, by one query per user: the answers to the questions of its round, under K-norm noise.
    The guarantee is pure, epsilon alone, also where delta > 0: for few numbers this noise is smaller than the Gaussian. Policies,
    questions and the sizes of rounds are functions of releases and of a public seed. PRIVACY IS PROVED; REGRET IS MEASURED
    (docs/mixtures.md), not proved.

    Why it asks so little: at epsilon = 1 each number that a user sends costs noise on all of them, and most numbers that a user could send
    say nothing about what is still undecided. A question asks whether a transition speaks for one direction of the weights or against it.

    `bonus_scale` is the spread of the posterior samples in its standard deviations (default 0.4).
    """

    name = "questions-vi"

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
        known_mixture(public, "QuestionsVI")
        if calibration != "tight":
            raise InvalidParameter(f'QuestionsVI is in no paper: calibration must be "tight", got calibration={calibration!r}')
        check_choices(calibration, bonus_scale)
        schedule = AtMost(episodes, 8 + math.ceil(math.log(max(episodes / 30, 1.0)) / math.log(1 + LEAST)))
        steps, d = value_steps(public.horizon), public.dimension
        most = max((d - 1) * steps, 1)
        most = most if privacy.epsilon == math.inf else min(most, 3 * steps)
        stds = [expected_noise(Answers(D + 1), schedule, privacy=privacy, discrete=False).worst for D in range(most)]
        spread = 0.4 if bonus_scale is None else bonus_scale
        kernels = np.ascontiguousarray(np.moveaxis(public.kernels, 0, -1))
        algorithm = Questions(public, episodes, np.array(stds), spread, kernels)
        super().__init__(Calibration(algorithm, schedule), privacy=privacy, noise=noise)
