"""What an agent does with its users' data, in numbers, before there are any data.

Everything here is computed from what an agent was made with; nothing of the agent is touched, so that a run after an explanation is bit
by bit the run without it.
"""

import math
from dataclasses import dataclass, field
from typing import Any

from confide.errors import InvalidParameter
from confide.learning.learner import Algorithm, Learner
from confide.linear_mdps.lsvi_ucb import StoredLearner
from confide.mechanisms.additive import additive_noise
from confide.mechanisms.counters import Exact, Leaves
from confide.mixtures.contributions import StackedRows
from confide.mixtures.likelihood_vi import PosteriorSampling
from confide.mixtures.linopt_po import OptimisticPolicyOptimisation
from confide.mixtures.linopt_vi import OptimisticValueIteration
from confide.mixtures.ucrl_vtr import ValueTargetedPlanning
from confide.mixtures.ucrl_vtr_plus import PrintedPlanning, VarianceAwarePlanning
from confide.planners.regression import Repair, Shift
from confide.privacy.bounded import Bound, L2Ball
from confide.privacy.certificate import describe
from confide.privacy.guarantee import SLACK
from confide.privacy.loss import NO_PRIVACY, loss_for, share_of
from confide.privacy.request import LocalDP, NoPrivacy, Relation, Request, Trust
from confide.privatizers import Schedule, best_counter, worst_std
from confide.statistics.bounds import RegressionRows, WeightedRows


@dataclass(frozen=True, slots=True)
class Noise:
    """On each released number; standard deviations at the first, the last and the worst release."""

    mechanism: str
    distribution: str  # gaussian | laplace | none
    norm: int
    sensitivity: float  # of one user's numbers together, in that norm
    epsilon: float  # what it really gives at the delta asked for
    first: float
    last: float
    worst: float


@dataclass(frozen=True, slots=True)
class Facts:
    """One agent, as it is before any data."""

    name: str
    calibration: str
    planning: str
    request: Request
    trust: Trust
    schedule: Schedule = field(repr=False)
    bound: Bound
    noise: Noise

    @property
    def kept(self) -> bool:
        """Whether the noise keeps the promise; if not, a run is refused."""
        return self.noise.epsilon <= self.request.epsilon * (1 + SLACK)

    @property
    def relative_noise(self) -> float:
        """At the worst release, against the most that one user can change, in the norm that the noise answers to.

        Comparable between agents whose noise has the same distribution: another one answers to another norm.
        """
        return self.noise.worst / self.noise.sensitivity if self.noise.worst else 0.0

    @property
    def users_until_signal(self) -> int | None:
        """Until k users' rows, as long as the bound allows, give Lambda eigenvalues k L^2 / m above the noise's norm, s sqrt(2m).

        At best: rows are shorter, and do not point everywhere alike. None where there is no regression, or no noise.
        """
        found = _rows(self.bound)
        if found is None or self.noise.worst == 0:
            return None
        m, L = found
        needed = m * math.sqrt(2 * m) / L**2
        if self.trust is Trust.LOCAL:  # the noise grows, too: s = s_1 sqrt(k)
            return math.ceil((needed * self.noise.worst) ** 2 / self.schedule.users)
        return math.ceil(needed * self.noise.worst)

    def to_json(self) -> dict[str, Any]:
        epsilon = self.noise.epsilon
        return {
            "agent": self.name,
            "calibration": self.calibration,
            "request": None if isinstance(self.request, NoPrivacy) else str(self.request),
            "epsilon": epsilon if math.isfinite(epsilon) else None,
            "delta": self.request.delta,
            "kept": self.kept,
            "relation": str(Relation(self.request.relation)),
            "trust": self.trust.value,
            "users": self.schedule.users,
            "bound": describe(self.bound) or {"name": type(self.bound).__name__},
            "numbers_per_user": self.bound.size,
            "sensitivity": self.noise.sensitivity,
            "norm": self.noise.norm,
            "mechanism": self.noise.mechanism,
            "distribution": self.noise.distribution,
            "releases": self.schedule.leaves,
            "first_release": self.schedule.times[0],
            "noise_std_first": self.noise.first,
            "noise_std_last": self.noise.last,
            "noise_std_worst": self.noise.worst,
            "relative_noise": self.relative_noise,
            "planning": self.planning,
            "users_until_signal": self.users_until_signal,
        }


def facts(agent: Any) -> Facts:
    """Of an agent that was made, and need not have noise yet."""
    if isinstance(agent, type | str):
        name = agent if isinstance(agent, str) else agent.__name__
        raise InvalidParameter(f"{name} is no agent yet: make an agent first, with a problem, episodes and privacy")
    if not isinstance(agent, Learner):
        name = getattr(agent, "name", type(agent).__name__)
        raise InvalidParameter(f"explain knows learners (confide.learning.learner.Learner), {name} is none")
    trust = agent.privacy.trust if isinstance(agent.privacy, NoPrivacy | LocalDP) else Trust.JOINT
    calibration, planning = _planning(agent.algorithm)
    if isinstance(agent, StoredLearner):
        steps, switches = agent.asking.asked_steps, agent.batches.switches
        planning += f"; {steps} responses asked again at each of at most {switches} changes of policy{_answers(agent)}"
    return Facts(agent.name, calibration, planning, agent.privacy, trust, agent.schedule, agent.algorithm.bound, _noise_of(agent))


