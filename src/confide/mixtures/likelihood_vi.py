"""Likelihood moments: our own learner for mixtures of known kernels. Privacy is proved, regret is measured."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from confide.errors import InvalidParameter
from confide.learning.agent import Profile
from confide.learning.arguments import check_asked, check_choices, choose_schedule
from confide.learning.learner import Calibration, Description, Learner, Round
from confide.learning.resources import Footprint
from confide.mechanisms.sources import NoiseSource
from confide.mixtures._question_kernels import hopeful
from confide.mixtures.code_contributions import TableRows, TransitionSums
from confide.mixtures.code_features import best_codes, means
from confide.mixtures.explorer_planning import SAID, explored
from confide.mixtures.footprint import likelihood_footprint
from confide.mixtures.likelihood_memory import (
    Shape,
    evidence_in,
    fold_oldest,
    leaves_in,
    recall_rounds,
)
from confide.mixtures.likelihood_planning import Posterior, posterior
from confide.mixtures.linopt_vi import known_mixture
from confide.mixtures.planning import optimistic
from confide.mixtures.value_features import SparseKernels, reduced, sparse, value_steps
from confide.mixtures.weight_value_planning import valued
from confide.planners.history import History
from confide.planners.policy_value import Played, Valued
from confide.planners.regression import NO_BONUS, Estimate, project_simplex
from confide.planners.visits import served_in, with_open_round
from confide.policy import TabularPolicy
from confide.privacy.bounded import Released
from confide.privacy.request import LocalDP, NoPrivacy, Request
from confide.privatizers import Schedule, counter_of_rates, geometric
from confide.problems.linear_mixture import LinearMixturePublic
from confide.problems.sizes import ProblemSizes

Array = npt.NDArray[np.float64]
# samples of the posterior per round: fewer are less robust, more are slower and no better
POLICIES = 4
TIES = 1e-6  # differences of value that are none
HOPE = 2.0  # standard deviations of the posterior, for an explorer


@dataclass(frozen=True, slots=True, eq=False)
class PosteriorSampling:
    """Between two releases: estimate the weights from the sums of codes, draw plausible weights around them, plan for each."""

    public: LinearMixturePublic
    statistic: TransitionSums
    spread: float  # of the samples, against the posterior's standard deviation
    schedule: Schedule
    shape: Shape
    _means: Array = field(repr=False)
    _seen: SparseKernels = field(repr=False)
    _by_transition: Array = field(repr=False)  # the kernels as [s, a, s', i]

    @property
    def bound(self) -> TableRows:
        return self.statistic.bound

    def plan(self, released: Released) -> Round:
        history = recall_rounds(released, self.shape)
        known = self._known(history)
        rng = np.random.default_rng([int(released.memory["seed"]), released.generation])
        policies = tuple(self._policy(weights, rng) for weights in self._samples(known, rng))
        share = explored(self.schedule.times, released.generation)
        policies = (*policies, self._explorer(known, rng)) if share else policies
        shares = np.append(np.full(POLICIES, (1 - share) / POLICIES), share)[: len(policies)]
        shown = np.stack([policy.actions for policy in policies])
        history = fold_oldest(history, known, self.shape).remember_release(released)
        history = with_open_round(history, shown, shares, released.users)
        return Round(
            policies,
            self.statistic,
            history.arrays,
            known.signal if released.generation else None,
            tuple(map(float, shares)),
        )

    def _known(self, history: History) -> Posterior:
        return posterior(
            leaves_in(history),
            served_in(history),
            evidence_in(history),
            ratio=self.shape.ratio or 0.0,
            kernels=self.public.kernels,
            codes=self.statistic.table,
            code_means=self._means,
            start=self.public.start,
        )

    def valued(self, released: Released, played: Sequence[Played]) -> Valued:
        """What the model of this release says about the policies of all rounds so far, the one that it opens included."""
        known = self._known(recall_rounds(released, self.shape))
        assert self.public.rewards is not None
        return valued(
            played,
            known,
            rewards=self.public.rewards,
            kernels=self.public.kernels,
            codes=self.statistic.table,
            code_means=self._means,
            start=self.public.start,
        )

    def _samples(self, known: Posterior, rng: np.random.Generator) -> Array:
        """Weights [sample, h, i] around the estimate, projected on the simplex."""
        H, d = known.weights.shape
        drawn = np.empty((POLICIES, H, d))
        for h in range(H):
            # the symmetric root: any other one depends on the eigenvectors, which rounding decides where eigenvalues are equal, and a
            # device must draw what the server draws
            eigenvalues, vectors = np.linalg.eigh(known.covariance[h])
            root = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
            even = rng.standard_normal((POLICIES, d))
            drawn[:, h] = known.weights[h] + self.spread * even @ root
        return project_simplex(drawn, np.broadcast_to(np.eye(d), (*drawn.shape, d)))

    def _explorer(self, known: Posterior, rng: np.random.Generator) -> TabularPolicy:
        """Optimistic by two standard deviations of the posterior, but never more than the best kernel allows."""
        _, actions = hopeful(
            self._by_transition, self._undecided(rng), known.weights, known.covariance, HOPE
        )
        return TabularPolicy(actions, self.public.actions)

    def _policy(self, weights: Array, rng: np.random.Generator) -> TabularPolicy:
        """The best policy for these weights."""
        features = self._seen.feature_map
        m = features.dimension
        certain = Estimate(
            features.coordinates(weights), np.broadcast_to(np.eye(m), (len(weights), m, m))
        )
        return optimistic(
            self._seen, self._undecided(rng), certain, feature_map=features, width=NO_BONUS
        ).policy

    def _undecided(self, rng: np.random.Generator) -> Array:
        """Rewards for which actions that are equally good are played at random: there, too, users can show something."""
        assert self.public.rewards is not None
        rewards: Array = self.public.rewards + TIES * rng.random(self.public.rewards.shape)
        return rewards

    def describe(self) -> Description:
        planning = f"policies for weights drawn from the posterior, {self.spread:g} x its standard deviation"
        return Description("tight", f"{planning}; {SAID}")


class LikelihoodVI(Learner):
    """Value iteration on mixture weights that are learned from sums of likelihood codes, with posterior sampling.

    Guarantee: joint DP (`JointDP`), local DP (`LocalDP`) or distributed DP (`DistributedDP`) for every user, by one query per user: the
    public code of each of its transitions (`mixtures/code_features.py`), all steps together; delta = 0 gives Laplace noise. Policies are
    functions of releases and of a public seed. PRIVACY IS PROVED; REGRET IS MEASURED (docs/mixtures.md), not proved: there is no regret
    theorem for this learner.

    Why it beats value-targeted regression at the same guarantee: a user sends d numbers per step, not d^2, and the code looks at all that a
    transition says about the kernels, not only at the value of the next state. Nothing about visits is released: they are predicted from
    the public policies, the start distribution and the estimates for earlier steps.

    `bonus_scale` is the spread of the posterior samples in its standard deviations (default 0.35). The users of a round are divided among
    four sampled policies: diversity inside a round costs nothing, since policies are functions of releases. Up to 2 % of the users explore:
    samples alone never found what lies behind several apparently bad steps.
    """

    name = "likelihood-vi"
    profile = Profile(
        "posterior sampling on private sums of likelihood codes",
        family="mixture",
        paper="confide",
        known_rewards=True,
        stuck="kernels that differ far from the start only",
    )
    abilities = replace(Learner.abilities, distributed=True)

    @classmethod
    def footprint(
        cls, sizes: ProblemSizes, *, episodes: int, privacy: Request, **options: Any
    ) -> Footprint:
        return likelihood_footprint(sizes, episodes=episodes, privacy=privacy, **options)

    def __init__(
        self,
        public: LinearMixturePublic,
        *,
        episodes: int,
        privacy: Request,
        calibration: str = "tight",
        schedule: Schedule | None = None,
        bonus_scale: float | None = None,
        noise: NoiseSource | None = None,
    ) -> None:
        known_mixture(public, "LikelihoodVI")
        check_asked(episodes, privacy, distributed=True)
        if not isinstance(calibration, str) or calibration != "tight":
            raise InvalidParameter(
                f'LikelihoodVI is in no paper: calibration must be "tight", got calibration={calibration!r}'
            )
        check_choices(calibration, bonus_scale)
        spread = 0.35 if bonus_scale is None else bonus_scale
        codes = best_codes(public.kernels, size=_size(privacy))
        statistic = TransitionSums(codes, value_steps(public.horizon))
        seen = sparse(reduced(public.dimension), public.kernels)
        chosen = choose_schedule(schedule, geometric(episodes))
        by_transition = np.ascontiguousarray(np.moveaxis(public.kernels, 0, -1))
        code_means = means(statistic.table, public.kernels)
        counter, ratio = counter_of_rates(chosen, privacy)
        shape = Shape(
            public.horizon,
            statistic.bound.steps,
            public.states,
            public.actions,
            public.dimension,
            statistic.bound.dimension,
            POLICIES + 1,
            ratio,
        )
        algorithm = PosteriorSampling(
            public, statistic, spread, chosen, shape, code_means, seen, by_transition
        )
        super().__init__(Calibration(algorithm, chosen, counter), privacy=privacy, noise=noise)


def _size(privacy: Request) -> str:
    """What the noise is in proportion to: of a codebook the norm of a code, of additive noise a distance between two."""
    if isinstance(privacy, LocalDP):
        return "radius"
    return (
        "l1_diameter" if privacy.delta == 0 and not isinstance(privacy, NoPrivacy) else "diameter"
    )