def _noise_of(agent: Learner) -> Noise:
    """As the privatizer will add it, without making the privatizer: that would fix the agent's source of noise."""
    privacy, schedule, local = agent.privacy, agent.schedule, isinstance(agent.privacy, LocalDP)
    discrete = agent.noise is not None and agent.noise.discrete  # confide.run gives fast noise to an agent that has none
    loss = agent._loss or (NO_PRIVACY if isinstance(privacy, NoPrivacy) else loss_for(privacy))
    counter = Exact(1) if local else agent._counter
    counter = counter or best_counter(schedule.leaves, privacy, discrete=discrete, users=schedule.users)
    made = additive_noise(
        agent.algorithm.bound, loss, Relation(privacy.relation), counter, discrete=discrete, users=schedule.users
    )
    if local:
        first, last = (made.std * math.sqrt(users) for users in (schedule.times[0], schedule.users))
        worst = last
    elif isinstance(counter, Leaves):  # who takes it looks at each batch on its own, not at their sum
        first = last = worst = made.std
    else:
        first, last = (made.std * counter.row_norm(t) for t in (1, schedule.leaves))
        worst = made.std * worst_std(counter, made.norm) / made.stream_norm
    mechanism = "local" if local else counter.name
    given = agent.loss if isinstance(agent, StoredLearner) else made.loss()  # the counter's is a part of it
    assert given is not None
    epsilon = given.epsilon_at(privacy.delta)
    return Noise(mechanism, made.distribution, made.norm, made.sensitivity, epsilon, first, last, worst)


def _answers(agent: StoredLearner) -> str:
    """The noise of its answers, in words: the counter's is told elsewhere."""
    shares, dimension = agent.budget.shares, agent.asking.rule.features.shape[2]
    if isinstance(agent.privacy, NoPrivacy) or not shares:
        return ""
    levels = [
        additive_noise(
            L2Ball(1.0, dimension),
            share_of(agent.budget.responses, share),
            Relation(agent.privacy.relation),
            Exact(1),
            discrete=False,
            users=1,
        ).std
        for share in (max(shares), min(shares))
    ]
    return f", with noise of {levels[0]:.3g} to {levels[1]:.3g} times half their range"


def _planning(algorithm: Algorithm) -> tuple[str, str]:
    """The calibration, and what is done about the noise, in words. An algorithm that is not known here may `describe()` itself."""
    bound = algorithm.bound
    match algorithm:
        case ValueTargetedPlanning():
            kind = {Shift: "paper", Repair: "tight"}.get(type(algorithm.regularizer), "its own")
            return kind, _regularized(algorithm.regularizer, bound)
        case PrintedPlanning(constants=constants):
            first = Shift(constants.ridge + 2 * constants.upsilon[0], constants.widths(1)[1] * algorithm.bonus_scale)
            return "paper", f"{_regularized(first, bound)} and growing"
        case VarianceAwarePlanning():
            return "tight", f"{_regularized(algorithm.regularizer, bound)}; rows weighted by estimated variances"
        case OptimisticValueIteration() | OptimisticPolicyOptimisation():
            both = algorithm.regressions
            words = _regularized(both.regularizer, bound)
            if both.reward_regularizer is not None:
                words += "; the same for rewards"
            elif isinstance(algorithm, OptimisticValueIteration) and not both.plain and isinstance(both.regularizer, Repair):
                words += "; rewards are known, so this is ucrl-vtr"
            if isinstance(algorithm, OptimisticPolicyOptimisation):
                words += f"; softmax policies, step {algorithm.step:.3g} per user"
            return "paper" if both.plain else "tight", words
        case PosteriorSampling():
            return "tight", f"policies for weights drawn from the posterior, {algorithm.spread:g} x its standard deviation"
    own = getattr(algorithm, "describe", None)
    said = own() if callable(own) else {}
    return said.get("calibration", "its own"), said.get("planning", type(algorithm).__name__)


def _regularized(regularizer: Any, bound: Bound) -> str:
    match regularizer:
        case Shift(shift, beta):
            found = _rows(bound)
            against = f", which takes {shift * found[0] / found[1] ** 2:,.0f} users at best to outweigh" if found else ""
            return f"Lambda + {shift:.3g} I{against}; proved width beta = {beta:.3g}"
        case Repair():
            ridge = f"eigenvalues clipped at 0, ridge {regularizer.ridge / 2:g} x the norm of the noise"
            return f"{ridge}; bonus {regularizer.bonus_scale:g} x the standard error"
    return type(regularizer).__name__


def _rows(bound: Bound) -> tuple[int, float] | None:
    """(m, L) of a regression's rows: its dimension, and the norm of the longest."""
    match bound:
        case RegressionRows():
            return bound.dimension, bound.row_norm
        case WeightedRows() | StackedRows():
            return bound.dimension, 1.0
    return None
